//! Space: segments prepared ahead, freed ones, spares, and what to do on a full disk.
//!
//! The directory holds at most twice the live bytes and two segments, once compaction has caught
//! up. It holds at least what the owners' later records may need, [`JOURNAL_RESERVE_PER_JOB_BYTES`]
//! bytes each, and room for compaction, as bytes that are prepared or dead: compaction makes the
//! latter into the former. So a disk that is full is found out by a preparation that fails, while
//! there is still room for deletes.

use super::Journal;
use crate::base::limits::{
    JOURNAL_FULL_RETRY, JOURNAL_RESERVE_PER_JOB_BYTES, JOURNAL_SPARE_FRACTION,
};
use crate::base::time::{Mono, Now};
use crate::journal::disk::{DiskError, IoFailure, Op, PrefillTarget};
use crate::journal::format::{ALIGN, FRAME_HEAD, HEADER, RECORD_HEAD, SegmentHeader};
use crate::journal::live_index::LiveIndex;
use std::collections::VecDeque;

/// An operation on space under way.
#[derive(Debug)]
enum SegmentTask {
    /// Whether it takes as much new space as segments usually do.
    Prepare {
        epoch: u64,
        size: u64,
        fresh: bool,
    },
    Free {
        size: u64,
        keep: Option<u32>,
    },
    Discard {
        size: u64,
    },
}

#[derive(Debug)]
pub(super) struct SegmentAllocator {
    work: VecDeque<SegmentTask>,
    preparing: bool,
    /// Numbers and sizes of files kept for reuse.
    pub(super) spares: Vec<(u32, u64)>,
    next_spare: u32,
    /// Bytes of all files, those under way included.
    pub(super) total_bytes: u64,
    /// How many of them are about to go.
    leaving_bytes: u64,
    /// Bytes that the segments before the head are filled with.
    pub(super) behind_bytes: u64,
    /// Once this batch is durable, segments before this epoch go.
    pub(super) frees: VecDeque<(u64, u64)>,
    /// Whether there was no space when it was last asked for.
    pub(super) full: bool,
    /// What was said then.
    shortage: Option<DiskError>,
    retry_at: Mono,
}

impl SegmentAllocator {
    pub(super) fn new(ledger: &LiveIndex, head: u64) -> Self {
        let before = usize::try_from(head - ledger.first_epoch).expect("segments fit into memory");
        Self {
            work: VecDeque::new(),
            preparing: false,
            spares: Vec::new(),
            next_spare: 0,
            total_bytes: ledger.segments.iter().map(|segment| segment.size).sum(),
            leaving_bytes: 0,
            behind_bytes: ledger.segments.iter().take(before).map(|segment| segment.used).sum(),
            frees: VecDeque::new(),
            full: false,
            shortage: None,
            retry_at: Mono(0),
        }
    }

    /// Whether nothing is under way but what a journal that has written everything does without: a
    /// segment ahead.
    pub(super) fn can_be_left(&self) -> bool {
        self.work.iter().all(|work| matches!(work, SegmentTask::Prepare { .. }))
    }
}

/// What is to be prepared next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PrepareRequest {
    /// This segment, which has its place already.
    Planned(u64),
    /// One more.
    Another,
}

impl Journal {
    /// What the directory may hold once compaction has caught up.
    fn bound(&self) -> u64 {
        2 * self.ledger.live_bytes + 2 * self.options.segment_bytes
    }

    /// Bytes that stay.
    fn held_bytes(&self) -> u64 {
        self.space.total_bytes - self.space.leaving_bytes
    }

    /// Bytes that are kept in reserve for so many owners: never more than half of what is live,
    /// lest records smaller than the reserve double the directory.
    fn reserve(owners: u64, live_bytes: u64) -> u64 {
        (owners * JOURNAL_RESERVE_PER_JOB_BYTES)
            .min(live_bytes / 2)
            .max(live_bytes / JOURNAL_SPARE_FRACTION)
    }

    /// Bytes that compaction needs at all times to be able to go on: a segment to move into, a head
    /// full of what is dead, and something that is worth the effort.
    fn free_bytes_left(&self) -> u64 {
        self.options.segment_bytes * 5 / 2
    }

    /// How many segments stand ready, or nearly so, behind the head.
    fn prepared(&self) -> u64 {
        self.ledger.end_epoch() - self.head - 1
    }

    /// Bytes that batches can be written to at once.
    pub(super) fn free_bytes(&self) -> u64 {
        let from = self.ledger.at(self.head);
        let ready = self.ledger.segments.iter().skip(from).take_while(|segment| segment.ready);
        ready.map(|segment| segment.size - segment.used).sum()
    }

    /// Whether a record of so many bytes that makes the live data grow may be appended. False only
    /// on a full disk, as long as what is left is needed for the later records of the owners that
    /// there are, and for compaction.
    #[must_use]
    pub fn has_capacity(&self, bytes: usize) -> bool {
        self.lacks(bytes) == 0
    }

    /// How many bytes of space are lacking for such a record.
    #[must_use]
    pub fn lacks(&self, bytes: usize) -> u64 {
        if !self.space.full {
            return 0;
        }
        let bytes = (bytes + RECORD_HEAD + FRAME_HEAD + ALIGN) as u64;
        let live = self.ledger.live_bytes + bytes;
        let slack = self.held_bytes().saturating_sub(live);
        let reserve = Self::reserve(self.ledger.owners + 1, live);
        let usual = self.options.segment_bytes;
        let ready = self.free_bytes().saturating_sub(self.pending_bytes());
        let to_write = (bytes + self.oldest_live() + usual / 4).saturating_sub(ready);
        to_write.max((reserve + self.free_bytes_left()).saturating_sub(slack))
    }

    /// Why there is no more space, if there was none when it was last asked for.
    #[must_use]
    #[inline]
    pub fn shortage(&self) -> Option<&DiskError> {
        self.space.shortage.as_ref().filter(|_| self.space.full)
    }

    /// Frees, prepares and trims, as much as is due.
    pub(super) fn poll_segments(&mut self, now: Now) {
        while let Some(&(sequence, oldest)) = self.space.frees.front()
            && sequence <= self.lanes.synced
        {
            self.space.frees.pop_front();
            while self.ledger.first_epoch < oldest {
                self.free_first();
            }
        }
        if let Some(wanted) = self.wanted()
            && (!self.space.full || self.space.retry_at <= now.mono || self.has_spare(wanted))
        {
            self.prepare(wanted);
        }
        if self.space.full && !self.space.preparing && self.wanted().is_none() {
            // It has all that it would have on an empty disk.
            self.space.full = self.prepared() == 0;
        }
        if !self.is_closing() {
            self.trim();
        }
    }

    pub(super) fn space_timer(&self) -> Option<Mono> {
        (self.space.full && self.wanted().is_some()).then_some(self.space.retry_at)
    }

    fn free_first(&mut self) {
        let segment = self.ledger.segments.pop_front().expect("an older segment than the head");
        assert!(segment.live.count == 0 && segment.ready, "a segment that is needed was given up");
        let epoch = self.ledger.first_epoch;
        self.ledger.first_epoch += 1;
        self.space.behind_bytes -= segment.used;
        let keeps = self.held_bytes() <= self.bound();
        let usual = segment.size == self.options.segment_bytes;
        let wanted = self.space.full || self.space.spares.is_empty();
        let keep = (keeps && usual && wanted).then_some(self.space.next_spare);
        self.free(epoch, segment.size, keep);
    }

    fn free(&mut self, epoch: u64, size: u64, keep: Option<u32>) {
        if keep.is_some() {
            self.space.next_spare += 1;
        } else {
            self.space.leaving_bytes += size;
        }
        self.space.work.push_back(SegmentTask::Free { size, keep });
        self.disk.submit(Op::Free { epoch, keep });
    }

    /// What is to be prepared now. Nothing as long as something is.
    fn wanted(&self) -> Option<PrepareRequest> {
        if self.space.preparing {
            return None;
        }
        // Segments become ready in their order.
        let planned = self.ledger.segments.iter().rev().take_while(|segment| !segment.ready);
        let planned = planned.count() as u64;
        if planned > 0 {
            return Some(PrepareRequest::Planned(self.ledger.end_epoch() - planned));
        }
        if self.is_closing() {
            return None;
        }
        let (live, usual) = (self.ledger.live_bytes, self.options.segment_bytes);
        let slack = self.held_bytes().saturating_sub(live);
        let reserve = Self::reserve(self.ledger.owners, live);
        let reuse = self.has_spare(PrepareRequest::Another);
        let (wanted, bound) = if self.prepared() == 0 {
            (true, self.bound())
        } else {
            // One segment more than on a full disk, so that it is found out early.
            (
                slack < reserve + self.free_bytes_left() + usual || (self.space.full && reuse),
                2 * live + usual,
            )
        };
        (wanted && (reuse || self.held_bytes() + usual <= bound)).then_some(PrepareRequest::Another)
    }

    /// Whether a spare can become what is wanted.
    fn has_spare(&self, wanted: PrepareRequest) -> bool {
        let size = match wanted {
            PrepareRequest::Planned(epoch) => self.ledger.segments[self.ledger.at(epoch)].size,
            PrepareRequest::Another => self.options.segment_bytes,
        };
        self.space.spares.iter().any(|&(_, spare)| spare >= size)
    }

    fn prepare(&mut self, wanted: PrepareRequest) {
        let epoch = match wanted {
            PrepareRequest::Planned(epoch) => epoch,
            PrepareRequest::Another => {
                self.plan(self.options.segment_bytes);
                self.ledger.end_epoch() - 1
            }
        };
        let segment = self.ledger.segment(epoch);
        let spare = self.space.spares.iter().position(|&(_, spare)| spare >= segment.size);
        let spare = spare.map(|at| self.space.spares.swap_remove(at));
        let reuse = spare.map(|(number, size)| {
            segment.size = size;
            number
        });
        let size = segment.size;
        if reuse.is_none() {
            self.space.total_bytes += size;
        }
        self.space.preparing = true;
        // One that was made smaller, because there was no space for more, tells nothing of that.
        let fresh = reuse.is_none() && size >= self.options.segment_bytes;
        self.space.work.push_back(SegmentTask::Prepare { epoch, size, fresh });
        let head = SegmentHeader { epoch, size, salt: self.salt }.encode();
        self.disk.submit(Op::Prepare { epoch, size, head, reuse });
    }

    /// Tells the disk how soon the segment is needed that it prepares: the segment should be there
    /// when the head is half full, and made at the pace at which that is filled.
    pub(super) fn update_prefill_target(&mut self) {
        let prepared = self.space.work.iter().find_map(|work| match work {
            SegmentTask::Prepare { epoch, .. } => Some(*epoch),
            SegmentTask::Free { .. } | SegmentTask::Discard { .. } => None,
        });
        let Some(epoch) = prepared else { return };
        let head = &self.ledger.segments[self.ledger.at(self.head)];
        let is_waited_for = !head.ready || self.lacks_segment();
        let need = if is_waited_for {
            PrefillTarget::Immediately
        } else {
            PrefillTarget::Bytes(2 * head.used)
        };
        self.disk.set_prefill_target(epoch, need);
    }

    /// Gives back what the directory holds beyond its bound, if nothing lies in it.
    fn trim(&mut self) {
        while self.held_bytes() > self.bound() {
            if let Some((spare, size)) = self.space.spares.pop() {
                self.space.leaving_bytes += size;
                self.space.work.push_back(SegmentTask::Discard { size });
                self.disk.submit(Op::Discard { spare });
            } else if self.prepared() > 1 && !self.space.preparing {
                self.shrink_last();
            } else {
                return;
            }
        }
    }

    /// The last segment, which nothing was written to, goes.
    fn shrink_last(&mut self) {
        let segment = self.ledger.segments.pop_back().expect("a prepared segment");
        assert!(segment.used == HEADER as u64 && segment.live.count == 0, "it is in use");
        if segment.ready {
            self.free(self.ledger.end_epoch(), segment.size, None);
        }
    }

    /// All segments from epoch `from` on go, which nothing was written to. False if one of them is
    /// just being made.
    pub(super) fn shrink(&mut self, from: u64) -> bool {
        if self.space.preparing && self.ledger.end_epoch() > from {
            return false;
        }
        while self.ledger.end_epoch() > from {
            self.shrink_last();
        }
        true
    }

    /// Takes in that the earliest operation on space is done.
    pub(super) fn space_done(&mut self, result: Result<(), IoFailure>, now: Now) {
        let work = self.space.work.pop_front().expect("work on space was under way");
        match (work, result) {
            (SegmentTask::Prepare { epoch, fresh, .. }, Ok(())) => {
                self.space.preparing = false;
                // A spare that is used again tells nothing of a disk that is full.
                self.space.full &= !fresh;
                self.ledger.segment(epoch).ready = true;
            }
            (SegmentTask::Prepare { epoch, size, .. }, Err(IoFailure::Full(fault))) => {
                self.space.shortage = Some(fault);
                self.space.preparing = false;
                self.space.total_bytes -= size;
                self.space.full = true;
                self.space.retry_at = now.mono.after(JOURNAL_FULL_RETRY);
                self.without_space(epoch, now);
            }
            (SegmentTask::Free { size, keep: Some(spare) }, Ok(())) => {
                self.space.spares.push((spare, size));
            }
            (SegmentTask::Free { size, keep: None } | SegmentTask::Discard { size }, Ok(())) => {
                self.space.total_bytes -= size;
                self.space.leaving_bytes -= size;
                self.space.retry_at = now.mono;
            }
            (_, Err(IoFailure::Full(fault) | IoFailure::Error(fault))) => self.fail(fault),
        }
    }

    /// There was no space for segment `epoch`. If nothing waits for it, it is not needed now; if
    /// batches wait for it, it is tried again no larger than they are.
    fn without_space(&mut self, epoch: u64, now: Now) {
        let (head, end) = (self.head, self.ledger.end_epoch());
        let segment = self.ledger.segment(epoch);
        let needed = segment.used + ALIGN as u64;
        if segment.used == HEADER as u64 {
            if epoch > head && epoch + 1 == end {
                self.ledger.segments.pop_back();
            }
        } else if segment.size > needed {
            segment.size = needed;
            self.space.retry_at = now.mono;
        }
    }
}

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
use crate::journal::disk::{DiskError, DiskOp, IoFailure, PrefillTarget};
use crate::journal::format::{
    FRAME_ALIGN_BYTES, FRAME_HEADER_BYTES, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader,
};
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
    tasks: VecDeque<SegmentTask>,
    preparing: bool,
    /// Numbers and sizes of files kept for reuse.
    pub(super) spares: Vec<(u32, u64)>,
    next_spare: u32,
    /// Bytes of all files, those under way included.
    pub(super) total_bytes: u64,
    /// How many of them are about to go.
    freeing_bytes: u64,
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
            tasks: VecDeque::new(),
            preparing: false,
            spares: Vec::new(),
            next_spare: 0,
            total_bytes: ledger.segments.iter().map(|segment| segment.size).sum(),
            freeing_bytes: 0,
            behind_bytes: ledger.segments.iter().take(before).map(|segment| segment.used).sum(),
            frees: VecDeque::new(),
            full: false,
            shortage: None,
            retry_at: Mono(0),
        }
    }

    /// Whether nothing is under way but what a journal that has written everything does without: a
    /// segment ahead.
    pub(super) fn may_close(&self) -> bool {
        self.tasks.iter().all(|work| matches!(work, SegmentTask::Prepare { .. }))
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
        2 * self.live_index.live_bytes + 2 * self.options.segment_bytes
    }

    /// Bytes that stay.
    fn held_bytes(&self) -> u64 {
        self.allocator.total_bytes - self.allocator.freeing_bytes
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
    fn compaction_bytes(&self) -> u64 {
        self.options.segment_bytes * 5 / 2
    }

    /// How many segments stand ready, or nearly so, behind the head.
    fn prepared(&self) -> u64 {
        self.live_index.end_epoch() - self.head - 1
    }

    /// Bytes that batches can be written to at once.
    pub(super) fn free_bytes(&self) -> u64 {
        let from = self.live_index.segment_index(self.head);
        let ready = self.live_index.segments.iter().skip(from).take_while(|segment| segment.ready);
        ready.map(|segment| segment.size - segment.used).sum()
    }

    /// Whether a record of so many bytes that makes the live data grow may be appended. False only
    /// on a full disk, as long as what is left is needed for the later records of the owners that
    /// there are, and for compaction.
    #[must_use]
    pub fn has_capacity(&self, bytes: usize) -> bool {
        self.missing_bytes(bytes) == 0
    }

    /// How many bytes of space are lacking for such a record.
    #[must_use]
    pub fn missing_bytes(&self, bytes: usize) -> u64 {
        if !self.allocator.full {
            return 0;
        }
        let bytes = (bytes + RECORD_HEADER_BYTES + FRAME_HEADER_BYTES + FRAME_ALIGN_BYTES) as u64;
        let live = self.live_index.live_bytes + bytes;
        let slack = self.held_bytes().saturating_sub(live);
        let reserve = Self::reserve(self.live_index.record_keys + 1, live);
        let usual = self.options.segment_bytes;
        let ready = self.free_bytes().saturating_sub(self.pending_bytes());
        let to_write = (bytes + self.oldest_live() + usual / 4).saturating_sub(ready);
        to_write.max((reserve + self.compaction_bytes()).saturating_sub(slack))
    }

    /// Why there is no more space, if there was none when it was last asked for.
    #[must_use]
    #[inline]
    pub fn shortage(&self) -> Option<&DiskError> {
        self.allocator.shortage.as_ref().filter(|_| self.allocator.full)
    }

    /// Frees, prepares and trims, as much as is due.
    pub(super) fn poll_segments(&mut self, now: Now) {
        while let Some(&(sequence, oldest)) = self.allocator.frees.front()
            && sequence <= self.io.synced
        {
            self.allocator.frees.pop_front();
            while self.live_index.first_epoch < oldest {
                self.free_first();
            }
        }
        if let Some(wanted) = self.next_request()
            && (!self.allocator.full
                || self.allocator.retry_at <= now.mono
                || self.has_spare(wanted))
        {
            self.prepare(wanted);
        }
        if self.allocator.full && !self.allocator.preparing && self.next_request().is_none() {
            // It has all that it would have on an empty disk.
            self.allocator.full = self.prepared() == 0;
        }
        if !self.is_closing() {
            self.trim();
        }
    }

    pub(super) fn space_timer(&self) -> Option<Mono> {
        (self.allocator.full && self.next_request().is_some()).then_some(self.allocator.retry_at)
    }

    fn free_first(&mut self) {
        let segment = self.live_index.segments.pop_front().expect("an older segment than the head");
        assert!(segment.live.count == 0 && segment.ready, "a segment that is needed was given up");
        let epoch = self.live_index.first_epoch;
        self.live_index.first_epoch += 1;
        self.allocator.behind_bytes -= segment.used;
        let keeps = self.held_bytes() <= self.bound();
        let usual = segment.size == self.options.segment_bytes;
        let wanted = self.allocator.full || self.allocator.spares.is_empty();
        let keep = (keeps && usual && wanted).then_some(self.allocator.next_spare);
        self.free(epoch, segment.size, keep);
    }

    fn free(&mut self, epoch: u64, size: u64, keep: Option<u32>) {
        if keep.is_some() {
            self.allocator.next_spare += 1;
        } else {
            self.allocator.freeing_bytes += size;
        }
        self.allocator.tasks.push_back(SegmentTask::Free { size, keep });
        self.disk.submit(DiskOp::Free { epoch, keep });
    }

    /// What is to be prepared now. Nothing as long as something is.
    fn next_request(&self) -> Option<PrepareRequest> {
        if self.allocator.preparing {
            return None;
        }
        // Segments become ready in their order.
        let planned = self.live_index.segments.iter().rev().take_while(|segment| !segment.ready);
        let planned = planned.count() as u64;
        if planned > 0 {
            return Some(PrepareRequest::Planned(self.live_index.end_epoch() - planned));
        }
        if self.is_closing() {
            return None;
        }
        let (live, usual) = (self.live_index.live_bytes, self.options.segment_bytes);
        let slack = self.held_bytes().saturating_sub(live);
        let reserve = Self::reserve(self.live_index.record_keys, live);
        let reuse = self.has_spare(PrepareRequest::Another);
        let (wanted, bound) = if self.prepared() == 0 {
            (true, self.bound())
        } else {
            // One segment more than on a full disk, so that it is found out early.
            (
                slack < reserve + self.compaction_bytes() + usual || (self.allocator.full && reuse),
                2 * live + usual,
            )
        };
        (wanted && (reuse || self.held_bytes() + usual <= bound)).then_some(PrepareRequest::Another)
    }

    /// Whether a spare can become what is wanted.
    fn has_spare(&self, wanted: PrepareRequest) -> bool {
        let size = match wanted {
            PrepareRequest::Planned(epoch) => {
                self.live_index.segments[self.live_index.segment_index(epoch)].size
            }
            PrepareRequest::Another => self.options.segment_bytes,
        };
        self.allocator.spares.iter().any(|&(_, spare)| spare >= size)
    }

    fn prepare(&mut self, wanted: PrepareRequest) {
        let epoch = match wanted {
            PrepareRequest::Planned(epoch) => epoch,
            PrepareRequest::Another => {
                self.plan_segment(self.options.segment_bytes);
                self.live_index.end_epoch() - 1
            }
        };
        let segment = self.live_index.segment(epoch);
        let spare = self.allocator.spares.iter().position(|&(_, spare)| spare >= segment.size);
        let spare = spare.map(|at| self.allocator.spares.swap_remove(at));
        let reuse = spare.map(|(number, size)| {
            segment.size = size;
            number
        });
        let size = segment.size;
        if reuse.is_none() {
            self.allocator.total_bytes += size;
        }
        self.allocator.preparing = true;
        // One that was made smaller, because there was no space for more, tells nothing of that.
        let fresh = reuse.is_none() && size >= self.options.segment_bytes;
        self.allocator.tasks.push_back(SegmentTask::Prepare { epoch, size, fresh });
        let head = SegmentHeader { epoch, size, salt: self.salt }.encode();
        self.disk.submit(DiskOp::Prepare { epoch, size, head, reuse });
    }

    /// Tells the disk how soon the segment is needed that it prepares: the segment should be there
    /// when the head is half full, and made at the pace at which that is filled.
    pub(super) fn update_prefill_target(&mut self) {
        let prepared = self.allocator.tasks.iter().find_map(|work| match work {
            SegmentTask::Prepare { epoch, .. } => Some(*epoch),
            SegmentTask::Free { .. } | SegmentTask::Discard { .. } => None,
        });
        let Some(epoch) = prepared else { return };
        let head = &self.live_index.segments[self.live_index.segment_index(self.head)];
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
            if let Some((spare, size)) = self.allocator.spares.pop() {
                self.allocator.freeing_bytes += size;
                self.allocator.tasks.push_back(SegmentTask::Discard { size });
                self.disk.submit(DiskOp::Discard { spare });
            } else if self.prepared() > 1 && !self.allocator.preparing {
                self.shrink_last();
            } else {
                return;
            }
        }
    }

    /// The last segment, which nothing was written to, goes.
    fn shrink_last(&mut self) {
        let segment = self.live_index.segments.pop_back().expect("a prepared segment");
        assert!(
            segment.used == SEGMENT_HEADER_BYTES as u64 && segment.live.count == 0,
            "it is in use"
        );
        if segment.ready {
            self.free(self.live_index.end_epoch(), segment.size, None);
        }
    }

    /// All segments from epoch `from` on go, which nothing was written to. False if one of them is
    /// just being made.
    pub(super) fn shrink(&mut self, from: u64) -> bool {
        if self.allocator.preparing && self.live_index.end_epoch() > from {
            return false;
        }
        while self.live_index.end_epoch() > from {
            self.shrink_last();
        }
        true
    }

    /// Takes in that the earliest operation on space is done.
    pub(super) fn on_task_done(&mut self, result: Result<(), IoFailure>, now: Now) {
        let work = self.allocator.tasks.pop_front().expect("work on space was under way");
        match (work, result) {
            (SegmentTask::Prepare { epoch, fresh, .. }, Ok(())) => {
                self.allocator.preparing = false;
                // A spare that is used again tells nothing of a disk that is full.
                self.allocator.full &= !fresh;
                self.live_index.segment(epoch).ready = true;
            }
            (SegmentTask::Prepare { epoch, size, .. }, Err(IoFailure::Full(fault))) => {
                self.allocator.shortage = Some(fault);
                self.allocator.preparing = false;
                self.allocator.total_bytes -= size;
                self.allocator.full = true;
                self.allocator.retry_at = now.mono.after(JOURNAL_FULL_RETRY);
                self.on_no_space(epoch, now);
            }
            (SegmentTask::Free { size, keep: Some(spare) }, Ok(())) => {
                self.allocator.spares.push((spare, size));
            }
            (SegmentTask::Free { size, keep: None } | SegmentTask::Discard { size }, Ok(())) => {
                self.allocator.total_bytes -= size;
                self.allocator.freeing_bytes -= size;
                self.allocator.retry_at = now.mono;
            }
            (_, Err(IoFailure::Full(fault) | IoFailure::Error(fault))) => self.fail(fault),
        }
    }

    /// There was no space for segment `epoch`. If nothing waits for it, it is not needed now; if
    /// batches wait for it, it is tried again no larger than they are.
    fn on_no_space(&mut self, epoch: u64, now: Now) {
        let (head, end) = (self.head, self.live_index.end_epoch());
        let segment = self.live_index.segment(epoch);
        let needed = segment.used + FRAME_ALIGN_BYTES as u64;
        if segment.used == SEGMENT_HEADER_BYTES as u64 {
            if epoch > head && epoch + 1 == end {
                self.live_index.segments.pop_back();
            }
        } else if segment.size > needed {
            segment.size = needed;
            self.allocator.retry_at = now.mono;
        }
    }
}

//! Segments and space: segments prepared ahead, freed segments, spares, and full disks.
//!
//! Once compaction has caught up, the directory holds at most twice the live bytes and two
//! segments. It holds at least the space reservation, [`JOURNAL_RESERVE_PER_JOB_BYTES`] for each
//! record key, and what compaction needs, as prepared or as dead bytes: compaction turns dead ones
//! into prepared ones. So a full disk is detected by a preparation that fails, while there is space
//! for deletes.

use super::Journal;
use super::pacer::prefill_target;
use crate::base::time::{Mono, Now};
use crate::journal::disk::{DiskError, IoFailure, SpaceOp};
use crate::journal::format::{
    FRAME_ALIGN_BYTES, FRAME_HEADER_BYTES, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader,
};
use crate::journal::limits::{
    COMPACTION_BACKLOG_BYTES, JOURNAL_FULL_RETRY_DELAY, JOURNAL_RESERVE_LIVE_DIVISOR,
    JOURNAL_RESERVE_PER_JOB_BYTES,
};
use crate::journal::live_index::LiveIndex;
use std::collections::VecDeque;

/// A submitted operation on segments or spares.
#[derive(Debug)]
enum SegmentTask {
    /// `fresh`: it takes new space, for a segment of the usual size.
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
    /// Bytes of all files, with those of submitted tasks.
    pub(super) total_bytes: u64,
    /// How many of them are being freed.
    freeing_bytes: u64,
    /// Bytes written to the segments before the head.
    pub(super) behind_bytes: u64,
    /// Batches, and the epoch before which segments are freed once the batch is durable.
    pub(super) frees: VecDeque<(u64, u64)>,
    /// No segment is freed: a copy is made.
    pub(super) holds_back: bool,
    /// Whether the last preparation failed for lack of space.
    pub(super) full: bool,
    /// The error of that preparation.
    shortage: Option<DiskError>,
    retry_at: Mono,
}

impl SegmentAllocator {
    pub(super) fn new(live_index: &LiveIndex, head: u64) -> Self {
        let before =
            usize::try_from(head - live_index.first_epoch).expect("segments fit into memory");
        Self {
            tasks: VecDeque::new(),
            preparing: false,
            spares: Vec::new(),
            next_spare: 0,
            total_bytes: live_index.segments.iter().map(|segment| segment.size).sum(),
            freeing_bytes: 0,
            behind_bytes: live_index.segments.iter().take(before).map(|segment| segment.used).sum(),
            frees: VecDeque::new(),
            holds_back: false,
            full: false,
            shortage: None,
            retry_at: Mono(0),
        }
    }

    /// Whether a journal that has written everything may close: only a preparation is submitted.
    pub(super) fn may_close(&self) -> bool {
        self.tasks.iter().all(|task| matches!(task, SegmentTask::Prepare { .. }))
    }
}

/// The segment to prepare next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PrepareRequest {
    /// The planned segment of this epoch.
    Planned(u64),
    /// An additional one.
    Another,
}

impl Journal {
    /// The bytes that the directory may hold once compaction has caught up.
    fn bound(&self) -> u64 {
        2 * self.live_index.live_bytes + 2 * self.options.segment_bytes
    }

    /// Bytes of files that are not being freed.
    fn held_bytes(&self) -> u64 {
        debug_assert!(
            self.allocator.freeing_bytes <= self.allocator.total_bytes,
            "more bytes are being freed than there are"
        );
        self.allocator.total_bytes - self.allocator.freeing_bytes
    }

    /// The space reservation in bytes for this many record keys: at most half of the live bytes, so
    /// that records smaller than the reservation do not double the directory.
    fn reserve(record_keys: u64, live_bytes: u64) -> u64 {
        (record_keys * JOURNAL_RESERVE_PER_JOB_BYTES)
            .min(live_bytes / 2)
            .max(live_bytes / JOURNAL_RESERVE_LIVE_DIVISOR)
    }

    /// Bytes that compaction needs at all times: a segment to move into, a head full of dead bytes,
    /// and enough dead bytes for progress.
    fn compaction_bytes(&self) -> u64 {
        self.options.segment_bytes * 5 / 2
    }

    /// The segments behind the head, prepared or being prepared.
    fn prepared(&self) -> u64 {
        debug_assert!(self.head < self.live_index.end_epoch(), "the head is not listed");
        self.live_index.end_epoch() - self.head - 1
    }

    /// Bytes that can be written at once. O(segments).
    pub(super) fn free_bytes(&self) -> u64 {
        let from = self.live_index.segment_index(self.head);
        let ready = self.live_index.segments.iter().skip(from).take_while(|segment| segment.ready);
        ready.map(|segment| segment.size - segment.used).sum()
    }

    /// Whether a record of `bytes` bytes that adds to the live bytes may be appended. False only on
    /// a full disk, while the space left is reserved for later records and compaction. O(segments)
    /// on a full disk, else O(1).
    #[must_use]
    pub fn has_capacity(&self, bytes: usize) -> bool {
        self.missing_bytes(bytes) == 0
    }

    /// The bytes of space missing for such a record; 0: none.
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

    /// The bytes of records that may be appended now although no client has asked for space for
    /// each of them, and whether the disk is full. Without them deletes can be written. While the
    /// disk is not full there are more once what is pending is written. O(segments).
    #[must_use]
    pub fn bulk_capacity(&self) -> (u64, bool) {
        let (pending, usual) = (self.pending_bytes(), self.options.segment_bytes);
        if !self.allocator.full {
            return (COMPACTION_BACKLOG_BYTES.min(usual / 4).saturating_sub(pending), false);
        }
        let ready = self.free_bytes().saturating_sub(pending);
        let to_write = ready.saturating_sub(self.oldest_live() + usual / 4);
        let live = self.live_index.live_bytes;
        let slack = self.held_bytes().saturating_sub(live);
        let reserve = Self::reserve(self.live_index.record_keys, live);
        // Bytes that become live raise the reservation by at most half of them.
        let spare = slack.saturating_sub(reserve + self.compaction_bytes()) / 3 * 2;
        (to_write.min(spare), true)
    }

    /// The error of the last preparation, if it failed for lack of space.
    #[must_use]
    #[inline]
    pub fn shortage(&self) -> Option<&DiskError> {
        debug_assert!(
            !self.allocator.full || self.allocator.shortage.is_some(),
            "the disk counts as full although no preparation has failed"
        );
        self.allocator.shortage.as_ref().filter(|_| self.allocator.full)
    }

    /// Frees, prepares and trims segments that are due.
    pub(super) fn poll_segments(&mut self, now: Now) {
        while !self.allocator.holds_back
            && let Some(&(sequence, oldest)) = self.allocator.frees.front()
            && sequence <= self.io.synced
        {
            self.allocator.frees.pop_front();
            assert!(oldest <= self.oldest, "a segment would be freed that recovery needs");
            while self.live_index.first_epoch < oldest {
                self.free_first();
            }
        }
        if let Some(request) = self.next_request()
            && (!self.allocator.full
                || self.allocator.retry_at <= now.mono
                || self.has_spare(request))
        {
            self.prepare(request);
        }
        if self.allocator.full && !self.allocator.preparing && self.next_request().is_none() {
            // The journal has all segments that it would have on an empty disk.
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
        let segment =
            self.live_index.segments.pop_front().expect("there is a segment before the head");
        assert!(segment.live.count == 0 && segment.ready, "a needed segment is freed");
        let epoch = self.live_index.first_epoch;
        assert!(
            epoch < self.head && segment.used <= self.allocator.behind_bytes,
            "the head is freed, or a segment whose bytes were not counted"
        );
        debug_assert!(
            epoch < self.oldest && epoch < self.io.epoch,
            "a segment is freed that recovery needs, or that is still written to"
        );
        debug_assert!(!self.allocator.holds_back, "a segment of a copy is freed");
        self.live_index.first_epoch += 1;
        self.allocator.behind_bytes -= segment.used;
        let keeps = self.held_bytes() <= self.bound();
        let usual = segment.size == self.options.segment_bytes;
        let wanted = self.allocator.full || self.allocator.spares.is_empty();
        let keep = (keeps && usual && wanted).then_some(self.allocator.next_spare);
        self.free(epoch, segment.size, keep);
    }

    fn free(&mut self, epoch: u64, size: u64, keep: Option<u32>) {
        let listed = self.live_index.first_epoch..self.live_index.end_epoch();
        assert!(!listed.contains(&epoch), "a segment that is freed is still listed");
        debug_assert!(
            self.allocator.freeing_bytes + size <= self.allocator.total_bytes,
            "a file is freed that was not counted"
        );
        if keep.is_some() {
            self.allocator.next_spare += 1;
        } else {
            self.allocator.freeing_bytes += size;
        }
        self.allocator.tasks.push_back(SegmentTask::Free { size, keep });
        self.disk.submit_space(SpaceOp::Free { epoch, keep });
    }

    /// The segment to prepare now; `None` while one is being prepared.
    fn next_request(&self) -> Option<PrepareRequest> {
        if self.allocator.preparing {
            return None;
        }
        // Segments become ready in order.
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
            // One segment more than on a full disk, so that a full disk is detected early.
            (
                slack < reserve + self.compaction_bytes() + usual || (self.allocator.full && reuse),
                2 * live + usual,
            )
        };
        (wanted && (reuse || self.held_bytes() + usual <= bound)).then_some(PrepareRequest::Another)
    }

    /// Whether a spare can be recycled for a request.
    fn has_spare(&self, request: PrepareRequest) -> bool {
        let size = match request {
            PrepareRequest::Planned(epoch) => {
                self.live_index.segments[self.live_index.segment_index(epoch)].size
            }
            PrepareRequest::Another => self.options.segment_bytes,
        };
        self.allocator.spares.iter().any(|&(_, spare)| spare >= size)
    }

    fn prepare(&mut self, request: PrepareRequest) {
        let epoch = match request {
            PrepareRequest::Planned(epoch) => epoch,
            PrepareRequest::Another => {
                self.plan_segment(self.options.segment_bytes);
                self.live_index.end_epoch() - 1
            }
        };
        let segment = self.live_index.segment(epoch);
        assert!(
            !segment.ready && !self.allocator.preparing,
            "a segment is prepared twice, or two at a time"
        );
        let spare = self.allocator.spares.iter().position(|&(_, spare)| spare >= segment.size);
        let spare = spare.map(|at| self.allocator.spares.swap_remove(at));
        let reuse = spare.map(|(number, size)| {
            segment.size = size;
            number
        });
        debug_assert!(
            segment.live.count == 0 || segment.used > SEGMENT_HEADER_BYTES as u64,
            "a segment without a frame has live records"
        );
        let size = segment.size;
        debug_assert!(
            segment.used <= size,
            "a segment is prepared that is smaller than the batches sealed into it"
        );
        debug_assert!(
            reuse.is_none_or(|number| number < self.allocator.next_spare),
            "a spare is recycled that no file was kept as"
        );
        if reuse.is_none() {
            self.allocator.total_bytes += size;
        }
        self.allocator.preparing = true;
        // A segment that was made smaller for lack of space does not show that there is space
        // again.
        let fresh = reuse.is_none() && size >= self.options.segment_bytes;
        self.allocator.tasks.push_back(SegmentTask::Prepare { epoch, size, fresh });
        let head = SegmentHeader { epoch, size, salt: self.salt }.encode();
        self.disk.submit_space(SpaceOp::Prepare { epoch, size, head, reuse });
    }

    /// Sets the prefill target of the segment in preparation.
    pub(super) fn update_prefill_target(&mut self) {
        let prepared = self.allocator.tasks.iter().find_map(|task| match task {
            SegmentTask::Prepare { epoch, .. } => Some(*epoch),
            SegmentTask::Free { .. } | SegmentTask::Discard { .. } => None,
        });
        debug_assert!(
            prepared.is_some() == self.allocator.preparing || self.disk_error.is_some(),
            "a segment is being prepared without a task, or the reverse"
        );
        let Some(epoch) = prepared else { return };
        let head = &self.live_index.segments[self.live_index.segment_index(self.head)];
        let batches_wait = !head.ready || self.lacks_segment();
        let target = prefill_target(head.used, batches_wait);
        self.disk.set_prefill_target(epoch, target);
    }

    /// Frees spares and empty segments beyond the directory's bound.
    fn trim(&mut self) {
        while self.held_bytes() > self.bound() {
            if let Some((spare, size)) = self.allocator.spares.pop() {
                self.allocator.freeing_bytes += size;
                self.allocator.tasks.push_back(SegmentTask::Discard { size });
                self.disk.submit_space(SpaceOp::Discard { spare });
            } else if self.prepared() > 1 && !self.allocator.preparing {
                self.shrink_last();
            } else {
                return;
            }
        }
    }

    /// Removes the last segment, which is empty.
    fn shrink_last(&mut self) {
        let segment = self.live_index.segments.pop_back().expect("a prepared segment");
        assert!(
            segment.used == SEGMENT_HEADER_BYTES as u64 && segment.live.count == 0,
            "the segment is in use"
        );
        debug_assert!(!self.allocator.preparing, "a segment is removed that is being prepared");
        debug_assert!(
            self.live_index.end_epoch() >= self.head,
            "a segment before the head is removed as if it were prepared"
        );
        if segment.ready {
            self.free(self.live_index.end_epoch(), segment.size, None);
        }
    }

    /// Removes the segments from epoch `from` on, which are empty. False if one of them is being
    /// prepared.
    pub(super) fn shrink(&mut self, from: u64) -> bool {
        if self.allocator.preparing && self.live_index.end_epoch() > from {
            return false;
        }
        while self.live_index.end_epoch() > from {
            self.shrink_last();
        }
        true
    }

    /// The earliest task has completed.
    pub(super) fn on_task_done(&mut self, result: Result<(), IoFailure>, now: Now) {
        let task = self.allocator.tasks.pop_front().expect("a task was submitted");
        match (task, result) {
            (SegmentTask::Prepare { epoch, size, fresh }, Ok(())) => {
                self.assert_preparing(epoch, size);
                self.allocator.preparing = false;
                // A recycled spare does not show that there is space again.
                self.allocator.full &= !fresh;
                self.live_index.segment(epoch).ready = true;
            }
            (SegmentTask::Prepare { epoch, size, .. }, Err(IoFailure::Full(error))) => {
                self.assert_preparing(epoch, size);
                self.allocator.shortage = Some(error);
                self.allocator.preparing = false;
                self.allocator.total_bytes -= size;
                self.allocator.full = true;
                self.allocator.retry_at = now.mono.after(JOURNAL_FULL_RETRY_DELAY);
                self.on_no_space(epoch, now);
            }
            (SegmentTask::Free { size, keep: Some(spare) }, Ok(())) => {
                assert!(spare < self.allocator.next_spare, "a spare has no number of its own");
                debug_assert!(
                    self.allocator.spares.iter().all(|&(number, _)| number != spare),
                    "a file is kept twice"
                );
                self.allocator.spares.push((spare, size));
            }
            (SegmentTask::Free { size, keep: None } | SegmentTask::Discard { size }, Ok(())) => {
                assert!(self.allocator.freeing_bytes >= size, "freed bytes were not counted");
                self.allocator.total_bytes -= size;
                self.allocator.freeing_bytes -= size;
                self.allocator.retry_at = now.mono;
            }
            (_, Err(IoFailure::Full(error) | IoFailure::Error(error))) => self.fail(error),
        }
    }

    /// Asserts that segment `epoch` of `size` bytes is the one that is being prepared. O(1).
    fn assert_preparing(&self, epoch: u64, size: u64) {
        let index = self.live_index.segment_index(epoch);
        let segment = &self.live_index.segments[index];
        assert!(
            self.allocator.preparing && !segment.ready && segment.size == size,
            "a segment was prepared that was not asked for, or in another size"
        );
        assert!(
            index == 0 || self.live_index.segments[index - 1].ready,
            "segments do not become ready in order"
        );
    }

    /// There was no space for segment `epoch`. Without batches it is not needed now; with batches
    /// it is tried again in their size.
    fn on_no_space(&mut self, epoch: u64, now: Now) {
        let (head, end) = (self.head, self.live_index.end_epoch());
        let segment = self.live_index.segment(epoch);
        let needed = segment.used + FRAME_ALIGN_BYTES as u64;
        if segment.used == SEGMENT_HEADER_BYTES as u64 {
            if epoch > head && epoch + 1 == end {
                self.live_index.segments.pop_back();
            }
        } else if segment.size > needed {
            assert!(
                !segment.ready && needed.is_multiple_of(FRAME_ALIGN_BYTES as u64),
                "a segment that exists is made smaller, or one with a part of a frame"
            );
            segment.size = needed;
            self.allocator.retry_at = now.mono;
        }
    }
}

//! The running journal: batches are built, sealed into their places, and handed to the disk.
//!
//! `lanes` submits writes and syncs and takes in what is done, `space` sees to prepared segments,
//! spares and full disks, `compaction` says who has to move.
//!
//! Invariants, asserted by [`Journal::check_invariants`]:
//! - sequences rise without gaps: sealed behind submitted behind written behind synced;
//! - a batch is written only into a segment that is ready, and only behind all earlier ones;
//! - a segment is freed only once a batch that does without it is durable;
//! - after a fault nothing more is acknowledged.

mod compaction;
mod io_queue;
mod segment_allocator;
mod stats;

use super::disk::{Disk, DiskError};
use super::format::{
    self, BatchHeader, FRAME_ALIGN_BYTES, FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES,
};
use super::live_index::{LiveIndex, Segment};
use super::{BatchSeq, JournalOptions, SyncMode};
use crate::base::limits::{JOURNAL_BATCH_BYTES, JOURNAL_FRAME_MAX_BYTES};
use crate::base::time::{Mono, Now};
use compaction::Compaction;
use io_queue::{IoQueue, SealedBatch};
use segment_allocator::SegmentAllocator;
pub use stats::{LogStats, SYNC_BOUNDS_NS};

/// The batch that records are added to.
#[derive(Debug)]
struct Batch {
    /// Room for the frame's head, and then records.
    bytes: Vec<u8>,
    count: u32,
    /// How many of them compaction has moved.
    moved: u32,
    /// Whether there is something to say even without a record.
    forced: bool,
    /// Since when it is held back for more, and how many records of its own it had in the last
    /// pass.
    delayed: Option<(Mono, u32)>,
}

impl Batch {
    fn new(forced: bool) -> Self {
        Self { bytes: Vec::new(), count: 0, moved: 0, forced, delayed: None }
    }

    /// How many records say what clients have changed.
    fn client_count(&self) -> u32 {
        self.count - self.moved
    }
}

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// Everything is being written and synced.
    Closing,
    /// A last batch says that everything before it is durable.
    FinalBatch,
    Closed,
}

/// What an earlier run left, for a journal to start from.
pub(super) struct RecoveredState {
    pub(super) options: JournalOptions,
    pub(super) salt: u64,
    pub(super) live_index: LiveIndex,
    /// The segment that goes on, or one more than the last.
    pub(super) head: u64,
    /// The last batch.
    pub(super) last: BatchHeader,
    /// Segments whose batches may not be durable, with their last batch.
    pub(super) unsynced: Vec<(u64, u64)>,
    /// Whether something was cut off behind the last batch.
    pub(super) torn: bool,
}

/// A journal that runs.
///
/// One pass of its owner: [`Self::poll`]; appends and forgets; `while let Some(owner) =
/// journal.next_to_move()`, append that owner's base record as it now stands; [`Self::commit`];
/// then everything up to [`Self::durable`] may be answered.
pub struct Journal {
    disk: Box<dyn Disk>,
    options: JournalOptions,
    salt: u64,
    live_index: LiveIndex,
    /// The segment that sealed batches go to.
    head: u64,
    batch: Batch,
    /// The number of the open batch.
    sequence: u64,
    high_id: u64,
    /// The oldest segment that is needed, as the last sealed batch says.
    oldest: u64,
    io: IoQueue,
    allocator: SegmentAllocator,
    compaction: Compaction,
    stage: Stage,
    disk_error: Option<DiskError>,
    counters: LogStats,
}

impl Journal {
    pub(super) fn start(start: RecoveredState, disk: Box<dyn Disk>, now: Now) -> Self {
        let RecoveredState { options, salt, live_index: ledger, head, last, unsynced, torn } =
            start;
        let mut journal = Self {
            disk,
            salt,
            head,
            batch: Batch::new(torn),
            sequence: last.sequence + 1,
            high_id: last.high_id,
            oldest: last.oldest.max(ledger.first_epoch),
            io: IoQueue::new(&last, head),
            allocator: SegmentAllocator::new(&ledger, head),
            compaction: Compaction::new(now.mono),
            stage: Stage::Running,
            disk_error: None,
            counters: LogStats::default(),
            live_index: ledger,
            options,
        };
        journal.allocator.frees.push_back((last.sequence, last.oldest));
        for (epoch, sequence) in unsynced {
            journal.submit_sync(epoch, sequence);
        }
        if journal.head == journal.live_index.end_epoch() {
            journal.plan_segment(journal.options.segment_bytes);
        }
        journal.poll_segments(now);
        journal.update_prefill_target();
        journal
    }

    /// Appends a record to the open batch. With an owner it is the owner's base record from now on,
    /// and the former one is dead. Owners are small numbers: there is an array by owner. A journal
    /// that is closing or has failed takes nothing, and its stamp is never reached. O(bytes).
    #[inline]
    pub fn append(&mut self, owner: Option<u32>, record: &[u8]) -> BatchSeq {
        self.append_with(owner, |out| out.extend_from_slice(record))
    }

    /// Like [`Self::append`]; the record is what `write` adds to the buffer.
    pub fn append_with(
        &mut self,
        owner: Option<u32>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> BatchSeq {
        if self.disk_error.is_some() || self.stage != Stage::Running {
            return BatchSeq::MAX;
        }
        if self.batch.bytes.len() >= JOURNAL_FRAME_MAX_BYTES {
            self.seal();
        }
        if self.batch.bytes.is_empty() {
            self.batch.bytes = self.io.buffer();
            self.batch.bytes.resize(FRAME_HEADER_BYTES, 0);
        }
        let bytes = format::push_record(&mut self.batch.bytes, write);
        self.batch.count += 1;
        if let Some(owner) = owner {
            self.live_index.open(owner, bytes);
        }
        self.on_append(owner, bytes);
        self.sequence
    }

    /// The owner's base record is dead; what says so to a later recovery is a record that the
    /// caller appends besides. O(1).
    pub fn forget(&mut self, owner: u32) -> BatchSeq {
        if self.live_index.forget(owner).is_some() {
            self.batch.forced = true;
        }
        self.sequence
    }

    /// Raises the owner's number that every batch carries: recovery gives the highest back.
    pub fn raise_high_id(&mut self, mark: u64) {
        self.high_id = self.high_id.max(mark);
    }

    /// The owner's number.
    #[must_use]
    pub fn high_id(&self) -> u64 {
        self.high_id
    }

    /// Between two commands of one pass: a large batch may be divided here, and nowhere else. What
    /// is appended between two of these, or between one and a commit, is in one batch.
    #[inline]
    pub fn maybe_seal(&mut self) {
        if self.batch.bytes.len() as u64 >= self.batch_limit() {
            self.seal();
        }
    }

    /// Bytes at which a batch is complete: segments are to be filled well.
    fn batch_limit(&self) -> u64 {
        JOURNAL_BATCH_BYTES.min(self.options.segment_bytes / 8)
    }

    /// At the end of a pass: hands what was appended to the disk, or lets the batch grow if the
    /// disk is busy; and whatever else is due. O(bytes appended).
    pub fn commit(&mut self, now: Now) {
        if self.disk_error.is_some() {
            return;
        }
        self.maybe_seal();
        self.on_completion(now);
        self.submit_writes(now);
        self.submit_due_sync(now);
        self.poll_segments(now);
        self.update_prefill_target();
        self.drive();
    }

    /// Takes in what the disk has finished. Call it at the beginning of a pass.
    pub fn poll(&mut self, now: Now) {
        self.on_completion(now);
        self.step_compaction(now);
        if self.stage != Stage::Running && self.disk_error.is_none() {
            self.continue_closing(now);
        }
    }

    /// When a pass must be made even if nothing happens.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        if self.disk_error.is_some() || self.stage == Stage::Closed {
            return None;
        }
        // A pass at once says whether there is more.
        let held = self.batch.delayed.map(|(since, _)| since);
        let timers = [held, self.sync_timer(), self.space_timer(), self.compaction_timer()];
        timers.into_iter().flatten().min()
    }

    /// Every batch up to this one is acknowledged, as [`SyncMode`] has it.
    #[must_use]
    #[inline]
    pub fn durable(&self) -> BatchSeq {
        match self.options.sync {
            SyncMode::Always => self.io.synced,
            SyncMode::Every(_) | SyncMode::Never => self.io.written,
        }
    }

    /// The stamp of what is appended next.
    #[must_use]
    pub fn next_batch(&self) -> BatchSeq {
        self.sequence
    }

    /// What went wrong with the disk: nothing is acknowledged afterwards.
    #[must_use]
    pub fn disk_error(&self) -> Option<&DiskError> {
        self.disk_error.as_ref()
    }

    /// Begins the end: everything is written and synced. Nothing can be appended any more. Go on
    /// polling until [`Self::is_closed`].
    pub fn close(&mut self, now: Now) {
        if self.stage == Stage::Running {
            self.stage = Stage::Closing;
            self.poll(now);
        }
    }

    /// Whether everything is durable after [`Self::close`], or the disk has failed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.stage == Stage::Closed || self.disk_error.is_some()
    }

    fn continue_closing(&mut self, now: Now) {
        self.commit(now);
        let all = self.io.submitted + 1 == self.sequence && self.batch.bytes.is_empty();
        if self.disk_error.is_some() || !all || !self.io.is_idle() {
            return;
        }
        if self.io.synced + 1 < self.sequence {
            self.submit_sync(self.io.epoch, self.io.submitted);
        } else if self.stage == Stage::Closing && self.counters.batches > 0 && self.fits_in_head(0)
        {
            self.stage = Stage::FinalBatch;
            self.batch.forced = true;
            self.continue_closing(now);
        } else if self.allocator.may_close() {
            self.stage = Stage::Closed;
        }
    }

    /// Whether the head is there and has room for a batch with records of so many bytes.
    fn fits_in_head(&self, bytes: usize) -> bool {
        let head = &self.live_index.segments[self.live_index.segment_index(self.head)];
        head.ready && head.used + format::padded(FRAME_HEADER_BYTES + bytes) as u64 <= head.size
    }

    /// Adds a segment behind the last one, to be prepared.
    fn plan_segment(&mut self, size: u64) {
        let epoch = self.live_index.end_epoch();
        let segment = Segment::new(size, format::segment_key(self.salt, epoch));
        self.live_index.segments.push_back(segment);
    }

    /// Gives the open batch its place and its head. Not if it needs a segment of its own size and
    /// another one is just being prepared for this place: then it goes on growing.
    fn seal(&mut self) {
        if self.batch.bytes.is_empty() {
            if !self.batch.forced {
                return;
            }
            self.batch.bytes = self.io.buffer();
            self.batch.bytes.resize(FRAME_HEADER_BYTES, 0);
        }
        let length = format::padded(self.batch.bytes.len()) as u64;
        if !self.find_segment(length) {
            return;
        }
        self.live_index.seal(self.head);
        self.on_seal(length);
        let oldest = self.live_index.oldest(self.head);
        let batch = std::mem::replace(&mut self.batch, Batch::new(false));
        let (records, own, sequence) = (batch.count, batch.client_count(), self.sequence);
        let mut bytes = batch.bytes;
        let segment = self.live_index.segment(self.head);
        let synced = self.io.synced;
        let head = BatchHeader {
            length: 0,
            sequence,
            synced,
            oldest,
            high_id: self.high_id,
            count: records,
        };
        format::seal(&mut bytes, head, segment.key);
        let offset = segment.used;
        segment.used += length;
        if segment.used + FRAME_ALIGN_BYTES as u64 <= segment.size {
            bytes.resize(bytes.len() + FRAME_ALIGN_BYTES, 0);
        }
        if oldest > self.oldest {
            self.oldest = oldest;
            self.allocator.frees.push_back((sequence, oldest));
        }
        let epoch = self.head;
        self.io.seal(SealedBatch { epoch, offset, bytes, sequence, records, client_records: own });
        self.sequence += 1;
        assert!(synced < sequence && oldest <= self.head, "a batch tells of what came before it");
    }

    /// Makes `head` a segment with room for a frame of `length` bytes, there or planned. False if
    /// that must wait. No segment stays empty between others: recovery would take it for damage.
    fn find_segment(&mut self, length: u64) -> bool {
        let at = self.live_index.segment_index(self.head);
        let head = &self.live_index.segments[at];
        if head.used + length <= head.size {
            return true;
        }
        let blank = head.used == SEGMENT_HEADER_BYTES as u64;
        let next = self.live_index.segments.get(at + 1);
        let capacity = next.map_or(0, |next| next.size - next.used);
        if blank || capacity < length {
            if !self.shrink(self.head + u64::from(!blank)) {
                return false;
            }
            let own = SEGMENT_HEADER_BYTES as u64 + length + FRAME_ALIGN_BYTES as u64;
            self.plan_segment(own.max(self.options.segment_bytes));
        }
        if !blank {
            self.allocator.behind_bytes += self.live_index.segment(self.head).used;
            self.head += 1;
        }
        true
    }

    fn fail(&mut self, fault: DiskError) {
        self.disk_error.get_or_insert(fault);
    }

    /// Figures. O(segments).
    #[must_use]
    pub fn stats(&self) -> LogStats {
        let used: u64 = self.live_index.segments.iter().map(|segment| segment.used).sum();
        let live_bytes = self.live_index.live_bytes;
        let free_bytes = self.free_bytes();
        LogStats {
            live_bytes,
            dead_bytes: (used + self.batch.bytes.len() as u64).saturating_sub(live_bytes),
            free_bytes,
            total_bytes: self.allocator.total_bytes,
            pending_bytes: self.pending_bytes(),
            record_keys: self.live_index.record_keys,
            segments: self.live_index.segments.len() as u64,
            spares: self.allocator.spares.len() as u64,
            full: self.allocator.full,
            ..self.counters
        }
    }

    /// Asserts what always holds. O(owners + segments).
    pub fn check_invariants(&self) {
        self.live_index.check_invariants();
        let head = self.live_index.segment_index(self.head);
        for (index, segment) in self.live_index.segments.iter().enumerate() {
            assert!((SEGMENT_HEADER_BYTES as u64..=segment.size).contains(&segment.used));
            assert!(index >= head || segment.ready || !self.io.has_no_sealed());
            assert!(
                index <= head || segment.used == SEGMENT_HEADER_BYTES as u64,
                "a prepared one is in use"
            );
            assert!(segment.live.count == 0 || segment.used > SEGMENT_HEADER_BYTES as u64);
        }
        assert!(self.live_index.first_epoch <= self.oldest && self.oldest <= self.head);
        let behind: u64 =
            self.live_index.segments.iter().take(head).map(|segment| segment.used).sum();
        assert_eq!(self.allocator.behind_bytes, behind, "the segments behind the head");
        self.io.check_invariants(self.sequence);
    }
}

//! The running journal: records are appended to a batch, which is sealed into a segment and
//! written.
//!
//! `io_queue` submits writes and syncs, `segment_allocator` prepares, recycles and frees segments,
//! `compaction` names the records to move, `pacer` says how fast.
//!
//! Invariants, asserted by [`Journal::check_invariants`]:
//! - sequences rise without gaps: synced <= written <= submitted <= sealed;
//! - a batch is written only into a segment that is ready, after all earlier batches;
//! - a segment is freed only once a batch that does not need it is durable;
//! - after an I/O error no further batch becomes durable.

mod backup;
mod check;
mod compaction;
mod group_commit;
mod io_queue;
mod pacer;
mod segment_allocator;
mod stats;

use super::disk::{Disk, DiskError};
use super::format::{
    self, BatchHeader, FRAME_ALIGN_BYTES, FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES,
};
use super::live_index::{LiveIndex, Segment};
use super::{BatchSeq, JournalOptions, SyncMode};
use crate::base::time::{Mono, Now};
use crate::journal::limits::{
    JOURNAL_BATCH_BYTES, JOURNAL_FRAME_MAX_BYTES, JOURNAL_SEGMENT_MIN_BYTES,
};
pub use backup::SegmentCopy;
use compaction::Compaction;
use io_queue::{IoQueue, SealedBatch};
use segment_allocator::SegmentAllocator;
pub use stats::{LogStats, SYNC_BOUNDS_NS};

/// The open batch.
#[derive(Debug)]
struct Batch {
    /// Space for the frame's header, then the records.
    bytes: Vec<u8>,
    count: u32,
    /// The records that compaction has moved.
    moved: u32,
    /// Whether the batch is written even without a record.
    forced: bool,
    /// Since when group commit delays the batch, and its client records in the last pass.
    delayed: Option<(Mono, u32)>,
}

impl Batch {
    fn new(forced: bool) -> Self {
        Self { bytes: Vec::new(), count: 0, moved: 0, forced, delayed: None }
    }

    /// The records that are not moved by compaction.
    fn client_count(&self) -> u32 {
        debug_assert!(self.moved <= self.count, "more records were moved than appended");
        self.count - self.moved
    }
}

/// The stages of closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// Everything is being written and synced.
    Closing,
    /// A last batch, which says that everything before it is durable, is being written.
    FinalBatch,
    Closed,
}

/// What recovery has found, for a journal to continue.
pub(super) struct RecoveredState {
    pub(super) options: JournalOptions,
    pub(super) salt: u64,
    pub(super) live_index: LiveIndex,
    /// The segment to continue, or one more than the last.
    pub(super) head: u64,
    /// The last batch.
    pub(super) last: BatchHeader,
    /// Segments whose batches may not be durable, with their last batch.
    pub(super) unsynced: Vec<(u64, u64)>,
    /// Whether a torn tail was cut off behind the last batch.
    pub(super) torn: bool,
}

/// A running journal.
///
/// A pass of the caller: [`Self::poll`]; appends and forgets; `while let Some(record_key) =
/// journal.next_to_move()`, append that key's base record in its present state; [`Self::commit`];
/// then everything up to [`Self::durable`] may be answered.
pub struct Journal {
    disk: Box<dyn Disk>,
    options: JournalOptions,
    salt: u64,
    live_index: LiveIndex,
    /// The segment into which batches are sealed.
    head: u64,
    batch: Batch,
    /// The sequence of the open batch.
    sequence: u64,
    high_id: u64,
    /// The oldest needed segment, as the last sealed batch says.
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
        let RecoveredState { options, salt, live_index, head, last, unsynced, torn } = start;
        assert!(
            options.segment_bytes.is_multiple_of(FRAME_ALIGN_BYTES as u64)
                && options.segment_bytes >= JOURNAL_SEGMENT_MIN_BYTES,
            "recovery has not rounded the size of a segment"
        );
        assert!(
            (live_index.first_epoch..=live_index.end_epoch()).contains(&head),
            "the journal would leave a gap between the segments"
        );
        assert!(last.synced <= last.sequence, "the last batch refers to later ones");
        let mut journal = Self {
            disk,
            salt,
            head,
            batch: Batch::new(torn),
            sequence: last.sequence + 1,
            high_id: last.high_id,
            oldest: last.oldest.max(live_index.first_epoch),
            io: IoQueue::new(&last, head),
            allocator: SegmentAllocator::new(&live_index, head),
            compaction: Compaction::new(now.mono),
            stage: Stage::Running,
            disk_error: None,
            counters: LogStats::default(),
            live_index,
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
        assert!(journal.durable() < journal.sequence, "the open batch cannot be durable");
        assert!(
            journal.oldest <= journal.head && journal.head < journal.live_index.end_epoch(),
            "the last batch needs a segment behind the head, or the head is not planned"
        );
        journal
    }

    /// Appends a record to the open batch and returns that batch. With a record key it becomes the
    /// key's base record, and the former one is dead. Record keys should be small, or little above
    /// [`UPPER_KEYS`](crate::journal::UPPER_KEYS): they index an array. A journal that is closing
    /// or has failed appends nothing and returns
    /// [`BatchSeq::MAX`]. O(bytes).
    #[inline]
    pub fn append(&mut self, record_key: Option<u32>, record: &[u8]) -> BatchSeq {
        self.append_with(record_key, |out| out.extend_from_slice(record))
    }

    /// As [`Self::append`]; `write` appends the record to the buffer.
    pub fn append_with(
        &mut self,
        record_key: Option<u32>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> BatchSeq {
        if self.disk_error.is_some() || self.stage != Stage::Running {
            return BatchSeq::MAX;
        }
        if self.batch.bytes.len() >= JOURNAL_FRAME_MAX_BYTES {
            self.seal();
        }
        debug_assert!(
            self.batch.count == 0 || self.batch.bytes.len() > FRAME_HEADER_BYTES,
            "a batch without bytes has records"
        );
        if self.batch.bytes.is_empty() {
            self.batch.bytes = self.io.buffer();
            self.batch.bytes.resize(FRAME_HEADER_BYTES, 0);
        }
        let bytes = format::push_record(&mut self.batch.bytes, write);
        self.batch.count += 1;
        if let Some(record_key) = record_key {
            self.live_index.open(record_key, bytes);
        }
        debug_assert!(
            self.live_index.open_bytes() <= self.batch.bytes.len() as u64,
            "the live records of the open batch are in it"
        );
        debug_assert!(
            record_key.is_none_or(|key| self.live_index.bytes(key) == Some(bytes)),
            "the base record appended last is not the live one of its key"
        );
        self.on_append(record_key, bytes);
        debug_assert!(self.durable() < self.sequence, "a record is durable before it is written");
        self.sequence
    }

    /// Marks the base record of a key as dead. For recovery the caller appends a record that says
    /// so. O(1).
    pub fn mark_dead(&mut self, record_key: u32) -> BatchSeq {
        if self.live_index.mark_dead(record_key).is_some() {
            self.batch.forced = true;
        }
        debug_assert!(
            self.live_index.bytes(record_key).is_none(),
            "a dead record key has a base record"
        );
        self.sequence
    }

    /// Raises the highest id, which every batch carries and recovery returns.
    pub fn raise_high_id(&mut self, mark: u64) {
        self.high_id = self.high_id.max(mark);
    }

    /// The highest id.
    #[must_use]
    pub fn high_id(&self) -> u64 {
        self.high_id
    }

    /// Seals a large batch between two commands of a pass. Only this and [`Self::commit`] end a
    /// batch, so the records of one command are in one batch.
    #[inline]
    pub fn maybe_seal(&mut self) {
        if self.batch.bytes.len() as u64 >= self.batch_limit() {
            self.seal();
        }
    }

    /// Bytes at which a batch is sealed: small against a segment, so that segments are filled well.
    fn batch_limit(&self) -> u64 {
        JOURNAL_BATCH_BYTES.min(self.options.segment_bytes / 8)
    }

    /// Ends a pass: seals and submits the batch, or lets it grow if the disk is busy; submits
    /// syncs, prepares and frees segments, and plans compaction. O(bytes appended + segments).
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
        self.io.assert_order(self.sequence);
        assert!(
            self.live_index.first_epoch <= self.oldest && self.oldest <= self.head,
            "a needed segment is not there"
        );
    }

    /// Takes in completions. To be called at the begin of a pass.
    pub fn poll(&mut self, now: Now) {
        self.on_completion(now);
        self.step_compaction(now);
        if self.stage != Stage::Running && self.disk_error.is_none() {
            self.continue_closing(now);
        }
    }

    /// When the next pass is due at the latest. O(1).
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        if self.disk_error.is_some() || self.stage == Stage::Closed {
            return None;
        }
        debug_assert!(
            self.batch.delayed.is_none() || self.options.sync == SyncMode::Always,
            "a batch waits for others although it is not synced at once"
        );
        // The next pass, at once, shows whether a delayed batch grows.
        let delayed = self.batch.delayed.map(|(since, _)| since);
        let timers = [delayed, self.sync_timer(), self.space_timer(), self.compaction_timer()];
        timers.into_iter().flatten().min()
    }

    /// The last durable batch, as [`SyncMode`] defines it. O(1).
    #[must_use]
    #[inline]
    pub fn durable(&self) -> BatchSeq {
        debug_assert!(
            self.io.synced <= self.io.written,
            "a batch counts as synced before it is written"
        );
        match self.options.sync {
            SyncMode::Always => self.io.synced,
            SyncMode::Every(_) | SyncMode::Never => self.io.written,
        }
    }

    /// The batch of the next record. O(1).
    #[must_use]
    pub fn next_batch(&self) -> BatchSeq {
        debug_assert!(self.io.submitted < self.sequence, "the open batch is submitted");
        self.sequence
    }

    /// The I/O error that has stopped the journal: no batch becomes durable after it.
    #[must_use]
    pub fn disk_error(&self) -> Option<&DiskError> {
        self.disk_error.as_ref()
    }

    /// Starts to write and sync everything; nothing can be appended any more. The caller goes on
    /// polling until [`Self::is_closed`].
    pub fn close(&mut self, now: Now) {
        if self.stage == Stage::Running {
            self.stage = Stage::Closing;
            self.poll(now);
        }
    }

    /// Whether everything is durable after [`Self::close`], or the journal has failed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.stage == Stage::Closed || self.disk_error.is_some()
    }

    fn continue_closing(&mut self, now: Now) {
        assert!(self.stage != Stage::Running, "the journal was not told to close");
        self.commit(now);
        let all_submitted = self.io.submitted + 1 == self.sequence && self.batch.bytes.is_empty();
        if self.disk_error.is_some() || !all_submitted || !self.io.is_idle() {
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
            assert!(
                self.io.synced + 1 == self.sequence && self.io.has_no_sealed(),
                "a batch of a closed journal is not durable"
            );
            self.stage = Stage::Closed;
        }
    }

    /// Whether the head is ready and has space for a batch with `bytes` bytes of records.
    fn fits_in_head(&self, bytes: usize) -> bool {
        let head = &self.live_index.segments[self.live_index.segment_index(self.head)];
        debug_assert!(head.used <= head.size, "the head has more bytes than its file");
        head.ready && head.used + format::padded(FRAME_HEADER_BYTES + bytes) as u64 <= head.size
    }

    /// Adds a segment behind the last one; it is not prepared yet.
    fn plan_segment(&mut self, size: u64) {
        let epoch = self.live_index.end_epoch();
        assert!(
            size > SEGMENT_HEADER_BYTES as u64 && size.is_multiple_of(FRAME_ALIGN_BYTES as u64),
            "a segment has no space for frames"
        );
        debug_assert!(epoch >= self.head, "a segment is planned before the head");
        let segment = Segment::new(size, format::segment_key(self.salt, epoch));
        self.live_index.segments.push_back(segment);
    }

    /// Seals the open batch: gives it its offset and header. If it needs a segment of its own size
    /// while another one is being prepared for this position, it stays open and grows.
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
        debug_assert!(oldest >= self.oldest, "a segment that was not needed is needed again");
        let batch = std::mem::replace(&mut self.batch, Batch::new(false));
        let (records, own, sequence) = (batch.count, batch.client_count(), self.sequence);
        let mut bytes = batch.bytes;
        let segment = self.live_index.segment(self.head);
        let synced = self.io.synced;
        debug_assert!(records > 0 || batch.forced, "a batch without a record was not asked for");
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
        debug_assert!(
            offset.is_multiple_of(FRAME_ALIGN_BYTES as u64),
            "recovery would not find the batch: it begins between two possible offsets"
        );
        segment.used += length;
        assert!(
            segment.used <= segment.size && bytes.len() as u64 == length,
            "a batch exceeds its segment, or was sealed with another length"
        );
        if segment.used + FRAME_ALIGN_BYTES as u64 <= segment.size {
            bytes.resize(bytes.len() + FRAME_ALIGN_BYTES, 0);
        }
        if oldest > self.oldest {
            self.oldest = oldest;
            assert!(
                self.allocator.frees.back().is_none_or(|&(earlier, _)| earlier < sequence),
                "segments would be freed by a batch before the one that does not need them"
            );
            self.allocator.frees.push_back((sequence, oldest));
        }
        let epoch = self.head;
        self.io.seal(SealedBatch { epoch, offset, bytes, sequence, records, client_records: own });
        self.sequence += 1;
        assert!(
            synced < sequence && oldest <= self.head,
            "a batch refers to later batches or segments"
        );
    }

    /// Makes `head` a segment, ready or planned, with space for a frame of `length` bytes. False if
    /// that must wait. No segment between others stays empty: recovery would report damage.
    fn find_segment(&mut self, length: u64) -> bool {
        assert!(
            length.is_multiple_of(FRAME_ALIGN_BYTES as u64) && length >= FRAME_HEADER_BYTES as u64,
            "a frame is not padded"
        );
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
        assert!(self.head < self.live_index.end_epoch(), "the head is not planned");
        let head = self.live_index.segment(self.head);
        debug_assert!(
            head.used == SEGMENT_HEADER_BYTES as u64 && head.live.count == 0,
            "the segment that becomes the head has batches already"
        );
        debug_assert!(head.used + length <= head.size, "the head has no space for the batch");
        true
    }

    fn fail(&mut self, error: DiskError) {
        self.disk_error.get_or_insert(error);
    }
}

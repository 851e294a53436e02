//! Writes and syncs: sealed batches are submitted in order, and completions are taken in.

use super::{Journal, Stage, SyncMode};
use crate::base::time::{Mono, Now};
use crate::journal::disk::{DiskOp, IoCompletion, IoFailure, IoKind};
use crate::journal::format::{
    BatchHeader, FRAME_ALIGN_BYTES, FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES,
};
use crate::journal::limits::{
    JOURNAL_POOLED_BUFFER_MAX_BYTES, JOURNAL_POOLED_BUFFERS_MAX, JOURNAL_SYNCS_IN_FLIGHT_MAX,
    JOURNAL_WRITES_IN_FLIGHT_MAX,
};
use std::collections::VecDeque;

/// A sealed batch that is not submitted.
#[derive(Debug)]
pub(super) struct SealedBatch {
    pub(super) epoch: u64,
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) sequence: u64,
    pub(super) records: u32,
    /// The records that are not moved by compaction.
    pub(super) client_records: u32,
}

/// A submitted write.
#[derive(Debug)]
struct PendingWrite {
    sequence: u64,
    records: u32,
}

/// A submitted sync.
#[derive(Debug)]
struct PendingSync {
    /// The last batch that it makes durable.
    covers: u64,
    /// The count of records submitted up to that batch.
    records: u64,
}

/// Batches on their way to the disk, and the last batch to have reached each stage.
#[derive(Debug)]
pub(super) struct IoQueue {
    sealed: VecDeque<SealedBatch>,
    sealed_bytes: u64,
    writes: VecDeque<PendingWrite>,
    syncs: VecDeque<PendingSync>,
    /// The last submitted batch, and its segment.
    pub(super) submitted: u64,
    pub(super) epoch: u64,
    submitted_records: u64,
    /// The client records of the last submitted batch.
    pub(super) last_client_records: u32,
    synced_records: u64,
    pub(super) written: u64,
    pub(super) synced: u64,
    /// The last batch that a completed sync covers. It counts as synced once it is written: a sync
    /// says nothing of a write that has failed.
    sync_done: u64,
    /// The last batch that a submitted sync covers.
    covered: u64,
    /// When the next sync is due, with [`SyncMode::Every`].
    sync_due: Option<Mono>,
    pool: Vec<Vec<u8>>,
}

impl IoQueue {
    pub(super) fn new(last: &BatchHeader, epoch: u64) -> Self {
        Self {
            sealed: VecDeque::new(),
            sealed_bytes: 0,
            writes: VecDeque::new(),
            syncs: VecDeque::new(),
            submitted: last.sequence,
            epoch,
            submitted_records: 0,
            last_client_records: 0,
            synced_records: 0,
            written: last.sequence,
            synced: last.synced,
            sync_done: last.synced,
            covered: last.sequence,
            sync_due: None,
            pool: Vec::new(),
        }
    }

    /// An empty buffer for a batch.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        let buffer = self.pool.pop().unwrap_or_default();
        debug_assert!(buffer.is_empty(), "a pooled buffer holds an earlier batch");
        buffer
    }

    fn recycle_buffer(&mut self, mut buffer: Vec<u8>) {
        if self.pool.len() < JOURNAL_POOLED_BUFFERS_MAX
            && buffer.capacity() <= JOURNAL_POOLED_BUFFER_MAX_BYTES
        {
            buffer.clear();
            self.pool.push(buffer);
        }
    }

    /// Queues a batch: the one after the last that was sealed or submitted.
    pub(super) fn seal(&mut self, sealed: SealedBatch) {
        debug_assert!(
            self.sealed.back().is_none_or(|before| {
                let end = before.offset + before.bytes.len() as u64;
                before.epoch < sealed.epoch || end <= sealed.offset + FRAME_ALIGN_BYTES as u64
            }),
            "a batch overwrites more of the one before it than the zeros at its end"
        );
        debug_assert!(
            sealed.client_records <= sealed.records && sealed.bytes.len() >= FRAME_HEADER_BYTES,
            "a batch has more records of clients than records, or no header"
        );
        let before = self.sealed.back().map(|before| (before.sequence, before.epoch));
        let (sequence, epoch) = before.unwrap_or((self.submitted, self.epoch));
        assert!(
            sealed.sequence == sequence + 1 && sealed.epoch >= epoch,
            "batches are not sealed in order"
        );
        self.sealed_bytes += sealed.bytes.len() as u64;
        self.sealed.push_back(sealed);
    }

    /// Whether neither a write nor a sync is submitted.
    pub(super) fn is_idle(&self) -> bool {
        self.writes.is_empty() && self.syncs.is_empty()
    }

    /// Whether no sealed batch waits to be submitted.
    pub(super) fn has_no_sealed(&self) -> bool {
        self.sealed.is_empty()
    }

    /// Bytes of sealed batches that are not submitted.
    pub(super) fn sealed_bytes(&self) -> u64 {
        debug_assert_eq!(
            self.sealed_bytes == 0,
            self.sealed.is_empty(),
            "the bytes of sealed batches are counted wrongly"
        );
        self.sealed_bytes
    }

    /// Asserts the order of the stages; `sequence` is the open batch. O(1).
    pub(super) fn assert_order(&self, sequence: u64) {
        assert!(
            self.synced <= self.written
                && self.written <= self.submitted
                && self.submitted < sequence,
            "a batch has reached a stage before an earlier one"
        );
        assert!(self.covered <= self.submitted, "a sync covers a batch that is not submitted");
        debug_assert!(
            self.synced <= self.covered && self.sync_done <= self.covered,
            "a batch is synced that no submitted sync covers"
        );
        debug_assert_eq!(
            self.writes.len() as u64,
            self.submitted - self.written,
            "a submitted batch is neither written nor waited for"
        );
        debug_assert_eq!(
            self.submitted + self.sealed.len() as u64 + 1,
            sequence,
            "a batch is neither open nor sealed nor submitted"
        );
        debug_assert!(
            self.synced_records <= self.submitted_records,
            "more records are synced than were submitted"
        );
    }

    pub(super) fn check_invariants(&self, sequence: u64) {
        self.assert_order(sequence);
        let mut next = self.written + 1;
        let numbers = self.writes.iter().map(|write| write.sequence);
        for number in numbers.chain(self.sealed.iter().map(|sealed| sealed.sequence)) {
            assert_eq!(number, next, "batches are not written in order");
            next += 1;
        }
        assert_eq!(next, sequence, "a batch is neither open nor sealed, submitted or written");
        let bytes: usize = self.sealed.iter().map(|sealed| sealed.bytes.len()).sum();
        assert_eq!(self.sealed_bytes, bytes as u64);
    }
}

impl Journal {
    /// Submits batches while the disk accepts writes and their segments are ready.
    pub(super) fn submit_writes(&mut self, now: Now) {
        while self.disk_error.is_none() && self.io.writes.len() < JOURNAL_WRITES_IN_FLIGHT_MAX {
            if self.io.sealed.is_empty() {
                if self.delay_commit(now) {
                    return;
                }
                self.seal();
            }
            let Some(first) = self.io.sealed.front() else { return };
            let epoch = first.epoch;
            debug_assert!(
                (self.io.epoch..=self.head).contains(&epoch),
                "a sealed batch is in a segment behind the head, or before the last one written to"
            );
            if !self.live_index.segment(epoch).ready {
                return;
            }
            let sync = self.options.sync == SyncMode::Always;
            if !sync && epoch != self.io.epoch && self.io.covered < self.io.submitted {
                self.submit_sync(self.io.epoch, self.io.submitted);
            }
            self.submit_write(sync, now);
            self.on_completion(now);
        }
    }

    fn submit_write(&mut self, sync: bool, now: Now) {
        let io = &mut self.io;
        let Some(SealedBatch { epoch, offset, bytes, sequence, records, client_records: own }) =
            io.sealed.pop_front()
        else {
            return;
        };
        assert!(
            sequence == io.submitted + 1 && epoch >= io.epoch,
            "batches are not submitted in the order of their sequences"
        );
        assert!(io.sealed_bytes >= bytes.len() as u64, "a sealed batch was not counted");
        debug_assert!(
            offset >= SEGMENT_HEADER_BYTES as u64
                && offset + bytes.len() as u64 <= self.live_index.segment(epoch).size,
            "a batch is written within its segment, behind the header"
        );
        debug_assert!(
            self.live_index.segment(epoch).ready,
            "a batch is written into a segment that is not prepared"
        );
        debug_assert!(
            io.writes.len() < JOURNAL_WRITES_IN_FLIGHT_MAX,
            "more writes are submitted than the disk takes at a time"
        );
        debug_assert!(self.stage != Stage::Closed, "a closed journal writes a batch");
        io.sealed_bytes -= bytes.len() as u64;
        io.writes.push_back(PendingWrite { sequence, records });
        io.submitted = sequence;
        io.submitted_records += u64::from(records);
        io.last_client_records = own;
        io.epoch = epoch;
        if sync {
            io.covered = sequence;
        } else if let SyncMode::Every(interval) = self.options.sync {
            io.sync_due.get_or_insert_with(|| now.mono.after(interval));
        }
        self.counters.written_bytes += bytes.len() as u64;
        self.disk.submit(DiskOp::Write { epoch, offset, bytes, sync });
    }

    /// Syncs what was submitted to segment `epoch`, the last being batch `covers`.
    pub(super) fn submit_sync(&mut self, epoch: u64, covers: u64) {
        let io = &mut self.io;
        let records = io.submitted_records;
        assert!(covers <= io.submitted, "a sync would cover a batch that is not submitted");
        debug_assert!(
            io.syncs.back().is_none_or(|last| last.covers <= covers),
            "syncs are submitted in the order of the batches that they cover"
        );
        debug_assert!(
            io.syncs.back().is_none_or(|last| last.records <= records)
                && io.synced_records <= records,
            "a sync covers fewer records than an earlier one"
        );
        debug_assert!(
            self.live_index.segments[self.live_index.segment_index(epoch)].ready,
            "a segment is synced that is not prepared"
        );
        io.syncs.push_back(PendingSync { covers, records });
        io.covered = io.covered.max(covers);
        io.sync_due = None;
        self.disk.submit(DiskOp::Sync { epoch });
    }

    /// Whether a submitted batch that frees segments is covered by no sync.
    fn frees_pending(&self) -> bool {
        debug_assert!(
            self.allocator.frees.back().is_none_or(|&(sequence, _)| sequence < self.sequence),
            "a batch that is not sealed frees segments"
        );
        self.allocator.frees.front().is_some_and(|&(sequence, _)| {
            self.io.covered < sequence && sequence <= self.io.submitted
        })
    }

    /// Submits a sync if the timer or a segment that is to be freed requires one.
    pub(super) fn submit_due_sync(&mut self, now: Now) {
        let io = &self.io;
        if self.options.sync == SyncMode::Always
            || io.syncs.len() >= JOURNAL_SYNCS_IN_FLIGHT_MAX
            || io.covered == io.submitted
        {
            return;
        }
        let due = io.sync_due.is_some_and(|due| due <= now.mono);
        if due || (self.frees_pending() && io.syncs.is_empty()) {
            self.submit_sync(self.io.epoch, self.io.submitted);
        }
    }

    pub(super) fn sync_timer(&self) -> Option<Mono> {
        self.io.sync_due.filter(|_| self.io.syncs.len() < JOURNAL_SYNCS_IN_FLIGHT_MAX)
    }

    /// Takes in all completions of the disk.
    pub(super) fn on_completion(&mut self, now: Now) {
        let durable = self.durable();
        while self.disk_error.is_none()
            && let Some(IoCompletion { kind, result, buffer, sync_ns }) = self.disk.poll()
        {
            match (kind, result) {
                (IoKind::Space, result) => self.on_task_done(result, now),
                (_, Err(IoFailure::Full(error) | IoFailure::Error(error))) => self.fail(error),
                (IoKind::Written | IoKind::Coalesced, Ok(())) => {
                    debug_assert!(
                        kind == IoKind::Written || self.options.sync == SyncMode::Always,
                        "a write without a sync shares the sync of another one"
                    );
                    self.io.recycle_buffer(buffer);
                    self.on_write_done((kind == IoKind::Written).then_some(sync_ns));
                }
                (IoKind::Synced, Ok(())) => self.on_sync_done(sync_ns),
            }
        }
        debug_assert!(
            (durable..self.sequence).contains(&self.durable()),
            "a batch is no longer durable, or one is that is still open"
        );
    }

    /// The earliest write has completed. `own_sync_ns`: the duration of its sync, unless that of
    /// the write before covered it.
    fn on_write_done(&mut self, own_sync_ns: Option<u64>) {
        let write = self.io.writes.pop_front().expect("a write was submitted");
        assert!(
            write.sequence == self.io.written + 1,
            "writes do not complete in the order of their submission"
        );
        debug_assert!(
            write.sequence <= self.io.submitted,
            "a batch is written that was not submitted"
        );
        self.io.written = write.sequence;
        self.counters.records += u64::from(write.records);
        self.counters.batches += 1;
        if self.options.sync == SyncMode::Always {
            assert!(self.io.syncs.is_empty(), "a write with sync overtook a sync");
            self.io.synced = write.sequence;
            self.counters.synced_records += u64::from(write.records);
            if let Some(nanos) = own_sync_ns {
                self.counters.count_sync(nanos);
            }
        }
        self.on_synced();
    }

    fn on_synced(&mut self) {
        self.io.synced = self.io.synced.max(self.io.sync_done.min(self.io.written));
        assert!(self.io.synced <= self.io.written, "a batch is synced before it is written");
    }

    fn on_sync_done(&mut self, nanos: u64) {
        let sync = self.io.syncs.pop_front().expect("a sync was submitted");
        assert!(
            sync.covers <= self.io.covered && sync.records >= self.io.synced_records,
            "syncs do not complete in the order of their submission"
        );
        self.io.sync_done = self.io.sync_done.max(sync.covers);
        self.on_synced();
        debug_assert!(
            sync.records <= self.io.submitted_records,
            "a sync covers records that were submitted"
        );
        self.counters.synced_records += sync.records - self.io.synced_records;
        self.io.synced_records = sync.records;
        self.counters.count_sync(nanos);
    }

    /// Whether batches wait because their segment is not ready.
    pub(super) fn lacks_segment(&self) -> bool {
        let is_delayed = self.batch.delayed.is_some();
        self.io.writes.len() < JOURNAL_WRITES_IN_FLIGHT_MAX
            && self.pending_bytes() > 0
            && !is_delayed
    }

    /// Bytes appended and not submitted.
    pub(super) fn pending_bytes(&self) -> u64 {
        debug_assert!(
            self.batch.bytes.is_empty() || self.batch.bytes.len() >= FRAME_HEADER_BYTES,
            "the open batch has no space for its header"
        );
        self.batch.bytes.len() as u64 + self.io.sealed_bytes()
    }

    /// Whether the journal is closing or closed.
    pub(super) fn is_closing(&self) -> bool {
        self.stage != Stage::Running
    }
}

//! Writes and syncs: what is sealed goes to the disk in order, what is done is taken in.

use super::{Journal, Stage, SyncMode};
use crate::base::limits::{
    GROUP_COMMIT_MAX_DELAY, GROUP_COMMIT_MAX_RECORDS, GROUP_COMMIT_MIN_RECORDS,
    JOURNAL_POOLED_BUFFER_MAX_BYTES, JOURNAL_POOLED_BUFFERS, JOURNAL_SYNCS_IN_FLIGHT_MAX,
    JOURNAL_WRITES_IN_FLIGHT_MAX,
};
use crate::base::time::{Mono, Now};
use crate::journal::disk::{DiskOp, IoCompletion, IoFailure, IoKind};
use crate::journal::format::BatchHeader;
use std::collections::VecDeque;

/// A batch with its place, on its way to the disk.
#[derive(Debug)]
pub(super) struct SealedBatch {
    pub(super) epoch: u64,
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) sequence: u64,
    pub(super) records: u32,
    /// How many of them say what clients have changed.
    pub(super) client_records: u32,
}

/// A write under way.
#[derive(Debug)]
struct PendingWrite {
    sequence: u64,
    records: u32,
}

/// A sync under way.
#[derive(Debug)]
struct PendingSync {
    /// The last batch that it makes durable.
    covers: u64,
    /// How many records were submitted by then.
    records: u64,
}

/// What is on its way to the disk, and how far it has come.
#[derive(Debug)]
pub(super) struct IoQueue {
    sealed: VecDeque<SealedBatch>,
    sealed_bytes: u64,
    writes: VecDeque<PendingWrite>,
    syncs: VecDeque<PendingSync>,
    /// The last batch that was submitted, and its segment.
    pub(super) submitted: u64,
    pub(super) epoch: u64,
    submitted_records: u64,
    /// How many records of its own the last batch has that was submitted.
    last_client_records: u32,
    synced_records: u64,
    pub(super) written: u64,
    pub(super) synced: u64,
    /// The last batch that a finished sync covers. It counts as synced once it counts as written:
    /// the sync of a write that has failed says nothing.
    sync_done: u64,
    /// The last batch that a submitted sync covers.
    covered: u64,
    /// When the next sync is due, if syncs are made by a timer.
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
        self.pool.pop().unwrap_or_default()
    }

    fn recycle_buffer(&mut self, mut buffer: Vec<u8>) {
        if self.pool.len() < JOURNAL_POOLED_BUFFERS
            && buffer.capacity() <= JOURNAL_POOLED_BUFFER_MAX_BYTES
        {
            buffer.clear();
            self.pool.push(buffer);
        }
    }

    pub(super) fn seal(&mut self, sealed: SealedBatch) {
        self.sealed_bytes += sealed.bytes.len() as u64;
        self.sealed.push_back(sealed);
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.writes.is_empty() && self.syncs.is_empty()
    }

    /// Whether nothing waits for a segment.
    pub(super) fn has_no_sealed(&self) -> bool {
        self.sealed.is_empty()
    }

    /// Bytes of sealed batches that are not submitted.
    pub(super) fn sealed_bytes(&self) -> u64 {
        self.sealed_bytes
    }

    pub(super) fn check_invariants(&self, sequence: u64) {
        let mut next = self.written + 1;
        let numbers = self.writes.iter().map(|write| write.sequence);
        for number in numbers.chain(self.sealed.iter().map(|sealed| sealed.sequence)) {
            assert_eq!(number, next, "batches are written in order");
            next += 1;
        }
        assert_eq!(next, sequence, "every batch is open, sealed, submitted or written");
        assert!(self.synced <= self.covered.max(self.submitted));
        let bytes: usize = self.sealed.iter().map(|sealed| sealed.bytes.len()).sum();
        assert_eq!(self.sealed_bytes, bytes as u64);
    }
}

impl Journal {
    /// Hands batches to the disk as long as it is not busy and their segments are there.
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

    /// Whether the open batch waits for another pass, if it is going to be synced. Where many
    /// clients are at work the next pass has requests, too, and a sync costs as much for one as for
    /// a hundred; once a pass brings nothing there is nothing to wait for.
    fn delay_commit(&mut self, now: Now) -> bool {
        let batch = &mut self.batch;
        let own = batch.client_count();
        let grows = batch.delayed.is_none_or(|(_, before)| own > before);
        let (since, _) = batch.delayed.unwrap_or((now.mono, 0));
        let holds = grows
            && self.stage == Stage::Running
            && self.options.sync == SyncMode::Always
            && self.io.last_client_records >= GROUP_COMMIT_MIN_RECORDS
            && (1..GROUP_COMMIT_MAX_RECORDS).contains(&own)
            && now.mono < since.after(GROUP_COMMIT_MAX_DELAY);
        batch.delayed = holds.then_some((since, own));
        holds
    }

    fn submit_write(&mut self, sync: bool, now: Now) {
        let lanes = &mut self.io;
        let Some(SealedBatch { epoch, offset, bytes, sequence, records, client_records: own }) =
            lanes.sealed.pop_front()
        else {
            return;
        };
        lanes.sealed_bytes -= bytes.len() as u64;
        lanes.writes.push_back(PendingWrite { sequence, records });
        lanes.submitted = sequence;
        lanes.submitted_records += u64::from(records);
        lanes.last_client_records = own;
        lanes.epoch = epoch;
        if sync {
            lanes.covered = sequence;
        } else if let SyncMode::Every(interval) = self.options.sync {
            lanes.sync_due.get_or_insert_with(|| now.mono.after(interval));
        }
        self.counters.written_bytes += bytes.len() as u64;
        self.disk.submit(DiskOp::Write { epoch, offset, bytes, sync });
    }

    /// Syncs what was submitted to segment `epoch`, the last being batch `covers`.
    pub(super) fn submit_sync(&mut self, epoch: u64, covers: u64) {
        let lanes = &mut self.io;
        let records = lanes.submitted_records;
        lanes.syncs.push_back(PendingSync { covers, records });
        lanes.covered = lanes.covered.max(covers);
        lanes.sync_due = None;
        self.disk.submit(DiskOp::Sync { epoch });
    }

    /// Whether a batch that is to give segments up is submitted and no sync will make it durable.
    fn frees_pending(&self) -> bool {
        self.allocator.frees.front().is_some_and(|&(sequence, _)| {
            self.io.covered < sequence && sequence <= self.io.submitted
        })
    }

    /// Submits the sync that the timer, or a segment to be given up, wants.
    pub(super) fn submit_due_sync(&mut self, now: Now) {
        let lanes = &self.io;
        if self.options.sync == SyncMode::Always
            || lanes.syncs.len() >= JOURNAL_SYNCS_IN_FLIGHT_MAX
            || lanes.covered == lanes.submitted
        {
            return;
        }
        let due = lanes.sync_due.is_some_and(|due| due <= now.mono);
        if due || (self.frees_pending() && lanes.syncs.is_empty()) {
            self.submit_sync(self.io.epoch, self.io.submitted);
        }
    }

    pub(super) fn sync_timer(&self) -> Option<Mono> {
        self.io.sync_due.filter(|_| self.io.syncs.len() < JOURNAL_SYNCS_IN_FLIGHT_MAX)
    }

    /// Takes in everything that the disk has finished.
    pub(super) fn on_completion(&mut self, now: Now) {
        while self.disk_error.is_none()
            && let Some(IoCompletion { kind, result, buffer, sync_ns }) = self.disk.poll()
        {
            match (kind, result) {
                (IoKind::Space, result) => self.on_task_done(result, now),
                (_, Err(IoFailure::Full(fault) | IoFailure::Error(fault))) => self.fail(fault),
                (IoKind::Written | IoKind::Coalesced, Ok(())) => {
                    self.io.recycle_buffer(buffer);
                    self.on_write_done((kind == IoKind::Written).then_some(sync_ns));
                }
                (IoKind::Synced, Ok(())) => self.on_sync_done(sync_ns),
            }
        }
    }

    /// The earliest write is done, by a sync of its own that took so long, or by that of the one
    /// before.
    fn on_write_done(&mut self, own: Option<u64>) {
        let write = self.io.writes.pop_front().expect("a write was under way");
        self.io.written = write.sequence;
        self.counters.records += u64::from(write.records);
        self.counters.batches += 1;
        if self.options.sync == SyncMode::Always {
            assert!(self.io.syncs.is_empty(), "a sync was passed by a later one");
            self.io.synced = write.sequence;
            self.counters.synced_records += u64::from(write.records);
            if let Some(nanos) = own {
                self.counters.count_sync(nanos);
            }
        }
        self.on_synced();
    }

    fn on_synced(&mut self) {
        self.io.synced = self.io.synced.max(self.io.sync_done.min(self.io.written));
    }

    fn on_sync_done(&mut self, nanos: u64) {
        let sync = self.io.syncs.pop_front().expect("a sync was under way");
        self.io.sync_done = self.io.sync_done.max(sync.covers);
        self.on_synced();
        self.counters.synced_records += sync.records - self.io.synced_records;
        self.io.synced_records = sync.records;
        self.counters.count_sync(nanos);
    }

    /// Whether something is held up although the disk would take it: its segment is not there.
    pub(super) fn lacks_segment(&self) -> bool {
        let is_held = self.batch.delayed.is_some();
        self.io.writes.len() < JOURNAL_WRITES_IN_FLIGHT_MAX && self.pending_bytes() > 0 && !is_held
    }

    /// Bytes that were appended and not submitted.
    pub(super) fn pending_bytes(&self) -> u64 {
        self.batch.bytes.len() as u64 + self.io.sealed_bytes()
    }

    /// Whether the journal is on its way to its end.
    pub(super) fn is_closing(&self) -> bool {
        self.stage != Stage::Running
    }
}

//! The real disk under a running journal: two helper threads, so that the loop never waits.
//!
//! One thread syncs, and writes what is to be synced at once: whatever has come during one sync is
//! written together and synced together. The other thread prepares, frees and discards. Writes that
//! are not synced at once go to the page cache right where they are submitted, unless there is no
//! descriptor to do that with: the thread waits for one. After completions of a thread `wake` is
//! called. What is synced at once is written past the page cache where the file
//! system can do that.

use super::directory::{Directory, fault};
use super::reserve::Reserve;
use super::segment_files::SegmentFiles;
use super::segment_preparer::{PrefillPacer, SegmentPreparer};
use crate::journal::SyncMode;
use crate::journal::disk::{
    Disk, DiskError, DiskOp, IoCompletion, IoFailure, IoKind, PrefillTarget,
};
use crate::reactor::clock::Stopwatch;
use crate::reactor::thread_priority::lower_priority;
use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use tracing::debug;

/// What is called after each completion: it makes the loop poll.
pub type Notify = Arc<dyn Fn() + Send + Sync>;

/// A directory that a journal runs on. Dropping it ends the threads, after what they have begun.
#[derive(Debug)]
pub struct FileDisk {
    writer: SegmentFiles,
    syncs: Option<Sender<DiskOp>>,
    space: Option<Sender<DiskOp>>,
    done: Receiver<IoCompletion>,
    /// Writes that were done where they were submitted.
    written: VecDeque<IoCompletion>,
    haste: Arc<PrefillPacer>,
    reserve: Arc<Reserve>,
    /// Writes that the thread has and has not told to be done.
    handed_on: usize,
    threads: Vec<JoinHandle<()>>,
    /// Held locked.
    _lock: Option<File>,
}

impl FileDisk {
    /// A disk on this directory, for a journal that syncs like this; `wake` is called from the
    /// threads.
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub fn start(directory: Directory, sync: SyncMode, wake: Notify) -> Result<Self, DiskError> {
        let (path, lock) = directory.into_parts();
        let (done, completions) = channel();
        let (haste, reserve) = (Arc::new(PrefillPacer::new()), Arc::new(Reserve::new()));
        let segments = || SegmentFiles::new(path.clone(), Arc::clone(&reserve));
        let mut threads = Vec::new();

        let (syncs, operations) = channel();
        let answer = CompletionSender { done: done.clone(), wake: Arc::clone(&wake) };
        let mut lane = DiskThread { segments: segments(), answer };
        threads.push(spawn("journal-sync", &path, move || lane.serve(&operations))?);

        let past_cache = sync == SyncMode::Always;
        let (for_room, hurried) = (Arc::clone(&reserve), Arc::clone(&haste));
        let mut room = SegmentPreparer::new(path.clone(), past_cache, hurried, for_room);
        let (space, operations) = channel();
        let answer = CompletionSender { done, wake };
        threads.push(spawn("journal-space", &path, move || {
            if let Err(why) = lower_priority() {
                debug!(%why, "the thread that prepares segments has the usual priority");
            }
            while let Ok(op) = operations.recv() {
                answer.send(std::iter::once(room.carry_out(op)));
            }
        })?);

        Ok(Self {
            writer: segments(),
            syncs: Some(syncs),
            space: Some(space),
            done: completions,
            written: VecDeque::new(),
            haste,
            reserve,
            handed_on: 0,
            threads,
            _lock: lock,
        })
    }
}

impl Disk for FileDisk {
    fn submit(&mut self, op: DiskOp) {
        let lane = match &op {
            // In their order: so none is done here while the thread has others.
            DiskOp::Write { sync: false, epoch, .. }
                if self.handed_on == 0 && self.writer.can_open(*epoch) =>
            {
                self.written.push_back(execute(&mut self.writer, op));
                return;
            }
            DiskOp::Write { .. } => {
                self.handed_on += 1;
                &self.syncs
            }
            DiskOp::Sync { .. } => &self.syncs,
            DiskOp::Prepare { .. } | DiskOp::Free { .. } | DiskOp::Discard { .. } => &self.space,
        };
        let sent = lane.as_ref().map(|lane| lane.send(op));
        assert!(matches!(sent, Some(Ok(()))), "a thread of the journal has died");
    }

    fn set_prefill_target(&mut self, epoch: u64, need: PrefillTarget) {
        if self.haste.note(epoch, need) {
            self.interrupt_pauses();
        }
    }

    fn poll(&mut self) -> Option<IoCompletion> {
        if let Some(done) = self.written.pop_front() {
            return Some(done);
        }
        let done = self.done.try_recv().ok()?;
        if matches!(done.kind, IoKind::Written | IoKind::Coalesced) {
            self.handed_on -= 1;
        }
        Some(done)
    }
}

impl FileDisk {
    fn interrupt_pauses(&self) {
        self.threads.iter().for_each(|thread| thread.thread().unpark());
    }
}

impl Drop for FileDisk {
    fn drop(&mut self) {
        self.haste.stop();
        self.reserve.stop();
        (self.syncs, self.space) = (None, None);
        self.interrupt_pauses();
        for thread in self.threads.drain(..) {
            // A thread that has panicked has said so.
            let _ = thread.join();
        }
    }
}

fn spawn(
    name: &str,
    path: &Path,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, DiskError> {
    let builder = thread::Builder::new().name(name.to_owned());
    builder.spawn(work).map_err(|error| fault("start a thread for", path, &error))
}

/// Where completions go.
struct CompletionSender {
    done: Sender<IoCompletion>,
    wake: Notify,
}

impl CompletionSender {
    fn send(&self, done: impl Iterator<Item = IoCompletion>) {
        for done in done {
            // Nobody listens once the disk is dropped.
            let _ = self.done.send(done);
        }
        (self.wake)();
    }
}

/// The lane of writes that are synced at once, and of syncs.
struct DiskThread {
    segments: SegmentFiles,
    answer: CompletionSender,
}

impl DiskThread {
    /// Carries out operations in their order until there are no more senders.
    fn serve(&mut self, operations: &Receiver<DiskOp>) {
        let mut next = operations.recv().ok();
        while let Some(op) = next {
            let more = if let DiskOp::Write { epoch, sync: true, .. } = op {
                self.write_together(epoch, op, operations)
            } else {
                self.answer.send(std::iter::once(execute(&mut self.segments, op)));
                None
            };
            next = more.or_else(|| operations.recv().ok());
        }
    }

    /// Writes `first` and all that have come behind it for the same segment, and makes them durable
    /// together. Gives back what came that is something else.
    fn write_together(
        &mut self,
        segment: u64,
        first: DiskOp,
        operations: &Receiver<DiskOp>,
    ) -> Option<DiskOp> {
        let watch = Stopwatch::start();
        let (mut writes, mut next) = (Vec::new(), Some(first));
        while let Some(DiskOp::Write { epoch, offset, bytes, sync: true }) = next {
            if epoch != segment {
                next = Some(DiskOp::Write { epoch, offset, bytes, sync: true });
                break;
            }
            writes.push((offset, bytes));
            next = operations.try_recv().ok();
        }
        let result = self.segments.write_durably(segment, &writes).map_err(IoFailure::Error);
        let nanos = watch.nanos();
        self.answer.send(writes.into_iter().enumerate().map(|(number, (_, buffer))| {
            let (kind, sync_ns) =
                if number == 0 { (IoKind::Written, nanos) } else { (IoKind::Coalesced, 0) };
            IoCompletion { kind, result: result.clone(), buffer, sync_ns }
        }));
        next
    }
}

fn execute(segments: &mut SegmentFiles, op: DiskOp) -> IoCompletion {
    let mut sync_ns = 0;
    let (kind, result, buffer) = match op {
        DiskOp::Write { epoch, offset, bytes, .. } => {
            (IoKind::Written, segments.write(epoch, offset, &bytes), bytes)
        }
        DiskOp::Sync { epoch } => {
            let watch = Stopwatch::start();
            let result = segments.sync(epoch);
            sync_ns = watch.nanos();
            (IoKind::Synced, result, Vec::new())
        }
        DiskOp::Prepare { .. } | DiskOp::Free { .. } | DiskOp::Discard { .. } => {
            unreachable!("the other thread sees to space")
        }
    };
    IoCompletion { kind, result: result.map_err(IoFailure::Error), buffer, sync_ns }
}

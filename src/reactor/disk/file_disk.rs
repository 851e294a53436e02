//! The disk of a running journal: two threads, so that the loop does not block.
//!
//! The sync thread does syncs and synced writes: all writes that arrive during one sync are written
//! and synced together, with direct I/O where the file system supports it. The space thread
//! prepares, frees and discards segments. Unsynced writes go to the page cache on the calling
//! thread, unless no descriptor is free: then the sync thread waits for one. Each thread calls
//! `wake` after its completions.

use super::directory::{Directory, fault};
use super::reserve::Reserve;
use super::segment_files::SegmentFiles;
use super::segment_preparer::{PrefillPacer, SegmentPreparer};
use crate::journal::SyncMode;
use crate::journal::disk::{
    Disk, DiskError, DiskOp, IoCompletion, IoFailure, IoKind, PrefillTarget, SpaceOp,
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

/// Called after each completion of a thread: makes the loop poll.
pub type Notify = Arc<dyn Fn() + Send + Sync>;

/// The directory of a running journal. Dropping it joins the threads, after the operations that
/// they have begun.
#[derive(Debug)]
pub struct FileDisk {
    writer: SegmentFiles,
    syncs: Option<Sender<DiskOp>>,
    space: Option<Sender<SpaceOp>>,
    done: Receiver<IoCompletion>,
    /// Completions of writes on the calling thread.
    written: VecDeque<IoCompletion>,
    pacer: Arc<PrefillPacer>,
    reserve: Arc<Reserve>,
    /// Writes that the sync thread has not completed.
    queued_writes: usize,
    threads: Vec<JoinHandle<()>>,
    /// The locks of the directory.
    _locks: Vec<File>,
}

impl FileDisk {
    /// Starts the threads on this directory. `wake` is called from them.
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub fn start(directory: Directory, sync: SyncMode, wake: Notify) -> Result<Self, DiskError> {
        let (path, locks) = directory.into_parts();
        let (done, completions) = channel();
        let (pacer, reserve) = (Arc::new(PrefillPacer::new()), Arc::new(Reserve::new()));
        let segments = || SegmentFiles::new(path.clone(), Arc::clone(&reserve));
        let mut threads = Vec::new();

        let (syncs, operations) = channel();
        let completions_to = CompletionSender { done: done.clone(), wake: Arc::clone(&wake) };
        let mut thread = SyncThread { segments: segments(), completions: completions_to };
        threads.push(spawn("journal-sync", &path, move || thread.serve(&operations))?);

        let direct = sync == SyncMode::Always;
        let mut preparer =
            SegmentPreparer::new(path.clone(), direct, Arc::clone(&pacer), Arc::clone(&reserve));
        let (space, operations) = channel();
        let completions_to = CompletionSender { done, wake };
        threads.push(spawn("journal-space", &path, move || {
            if let Err(why) = lower_priority() {
                debug!(%why, "the thread that prepares segments has the usual priority");
            }
            while let Ok(op) = operations.recv() {
                completions_to.send(std::iter::once(preparer.execute(op)));
            }
        })?);

        Ok(Self {
            writer: segments(),
            syncs: Some(syncs),
            space: Some(space),
            done: completions,
            written: VecDeque::new(),
            pacer,
            reserve,
            queued_writes: 0,
            threads,
            _locks: locks,
        })
    }
}

impl Disk for FileDisk {
    fn submit(&mut self, op: DiskOp) {
        match &op {
            // Writes keep their order: none is done here while the sync thread has others.
            DiskOp::Write { sync: false, epoch, .. }
                if self.queued_writes == 0 && self.writer.can_open(*epoch) =>
            {
                self.written.push_back(execute(&mut self.writer, op));
                return;
            }
            DiskOp::Write { .. } => self.queued_writes += 1,
            DiskOp::Sync { .. } => {}
        }
        send(self.syncs.as_ref(), op);
    }

    fn submit_space(&mut self, op: SpaceOp) {
        send(self.space.as_ref(), op);
    }

    fn set_prefill_target(&mut self, epoch: u64, need: PrefillTarget) {
        if self.pacer.set_target(epoch, need) {
            self.interrupt_pauses();
        }
    }

    fn poll(&mut self) -> Option<IoCompletion> {
        if let Some(done) = self.written.pop_front() {
            return Some(done);
        }
        let done = self.done.try_recv().ok()?;
        if matches!(done.kind, IoKind::Written | IoKind::Coalesced) {
            debug_assert!(self.queued_writes > 0, "a write completes that was not queued");
            self.queued_writes -= 1;
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
        self.pacer.stop();
        self.reserve.stop();
        (self.syncs, self.space) = (None, None);
        self.interrupt_pauses();
        for thread in self.threads.drain(..) {
            // A panic of the thread was reported by the panic hook.
            let _ = thread.join();
        }
    }
}

/// Hands an operation to a thread.
fn send<T>(thread: Option<&Sender<T>>, op: T) {
    let sent = thread.map(|thread| thread.send(op));
    assert!(matches!(sent, Some(Ok(()))), "a thread of the journal has died");
}

fn spawn(
    name: &str,
    path: &Path,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, DiskError> {
    let builder = thread::Builder::new().name(name.to_owned());
    builder.spawn(work).map_err(|error| fault("start a thread for", path, &error))
}

struct CompletionSender {
    done: Sender<IoCompletion>,
    wake: Notify,
}

impl CompletionSender {
    fn send(&self, done: impl Iterator<Item = IoCompletion>) {
        for done in done {
            // Fails once the disk is dropped.
            let _ = self.done.send(done);
        }
        (self.wake)();
    }
}

/// The thread of syncs and synced writes.
struct SyncThread {
    segments: SegmentFiles,
    completions: CompletionSender,
}

impl SyncThread {
    /// Executes operations in FIFO order until their sender is dropped.
    fn serve(&mut self, operations: &Receiver<DiskOp>) {
        let mut next = operations.recv().ok();
        while let Some(op) = next {
            let more = if let DiskOp::Write { epoch, sync: true, .. } = op {
                self.write_together(epoch, op, operations)
            } else {
                self.completions.send(std::iter::once(execute(&mut self.segments, op)));
                None
            };
            next = more.or_else(|| operations.recv().ok());
        }
    }

    /// Writes `first` and all queued synced writes behind it for the same segment, with one sync.
    /// Returns the next operation if it was received and is something else.
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
        self.completions.send(writes.into_iter().enumerate().map(|(number, (_, buffer))| {
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
    };
    IoCompletion { kind, result: result.map_err(IoFailure::Error), buffer, sync_ns }
}

//! The real disk under a running journal: two helper threads, so that the loop never waits.
//!
//! One thread syncs, and writes what is to be synced at once: whatever has come during one sync is
//! written together and synced together. The other thread prepares, frees and discards. Writes that
//! are not synced at once go to the page cache right where they are submitted. After completions of
//! a thread `wake` is called.
//!
//! A new segment is filled with zeros a piece at a time, each synced before the next one and with a
//! pause behind it, so that the syncs of the journal never queue behind a large one, and seldom
//! behind a small one. Once the journal waits for it there are none of these: the rest is written
//! in one go.

use super::directory::{Directory, fault, sync_names};
use super::segments::Segments;
use crate::journal::disk::{Disk, Done, Failed, Fault, Kind, Op};
use crate::journal::{segment_name, spare_name};
use crate::reactor::clock::Stopwatch;
use crate::reactor::priority::take_small_share;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tracing::debug;

/// What is called after each completion: it makes the loop poll.
pub type Notify = Arc<dyn Fn() + Send + Sync>;

/// Zeros that are synced at a time: a disk that is busy with them for a tenth of a millisecond is
/// not noticed by those whose requests wait for a sync.
const PIECE: u64 = 128 * 1024;

/// Behind each piece the disk is left to others for so many times as long as it took ..
const PAUSE: u32 = 2;
/// .. but not for longer than this.
const PAUSE_MAX: Duration = Duration::from_millis(5);

/// Zeros that are written at a time: a page. The system keeps in one what was written in one, and
/// the larger it is the more work is each small write to it later, and its sync.
const ZEROS: [u8; 4096] = [0; 4096];

/// The spare that a new segment is made of has a number that no other one has.
const FRESH: u32 = u32::MAX;

/// A directory that a journal runs on. Dropping it ends the threads, after what they have begun.
#[derive(Debug)]
pub struct RealDisk {
    writer: Segments,
    syncs: Option<Sender<Op>>,
    space: Option<Sender<Op>>,
    done: Receiver<Done>,
    /// Writes that were done where they were submitted.
    written: VecDeque<Done>,
    haste: Arc<Haste>,
    threads: Vec<JoinHandle<()>>,
    /// Held locked.
    _lock: Option<File>,
}

impl RealDisk {
    /// A disk on this directory; `wake` is called from the threads.
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub fn start(directory: Directory, wake: Notify) -> Result<Self, Fault> {
        let (path, lock) = directory.into_parts();
        let (done, completions) = channel();
        let haste = Arc::new(Haste::default());
        let mut threads = Vec::new();

        let (syncs, operations) = channel();
        let answer = Answer { done: done.clone(), wake: Arc::clone(&wake) };
        let mut lane = Lane { segments: Segments::new(path.clone()), answer };
        threads.push(spawn("journal-sync", &path, move || lane.serve(&operations))?);

        let mut room = Room { path: path.clone(), haste: Arc::clone(&haste), fault: None };
        let (space, operations) = channel();
        let answer = Answer { done, wake };
        threads.push(spawn("journal-space", &path, move || {
            if let Err(why) = take_small_share() {
                debug!(%why, "the thread that prepares segments has the usual priority");
            }
            while let Ok(op) = operations.recv() {
                answer.give(std::iter::once(room.carry_out(op)));
            }
        })?);

        Ok(Self {
            writer: Segments::new(path),
            syncs: Some(syncs),
            space: Some(space),
            done: completions,
            written: VecDeque::new(),
            haste,
            threads,
            _lock: lock,
        })
    }
}

impl Disk for RealDisk {
    fn submit(&mut self, op: Op) {
        let lane = match &op {
            Op::Write { sync: false, .. } => {
                self.written.push_back(carry_out(&mut self.writer, op));
                return;
            }
            Op::Write { .. } | Op::Sync { .. } => &self.syncs,
            Op::Prepare { .. } | Op::Free { .. } | Op::Discard { .. } => &self.space,
        };
        let sent = lane.as_ref().map(|lane| lane.send(op));
        assert!(matches!(sent, Some(Ok(()))), "a thread of the journal has died");
    }

    fn hurry(&mut self, epoch: u64) {
        if self.haste.wanted.swap(epoch, Ordering::Relaxed) != epoch {
            self.interrupt_pauses();
        }
    }

    fn poll(&mut self) -> Option<Done> {
        self.written.pop_front().or_else(|| self.done.try_recv().ok())
    }
}

impl RealDisk {
    fn interrupt_pauses(&self) {
        self.threads.iter().for_each(|thread| thread.thread().unpark());
    }
}

impl Drop for RealDisk {
    fn drop(&mut self) {
        self.haste.stop.store(true, Ordering::Relaxed);
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
) -> Result<JoinHandle<()>, Fault> {
    let builder = thread::Builder::new().name(name.to_owned());
    builder.spawn(work).map_err(|error| fault("start a thread for", path, &error))
}

/// What the thread that prepares looks at between two pieces.
#[derive(Debug)]
struct Haste {
    /// The segment that is waited for.
    wanted: AtomicU64,
    /// Nothing is wanted any more.
    stop: AtomicBool,
}

impl Default for Haste {
    fn default() -> Self {
        Self { wanted: AtomicU64::new(NONE), stop: AtomicBool::new(false) }
    }
}

/// The epoch of no segment.
const NONE: u64 = u64::MAX;

/// Where completions go.
struct Answer {
    done: Sender<Done>,
    wake: Notify,
}

impl Answer {
    fn give(&self, done: impl Iterator<Item = Done>) {
        for done in done {
            // Nobody listens once the disk is dropped.
            let _ = self.done.send(done);
        }
        (self.wake)();
    }
}

/// The lane of writes that are synced at once, and of syncs.
struct Lane {
    segments: Segments,
    answer: Answer,
}

impl Lane {
    /// Carries out operations in their order until there are no more senders.
    fn serve(&mut self, operations: &Receiver<Op>) {
        let mut next = operations.recv().ok();
        while let Some(op) = next {
            let more = if let Op::Write { epoch, sync: true, .. } = op {
                self.write_together(epoch, op, operations)
            } else {
                self.answer.give(std::iter::once(carry_out(&mut self.segments, op)));
                None
            };
            next = more.or_else(|| operations.recv().ok());
        }
    }

    /// Writes `first` and all that have come behind it for the same segment, and makes them durable
    /// together. Gives back what came that is something else.
    fn write_together(&mut self, segment: u64, first: Op, operations: &Receiver<Op>) -> Option<Op> {
        let watch = Stopwatch::start();
        let (mut writes, mut next) = (Vec::new(), Some(first));
        while let Some(Op::Write { epoch, offset, bytes, sync: true }) = next {
            if epoch != segment {
                next = Some(Op::Write { epoch, offset, bytes, sync: true });
                break;
            }
            writes.push((offset, bytes));
            next = operations.try_recv().ok();
        }
        let result = self.segments.write_durably(segment, &writes).map_err(Failed::Fault);
        let nanos = watch.nanos();
        self.answer.give(writes.into_iter().enumerate().map(|(number, (_, buffer))| {
            let (kind, sync_ns) =
                if number == 0 { (Kind::Written, nanos) } else { (Kind::Joined, 0) };
            Done { kind, result: result.clone(), buffer, sync_ns }
        }));
        next
    }
}

fn carry_out(segments: &mut Segments, op: Op) -> Done {
    let mut sync_ns = 0;
    let (kind, result, buffer) = match op {
        Op::Write { epoch, offset, bytes, .. } => {
            (Kind::Written, segments.write(epoch, offset, &bytes), bytes)
        }
        Op::Sync { epoch } => {
            let watch = Stopwatch::start();
            let result = segments.sync(epoch);
            sync_ns = watch.nanos();
            (Kind::Synced, result, Vec::new())
        }
        Op::Prepare { .. } | Op::Free { .. } | Op::Discard { .. } => {
            unreachable!("the other thread sees to space")
        }
    };
    Done { kind, result: result.map_err(Failed::Fault), buffer, sync_ns }
}

/// Preparing, freeing, discarding.
struct Room {
    path: PathBuf,
    haste: Arc<Haste>,
    /// What went wrong: nothing more is done.
    fault: Option<Fault>,
}

impl Room {
    fn carry_out(&mut self, op: Op) -> Done {
        let result = match (&self.fault, op) {
            (Some(fault), _) => Err(Failed::Fault(fault.clone())),
            (None, op) => self.try_to(op),
        };
        if let Err(Failed::Fault(fault)) = &result {
            self.fault.get_or_insert_with(|| fault.clone());
        }
        Done { kind: Kind::Space, result, buffer: Vec::new(), sync_ns: 0 }
    }

    fn try_to(&self, op: Op) -> Result<(), Failed> {
        match op {
            Op::Prepare { epoch, size, head, reuse } => self.prepare(epoch, size, &head, reuse),
            Op::Free { epoch, keep } => self.free(epoch, keep).map_err(Failed::Fault),
            Op::Discard { spare } => self.remove(&spare_name(spare)).map_err(Failed::Fault),
            Op::Write { .. } | Op::Sync { .. } => unreachable!("the other thread writes and syncs"),
        }
    }

    fn prepare(
        &self,
        epoch: u64,
        size: u64,
        head: &[u8],
        reuse: Option<u32>,
    ) -> Result<(), Failed> {
        let spare = self.path.join(spare_name(reuse.unwrap_or(FRESH)));
        let target = self.path.join(segment_name(epoch));
        let made = match reuse {
            Some(_) => OpenOptions::new().write(true).open(&spare),
            None => self.fill(&spare, epoch, size),
        };
        let made = made.and_then(|file| {
            file.write_all_at(head, 0)?;
            file.sync_all()?;
            fs::rename(&spare, &target)
        });
        if let Err(error) = made {
            // What is left of it takes space that is needed.
            let _ = fs::remove_file(&spare);
            let fault = fault("make", &target, &error);
            return Err(match error.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Failed::Full(fault),
                _ => Failed::Fault(fault),
            });
        }
        sync_names(&self.path).map_err(Failed::Fault)
    }

    /// A new file of zeros, for segment `epoch`.
    fn fill(&self, path: &Path, epoch: u64, size: u64) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
        let mut at = 0;
        while at < size {
            if self.haste.stop.load(Ordering::Relaxed) {
                return Err(io::Error::other("the journal has ended"));
            }
            let watch = Stopwatch::start();
            let end = size.min(at + PIECE);
            while at < end {
                let zeros = ZEROS.len().min(usize::try_from(end - at).unwrap_or(ZEROS.len()));
                file.write_all_at(&ZEROS[..zeros], at)?;
                at += zeros as u64;
            }
            if self.haste.wanted.load(Ordering::Relaxed) != epoch {
                file.sync_data()?;
                // Haste cuts it short.
                thread::park_timeout(PAUSE_MAX.min(Duration::from_nanos(watch.nanos()) * PAUSE));
            }
        }
        Ok(file)
    }

    fn free(&self, epoch: u64, keep: Option<u32>) -> Result<(), Fault> {
        let Some(spare) = keep else { return self.remove(&segment_name(epoch)) };
        let path = self.path.join(segment_name(epoch));
        fs::rename(&path, self.path.join(spare_name(spare)))
            .map_err(|error| fault("put aside", &path, &error))?;
        // Before it gets another header, which under its old name would be damage.
        sync_names(&self.path)
    }

    fn remove(&self, name: &str) -> Result<(), Fault> {
        let path = self.path.join(name);
        fs::remove_file(&path).map_err(|error| fault("remove", &path, &error))?;
        sync_names(&self.path)
    }
}

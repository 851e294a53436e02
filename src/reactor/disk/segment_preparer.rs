//! The space thread of the journal: prepares segments, recycles and removes them.
//!
//! A new segment is prefilled with zeros a chunk at a time, with a pause after each, so that a sync
//! of the journal never queues behind a large write and seldom behind a small one. The pause is
//! long while more than the needed bytes are prefilled, short when prefilling is behind, and zero
//! once the journal waits for the segment.
//!
//! If the segment will be written with direct I/O, so are the zeros: that is the least work, and
//! later writes have no cached pages to evict. If it will be written through the page cache, the
//! zeros stay cached, because writing a part of an uncached page reads the page first.

use super::direct;
use super::directory::{fault, free_bytes, note_removal, note_use, sync_names_of};
use super::reserve::Reserve;
use crate::journal::disk::{DiskError, IoCompletion, IoFailure, IoKind, PrefillTarget, SpaceOp};
use crate::journal::{segment_name, spare_name};
use crate::reactor::clock::Stopwatch;
use std::fmt::Write;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use tracing::debug;

/// Zeros per write: they keep the disk busy for about 0.1 ms, which does not delay syncs
/// noticeably.
const PREFILL_CHUNK_BYTES: usize = 128 * 1024;

/// Pause after each chunk while prefilling is ahead of need. A segment of default size takes 5 s.
const IDLE_PAUSE: Duration = Duration::from_millis(20);

/// When prefilling is behind, the pause is this multiple of the duration of the last write ..
const PAUSE_FACTOR: u32 = 2;
/// .. and at most this.
const PAUSE_MAX: Duration = Duration::from_millis(5);

/// Zeros per write through the page cache: one page. Larger writes create larger folios, which make
/// each later small write and its sync dearer.
const ZEROS: [u8; 4096] = [0; 4096];

/// Number of the spare file from which a new segment is made; no recycled one has it.
const FRESH: u32 = u32::MAX;

/// The epoch of no segment.
const NONE: u64 = u64::MAX;

/// The prefill target, set by the loop and read by the space thread between two chunks.
#[derive(Debug)]
pub(super) struct PrefillPacer {
    /// The segment of the target.
    epoch: AtomicU64,
    /// Bytes of it that are needed now, or [`WHOLE`].
    needed: AtomicU64,
    /// The journal has ended.
    stop: AtomicBool,
}

/// Bytes needed of a segment for which the journal waits.
const WHOLE: u64 = u64::MAX;

impl PrefillPacer {
    pub(super) fn new() -> Self {
        Self {
            epoch: AtomicU64::new(NONE),
            needed: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// Sets the target. True if the journal waits from now on: then a pausing thread must be
    /// unparked.
    pub(super) fn set_target(&self, epoch: u64, need: PrefillTarget) -> bool {
        let needed = match need {
            PrefillTarget::Bytes(bytes) => bytes,
            PrefillTarget::Immediately => WHOLE,
        };
        let another = self.epoch.swap(epoch, Ordering::Relaxed) != epoch;
        let before = self.needed.swap(needed, Ordering::Relaxed);
        needed == WHOLE && (another || before != WHOLE)
    }

    /// Bytes needed of this segment. (Between the two stores of `set_target` it may be the value of
    /// the previous segment, which costs one pause at worst.)
    fn needed(&self, epoch: u64) -> u64 {
        let known = self.epoch.load(Ordering::Relaxed) == epoch;
        if known { self.needed.load(Ordering::Relaxed) } else { 0 }
    }

    /// Ends prefilling with an error.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The pause when `made` bytes are prefilled, `needed` are needed, and the last chunk took `took`.
fn pause(made: u64, needed: u64, took: Duration) -> Duration {
    match needed {
        WHOLE => Duration::ZERO,
        _ if made < needed => PAUSE_MAX.min(took * PAUSE_FACTOR),
        _ => IDLE_PAUSE,
    }
}

/// Executes the operations on space.
pub(super) struct SegmentPreparer {
    path: PathBuf,
    /// Whether segments will be written with direct I/O.
    direct: bool,
    pacer: Arc<PrefillPacer>,
    reserve: Arc<Reserve>,
    /// The first error; every later operation fails with it.
    fault: Option<DiskError>,
}

impl SegmentPreparer {
    pub(super) fn new(
        path: PathBuf,
        direct: bool,
        pacer: Arc<PrefillPacer>,
        reserve: Arc<Reserve>,
    ) -> Self {
        Self { path, direct, pacer, reserve, fault: None }
    }

    pub(super) fn execute(&mut self, op: SpaceOp) -> IoCompletion {
        let result = match (&self.fault, op) {
            (Some(fault), _) => Err(IoFailure::Error(fault.clone())),
            (None, op) => self.try_to(op),
        };
        if let Err(IoFailure::Error(fault)) = &result {
            self.fault.get_or_insert_with(|| fault.clone());
        }
        IoCompletion { kind: IoKind::Space, result, buffer: Vec::new(), sync_ns: 0 }
    }

    fn try_to(&self, op: SpaceOp) -> Result<(), IoFailure> {
        match op {
            SpaceOp::Prepare { epoch, size, head, reuse } => {
                self.prepare(epoch, size, &head, reuse)
            }
            SpaceOp::Free { epoch, keep } => self.free(epoch, keep).map_err(IoFailure::Error),
            SpaceOp::Discard { spare } => self.remove(&spare_name(spare)).map_err(IoFailure::Error),
        }
    }

    fn prepare(
        &self,
        epoch: u64,
        size: u64,
        head: &[u8],
        reuse: Option<u32>,
    ) -> Result<(), IoFailure> {
        let spare = self.path.join(spare_name(reuse.unwrap_or(FRESH)));
        let target = self.path.join(segment_name(epoch));
        let made = match reuse {
            Some(_) => self.reserve.open(|| OpenOptions::new().write(true).open(&spare)),
            None => self.fill(&spare, epoch, size),
        };
        let made = made.and_then(|file| {
            file.write_all_at(head, 0)?;
            // Syncs the size too, which is needed to read the file, but not the times.
            file.sync_data()?;
            fs::rename(&spare, &target)
        });
        if let Err(error) = made {
            // Frees the space of the incomplete file.
            let _ = fs::remove_file(&spare);
            let fault = fault("make", &target, &error);
            return Err(match error.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                    IoFailure::Full(self.with_space(fault, size))
                }
                _ => IoFailure::Error(fault),
            });
        }
        self.sync_names().map_err(IoFailure::Error)?;
        if let Err(error) = note_use(&self.path) {
            debug!(%error, "it is not noted that there is a segment");
        }
        Ok(())
    }

    fn sync_names(&self) -> Result<(), DiskError> {
        let directory = self.reserve.open(|| File::open(&self.path));
        sync_names_of(directory, &self.path)
    }

    /// Creates a file of zeros, for segment `epoch`.
    fn fill(&self, path: &Path, epoch: u64, size: u64) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = self.reserve.open(|| options.open(path))?;
        if self.direct && size.is_multiple_of(direct::BLOCK as u64) {
            match self.fill_directly(&file, path, epoch, size) {
                Err(error) if direct::is_refusal(&error) => {
                    debug!(%error, "no zeros past the page cache here");
                }
                filled => return filled.map(|()| file),
            }
        }
        self.in_chunks(epoch, size, |chunk, immediately| {
            let mut at = chunk.start;
            while at < chunk.end {
                let zeros =
                    usize::try_from(chunk.end - at).unwrap_or(PREFILL_CHUNK_BYTES).min(ZEROS.len());
                file.write_all_at(&ZEROS[..zeros], at)?;
                at += zeros as u64;
            }
            if immediately { Ok(()) } else { file.sync_data() }
        })?;
        Ok(file)
    }

    /// The same with direct I/O; `size` must be whole blocks.
    fn fill_directly(&self, file: &File, path: &Path, epoch: u64, size: u64) -> io::Result<()> {
        let direct = self.reserve.open(|| direct::open(path, false))?;
        direct::reserve(file, size)?;
        let zeros = vec![0; PREFILL_CHUNK_BYTES + direct::BLOCK];
        let zeros = &zeros[zeros.as_ptr().align_offset(direct::BLOCK)..][..PREFILL_CHUNK_BYTES];
        self.in_chunks(epoch, size, |chunk, _| {
            let length = usize::try_from(chunk.end - chunk.start).unwrap_or(PREFILL_CHUNK_BYTES);
            direct.write_all_at(&zeros[..length], chunk.start)
        })
    }

    /// Writes all chunks of segment `epoch`, paced by the target. The second argument of `write`
    /// tells whether the journal waits for the segment.
    fn in_chunks(
        &self,
        epoch: u64,
        size: u64,
        mut write: impl FnMut(Range<u64>, bool) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut at = 0;
        while at < size {
            if self.pacer.stop.load(Ordering::Relaxed) {
                return Err(io::Error::other("the journal has ended"));
            }
            let watch = Stopwatch::start();
            let end = size.min(at + PREFILL_CHUNK_BYTES as u64);
            write(at..end, self.pacer.needed(epoch) == WHOLE)?;
            at = end;
            let took = Duration::from_nanos(watch.nanos());
            let pause = pause(at, self.pacer.needed(epoch), took);
            if !pause.is_zero() && at < size {
                // A new target interrupts it.
                thread::park_timeout(pause);
            }
        }
        Ok(())
    }

    /// Adds the free and the needed bytes to the text of an error.
    fn with_space(&self, mut fault: DiskError, size: u64) -> DiskError {
        if let Ok(free) = free_bytes(&self.path) {
            write!(fault.error, ", {free} bytes are free and {size} are needed")
                .expect("writing to a string does not fail");
        }
        fault
    }

    fn free(&self, epoch: u64, keep: Option<u32>) -> Result<(), DiskError> {
        let Some(spare) = keep else { return self.remove(&segment_name(epoch)) };
        let path = self.path.join(segment_name(epoch));
        fs::rename(&path, self.path.join(spare_name(spare)))
            .map_err(|error| fault("put aside", &path, &error))?;
        // The new name must be durable before the file gets another header, which would look like
        // damage under the old name.
        self.sync_names()
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        let path = self.path.join(name);
        if let Err(error) = note_removal(&self.path, name) {
            debug!(%error, "it is not noted that there is no segment");
        }
        fs::remove_file(&path).map_err(|error| fault("remove", &path, &error))?;
        self.sync_names()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reactor::disk::testing::new_dir;

    fn prepare(epoch: u64, size: u64) -> SpaceOp {
        SpaceOp::Prepare { epoch, size, head: vec![7; 64], reuse: None }
    }

    #[test]
    fn prepared_segment_is_its_header_and_zeros() {
        let dir = new_dir("fill");
        let two_and_a_bit = 2 * PREFILL_CHUNK_BYTES as u64 + 4096;
        let mut epoch = 0;
        for direct in [true, false] {
            for size in [4096, two_and_a_bit, two_and_a_bit - 100] {
                for waited_for in [true, false] {
                    epoch += 1;
                    let pacer = Arc::new(PrefillPacer::new());
                    assert!(!waited_for || pacer.set_target(epoch, PrefillTarget::Immediately));
                    let mut preparer =
                        SegmentPreparer::new(dir.clone(), direct, pacer, Arc::default());
                    assert_eq!(preparer.execute(prepare(epoch, size)).result, Ok(()));
                    let found = fs::read(dir.join(segment_name(epoch))).unwrap();
                    assert_eq!(found.len() as u64, size);
                    let (head, zeros) = found.split_at(64);
                    assert!(head.iter().all(|&byte| byte == 7));
                    assert!(zeros.iter().all(|&byte| byte == 0));
                }
            }
        }
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn pause_shrinks_as_the_need_grows() {
        let took = Duration::from_millis(1);
        assert_eq!(pause(5, 0, took), IDLE_PAUSE);
        assert_eq!(pause(5, 5, took), IDLE_PAUSE);
        assert_eq!(pause(5, 6, took), took * PAUSE_FACTOR);
        assert_eq!(pause(5, 6, Duration::from_secs(1)), PAUSE_MAX);
        assert_eq!(pause(5, WHOLE, took), Duration::ZERO);
    }

    #[test]
    fn set_target_asks_for_one_unpark_when_the_journal_begins_to_wait() {
        let pacer = PrefillPacer::new();
        assert!(!pacer.set_target(1, PrefillTarget::Bytes(100)) && pacer.needed(1) == 100);
        assert!(
            pacer.set_target(1, PrefillTarget::Immediately)
                && !pacer.set_target(1, PrefillTarget::Immediately)
        );
        assert_eq!((pacer.needed(1), pacer.needed(2)), (WHOLE, 0));
        assert!(!pacer.set_target(2, PrefillTarget::Bytes(0)) && pacer.needed(2) == 0);
        assert!(pacer.set_target(2, PrefillTarget::Immediately));
    }

    #[test]
    fn stopped_prepare_leaves_no_file() {
        let dir = new_dir("stop");
        let pacer = Arc::new(PrefillPacer::new());
        pacer.stop();
        let mut preparer = SegmentPreparer::new(dir.clone(), true, pacer, Arc::default());
        assert!(matches!(preparer.execute(prepare(1, 4096)).result, Err(IoFailure::Error(_))));
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        fs::remove_dir_all(&dir).unwrap();
    }
}

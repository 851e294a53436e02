//! Room for the journal: segments are prepared, put aside and removed, on a thread of their own.
//!
//! A new segment is filled with zeros a piece at a time, with a pause behind each, so that a sync
//! of the journal never queues behind a large one, and seldom behind a small one. The pauses are
//! long as long as there is more than is needed by now, and there are none once the journal waits
//! for the segment.
//!
//! If the segment is going to be written past the page cache the zeros are, too: that is the least
//! work, and later writes find nothing in the cache that they would have to push out of it. If it
//! is going to be written through the cache they stay there, because a page that is not there has
//! to be read before a part of it can be written.

use super::direct;
use super::directory::{fault, free_bytes, note_removal, note_use, sync_names_of};
use super::reserve::Reserve;
use crate::journal::disk::{DiskError, DiskOp, IoCompletion, IoFailure, IoKind, PrefillTarget};
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

/// Zeros that go to the disk at a time: a disk that is busy with them for a tenth of a millisecond
/// is not noticed by those whose requests wait for a sync.
const PREFILL_CHUNK_BYTES: usize = 128 * 1024;

/// How long the disk is left to others behind each piece that is there before it is needed. A
/// segment of the usual size takes five seconds.
const IDLE_PAUSE: Duration = Duration::from_millis(20);

/// Behind one that is late it is left to them for so many times as long as the piece took ..
const PAUSE_FACTOR: u32 = 2;
/// .. but for no longer than this.
const PAUSE_MAX: Duration = Duration::from_millis(5);

/// Zeros that are written through the page cache at a time: a page. The system keeps in one what
/// was written in one, and the larger it is the more work is each small write to it later, and its
/// sync.
const ZEROS: [u8; 4096] = [0; 4096];

/// The spare that a new segment is made of has a number that no other one has.
const FRESH: u32 = u32::MAX;

/// The epoch of no segment.
const NONE: u64 = u64::MAX;

/// What the thread that prepares looks at between two pieces.
#[derive(Debug)]
pub(super) struct PrefillPacer {
    /// The segment that is prepared, as far as the journal knows.
    epoch: AtomicU64,
    /// How many of its bytes are needed by now, or [`WHOLE`].
    needed: AtomicU64,
    /// Nothing is wanted any more.
    stop: AtomicBool,
}

/// What is needed of a segment that is waited for.
const WHOLE: u64 = u64::MAX;

impl PrefillPacer {
    pub(super) fn new() -> Self {
        Self {
            epoch: AtomicU64::new(NONE),
            needed: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// The segment is needed so soon. Says whether it is waited for from now on: then whoever
    /// pauses has to be woken.
    pub(super) fn note(&self, epoch: u64, need: PrefillTarget) -> bool {
        let needed = match need {
            PrefillTarget::Bytes(bytes) => bytes,
            PrefillTarget::Immediately => WHOLE,
        };
        let another = self.epoch.swap(epoch, Ordering::Relaxed) != epoch;
        let before = self.needed.swap(needed, Ordering::Relaxed);
        needed == WHOLE && (another || before != WHOLE)
    }

    /// How many bytes are needed of this segment. (For a moment it may be what was needed of the
    /// one before, which costs a pause at worst.)
    fn needed(&self, epoch: u64) -> u64 {
        let known = self.epoch.load(Ordering::Relaxed) == epoch;
        if known { self.needed.load(Ordering::Relaxed) } else { 0 }
    }

    /// What is not there yet is not made any more.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// How long to pause when `made` bytes are there, the last piece of which took so long, and so many
/// are needed.
fn pause(made: u64, needed: u64, took: Duration) -> Duration {
    match needed {
        WHOLE => Duration::ZERO,
        _ if made < needed => PAUSE_MAX.min(took * PAUSE_FACTOR),
        _ => IDLE_PAUSE,
    }
}

/// Preparing, freeing, discarding.
pub(super) struct SegmentPreparer {
    path: PathBuf,
    /// Whether segments are going to be written past the page cache.
    past_cache: bool,
    haste: Arc<PrefillPacer>,
    /// Descriptors for what is to be opened.
    reserve: Arc<Reserve>,
    /// What went wrong: nothing more is done.
    fault: Option<DiskError>,
}

impl SegmentPreparer {
    pub(super) fn new(
        path: PathBuf,
        past_cache: bool,
        haste: Arc<PrefillPacer>,
        reserve: Arc<Reserve>,
    ) -> Self {
        Self { path, past_cache, haste, reserve, fault: None }
    }

    pub(super) fn carry_out(&mut self, op: DiskOp) -> IoCompletion {
        let result = match (&self.fault, op) {
            (Some(fault), _) => Err(IoFailure::Error(fault.clone())),
            (None, op) => self.try_to(op),
        };
        if let Err(IoFailure::Error(fault)) = &result {
            self.fault.get_or_insert_with(|| fault.clone());
        }
        IoCompletion { kind: IoKind::Space, result, buffer: Vec::new(), sync_ns: 0 }
    }

    fn try_to(&self, op: DiskOp) -> Result<(), IoFailure> {
        match op {
            DiskOp::Prepare { epoch, size, head, reuse } => self.prepare(epoch, size, &head, reuse),
            DiskOp::Free { epoch, keep } => self.free(epoch, keep).map_err(IoFailure::Error),
            DiskOp::Discard { spare } => self.remove(&spare_name(spare)).map_err(IoFailure::Error),
            DiskOp::Write { .. } | DiskOp::Sync { .. } => {
                unreachable!("the other thread writes and syncs")
            }
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
            // Its size is part of what is needed to read it; its times are not.
            file.sync_data()?;
            fs::rename(&spare, &target)
        });
        if let Err(error) = made {
            // What is left of it takes space that is needed.
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

    /// A new file of zeros, for segment `epoch`.
    fn fill(&self, path: &Path, epoch: u64, size: u64) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = self.reserve.open(|| options.open(path))?;
        if self.past_cache && size.is_multiple_of(direct::BLOCK as u64) {
            match self.fill_directly(&file, path, epoch, size) {
                Err(error) if direct::is_refusal(&error) => {
                    debug!(%error, "no zeros past the page cache here");
                }
                filled => return filled.map(|()| file),
            }
        }
        self.in_pieces(epoch, size, |piece, hastes| {
            let mut at = piece.start;
            while at < piece.end {
                let zeros =
                    usize::try_from(piece.end - at).unwrap_or(PREFILL_CHUNK_BYTES).min(ZEROS.len());
                file.write_all_at(&ZEROS[..zeros], at)?;
                at += zeros as u64;
            }
            if hastes { Ok(()) } else { file.sync_data() }
        })?;
        Ok(file)
    }

    /// The same past the page cache, in whole blocks.
    fn fill_directly(&self, file: &File, path: &Path, epoch: u64, size: u64) -> io::Result<()> {
        let past_cache = self.reserve.open(|| direct::open(path, false))?;
        direct::reserve(file, size)?;
        let zeros = vec![0; PREFILL_CHUNK_BYTES + direct::BLOCK];
        let zeros = &zeros[zeros.as_ptr().align_offset(direct::BLOCK)..][..PREFILL_CHUNK_BYTES];
        self.in_pieces(epoch, size, |piece, _| {
            let length = usize::try_from(piece.end - piece.start).unwrap_or(PREFILL_CHUNK_BYTES);
            past_cache.write_all_at(&zeros[..length], piece.start)
        })
    }

    /// Has all pieces of segment `epoch` written, with pauses unless there is haste.
    fn in_pieces(
        &self,
        epoch: u64,
        size: u64,
        mut write: impl FnMut(Range<u64>, bool) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut at = 0;
        while at < size {
            if self.haste.stop.load(Ordering::Relaxed) {
                return Err(io::Error::other("the journal has ended"));
            }
            let watch = Stopwatch::start();
            let end = size.min(at + PREFILL_CHUNK_BYTES as u64);
            write(at..end, self.haste.needed(epoch) == WHOLE)?;
            at = end;
            let took = Duration::from_nanos(watch.nanos());
            let pause = pause(at, self.haste.needed(epoch), took);
            if !pause.is_zero() && at < size {
                // Haste cuts it short.
                thread::park_timeout(pause);
            }
        }
        Ok(())
    }

    /// The fault, with how many bytes are free and how many are needed.
    fn with_space(&self, mut fault: DiskError, size: u64) -> DiskError {
        if let Ok(free) = free_bytes(&self.path) {
            write!(fault.error, ", {free} bytes are free and {size} are needed")
                .expect("memory takes everything");
        }
        fault
    }

    fn free(&self, epoch: u64, keep: Option<u32>) -> Result<(), DiskError> {
        let Some(spare) = keep else { return self.remove(&segment_name(epoch)) };
        let path = self.path.join(segment_name(epoch));
        fs::rename(&path, self.path.join(spare_name(spare)))
            .map_err(|error| fault("put aside", &path, &error))?;
        // Before it gets another header, which under its old name would be damage.
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
    use crate::reactor::disk::testing::place;

    fn prepare(epoch: u64, size: u64) -> DiskOp {
        DiskOp::Prepare { epoch, size, head: vec![7; 64], reuse: None }
    }

    #[test]
    fn a_new_segment_is_its_head_and_zeros() {
        let place = place("fill");
        let two_and_a_bit = 2 * PREFILL_CHUNK_BYTES as u64 + 4096;
        let mut epoch = 0;
        for past_cache in [true, false] {
            for size in [4096, two_and_a_bit, two_and_a_bit - 100] {
                for waited_for in [true, false] {
                    epoch += 1;
                    let haste = Arc::new(PrefillPacer::new());
                    assert!(!waited_for || haste.note(epoch, PrefillTarget::Immediately));
                    let mut room =
                        SegmentPreparer::new(place.clone(), past_cache, haste, Arc::default());
                    assert_eq!(room.carry_out(prepare(epoch, size)).result, Ok(()));
                    let found = fs::read(place.join(segment_name(epoch))).unwrap();
                    assert_eq!(found.len() as u64, size);
                    let (head, zeros) = found.split_at(64);
                    assert!(head.iter().all(|&byte| byte == 7));
                    assert!(zeros.iter().all(|&byte| byte == 0));
                }
            }
        }
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn pauses_are_as_long_as_the_need_is_small() {
        let took = Duration::from_millis(1);
        assert_eq!(pause(5, 0, took), IDLE_PAUSE);
        assert_eq!(pause(5, 5, took), IDLE_PAUSE);
        assert_eq!(pause(5, 6, took), took * PAUSE_FACTOR);
        assert_eq!(pause(5, 6, Duration::from_secs(1)), PAUSE_MAX);
        assert_eq!(pause(5, WHOLE, took), Duration::ZERO);
    }

    #[test]
    fn whoever_pauses_is_woken_once_the_segment_is_waited_for() {
        let haste = PrefillPacer::new();
        assert!(!haste.note(1, PrefillTarget::Bytes(100)) && haste.needed(1) == 100);
        assert!(
            haste.note(1, PrefillTarget::Immediately) && !haste.note(1, PrefillTarget::Immediately)
        );
        assert_eq!((haste.needed(1), haste.needed(2)), (WHOLE, 0));
        assert!(!haste.note(2, PrefillTarget::Bytes(0)) && haste.needed(2) == 0);
        assert!(haste.note(2, PrefillTarget::Immediately));
    }

    #[test]
    fn nothing_is_left_of_a_segment_that_is_not_wanted_any_more() {
        let place = place("stop");
        let haste = Arc::new(PrefillPacer::new());
        haste.stop();
        let mut room = SegmentPreparer::new(place.clone(), true, haste, Arc::default());
        assert!(matches!(room.carry_out(prepare(1, 4096)).result, Err(IoFailure::Error(_))));
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
        fs::remove_dir_all(&place).unwrap();
    }
}

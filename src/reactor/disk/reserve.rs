//! Spare file descriptors for the journal: a few are kept open and closed when a file must be
//! opened and none is free. Without any left, the journal's threads wait as for a full disk.
//!
//! Connections are bounded so that the server itself does not cause this. It happens if the whole
//! system is short of descriptors, or the limit of the running process is lowered.

use crate::journal::limits::{JOURNAL_DESCRIPTOR_RETRY_DELAY, JOURNAL_SPARE_DESCRIPTORS};
use crate::reactor::clock::Stopwatch;
use crate::reactor::shortage;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use tracing::{info, warn};

/// Spare descriptors, shared by all threads of a journal.
#[derive(Debug, Default)]
pub(super) struct Reserve {
    kept: Mutex<Vec<OwnedFd>>,
    /// [`Reserve::open`] does not wait any more.
    stop: AtomicBool,
}

impl Reserve {
    /// With up to [`JOURNAL_SPARE_DESCRIPTORS`] descriptors.
    pub(super) fn new() -> Self {
        let reserve = Self::default();
        reserve.refill();
        reserve
    }

    fn lock(&self) -> MutexGuard<'_, Vec<OwnedFd>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refill(&self) {
        let mut kept = self.lock();
        while kept.len() < JOURNAL_SPARE_DESCRIPTORS {
            let Ok(null) = File::open("/dev/null") else { return };
            kept.push(null.into());
        }
    }

    /// Opens something, closing spare descriptors if none is free. The error may still be a
    /// shortage of descriptors.
    pub(super) fn try_open<T>(&self, mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let mut used_spare = false;
        loop {
            match open() {
                Err(error) if shortage::of_descriptors(&error) => {
                    // `pop` closes one.
                    if self.lock().pop().is_none() {
                        return Err(error);
                    }
                    used_spare = true;
                }
                opened => {
                    if !used_spare {
                        self.refill();
                    }
                    return opened;
                }
            }
        }
    }

    /// The same, but waits while descriptors are short. Not for the loop's thread.
    pub(super) fn open<T>(&self, mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let mut since: Option<Stopwatch> = None;
        loop {
            match self.try_open(&mut open) {
                Err(error)
                    if shortage::of_descriptors(&error) && !self.stop.load(Ordering::Relaxed) =>
                {
                    if since.is_none() {
                        warn!(
                            %error,
                            "there is no file descriptor for the journal: changes wait until there \
                             is one (ulimit -n, fs.file-max)"
                        );
                        since = Some(Stopwatch::start());
                    }
                    thread::park_timeout(JOURNAL_DESCRIPTOR_RETRY_DELAY);
                }
                opened => {
                    if let (Some(watch), Ok(_)) = (since, &opened) {
                        let waited = Duration::from_nanos(watch.nanos());
                        info!(?waited, "there are file descriptors for the journal again");
                    }
                    return opened;
                }
            }
        }
    }

    /// Makes waiting calls of [`Reserve::open`] return their error.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    fn kept(reserve: &Reserve) -> usize {
        reserve.lock().len()
    }

    /// Fails `times` times for lack of descriptors.
    fn scarce(mut times: usize) -> impl FnMut() -> io::Result<&'static str> {
        move || {
            if times == 0 {
                return Ok("open");
            }
            times -= 1;
            Err(Errno::MFILE.into())
        }
    }

    #[test]
    fn spare_descriptors_are_used_up_and_refilled() {
        let reserve = Reserve::new();
        assert_eq!(kept(&reserve), JOURNAL_SPARE_DESCRIPTORS);
        assert_eq!(reserve.try_open(scarce(JOURNAL_SPARE_DESCRIPTORS)).unwrap(), "open");
        assert_eq!(kept(&reserve), 0);
        let error = reserve.try_open(scarce(1)).unwrap_err();
        assert!(shortage::of_descriptors(&error));
        assert_eq!(reserve.try_open(scarce(0)).unwrap(), "open");
        assert_eq!(kept(&reserve), JOURNAL_SPARE_DESCRIPTORS);
    }

    #[test]
    fn open_waits_for_descriptors_until_stop() {
        let reserve = Reserve::new();
        assert_eq!(reserve.open(scarce(JOURNAL_SPARE_DESCRIPTORS + 3)).unwrap(), "open");
        reserve.stop();
        let error = reserve.open(scarce(usize::MAX)).unwrap_err();
        assert!(shortage::of_descriptors(&error));
        let other = reserve.open(|| Err::<(), _>(Errno::NOENT.into())).unwrap_err();
        assert_eq!(other.kind(), io::ErrorKind::NotFound, "other errors are returned at once");
    }
}

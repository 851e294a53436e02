//! SIGINT and SIGTERM of verbs that have something to end first. The second one ends the process at
//! once.

use super::failure::{Failure, Outcome};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Signals as input of a poll.
#[derive(Debug)]
pub(super) struct Interrupts {
    arrived: UnixStream,
    /// The next signal ends the process.
    is_fatal: Arc<AtomicBool>,
}

impl Interrupts {
    pub(super) fn install() -> Outcome<Self> {
        install().map_err(|error| {
            Failure::failed(format!("the system does not let signals be handled: {error}"))
        })
    }

    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        PollFd::from_borrowed_fd(self.arrived.as_fd(), PollFlags::IN)
    }

    /// Nothing is to be ended: the next signal ends the process.
    pub(super) fn disarm(&self) {
        self.is_fatal.store(true, Ordering::SeqCst);
    }

    /// The next signal is input, the one after it ends the process.
    pub(super) fn arm(&self) {
        self.is_fatal.store(false, Ordering::SeqCst);
    }

    /// Waits for a signal, at most for this time. Returns whether one has arrived.
    pub(super) fn wait(&self, time: Duration) -> io::Result<bool> {
        wait_for(&mut [self.poll_fd()], time)?;
        Ok(self.take())
    }

    /// The same beside input, which has to come within this time.
    pub(super) fn wait_beside(&self, input: BorrowedFd<'_>, time: Duration) -> io::Result<bool> {
        let input = PollFd::from_borrowed_fd(input, PollFlags::IN);
        let any = wait_for(&mut [self.poll_fd(), input], time)?;
        if any { Ok(self.take()) } else { Err(ErrorKind::TimedOut.into()) }
    }

    /// Whether a signal has arrived since the last call.
    pub(super) fn take(&self) -> bool {
        loop {
            match (&self.arrived).read(&mut [0; 16]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return matches!(read, Ok(1..)),
            }
        }
    }
}

/// Waits, at most for this time. Returns whether anything has happened.
fn wait_for(fds: &mut [PollFd<'_>], time: Duration) -> io::Result<bool> {
    let time = Timespec::try_from(time).ok();
    match poll(fds, time.as_ref()) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn install() -> io::Result<Interrupts> {
    let (arrived, sender) = UnixStream::pair()?;
    arrived.set_nonblocking(true)?;
    let is_fatal = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal sets the flag after it was looked at.
        flag::register_conditional_default(signal, Arc::clone(&is_fatal))?;
        flag::register(signal, Arc::clone(&is_fatal))?;
        low_level::pipe::register(signal, sender.try_clone()?)?;
    }
    Ok(Interrupts { arrived, is_fatal })
}

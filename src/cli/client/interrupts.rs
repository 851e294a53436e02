//! SIGINT and SIGTERM of verbs that have something to end first. The second one ends the process at
//! once.

use super::failure::{Failure, Outcome};
use rustix::event::{PollFd, PollFlags};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Signals as input of a poll.
#[derive(Debug)]
pub(super) struct Interrupts {
    arrived: UnixStream,
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

    /// Whether a signal has arrived since the last call.
    pub(super) fn take(&mut self) -> bool {
        loop {
            match self.arrived.read(&mut [0; 16]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return matches!(read, Ok(1..)),
            }
        }
    }
}

fn install() -> io::Result<Interrupts> {
    let (arrived, sender) = UnixStream::pair()?;
    arrived.set_nonblocking(true)?;
    let is_second = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal sets the flag after it was looked at.
        flag::register_conditional_default(signal, Arc::clone(&is_second))?;
        flag::register(signal, Arc::clone(&is_second))?;
        low_level::pipe::register(signal, sender.try_clone()?)?;
    }
    Ok(Interrupts { arrived })
}

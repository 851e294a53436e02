//! What the system is short of for a while: descriptors above all. That is nobody's fault, and is
//! waited out wherever it is met.

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use std::io;

/// Whether there were no descriptors left, of this process or of the system.
pub(super) fn of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Whether there was something lacking that a connection needs on this side.
pub(super) fn of_connections(error: &io::Error) -> bool {
    let lacks = [Errno::NOBUFS, Errno::NOMEM, Errno::ADDRNOTAVAIL, Errno::AGAIN];
    of_descriptors(error) || Errno::from_io_error(error).is_some_and(|why| lacks.contains(&why))
}

/// Why there is no descriptor at the moment, if there is none: the system's resolver does not tell.
pub(super) fn now() -> Option<io::Error> {
    let error = io::Error::from(fcntl_dupfd_cloexec(io::stderr(), 0).err()?);
    of_descriptors(&error).then_some(error)
}

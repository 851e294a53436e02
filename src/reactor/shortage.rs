//! Temporary shortages of the system, above all of file descriptors. Callers wait and try again.

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use std::io;

/// Whether the process or the system has no free descriptors.
pub(super) fn of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Whether a local resource of a connection is short.
pub(super) fn of_connections(error: &io::Error) -> bool {
    let lacks = [Errno::NOBUFS, Errno::NOMEM, Errno::ADDRNOTAVAIL, Errno::AGAIN];
    of_descriptors(error) || Errno::from_io_error(error).is_some_and(|why| lacks.contains(&why))
}

/// The error if there is no free descriptor now. The system's resolver does not report this.
pub(super) fn now() -> Option<io::Error> {
    let error = io::Error::from(fcntl_dupfd_cloexec(io::stderr(), 0).err()?);
    of_descriptors(&error).then_some(error)
}

//! The same on io_uring, by monoio.
use super::Start;
use std::io;
pub(super) fn run(_start: Start) -> io::Result<()> {
    Err(io::Error::other("not yet"))
}

//! Stdin or stdout as a descriptor that does not block the loop.

use crate::base::limits::READ_BUDGET_BYTES;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, Stat, fcntl_getfl, fstat, major, makedev, minor, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::pipe::PIPE_BUF;
use std::io::{self, ErrorKind, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    In,
    Out,
}

/// How a descriptor is read or written without blocking. The parent module has the reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IoMode {
    /// A reopened pipe or terminal, in non-blocking mode.
    Reopened,
    /// A socket: each call is non-blocking by its flags.
    Socket,
    /// An inherited pipe or terminal: polled before each call, written in chunks of `PIPE_BUF`.
    Polled,
    /// A regular file or similar, whose calls do not wait for other processes.
    Blocking,
}

#[derive(Debug)]
pub(super) struct StdioFd {
    fd: OwnedFd,
    mode: IoMode,
    registered: bool,
}

impl StdioFd {
    /// Opens stdin or stdout without changing the inherited description.
    ///
    /// # Errors
    /// `EBADF` if it is closed or opened for the other direction only; `EPIPE` if it is a named
    /// pipe without a reader.
    pub(super) fn open(inherited: BorrowedFd<'_>, direction: Direction) -> Result<Self, Errno> {
        let flags = fcntl_getfl(inherited)?;
        let stat = fstat(inherited)?;
        let opposite = match direction {
            Direction::In => OFlags::WRONLY,
            Direction::Out => OFlags::RDONLY,
        };
        if flags.contains(OFlags::PATH) || flags & OFlags::RWMODE == opposite {
            return Err(Errno::BADF);
        }
        if direction == Direction::Out && was_closed(&stat, flags) {
            return Err(Errno::BADF);
        }
        let mode = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Socket => IoMode::Socket,
            FileType::Fifo => IoMode::Reopened,
            FileType::CharacterDevice if inherited.is_terminal() && !is_multiplexer(&stat) => {
                IoMode::Reopened
            }
            FileType::CharacterDevice => IoMode::Polled,
            _ => IoMode::Blocking,
        };
        if mode == IoMode::Reopened {
            match reopen(inherited, direction) {
                Ok(fd) => return Ok(Self { fd, mode, registered: false }),
                // A named pipe without a reader.
                Err(Errno::NXIO) if direction == Direction::Out => return Err(Errno::PIPE),
                Err(_) => {}
            }
        }
        let mode = if mode == IoMode::Reopened { IoMode::Polled } else { mode };
        Ok(Self { fd: fcntl_dupfd_cloexec(inherited, 0)?, mode, registered: false })
    }

    /// Registers it with epoll. What epoll rejects is always ready.
    pub(super) fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        if self.mode == IoMode::Blocking {
            return Ok(());
        }
        match registry.register(&mut SourceFd(&self.fd.as_raw_fd()), token, interest) {
            Ok(()) => self.registered = true,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                self.mode = IoMode::Blocking;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Deregisters it from epoll: closing is not enough, since a shared description outlives this
    /// descriptor.
    pub(super) fn deregister(&mut self, registry: &Registry) {
        if std::mem::take(&mut self.registered) {
            // If it fails, its events are ignored.
            let _ = registry.deregister(&mut SourceFd(&self.fd.as_raw_fd()));
        }
    }

    /// Reads once without blocking. 0 is the end.
    pub(super) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let count = match self.mode {
            IoMode::Reopened | IoMode::Blocking => rustix::io::read(&self.fd, into)?,
            IoMode::Socket => recv(&self.fd, into, RecvFlags::DONTWAIT)?.1,
            IoMode::Polled if self.is_ready(PollFlags::IN)? => rustix::io::read(&self.fd, into)?,
            IoMode::Polled => return Err(ErrorKind::WouldBlock.into()),
        };
        Ok(count)
    }

    /// Writes without blocking, up to [`READ_BUDGET_BYTES`] and one chunk. Returns the count of
    /// bytes written, and whether it is still writable.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<(usize, bool)> {
        let mut sent = 0;
        while sent < bytes.len() {
            if sent >= READ_BUDGET_BYTES {
                return Ok((sent, true));
            }
            match self.write_chunk(&bytes[sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok((sent, false)),
                // Reports the bytes written first; the next call fails with the same error.
                Err(_) if sent > 0 => return Ok((sent, true)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok((sent, true))
    }

    fn write_chunk(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match self.mode {
            IoMode::Reopened | IoMode::Blocking => rustix::io::write(&self.fd, bytes),
            IoMode::Socket => send(&self.fd, bytes, SendFlags::DONTWAIT),
            IoMode::Polled if self.is_ready(PollFlags::OUT)? => {
                rustix::io::write(&self.fd, &bytes[..bytes.len().min(PIPE_BUF)])
            }
            IoMode::Polled => Err(Errno::AGAIN),
        }
    }

    /// Whether a call would not block. Errors and hang-ups count as ready: the call reports them.
    fn is_ready(&self, events: PollFlags) -> Result<bool, Errno> {
        let mut polled = [PollFd::new(&self.fd, events)];
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        Ok(poll(&mut polled, Some(&zero))? > 0)
    }
}

/// Opens a new, non-blocking description of the pipe or terminal behind a descriptor.
fn reopen(inherited: BorrowedFd<'_>, direction: Direction) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/self/fd/{}", inherited.as_raw_fd());
    let access = match direction {
        Direction::In => OFlags::RDONLY,
        Direction::Out => OFlags::WRONLY,
    };
    let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = open(path, flags, Mode::empty())?;
    // /proc may be something else than procfs: checks that it is the same file.
    let (old, new) = (fstat(inherited)?, fstat(fd.as_fd())?);
    let same = (old.st_dev, old.st_ino, old.st_rdev) == (new.st_dev, new.st_ino, new.st_rdev);
    if same { Ok(fd) } else { Err(Errno::NOENT) }
}

/// Whether it is `/dev/ptmx`, the controlling side of a pseudoterminal: reopening creates another
/// terminal.
fn is_multiplexer(stat: &Stat) -> bool {
    (major(stat.st_rdev), minor(stat.st_rdev)) == (5, 2)
}

/// Whether it is what Rust's runtime opens in place of a descriptor that was closed at the start:
/// `/dev/null` for reading and writing. A shell's `>/dev/null` is for writing only. A `/dev/null`
/// that the parent process has opened for both is rejected too, so that assignments are not lost
/// without notice.
fn was_closed(stat: &Stat, flags: OFlags) -> bool {
    let null = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
        && stat.st_rdev == makedev(1, 3);
    null && flags & OFlags::RWMODE == OFlags::RDWR
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::pipe;

    fn shared(fd: &OwnedFd) -> StdioFd {
        StdioFd { fd: fd.try_clone().unwrap(), mode: IoMode::Polled, registered: false }
    }

    fn flags(fd: &OwnedFd) -> OFlags {
        fcntl_getfl(fd).unwrap()
    }

    #[test]
    fn polled_pipe_does_not_block() {
        let (reading, writing) = pipe().unwrap();
        let before = (flags(&reading), flags(&writing));
        let (input, output) = (shared(&reading), shared(&writing));
        let mut piece = vec![0; READ_BUDGET_BYTES];
        assert_eq!(input.read(&mut piece).unwrap_err().kind(), ErrorKind::WouldBlock);
        let long: Vec<u8> = (0..=u8::MAX).cycle().take(1_000_003).collect();
        let (mut sent, mut got) = (0, Vec::new());
        while got.len() < long.len() {
            let (count, writable) = output.write(&long[sent..]).unwrap();
            sent += count;
            assert!(!writable || count >= READ_BUDGET_BYTES || sent == long.len());
            let count = input.read(&mut piece).unwrap();
            got.extend_from_slice(&piece[..count]);
        }
        assert_eq!(got, long);
        assert_eq!((flags(&reading), flags(&writing)), before);
        drop((output, writing));
        assert_eq!(input.read(&mut piece).unwrap(), 0);
    }

    #[test]
    fn write_to_a_pipe_without_reader_is_a_broken_pipe_in_every_mode() {
        let (reading, writing) = pipe().unwrap();
        let own = StdioFd::open(writing.as_fd(), Direction::Out).unwrap();
        let shared = shared(&writing);
        drop(reading);
        for end in [own, shared] {
            assert_eq!(end.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn pipe_is_reopened_and_the_inherited_description_unchanged() {
        let (reading, writing) = pipe().unwrap();
        let before = (flags(&reading), flags(&writing));
        let input = StdioFd::open(reading.as_fd(), Direction::In).unwrap();
        let output = StdioFd::open(writing.as_fd(), Direction::Out).unwrap();
        assert_eq!((input.mode, output.mode), (IoMode::Reopened, IoMode::Reopened));
        assert!(flags(&input.fd).contains(OFlags::NONBLOCK));
        assert_eq!((flags(&reading), flags(&writing)), before);
        let (full, writable) = output.write(&vec![1; 4_000_000]).unwrap();
        assert!(!writable || full >= READ_BUDGET_BYTES);
        let mut piece = [0; 10];
        assert_eq!(input.read(&mut piece).unwrap(), 10);
    }

    #[test]
    fn descriptor_of_the_other_direction_is_rejected() {
        let (reading, writing) = pipe().unwrap();
        assert_eq!(StdioFd::open(reading.as_fd(), Direction::Out).unwrap_err(), Errno::BADF);
        assert_eq!(StdioFd::open(writing.as_fd(), Direction::In).unwrap_err(), Errno::BADF);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_dev_null_for_reading_and_writing_counts_as_closed_stdout() {
        let null = |access| open("/dev/null", access, Mode::empty()).unwrap();
        let output = |fd: OwnedFd| StdioFd::open(fd.as_fd(), Direction::Out).map(|_| ());
        assert_eq!(output(null(OFlags::RDWR)), Err(Errno::BADF));
        assert_eq!(output(null(OFlags::WRONLY)), Ok(()));
        let other = open("/dev/zero", OFlags::RDWR, Mode::empty()).unwrap();
        assert_eq!(output(other), Ok(()));
        assert!(StdioFd::open(null(OFlags::RDWR).as_fd(), Direction::In).is_ok());
    }
}

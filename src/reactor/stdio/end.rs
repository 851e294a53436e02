//! One end of the standard streams: a descriptor that was inherited, and never blocks the loop.

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

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    In,
    Out,
}

/// How it is read or written without ever waiting. The module above says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IoMode {
    /// A pipe or terminal opened anew: what it is set to do is nobody else's business.
    Own,
    /// A socket: each call says for itself that it does not wait.
    Socket,
    /// Shared with others and left as it is: asked before each call, written in pieces that fit.
    Shared,
    /// A file or the like, which never makes anybody wait for others.
    Always,
}

/// A descriptor with its way to be used.
#[derive(Debug)]
pub(super) struct StdioFd {
    fd: OwnedFd,
    way: IoMode,
    registered: bool,
}

impl StdioFd {
    /// What stdin or stdout leads to, without changing anything about it.
    ///
    /// # Errors
    /// If it cannot be used in this direction at all: closed, or opened for the other one.
    pub(super) fn open(inherited: BorrowedFd<'_>, direction: Direction) -> Result<Self, Errno> {
        let flags = fcntl_getfl(inherited)?;
        let stat = fstat(inherited)?;
        let other = match direction {
            Direction::In => OFlags::WRONLY,
            Direction::Out => OFlags::RDONLY,
        };
        if flags.contains(OFlags::PATH) || flags & OFlags::RWMODE == other {
            return Err(Errno::BADF);
        }
        if direction == Direction::Out && was_closed(&stat, flags) {
            return Err(Errno::BADF);
        }
        let way = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Socket => IoMode::Socket,
            FileType::Fifo => IoMode::Own,
            FileType::CharacterDevice if inherited.is_terminal() && !is_multiplexer(&stat) => {
                IoMode::Own
            }
            FileType::CharacterDevice => IoMode::Shared,
            _ => IoMode::Always,
        };
        if way == IoMode::Own {
            match open_anew(inherited, direction) {
                Ok(fd) => return Ok(Self { fd, way, registered: false }),
                // A named pipe that nobody reads any more.
                Err(Errno::NXIO) if direction == Direction::Out => return Err(Errno::PIPE),
                Err(_) => {}
            }
        }
        let way = if way == IoMode::Own { IoMode::Shared } else { way };
        Ok(Self { fd: fcntl_dupfd_cloexec(inherited, 0)?, way, registered: false })
    }

    /// Lets the loop hear of it, where that can be: what epoll refuses is always ready.
    pub(super) fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        if self.way == IoMode::Always {
            return Ok(());
        }
        match registry.register(&mut SourceFd(&self.fd.as_raw_fd()), token, interest) {
            Ok(()) => self.registered = true,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => self.way = IoMode::Always,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The loop hears of it no more: a description that others share would outlive this descriptor.
    pub(super) fn deregister(&mut self, registry: &Registry) {
        if std::mem::take(&mut self.registered) {
            // There is nothing left to be done if it fails: events of nobody are passed over.
            let _ = registry.deregister(&mut SourceFd(&self.fd.as_raw_fd()));
        }
    }

    /// Reads what there is; nothing at all is the end.
    pub(super) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let count = match self.way {
            IoMode::Own | IoMode::Always => rustix::io::read(&self.fd, into)?,
            IoMode::Socket => recv(&self.fd, into, RecvFlags::DONTWAIT)?.1,
            IoMode::Shared if self.is_ready(PollFlags::IN)? => rustix::io::read(&self.fd, into)?,
            IoMode::Shared => return Err(ErrorKind::WouldBlock.into()),
        };
        Ok(count)
    }

    /// Writes what is taken, of a long output a part. Returns how much that is, and whether more
    /// would be taken.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<(usize, bool)> {
        let mut sent = 0;
        while sent < bytes.len() {
            if sent >= READ_BUDGET_BYTES {
                return Ok((sent, true));
            }
            match self.write_piece(&bytes[sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok((sent, false)),
                // What was taken before is told first; the next call fails in the same way.
                Err(_) if sent > 0 => return Ok((sent, true)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok((sent, true))
    }

    fn write_piece(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match self.way {
            IoMode::Own | IoMode::Always => rustix::io::write(&self.fd, bytes),
            IoMode::Socket => send(&self.fd, bytes, SendFlags::DONTWAIT),
            IoMode::Shared if self.is_ready(PollFlags::OUT)? => {
                rustix::io::write(&self.fd, &bytes[..bytes.len().min(PIPE_BUF)])
            }
            IoMode::Shared => Err(Errno::AGAIN),
        }
    }

    /// Whether a call would not wait. Errors and hang-ups are ready: the call tells of them.
    fn is_ready(&self, what: PollFlags) -> Result<bool, Errno> {
        let mut asked = [PollFd::new(&self.fd, what)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        Ok(poll(&mut asked, Some(&at_once))? > 0)
    }
}

/// A description of its own for the pipe or terminal behind a descriptor.
fn open_anew(inherited: BorrowedFd<'_>, direction: Direction) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/self/fd/{}", inherited.as_raw_fd());
    let access = match direction {
        Direction::In => OFlags::RDONLY,
        Direction::Out => OFlags::WRONLY,
    };
    let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = open(path, flags, Mode::empty())?;
    // Where /proc is something else, so may be what was opened.
    let (old, new) = (fstat(inherited)?, fstat(fd.as_fd())?);
    let same = (old.st_dev, old.st_ino, old.st_rdev) == (new.st_dev, new.st_ino, new.st_rdev);
    if same { Ok(fd) } else { Err(Errno::NOENT) }
}

/// `/dev/ptmx`, the side of a terminal that a terminal program has: opening it makes another one.
fn is_multiplexer(stat: &Stat) -> bool {
    (major(stat.st_rdev), minor(stat.st_rdev)) == (5, 2)
}

/// Whether this is what Rust's runtime puts in the place of a descriptor that was closed when the
/// program began: `/dev/null`, opened for reading and writing. A shell's `>/dev/null` is for
/// writing only. What was opened for both by whoever started us looks the same, and is refused
/// with it: nobody is to lose assignments without knowing.
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
        StdioFd { fd: fd.try_clone().unwrap(), way: IoMode::Shared, registered: false }
    }

    fn flags(fd: &OwnedFd) -> OFlags {
        fcntl_getfl(fd).unwrap()
    }

    #[test]
    fn a_pipe_that_cannot_be_opened_anew_does_not_block_either() {
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
    fn a_pipe_that_nobody_reads_is_broken_in_every_way() {
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
    fn a_pipe_is_opened_anew_and_left_as_it_was() {
        let (reading, writing) = pipe().unwrap();
        let before = (flags(&reading), flags(&writing));
        let input = StdioFd::open(reading.as_fd(), Direction::In).unwrap();
        let output = StdioFd::open(writing.as_fd(), Direction::Out).unwrap();
        assert_eq!((input.way, output.way), (IoMode::Own, IoMode::Own));
        assert!(flags(&input.fd).contains(OFlags::NONBLOCK));
        assert_eq!((flags(&reading), flags(&writing)), before);
        let (full, writable) = output.write(&vec![1; 4_000_000]).unwrap();
        assert!(!writable || full >= READ_BUDGET_BYTES);
        let mut piece = [0; 10];
        assert_eq!(input.read(&mut piece).unwrap(), 10);
    }

    #[test]
    fn an_end_for_the_other_direction_is_refused() {
        let (reading, writing) = pipe().unwrap();
        assert_eq!(StdioFd::open(reading.as_fd(), Direction::Out).unwrap_err(), Errno::BADF);
        assert_eq!(StdioFd::open(writing.as_fd(), Direction::In).unwrap_err(), Errno::BADF);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_what_stands_for_a_closed_descriptor_counts_as_closed() {
        let null = |access| open("/dev/null", access, Mode::empty()).unwrap();
        let output = |fd: OwnedFd| StdioFd::open(fd.as_fd(), Direction::Out).map(|_| ());
        assert_eq!(output(null(OFlags::RDWR)), Err(Errno::BADF));
        assert_eq!(output(null(OFlags::WRONLY)), Ok(()));
        let other = open("/dev/zero", OFlags::RDWR, Mode::empty()).unwrap();
        assert_eq!(output(other), Ok(()));
        assert!(StdioFd::open(null(OFlags::RDWR).as_fd(), Direction::In).is_ok());
    }
}

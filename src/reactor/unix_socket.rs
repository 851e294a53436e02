//! Listening sockets that are files.
//!
//! The file of a server that has gone without removing it is replaced, if nothing listens on it; a
//! file that is no socket never is. Its mode and group are set before anyone can connect. It is
//! removed with its listener, unless another one has taken its place.

use crate::base::limits::LISTEN_BACKLOG;
use crate::model::peer::Peer;
use mio::net::{TcpStream, UnixListener};
use rustix::fs::{FileType, Gid, Mode, Stat, chmod, chown, lstat, unlink};
use socket2::{Domain, SockAddr, Socket, Type};
use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Where to make a socket, and who may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixAddress {
    /// The file.
    pub path: PathBuf,
    /// Its permission bits; `None`: those that the umask leaves.
    pub mode: Option<u32>,
    /// The id of its group; `None`: that of the process.
    pub group: Option<u32>,
}

impl fmt::Display for UnixAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix:{}", self.path.display())
    }
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnixPeer {
    uid: Option<u32>,
}

impl UnixPeer {
    pub(super) fn into_peer(self) -> Peer {
        Peer { is_local: true, uid: self.uid, ..Peer::default() }
    }
}

/// A socket with its file, which is removed on drop if it is its own.
#[derive(Debug)]
pub(super) struct UnixSocketFile {
    pub(super) socket: UnixListener,
    /// The path of its own file, and the device and inode.
    file: Option<(PathBuf, (u64, u64))>,
}

/// Identifies a file.
fn identity(stat: &Stat) -> (u64, u64) {
    #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
    (stat.st_dev as u64, stat.st_ino as u64)
}

impl UnixSocketFile {
    /// Makes the file and listens.
    pub(super) fn bind(address: &UnixAddress) -> io::Result<Self> {
        let path = &address.path;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        let name = SockAddr::unix(path)?;
        match socket.bind(&name) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                remove_stale(path, &name)?;
                socket.bind(&name)?;
            }
            bound => bound?,
        }
        if let Some(group) = address.group {
            chown(path, None, Some(Gid::from_raw(group)))?;
        }
        if let Some(mode) = address.mode {
            chmod(path, Mode::from_raw_mode(mode))?;
        }
        // Only from here on can clients connect.
        socket.listen(LISTEN_BACKLOG)?;
        let file = identity(&lstat(path)?);
        let socket = UnixListener::from_std(OwnedFd::from(socket).into());
        Ok(Self { socket, file: Some((path.clone(), file)) })
    }

    /// A socket that listens already, whose file belongs to another program.
    pub(super) fn of_other(socket: Socket) -> Self {
        Self { socket: UnixListener::from_std(OwnedFd::from(socket).into()), file: None }
    }

    /// Accepts a connection: the calls on its stream are those of a TCP stream.
    pub(super) fn accept(&self) -> io::Result<(TcpStream, UnixPeer)> {
        let (stream, _) = self.socket.accept()?;
        let stream = OwnedFd::from(stream);
        let uid = peer_uid(&stream);
        Ok((TcpStream::from_std(stream.into()), UnixPeer { uid }))
    }
}

impl Drop for UnixSocketFile {
    fn drop(&mut self) {
        if let Some((path, file)) = &self.file
            && lstat(path).is_ok_and(|stat| identity(&stat) == *file)
        {
            // If it fails, the next server replaces the file.
            let _ = unlink(path);
        }
    }
}

/// Removes the file of a socket on which nothing listens.
fn remove_stale(path: &Path, name: &SockAddr) -> io::Result<()> {
    let stat = lstat(path)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        let why = "the file exists and is no socket";
        return Err(io::Error::new(ErrorKind::AlreadyExists, why));
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // With a full backlog a blocking connect would wait.
    probe.set_nonblocking(true)?;
    match probe.connect(name) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(unlink(path)?),
        _ => Err(ErrorKind::AddrInUse.into()),
    }
}

#[cfg(target_os = "linux")]
fn peer_uid(stream: &OwnedFd) -> Option<u32> {
    rustix::net::sockopt::socket_peercred(stream).ok().map(|peer| peer.uid.as_raw())
}

#[cfg(not(target_os = "linux"))]
fn peer_uid(_: &OwnedFd) -> Option<u32> {
    None
}

//! Sockets of the client verbs: TCP, TLS and files. They block.

use super::address::Address;
use crate::reactor::{BlockingTls, TrustStore};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A connection.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Tls(Box<BlockingTls>),
    Unix(UnixStream),
}

impl Stream {
    /// Connects within `timeout`. `name`: that in the certificate, if it is not the host.
    ///
    /// # Errors
    /// A sentence with the address.
    pub(super) fn connect(
        address: &Address,
        (trust, name): (&TrustStore, Option<&str>),
        timeout: Duration,
    ) -> Result<Self, String> {
        let explain = |error: io::Error| match error.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::NotFound => {
                format!("there is no listener at {address}: is the server running?")
            }
            ErrorKind::TimedOut => format!("{address} does not answer within {timeout:?}"),
            _ => format!("cannot connect to {address}: {error}"),
        };
        let stream = match address {
            Address::Unix(path) => Self::Unix(UnixStream::connect(path).map_err(explain)?),
            Address::Tcp { host, port } => {
                Self::Tcp(connect_tcp(host, *port, timeout).map_err(explain)?)
            }
            Address::Tls { host, port } => {
                let tcp = connect_tcp(host, *port, timeout).map_err(explain)?;
                tcp.set_read_timeout(Some(timeout)).map_err(explain)?;
                let tls = BlockingTls::connect(tcp, name.unwrap_or(host), trust);
                Self::Tls(Box::new(tls.map_err(|why| format!("no TLS with {address}: {why}"))?))
            }
        };
        stream.set_timeout(Some(timeout)).map_err(explain)?;
        Ok(stream)
    }

    /// One read of the socket. `None`: what came is none of the server's bytes.
    pub(super) fn read_once(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Tcp(stream) => stream.read(into).map(Some),
            Self::Tls(stream) => stream.read_once(into),
            Self::Unix(stream) => stream.read(into).map(Some),
        }
    }

    /// The longest time of a read or write. `None`: any.
    pub(super) fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        let tcp = match self {
            Self::Tcp(tcp) => tcp,
            Self::Tls(tls) => tls.tcp(),
            Self::Unix(unix) => {
                unix.set_read_timeout(timeout)?;
                return unix.set_write_timeout(timeout);
            }
        };
        tcp.set_read_timeout(timeout)?;
        tcp.set_write_timeout(timeout)
    }
}

fn connect_tcp(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::other("no address has this name");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                // Without it small requests are only later.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Tls(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

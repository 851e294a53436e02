//! TLS of client programs, over sockets that block: the command line needs no event loop.

use super::tls::{TrustStore, explain};
use rustls::{ClientConnection, StreamOwned};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

/// Why TLS did not begin. Displays as a sentence without its full stop.
#[derive(Debug)]
pub enum TlsError {
    /// The connection was lost, or nothing came in time.
    Lost(io::Error),
    /// What the other side is or says: another attempt ends in the same way.
    Refused(String),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(error) => error.fmt(f),
            Self::Refused(why) => f.write_str(why),
        }
    }
}

/// A TLS connection that blocks.
#[derive(Debug)]
pub struct BlockingTls(StreamOwned<ClientConnection, TcpStream>);

impl BlockingTls {
    /// Begins TLS with `host`, and returns when the handshake is over.
    ///
    /// # Errors
    /// A sentence about what the other side does or is.
    pub fn connect(stream: TcpStream, host: &str, trust: &TrustStore) -> Result<Self, TlsError> {
        let session = trust.session(host).map_err(TlsError::Refused)?;
        let mut tls = StreamOwned::new(session, stream);
        while tls.conn.is_handshaking() {
            tls.conn.complete_io(&mut tls.sock).map_err(tell_apart)?;
        }
        Ok(Self(tls))
    }

    /// Reads from the socket once, unless something is decrypted already. `None`: what came is none
    /// of the peer's bytes, as tickets of the session are.
    ///
    /// # Errors
    /// That of the socket, or `InvalidData` if the peer violates the protocol.
    pub fn read_once(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        let StreamOwned { conn, sock } = &mut self.0;
        if let Some(count) = decrypted(conn, into)? {
            return Ok(Some(count));
        }
        conn.read_tls(sock)?;
        conn.process_new_packets()
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        decrypted(conn, into)
    }

    /// The underlying TCP connection.
    #[must_use]
    pub fn tcp(&self) -> &TcpStream {
        &self.0.sock
    }
}

/// Takes what is decrypted; 0 is the end. `None`: nothing is.
fn decrypted(conn: &mut ClientConnection, into: &mut [u8]) -> io::Result<Option<usize>> {
    match conn.reader().read(into) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        read => read.map(Some),
    }
}

/// Whether TLS says what went wrong, or the system.
fn tell_apart(error: io::Error) -> TlsError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    match inner.map(explain) {
        Some(why) => TlsError::Refused(why),
        None => TlsError::Lost(error),
    }
}

impl Read for BlockingTls {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for BlockingTls {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl AsFd for BlockingTls {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.sock.as_fd()
    }
}

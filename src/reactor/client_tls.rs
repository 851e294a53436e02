//! TLS of client programs, over sockets that block: the command line needs no event loop.

use super::tls::{TrustStore, explain};
use rustls::{ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

/// A TLS connection that blocks.
#[derive(Debug)]
pub struct BlockingTls(StreamOwned<ClientConnection, TcpStream>);

impl BlockingTls {
    /// Begins TLS with `host`, and returns when the handshake is over.
    ///
    /// # Errors
    /// A sentence about what the other side does or is.
    pub fn connect(stream: TcpStream, host: &str, trust: &TrustStore) -> Result<Self, String> {
        let mut tls = StreamOwned::new(trust.session(host)?, stream);
        while tls.conn.is_handshaking() {
            tls.conn.complete_io(&mut tls.sock).map_err(|error| sentence(&error))?;
        }
        Ok(Self(tls))
    }

    /// The underlying TCP connection.
    #[must_use]
    pub fn tcp(&self) -> &TcpStream {
        &self.0.sock
    }
}

/// What went wrong, if TLS says it, or else the system.
fn sentence(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    inner.map_or_else(|| error.to_string(), explain)
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

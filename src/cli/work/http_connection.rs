//! A blocking connection that carries HTTP messages, for either side.
//!
//! Invariants: everything has to be over by a moment that was set ([`HttpConnection::within`]);
//! what is kept is bounded by the longest head and by what the reader of a body allows.

use crate::base::buf::Input;
use crate::base::time::Mono;
use crate::reactor::Clock;
use crate::wire::http::{Body, Fault, Framing, Piece};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const READ: usize = 64 * 1024;

/// A connection, and what was received of it and not read yet.
pub(super) struct HttpConnection {
    stream: TcpStream,
    unread: Vec<u8>,
    scratch: Box<[u8]>,
    clock: Clock,
    until: Mono,
}

/// Why nothing more can come of a connection.
#[derive(Debug)]
pub(super) enum ConnectionError {
    /// It ended or timed out.
    Closed(io::Error),
    /// What comes is not HTTP, or too long.
    Protocol(Fault),
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(error) => match error.kind() {
                ErrorKind::UnexpectedEof => f.write_str("it closed the connection"),
                ErrorKind::WouldBlock | ErrorKind::TimedOut => f.write_str("it is silent"),
                _ => error.fmt(f),
            },
            Self::Protocol(fault) => f.write_str(fault.why),
        }
    }
}

impl From<Fault> for ConnectionError {
    fn from(fault: Fault) -> Self {
        Self::Protocol(fault)
    }
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> Self {
        Self::Closed(error)
    }
}

impl HttpConnection {
    pub(super) fn new(stream: TcpStream) -> Self {
        // Without it small answers are late; they are right all the same.
        let _ = stream.set_nodelay(true);
        let scratch = vec![0; READ].into_boxed_slice();
        Self { stream, unread: Vec::new(), scratch, clock: Clock::start(), until: Mono(0) }
    }

    /// From now on everything may take this long.
    pub(super) fn within(&mut self, patience: Duration) {
        self.until = self.clock.moment().after(patience);
    }

    /// Reads on until `take` finds a head.
    pub(super) fn head<T>(
        &mut self,
        take: impl Fn(&mut Input<'_>) -> Result<Option<T>, Fault>,
    ) -> Result<T, ConnectionError> {
        loop {
            let mut input = Input::new(&self.unread);
            let taken = take(&mut input)?;
            let left = input.unread().len();
            self.unread.drain(..self.unread.len() - left);
            if let Some(taken) = taken {
                return Ok(taken);
            }
            self.more()?;
        }
    }

    /// Whether what was received and not read yet begins so.
    pub(super) fn begins_with(&self, bytes: &[u8]) -> bool {
        self.unread.starts_with(bytes)
    }

    /// Waits until something comes that may be a head.
    pub(super) fn begin(&mut self) -> Result<(), ConnectionError> {
        if self.unread.is_empty() { Ok(self.more()?) } else { Ok(()) }
    }

    /// Reads a body of at most `max` bytes.
    pub(super) fn body(&mut self, framing: Framing, max: u64) -> Result<Vec<u8>, ConnectionError> {
        let mut body = Body::new(framing, max)?;
        let mut bytes = Vec::new();
        loop {
            let mut input = Input::new(&self.unread);
            let over = loop {
                match body.next(&mut input)? {
                    Piece::Data(piece) => bytes.extend_from_slice(piece),
                    Piece::End => break true,
                    Piece::Incomplete => break false,
                }
            };
            let left = input.unread().len();
            self.unread.drain(..self.unread.len() - left);
            if over {
                return Ok(bytes);
            }
            match self.more() {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof && body.ends_well() => {
                    return Ok(bytes);
                }
                more => more?,
            }
        }
    }

    /// Sends all of it.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let left = self.left()?;
        self.stream.set_write_timeout(Some(left))?;
        self.stream.write_all(bytes)
    }

    fn left(&mut self) -> io::Result<Duration> {
        let left = self.until.until(self.clock.moment());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    fn more(&mut self) -> io::Result<()> {
        loop {
            let left = self.left()?;
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut self.scratch) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.unread.extend_from_slice(&self.scratch[..count]);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

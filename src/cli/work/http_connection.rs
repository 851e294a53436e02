//! A blocking connection that carries HTTP messages, for either side.
//!
//! Invariants: every operation ends by the deadline ([`HttpConnection::set_timeout`]); buffered
//! input is bounded by the longest head and the limit of the body.

use crate::base::buf::Input;
use crate::base::time::Mono;
use crate::reactor::Clock;
use crate::wire::http::{Body, Framing, ParseError, Piece};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const READ_BYTES: usize = 64 * 1024;

/// A connection with its buffered input.
pub(super) struct HttpConnection {
    stream: TcpStream,
    unread: Vec<u8>,
    scratch: Box<[u8]>,
    clock: Clock,
    deadline: Mono,
}

/// Why a connection cannot be used any more.
#[derive(Debug)]
pub(super) enum ConnectionError {
    /// It ended or timed out.
    Closed(io::Error),
    /// The input is not HTTP, or too long.
    Protocol(ParseError),
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(error) => match error.kind() {
                ErrorKind::UnexpectedEof => f.write_str("it closed the connection"),
                ErrorKind::WouldBlock | ErrorKind::TimedOut => f.write_str("it is silent"),
                _ => error.fmt(f),
            },
            Self::Protocol(error) => f.write_str(error.why),
        }
    }
}

impl From<ParseError> for ConnectionError {
    fn from(error: ParseError) -> Self {
        Self::Protocol(error)
    }
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> Self {
        Self::Closed(error)
    }
}

impl HttpConnection {
    pub(super) fn new(stream: TcpStream) -> Self {
        // Without it small responses are only later.
        let _ = stream.set_nodelay(true);
        let scratch = vec![0; READ_BYTES].into_boxed_slice();
        Self { stream, unread: Vec::new(), scratch, clock: Clock::start(), deadline: Mono(0) }
    }

    /// Sets the deadline of all operations from now on.
    pub(super) fn set_timeout(&mut self, timeout: Duration) {
        self.deadline = self.clock.moment().after(timeout);
    }

    /// Reads until `parse` returns a head.
    pub(super) fn head<T>(
        &mut self,
        parse: impl Fn(&mut Input<'_>) -> Result<Option<T>, ParseError>,
    ) -> Result<T, ConnectionError> {
        loop {
            let mut input = Input::new(&self.unread);
            let parsed = parse(&mut input)?;
            let left = input.unread().len();
            self.unread.drain(..self.unread.len() - left);
            if let Some(parsed) = parsed {
                return Ok(parsed);
            }
            self.read_more()?;
        }
    }

    /// Whether the buffered input starts with `bytes`.
    pub(super) fn begins_with(&self, bytes: &[u8]) -> bool {
        self.unread.starts_with(bytes)
    }

    /// Waits for the first bytes of a head.
    pub(super) fn wait_for_input(&mut self) -> Result<(), ConnectionError> {
        if self.unread.is_empty() { Ok(self.read_more()?) } else { Ok(()) }
    }

    /// Reads a body of at most `max` bytes.
    pub(super) fn body(&mut self, framing: Framing, max: u64) -> Result<Vec<u8>, ConnectionError> {
        let mut body = Body::new(framing, max)?;
        let mut bytes = Vec::new();
        loop {
            let mut input = Input::new(&self.unread);
            let is_complete = loop {
                match body.next(&mut input)? {
                    Piece::Data(piece) => bytes.extend_from_slice(piece),
                    Piece::End => break true,
                    Piece::Incomplete => break false,
                }
            };
            let left = input.unread().len();
            self.unread.drain(..self.unread.len() - left);
            if is_complete {
                return Ok(bytes);
            }
            match self.read_more() {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof && body.ends_well() => {
                    return Ok(bytes);
                }
                result => result?,
            }
        }
    }

    /// Sends all of it.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let left = self.time_left()?;
        self.stream.set_write_timeout(Some(left))?;
        self.stream.write_all(bytes)
    }

    fn time_left(&mut self) -> io::Result<Duration> {
        let left = self.deadline.until(self.clock.moment());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    fn read_more(&mut self) -> io::Result<()> {
        loop {
            let left = self.time_left()?;
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

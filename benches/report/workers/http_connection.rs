//! A connection of the fleet: HTTP messages with a `Content-Length`, which is all that the server
//! sends here.

use crate::socket;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;

const SCRATCH: usize = 1 << 16;

/// One connection.
pub(super) struct HttpConnection {
    stream: TcpStream,
    input: Vec<u8>,
    /// What of the input was taken.
    used: usize,
    output: Vec<u8>,
}

impl HttpConnection {
    pub(super) fn connect(
        address: SocketAddr,
        registry: &Registry,
        token: Token,
    ) -> std::io::Result<Self> {
        let stream = std::net::TcpStream::connect(address)?;
        stream.set_nonblocking(true)?;
        Self::of(TcpStream::from_std(stream), registry, token)
    }

    /// That of a stream that is there.
    pub(super) fn of(
        mut stream: TcpStream,
        registry: &Registry,
        token: Token,
    ) -> std::io::Result<Self> {
        stream.set_nodelay(true)?;
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self { stream, input: Vec::new(), used: 0, output: Vec::new() })
    }

    /// Adds a message with a body that `write` writes behind what is there.
    pub(super) fn say(&mut self, head: &str, body: &[u8]) {
        let length = body.len();
        // Proof: a vector takes everything.
        let _ = write!(self.output, "{head}Content-Length: {length}\r\n\r\n");
        self.output.extend_from_slice(body);
    }

    /// Writes what the socket takes.
    pub(super) fn flush(&mut self) -> Result<(), String> {
        socket::flush(&self.stream, &mut self.output)
    }

    /// Reads what there is. False at the end of the connection.
    pub(super) fn read(&mut self) -> Result<bool, String> {
        self.input.drain(..self.used);
        self.used = 0;
        loop {
            let from = self.input.len();
            self.input.resize(from + SCRATCH, 0);
            let read = self.stream.read(&mut self.input[from..]);
            self.input.truncate(from + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Ok(false),
                // Less than there was room for: an edge will tell of more.
                Ok(count) if count < SCRATCH => return Ok(true),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("the server did not go on: {error}")),
            }
        }
    }

    /// The next whole message: its first line and its body.
    pub(super) fn next(&mut self) -> Result<Option<(&str, &[u8])>, String> {
        let unread = &self.input[self.used..];
        let Some(end) = memchr::memmem::find(unread, b"\r\n\r\n") else { return Ok(None) };
        let head = str::from_utf8(&unread[..end]).map_err(|_| "a head is no text".to_owned())?;
        let length = head.split("\r\n").find_map(|field| field.strip_prefix("Content-Length: "));
        let length: usize = match length {
            Some(length) => length.parse().map_err(|_| format!("this is no length: {length}"))?,
            None => 0,
        };
        let (from, to) = (end + 4, end + 4 + length);
        let Some(body) = unread.get(from..to) else { return Ok(None) };
        self.used += to;
        Ok(Some((head.split("\r\n").next().unwrap_or_default(), body)))
    }
}

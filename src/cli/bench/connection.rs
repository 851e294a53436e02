//! One connection of the load generator: a socket, its buffers, and the requests in flight.

use super::protocols::{Codec, Request};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// A request that waits for its reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub(super) request: Request,
    /// When it was sent, or should have been.
    pub(super) at: u64,
    /// Its latency counts.
    pub(super) measured: bool,
    /// It was the last of what was written, and a receipt was asked for.
    pub(super) receipt: bool,
}

/// A connection that sends requests.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    /// The beginning of a reply whose rest is not here yet.
    pub(super) input: Vec<u8>,
    output: Vec<u8>,
    /// How much of `output` is sent.
    sent: usize,
    writable: bool,
    pub(super) in_flight: VecDeque<InFlight>,
    /// What the protocol remembers of this connection.
    memory: u64,
    /// Its output has grown and it stands in the list of those to be flushed.
    pub(super) dirty: bool,
    /// The priority of the last job of each queue, while nobody puts: it never rises.
    pub(super) last: Vec<u64>,
}

/// Connects and waits until that is done.
pub(super) fn connect(
    address: SocketAddr,
    patience: Duration,
) -> Result<std::net::TcpStream, String> {
    let explain = |error: io::Error| {
        if error.kind() == ErrorKind::ConnectionRefused {
            format!("nobody listens at {address}: is the server running (jobcentre serve)?")
        } else {
            format!("cannot connect to {address}: {error}")
        }
    };
    let stream = std::net::TcpStream::connect_timeout(&address, patience).map_err(explain)?;
    stream.set_nodelay(true).map_err(explain)?;
    stream.set_read_timeout(Some(patience)).map_err(explain)?;
    Ok(stream)
}

impl Connection {
    /// Connects, says what the protocol wants to be said first, and joins the loop.
    pub(super) fn open(
        address: SocketAddr,
        patience: Duration,
        wire: &Codec,
        registry: &Registry,
        token: Token,
    ) -> Result<Self, String> {
        let mut stream = connect(address, patience)?;
        wire.greet(&mut stream)?;
        let join = || {
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
            Ok(stream)
        };
        let stream =
            join().map_err(|error: io::Error| format!("cannot watch a socket: {error}"))?;
        Ok(Self {
            stream,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            writable: true,
            in_flight: VecDeque::new(),
            memory: 0,
            dirty: false,
            last: Vec::new(),
        })
    }

    /// Adds a request to what is to be sent.
    #[inline]
    pub(super) fn send(&mut self, flight: InFlight, wire: &Codec) {
        wire.write(&flight.request, &mut self.memory, &mut self.output);
        self.in_flight.push_back(flight);
    }

    /// One read. None if there is nothing.
    #[inline]
    pub(super) fn read(&mut self, scratch: &mut [u8]) -> Result<Option<usize>, String> {
        match self.stream.read(scratch) {
            Ok(0) => Err(self.lost("the server closed a connection")),
            Ok(count) => Ok(Some(count)),
            Err(error) if is_temporary(&error) => Ok(None),
            Err(error) => Err(self.lost(&format!("a connection broke ({error})"))),
        }
    }

    /// One write, if there is anything to be sent.
    #[inline]
    pub(super) fn flush(&mut self, wire: &Codec) -> Result<(), String> {
        if self.output.is_empty() || !self.writable {
            return Ok(());
        }
        if let Some(last) = self.in_flight.back_mut()
            && !last.receipt
        {
            last.receipt = wire.ask_receipt(&last.request, &mut self.output);
        }
        match self.stream.write(&self.output[self.sent..]) {
            Ok(count) => {
                self.sent += count;
                self.writable = self.sent == self.output.len();
                if self.writable {
                    self.output.clear();
                    self.sent = 0;
                }
                Ok(())
            }
            Err(error) if is_temporary(&error) => {
                self.writable = false;
                Ok(())
            }
            Err(error) => Err(self.lost(&format!("a connection broke ({error})"))),
        }
    }

    /// The socket takes output again.
    pub(super) fn handle_writable(&mut self, wire: &Codec) -> Result<(), String> {
        self.writable = true;
        self.flush(wire)
    }

    #[cold]
    fn lost(&self, what: &str) -> String {
        format!("{what} with {} requests in flight", self.in_flight.len())
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

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
    /// Its latency is measured.
    pub(super) measured: bool,
    /// It was followed by a request for a receipt.
    pub(super) receipt: bool,
}

/// A connection that sends requests.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    /// The received part of an incomplete reply.
    pub(super) input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of `output` that are sent.
    sent: usize,
    writable: bool,
    pub(super) in_flight: VecDeque<InFlight>,
    /// State that the protocol keeps for this connection.
    protocol_state: u64,
    /// It is in the list of connections to flush.
    pub(super) dirty: bool,
    /// The priority of the last job from each queue. While nothing is put it never rises.
    pub(super) last_priorities: Vec<u64>,
}

/// Connects, blocking.
pub(super) fn connect(
    address: SocketAddr,
    timeout: Duration,
) -> Result<std::net::TcpStream, String> {
    let explain = |error: io::Error| {
        if error.kind() == ErrorKind::ConnectionRefused {
            format!("there is no listener at {address}: is the server running (jobcentre serve)?")
        } else {
            format!("cannot connect to {address}: {error}")
        }
    };
    let stream = std::net::TcpStream::connect_timeout(&address, timeout).map_err(explain)?;
    stream.set_nodelay(true).map_err(explain)?;
    stream.set_read_timeout(Some(timeout)).map_err(explain)?;
    Ok(stream)
}

impl Connection {
    /// Connects, sends the set-up requests of the protocol, and registers with the event loop.
    pub(super) fn open(
        address: SocketAddr,
        timeout: Duration,
        codec: &Codec,
        registry: &Registry,
        token: Token,
    ) -> Result<Self, String> {
        let mut stream = connect(address, timeout)?;
        codec.set_up(&mut stream)?;
        let register = || {
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
            Ok(stream)
        };
        let stream =
            register().map_err(|error: io::Error| format!("cannot watch a socket: {error}"))?;
        Ok(Self {
            stream,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            writable: true,
            in_flight: VecDeque::new(),
            protocol_state: 0,
            dirty: false,
            last_priorities: Vec::new(),
        })
    }

    /// Appends a request to the output.
    #[inline]
    pub(super) fn send(&mut self, flight: InFlight, codec: &Codec) {
        codec.write(&flight.request, &mut self.protocol_state, &mut self.output);
        self.in_flight.push_back(flight);
    }

    /// One read. `None`: there is no input.
    #[inline]
    pub(super) fn read(&mut self, scratch: &mut [u8]) -> Result<Option<usize>, String> {
        match self.stream.read(scratch) {
            Ok(0) => Err(self.connection_error("the server closed a connection")),
            Ok(count) => Ok(Some(count)),
            Err(error) if is_temporary(&error) => Ok(None),
            Err(error) => Err(self.connection_error(&format!("a connection broke ({error})"))),
        }
    }

    /// One write, if there is output.
    #[inline]
    pub(super) fn flush(&mut self, codec: &Codec) -> Result<(), String> {
        if self.output.is_empty() || !self.writable {
            return Ok(());
        }
        if let Some(last) = self.in_flight.back_mut()
            && !last.receipt
        {
            last.receipt = codec.ask_receipt(&last.request, &mut self.output);
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
            Err(error) => Err(self.connection_error(&format!("a connection broke ({error})"))),
        }
    }

    /// The socket is writable again.
    pub(super) fn handle_writable(&mut self, codec: &Codec) -> Result<(), String> {
        self.writable = true;
        self.flush(codec)
    }

    #[cold]
    fn connection_error(&self, what: &str) -> String {
        format!("{what} with {} requests in flight", self.in_flight.len())
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

//! One connection of the load generator: a socket, its buffers, and the requests in flight.

use super::protocols::{Codec, Request};
use super::stream::{BlockingStream, Stream, Target};
use mio::{Interest, Registry, Token};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
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
    stream: Stream,
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

impl Connection {
    /// Connects, authenticates, sends the set-up requests of the protocol, and registers with the
    /// event loop.
    pub(super) fn open(
        target: &Target,
        patience: Duration,
        codec: &Codec,
        registry: &Registry,
        token: Token,
    ) -> Result<Self, String> {
        let mut stream = Stream::connect(target, patience)?;
        let mut blocking = BlockingStream { stream: &mut stream, patience };
        codec.authenticate(&mut blocking)?;
        codec.set_up(&mut blocking)?;
        registry
            .register(stream.tcp_mut(), token, Interest::READABLE | Interest::WRITABLE)
            .map_err(|error| format!("cannot watch a socket: {error}"))?;
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

    /// One read: the count of bytes, and whether more may be there without another event. `None`:
    /// there is no input.
    #[inline]
    pub(super) fn read(&mut self, scratch: &mut [u8]) -> Result<Option<(usize, bool)>, String> {
        match self.stream.read(scratch) {
            Ok((0, _)) => Err(self.connection_error("the server closed a connection")),
            Ok(read) => Ok(Some(read)),
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
            Ok((count, writable)) => {
                self.sent += count;
                self.writable = writable;
                if self.sent == self.output.len() {
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

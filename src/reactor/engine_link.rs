//! The connection of the engine to where its jobs are kept, if the core has one. It is dialled like
//! a call of a worker, but to any address, and is no client of the core: it has bytes to send after
//! clients have gone.

use super::Reactor;
use super::dialer::Dialer;
use super::loop_waker::LoopWaker;
use super::socket::Stream;
use super::tls::TrustStore;
use crate::base::limits::ENGINE_READS_PER_PASS;
use crate::base::time::Now;
use crate::model::driver::{Core, Link, LinkAction};
use crate::model::id::ClientId;
use mio::Registry;
use mio::event::Event;
use std::io::{self, ErrorKind, Write};

/// The name of the connection among tokens. No connection of the core has it: their indices count
/// from 0.
pub(super) const LINK: ClientId = ClientId { index: u32::MAX - 4096, generation: 0 };

/// The connection, or what there is of it.
#[derive(Debug)]
pub(super) struct EngineLink {
    dialer: Dialer,
    socket: Option<LinkSocket>,
}

/// The socket and its readiness.
#[derive(Debug)]
struct LinkSocket {
    stream: Stream,
    readable: bool,
    writable: bool,
    /// The other side has ended it: read until the end is read.
    hung_up: bool,
}

impl LinkSocket {
    /// Sends from `output`, which begins with what was not reported as sent before.
    fn write(&mut self, output: &[u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Plain(stream) | Stream::Unix(stream) => stream.write(output),
            Stream::Tls(tls) => {
                let (count, writable) = tls.write(output)?;
                self.writable = writable;
                Ok(count)
            }
            // It is not dialled.
            Stream::Stdio(_) => Err(ErrorKind::Unsupported.into()),
        }
    }
}

impl EngineLink {
    pub(super) fn new(wake: LoopWaker) -> Self {
        Self { dialer: Dialer::new(wake), socket: None }
    }

    pub(super) fn set_trust(&mut self, trust: TrustStore) {
        self.dialer.set_trust(trust);
    }

    pub(super) fn on_event(&mut self, event: &Event) {
        let Some(socket) = &mut self.socket else { return self.dialer.on_event(LINK, event) };
        socket.hung_up |= event.is_read_closed() || event.is_error();
        socket.readable |= event.is_readable() || socket.hung_up;
        socket.writable |= event.is_writable() || event.is_error();
    }

    /// Whether there is something to do without another event.
    pub(super) fn is_due(&self) -> bool {
        self.dialer.has_ready() || self.socket.as_ref().is_some_and(|socket| socket.readable)
    }

    /// Advances the dial, and hands what has come to the core.
    fn read(&mut self, link: &mut dyn Link, registry: &Registry, scratch: &mut [u8], now: Now) {
        self.dialer.begin_pass();
        match self.dialer.poll(registry) {
            Some((_, Ok(socket))) => {
                let (stream, hung_up) = (socket.stream, socket.hung_up);
                let (readable, writable) = (true, true);
                self.socket = Some(LinkSocket { stream, readable, writable, hung_up });
                link.handle_connected(now);
            }
            Some((_, Err(why))) => link.handle_lost(&why.to_string(), now),
            None => {}
        }
        for _ in 0..ENGINE_READS_PER_PASS {
            let Some(socket) = self.socket.as_mut().filter(|socket| socket.readable) else {
                return;
            };
            match socket.stream.read(scratch) {
                Ok(0) => return self.lose(link, "it has closed the connection", now),
                Ok(count) => {
                    let has_more = count == scratch.len() || !socket.stream.is_drained();
                    socket.readable = has_more || socket.hung_up;
                    link.handle_input(&scratch[..count], now);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => socket.readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.lose(link, &error.to_string(), now),
            }
        }
    }

    fn lose(&mut self, link: &mut dyn Link, why: &str, now: Now) {
        self.socket = None;
        link.handle_lost(why, now);
    }

    /// Sends what the core has to send, and does what it asks for.
    fn write(&mut self, link: &mut dyn Link, now: Now) {
        while let Some(action) = link.poll_action() {
            self.socket = None;
            self.dialer.cancel(LINK);
            if let LinkAction::Connect(target) = action {
                self.dialer.begin(LINK, target);
            }
        }
        while let Some(socket) = self.socket.as_mut().filter(|socket| socket.writable) {
            let output = link.output();
            if output.is_empty() && !socket.stream.wants_write() {
                return;
            }
            match socket.write(output) {
                Ok(count) => link.handle_sent(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => socket.writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.lose(link, &error.to_string(), now),
            }
        }
    }
}

impl<C: Core> Reactor<C> {
    /// Advances the dial of the engine's connection, and reads it.
    pub(super) fn read_engine_link(&mut self) {
        if let Some(link) = self.core.link() {
            self.engine_link.read(link, self.poll.registry(), &mut self.scratch, self.now);
        }
    }

    /// Writes the engine's connection, and begins or ends it.
    pub(super) fn write_engine_link(&mut self) {
        if let Some(link) = self.core.link() {
            self.engine_link.write(link, self.now);
        }
    }
}

//! Lines sent back unchanged, on the server's own reactor: the cost of the loop alone.
//!
//! Input is copied once, into reused memory, and sent from there; like in the server, a connection
//! with more than [`OUTPUT_HIGH_WATER_BYTES`] unsent bytes is not read.

use super::Start;
use jobcentre::base::buf::{BufferPool, OutBuf};
use jobcentre::base::limits::OUTPUT_HIGH_WATER_BYTES;
use jobcentre::base::slab::Slab;
use jobcentre::base::time::{Mono, Now};
use jobcentre::model::driver::{Action, Core, Protocol};
use jobcentre::model::id::ClientId;
use jobcentre::reactor::{Clock, LoopWaker, Reactor};
use std::collections::VecDeque;
use std::io;

/// Runs the echo until a signal ends it.
pub(super) fn run(start: &Start) -> io::Result<()> {
    let protocols = [(Protocol::JobCentre, start.listen.into())];
    let mut reactor =
        Reactor::bind(Echo::default(), &protocols, Clock::start(), &LoopWaker::default())?;
    start.tell(reactor.addresses()[0]);
    reactor.run().map(|_| ())
}

/// What is to be sent back on one connection.
#[derive(Debug, Default)]
struct Line {
    output: OutBuf,
    eof: bool,
}

/// The echo.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    lines: Slab<Line>,
    touched: Vec<ClientId>,
    actions: VecDeque<Action>,
    pool: BufferPool,
}

impl Echo {
    /// Ends a connection that is over.
    fn settle(&mut self, client: ClientId) {
        if self.lines.get(client).is_some_and(|line| line.eof && line.output.is_empty()) {
            self.lines.remove(client);
            self.actions.push_back(Action::Close(client));
        }
    }
}

impl Core for Echo {
    fn handle_open(&mut self, _door: Protocol, _now: Now) -> Option<ClientId> {
        Some(self.lines.insert(Line::default()))
    }

    fn handle_input(&mut self, client: ClientId, bytes: &[u8], _now: Now) {
        if let Some(line) = self.lines.get_mut(client) {
            line.output.prepare(&mut self.pool);
            line.output.tail().extend_from_slice(bytes);
            self.touched.push(client);
        }
    }

    fn handle_peer_closed(&mut self, _client: ClientId, _now: Now) {}

    fn handle_eof(&mut self, client: ClientId, _now: Now) {
        if let Some(line) = self.lines.get_mut(client) {
            line.eof = true;
            self.settle(client);
        }
    }

    fn handle_sent(&mut self, client: ClientId, count: usize, _now: Now) {
        if let Some(line) = self.lines.get_mut(client) {
            let was_above = line.output.len() > OUTPUT_HIGH_WATER_BYTES;
            line.output.sent(count, &mut self.pool);
            if was_above {
                self.touched.push(client);
            }
            self.settle(client);
        }
    }

    fn handle_broken_output(&mut self, client: ClientId, _now: Now) {
        if self.lines.remove(client).is_some() {
            self.actions.push_back(Action::Close(client));
        }
    }

    fn handle_reset(&mut self, client: ClientId, _now: Now) {
        self.lines.remove(client);
    }

    fn handle_shutdown(&mut self, _now: Now) {}

    fn finish_pass(&mut self, _now: Now) {}

    fn wants_input(&self, client: ClientId) -> bool {
        let line = self.lines.get(client);
        line.is_some_and(|line| !line.eof && line.output.len() <= OUTPUT_HIGH_WATER_BYTES)
    }

    fn output(&self, client: ClientId) -> &[u8] {
        self.lines.get(client).map_or(&[], |line| line.output.unsent())
    }

    fn poll_touched(&mut self) -> Option<ClientId> {
        self.touched.pop()
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn poll_timeout(&self, _now: Now) -> Option<Mono> {
        None
    }

    fn connections(&self) -> usize {
        self.lines.len()
    }
}

//! Connections that are accepted: served here, or forwarded to the server that leads.

use super::Reactor;
use super::forward::{Arrival, Forwarding, Leader};
use super::listener::{Accepted, Listener};
use super::socket::{self, Socket, Stream};
use crate::base::limits::ACCEPTS_PER_PASS;
use crate::model::driver::{Core, Protocol};
use crate::model::id::ClientId;
use crate::model::peer::Peer;
use tracing::{debug, warn};

impl<C: Core> Reactor<C> {
    /// Whether connections of a listener may be accepted now.
    pub(super) fn may_accept(&self, listener: &Listener) -> bool {
        if self.forwarder.is_on() {
            let (protocol, is_tls) = (listener.protocol(), listener.is_tls());
            self.forwarder.accepts(protocol, is_tls, self.now.mono)
        } else {
            !(listener.is_tls() && self.handshakes.is_full())
        }
    }

    pub(super) fn accept(&mut self) {
        for number in 0..self.listeners.len() {
            if self.forwarder.is_on() && !self.may_accept(&self.listeners[number]) {
                continue;
            }
            for _ in 0..ACCEPTS_PER_PASS {
                let listener = &mut self.listeners[number];
                let shakes = listener.is_tls() && !self.forwarder.is_on();
                let may_wait = shakes && listener.is_ready();
                if may_wait && !self.handshakes.make_room(self.now.mono) {
                    break;
                }
                match listener.accept(self.now) {
                    Accepted::Connection(stream, mut peer) => {
                        peer.listener = u32::try_from(number).unwrap_or(u32::MAX);
                        let protocol = listener.protocol();
                        self.take(Arrival { stream, peer, protocol }, number);
                    }
                    Accepted::TryAgain => {}
                    Accepted::NoMore => break,
                }
            }
        }
    }

    /// Forwards a connection that the listener of this number has accepted, or serves it.
    pub(super) fn take(&mut self, arrival: Arrival, number: usize) {
        let is_tls = self.listeners.get(number).is_some_and(Listener::is_tls);
        if self.forwarder.is_on() {
            let registry = self.poll.registry();
            return self.forwarder.take(arrival, is_tls, registry, self.now.mono);
        }
        let Arrival { stream, peer, protocol } = arrival;
        match stream {
            Stream::Plain(stream) if is_tls => self.begin_handshake(stream, peer, protocol),
            stream => {
                let _ = self.open(stream, peer, protocol);
            }
        }
    }

    /// Announces a connection to the core. `None`: it is closed.
    pub(super) fn open(
        &mut self,
        stream: Stream,
        peer: Peer,
        protocol: Protocol,
    ) -> Option<ClientId> {
        let opened = self.core.handle_open(protocol, self.now);
        let client = self.watch(opened, stream, protocol)?;
        self.core.handle_peer(client, peer, self.now);
        Some(client)
    }

    /// Watches a connection that the core has announced by this id.
    fn watch(
        &mut self,
        opened: Option<ClientId>,
        mut stream: Stream,
        protocol: Protocol,
    ) -> Option<ClientId> {
        let Some(client) = opened else {
            debug!(
                protocol = protocol.name(),
                "too many rejected connections: closed without a reply"
            );
            return None;
        };
        if let Err(error) = stream.register(self.poll.registry(), socket::token(client)) {
            warn!(%error, "cannot watch a new connection: closed");
            self.core.handle_reset(client, self.now);
            return None;
        }
        self.sockets.insert(client, Socket::new(stream, self.now.mono));
        Some(client)
    }

    /// Forwards connections from now on. Until a leader is known they wait in the backlogs of their
    /// listeners.
    pub fn forward(&mut self, settings: Forwarding) {
        self.forwarder.begin(settings, self.now.mono);
    }

    /// Names the leader to which connections are forwarded. Those to another one end.
    pub fn set_leader(&mut self, leader: Leader) {
        self.forwarder.set_leader(leader);
    }

    /// Moves on forwarded connections; those that are served here are announced to the core.
    pub(super) fn advance_forwards(&mut self) {
        if !self.forwarder.is_on() {
            return;
        }
        let now = self.now.mono;
        self.forwarder.advance(self.poll.registry(), &mut self.scratch, now);
        for Arrival { stream, peer, protocol } in self.forwarder.take_served() {
            let _ = self.open(stream, peer, protocol);
        }
        for (Arrival { stream, protocol, .. }, why) in self.forwarder.take_refused() {
            let refused = self.core.handle_refused(protocol, &why, self.now);
            let _ = self.watch(refused, stream, protocol);
        }
        self.core.record_forwards(self.forwarder.stats());
    }
}

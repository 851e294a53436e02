//! Accepted TLS connections until their handshakes are complete: the core knows nothing of them.
//!
//! A handshake costs about as much as a hundred requests. So a pass advances at most
//! [`HANDSHAKE_STEPS_PER_PASS`] of those that have sent something; the others wait in line, in the
//! order of their events. Each has [`HANDSHAKE_TIMEOUT`] in all. At most [`HANDSHAKES_MAX`] are
//! under way: a further connection takes the place of the oldest one that has had
//! [`HANDSHAKE_TIME_MIN`], so that silent ones do not keep others out; if there is none it stays in
//! the backlog of its listener.
//!
//! Invariants: a handshake is at most once in the line; one that is marked as waiting for an event
//! has met `WouldBlock` since its last one.

use super::Reactor;
use super::certificate_names::names;
use super::socket::Stream;
use super::tls::Tls;
use crate::base::limits::{
    HANDSHAKE_LOOKS_PER_PASS, HANDSHAKE_NOTICE_INTERVAL, HANDSHAKE_STEPS_PER_PASS,
    HANDSHAKE_TIME_MIN, HANDSHAKE_TIMEOUT, HANDSHAKES_MAX,
};
use crate::base::rate_limited_counter::RateLimitedCounter;
use crate::base::time::Mono;
use crate::model::driver::{Core, Protocol};
use crate::model::peer::Peer;
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use slab::Slab;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;
use tracing::{debug, warn};

/// The least token of a handshake; the others follow, up to [`HANDSHAKES_MAX`] of them.
const FIRST: usize = super::FIRST_LISTENER - HANDSHAKES_MAX;

/// A connection whose handshake is complete.
#[derive(Debug)]
pub(super) struct Secured {
    pub(super) tls: Box<Tls>,
    pub(super) protocol: Protocol,
    /// The other end.
    pub(super) peer: Peer,
    /// The peer has shut down its sending side.
    pub(super) hung_up: bool,
}

#[derive(Debug)]
struct Handshake {
    connection: Secured,
    /// It is in the line.
    queued: bool,
    /// Tells it from others that have had its place.
    serial: u64,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Handshakes {
    pending: Slab<Handshake>,
    max: usize,
    ready: VecDeque<usize>,
    /// When each has begun, in this order; those that have ended may still be there.
    begun: VecDeque<(Mono, usize, u64)>,
    /// Those begun so far.
    serial: u64,
    /// Those that have failed since the last [`Handshakes::advance`].
    failed: u64,
    failures: RateLimitedCounter,
    /// Why the last one has failed, and with whom.
    last_failure: String,
}

impl Default for Handshakes {
    fn default() -> Self {
        Self {
            pending: Slab::new(),
            max: HANDSHAKES_MAX,
            ready: VecDeque::new(),
            begun: VecDeque::new(),
            serial: 0,
            failed: 0,
            failures: RateLimitedCounter::new(HANDSHAKE_NOTICE_INTERVAL),
            last_failure: String::new(),
        }
    }
}

/// The place of the handshake with this token, if it is one.
pub(super) fn place(token: Token) -> Option<usize> {
    token.0.checked_sub(FIRST).filter(|&place| place < HANDSHAKES_MAX)
}

impl Handshakes {
    pub(super) fn is_full(&self) -> bool {
        self.pending.len() >= self.max
    }

    /// Adds a handshake: an event follows.
    pub(super) fn begin(
        &mut self,
        mut connection: Secured,
        registry: &Registry,
        now: Mono,
    ) -> io::Result<()> {
        debug_assert!(!self.is_full(), "more handshakes than tokens");
        let entry = self.pending.vacant_entry();
        let place = entry.key();
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(connection.tls.tcp_mut(), Token(FIRST + place), interest)?;
        self.serial += 1;
        entry.insert(Handshake { connection, queued: false, serial: self.serial });
        self.begun.push_back((now, place, self.serial));
        Ok(())
    }

    pub(super) fn on_event(&mut self, place: usize, event: &Event) {
        let Some(handshake) = self.pending.get_mut(place) else { return };
        handshake.connection.hung_up |= event.is_read_closed() || event.is_error();
        if !std::mem::replace(&mut handshake.queued, true) {
            self.ready.push_back(place);
        }
    }

    /// Whether one of them can be advanced without a further event.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When the first one is given up, or may be for others, or failures are to be logged.
    pub(super) fn next(&self) -> Option<Mono> {
        let time = if self.is_full() { HANDSHAKE_TIME_MIN } else { HANDSHAKE_TIMEOUT };
        let first = self.begun.front().map(|&(begun, ..)| begun.after(time));
        first.into_iter().chain(self.failures.next_report()).min()
    }

    /// Whether another one may begin now. If there are too many, the oldest is given up for it,
    /// unless that has begun just now.
    pub(super) fn make_room(&mut self, now: Mono) -> bool {
        if self.is_full() {
            self.give_up_first(HANDSHAKE_TIME_MIN, "others waited for its place", now);
        }
        !self.is_full()
    }

    /// Advances as many as a pass permits. Returns those that are complete, and how many have
    /// failed since the last time.
    pub(super) fn advance(&mut self, now: Mono) -> (Vec<Secured>, u64) {
        let (mut complete, mut steps) = (Vec::new(), 0);
        for _ in 0..HANDSHAKE_LOOKS_PER_PASS {
            if steps >= HANDSHAKE_STEPS_PER_PASS {
                break;
            }
            let Some(place) = self.ready.pop_front() else { break };
            let handshake = &mut self.pending[place];
            handshake.queued = false;
            let tls = &mut handshake.connection.tls;
            let before = tls.received();
            let outcome = tls.handshake();
            steps += usize::from(tls.received() > before);
            match outcome {
                Ok(false) => {}
                Ok(true) => complete.push(self.pending.remove(place).connection),
                Err(why) => self.fail(place, &why),
            }
        }
        for _ in 0..HANDSHAKE_LOOKS_PER_PASS {
            if !self.give_up_first(HANDSHAKE_TIMEOUT, "it did not end in time", now) {
                break;
            }
        }
        self.log(now);
        (complete, std::mem::take(&mut self.failed))
    }

    /// Gives the oldest one up if it has had this time. Says whether there was one.
    fn give_up_first(&mut self, time: Duration, why: &str, now: Mono) -> bool {
        while let Some(&(begun, place, serial)) = self.begun.front() {
            let is_pending =
                self.pending.get(place).is_some_and(|handshake| handshake.serial == serial);
            if is_pending && begun.after(time) > now {
                return false;
            }
            self.begun.pop_front();
            if is_pending {
                self.fail(place, why);
                return true;
            }
        }
        false
    }

    fn fail(&mut self, place: usize, why: &str) {
        let handshake = self.pending.remove(place);
        if handshake.queued {
            self.ready.retain(|&other| other != place);
        }
        let Secured { protocol, peer, .. } = handshake.connection;
        debug!(protocol = protocol.name(), %peer, why, "a TLS handshake has failed");
        self.failed += 1;
        self.failures.count();
        self.last_failure = format!("{peer} ({}): {why}", protocol.name());
    }

    fn log(&mut self, now: Mono) {
        if let Some(failures) = self.failures.take_report(now) {
            let last = &self.last_failure;
            warn!(failures, last, "clients have failed to begin TLS: they were closed");
        }
    }

    /// Closes all of them.
    pub(super) fn clear(&mut self) {
        self.pending.clear();
        self.ready.clear();
        self.begun.clear();
    }
}

impl<C: Core> Reactor<C> {
    /// Sets how many TLS handshakes of clients may be under way, at most [`HANDSHAKES_MAX`], which
    /// is the default.
    pub fn set_handshakes_max(&mut self, max: usize) {
        self.handshakes.max = max.clamp(1, HANDSHAKES_MAX);
    }

    /// Begins TLS on an accepted connection.
    pub(super) fn begin_handshake(&mut self, stream: TcpStream, peer: Peer, protocol: Protocol) {
        let Some(tls) = &self.server_tls else {
            return debug!("a TLS listener has no certificate: closed");
        };
        let tls = match Tls::accept(stream, tls.config()) {
            Ok(tls) => tls,
            Err(why) => return warn!(why, "TLS cannot begin: closed"),
        };
        let connection = Secured { tls, protocol, peer, hung_up: false };
        let begun = self.handshakes.begin(connection, self.poll.registry(), self.now.mono);
        if let Err(error) = begun {
            warn!(%error, "cannot watch a new connection: closed");
        }
    }

    /// Advances handshakes; the core hears of the connections whose handshakes are complete.
    pub(super) fn advance_handshakes(&mut self) {
        let (complete, failed) = self.handshakes.advance(self.now.mono);
        if !complete.is_empty() || failed > 0 {
            self.core.record_handshakes(complete.len() as u64, failed);
        }
        for Secured { tls, protocol, mut peer, hung_up } in complete {
            peer.names = tls.peer_certificate().map(names).unwrap_or_default();
            let Some(client) = self.open(Stream::Tls(tls), peer, protocol) else { continue };
            let Some(socket) = self.sockets.get_mut(client) else { continue };
            // What has come with the handshake has no event of its own.
            socket.readable = true;
            socket.hung_up = hung_up;
            if hung_up {
                self.transfers.hung_up.push_back(client);
            }
            self.enqueue(client);
        }
    }
}

//! Forwarding: a server that waits to lead passes the connections of its clients on to the leader.
//!
//! Each connection is paired with one to the leader's listener of the same kind, and bytes are
//! copied both ways ([`pair`]); [`dials`] makes the connections to the leader. What is served here
//! nevertheless is decided by the first bytes of a connection, which are looked at and left where
//! they are ([`arrivals`]).
//!
//! While no leader is known, connections stay in the backlogs of their listeners. One that is
//! accepted and cannot be passed on yet waits for the patience of the settings. Then it is refused:
//! the core tells the client why, unless TLS would have to be begun for that. If this server begins
//! to lead meanwhile, it serves those that wait.
//!
//! Invariants: a connection is in `ready` at most once; it has at most one deadline; nothing is
//! read of a client before it is paired, so that any server can serve it until then.

mod arrivals;
mod dials;
mod former_leader;
mod loops;
mod pair;

use super::dialer::Dialer;
use super::loop_waker::LoopWaker;
use super::socket;
use crate::base::limits::{
    FORWARD_BYTES_PER_PASS, FORWARD_NOTICE_INTERVAL, FORWARD_STEPS_PER_PASS, FORWARDS_MAX,
    LINGER_IDLE_TIMEOUT, LINGER_MAX,
};
use crate::base::rate_limited_counter::RateLimitedCounter;
use crate::base::time::Mono;
use crate::base::timer_queue::{TimerId, TimerQueue};
use crate::model::driver::Protocol;
use crate::model::forward::ForwardStats;
use crate::model::id::ClientId;
use crate::model::peer::Peer;
pub(super) use arrivals::Arrival;
use dials::Dials;
pub use dials::Leader;
use former_leader::FormerLeader;
use loops::Ends;
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Registry, Token};
use pair::{End, Flows, Next};
use slab::Slab;
use socket2::SockRef;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;
use tracing::{debug, warn};

/// How connections are forwarded.
#[derive(Clone, Copy, Debug)]
pub struct Forwarding {
    /// For how long one waits that cannot be passed on.
    pub patience: Duration,
    /// How many there may be at a time.
    pub max: usize,
    /// Whether this server serves a connection of a protocol that begins with these bytes. `None`:
    /// it takes more bytes to say. It has to say no to the first bytes of a protocol that is
    /// forwarded as it is, however few they are. TLS is not asked about, and forwarded.
    pub serves: fn(Protocol, &[u8]) -> Option<bool>,
}

/// The ids under which the sockets of forwarded connections are registered: no client of the core
/// has this generation and an index from here on.
const GENERATION: u32 = u32::MAX;
const FIRST_INDEX: u32 = u32::MAX - 4096 - 2 * FORWARDS_MAX;

const _: () = assert!(FORWARDS_MAX < 1 << 24, "the ids are below those of listeners");

/// A side of a forwarded connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Leader,
}

#[expect(clippy::cast_possible_truncation, reason = "there are at most FORWARDS_MAX places")]
fn id(place: usize, side: Side) -> ClientId {
    ClientId { index: FIRST_INDEX + 2 * place as u32 + side as u32, generation: GENERATION }
}

/// The place and side of a forwarded connection with this token, if it is one.
pub(super) fn place(token: Token) -> Option<(usize, Side)> {
    let ClientId { index, generation } = socket::client(token);
    if generation != GENERATION {
        return None;
    }
    let number = index.checked_sub(FIRST_INDEX)?;
    let side = if number.is_multiple_of(2) { Side::Client } else { Side::Leader };
    (number < 2 * FORWARDS_MAX).then_some((number as usize / 2, side))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its first bytes are waited for, to decide whether it is served here.
    Looking,
    /// It waits for a connection to the leader.
    Waiting,
    /// That is being made.
    Dialling,
    /// Bytes are copied.
    Paired,
}

#[derive(Debug)]
struct Forward {
    client: End<TcpStream>,
    leader: Option<End<TcpStream>>,
    flows: Flows,
    peer: Peer,
    client_ends: Option<Ends>,
    leader_ends: Option<Ends>,
    protocol: Protocol,
    is_tls: bool,
    stage: Stage,
    timer: TimerId,
    /// Until when it waits for the leader.
    gives_up_at: Mono,
    /// It is in `ready`.
    queued: bool,
    /// That of the leader to which it was dialled last.
    term: u32,
}

/// All forwarded connections.
#[derive(Debug)]
pub(super) struct Forwarder {
    /// `None`: connections are served here.
    settings: Option<Forwarding>,
    forwards: Slab<Forward>,
    dials: Dials,
    former: FormerLeader,
    /// Connections that may have something to do.
    ready: VecDeque<usize>,
    deadlines: TimerQueue<usize>,
    /// Connections that are to be served here.
    served: Vec<Arrival>,
    /// Those that are to be told why they are not passed on.
    refused: Vec<(Arrival, String)>,
    stats: ForwardStats,
    refusals: RateLimitedCounter,
    /// Why the last one was refused.
    last_refusal: String,
}

impl pair::Stream for TcpStream {
    fn end_output(&mut self) -> io::Result<()> {
        socket::shut_down(self)
    }
}

impl End<TcpStream> {
    fn note(&mut self, event: &Event) {
        self.hung_up |= event.is_read_closed() || event.is_error();
        self.readable |= event.is_readable() || self.hung_up;
        self.writable |= event.is_writable() || event.is_error();
    }

    /// Its peer gets a reset in place of an end.
    fn reset(&self) {
        // If it fails its peer sees an end.
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }
}

impl Forwarder {
    pub(super) fn new(wake: LoopWaker) -> Self {
        Self {
            settings: None,
            forwards: Slab::new(),
            dials: Dials::new(Dialer::new(wake)),
            former: FormerLeader::default(),
            ready: VecDeque::new(),
            deadlines: TimerQueue::default(),
            served: Vec::new(),
            refused: Vec::new(),
            stats: ForwardStats::default(),
            refusals: RateLimitedCounter::new(FORWARD_NOTICE_INTERVAL),
            last_refusal: String::new(),
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.settings.is_some()
    }

    pub(super) fn stats(&self) -> ForwardStats {
        self.stats
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.forwards.len()
    }

    /// Whether no leader was known for so long that clients are turned away.
    fn has_given_up(&self, now: Mono) -> bool {
        self.dials.misses_leader_since().is_some_and(|since| now >= since.after(self.patience()))
    }

    fn patience(&self) -> Duration {
        self.settings.as_ref().map(|settings| settings.patience).unwrap_or_default()
    }

    pub(super) fn on_event(&mut self, place: usize, side: Side, event: &Event) {
        let Some(forward) = self.forwards.get_mut(place) else { return };
        match (side, &mut forward.leader) {
            (Side::Client, _) => forward.client.note(event),
            (Side::Leader, Some(leader)) => leader.note(event),
            (Side::Leader, None) => self.dials.dialer.on_event(id(place, Side::Leader), event),
        }
        self.queue(place);
    }

    fn queue(&mut self, place: usize) {
        if let Some(forward) = self.forwards.get_mut(place)
            && !std::mem::replace(&mut forward.queued, true)
        {
            self.ready.push_back(place);
        }
    }

    /// Gives a connection a deadline, in place of the one that it has.
    fn arm(&mut self, place: usize, at: Mono) {
        let Some(forward) = self.forwards.get_mut(place) else { return };
        if !forward.timer.is_none() {
            self.deadlines.cancel(forward.timer);
        }
        forward.timer = self.deadlines.arm(at, place);
    }

    fn disarm(&mut self, place: usize) {
        let Some(forward) = self.forwards.get_mut(place) else { return };
        let timer = std::mem::take(&mut forward.timer);
        if !timer.is_none() {
            self.deadlines.cancel(timer);
        }
    }

    /// Whether there is something to do without another event.
    pub(super) fn has_ready(&self, now: Mono) -> bool {
        !self.ready.is_empty() || self.former.is_due() || self.dials.is_due(now)
    }

    /// When something is due next.
    pub(super) fn next(&self, now: Mono) -> Option<Mono> {
        let given_up = self.dials.misses_leader_since().map(|since| since.after(self.patience()));
        let given_up = given_up.filter(|&at| self.is_on() && at > now);
        let own = [self.deadlines.next(), self.dials.retries_at(), given_up];
        own.into_iter().chain([self.refusals.next_report()]).flatten().min()
    }

    /// Moves on whatever can be moved on in a pass.
    pub(super) fn advance(&mut self, registry: &Registry, scratch: &mut [u8], now: Mono) {
        self.expire(registry, now);
        self.end_former();
        self.begin_dials(registry, now);
        self.finish_dials(registry, now);
        let mut bytes = 0;
        for _ in 0..self.ready.len().min(FORWARD_STEPS_PER_PASS) {
            let Some(place) = self.ready.pop_front() else { break };
            bytes += self.step(place, registry, scratch, now);
            if bytes >= FORWARD_BYTES_PER_PASS {
                break;
            }
        }
        if let Some(connections) = self.refusals.take_report(now) {
            let last = &self.last_refusal;
            warn!(connections, last, "clients were not passed on to the leader: they were refused");
        }
    }

    /// What is due at its deadline. A bounded number: the others are due at once.
    fn expire(&mut self, registry: &Registry, now: Mono) {
        for _ in 0..FORWARD_STEPS_PER_PASS {
            let Some((_, place)) = self.deadlines.pop_due(now) else { return };
            let Some(forward) = self.forwards.get_mut(place) else { continue };
            forward.timer = TimerId::NONE;
            match forward.stage {
                // The leader knows how long it waits for a request.
                Stage::Looking => self.wait_for_leader(place, registry, now),
                Stage::Dialling if now < forward.gives_up_at => self.late_dial(place, now),
                Stage::Waiting | Stage::Dialling => {
                    let why = self.dials.why();
                    self.refuse(place, &why, registry);
                }
                // The client has its last answer, and had the time to end.
                Stage::Paired => self.remove(place),
            }
        }
    }

    /// One step of one connection. Returns the bytes copied.
    fn step(&mut self, place: usize, registry: &Registry, scratch: &mut [u8], now: Mono) -> usize {
        let Some(forward) = self.forwards.get_mut(place) else { return 0 };
        forward.queued = false;
        match (&mut forward.leader, forward.stage) {
            (_, Stage::Looking) => self.look(place, registry, scratch, now),
            (Some(leader), _) => {
                let before = forward.flows.bytes();
                let next = forward.flows.advance(&mut forward.client, leader, scratch);
                let after = forward.flows.bytes();
                let copied = (after.0 - before.0, after.1 - before.1);
                self.stats.bytes_to_leader += copied.0;
                self.stats.bytes_to_client += copied.1;
                self.follow(place, next, now);
                return usize::try_from(copied.0 + copied.1).unwrap_or(usize::MAX);
            }
            (None, _) if !matches!(forward.client.stream.take_error(), Ok(None)) => {
                debug!(peer = %forward.peer, "a client was lost before it was passed on");
                self.remove(place);
            }
            (None, _) => {}
        }
        0
    }

    fn follow(&mut self, place: usize, next: Next, now: Mono) {
        let Some(forward) = self.forwards.get_mut(place) else { return };
        match (next, &forward.leader) {
            (Next::IsDue, _) => self.queue(place),
            (Next::Waits, _) => {}
            (Next::ResetLeader, Some(leader)) => {
                leader.reset();
                return self.remove(place);
            }
            (Next::ResetClient, _) => {
                forward.client.reset();
                return self.remove(place);
            }
            (Next::Ended | Next::ResetLeader, _) => return self.remove(place),
        }
        if let Some(forward) = self.forwards.get_mut(place)
            && forward.flows.is_answered()
        {
            // Only the client can go on: it has the time that a closed one has.
            if forward.timer.is_none() {
                forward.gives_up_at = now.after(LINGER_MAX);
            }
            let until = forward.gives_up_at.min(now.after(LINGER_IDLE_TIMEOUT));
            self.arm(place, until);
        }
    }

    /// Closes both sides of a connection.
    fn remove(&mut self, place: usize) {
        self.disarm(place);
        if !self.forwards.contains(place) {
            return;
        }
        let forward = self.forwards.remove(place);
        self.dials.loops.forget(Side::Client, forward.client_ends);
        match (forward.stage, &forward.leader) {
            (Stage::Dialling, _) => self.dials.cancel(place),
            (_, Some(_)) => {
                self.dials.loops.forget(Side::Leader, forward.leader_ends);
                self.stats.open -= 1;
            }
            _ => {}
        }
    }

    /// Ends those that are not paired; the others are read once more, and wait for their answers.
    pub(super) fn stop(&mut self) {
        let places: Vec<usize> = self.forwards.iter().map(|(place, _)| place).collect();
        for place in places {
            match self.forwards.get_mut(place) {
                Some(Forward { stage: Stage::Paired, client, flows, .. }) => {
                    flows.stop(client);
                    self.queue(place);
                }
                _ => self.remove(place),
            }
        }
    }
}

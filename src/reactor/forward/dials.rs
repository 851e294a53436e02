//! Connections to the leader: to which listener of it, when they are made, and what becomes of
//! clients for which none can be made.
//!
//! A leader that cannot be reached is dialled again by one connection at a time, after pauses that
//! double; the others wait. So it is with an address that leads back to this server, as a loopback
//! address of another machine does: it is found when both ends of a connection are here (`loops`).

use super::loops::{Loops, ends};
use super::pair::End;
use super::{Forwarder, Side, Stage, id, place};
use crate::base::limits::{
    DIALS_PER_PASS, FORWARD_CONNECT_TIMEOUT, FORWARD_RETRY_MAX, FORWARD_RETRY_MIN,
};
use crate::base::time::Mono;
use crate::model::driver::Target;
use crate::reactor::dialer::Dialer;
use crate::reactor::socket::{self, Socket};
use mio::Registry;
use mio::net::TcpStream;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Why a leader cannot be reached where this server itself listens.
const COMES_BACK: &str = "the address of the leader's listener leads back to this server: after \
                          a restart it is this server's former life, whose lease is not over; if \
                          that lasts, give the leader another --advertise, or listeners at \
                          addresses that other machines reach";

const NO_LISTENER: &str = "the leader has no listener for this protocol, with TLS or without as \
                           here, for the same user, and with users or certificates of clients as \
                           here";

/// A server that leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Its name, for people.
    pub name: Box<str>,
    /// For each listener here, in their order, that of the leader which takes its connections.
    pub targets: Vec<Option<Arc<Target>>>,
}

/// The leader cannot be reached.
#[derive(Debug)]
struct Down {
    /// When it is dialled again.
    retry_at: Mono,
    pause: Duration,
    why: Box<str>,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Dials {
    pub(super) dialer: Dialer,
    leader: Option<Leader>,
    missing_since: Option<Mono>,
    /// Connections of clients to be passed on, in their order. One that does not wait any more is
    /// passed over.
    line: VecDeque<usize>,
    /// Dials that are under way.
    dialling: usize,
    down: Option<Down>,
    /// A host name of the leader, and the address at which it was reached.
    found: Option<(Box<str>, IpAddr)>,
    pub(super) loops: Loops,
}

impl Dials {
    pub(super) fn new(dialer: Dialer) -> Self {
        Self {
            dialer,
            leader: None,
            missing_since: None,
            line: VecDeque::new(),
            dialling: 0,
            down: None,
            found: None,
            loops: Loops::default(),
        }
    }

    pub(super) fn has_leader(&self) -> bool {
        self.leader.is_some()
    }

    /// Since when it is waited for a leader to be known, if none is.
    pub(super) fn misses_leader_since(&self) -> Option<Mono> {
        self.missing_since
    }

    pub(super) fn miss_leader(&mut self, now: Mono) {
        self.leader = None;
        self.missing_since = Some(now);
    }

    /// Returns whether it is another one than before.
    fn set_leader(&mut self, leader: Leader) -> bool {
        if self.leader.as_ref() == Some(&leader) {
            return false;
        }
        self.leader = Some(leader);
        self.missing_since = None;
        self.down = None;
        self.found = None;
        true
    }

    /// Puts a connection behind the others that are to be passed on.
    pub(super) fn line_up(&mut self, place: usize) {
        self.line.push_back(place);
    }

    /// Whether a dial may begin now.
    fn may_dial(&self, now: Mono) -> bool {
        let is_time = |down: &Down| self.dialling == 0 && now >= down.retry_at;
        self.leader.is_some() && self.down.as_ref().is_none_or(is_time)
    }

    pub(super) fn is_due(&self, now: Mono) -> bool {
        self.dialer.has_ready() || (!self.line.is_empty() && self.may_dial(now))
    }

    /// When the leader is dialled again.
    pub(super) fn retries_at(&self) -> Option<Mono> {
        let waits = self.dialling == 0 && !self.line.is_empty() && self.leader.is_some();
        self.down.as_ref().filter(|_| waits).map(|down| down.retry_at)
    }

    /// Where the connections of a listener go.
    fn target(&self, listener: u32) -> Result<Arc<Target>, &'static str> {
        let leader = self.leader.as_ref();
        let target = leader.and_then(|leader| leader.targets.get(listener as usize)?.as_ref());
        let target = target.ok_or(NO_LISTENER)?;
        Ok(match &self.found {
            // The name is not looked up for each connection.
            Some((host, address)) if *host == target.host => {
                Arc::new(Target { host: address.to_string().into(), ..(**target).clone() })
            }
            _ => Arc::clone(target),
        })
    }

    fn begin(&mut self, place: usize, target: Arc<Target>) {
        self.dialling += 1;
        self.dialer.begin(id(place, Side::Leader), target);
    }

    /// Stops a dial.
    pub(super) fn cancel(&mut self, place: usize) {
        self.dialling -= 1;
        self.dialer.cancel(id(place, Side::Leader));
    }

    /// A dial has succeeded: the leader is there.
    fn succeed(&mut self, listener: u32, stream: &TcpStream) {
        self.down = None;
        let leader = self.leader.as_ref();
        let target = leader.and_then(|leader| leader.targets.get(listener as usize)?.as_ref());
        if self.found.is_none()
            && let (Some(target), Ok(peer)) = (target, stream.peer_addr())
            && target.host.parse::<IpAddr>().is_err()
        {
            self.found = Some((target.host.clone(), peer.ip()));
        }
    }

    /// A dial has failed: the next one comes after a pause.
    fn fail(&mut self, why: &str, now: Mono) {
        self.found = None;
        let (pause, retry_at) = match &self.down {
            // Several have failed together.
            Some(down) if now < down.retry_at => (down.pause, down.retry_at),
            Some(down) => {
                let pause = (down.pause * 2).min(FORWARD_RETRY_MAX);
                (pause, now.after(pause))
            }
            None => (FORWARD_RETRY_MIN, now.after(FORWARD_RETRY_MIN)),
        };
        self.down = Some(Down { retry_at, pause, why: why.into() });
    }

    /// Why those that wait are not passed on: a phrase.
    pub(super) fn why(&self) -> String {
        match (&self.leader, &self.down) {
            (None, _) => "no server leads".to_owned(),
            (Some(Leader { name, .. }), Some(Down { why, .. })) => {
                format!("the leader ({name}) cannot be reached: {why}")
            }
            (Some(Leader { name, .. }), None) => {
                format!("the leader ({name}) cannot be reached in time")
            }
        }
    }
}

impl Forwarder {
    /// See [`Reactor::set_leader`](crate::reactor::Reactor::set_leader). O(1).
    pub(in crate::reactor) fn set_leader(&mut self, leader: Leader) {
        if self.dials.set_leader(leader) {
            self.begin_term();
        }
    }

    /// Lets a connection wait until it can be passed on, for the patience of the settings.
    pub(super) fn wait_for_leader(&mut self, place: usize, registry: &Registry, now: Mono) {
        if !self.dials.has_leader() && self.has_given_up(now) {
            let why = self.dials.why();
            return self.refuse(place, &why, registry);
        }
        let gives_up_at = now.after(self.patience());
        if let Some(forward) = self.forwards.get_mut(place) {
            forward.stage = Stage::Waiting;
            forward.gives_up_at = gives_up_at;
            self.dials.line_up(place);
            self.arm(place, gives_up_at);
        }
    }

    /// Lets one wait whose dial has ended, before those that have come later.
    pub(super) fn wait_again(&mut self, place: usize) {
        let Some(forward) = self.forwards.get_mut(place) else { return };
        forward.stage = Stage::Waiting;
        let gives_up_at = forward.gives_up_at;
        self.dials.line.push_front(place);
        self.arm(place, gives_up_at);
    }

    /// Begins as many dials as a pass permits.
    pub(super) fn begin_dials(&mut self, registry: &Registry, now: Mono) {
        for _ in 0..DIALS_PER_PASS {
            if !self.dials.may_dial(now) {
                break;
            }
            let Some(place) = self.dials.line.pop_front() else { break };
            let Some(forward) = self.forwards.get_mut(place) else { continue };
            if forward.stage != Stage::Waiting {
                continue;
            }
            match self.dials.target(forward.peer.listener) {
                Err(why) => self.refuse(place, why, registry),
                Ok(target) => {
                    forward.stage = Stage::Dialling;
                    forward.term = self.former.term;
                    let until = forward.gives_up_at.min(now.after(FORWARD_CONNECT_TIMEOUT));
                    self.dials.begin(place, target);
                    self.arm(place, until);
                }
            }
        }
        self.forget_gone();
    }

    /// Drops from the line those that were closed while they waited: they are its oldest.
    fn forget_gone(&mut self) {
        while let Some(&place) = self.dials.line.front()
            && self.forwards.get(place).is_none_or(|forward| forward.stage != Stage::Waiting)
        {
            self.dials.line.pop_front();
        }
    }

    /// Advances dials, and pairs connections.
    pub(super) fn finish_dials(&mut self, registry: &Registry, now: Mono) {
        self.dials.dialer.begin_pass();
        while let Some((client, outcome)) = self.dials.dialer.poll(registry) {
            let Some((place, _)) = place(socket::token(client)) else { continue };
            let Some(forward) = self.forwards.get_mut(place) else { continue };
            debug_assert_eq!(forward.stage, Stage::Dialling, "a dial has ended twice");
            self.dials.dialling -= 1;
            match outcome {
                // It says nothing about the leader of now.
                _ if self.is_former(place) => self.wait_again(place),
                Ok(socket) => self.connected(place, socket, now),
                Err(why) => {
                    self.dials.fail(&why.to_string(), now);
                    self.wait_again(place);
                }
            }
        }
    }

    /// A dial takes too long.
    pub(super) fn late_dial(&mut self, place: usize, now: Mono) {
        self.dials.cancel(place);
        if self.is_former(place) {
            return self.wait_again(place);
        }
        let seconds = FORWARD_CONNECT_TIMEOUT.as_secs();
        self.dials.fail(&format!("no connection within {seconds} s"), now);
        self.wait_again(place);
    }

    fn connected(&mut self, place: usize, socket: Socket, now: Mono) {
        let Some(forward) = self.forwards.get_mut(place) else { return };
        // Until it is paired.
        forward.stage = Stage::Waiting;
        let hung_up = socket.hung_up;
        let Some(stream) = socket.stream.into_socket() else { return self.remove(place) };
        let leader_ends = ends(&stream, Side::Leader);
        if let Some(own) = self.dials.loops.dial(leader_ends) {
            self.remove(own);
            self.dials.fail(COMES_BACK, now);
            return self.wait_again(place);
        }
        self.dials.succeed(forward.peer.listener, &stream);
        let mut leader = End::new(stream, true);
        leader.hung_up = hung_up;
        forward.leader_ends = leader_ends;
        forward.leader = Some(leader);
        forward.stage = Stage::Paired;
        self.stats.open += 1;
        self.stats.begun += 1;
        self.disarm(place);
        self.queue(place);
    }
}

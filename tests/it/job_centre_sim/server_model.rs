//! The oracle's server: for each client what it has sent, what it is doing and what it must get.
//!
//! It gets the same input as the real server, in the same order, and knows the meaning of every
//! line from the generator, so it parses nothing. The order of service follows `src/server`: input
//! is handled when it is handed over; a client that cannot be served then (it waits, or too much is
//! unsent) is resumed at the end of the pass, first come, first served.

use super::client::{Client, State, Taken, Wishes};
use super::generator::QUEUES;
use crate::oracle::Oracle;
use crate::oracle::types::{Answer, Replies};
use crate::oracle::wire::{self, OPEN_POP, Request};
use jobcentre::base::limits::{
    FLUSH_TIMEOUT, OUTPUT_HIGH_WATER_BYTES, REJECTED_LINGER_TIMEOUT, REJECTION_NOTICE_INTERVAL,
    STALLED_INPUT_MAX_BYTES,
};
use jobcentre::base::rate_limited_counter::RateLimitedCounter;
use jobcentre::base::time::{Mono, Now};
use jobcentre::model::driver::{Action, Protocol};
use jobcentre::model::id::ClientId;
use jobcentre::model::reply::Rejection;
use std::collections::{BTreeMap, VecDeque};

/// All clients over the naive store.
pub(super) struct Model {
    pub(super) store: Oracle,
    pub(super) clients: BTreeMap<ClientId, Client>,
    pub(super) actions: Vec<Action>,
    max_request: usize,
    too_long: Vec<u8>,
    resumed: VecDeque<ClientId>,
    /// Clients that may want another packet now that they have got one.
    owing: VecDeque<ClientId>,
    /// Clients that got an answer after their end had begun.
    unsettled: usize,
    armed: usize,
    /// Clients that came while there was no place; the log names them now and then.
    pub(super) rejections: RateLimitedCounter,
}

impl Model {
    pub(super) fn new(max_request: usize, too_long: Vec<u8>) -> Self {
        Self {
            store: Oracle::new(&QUEUES.map(|name| name.bytes.as_bytes())),
            clients: BTreeMap::new(),
            actions: Vec::new(),
            max_request,
            too_long,
            resumed: VecDeque::new(),
            owing: VecDeque::new(),
            unsettled: 0,
            armed: 0,
            rejections: RateLimitedCounter::new(REJECTION_NOTICE_INTERVAL),
        }
    }

    fn see(&mut self, what: &'static str) {
        self.store.see(what);
    }

    /// Opens a client; `refused` is what one that there is no place for is told.
    pub(super) fn open(
        &mut self,
        id: ClientId,
        protocol: Protocol,
        refused: Option<Vec<u8>>,
        now: Now,
    ) {
        let client = match refused {
            None => Client::new(State::Open, protocol, Vec::new()),
            Some(rejection) => Client::new(State::Refused, protocol, rejection),
        };
        let before = self.clients.insert(id, client);
        assert!(before.is_none(), "two clients have one id");
        self.settle(id, now);
    }

    /// Whether this client speaks packets.
    pub(super) fn speaks_packets(&self, id: ClientId) -> bool {
        self.clients[&id].wishes.is_some()
    }

    /// The client is going to send this.
    pub(super) fn write(&mut self, id: ClientId, line: Vec<u8>, request: Request) {
        self.clients.get_mut(&id).unwrap().lines.push_back((line, request));
    }

    pub(super) fn served(&self) -> usize {
        self.clients.values().filter(|client| client.state != State::Refused).count()
    }

    pub(super) fn refused(&self) -> usize {
        self.clients.len() - self.served()
    }

    pub(super) fn wants_input(&self, id: ClientId) -> bool {
        let Some(client) = self.clients.get(&id) else { return false };
        let served = client.state != State::Waiting && !client.stalled;
        !client.eof
            && client.output.len() <= OUTPUT_HIGH_WATER_BYTES
            && (served || client.handed < STALLED_INPUT_MAX_BYTES)
    }

    pub(super) fn poll_timeout(&self, now: Now) -> Option<Mono> {
        let lives = |id: &ClientId| self.clients.contains_key(id);
        if self.resumed.iter().any(lives) || self.unsettled > 0 {
            return Some(now.mono);
        }
        let patience = self.clients.values().filter_map(|client| Some(client.deadline?.0)).min();
        let report = self.rejections.next_report();
        [patience, self.store.timeout().0, report].into_iter().flatten().min()
    }

    pub(super) fn input(&mut self, id: ClientId, count: usize, now: Now) {
        let client = self.clients.get_mut(&id).unwrap();
        client.handed += count;
        let much = client.handed >= STALLED_INPUT_MAX_BYTES;
        if client.stalled && much {
            self.see("much input waits");
        } else if !client.stalled {
            self.serve(id, now);
        }
        let client = &self.clients[&id];
        if client.peer_closed || client.is_over() {
            self.settle(id, now);
        }
    }

    pub(super) fn peer_closed(&mut self, id: ClientId, now: Now) {
        self.clients.get_mut(&id).unwrap().peer_closed = true;
        self.settle(id, now);
    }

    pub(super) fn eof(&mut self, id: ClientId, now: Now) {
        let client = self.clients.get_mut(&id).unwrap();
        (client.peer_closed, client.eof) = (true, true);
        self.settle(id, now);
    }

    pub(super) fn sent(&mut self, id: ClientId, count: usize, now: Now) {
        let client = self.clients.get_mut(&id).unwrap();
        let was_above = client.output.len() > OUTPUT_HIGH_WATER_BYTES;
        client.output.drain(..count);
        if was_above && client.output.len() <= OUTPUT_HIGH_WATER_BYTES {
            if !client.peer_closed && self.owes(id) {
                self.see("a delivery was put off");
                self.go_on(id);
            }
            self.resume(id);
        }
        let client = self.clients.get_mut(&id).unwrap();
        if client.peer_closed || client.is_over() {
            if count > 0 {
                client.deadline = None;
            }
            self.settle(id, now);
        }
    }

    pub(super) fn broken(&mut self, id: ClientId, now: Now) {
        self.see("a connection broke");
        let client = self.clients.get_mut(&id).unwrap();
        (client.broken, client.peer_closed) = (true, true);
        client.output.clear();
        self.resume(id);
        self.settle(id, now);
    }

    pub(super) fn reset(&mut self, id: ClientId, now: Now) {
        self.see("a connection was reset");
        self.end(id, false, now);
    }

    pub(super) fn stop(&mut self, now: Now) {
        for id in self.clients.keys().copied().collect::<Vec<_>>() {
            self.peer_closed(id, now);
        }
    }

    /// `resumed`: how many connections the server has resumed; the others wait, in order.
    pub(super) fn finish_pass(&mut self, resumed: usize, now: Now) {
        loop {
            let armed =
                self.clients.iter().filter_map(|(&id, client)| Some((client.deadline?, id)));
            let Some((_, id)) = armed.filter(|((at, _), _)| *at <= now.mono).min() else { break };
            self.see("patience came to an end");
            self.end(id, true, now);
        }
        self.store.now = now;
        let said = self.store.run(Oracle::expire);
        assert!(said.is_empty(), "no request of these protocols has a deadline");
        self.rejections.take_report(now.mono);
        assert!(resumed > 0 || self.resumed.is_empty(), "no connection was resumed");
        for _ in 0..resumed {
            let id = self.resumed.pop_front().unwrap();
            if let Some(client) = self.clients.get_mut(&id) {
                (client.resumed, client.stalled) = (false, false);
                self.serve(id, now);
                self.settle(id, now);
            }
        }
        self.unsettled = 0;
    }

    /// Serves what has been handed over, as far as it goes.
    fn serve(&mut self, id: ClientId, now: Now) {
        let stopped = loop {
            let client = self.clients.get_mut(&id).unwrap();
            if client.output.len() > OUTPUT_HIGH_WATER_BYTES || client.state == State::Waiting {
                if client.state == State::Open {
                    self.see("too much was unsent");
                }
                if self.stands(id) {
                    self.see("a standing take was called off");
                    wire::stop_waiting(&mut self.store, id);
                }
                break true;
            }
            if client.state != State::Open {
                client.handed = 0;
                break false;
            }
            if self.owes(id) {
                self.stand(id, Some(id), now);
                self.serve_owing(Some(id), now);
                continue;
            }
            let client = self.clients.get_mut(&id).unwrap();
            match client.take(self.max_request) {
                Taken::Nothing => break false,
                Taken::TooLong => {
                    client.send(&self.too_long);
                    self.see("a line was too long");
                }
                Taken::Request(request) => {
                    if matches!(request, Request::Get { wait: true, .. }) {
                        client.state = State::Waiting;
                    }
                    let replies = self.carry_out(id, &request, now);
                    self.note(&request, &replies);
                    if replies.iter().any(|(ticket, _)| ticket.client != id) {
                        self.see("a waiter was served");
                    }
                    self.deliver(replies, Some(id));
                    self.serve_owing(Some(id), now);
                }
            }
        };
        let client = self.clients.get_mut(&id).unwrap();
        client.stalled = stopped && client.handed > 0;
    }

    /// Counts what is worth it.
    fn note(&mut self, request: &Request, replies: &Replies) {
        match (request, replies.first().map(|(_, said)| said)) {
            (Request::Abort(_), Some(Answer::Done)) => self.see("abort: ok"),
            (Request::Abort(_), Some(Answer::Refused(Rejection::ReservedByAnother(_)))) => {
                self.see("abort: of another");
            }
            (Request::Abort(_), Some(Answer::Refused(_))) => self.see("abort: not held"),
            _ => {}
        }
    }

    fn carry_out(&mut self, id: ClientId, request: &Request, now: Now) -> Replies {
        self.store.now = now;
        let stands = self.stands(id);
        let client = self.clients.get_mut(&id).unwrap();
        if let Request::Bad(reply) = request {
            client.answer_line(reply);
            self.see("a reply");
            return Replies::new();
        }
        let Some(wishes) = &mut client.wishes else {
            return request.perform(&mut self.store, id);
        };
        let known = |queue| wishes.queues.iter().position(|&other| other == queue);
        match *request {
            Request::Subscribe(queue) if known(queue).is_none() => {
                wishes.queues.push(queue);
                if stands {
                    return wire::subscribe(&mut self.store, id, queue);
                }
            }
            Request::Unsubscribe(queue) => {
                if let Some(place) = known(queue) {
                    wishes.queues.remove(place);
                    if stands {
                        return wire::unsubscribe(&mut self.store, id, queue);
                    }
                }
            }
            Request::Subscribe(_) => {}
            Request::Ready => wishes.credits += 1,
            Request::Junk => {
                client.state = State::Failed;
                self.see("a byte began no request");
            }
            _ => return request.perform(&mut self.store, id),
        }
        Replies::new()
    }

    /// Whether a pop of this client waits in its subscribed queues.
    fn stands(&self, id: ClientId) -> bool {
        self.clients[&id].wishes.is_some() && self.store.waiting(id).is_some()
    }

    /// Whether such a pop is due.
    fn owes(&self, id: ClientId) -> bool {
        let client = &self.clients[&id];
        let wanted = |wishes: &Wishes| wishes.credits > 0 && !wishes.queues.is_empty();
        client.wishes.as_ref().is_some_and(wanted)
            && client.state == State::Open
            && !client.broken
            && !self.stands(id)
    }

    fn stand(&mut self, id: ClientId, running: Option<ClientId>, now: Now) {
        let wishes = self.clients[&id].wishes.as_ref().unwrap();
        self.store.now = now;
        let replies = wire::open_pop(&mut self.store, id, &wishes.queues);
        self.deliver(replies, running);
    }

    /// Clients that got a packet and have credits left are enqueued again, at once.
    fn serve_owing(&mut self, running: Option<ClientId>, now: Now) {
        while let Some(id) = self.owing.pop_front() {
            let Some(client) = self.clients.get(&id) else { continue };
            if !client.peer_closed
                && client.output.len() <= OUTPUT_HIGH_WATER_BYTES
                && self.owes(id)
            {
                self.stand(id, running, now);
            }
        }
    }

    /// Sends replies; `running` is the client that is being served.
    fn deliver(&mut self, replies: Replies, running: Option<ClientId>) {
        for (ticket, said) in replies {
            let id = ticket.client;
            let client = self.clients.get_mut(&id).unwrap();
            match &mut client.wishes {
                None => {
                    client.answer_line(&wire::line(&said, &QUEUES.map(|name| name.shown)));
                    self.see("a reply");
                }
                Some(wishes) => {
                    let Some(bytes) = wire::packets(&said) else { continue };
                    let delivery = ticket.serial == OPEN_POP;
                    wishes.credits -= usize::from(delivery);
                    client.send(&bytes);
                    self.see(if delivery { "a delivery" } else { "an answer to a pop" });
                }
            }
            if running != Some(id) {
                self.owing.push_back(id);
                self.resume(id);
                let client = &self.clients[&id];
                self.unsettled += usize::from(client.peer_closed || client.is_over());
            }
        }
    }

    /// Takes up what was left lying, now that it can be served.
    fn resume(&mut self, id: ClientId) {
        if self.clients[&id].stalled {
            self.go_on(id);
        }
    }

    fn go_on(&mut self, id: ClientId) {
        let client = self.clients.get_mut(&id).unwrap();
        if !client.resumed {
            client.resumed = true;
            self.resumed.push_back(id);
        }
    }

    /// What follows from the state of a client whose close has begun, or that is rejected.
    fn settle(&mut self, id: ClientId, now: Now) {
        let client = self.clients.get_mut(&id).unwrap();
        if client.peer_closed && client.state == State::Waiting {
            client.state = State::Ended;
            self.see("a wait was called off");
            wire::stop_waiting(&mut self.store, id);
            self.resume(id);
        }
        let client = &self.clients[&id];
        if (client.peer_closed || client.is_over()) && self.stands(id) {
            self.see("a subscription ended");
            wire::stop_waiting(&mut self.store, id);
            self.resume(id);
        }
        let client = self.clients.get_mut(&id).unwrap();
        if client.eof && !client.stalled {
            client.handed = 0;
            if client.output.is_empty() {
                return self.end(id, true, now);
            }
        }
        if client.deadline.is_some() {
            return;
        }
        if client.is_over() && client.output.is_empty() {
            client.deadline = Some((now.mono.after(REJECTED_LINGER_TIMEOUT), self.armed));
            self.armed += 1;
            self.actions.push(Action::ShutdownWrite(id));
            self.see("a rejected client got the reason");
        } else if !client.output.is_empty() && (client.peer_closed || client.is_over()) {
            client.deadline = Some((now.mono.after(FLUSH_TIMEOUT), self.armed));
            self.armed += 1;
        }
    }

    fn end(&mut self, id: ClientId, close: bool, now: Now) {
        self.clients.remove(&id).unwrap();
        if close {
            self.actions.push(Action::Close(id));
        }
        self.store.now = now;
        let replies = self.store.run(|store| store.forget(id));
        self.deliver(replies, None);
        self.serve_owing(None, now);
    }
}

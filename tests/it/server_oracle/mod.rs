//! The oracle's server: the order of service, and what every client must get.
//!
//! It gets the same input as the real server, in the same order, after it, and knows the meaning of
//! every byte from the generator. It takes the server's output off the clients' streams, reply by
//! reply. The order of service follows `src/server`: a client is served with its own input; what
//! had to stop (a wait, a search, a long reply, too much unsent output) is resumed at the end of
//! the pass, first come, first served.

mod access;
mod answers;
pub(crate) mod beanstalkd;
pub(crate) mod client;
mod deadlines;
mod denials;
mod http;
mod jobq;
mod pair;
mod searches;
pub(crate) mod types;
pub(crate) mod users;

pub(crate) use pair::Pair;

use crate::oracle::Oracle;
use crate::oracle::types::Replies;
use crate::oracle::wire::{self, OPEN_POP};
use crate::seeds;
use access::AccessModel;
use client::{Client, State, Taken};
use jobcentre::base::limits::{
    HTTP_READER_TIMEOUT, OUTPUT_HIGH_WATER_BYTES, REJECTED_LINGER_TIMEOUT,
    REJECTION_NOTICE_INTERVAL, STALLED_INPUT_MAX_BYTES,
};
use jobcentre::base::rate_limited_counter::RateLimitedCounter;
use jobcentre::base::time::Now;
use jobcentre::model::driver::{Action, Protocol};
use jobcentre::model::id::{ClientId, JobId};
use jobcentre::model::row::Row;
use searches::Search;
use std::collections::{BTreeMap, VecDeque};
use types::{HttpOptions, Name, Reply, Request};

/// All clients over the oracle's store.
pub(crate) struct ServerModel {
    pub(crate) store: Oracle,
    access: AccessModel,
    /// The names of the queues, in JSON.
    shown_names: Vec<&'static str>,
    /// The length of a line, and what is said to one that is longer.
    max_request: usize,
    too_long: Vec<u8>,
    pub(crate) clients: BTreeMap<ClientId, Client>,
    pub(crate) actions: Vec<Action>,
    now: Now,
    resumed: VecDeque<ClientId>,
    /// Clients that may want more packets now that they have got some.
    owing: VecDeque<ClientId>,
    /// Whether searches that have begun have ended.
    pub(crate) found: bool,
    /// Searches that wait for their turn.
    searches: Vec<Search>,
    came: i64,
    /// The search that has begun, and what it finds.
    searching: Option<(Search, Vec<Row>)>,
    armed: usize,
    /// Clients that got an answer after their end had begun.
    unsettled: usize,
    /// Clients that came while there was no place; the log names them now and then.
    pub(crate) rejections: RateLimitedCounter,
    /// What was deleted: by HTTP, or by a line.
    pub(crate) gone: BTreeMap<JobId, bool>,
}

impl ServerModel {
    pub(crate) fn new(names: &[Name], max_request: usize, too_long: Vec<u8>) -> Self {
        let bytes: Vec<&[u8]> = names.iter().map(|name| name.bytes.as_bytes()).collect();
        Self {
            store: Oracle::new(&bytes),
            access: AccessModel::default(),
            shown_names: names.iter().map(|name| name.shown).collect(),
            max_request,
            too_long,
            clients: BTreeMap::new(),
            actions: Vec::new(),
            now: Now::default(),
            resumed: VecDeque::new(),
            owing: VecDeque::new(),
            found: false,
            searches: Vec::new(),
            came: 0,
            searching: None,
            armed: 0,
            unsettled: 0,
            rejections: RateLimitedCounter::new(REJECTION_NOTICE_INTERVAL),
            gone: BTreeMap::new(),
        }
    }

    pub(crate) fn see(&mut self, what: &'static str) {
        self.store.see(what);
    }

    pub(crate) fn set_time(&mut self, now: Now) {
        (self.now, self.store.now) = (now, now);
    }

    pub(crate) fn client(&mut self, id: ClientId) -> &mut Client {
        self.clients.get_mut(&id).unwrap()
    }

    pub(crate) fn open(&mut self, id: ClientId, protocol: Protocol) {
        let before = self.clients.insert(id, Client::new(protocol, self.now.mono));
        assert!(before.is_none(), "two clients have one id");
        self.arm_check(id);
    }

    /// There is no place for this client, and it is told so.
    pub(crate) fn refuse(&mut self, id: ClientId, why: Vec<u8>) {
        let client = self.client(id);
        client.expect(&Reply::Bytes(why), HttpOptions::default());
        client.end();
        client.refused = true;
        self.settle(id);
    }

    /// How many clients there is a place for, and how many there is none for.
    pub(crate) fn served_and_refused(&self) -> (usize, usize) {
        let refused = self.clients.values().filter(|client| client.refused).count();
        (self.clients.len() - refused, refused)
    }

    /// The client is going to send this.
    pub(crate) fn write(&mut self, id: ClientId, bytes: Vec<u8>, request: Request) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.script.push_back((bytes, request));
        }
    }

    pub(crate) fn wants_input(&self, id: ClientId) -> bool {
        let Some(client) = self.clients.get(&id) else { return false };
        let served = !client.has_pending_reply() && !client.stalled;
        !client.eof
            && client.unsent <= OUTPUT_HIGH_WATER_BYTES
            && (served || client.handed < STALLED_INPUT_MAX_BYTES)
    }

    pub(crate) fn input(&mut self, id: ClientId, count: usize) {
        let client = self.client(id);
        client.handed += count;
        let much = client.handed >= STALLED_INPUT_MAX_BYTES;
        if client.stalled && much {
            self.see("much input waits");
        } else if !client.stalled {
            self.serve(id);
        }
        if self.client(id).is_leaving() {
            self.settle(id);
        }
    }

    pub(crate) fn peer_closed(&mut self, id: ClientId) {
        self.client(id).peer_closed = true;
        self.settle(id);
    }

    pub(crate) fn eof(&mut self, id: ClientId) {
        let client = self.client(id);
        (client.peer_closed, client.eof) = (true, true);
        self.settle(id);
    }

    pub(crate) fn stop(&mut self) {
        for id in self.clients.keys().copied().collect::<Vec<_>>() {
            self.peer_closed(id);
        }
    }

    pub(crate) fn sent(&mut self, id: ClientId, count: usize) {
        let client = self.client(id);
        let was_above = client.unsent > OUTPUT_HIGH_WATER_BYTES;
        client.unsent -= count;
        let writes = matches!(client.state, State::Writing(..)) || !client.unwritten.is_empty();
        let stalled = client.stalled;
        if was_above && client.unsent <= OUTPUT_HIGH_WATER_BYTES && (stalled || writes) {
            if !stalled {
                self.see("a long answer waited for its reader");
            }
            self.go_on(id);
        }
        let client = self.client(id);
        if was_above
            && client.unsent <= OUTPUT_HIGH_WATER_BYTES
            && !client.peer_closed
            && self.is_due_packets(id)
        {
            self.see("a delivery was put off");
            self.go_on(id);
        }
        let client = self.client(id);
        if client.is_leaving() {
            if count > 0 {
                client.deadline = None;
            }
            self.settle(id);
        }
    }

    pub(crate) fn broken(&mut self, id: ClientId) {
        self.see("a connection broke");
        let client = self.client(id);
        (client.broken, client.peer_closed, client.unsent) = (true, true, 0);
        client.fresh.clear();
        if client.has_begun_to_answer() {
            // The rest of it is never read.
            client.state = State::Ended;
            self.see("a long answer broke off");
        }
        self.resume(id);
        self.write_on(id);
        self.settle(id);
    }

    pub(crate) fn reset(&mut self, id: ClientId) {
        self.see("a connection was reset");
        self.end(id, false);
    }

    /// `resumed`: how many connections the server has resumed; the others wait, in order.
    pub(crate) fn finish_pass(&mut self, resumed: usize) {
        self.expire();
        let said = self.store.run(Oracle::expire);
        self.deliver(said, None);
        self.serve_due(None);
        self.rejections.take_report(self.now.mono);
        self.search();
        self.run_access();
        assert!(resumed > 0 || self.resumed.is_empty(), "no connection was resumed");
        for _ in 0..resumed {
            let id = self.resumed.pop_front().unwrap();
            if let Some(client) = self.clients.get_mut(&id) {
                (client.resumed, client.stalled) = (false, false);
                self.serve(id);
                self.settle(id);
            }
        }
        self.close_denied();
        self.unsettled = 0;
    }

    /// Serves what has been handed over, as far as it goes.
    fn serve(&mut self, id: ClientId) {
        let stopped = loop {
            let now = self.now.mono;
            let client = self.client(id);
            if client.unsent > OUTPUT_HIGH_WATER_BYTES {
                if client.state == State::Open {
                    self.see("too much was unsent");
                }
                self.call_off(id, "packets were waited for no more");
                break true;
            }
            if !client.unwritten.is_empty() {
                client.expect_more();
                self.see("a long answer was written in pieces");
                continue;
            }
            match &mut client.state {
                State::Waiting | State::Asked(_) => break true,
                State::Ended => {
                    client.handed = 0;
                    break false;
                }
                State::Writing(page, manner, turns) => {
                    *turns -= 1;
                    if *turns > 0 {
                        client.reply_deadline = Some(now.after(HTTP_READER_TIMEOUT));
                        self.see("an answer went on");
                        self.go_on(id);
                        break true;
                    }
                    let (page, manner) = (Reply::Page(page.clone()), *manner);
                    client.expect(&page, manner);
                    client.finish(manner, now);
                    continue;
                }
                State::Open => {}
            }
            if self.is_due_packets(id) {
                self.enqueue_pop(id, Some(id));
                self.serve_due(Some(id));
                continue;
            }
            match self.serve_unknown(id) {
                Some(true) => continue,
                Some(false) => break false,
                None => {}
            }
            match self.clients.get_mut(&id).unwrap().take(self.max_request) {
                Taken::Nothing => {
                    self.client(id).await_rest(now);
                    break false;
                }
                Taken::TooLong => {
                    let too_long = Reply::Bytes(self.too_long.clone());
                    self.client(id).expect(&too_long, HttpOptions::default());
                    self.see("a line was too long");
                }
                Taken::Request(request) => self.carry_out(id, &request),
            }
        };
        let client = self.client(id);
        client.stalled = stopped && client.handed > 0;
        self.arm_check(id);
    }

    /// Whether a client is to be given packets, or to wait for them.
    fn is_due_packets(&self, id: ClientId) -> bool {
        let client = &self.clients[&id];
        client.wants_packets() && client.unwritten.is_empty() && self.store.waiting(id).is_none()
    }

    fn enqueue_pop(&mut self, id: ClientId, running: Option<ClientId>) {
        let queues = self.client(id).wishes.queues.clone();
        if self.denies_packets(id, Some(&queues)) {
            return;
        }
        let said = wire::open_pop(&mut self.store, id, &queues);
        self.deliver(said, running);
    }

    /// Clients that got packets and have credits left are enqueued again, at once.
    fn serve_due(&mut self, running: Option<ClientId>) {
        while let Some(id) = self.owing.pop_front() {
            let Some(client) = self.clients.get(&id) else { continue };
            if !client.peer_closed
                && client.unsent <= OUTPUT_HIGH_WATER_BYTES
                && self.is_due_packets(id)
            {
                self.enqueue_pop(id, running);
            }
        }
    }

    /// A client that waits for packets does so no more.
    fn call_off(&mut self, id: ClientId, why: &'static str) {
        if self.client(id).protocol == Protocol::Pinpriq && self.store.waiting(id).is_some() {
            self.see(why);
            wire::stop_waiting(&mut self.store, id);
        }
    }

    fn carry_out(&mut self, id: ClientId, request: &Request) {
        seeds::say(|| format!("{:>12} {id:?} {request:?}", self.now.mono.0));
        if self.denies(id, request) {
            return;
        }
        let (reply, said) = match request {
            Request::Auth(token) => (self.say_who(id, *token), Replies::new()),
            Request::Wire(request) => {
                if let Some(said) = self.wish(id, request) {
                    self.deliver(said, Some(id));
                    return self.serve_due(Some(id));
                }
                self.submit(id, request)
            }
            Request::Http(question, _) => {
                let before: Vec<JobId> = self.store.jobs.iter().map(|job| JobId(job.id)).collect();
                let (reply, said) = jobq::ask(&mut self.store, id, question);
                self.note_deleted(question, &before, &reply);
                (reply, said)
            }
            Request::Beanstalkd(request) => self.command(id, request),
        };
        self.note(id, request, &reply, &said);
        let client = self.client(id);
        match (reply, request) {
            (Reply::Later, Request::Http(question, manner)) => {
                (client.state, client.reply_deadline) = (State::Asked(*manner), None);
                self.came += 1;
                let (question, second) = (question.clone(), self.now.mono.0 / 1_000_000_000);
                self.searches.push(Search { client: id, question, second, came: self.came });
            }
            (Reply::Later, _) => client.state = State::Waiting,
            (Reply::Page(page), &Request::Http(_, manner)) => {
                let turns = if manner.to_head { 1 } else { page.turns };
                client.state = State::Writing(page, manner, turns);
            }
            (reply, _) => client.expect(&reply, HttpOptions::default()),
        }
        self.deliver(said, Some(id));
        self.serve_due(Some(id));
    }

    /// Sends the replies of waiters; `running` is the client that is being served.
    fn deliver(&mut self, said: Replies, running: Option<ClientId>) {
        for (ticket, answer) in said {
            let id = ticket.client;
            let Some(bytes) = self.bytes(id, &answer) else { continue };
            let client = self.client(id);
            client.expect(&Reply::Bytes(bytes), HttpOptions::default());
            if ticket.serial == OPEN_POP {
                client.wishes.credits -= 1;
                self.see("a delivery");
            } else {
                assert_eq!(client.state, State::Waiting);
                client.state = State::Open;
                self.see("a waiter was served");
            }
            if running != Some(id) {
                self.owing.push_back(id);
                self.write_on(id);
                self.resume(id);
                self.unsettled += usize::from(self.client(id).is_leaving());
            }
        }
    }

    /// Takes up what was left lying, now that it can be served.
    fn resume(&mut self, id: ClientId) {
        if self.client(id).stalled {
            self.go_on(id);
        }
    }

    /// Goes on with a long answer of packets.
    fn write_on(&mut self, id: ClientId) {
        if !self.client(id).unwritten.is_empty() {
            self.go_on(id);
        }
    }

    fn go_on(&mut self, id: ClientId) {
        let client = self.client(id);
        if !std::mem::replace(&mut client.resumed, true) {
            self.resumed.push_back(id);
        }
    }

    /// What follows from the state of a client whose end has begun.
    fn settle(&mut self, id: ClientId) {
        let now = self.now.mono;
        let client = self.client(id);
        if client.is_leaving() && client.state == State::Waiting {
            if client.protocol == Protocol::Beanstalkd {
                self.end_wait(id);
            } else {
                client.state = State::Ended;
                self.see("a wait was called off");
                wire::stop_waiting(&mut self.store, id);
                self.resume(id);
            }
        }
        if self.client(id).is_leaving() && self.store.waiting(id).is_some() {
            self.call_off(id, "a subscription ended");
            self.resume(id);
        }
        let client = self.client(id);
        if client.eof && !client.stalled {
            client.handed = 0;
            if client.unsent == 0 && client.unwritten.is_empty() && !client.has_pending_reply() {
                return self.end(id, true);
            }
        }
        if client.deadline.is_some() {
            return;
        }
        if client.over
            && client.unsent == 0
            && client.unwritten.is_empty()
            && !client.has_pending_reply()
        {
            let armed = self.armed;
            self.client(id).deadline = Some((now.after(REJECTED_LINGER_TIMEOUT), armed));
            self.actions.push(Action::ShutdownWrite(id));
            self.armed += 1;
            self.see("a rejected client got the reason");
        } else {
            self.arm_flush_timeout(id);
        }
    }

    fn end(&mut self, id: ClientId, close: bool) {
        let client = self.clients.remove(&id).unwrap();
        self.searches.retain(|search| search.client != id);
        if self.searching.take_if(|(search, _)| search.client == id).is_some() {
            self.see("a search was given up");
        }
        if close {
            self.actions.push(Action::Close(id));
        }
        if client.protocol == Protocol::Beanstalkd {
            let said = self.lose_tubes(&client.tubes);
            self.deliver(said, None);
            self.serve_due(None);
        }
        let said = self.store.run(|store| store.forget(id));
        self.deliver(said, None);
        self.serve_due(None);
    }
}

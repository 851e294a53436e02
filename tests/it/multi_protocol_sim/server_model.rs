//! The oracle's server: the order of service, and what every client must get.
//!
//! It gets the same input as the real server, in the same order, after it, and knows the meaning of
//! every byte from the generator. It takes the server's output off the clients' streams, reply by
//! reply. The order of service follows `src/server`: a client is served with its own input; what
//! had to stop (a wait, a search, a long reply, too much unsent output) is resumed at the end of
//! the pass, first come, first served.

use super::client::{Client, State};
use super::jobq;
use super::types::{HttpOptions, Page, QUEUES, Question, Reply, Request};
use crate::oracle::Oracle;
use crate::oracle::types::Replies;
use crate::oracle::wire::{self, OPEN_POP};
use jobcentre::base::limits::{
    FLUSH_TIMEOUT, HTTP_IDLE_TIMEOUT, HTTP_READER_TIMEOUT, OUTPUT_HIGH_WATER_BYTES,
    QUERIES_PER_PASS, REJECTED_LINGER_TIMEOUT, STALLED_INPUT_MAX_BYTES,
};
use jobcentre::base::time::Now;
use jobcentre::model::driver::{Action, Protocol};
use jobcentre::model::id::{ClientId, JobId};
use jobcentre::model::row::Row;
use std::collections::{BTreeMap, VecDeque};

pub(super) struct ServerModel {
    pub(super) store: Oracle,
    pub(super) clients: BTreeMap<ClientId, Client>,
    pub(super) actions: Vec<Action>,
    now: Now,
    resumed: VecDeque<ClientId>,
    /// Clients that may want more packets now that they have got some.
    owing: VecDeque<ClientId>,
    /// Whether searches that have begun have ended.
    pub(super) found: bool,
    /// Searches that wait for their turn.
    searches: Vec<Search>,
    came: i64,
    /// The search that has begun, and what it finds.
    searching: Option<(Search, Vec<Row>)>,
    armed: usize,
    /// What was deleted: by HTTP, or by a line.
    pub(super) gone: BTreeMap<JobId, bool>,
}

#[derive(Clone)]
struct Search {
    client: ClientId,
    question: Question,
    /// The second in which it came.
    second: u64,
    /// When it came here; negative if what it found had changed and it is asked again.
    came: i64,
}

impl ServerModel {
    pub(super) fn new() -> Self {
        Self {
            store: Oracle::new(&QUEUES.map(|name| name.bytes.as_bytes())),
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
            gone: BTreeMap::new(),
        }
    }

    pub(super) fn see(&mut self, what: &'static str) {
        self.store.see(what);
    }

    pub(super) fn set_time(&mut self, now: Now) {
        (self.now, self.store.now) = (now, now);
    }

    pub(super) fn client(&mut self, id: ClientId) -> &mut Client {
        self.clients.get_mut(&id).unwrap()
    }

    pub(super) fn open(&mut self, id: ClientId, protocol: Protocol) {
        let before = self.clients.insert(id, Client::new(protocol, self.now.mono));
        assert!(before.is_none(), "two clients have one id");
    }

    pub(super) fn wants_input(&self, id: ClientId) -> bool {
        let Some(client) = self.clients.get(&id) else { return false };
        let served = !client.is_owed() && !client.stalled;
        !client.eof
            && client.unsent <= OUTPUT_HIGH_WATER_BYTES
            && (served || client.handed < STALLED_INPUT_MAX_BYTES)
    }

    pub(super) fn input(&mut self, id: ClientId, count: usize) {
        let client = self.client(id);
        client.handed += count;
        if !client.stalled {
            self.serve(id);
        }
        if self.client(id).is_leaving() {
            self.settle(id);
        }
    }

    pub(super) fn peer_closed(&mut self, id: ClientId) {
        self.client(id).peer_closed = true;
        self.settle(id);
    }

    pub(super) fn eof(&mut self, id: ClientId) {
        let client = self.client(id);
        (client.peer_closed, client.eof) = (true, true);
        self.settle(id);
    }

    pub(super) fn sent(&mut self, id: ClientId, count: usize) {
        let client = self.client(id);
        let was_above = client.unsent > OUTPUT_HIGH_WATER_BYTES;
        client.unsent -= count;
        let (stalled, writes) = (client.stalled, matches!(client.state, State::Writing(..)));
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
            && self.owes(id)
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

    pub(super) fn broken(&mut self, id: ClientId) {
        self.see("a connection broke");
        let client = self.client(id);
        (client.broken, client.peer_closed, client.unsent) = (true, true, 0);
        client.fresh.clear();
        if matches!(client.state, State::Writing(..)) {
            // The rest of it is never read.
            client.state = State::Ended;
            self.see("a long answer broke off");
        }
        self.resume(id);
        self.settle(id);
    }

    pub(super) fn reset(&mut self, id: ClientId) {
        self.see("a connection was reset");
        self.end(id, false);
    }

    /// `resumed`: how many connections the server has resumed; the others wait, in order.
    pub(super) fn finish_pass(&mut self, resumed: usize) {
        self.expire();
        let said = self.store.run(Oracle::expire);
        assert!(said.is_empty(), "no request of these protocols has a deadline");
        self.search();
        assert!(resumed > 0 || self.resumed.is_empty(), "no connection was resumed");
        for _ in 0..resumed {
            let id = self.resumed.pop_front().unwrap();
            if let Some(client) = self.clients.get_mut(&id) {
                (client.resumed, client.stalled) = (false, false);
                self.serve(id);
                self.settle(id);
            }
        }
    }

    /// Searches whose clients may send more go before the others, and of these the ones of an
    /// earlier second; then those that are asked again, the last first, and then in the order of
    /// coming.
    fn next_search(&mut self) -> Option<Search> {
        let rank = |it: &Search| (self.clients[&it.client].peer_closed, it.second, it.came);
        let first = (0..self.searches.len()).min_by_key(|&at| rank(&self.searches[at]))?;
        Some(self.searches.remove(first))
    }

    /// Searches go on at the end of the pass, one at a time.
    fn search(&mut self) {
        for _ in 0..QUERIES_PER_PASS {
            while self.searching.is_none()
                && let Some(search) = self.next_search()
            {
                match jobq::begin_search(&mut self.store, search.client, &search.question) {
                    None => self.tell_found(search.client, Page::error(404)),
                    Some(found) => self.searching = Some((search, found)),
                }
            }
            if !self.found {
                return;
            }
            let Some((search, found)) = self.searching.take() else { return };
            let Search { client, ref question, .. } = search;
            if let Some(page) = jobq::end_search(&mut self.store, client, question, &found) {
                self.tell_found(client, page);
            } else {
                self.came += 1;
                self.searches.push(Search { came: -self.came, ..search });
            }
        }
    }

    fn tell_found(&mut self, id: ClientId, page: Page) {
        let client = self.client(id);
        let State::Asked(manner) = client.state else { panic!("no request is open") };
        let turns = if manner.to_head { 1 } else { page.turns };
        client.state = State::Writing(page, manner, turns);
        self.go_on(id);
    }

    fn expire(&mut self) {
        loop {
            let now = self.now.mono;
            let due = |(&id, client): (&ClientId, &Client)| {
                let patience = client.patience.filter(|_| !client.is_leaving());
                let patience = patience.map(|at| (at, usize::MAX));
                client.deadline.or(patience).filter(|&(at, _)| at <= now).map(|at| (at, id))
            };
            let Some((_, id)) = self.clients.iter().filter_map(due).min() else { return };
            if self.client(id).deadline.is_some() {
                self.see("patience with an end came to an end");
                self.end(id, true);
            } else {
                self.lose_patience(id);
            }
        }
    }

    /// An HTTP client was too slow.
    fn lose_patience(&mut self, id: ClientId) {
        let now = self.now.mono;
        let client = self.client(id);
        let idle = client.state == State::Open && !client.has_begun();
        if client.state == State::Open && client.has_begun() {
            let manner = HttpOptions { close: true, expects: true, ..HttpOptions::default() };
            client.expect(&Reply::Page(Page::error(408)), manner);
            client.dismiss();
            self.see("a request took too long");
            self.go_on(id);
        } else if idle && client.unsent == 0 {
            client.dismiss();
            self.see("a connection was not used for long");
            self.go_on(id);
        } else if idle && client.unsent != client.spared {
            client.spared = client.unsent;
            client.patience = Some(now.after(HTTP_IDLE_TIMEOUT));
            self.see("a reader was spared");
        } else {
            self.see("a reader was cut off");
            self.end(id, true);
        }
    }

    /// Serves what has been handed over, as far as it goes.
    fn serve(&mut self, id: ClientId) {
        let stopped = loop {
            let now = self.now.mono;
            let client = self.client(id);
            if client.unsent > OUTPUT_HIGH_WATER_BYTES {
                self.see("too much was unsent");
                self.call_off(id);
                break true;
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
                        client.patience = Some(now.after(HTTP_READER_TIMEOUT));
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
            if self.owes(id) {
                self.stand(id, Some(id));
                self.serve_owing(Some(id));
                continue;
            }
            let client = self.client(id);
            let Some(request) = client.take() else {
                client.await_rest(now);
                break false;
            };
            self.carry_out(id, &request);
        };
        let client = self.client(id);
        client.stalled = stopped && client.handed > 0;
    }

    /// Whether a client is to be given packets, or to wait for them.
    fn owes(&self, id: ClientId) -> bool {
        self.clients[&id].wants_packets() && self.store.waiting(id).is_none()
    }

    fn stand(&mut self, id: ClientId, running: Option<ClientId>) {
        let queues = self.client(id).wishes.queues.clone();
        let said = wire::open_pop(&mut self.store, id, &queues);
        self.deliver(said, running);
    }

    /// Clients that got packets and have credits left are enqueued again, at once.
    fn serve_owing(&mut self, running: Option<ClientId>) {
        while let Some(id) = self.owing.pop_front() {
            let Some(client) = self.clients.get(&id) else { continue };
            if !client.peer_closed && client.unsent <= OUTPUT_HIGH_WATER_BYTES && self.owes(id) {
                self.stand(id, running);
            }
        }
    }

    /// A client that waits for packets does so no more.
    fn call_off(&mut self, id: ClientId) {
        if self.client(id).protocol == Protocol::Pinpriq && self.store.waiting(id).is_some() {
            self.see("packets were waited for no more");
            wire::stop_waiting(&mut self.store, id);
        }
    }

    fn carry_out(&mut self, id: ClientId, request: &Request) {
        let (reply, said) = match request {
            Request::Wire(request) => {
                if let Some(said) = self.wish(id, request) {
                    self.deliver(said, Some(id));
                    return self.serve_owing(Some(id));
                }
                self.submit(id, request)
            }
            Request::Http(question, _) => {
                let before: Vec<JobId> = self.store.jobs.iter().map(|job| JobId(job.id)).collect();
                let (reply, said) = jobq::ask(&mut self.store, id, question);
                self.note_deleted(question, &before, &reply);
                (reply, said)
            }
        };
        self.note(id, request, &reply, &said);
        let client = self.client(id);
        match (reply, request) {
            (Reply::Later, Request::Http(question, manner)) => {
                (client.state, client.patience) = (State::Asked(*manner), None);
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
        self.serve_owing(Some(id));
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
                self.resume(id);
            }
        }
    }

    /// Takes up what was left lying, now that it can be served.
    fn resume(&mut self, id: ClientId) {
        if self.client(id).stalled {
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
            client.state = State::Ended;
            self.see("a wait was called off");
            wire::stop_waiting(&mut self.store, id);
            self.resume(id);
        }
        if self.client(id).is_leaving() && self.store.waiting(id).is_some() {
            self.call_off(id);
            self.resume(id);
        }
        let client = self.client(id);
        if client.eof && !client.stalled {
            client.handed = 0;
            if client.unsent == 0 && !client.is_owed() {
                return self.end(id, true);
            }
        }
        if client.deadline.is_some() {
            return;
        }
        if client.over && client.unsent == 0 && !client.is_owed() {
            let armed = self.armed;
            self.client(id).deadline = Some((now.after(REJECTED_LINGER_TIMEOUT), armed));
            self.actions.push(Action::ShutdownWrite(id));
            self.armed += 1;
        } else {
            self.arm_flush_timeout(id);
        }
    }

    /// Bounds the time that a client which is leaving has to take its output. Called again after
    /// each call of the server: the script says nothing of interim responses.
    pub(super) fn arm_flush_timeout(&mut self, id: ClientId) {
        let (at, armed) = (self.now.mono.after(FLUSH_TIMEOUT), self.armed);
        let client = self.client(id);
        if client.unsent > 0 && client.is_leaving() && client.deadline.is_none() {
            client.deadline = Some((at, armed));
            self.armed += 1;
        }
    }

    fn end(&mut self, id: ClientId, close: bool) {
        self.clients.remove(&id).unwrap();
        self.searches.retain(|search| search.client != id);
        if self.searching.take_if(|(search, _)| search.client == id).is_some() {
            self.see("a search was given up");
        }
        if close {
            self.actions.push(Action::Close(id));
        }
        let said = self.store.run(|store| store.forget(id));
        self.deliver(said, None);
        self.serve_owing(None);
    }
}

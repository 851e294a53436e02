//! The judge's server: for each client what it has sent, what it is doing and what it must be sent.
//!
//! It is told the same as the real server, in the same order, and knows the meaning of every line
//! from the script that wrote it, so it parses nothing. Who is served when follows `src/server`'s
//! documentation: input is served when it is handed over; a client that cannot be served then
//! (it waits, or too much is unsent) is taken up again at the end of the pass, first come, first
//! served.

use super::jobs::{Jobs, Replies, Request};
use jobcentre::base::limits::{
    FAREWELL_LINGER, FLUSH_PATIENCE, OUTPUT_HIGH_WATER, STALLED_INPUT_MAX,
};
use jobcentre::base::time::{Mono, Now};
use jobcentre::model::core::Action;
use jobcentre::model::id::ClientId;
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Waiting,
    Ended,
    Refused,
}

/// One client.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Client {
    state: State,
    /// Lines that the client writes, the first one being what is next in the input.
    lines: VecDeque<(Vec<u8>, Request)>,
    /// How much of the first line was passed over because it is too long.
    passed: usize,
    skipping: bool,
    /// Bytes handed over and not served.
    handed: usize,
    /// What must be sent to it.
    pub(super) output: Vec<u8>,
    stalled: bool,
    resumed: bool,
    peer_closed: bool,
    eof: bool,
    broken: bool,
    /// When it is cut off, and how many were given a deadline before it.
    deadline: Option<(Mono, usize)>,
}

enum Taken {
    Nothing,
    TooLong,
    Request(Request),
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

impl Client {
    fn new(state: State, output: Vec<u8>) -> Self {
        Self {
            state,
            lines: VecDeque::new(),
            passed: 0,
            skipping: false,
            handed: 0,
            output,
            stalled: false,
            resumed: false,
            peer_closed: false,
            eof: false,
            broken: false,
            deadline: None,
        }
    }

    /// The next line of the input, if it is there, or if it is already too long.
    fn take(&mut self, max: usize) -> Taken {
        loop {
            let Some((bytes, _)) = self.lines.front() else { return Taken::Nothing };
            let rest = &bytes[self.passed..];
            if self.handed >= rest.len() {
                self.handed -= rest.len();
                let too_long = without_cr(&rest[..rest.len() - 1]).len() > max;
                self.passed = 0;
                let (_, request) = self.lines.pop_front().unwrap();
                if std::mem::take(&mut self.skipping) {
                    continue;
                }
                return if too_long { Taken::TooLong } else { Taken::Request(request) };
            }
            let begun_too_long = without_cr(&rest[..self.handed]).len() > max;
            if !self.skipping && !begun_too_long {
                return Taken::Nothing;
            }
            self.passed += std::mem::take(&mut self.handed);
            let first_time = !std::mem::replace(&mut self.skipping, true);
            return if first_time { Taken::TooLong } else { Taken::Nothing };
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        if !self.broken {
            self.output.extend_from_slice(bytes);
        }
    }
}

/// How often things happened: to know that a simulation is wild enough.
pub(super) type Seen = BTreeMap<&'static str, usize>;

/// All clients over the naive store.
pub(super) struct Model {
    pub(super) jobs: Jobs,
    pub(super) clients: BTreeMap<ClientId, Client>,
    pub(super) actions: Vec<Action>,
    pub(super) seen: Seen,
    max_request: usize,
    too_long: Vec<u8>,
    resumed: VecDeque<ClientId>,
    armed: usize,
}

impl Model {
    pub(super) fn new(max_request: usize, too_long: Vec<u8>) -> Self {
        Self {
            jobs: Jobs::new(),
            clients: BTreeMap::new(),
            actions: Vec::new(),
            seen: Seen::new(),
            max_request,
            too_long,
            resumed: VecDeque::new(),
            armed: 0,
        }
    }

    pub(super) fn see(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// Opens a client; `refused` is what one that there is no place for is told.
    pub(super) fn open(&mut self, id: ClientId, refused: Option<Vec<u8>>, now: Now) {
        let client = match refused {
            None => Client::new(State::Open, Vec::new()),
            Some(farewell) => Client::new(State::Refused, farewell),
        };
        let before = self.clients.insert(id, client);
        assert!(before.is_none(), "two clients have one id");
        self.settle(id, now);
    }

    /// The client is going to send this line.
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
            && client.output.len() <= OUTPUT_HIGH_WATER
            && (served || client.handed < STALLED_INPUT_MAX)
    }

    pub(super) fn poll_timeout(&self, now: Now) -> Option<Mono> {
        if !self.resumed.is_empty() {
            return Some(now.mono);
        }
        self.clients.values().filter_map(|client| Some(client.deadline?.0)).min()
    }

    pub(super) fn input(&mut self, id: ClientId, count: usize, now: Now) {
        let client = self.clients.get_mut(&id).unwrap();
        client.handed += count;
        let much = client.handed >= STALLED_INPUT_MAX;
        if client.stalled && much {
            self.see("much input waits");
        } else if !client.stalled {
            self.serve(id);
        }
        if self.clients[&id].peer_closed {
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
        let was_above = client.output.len() > OUTPUT_HIGH_WATER;
        client.output.drain(..count);
        if was_above && client.output.len() <= OUTPUT_HIGH_WATER {
            self.resume(id);
        }
        let client = self.clients.get_mut(&id).unwrap();
        if client.peer_closed || client.state == State::Refused {
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

    pub(super) fn reset(&mut self, id: ClientId) {
        self.see("a connection was reset");
        self.end(id, false);
    }

    pub(super) fn stop(&mut self, now: Now) {
        for id in self.clients.keys().copied().collect::<Vec<_>>() {
            self.peer_closed(id, now);
        }
    }

    pub(super) fn finish_pass(&mut self, now: Now) {
        loop {
            let armed =
                self.clients.iter().filter_map(|(&id, client)| Some((client.deadline?, id)));
            let Some((_, id)) = armed.filter(|((at, _), _)| *at <= now.mono).min() else { break };
            self.see("patience came to an end");
            self.end(id, true);
        }
        for _ in 0..self.resumed.len() {
            let id = self.resumed.pop_front().unwrap();
            if let Some(client) = self.clients.get_mut(&id) {
                (client.resumed, client.stalled) = (false, false);
                self.serve(id);
                self.settle(id, now);
            }
        }
    }

    /// Serves what has been handed over, as far as it goes.
    fn serve(&mut self, id: ClientId) {
        let stopped = loop {
            let client = self.clients.get_mut(&id).unwrap();
            if client.output.len() > OUTPUT_HIGH_WATER || client.state == State::Waiting {
                if client.state == State::Open {
                    self.see("too much was unsent");
                }
                break true;
            }
            if client.state != State::Open {
                client.handed = 0;
                break false;
            }
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
                    self.note(id, &request);
                    let replies = self.jobs.execute(id, request);
                    if replies.iter().any(|(to, _)| *to != id) {
                        self.see("a waiter was served");
                    }
                    self.deliver(replies);
                }
            }
        };
        let client = self.clients.get_mut(&id).unwrap();
        client.stalled = stopped && client.handed > 0;
    }

    /// Counts what is worth it.
    fn note(&mut self, id: ClientId, request: &Request) {
        let Request::Abort(job) = request else { return };
        match self.jobs.all.iter().find(|known| Some(known.id) == *job) {
            Some(known) if known.holder == Some(id) => self.see("abort: ok"),
            Some(known) if known.holder.is_some() => self.see("abort: of another"),
            Some(_) => self.see("abort: not held"),
            None => {}
        }
    }

    fn deliver(&mut self, replies: Replies) {
        for (id, reply) in replies {
            let client = self.clients.get_mut(&id).unwrap();
            client.send(&reply);
            let waited = client.state == State::Waiting;
            if waited {
                client.state = State::Open;
            }
            self.see("a reply");
            self.resume(id);
        }
    }

    fn resume(&mut self, id: ClientId) {
        let client = self.clients.get_mut(&id).unwrap();
        if client.stalled && !client.resumed {
            client.resumed = true;
            self.resumed.push_back(id);
        }
    }

    /// What follows from the state of a client whose end has begun, or who is refused.
    fn settle(&mut self, id: ClientId, now: Now) {
        let client = self.clients.get_mut(&id).unwrap();
        if client.peer_closed && client.state == State::Waiting {
            client.state = State::Ended;
            self.see("a wait was called off");
            self.jobs.stop_waiting(id);
            self.resume(id);
        }
        let client = self.clients.get_mut(&id).unwrap();
        if client.eof && !client.stalled {
            client.handed = 0;
            if client.output.is_empty() {
                return self.end(id, true);
            }
        }
        if client.deadline.is_some() {
            return;
        }
        if client.state == State::Refused && client.output.is_empty() {
            client.deadline = Some((now.mono.after(FAREWELL_LINGER), self.armed));
            self.armed += 1;
            self.actions.push(Action::ShutdownWrite(id));
            self.see("a refused client was told to go");
        } else if !client.output.is_empty()
            && (client.peer_closed || client.state == State::Refused)
        {
            client.deadline = Some((now.mono.after(FLUSH_PATIENCE), self.armed));
            self.armed += 1;
        }
    }

    fn end(&mut self, id: ClientId, close: bool) {
        self.clients.remove(&id).unwrap();
        if close {
            self.actions.push(Action::Close(id));
        }
        if self.jobs.all.iter().any(|job| job.holder == Some(id)) {
            self.see("a job went back");
        }
        let replies = self.jobs.forget(id);
        self.deliver(replies);
    }
}

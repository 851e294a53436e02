//! The connection of a leader to its sink: found, connected, logged in, one request at a time.
//!
//! Invariant: `waits` says which answer comes next, and nothing else is sent before it is there.

use crate::base::buf::{InBuf, progress};
use crate::base::time::Mono;
use crate::engine::shared::limits::{
    ANSWER_BYTES_MAX, ANSWER_TIMEOUT, CONNECT_TIMEOUT, RETRY_MAX, RETRY_MIN, SENTINEL_TIMEOUT,
};
use crate::engine::shared::redis::{Address, Hop, Locator, Primary, Requests, Role};
use crate::model::driver::LinkAction;
use crate::wire::resp::{Framer, Raw};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// That of a Sentinel: who the primary is.
    Sentinel,
    /// This many answers at the begin of a connection, and then that of a Sentinel, or about the
    /// role of the node.
    Login(usize),
    /// What the node is.
    Role,
    /// That of a write; then comes how many replicas have it, if that is true.
    Write(bool),
    /// How many replicas have the write.
    Replicas,
    /// That this server leads still, after a failover that had lost it.
    Lead,
    /// That the library was loaded.
    Library,
    /// That of the resignation.
    Resign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// To be connected at this moment.
    Down(Mono),
    /// Since this moment.
    Dialing(Mono),
    Up,
}

/// The connection.
#[derive(Debug)]
pub(super) struct LeaderLink {
    locator: Locator,
    /// The connection is one to a Sentinel.
    asks_sentinel: bool,
    state: State,
    /// What is waited for, and since when.
    waits: Option<(Waits, Mono)>,
    /// Nothing is sent before this moment, because something was refused for now.
    rests_until: Mono,
    pause: Duration,
    actions: VecDeque<LinkAction>,
    output: Vec<u8>,
    sent: usize,
    input: InBuf,
    framer: Framer,
    /// Connections after the first.
    pub(super) reconnects: u64,
    was_up: bool,
}

impl LeaderLink {
    pub(super) fn new(address: Address) -> Self {
        Self {
            locator: Locator::new(address),
            asks_sentinel: false,
            state: State::Down(Mono(0)),
            waits: None,
            rests_until: Mono(0),
            pause: RETRY_MIN,
            actions: VecDeque::new(),
            output: Vec::new(),
            sent: 0,
            input: InBuf::default(),
            framer: Framer::new(ANSWER_BYTES_MAX),
            reconnects: 0,
            was_up: false,
        }
    }

    pub(super) fn poll_action(&mut self) -> Option<LinkAction> {
        self.actions.pop_front()
    }

    pub(super) fn is_up(&self) -> bool {
        self.state == State::Up
    }

    /// What is waited for.
    pub(super) fn waits(&self) -> Option<(Waits, Mono)> {
        self.waits
    }

    /// Whether a request may be sent.
    pub(super) fn is_idle(&self, now: Mono) -> bool {
        self.is_up() && self.waits.is_none() && self.rests_until <= now
    }

    pub(super) fn output(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    pub(super) fn handle_sent(&mut self, count: usize) {
        self.sent += count;
        debug_assert!(self.sent <= self.output.len(), "no more is sent than there is");
        if self.sent == self.output.len() {
            self.output.clear();
            self.sent = 0;
        }
    }

    /// Whether another node may take the place of this one.
    pub(super) fn may_move(&self) -> bool {
        self.locator.may_move()
    }

    /// It is connected, and begins with a login and a question.
    pub(super) fn connected(&mut self, requests: &Requests, now: Mono) {
        debug_assert!(
            matches!(self.state, State::Dialing(_)),
            "a connection is made that was not asked for"
        );
        self.state = State::Up;
        self.output.clear();
        self.sent = 0;
        self.input.clear();
        self.framer.clear();
        let answers = if self.asks_sentinel {
            let (login, answers) = requests.sentinel_login();
            self.output.extend_from_slice(login);
            self.output.extend_from_slice(&self.locator.question());
            answers
        } else {
            self.reconnects += u64::from(self.was_up);
            self.was_up = true;
            let (login, answers) = requests.login();
            self.output.extend_from_slice(login);
            self.output.extend_from_slice(Role::question());
            answers
        };
        let waits = if answers > 0 { Waits::Login(answers) } else { self.after_login() };
        self.waits = Some((waits, now));
    }

    /// What is waited for after the login.
    fn after_login(&self) -> Waits {
        if self.asks_sentinel { Waits::Sentinel } else { Waits::Role }
    }

    /// Whether the connection is one to a Sentinel.
    pub(super) fn asks_sentinel(&self) -> bool {
        self.asks_sentinel
    }

    /// The primary that a Sentinel or another node has named is connected to.
    pub(super) fn go_on(&mut self, primary: Primary, now: Mono) {
        self.locator.found(primary);
        self.state = State::Down(now);
        self.waits = None;
        let _ = self.advance(now);
        debug_assert!(
            matches!(self.state, State::Dialing(_)),
            "a primary that was named is connected to at once"
        );
    }

    /// Sends a request whose answer is waited for.
    pub(super) fn send(&mut self, request: &[u8], waits: Waits, now: Mono) {
        debug_assert!(self.is_idle(now), "a request is sent while another one is under way");
        self.output.extend_from_slice(request);
        self.waits = Some((waits, now));
    }

    /// Sends a further request behind a write: see [`Waits::Write`].
    pub(super) fn send_behind(&mut self, request: &[u8]) {
        debug_assert!(
            matches!(self.waits, Some((Waits::Write(true), _))),
            "a request is sent behind something else than a write"
        );
        self.output.extend_from_slice(request);
    }

    /// An answer has come, and the next request may be sent.
    pub(super) fn answered(&mut self) {
        debug_assert!(self.waits.is_some(), "an answer comes although none is waited for");
        self.waits = match self.waits {
            Some((Waits::Login(left), since)) if left > 1 => Some((Waits::Login(left - 1), since)),
            Some((Waits::Login(_), since)) => Some((self.after_login(), since)),
            Some((Waits::Write(true), since)) => Some((Waits::Replicas, since)),
            _ => None,
        };
    }

    /// A request was taken: the next pause is short again.
    pub(super) fn succeeded(&mut self) {
        self.pause = RETRY_MIN;
    }

    /// Pauses, longer each time.
    pub(super) fn rest(&mut self, now: Mono) {
        debug_assert!((RETRY_MIN..=RETRY_MAX).contains(&self.pause), "pauses have bounds");
        self.rests_until = now.after(self.pause);
        self.pause = (self.pause * 2).min(RETRY_MAX);
    }

    /// The connection is lost; it is made anew after a pause.
    pub(super) fn lost(&mut self, now: Mono) {
        self.locator.fail();
        self.rest(now);
        self.state = State::Down(self.rests_until);
        self.waits = None;
    }

    /// Closes it, and makes it anew after a pause.
    pub(super) fn drop_connection(&mut self, now: Mono) {
        self.actions.push_back(LinkAction::Close);
        self.lost(now);
    }

    /// Connects if it is time. Says why the connection is to be given up, if it is.
    pub(super) fn advance(&mut self, now: Mono) -> Option<String> {
        match self.state {
            State::Down(at) if at <= now => {
                let hop = self.locator.hop();
                self.asks_sentinel = matches!(hop, Hop::Sentinel(_));
                self.state = State::Dialing(now);
                self.actions.push_back(LinkAction::Connect(Arc::clone(hop.target())));
                None
            }
            State::Dialing(since) if since.after(self.connect_timeout()) <= now => {
                Some(format!("no connection within {} s", self.connect_timeout().as_secs()))
            }
            State::Up => {
                let (_, since) = self.waits?;
                (since.after(self.answer_timeout()) <= now)
                    .then(|| format!("no answer within {} s", self.answer_timeout().as_secs()))
            }
            State::Down(_) | State::Dialing(_) => None,
        }
    }

    fn connect_timeout(&self) -> Duration {
        if self.asks_sentinel { SENTINEL_TIMEOUT } else { CONNECT_TIMEOUT }
    }

    fn answer_timeout(&self) -> Duration {
        if self.asks_sentinel { SENTINEL_TIMEOUT } else { ANSWER_TIMEOUT }
    }

    /// When [`Self::advance`] is due, or a pause is over.
    pub(super) fn poll_timeout(&self, has_request: bool) -> Option<Mono> {
        match (self.state, self.waits) {
            (State::Down(at), _) => Some(at),
            (State::Dialing(since), _) => Some(since.after(self.connect_timeout())),
            (State::Up, Some((_, since))) => Some(since.after(self.answer_timeout())),
            (State::Up, None) => has_request.then_some(self.rests_until),
        }
    }

    pub(super) fn append_input(&mut self, bytes: &[u8]) {
        self.input.append(bytes);
    }

    /// Takes the next whole answer, and hands it to `read`. `None`: there is none.
    ///
    /// # Errors
    /// What is no RESP.
    pub(super) fn next_answer<T>(
        &mut self,
        read: impl FnOnce(Raw<'_>) -> T,
    ) -> Result<Option<T>, String> {
        let mut input = self.input.peek();
        let answer = self.framer.next(&mut input).map_err(|error| error.to_string())?;
        let answer = answer.map(read);
        let (used, scanned) = progress(&input);
        self.input.commit(used, scanned);
        Ok(answer)
    }
}

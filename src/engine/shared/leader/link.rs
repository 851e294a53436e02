//! The connection of a leader to its sink: connected, logged in, one request at a time.
//!
//! Invariant: `waits` says which answer comes next, and nothing else is sent before it is there.

use crate::base::buf::{InBuf, progress};
use crate::base::time::Mono;
use crate::engine::shared::limits::{
    ANSWER_BYTES_MAX, ANSWER_TIMEOUT, CONNECT_TIMEOUT, RETRY_MAX, RETRY_MIN,
};
use crate::model::driver::{LinkAction, Target};
use crate::wire::resp::{Framer, Raw};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// This many answers at the begin of a connection.
    Login(usize),
    /// That of a write.
    Write,
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
    target: Arc<Target>,
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
    pub(super) fn new(target: Arc<Target>) -> Self {
        Self {
            target,
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

    /// It is connected, and begins with this.
    pub(super) fn connected(&mut self, (login, answers): (&[u8], usize), now: Mono) {
        self.state = State::Up;
        self.reconnects += u64::from(self.was_up);
        self.was_up = true;
        self.output.clear();
        self.sent = 0;
        self.input.clear();
        self.framer.clear();
        self.output.extend_from_slice(login);
        self.waits = (answers > 0).then_some((Waits::Login(answers), now));
    }

    /// Sends a request whose answer is waited for.
    pub(super) fn send(&mut self, request: &[u8], waits: Waits, now: Mono) {
        debug_assert!(self.is_idle(now), "a request is sent while another one is under way");
        self.output.extend_from_slice(request);
        self.waits = Some((waits, now));
    }

    /// An answer has come, and the next request may be sent.
    pub(super) fn answered(&mut self) {
        self.waits = match self.waits {
            Some((Waits::Login(left), since)) if left > 1 => Some((Waits::Login(left - 1), since)),
            _ => None,
        };
    }

    /// A request was taken: the next pause is short again.
    pub(super) fn succeeded(&mut self) {
        self.pause = RETRY_MIN;
    }

    /// Pauses, longer each time.
    pub(super) fn rest(&mut self, now: Mono) {
        self.rests_until = now.after(self.pause);
        self.pause = (self.pause * 2).min(RETRY_MAX);
    }

    /// The connection is lost; it is made anew after a pause.
    pub(super) fn lost(&mut self, now: Mono) {
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
                self.state = State::Dialing(now);
                self.actions.push_back(LinkAction::Connect(Arc::clone(&self.target)));
                None
            }
            State::Dialing(since) if since.after(CONNECT_TIMEOUT) <= now => {
                Some(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()))
            }
            State::Up => {
                let (_, since) = self.waits?;
                (since.after(ANSWER_TIMEOUT) <= now)
                    .then(|| format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()))
            }
            State::Down(_) | State::Dialing(_) => None,
        }
    }

    /// When [`Self::advance`] is due, or a pause is over.
    pub(super) fn poll_timeout(&self, has_request: bool) -> Option<Mono> {
        match (self.state, self.waits) {
            (State::Down(at), _) => Some(at),
            (State::Dialing(since), _) => Some(since.after(CONNECT_TIMEOUT)),
            (State::Up, Some((_, since))) => Some(since.after(ANSWER_TIMEOUT)),
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

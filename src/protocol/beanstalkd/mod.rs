//! The protocol of beanstalkd: lines and bodies over TCP (`docs/protocols/beanstalkd.md`).
//!
//! ```text
//!            line (and body)               reply
//!   Open -------------------> submit -> Open  ------------> write it in its turn
//!    ^ |  reserve
//!    | +---------------------> submit -> Waiting --- job, timeout ---> write it; Open
//!    |                                    |
//!    |                                    +---- cancelled: TIMED_OUT -> Open
//!    |  a line or a body that is too long
//!    +---------------------- Discarding: to its end, then one error
//! ```
//!
//! A tube is a queue, a body a payload of opaque bytes; a priority is the negative of the store's,
//! where larger is more urgent; a reservation is a lease of `ttr` seconds.
//!
//! Invariants:
//! - each command has one reply, in the order of the commands: while one may wait, no later one is
//!   executed;
//! - the ticket of a command says what its reply means (`Asked`), so nothing is kept for it;
//! - the connection watches at least one tube.
//!
//! A first line that is an HTTP request is refused and ends the connection: a web page controls
//! what follows it.

mod asked;
mod authentication;
mod call;
mod counters;
mod discard;
mod execute;
mod line;
mod plain_line;
mod reply;
mod scratch;
mod stats;
mod text;

use super::ordered_replies::OrderedReplies;
use super::{SessionAction, SessionContext, StatsKind};
use crate::base::buf::{Input, OutBuf};
use crate::base::limits::IN_FLIGHT_MAX;
use crate::base::strings::StringList;
use crate::model::command::Command;
use crate::model::consumer::ConsumerReply;
use crate::model::id::JobId;
use crate::model::job::{Encoding, Payload, Priority, TieBreak};
use crate::model::reply::Reply;
use asked::Asked;
use call::Call;
use counters::{Counters, Verb};
use line::{Framed, LineError, Put, Request, first_line};
pub(super) use reply::{write_closing, write_full};
pub use scratch::Scratch;
pub use stats::Identity;
use std::sync::Arc;

/// The tube that each connection uses and watches at first.
const DEFAULT: &[u8] = b"default";

/// The priority of the store, where larger is more urgent.
#[inline]
fn priority_of(priority: u32) -> Priority<'static> {
    Priority::Small(-i64::from(priority))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// As `Open`, unless the first line belongs to another protocol.
    #[default]
    Fresh,
    /// Commands are executed.
    Open,
    /// They wait until the command with this serial is answered.
    Waiting(u32),
    /// They wait until the next command of the call is submitted, under this number.
    Calling(u32),
    /// They are not executed: the client has to say first who it is.
    Locked,
    /// The same, and this number of bytes of a body is passed over. `unlocks`: after it the client
    /// need not say who it is any more.
    LockedSkipping { left: u64, unlocks: bool },
    /// They wait until it is looked up who the client is.
    Authenticating { was_locked: bool },
    /// A line that is too long is discarded up to its end.
    Discarding,
    /// This number of bytes is discarded: of a body that is too long, with its CRLF.
    Skipping(u64),
    /// Everything is discarded.
    Ended,
}

/// The session of one connection.
#[expect(clippy::struct_excessive_bools, reason = "facts that do not exclude each other")]
#[derive(Debug)]
pub struct Session {
    replies: OrderedReplies,
    state: State,
    used: Box<[u8]>,
    watched: StringList,
    /// A number that no other session has, and that is another one after each change of what is
    /// used or watched. Never 0.
    names: u64,
    counters: Arc<Counters>,
    /// The tube whose statistics were asked for last, or that was used before or watched or left
    /// last.
    asked_tube: Box<[u8]>,
    /// What takes several commands of the store.
    call: Option<Box<Call>>,
    /// The put whose body is being read is counted.
    is_put_counted: bool,
    is_producer: bool,
    is_worker: bool,
    /// It is counted as waiting for a job.
    is_waiting: bool,
    /// The command that is waited for does not wait of itself.
    is_deferred: bool,
}

impl Default for Session {
    fn default() -> Self {
        Self::with(Arc::default())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end_wait();
        let counters = &self.counters;
        if self.is_producer {
            counters.producers.subtract();
        }
        if self.is_worker {
            counters.workers.subtract();
        }
        if *self.used == *DEFAULT {
            counters.using_default.subtract();
        }
        if self.watched.position(DEFAULT).is_some() {
            counters.watching_default.subtract();
        }
    }
}

impl Session {
    /// A session that is counted with the others of the listener.
    pub(super) fn new(context: &SessionContext) -> Self {
        Self::with(Arc::clone(&context.scratch.beanstalkd.counters))
    }

    /// What it uses or watches has changed.
    fn rename(&mut self) {
        self.names = self.counters.next_names();
    }

    fn with(counters: Arc<Counters>) -> Self {
        let mut watched = StringList::default();
        watched.push(DEFAULT);
        counters.using_default.add();
        counters.watching_default.add();
        let names = counters.next_names();
        Self {
            replies: OrderedReplies::default(),
            state: State::Fresh,
            used: DEFAULT.into(),
            watched,
            names,
            counters,
            asked_tube: Box::default(),
            call: None,
            is_put_counted: false,
            is_producer: false,
            is_worker: false,
            is_waiting: false,
            is_deferred: false,
        }
    }

    #[inline]
    pub(super) fn poll_command<'s, 'i: 's>(
        &mut self,
        input: &mut Input<'i>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        if self.state != State::Open || self.replies.len() >= IN_FLIGHT_MAX {
            match self.state {
                State::Open | State::Waiting(_) => return SessionAction::Stalled,
                State::Calling(number) => return self.advance_call(number, shared, out),
                _ => {
                    if let Some(action) = self.poll_cold(input, shared, out) {
                        return action;
                    }
                }
            }
        }
        let unread = input.unread();
        let (request, length) = match plain_line::recognise(unread) {
            Some((request, length)) => (Ok(request), length),
            None => match first_line(unread) {
                Framed::Line(line, length) => (line::parse(line), length),
                Framed::Incomplete => return SessionAction::NeedInput,
                Framed::TooLong => {
                    self.state = State::Discarding;
                    return SessionAction::Continue;
                }
            },
        };
        match request {
            Ok(Request::Put(put)) => self.take_put(put, length, input, shared, out),
            Ok(Request::Delete(id)) => {
                input.consume(length);
                self.counters.count(Verb::Delete);
                self.submit(Asked::Delete, Command::DeleteOwn { id: JobId(id) })
            }
            Ok(Request::ReserveWithTimeout(wait_s)) => {
                input.consume(length);
                self.counters.count(Verb::ReserveWithTimeout);
                self.reserve(wait_s * 1000, shared)
            }
            Ok(request) => {
                input.consume(length);
                self.execute(request, shared, out)
            }
            Err(error) => {
                input.consume(length);
                match error {
                    LineError::BadFormat => self.answer(out, reply::BAD_FORMAT),
                    LineError::UnknownCommand => self.reject_or_authenticate(unread, length, out),
                }
            }
        }
    }

    /// Takes a put, whose line has this length, and its body.
    #[inline(always)]
    fn take_put<'s, 'i: 's>(
        &mut self,
        put: Put,
        length: usize,
        input: &mut Input<'i>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        let body = put.bytes as usize;
        if !std::mem::replace(&mut self.is_put_counted, true) {
            self.counters.count(Verb::Put);
        }
        if body > shared.settings.max_body {
            self.is_put_counted = false;
            input.consume(length);
            self.state = State::Skipping(u64::from(put.bytes) + 2);
            return SessionAction::Continue;
        }
        if put.has_trailing {
            self.is_put_counted = false;
            input.consume(length);
            return self.answer(out, reply::BAD_FORMAT);
        }
        self.note_producer();
        let Some(content) = input.unread().get(length..length + body + 2) else {
            return SessionAction::NeedInput;
        };
        self.is_put_counted = false;
        input.consume(length + body + 2);
        let Some(bytes) = content.strip_suffix(b"\r\n") else {
            return self.answer(out, reply::EXPECTED_CRLF);
        };
        self.put((put.priority, put.delay_s, put.ttr_s), bytes, shared)
    }

    /// Answers a command at once, in its turn.
    fn answer(&mut self, out: &mut OutBuf, text: &[u8]) -> SessionAction<'static> {
        let number = self.replies.open();
        self.replies.close(number, out, |out| out.extend_from_slice(text));
        SessionAction::Continue
    }

    #[inline]
    fn submit<'s>(&mut self, asked: Asked, command: Command<'s>) -> SessionAction<'s> {
        SessionAction::Submit(asked.serial(self.replies.open()), command)
    }

    /// Submits a put into the used tube. Its times are in seconds.
    #[inline]
    fn put<'s, 'i: 's>(
        &mut self,
        (priority, delay_s, ttr_s): (u32, u32, u32),
        bytes: &'i [u8],
        shared: &'s mut SessionContext,
    ) -> SessionAction<'s> {
        let times = (u64::from(delay_s) * 1000, u64::from(ttr_s.max(1)) * 1000);
        let tube = (self.names, &*self.used);
        let (queue, options) = shared.scratch.beanstalkd.put(tube, times);
        let command = Command::Put {
            queue,
            priority: priority_of(priority),
            tie_break: TieBreak::Fifo,
            payload: Payload { encoding: Encoding::Bytes, bytes },
            options: Some(options),
        };
        self.submit(Asked::Put, command)
    }

    /// Submits a command for whose reply all later ones wait.
    fn submit_alone<'s>(&mut self, asked: Asked, command: Command<'s>) -> SessionAction<'s> {
        let serial = asked.serial(self.replies.open());
        self.state = State::Waiting(serial);
        self.is_deferred = true;
        SessionAction::Submit(serial, command)
    }

    fn begin_call(&mut self, call: Call) -> SessionAction<'static> {
        self.call = Some(Box::new(call));
        self.state = State::Calling(self.replies.open());
        SessionAction::Continue
    }

    /// Submits the next command of the call, or answers it.
    #[cold]
    fn advance_call<'s>(
        &mut self,
        number: u32,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        let Some(call) = &mut self.call else { return SessionAction::Stalled };
        match call.next(&self.used, &self.counters, shared) {
            call::Next::Submit(command) => {
                let serial = Asked::Call.serial(number);
                self.state = State::Waiting(serial);
                self.is_deferred = true;
                SessionAction::Submit(serial, command)
            }
            call::Next::FetchStats => SessionAction::FetchStats(StatsKind::Metrics),
            call::Next::Yield => SessionAction::Yield,
            call::Next::End(text) => {
                self.call = None;
                self.state = State::Open;
                self.replies.close(number, out, |out| out.extend_from_slice(&text));
                SessionAction::Continue
            }
        }
    }

    #[inline]
    fn note_producer(&mut self) {
        if !std::mem::replace(&mut self.is_producer, true) {
            self.counters.producers.add();
        }
    }

    #[inline]
    fn note_worker(&mut self) {
        if !std::mem::replace(&mut self.is_worker, true) {
            self.counters.workers.add();
        }
    }

    #[inline]
    fn end_wait(&mut self) {
        if std::mem::take(&mut self.is_waiting) {
            self.counters.waiting.subtract();
        }
    }

    #[inline]
    pub(super) fn handle_reply(&mut self, serial: u32, reply: &Reply<'_>, out: &mut OutBuf) {
        if self.state == State::Waiting(serial) {
            self.state = State::Open;
            self.is_deferred = false;
            self.end_wait();
        }
        let (asked, number) = Asked::of(serial, self.replies.oldest());
        match asked {
            Asked::Call | Asked::QueueStats | Asked::ReserveJob | Asked::Use | Asked::Watch => {
                self.handle_rare_reply((asked, number), reply, out);
            }
            _ => self.replies.close(number, out, |out| reply::write(asked, reply, out)),
        }
    }

    /// The reply to a command that also concerns the session.
    #[cold]
    fn handle_rare_reply(
        &mut self,
        (asked, number): (Asked, u32),
        reply: &Reply<'_>,
        out: &mut OutBuf,
    ) {
        match asked {
            Asked::Call => {
                if let Some(call) = &mut self.call {
                    call.handle_reply(reply);
                }
                self.state = State::Calling(number);
            }
            Asked::ReserveJob => {
                if let Reply::Job(_) = reply {
                    self.note_worker();
                }
                self.replies.close(number, out, |out| reply::write(asked, reply, out));
            }
            _ => self.answer_about_tube((asked, number), reply, out),
        }
    }

    /// Answers a command for which all later ones wait.
    fn answer_about_tube(
        &mut self,
        (asked, number): (Asked, u32),
        reply: &Reply<'_>,
        out: &mut OutBuf,
    ) {
        let (used, count) = (&self.used, self.watched.len());
        let (tube, counters) = (&self.asked_tube, &self.counters);
        self.replies.close(number, out, |out| match (asked, reply) {
            (Asked::Use, Reply::Done) => reply::write_using(used, out),
            (Asked::Watch, Reply::Done) => reply::write_watching(count, out),
            (Asked::QueueStats, Reply::Consumer(ConsumerReply::Queue(queue))) => {
                stats::write_tube(tube, queue, counters, out);
            }
            (Asked::QueueStats, Reply::NoJob) => out.extend_from_slice(reply::NOT_FOUND),
            _ => reply.unexpected(),
        });
    }

    /// The command with this serial takes several passes: later ones wait for its reply.
    pub(super) fn handle_deferral(&mut self, serial: u32) {
        if self.state == State::Open {
            self.state = State::Waiting(serial);
            self.is_deferred = true;
        }
    }

    /// The reserve that waits, and is cancelled when its client sends no more.
    pub(super) fn waits_for(&self) -> Option<u32> {
        match self.state {
            State::Waiting(serial) if !self.is_deferred => Some(serial),
            _ => None,
        }
    }

    /// Whether it has something to do without further input.
    pub(super) fn wants_poll(&self) -> bool {
        matches!(self.state, State::Calling(_))
    }

    /// The bytes of an answer that is being made. O(1).
    pub(super) fn buffered_bytes(&self) -> usize {
        self.call.as_ref().map_or(0, |call| call.text_bytes())
    }

    #[inline]
    pub(super) fn wants_input(&self) -> bool {
        match self.state {
            State::Open => self.replies.len() < IN_FLIGHT_MAX,
            State::Waiting(_) | State::Calling(_) | State::Authenticating { .. } => false,
            _ => true,
        }
    }

    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.replies.len() == 0
    }
}

//! The networked priority queue: binary packets over TCP (`docs/protocols/pinpriq.md`).
//!
//! ```text
//!            push, pop            reply
//!   Open ----------------> submit ------> a pop's packets, in its turn
//!     |  credit and subscription, no open pop
//!     +------------------> submit an open pop from all subscribed queues
//!     |                      |  packets ----> a delivery, one credit less
//!     |                      +  cancelled --> submitted again later
//!     |  a byte that begins no request
//!     +------------------> Failed: further input is discarded
//! ```
//!
//! A web page can make a browser send an HTTP request here, with a body of its choice, and `POST`
//! begins like a pop from a queue whose name is 20,307 bytes long. A connection fails therefore if
//! its first request could also be the beginning of an HTTP request: that is one about a queue
//! whose name is 8 KB long or longer.
//!
//! Invariants:
//! - there is at most one open pop, and only with a credit; the next one is submitted before the
//!   next request is read, so packets that arrive one by one are delivered in the order of their
//!   pushes;
//! - a delivery does not wait for other replies, nor they for it: the serial of an open pop is not
//!   among the ordered replies;
//! - while a long answer is being written, turn by turn, no request is executed and no open pop is
//!   submitted;
//! - the queues of the open pop are those of the subscriptions.
//!
//! An open pop from the same queues as the last one says so ([`Wait::Again`]): its cost does not
//! grow with their number. The work for subscriptions in one turn is bounded
//! (`SUBSCRIPTION_NAMES_PER_TURN`); the rest comes first in the next turn.
//!
//! The length fields bound a packet, so `--max-request` does not apply.

mod answers;
mod reply;
#[cfg(test)]
mod tests;

use super::{SessionAction, SessionContext};
use crate::access::{Denial, Right};
use crate::base::buf::{Input, OutBuf};
use crate::base::limits::{
    HTTP_TARGET_MAX_BYTES, IN_FLIGHT_MAX, SUBSCRIBED_NAMES_MAX_BYTES, SUBSCRIPTION_NAME_WORK,
    SUBSCRIPTION_NAMES_PER_TURN, SUBSCRIPTIONS_MAX, WRITTEN_BYTES_PER_WORK,
};
use crate::base::strings::StringList;
use crate::model::command::{Command, Wait};
use crate::model::driver::Incident;
use crate::model::job::{Encoding, JobOptions, Packet, Payload, Priority, TieBreak};
use crate::model::reply::Reply;
use crate::wire::http::{is_request_line, may_begin_request};
use crate::wire::packets::{self, Framed, Request};
use answers::Answers;
use memchr::memchr;

/// The work of an open pop besides its queues, in the unit of `SUBSCRIPTION_NAMES_PER_TURN`.
const OPEN_POP_WORK: usize = 32;

/// Queues of an open pop that begins anew in the turn of a read. One from more of them is left to a
/// turn that is resumed, so that other clients with short requests do not wait for it.
const QUEUES_AT_ONCE: usize = 256;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Requests are executed.
    #[default]
    Open,
    /// The same, but nothing is delivered: it would not arrive.
    OutputBroken,
    /// Further input is discarded.
    Failed,
}

/// The session of one pinpriq connection.
#[derive(Debug, Default)]
pub struct Session {
    answers: Answers,
    /// The queues of the subscriptions, without duplicates, in the order of subscription.
    queues: StringList,
    /// Deliveries that the client has permitted.
    credits: u32,
    /// The serial of the open pop, which waits in all of `queues`.
    open_pop: Option<u32>,
    /// Whether the next open pop begins anew: `queues` are not those of the last one, or it was
    /// cancelled.
    has_new_queues: bool,
    /// Whether a long open pop was left to a turn of its own.
    has_yielded: bool,
    /// The serial of a command that changes the queues of the open pop. No other request is read
    /// until it is answered.
    pending_update: Option<u32>,
    /// The serial of a pop that takes several passes, with the same effect.
    deferred_pop: Option<u32>,
    state: State,
    /// A request other than credit was read.
    has_request: bool,
}

impl Session {
    pub(super) fn poll_command<'s, 'i: 's>(
        &mut self,
        input: &mut Input<'i>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        if self.answers.has_unwritten() {
            if self.state == State::OutputBroken {
                self.answers.drop_unwritten();
                return SessionAction::Continue;
            }
            let work = self.answers.write_some(out) / WRITTEN_BYTES_PER_WORK;
            shared.turn.work += work / SUBSCRIPTION_NAME_WORK;
            let is_enough = shared.turn.work >= SUBSCRIPTION_NAMES_PER_TURN;
            return if is_enough { SessionAction::Yield } else { SessionAction::Continue };
        }
        if self.state == State::Failed {
            input.consume(input.unread().len());
            return SessionAction::NeedInput;
        }
        if !self.is_free() {
            return SessionAction::Stalled;
        }
        if shared.turn.work >= SUBSCRIPTION_NAMES_PER_TURN {
            return SessionAction::Yield;
        }
        if self.has_pending_submit() {
            if self.has_new_queues && self.queues.len() > QUEUES_AT_ONCE && !self.has_yielded {
                self.has_yielded = true;
                return SessionAction::Yield;
            }
            return SessionAction::SubmitPending;
        }
        let start = input.unread();
        match packets::next(input) {
            Framed::Incomplete if !self.has_request && is_http(start) => {
                self.fail(Incident::OtherProtocol)
            }
            Framed::Incomplete => SessionAction::NeedInput,
            Framed::Request(request) if !self.has_request && request != Request::Ready => {
                let whole = &start[..start.len() - input.unread().len()];
                if may_begin_request(whole) {
                    return self.fail(Incident::OtherProtocol);
                }
                self.has_request = true;
                self.handle_request(request, shared, out)
            }
            Framed::Request(request) => self.handle_request(request, shared, out),
            Framed::Unknown(byte) => self.fail(Incident::UnknownRequest(byte)),
        }
    }

    fn handle_request<'s, 'i: 's>(
        &mut self,
        request: Request<'i>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        match request {
            Request::Push { queue, ttl_ms, priority, key_len, packet } => {
                shared.scratch.options =
                    JobOptions { ttl_ms: u64::from(ttl_ms), ..JobOptions::default() };
                let payload = Payload { encoding: Encoding::Packet { key_len }, bytes: packet };
                let command = Command::Put {
                    queue,
                    priority: priority_of(priority),
                    tie_break: TieBreak::Lifo,
                    payload,
                    options: (ttl_ms > 0).then_some(&shared.scratch.options),
                };
                SessionAction::Submit(self.next_serial(out), command)
            }
            Request::Pop { queue } => {
                shared.scratch.queues.clear();
                shared.scratch.queues.push(queue);
                let queues = shared.scratch.queues.from(0);
                SessionAction::Submit(
                    self.next_serial(out),
                    Command::Pop { queues, wait: Wait::No },
                )
            }
            Request::Subscribe { queue } => {
                shared.turn.work += self.queues.len();
                self.subscribe(queue, out)
            }
            Request::Unsubscribe { queue } => {
                shared.turn.work += self.queues.len();
                self.unsubscribe(queue, out)
            }
            Request::Ready => {
                self.credits = self.credits.saturating_add(1);
                SessionAction::Continue
            }
        }
    }

    fn subscribe<'s>(&mut self, queue: &'s [u8], out: &mut OutBuf) -> SessionAction<'s> {
        if self.queues.position(queue).is_some() {
            return SessionAction::Continue;
        }
        let total = self.queues.total() + queue.len();
        if self.queues.len() == SUBSCRIPTIONS_MAX || total > SUBSCRIBED_NAMES_MAX_BYTES {
            return self.fail(Incident::TooManySubscriptions);
        }
        self.queues.push(queue);
        let Some(serial) = self.open_pop else {
            self.has_new_queues = true;
            return SessionAction::Continue;
        };
        self.update_subscription(Command::Subscribe { serial, queue }, out)
    }

    fn unsubscribe<'s>(&mut self, queue: &'s [u8], out: &mut OutBuf) -> SessionAction<'s> {
        let Some(number) = self.queues.position(queue) else { return SessionAction::Continue };
        self.queues.remove(number);
        let Some(serial) = self.open_pop else {
            self.has_new_queues = true;
            return SessionAction::Continue;
        };
        self.update_subscription(Command::Unsubscribe { serial, queue }, out)
    }

    fn update_subscription<'s>(
        &mut self,
        command: Command<'s>,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        assert!(self.pending_update.is_none(), "one update of the open pop at a time");
        let serial = self.next_serial(out);
        self.pending_update = Some(serial);
        SessionAction::Submit(serial, command)
    }

    /// The open pop that is due. `None`: the work of this turn is at its bound.
    pub(super) fn poll_pending_submit<'s>(
        &'s mut self,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> Option<(u32, Command<'s>)> {
        debug_assert!(self.has_pending_submit(), "no pop is due");
        (shared.turn.work < SUBSCRIPTION_NAMES_PER_TURN).then(|| self.submit_open_pop(shared, out))
    }

    /// A pop from all subscribed queues, which waits.
    fn submit_open_pop<'s>(
        &'s mut self,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> (u32, Command<'s>) {
        assert!(self.credits > 0 && self.open_pop.is_none(), "a pop without a credit");
        let serial = self.next_serial(out);
        // A delivery is not ordered among the replies, so its place is given up at once.
        self.answers.close(serial, out, |_| {});
        self.open_pop = Some(serial);
        let has_new_queues = std::mem::take(&mut self.has_new_queues);
        self.has_yielded = false;
        let names = if has_new_queues { self.queues.len() } else { 0 };
        shared.turn.work += OPEN_POP_WORK + names;
        let wait = if has_new_queues { Wait::Forever } else { Wait::Again };
        (serial, Command::Pop { queues: self.queues.from(0), wait })
    }

    /// A serial that no pending command has, the open pop included, which may be older than 2^32
    /// commands.
    fn next_serial(&mut self, out: &mut OutBuf) -> u32 {
        let mut serial = self.answers.replies.open();
        if self.open_pop == Some(serial) {
            self.answers.close(serial, out, |_| {});
            serial = self.answers.replies.open();
        }
        serial
    }

    #[cold]
    fn fail(&mut self, incident: Incident) -> SessionAction<'static> {
        self.state = State::Failed;
        SessionAction::ProtocolError(incident)
    }

    /// The command with this serial takes several passes.
    pub(super) fn handle_deferral(&mut self, serial: u32) {
        if self.open_pop != Some(serial) && self.pending_update != Some(serial) {
            self.deferred_pop = Some(serial);
        }
    }

    pub(super) fn handle_reply(
        &mut self,
        serial: u32,
        reply: &mut Reply<'_>,
        out: &mut OutBuf,
    ) -> Option<Incident> {
        if self.open_pop == Some(serial) {
            self.open_pop = None;
            match reply {
                Reply::Packets(packets) => {
                    self.credits -= 1;
                    self.answers.deliver(packets, out);
                }
                Reply::KeyGroup(packets) => {
                    self.credits -= 1;
                    self.answers.deliver_all(std::mem::take(packets), out);
                }
                Reply::Cancelled => self.has_new_queues = true,
                other => other.unexpected(),
            }
            return None;
        }
        if self.pending_update == Some(serial) {
            self.pending_update = None;
            self.has_new_queues |= !matches!(reply, Reply::Done);
            self.answers.close(serial, out, |_| {});
            return None;
        }
        if self.deferred_pop == Some(serial) {
            self.deferred_pop = None;
        }
        match reply {
            Reply::KeyGroup(packets) => {
                self.answers.close_with(serial, std::mem::take(packets), out);
            }
            _ => self.answers.close(serial, out, |out| reply::write(reply, out)),
        }
        match reply {
            Reply::Rejected(why) => Some(Incident::JobDropped(*why)),
            Reply::TooLarge(id) => Some(Incident::TooLarge(*id)),
            _ => None,
        }
    }

    /// The command with this serial is not executed. A push is dropped, a pop answered as one of an
    /// empty queue; a subscriber, which would wait in vain, is disconnected.
    pub(super) fn handle_denial(
        &mut self,
        serial: Option<u32>,
        denial: &Denial,
        out: &mut OutBuf,
    ) -> (Option<Incident>, bool) {
        let incident = Some(Incident::Denied(denial.to_string().into()));
        let Some(serial) = serial else { return (incident, false) };
        if self.open_pop == Some(serial) {
            self.open_pop = None;
            self.state = State::Failed;
            return (incident, true);
        }
        let is_update = self.pending_update == Some(serial);
        // No answer says that the server is unavailable: a push would be lost, a queue seem empty.
        let ends = is_update || matches!(denial, Denial::Unavailable(_));
        if is_update {
            self.pending_update = None;
        }
        if ends {
            self.state = State::Failed;
        }
        let is_pop = matches!(denial, Denial::Missing { right: Right::Take, .. }) && !is_update;
        self.answers.close(serial, out, |out| {
            if is_pop {
                reply::write(&Reply::NoJob, out);
            }
        });
        (incident, ends)
    }

    /// Nothing is delivered from now on: the output no longer reaches the peer.
    pub(super) fn handle_broken_output(&mut self) {
        if self.state == State::Open {
            self.state = State::OutputBroken;
        }
    }

    /// Whether an open pop has to be submitted before the next request.
    pub(super) fn has_pending_submit(&self) -> bool {
        self.credits > 0
            && self.open_pop.is_none()
            && !self.queues.is_empty()
            && self.state == State::Open
            && self.is_free()
            && !self.answers.has_unwritten()
    }

    fn is_free(&self) -> bool {
        self.pending_update.is_none()
            && self.deferred_pop.is_none()
            && self.answers.replies.len() < IN_FLIGHT_MAX
    }

    pub(super) fn open_subscription(&self) -> Option<u32> {
        self.open_pop
    }

    pub(super) fn wants_input(&self) -> bool {
        self.state == State::Failed || self.is_free()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.answers.replies.len() == 0 && self.open_pop.is_none() && !self.answers.has_unwritten()
    }

    /// Whether a long answer is to be written.
    pub(super) fn wants_poll(&self) -> bool {
        self.answers.has_unwritten()
    }

    /// The bytes of long answers that are not written. O(1).
    pub(super) fn buffered_bytes(&self) -> usize {
        self.answers.stored_bytes()
    }

    /// Takes out the packets of answers that are not written: the session ends.
    pub(super) fn take_packets(&mut self) -> Vec<std::vec::IntoIter<Packet>> {
        self.answers.take_packets()
    }
}

/// Whether an incomplete request begins like a line of HTTP.
fn is_http(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(HTTP_TARGET_MAX_BYTES)];
    memchr(b'\n', start).is_some_and(|end| {
        let line = &start[..end];
        is_request_line(line.strip_suffix(b"\r").unwrap_or(line))
    })
}

/// 1 is the most urgent, 255 the least urgent, 0 has none.
fn priority_of(priority: u8) -> Priority<'static> {
    match priority {
        0 => Priority::Unselected,
        _ => Priority::Small(-i64::from(priority)),
    }
}

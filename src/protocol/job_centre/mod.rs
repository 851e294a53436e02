//! The Job Centre protocol: JSON lines over TCP (`docs/protocols/job-centre.md`).
//!
//! ```text
//!            line                          reply
//!   Open ------------> submit -> Open  ------------> write it in its turn
//!    ^ |  get that may wait
//!    | +--------------> submit -> Waiting --- job ---> write it; Open
//!    |                              |
//!    |                              +---- cancelled -> Ended: further input is discarded
//!  Fresh --- first line of another protocol ------------^
//! ```
//!
//! A session that waits takes no further request, so later requests are executed afterwards. The
//! same holds for a get that does not wait, but whose answer takes several passes, because jobs are
//! just coming back or are being looked through. A malformed line is answered in its place, and the
//! next line is handled normally.
//!
//! Exception: a first line that belongs to another protocol. A web page can make a browser connect
//! to any port and controls part of what follows that line (the body of an HTTP request, a ticket
//! in a TLS handshake). Nothing of it is executed.

mod authentication;
mod native;
mod native_request;
mod reply;
mod request;
mod request_cache;
mod request_fields;

use super::operations::{PromptCall, parse_line};
use super::ordered_replies::OrderedReplies;
use super::{SessionAction, SessionContext};
use crate::base::buf::{Input, OutBuf};
use crate::base::limits::IN_FLIGHT_MAX;
use crate::base::time::Now;
use crate::model::command::{Command, Wait};
use crate::model::driver::Incident;
use crate::model::manage::ManageCommand;
use crate::model::reply::Reply;
use crate::wire::http::{is_request_line, may_begin_request};
use crate::wire::lines::{Framed, LineReader};
use memchr::memchr;
use native::NativeCalls;
pub(super) use native_request::NativeScratch;
pub(super) use reply::{write_closing, write_full};
use request::RequestError;
use request_cache::CachedRequest;
pub(super) use request_cache::RequestCache;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// They are handled, unless the first line belongs to another protocol.
    #[default]
    Fresh,
    /// They are handled.
    Open,
    /// They wait until the request of the native API is submitted, which is next.
    Parsed,
    /// The same, once the server has done what that request asks of it: the server polls then.
    Awaiting,
    /// They are not executed: the client has to say first who it is.
    Locked,
    /// They wait until that is looked up. Whether the client was locked.
    Authenticating(bool),
    /// They wait until the reserve, or the request of the native API, with this serial is answered.
    Waiting(u32),
    /// They are discarded.
    Ended,
}

/// The session of one Job Centre connection.
#[derive(Debug, Default)]
pub struct Session {
    lines: LineReader,
    replies: OrderedReplies,
    state: State,
    /// The requests of the native API that are not answered, if there are any.
    native: Option<Box<NativeCalls>>,
    /// Whether the reserve that is waited for does not wait of itself.
    deferred: bool,
}

impl Session {
    #[inline(always)]
    pub(super) fn poll_command<'s, 'i: 's>(
        &mut self,
        input: &mut Input<'i>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        if self.state != State::Open || self.replies.len() >= IN_FLIGHT_MAX {
            match self.state {
                State::Parsed | State::Awaiting => return self.submit_native(shared, out),
                State::Open | State::Waiting(_) => return SessionAction::Stalled,
                State::Locked | State::Authenticating(_) => {
                    return self.poll_unauthenticated(input, shared, out);
                }
                State::Fresh => {
                    if let Some(step) = self.begin(input, shared.settings.max_request, out) {
                        return step;
                    }
                }
                State::Ended => {
                    input.consume(input.unread().len());
                    return SessionAction::NeedInput;
                }
            }
        }
        let line = match self.lines.next(input, shared.settings.max_request) {
            Framed::Incomplete => return SessionAction::NeedInput,
            Framed::Line(line) => line,
            Framed::TooLong => {
                self.reject(&RequestError::TooLong { max: shared.settings.max_request }, out);
                return SessionAction::Continue;
            }
        };
        match shared.scratch.request_cache.find(line) {
            Some(CachedRequest::Plain(known)) => {
                return self.submit(shared.scratch.request_cache.command(known));
            }
            Some(CachedRequest::NativeGet(slot)) => {
                self.begin_native(shared.scratch.request_cache.native_get(slot));
                return SessionAction::Continue;
            }
            None => {}
        }
        match request::parse(
            line,
            &mut shared.scratch.json,
            &mut shared.scratch.request_cache,
            &mut shared.scratch.options,
            &mut shared.scratch.native_line,
        ) {
            Ok(command) => self.submit(command),
            Err(error) => self.begin_or_reject(line, error, shared.turn.now, out),
        }
    }

    /// Begins a request of the native API, or answers a line that is no request. By value: the
    /// frequent path does not drop what is wrong.
    #[cold]
    fn begin_or_reject(
        &mut self,
        line: &[u8],
        error: RequestError,
        now: Now,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        match error {
            RequestError::NativeGet(args) => self.begin_native(args),
            RequestError::Native(kind) => match parse_line(kind, line, now) {
                Ok(args) => self.begin_native(Arc::new(args)),
                Err(problem) => self.reject(&RequestError::Problem(Box::new(problem)), out),
            },
            problem => return self.reject_or_authenticate(line, &problem, out),
        }
        SessionAction::Continue
    }

    /// Submits the command of a request, and waits for its reply if that may come late.
    #[inline(always)]
    fn submit<'s>(&mut self, command: Command<'s>) -> SessionAction<'s> {
        let serial = self.replies.open();
        match command {
            Command::Reserve { wait: Wait::Forever | Wait::Milliseconds(_), .. } => {
                self.state = State::Waiting(serial);
            }
            Command::Manage(ManageCommand::Report { id, report, .. }) => {
                self.expect_native(serial, PromptCall::of_report(id, report));
            }
            _ => {}
        }
        SessionAction::Submit(serial, command)
    }

    /// Checks the first bytes of a connection. `None`: the line is parsed like any other.
    #[cold]
    fn begin(
        &mut self,
        input: &mut Input<'_>,
        max: usize,
        out: &mut OutBuf,
    ) -> Option<SessionAction<'static>> {
        let start = input.unread();
        let first = *start.first()?;
        if !b"{ \t\r\n".contains(&first) {
            let end = memchr(b'\n', &start[input.scanned()..]).map(|at| input.scanned() + at);
            let line = &start[..end.unwrap_or(start.len())];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if first < b' ' {
                return Some(self.reject_and_close(&RequestError::Foreign, out));
            } else if line.len() > max {
                // The protocol version at the end of the line was discarded, so its beginning must
                // decide.
                if may_begin_request(&line[..=max]) {
                    return Some(self.reject_and_close(&RequestError::NoRequest { max }, out));
                }
            } else if end.is_some() && is_request_line(line) {
                return Some(self.reject_and_close(&RequestError::Http, out));
            } else if end.is_none() {
                input.set_scanned(start.len());
                return Some(SessionAction::NeedInput);
            }
        }
        self.state = State::Open;
        None
    }

    #[cold]
    fn reject_and_close(
        &mut self,
        problem: &RequestError,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        self.reject(problem, out);
        self.state = State::Ended;
        SessionAction::ProtocolError(Incident::OtherProtocol)
    }

    #[cold]
    fn reject(&mut self, problem: &RequestError, out: &mut OutBuf) {
        let serial = self.replies.open();
        self.replies.close(serial, out, |line| reply::write_request_error(problem, line));
    }

    #[inline]
    pub(super) fn handle_reply(&mut self, serial: u32, reply: &Reply<'_>, out: &mut OutBuf) {
        if self.state == State::Waiting(serial) {
            self.state = State::Open;
            self.deferred = false;
            if let Reply::Cancelled = reply {
                self.state = State::Ended;
            }
        }
        if self.native.is_some() && self.answer_native(serial, reply, out) {
            return;
        }
        self.replies.close(serial, out, |line| reply::write(reply, line));
    }

    /// The reserve with this serial takes several passes, though it does not wait: later requests
    /// wait for it.
    pub(super) fn handle_deferral(&mut self, serial: u32) {
        if self.state == State::Open {
            self.state = State::Waiting(serial);
            self.deferred = true;
        }
    }

    /// The reserve that waits, and is cancelled when its client leaves.
    pub(super) fn waits_for(&self) -> Option<u32> {
        match self.state {
            State::Waiting(serial) if !self.deferred => Some(serial),
            _ => None,
        }
    }

    /// Whether a request of the native API is submitted next.
    #[inline]
    pub(super) fn wants_poll(&self) -> bool {
        self.state == State::Parsed
    }

    #[inline]
    pub(super) fn wants_input(&self) -> bool {
        self.state == State::Ended
            || matches!(self.state, State::Fresh | State::Locked)
            || (self.state == State::Open && self.replies.len() < IN_FLIGHT_MAX)
    }

    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.replies.len() == 0
    }
}

//! The Job Centre protocol: JSON lines over TCP (`protocols/job-centre.md`).
//!
//! ```text
//!            line                          reply
//!   Open ------------> submit -> Open  ------------> write it in its turn
//!     |  get that may wait
//!     +--------------> submit -> Waiting --- job ---> write it; Open
//!                                   |
//!                                   +---- cancelled -> Ended: what follows is passed over
//! ```
//!
//! While it waits, a session takes no further request, so that later ones are executed afterwards.
//! An ill-formed line is answered at its place in the order, and the next line is served normally.

mod memo;
mod reply;
mod request;

use super::reply_line::ReplyLine;
use super::{Shared, Step};
use crate::base::buf::{Input, OutBuf};
use crate::base::limits::IN_FLIGHT_MAX;
use crate::model::command::{Command, Wait};
use crate::model::reply::Reply;
use crate::wire::lines::{Framed, LineReader};
pub(super) use memo::Memo;
pub(super) use reply::write_full;
use request::Problem;

/// Whether further requests are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// They are.
    #[default]
    Open,
    /// Not until the take with this serial is answered.
    Waiting(u32),
    /// Never again.
    Ended,
}

/// One client's side of the protocol.
#[derive(Debug, Default)]
pub struct Session {
    lines: LineReader,
    replies: ReplyLine,
    state: State,
}

impl Session {
    #[inline(always)]
    pub(super) fn poll_command<'s, 'i: 's>(
        &mut self,
        input: &mut Input<'i>,
        shared: &'s mut Shared,
        out: &mut OutBuf,
    ) -> Step<'s> {
        match self.state {
            State::Open if self.replies.len() < IN_FLIGHT_MAX => {}
            State::Open | State::Waiting(_) => return Step::Blocked,
            State::Ended => {
                input.consume(input.unread().len());
                return Step::Hungry;
            }
        }
        let line = match self.lines.next(input, shared.max_request) {
            Framed::Incomplete => return Step::Hungry,
            Framed::Line(line) => line,
            Framed::TooLong => {
                self.reject(&Problem::TooLong { max: shared.max_request }, out);
                return Step::Answered;
            }
        };
        match request::parse(line, &mut shared.json, &mut shared.memo, &mut shared.terms) {
            Ok(command) => {
                let serial = self.replies.open();
                if matches!(
                    command,
                    Command::Take { wait: Wait::Forever | Wait::Milliseconds(_), .. }
                ) {
                    self.state = State::Waiting(serial);
                }
                Step::Submit(serial, command)
            }
            Err(problem) => {
                self.reject(&problem, out);
                Step::Answered
            }
        }
    }

    #[cold]
    fn reject(&mut self, problem: &Problem, out: &mut OutBuf) {
        let serial = self.replies.open();
        self.replies.close(serial, out, |line| reply::write_error(problem, line));
    }

    #[inline]
    pub(super) fn handle_reply(&mut self, serial: u32, reply: &Reply<'_>, out: &mut OutBuf) {
        let waited = self.state == State::Waiting(serial);
        if waited {
            self.state = State::Open;
        }
        if let Reply::Cancelled = reply {
            assert!(waited, "a take was cancelled that did not wait");
            self.state = State::Ended;
        }
        self.replies.close(serial, out, |line| reply::write(reply, line));
    }

    pub(super) fn waits_for(&self) -> Option<u32> {
        match self.state {
            State::Waiting(serial) => Some(serial),
            State::Open | State::Ended => None,
        }
    }

    #[inline]
    pub(super) fn wants_input(&self) -> bool {
        self.state == State::Ended
            || (self.state == State::Open && self.replies.len() < IN_FLIGHT_MAX)
    }

    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.replies.len() == 0
    }
}

//! Clients that say who they are, by a verb of this server's own, `auth TOKEN`, and commands that
//! they may not give: both are answered `UNAUTHORIZED` where beanstalkd has no word.

use super::asked::Asked;
use super::line::{Framed, Request, first_line, parse};
use super::reply::{INTERNAL_ERROR, UNAUTHORIZED};
use super::{Session, State, reply};
use crate::access::{Denial, Digest};
use crate::base::buf::{Input, OutBuf};
use crate::model::driver::Incident;
use crate::protocol::{Authentication, Credential, SessionAction, SessionContext};
use crate::wire::http::is_request_line;

const OK: &[u8] = b"OK\r\n";

/// The token in a line that says who the client is, as its digest.
fn token(line: &[u8]) -> Option<Digest> {
    line.strip_prefix(b"auth ").map(|token| Digest::of(token.trim_ascii()))
}

impl Session {
    pub(in crate::protocol) fn lock(&mut self) {
        self.state = State::Locked;
    }

    pub(in crate::protocol) fn unlock(&mut self) {
        match self.state {
            State::Locked => self.state = State::Fresh,
            // The put whose body is passed over is refused all the same.
            State::LockedSkipping { ref mut unlocks, .. } => *unlocks = true,
            State::Authenticating { ref mut was_locked } => *was_locked = false,
            _ => {}
        }
    }

    pub(in crate::protocol) fn is_locked(&self) -> bool {
        matches!(
            self.state,
            State::Locked
                | State::LockedSkipping { unlocks: false, .. }
                | State::Authenticating { was_locked: true }
        )
    }

    /// Takes a line of a client that has not said who it is: nothing but that is executed.
    #[cold]
    pub(super) fn poll_locked(
        &mut self,
        input: &mut Input<'_>,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        let (line, length) = match first_line(input.unread()) {
            Framed::Incomplete => return SessionAction::NeedInput,
            Framed::TooLong => {
                self.answer(out, UNAUTHORIZED);
                self.state = State::Ended;
                return SessionAction::Close;
            }
            Framed::Line(line, length) => (line, length),
        };
        input.consume(length);
        if let Some(token) = token(line) {
            self.state = State::Authenticating { was_locked: true };
            return SessionAction::Authenticate(Credential::Token(token));
        }
        if is_request_line(line) {
            self.answer(out, reply::UNKNOWN_COMMAND);
            self.state = State::Ended;
            return SessionAction::ProtocolError(Incident::OtherProtocol);
        }
        match parse(line) {
            Ok(Request::Quit) => {
                self.state = State::Ended;
                SessionAction::End
            }
            Ok(Request::Put(put)) => {
                let left = u64::from(put.bytes) + 2;
                self.state = State::LockedSkipping { left, unlocks: false };
                SessionAction::Continue
            }
            _ => self.answer(out, UNAUTHORIZED),
        }
    }

    /// Passes over the body of a put of a client that has not said who it is.
    #[cold]
    pub(super) fn skip_locked(
        &mut self,
        (left, unlocks): (u64, bool),
        input: &mut Input<'_>,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        let unread = input.unread().len();
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(unread);
        input.consume(count);
        let left = left - count as u64;
        if left > 0 {
            self.state = State::LockedSkipping { left, unlocks };
            return SessionAction::NeedInput;
        }
        self.state = if unlocks { State::Open } else { State::Locked };
        self.answer(out, UNAUTHORIZED)
    }

    /// Answers a line that is no command, unless it says who the client is. `length`: of the line
    /// with its end, at the start of `unread`.
    #[cold]
    pub(super) fn reject_or_authenticate(
        &mut self,
        unread: &[u8],
        length: usize,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        match token(&unread[..length.saturating_sub(2)]) {
            Some(token) => {
                self.state = State::Authenticating { was_locked: false };
                SessionAction::Authenticate(Credential::Token(token))
            }
            None => self.answer(out, reply::UNKNOWN_COMMAND),
        }
    }

    /// Answers the client that has said who it is.
    #[cold]
    pub(super) fn poll_authentication(
        &mut self,
        was_locked: bool,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        let Some(outcome) = shared.turn.authentication.take() else {
            return SessionAction::Authenticate(Credential::Again);
        };
        if outcome == Authentication::Later {
            return SessionAction::Stalled;
        }
        self.state = State::Open;
        match outcome {
            Authentication::User(_) => self.answer(out, OK),
            Authentication::NoUsers => self.answer(out, reply::UNKNOWN_COMMAND),
            Authentication::WrongToken { is_last: true } => {
                self.answer(out, UNAUTHORIZED);
                self.state = State::Ended;
                SessionAction::Close
            }
            Authentication::Unknown
            | Authentication::Later
            | Authentication::WrongToken { is_last: false } => {
                if was_locked {
                    self.state = State::Locked;
                }
                self.answer(out, UNAUTHORIZED)
            }
        }
    }

    /// The store does not hear that another tube is used, or that one is watched or no more.
    fn undo_interest(&mut self, asked: Asked) {
        let tube = std::mem::take(&mut self.asked_tube);
        if asked == Asked::Use {
            self.set_used(tube);
        } else if let Some(number) = self.watched.position(&tube) {
            self.watched.remove(number);
        } else {
            self.watched.push(&tube);
        }
        self.rename();
    }

    /// Answers the command with this serial, or the call that is under way.
    pub(in crate::protocol) fn handle_denial(
        &mut self,
        serial: Option<u32>,
        denial: &Denial,
        out: &mut OutBuf,
    ) {
        let answer = match denial {
            Denial::Unavailable(_) => INTERNAL_ERROR,
            _ => UNAUTHORIZED,
        };
        let number = match (serial, self.state) {
            (Some(serial), state) => {
                let (asked, number) = Asked::of(serial, self.replies.oldest());
                match asked {
                    Asked::Call => self.call = None,
                    Asked::Use | Asked::Watch => self.undo_interest(asked),
                    _ => {}
                }
                if state == State::Waiting(serial) {
                    self.state = State::Open;
                    self.is_deferred = false;
                    self.end_wait();
                }
                number
            }
            (None, State::Calling(number)) => {
                self.call = None;
                self.state = State::Open;
                number
            }
            (None, _) => return,
        };
        self.replies.close(number, out, |out| out.extend_from_slice(answer));
    }
}

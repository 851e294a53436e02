//! States in which input is discarded, or not looked at.

use super::line::{Framed, find_crlf, first_line};
use super::{Session, State, reply};
use crate::base::buf::{Input, OutBuf};
use crate::model::driver::Incident;
use crate::protocol::{SessionAction, SessionContext};
use crate::wire::http::{is_request_line, may_begin_request};

impl Session {
    /// States in which no command is executed. `None`: the first line is parsed like any other.
    #[cold]
    pub(super) fn poll_cold(
        &mut self,
        input: &mut Input<'_>,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> Option<SessionAction<'static>> {
        let unread = input.unread();
        match self.state {
            State::Discarding => {
                let Some(end) = find_crlf(unread) else {
                    let kept = usize::from(unread.last() == Some(&b'\r'));
                    input.consume(unread.len() - kept);
                    return Some(SessionAction::NeedInput);
                };
                input.consume(end + 2);
                self.state = State::Open;
                Some(self.answer(out, reply::BAD_FORMAT))
            }
            State::Skipping(left) => {
                let count = usize::try_from(left).unwrap_or(usize::MAX).min(unread.len());
                input.consume(count);
                let left = left - count as u64;
                if left > 0 {
                    self.state = State::Skipping(left);
                    return Some(SessionAction::NeedInput);
                }
                self.state = State::Open;
                Some(self.answer(out, reply::JOB_TOO_BIG))
            }
            State::Locked => Some(self.poll_locked(input, out)),
            State::LockedSkipping { left, unlocks } => {
                Some(self.skip_locked((left, unlocks), input, out))
            }
            State::Authenticating { was_locked } => {
                Some(self.poll_authentication(was_locked, shared, out))
            }
            State::Ended => {
                input.consume(unread.len());
                Some(SessionAction::NeedInput)
            }
            State::Fresh => {
                let is_foreign = match first_line(unread) {
                    Framed::Incomplete => return Some(SessionAction::NeedInput),
                    Framed::Line(line, _) => is_request_line(line),
                    Framed::TooLong => may_begin_request(unread) && unread.contains(&b' '),
                };
                self.state = State::Open;
                is_foreign.then(|| {
                    self.answer(out, reply::UNKNOWN_COMMAND);
                    self.state = State::Ended;
                    SessionAction::ProtocolError(Incident::OtherProtocol)
                })
            }
            State::Open | State::Waiting(_) | State::Calling(_) => Some(SessionAction::Stalled),
        }
    }
}

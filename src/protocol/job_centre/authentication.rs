//! Clients that say who they are, and requests that they may not make.

use super::request::RequestError;
use super::{Session, State};
use crate::access::Denial;
use crate::base::buf::{Input, OutBuf};
use crate::base::limits::AUTHENTICATION_LINE_MAX_BYTES;
use crate::protocol::operations::{ProblemKind, auth_token};
use crate::protocol::{Authentication, Credential, SessionAction, SessionContext};
use crate::wire::http::is_request_line;
use crate::wire::json::push_string;
use crate::wire::lines::Framed;

/// What a client is told that has not said who it is.
const HOW: &str = "authenticate first: send {\"request\":\"auth\",\"token\":\"...\"} with a token \
                   of a user of this server; nothing was carried out";

impl Session {
    pub(in crate::protocol) fn lock(&mut self) {
        self.state = State::Locked;
    }

    pub(in crate::protocol) fn unlock(&mut self) {
        match self.state {
            State::Locked => self.state = State::Fresh,
            State::Authenticating(_) => self.state = State::Authenticating(false),
            _ => {}
        }
    }

    pub(in crate::protocol) fn is_locked(&self) -> bool {
        matches!(self.state, State::Locked | State::Authenticating(true))
    }

    /// The client has not said who it is, or it is being looked up.
    #[cold]
    pub(super) fn poll_unauthenticated(
        &mut self,
        input: &mut Input<'_>,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        if let State::Authenticating(was_locked) = self.state {
            return self.poll_authentication(was_locked, shared, out);
        }
        self.poll_locked(input, shared.settings.max_request, out)
    }

    /// Takes a line of a client that has not said who it is: nothing but that is executed.
    fn poll_locked(
        &mut self,
        input: &mut Input<'_>,
        max: usize,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        let max = max.min(AUTHENTICATION_LINE_MAX_BYTES);
        match self.lines.next(input, max) {
            Framed::Incomplete => SessionAction::NeedInput,
            Framed::TooLong => {
                self.reject(&RequestError::TooLongToAuthenticate { max }, out);
                SessionAction::Continue
            }
            Framed::Line(line) if is_request_line(line) => {
                self.reject_and_close(&RequestError::Http, out)
            }
            Framed::Line(line) => match auth_token(line) {
                Some(Ok(token)) => {
                    self.state = State::Authenticating(true);
                    SessionAction::Authenticate(Credential::Token(token))
                }
                Some(Err(problem)) => {
                    self.reject(&RequestError::Problem(Box::new(problem)), out);
                    SessionAction::Continue
                }
                None => {
                    self.reject(&RequestError::Denied(ProblemKind::Unauthorized, HOW.into()), out);
                    SessionAction::Continue
                }
            },
        }
    }

    /// Answers a line that is no request, unless it says who the client is.
    #[cold]
    pub(super) fn reject_or_authenticate(
        &mut self,
        line: &[u8],
        problem: &RequestError,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        let is_auth = matches!(problem, RequestError::UnknownRequest(name) if name == "auth");
        match is_auth.then(|| auth_token(line)).flatten() {
            Some(Ok(token)) => {
                self.state = State::Authenticating(false);
                return SessionAction::Authenticate(Credential::Token(token));
            }
            Some(Err(problem)) => self.reject(&RequestError::Problem(Box::new(problem)), out),
            None => self.reject(problem, out),
        }
        SessionAction::Continue
    }

    /// Answers the client that has said who it is.
    fn poll_authentication(
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
        match &outcome {
            Authentication::User(name) => {
                let serial = self.replies.open();
                self.replies.close(serial, out, |line| {
                    line.extend_from_slice(b"{\"status\":\"ok\",\"user\":");
                    push_string(line, name.as_bytes());
                    line.extend_from_slice(b"}\n");
                });
            }
            Authentication::NoUsers => {
                let why = "this server has no users: requests need no authentication";
                self.reject(&RequestError::Denied(ProblemKind::WrongState, why.into()), out);
            }
            Authentication::Unknown | Authentication::WrongToken { .. } | Authentication::Later => {
                if was_locked {
                    self.state = State::Locked;
                }
                let why = "no user of this server has this token";
                self.reject(&RequestError::Denied(ProblemKind::Unauthorized, why.into()), out);
            }
        }
        if outcome_is_last(&outcome) {
            self.state = State::Ended;
            return SessionAction::Close;
        }
        SessionAction::Continue
    }

    /// Answers the request with this serial, or else the one that is next, by an error.
    pub(in crate::protocol) fn handle_denial(
        &mut self,
        serial: Option<u32>,
        denial: &Denial,
        out: &mut OutBuf,
    ) {
        let is_next = matches!(self.state, State::Parsed | State::Awaiting);
        if is_next || serial.is_some_and(|it| self.state == State::Waiting(it)) {
            self.state = State::Open;
            self.deferred = false;
        }
        self.forget_native(serial);
        let serial = serial.unwrap_or_else(|| self.replies.open());
        self.replies.close(serial, out, |line| super::reply::write_denial(denial, line));
    }
}

/// Whether the connection ends with this answer.
fn outcome_is_last(outcome: &Authentication) -> bool {
    matches!(outcome, Authentication::WrongToken { is_last: true })
}

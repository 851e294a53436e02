//! Who asks: each request may say so, by `Authorization` with a token, or else its connection.

use super::Session;
use super::phase::{Arrived, Phase, Submitted};
use crate::access::{Denial, Digest};
use crate::base::buf::{Input, OutBuf};
use crate::protocol::http::response::HttpError;
use crate::protocol::http::route::{Operation, RouteMatch};
use crate::protocol::http::session_cookie;
use crate::protocol::{Authentication, Credential, SessionAction, SessionContext};
use crate::wire::http::{Framing, RequestHead};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What `Authorization` says: `Bearer TOKEN`, or `Basic` with the token as password, after any
/// name. A scheme that is neither counts as a wrong token.
fn credential(field: Option<&[u8]>) -> Credential {
    let Some(field) = field else { return Credential::Peer };
    let end = field.iter().position(|&byte| byte == b' ').unwrap_or(field.len());
    let (scheme, value) = (&field[..end], field[end..].trim_ascii());
    let token = if scheme.eq_ignore_ascii_case(b"bearer") {
        Digest::of(value)
    } else if scheme.eq_ignore_ascii_case(b"basic")
        && let Ok(pair) = STANDARD.decode(value)
        && let Some(at) = pair.iter().position(|&byte| byte == b':')
    {
        Digest::of(&pair[at + 1..])
    } else {
        Digest::of(b"")
    };
    Credential::Token(token)
}

/// Whether a request is answered for every client. Of metrics the server decides. One for a host
/// that the server is not says so, lest its operator look for a token.
fn is_open(routed: &Result<RouteMatch, HttpError>) -> bool {
    match routed {
        Ok(call) => matches!(
            call.operation,
            Operation::Index
                | Operation::Health
                | Operation::OpenApi
                | Operation::Metrics
                | Operation::Page(_)
        ),
        Err(error) => error.status == 421,
    }
}

impl Session {
    /// Keeps a request until it is known who asks.
    #[cold]
    pub(super) fn ask_who(
        &mut self,
        head: &RequestHead<'_>,
        routed: Result<RouteMatch, HttpError>,
        shared: &mut SessionContext,
    ) -> SessionAction<'static> {
        shared.turn.authentication = None;
        self.phase = Phase::Authenticating(Box::new(Arrived {
            routed,
            framing: head.framing.unwrap_or(Framing::Length(0)),
            expect: head.expect,
            queue: shared.scratch.http.queue.clone(),
            query_text: shared.scratch.http.query_text.clone(),
        }));
        self.deadline = None;
        let credential = match (head.authorization, &shared.settings.cookie) {
            (None, name) => session_cookie::find(head.cookie, name)
                .map_or(Credential::Peer, Credential::Browser),
            (field, _) => credential(field),
        };
        SessionAction::Authenticate(credential)
    }

    /// Goes on with the request, or refuses it.
    #[cold]
    pub(super) fn authenticated<'s, 'i: 's>(
        &mut self,
        input: &mut Input<'i>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        let Some(outcome) = shared.turn.authentication.take() else {
            return SessionAction::Authenticate(Credential::Again);
        };
        if outcome == Authentication::Later {
            return SessionAction::Stalled;
        }
        let phase = std::mem::replace(&mut self.phase, Phase::Over);
        let Phase::Authenticating(arrived) = phase else { return SessionAction::Stalled };
        let Arrived { routed, framing, expect, queue, query_text } = *arrived;
        let why = match outcome {
            Authentication::WrongToken { is_last } => {
                self.format.close |= is_last;
                "no user of this server has the token of 'Authorization': send 'Bearer TOKEN', or \
                 'Basic' with the token as password"
            }
            Authentication::Unknown if !is_open(&routed) => {
                "authenticate first: send 'Authorization: Bearer TOKEN' with a token of a user of \
                 this server (curl -H, or -u user:TOKEN)"
            }
            _ => {
                shared.scratch.http.queue = queue;
                shared.scratch.http.query_text = query_text;
                return self.take_request(routed, (framing, expect), input, shared, out);
            }
        };
        // The body is not read.
        self.format.close |= framing != Framing::Length(0);
        self.respond_error(&HttpError::new(401, why), shared, out)
    }

    /// The request that is under way is not executed, or not to its end.
    pub(in crate::protocol) fn handle_denial(&mut self, denial: &Denial) {
        let status = match denial {
            Denial::Unauthenticated => 401,
            Denial::Unavailable(_) => 503,
            _ => 403,
        };
        // The rest of an import is not read.
        self.format.close |= matches!(self.phase, Phase::Submitted(Submitted::Import(_)));
        self.phase = Phase::Respond(Err(HttpError::new(status, denial.to_string())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_found_in_both_schemes() {
        let is = |field: &str, token: &str| match credential(Some(field.as_bytes())) {
            Credential::Token(digest) => {
                digest.to_string() == Digest::of(token.as_bytes()).to_string()
            }
            _ => false,
        };
        assert!(is("Bearer jc_1", "jc_1") && is("bearer  jc_1 ", "jc_1"));
        assert!(is("Basic dTpqY18xOng=", "jc_1:x"), "the password may have colons");
        assert!(is("Basic OmpjXzE=", "jc_1"), "the name may be empty");
        for wrong in ["", "Bearer", "Basic", "Basic !", "Basic amNfMQ==", "Digest x"] {
            assert!(is(wrong, ""), "{wrong}");
        }
        assert!(matches!(credential(None), Credential::Peer));
    }
}

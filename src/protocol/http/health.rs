//! `GET /health`: the server is there.

use super::openapi::{Description, Schemas};
use super::response::HttpError;
use super::route::{Operation, RouteMatch};
use crate::model::driver::Protocol;
use crate::wire::json::push_string;
use utoipa::ToSchema;

/// What it says.
pub(super) const HEALTHY: &str =
    concat!("{\"status\":\"ok\",\"version\":\"", env!("CARGO_PKG_VERSION"), "\"}");

/// What a server says that waits to lead. `leader` may be unknown: an empty text.
pub(super) fn standby_text(leader: &str) -> String {
    let mut members = Vec::new();
    if !leader.is_empty() {
        members.extend_from_slice(b",\"leader\":");
        push_string(&mut members, leader.as_bytes());
    }
    let (version, members) = (env!("CARGO_PKG_VERSION"), String::from_utf8_lossy(&members));
    format!("{{\"status\":\"standby\",\"version\":\"{version}\"{members}}}")
}

/// What a server that waits to lead makes of a request: only that it waits, and its metrics, can be
/// asked for.
pub(super) fn refuse_by_standby(
    routed: Result<RouteMatch, HttpError>,
    leader: &str,
) -> Result<RouteMatch, HttpError> {
    let is_served =
        |call: &RouteMatch| matches!(call.operation, Operation::Health | Operation::Metrics);
    if routed.as_ref().is_ok_and(is_served) {
        return routed;
    }
    let which = if leader.is_empty() { String::new() } else { format!(", which is {leader}") };
    let why =
        "this server waits to lead, and serves no client until then: ask the server that leads";
    Err(HttpError::new(503, format!("{why}{which}")))
}

/// The requests that a server which waits to lead serves itself: what their lines begin with.
const SERVED_BY_STANDBY: [&[u8]; 4] =
    [b"GET /health", b"HEAD /health", b"GET /metrics", b"HEAD /metrics"];

/// Whether a server that waits to lead serves a connection of `protocol` itself, whose first bytes
/// are these. `None`: it takes more bytes to say.
#[must_use]
pub fn is_served_by_standby(protocol: Protocol, first: &[u8]) -> Option<bool> {
    if protocol != Protocol::Http {
        return Some(false);
    }
    let is_begun = |line: &&[u8]| line.starts_with(first);
    if SERVED_BY_STANDBY.iter().any(is_begun) {
        return None;
    }
    let rest = SERVED_BY_STANDBY.iter().find_map(|line| first.strip_prefix(*line));
    Some(rest.is_some_and(|rest| matches!(rest.first(), Some(b' ' | b'?'))))
}

/// Its shape.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it is a shape")]
struct Health {
    status: Status,
    /// The version of the server.
    version: String,
}

#[derive(serde::Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
}

pub(super) fn describe(shapes: &mut Schemas) -> Description {
    Description {
        summary: "Whether the server answers",
        body: None,
        answers: vec![shapes.answer::<Health>(200, "It does")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_decide_what_a_server_that_waits_serves() {
        let serves = |first: &str| is_served_by_standby(Protocol::Http, first.as_bytes());
        for line in ["GET /health HTTP/1.1\r\n", "HEAD /health ", "GET /metrics?a=b HTTP/1.1"] {
            assert_eq!(serves(line), Some(true), "{line}");
        }
        for line in
            ["POST /", "GET /api", "GET /healthy ", "GET /metrics/x", "get /health ", "\r\n"]
        {
            assert_eq!(serves(line), Some(false), "{line}");
        }
        for begin in ["", "G", "GET ", "HEAD /h", "GET /metrics"] {
            assert_eq!(serves(begin), None, "{begin}");
        }
        for protocol in [Protocol::JobCentre, Protocol::Pinpriq, Protocol::Beanstalkd] {
            assert_eq!(is_served_by_standby(protocol, b""), Some(false));
            assert_eq!(is_served_by_standby(protocol, b"GET /health HTTP/1.1"), Some(false));
        }
    }
}

//! `GET /health`: the server is there.

use super::openapi::{Description, Schemas};
use super::response::HttpError;
use super::route::{Operation, RouteMatch};
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

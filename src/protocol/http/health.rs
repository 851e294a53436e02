//! `GET /health`: the server is there.

use super::openapi::{Description, Schemas};
use super::response::HttpError;
use super::route::{Operation, RouteMatch};
use crate::wire::json::push_string;
use utoipa::ToSchema;

/// What it says.
pub(super) const HEALTHY: &str =
    concat!("{\"status\":\"ok\",\"version\":\"", env!("CARGO_PKG_VERSION"), "\"}");

/// Writes what a server says that waits to lead. `leader` may be unknown: an empty text.
pub(super) fn write_standby(leader: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(
        concat!("{\"status\":\"standby\",\"version\":\"", env!("CARGO_PKG_VERSION"), "\"")
            .as_bytes(),
    );
    if !leader.is_empty() {
        out.extend_from_slice(b",\"leader\":");
        push_string(out, leader.as_bytes());
    }
    out.push(b'}');
}

/// What a server that waits to lead makes of a request: only that it waits, and its metrics, can be
/// asked for.
pub(super) fn refuse_by_standby(
    routed: Result<RouteMatch, HttpError>,
    leader: &str,
) -> Result<RouteMatch, HttpError> {
    if routed
        .as_ref()
        .is_ok_and(|call| matches!(call.operation, Operation::Health | Operation::Metrics))
    {
        return routed;
    }
    let mut why =
        "this server waits to lead, and serves no client until then: ask the server that \
                   leads"
            .to_owned();
    if !leader.is_empty() {
        why.push_str(", which is ");
        why.push_str(leader);
    }
    Err(HttpError::new(503, why))
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

//! `GET /health`: the server is there.

use super::openapi::{Description, Schemas};
use utoipa::ToSchema;

/// What it says.
pub(super) const HEALTHY: &str =
    concat!("{\"status\":\"ok\",\"version\":\"", env!("CARGO_PKG_VERSION"), "\"}");

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

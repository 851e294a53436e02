//! `GET /`: the list of what the server offers over HTTP.

use super::openapi::{Answer, Content, Description, Schemas};
use crate::wire::http::wanted;
use utoipa::ToSchema;

/// For browsers.
pub(super) const PAGE: &str = concat!(
    r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>jobcentre</title>
<h1>jobcentre "#,
    env!("CARGO_PKG_VERSION"),
    r#"</h1>
<p>A job queue server. Over HTTP there are:
<ul>
<li><a href="/health">/health</a>: whether the server answers
<li><a href="/metrics">/metrics</a>: what it counts, for Prometheus
<li><a href="/openapi.json">/openapi.json</a>: everything that can be asked, as OpenAPI
<li><a href="/api/v0/queue">/api/v0/queue</a>: the queues
</ul>
<p>Its protocols, each with a page in docs/protocols/:
<ul>
<li>Job Centre: JSON lines over TCP (--listen)
<li>The networked priority queue: binary packets over TCP (--pinpriq)
<li>Jobq: recording jobs, JSON over HTTP (--http, below /api/v0)
<li>LightJQ: workers that are called, MessagePack or JSON over HTTP (--http)
<li>The processor: JSON lines on standard input and output (--processor)
</ul>
"#
);

/// For programs.
pub(super) const LINKS: &str = concat!(
    r#"{"version":""#,
    env!("CARGO_PKG_VERSION"),
    r#"","health":"/health","metrics":"/metrics","openapi":"/openapi.json","#,
    r#""queues":"/api/v0/queue"}"#
);

/// Whether the client accepts HTML.
pub(super) fn is_for_page(accept: Option<&[u8]>) -> bool {
    wanted(accept.unwrap_or_default()).any(|range| range.is("text/html"))
}

/// Where everything is.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it is a shape")]
struct Index {
    /// The version of the server.
    version: String,
    health: String,
    metrics: String,
    openapi: String,
    queues: String,
}

pub(super) fn describe(shapes: &mut Schemas) -> Description {
    let when = "The paths of the rest";
    let page = Answer {
        status: 302,
        when: "Where the dashboard is; with --ui off, 200 and a page",
        content: Content::Text("text/plain; charset=utf-8"),
    };
    Description {
        summary: "Where everything is; the dashboard if text/html is wanted",
        body: None,
        answers: vec![shapes.answer::<Index>(200, when), page],
    }
}

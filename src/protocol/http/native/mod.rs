//! The native API over HTTP (`docs/protocols/api.md`): paths below `/api/v1`, from the table of
//! operations.

mod describe;

pub(super) use describe::add_paths;

use super::lightjq::messages;
use super::media::{self, Said};
use super::response::HttpError;
use super::route_error::RouteError;
use crate::model::id::JobId;
use crate::protocol::operations::{
    Method, Operation, OperationRow, PathArgs, PathPart, Problem, ProblemKind, operations,
};
use crate::wire::http::{Framing, RequestHead};
use percent_encoding::percent_decode_str;

/// The media type of problem details.
pub(super) const PROBLEM: &str = "application/problem+json";

/// A row of the table, as part of a route.
#[derive(Clone, Copy, Debug)]
pub(super) struct NativeRoute(pub(super) &'static OperationRow);

impl PartialEq for NativeRoute {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for NativeRoute {}

impl NativeRoute {
    pub(super) fn has_body(self) -> bool {
        matches!(self.0.method, Method::Post | Method::Put | Method::Patch)
    }

    /// Whether its body is lines of jobs.
    pub(super) fn is_import(self) -> bool {
        self.0.operation == Operation::Import
    }
}

/// Whether a path belongs to the native API.
pub(super) fn is_native(parts: &[&str]) -> bool {
    matches!(parts, ["api", "v1", ..])
}

/// Whether a target belongs to the native API.
pub(super) fn is_native_target(target: &str) -> bool {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let path = match path.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("", |at| &rest[at..]),
        None => path,
    };
    path == "/api/v1" || path.starts_with("/api/v1/")
}

fn name(method: Method) -> &'static str {
    match method {
        Method::Get => "GET",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Patch => "PATCH",
        Method::Delete => "DELETE",
        Method::None => "",
    }
}

fn leads_to(path: &[PathPart], parts: &[&str]) -> bool {
    let fits = |(segment, part): (&PathPart, &&str)| match segment {
        PathPart::Is(text) => percent_decode_str(part).eq(text.bytes()),
        _ => !part.is_empty(),
    };
    path.len() == parts.len() && path.iter().zip(parts).all(fits)
}

/// Finds the row of a request whose path begins with `/api/v1`, and writes the name in the path
/// into `queue`. O(rows + target).
pub(super) fn find(
    method: &str,
    parts: &[&str],
    queue: &mut Vec<u8>,
) -> Result<(NativeRoute, JobId), RouteError> {
    let parts = &parts[2..];
    let wanted = if method == "HEAD" { "GET" } else { method };
    let is_meant =
        |row: &&'static OperationRow| row.method != Method::None && leads_to(row.path, parts);
    let rows = || operations().filter(is_meant);
    let Some(row) = rows().find(|row| name(row.method) == wanted) else {
        let mut methods: Vec<&str> = Vec::new();
        for row in rows() {
            methods.push(name(row.method));
            if row.method == Method::Get {
                methods.push("HEAD");
            }
        }
        if methods.is_empty() {
            return Err(RouteError::NotFound);
        }
        methods.push("OPTIONS");
        let methods = methods.join(", ");
        return Err(match method {
            "OPTIONS" => RouteError::Options(methods),
            _ => RouteError::Method(methods),
        });
    };
    queue.clear();
    let mut job = JobId::NEVER;
    for (segment, part) in row.path.iter().zip(parts) {
        match segment {
            PathPart::Is(_) => {}
            PathPart::Job => job = messages::job_id(part.as_bytes()),
            _ => queue.extend(percent_decode_str(part)),
        }
    }
    Ok((NativeRoute(row), job))
}

/// The arguments in the path.
pub(super) fn path_args(job: JobId, queue: &[u8]) -> PathArgs {
    PathArgs { job, queue: queue.to_vec() }
}

/// Checks the media type of a body.
pub(super) fn check_type(head: &RequestHead<'_>, route: NativeRoute) -> Result<(), HttpError> {
    let empty = matches!(head.framing, None | Some(Framing::Length(0)));
    if empty || !route.has_body() || media::said(head.content_type) == Said::Json {
        return Ok(());
    }
    if route.is_import() {
        if media::is_lines(head.content_type) {
            return Ok(());
        }
        let why = "the body must be JSON objects, one a line, and the request must say so: \
                   -H 'Content-Type: application/x-ndjson'";
        return Err(HttpError::new(415, why));
    }
    let why = "the body must be JSON, and the request must say so: \
               -H 'Content-Type: application/json'";
    Err(HttpError::new(415, why))
}

/// The problem of an error that is found before the operation is known, or runs.
pub(super) fn problem_of(error: &HttpError) -> Problem {
    Problem::new(ProblemKind::of_status(error.status), error.why.clone().into_owned())
}

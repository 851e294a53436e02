//! The second encoding of the operations: line requests of the Job Centre protocol. Fields are
//! named as there: lengths of time without `_ms`, `job` for the payload.

use super::answer::{Answer, Next};
use super::args::{Args, JOBS_PER_REQUEST_MAX, line_fields, parse_line_fields, ttr, worker};
use super::field_names::LINE_PUT_FIELDS;
use super::fields::{Fields, is_no_part};
use super::operations;
use super::problem::{Problem, ProblemKind};
use super::put_fields;
use super::table::{OperationRow, PathPart};
use crate::access::Digest;
use crate::base::limits::QUEUES_PER_RESERVE_MAX;
use crate::base::strings::StringList;
use crate::base::time::Now;
use crate::model::command::Wait;
use crate::model::manage::{LeaseTerms, ReserveTerms};
use crate::wire::json::{object_members, push_string};
use std::borrow::Cow;

/// The row of a line request with this name.
pub(in crate::protocol) fn line_row(name: &str) -> Option<&'static OperationRow> {
    operations().find(|row| row.line == Some(name))
}

/// Whether a line has a member of this name that is not `null`.
pub(in crate::protocol) fn has_member(line: &[u8], wanted: &str) -> bool {
    let is_wanted = |(name, text): &(Cow<'_, str>, &str)| name == wanted && *text != "null";
    object_members(line).is_ok_and(|members| members.iter().any(is_wanted))
}

/// A line that is no plain request of the protocol.
#[derive(Clone, Copy, Debug)]
pub(in crate::protocol) enum LineKind {
    /// A put with fields of the native API.
    Put,
    /// A request of the native API.
    Operation(&'static OperationRow),
}

impl PartialEq for LineKind {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Put, Self::Put) => true,
            (Self::Operation(one), Self::Operation(other)) => one.name == other.name,
            _ => false,
        }
    }
}

impl Eq for LineKind {}

/// Parses a line, which is a JSON object.
pub(in crate::protocol) fn parse_line(
    kind: LineKind,
    line: &[u8],
    now: Now,
) -> Result<Args, Problem> {
    match kind {
        LineKind::Put => put(line),
        LineKind::Operation(row) => {
            let row = row_for(row, line);
            let fields = Fields::of_line(line, line_fields(row))?;
            parse_line_fields(row, &fields, now)
        }
    }
}

/// Of the rows with the same name the one whose queue, job or action the line names.
fn row_for(first: &'static OperationRow, line: &[u8]) -> &'static OperationRow {
    let Ok(mut members) = object_members(line) else { return first };
    members.retain(|(name, text)| !is_no_part(name, text));
    let names = |part: &PathPart| match part {
        PathPart::Is(_) | PathPart::Schedule | PathPart::Constraint => true,
        PathPart::Action => members.iter().any(|(name, _)| name == "action"),
        PathPart::Job | PathPart::Connection => members.iter().any(|(name, _)| name == "id"),
        PathPart::Queue => members.iter().any(|(name, _)| name == "queue"),
    };
    let is_named =
        |row: &&'static OperationRow| row.line == first.line && row.path.iter().all(names);
    operations().find(is_named).unwrap_or(first)
}

fn put(line: &[u8]) -> Result<Args, Problem> {
    let fields = Fields::of_known_line(line, LINE_PUT_FIELDS)?;
    let queue = fields.string("queue")?.ok_or_else(|| Problem::missing("queue", "a string"))?;
    let job = put_fields::new_line_job(&fields)?;
    Ok(Args::Put { queue: queue.into_bytes(), job: Box::new(job) })
}

/// Parses a get of the native API: one with a limit.
pub(in crate::protocol) fn parse_get_line(line: &[u8]) -> Result<Args, Problem> {
    let known = &["queues", "wait", "timeout", "limit", "attempts", "lease", "ttr_ms", "worker"];
    let fields = Fields::of_known_line(line, known)?;
    let names = fields.strings("queues", 0..=QUEUES_PER_RESERVE_MAX)?;
    let names = names.ok_or_else(|| Problem::missing("queues", "an array of strings"))?;
    let mut queues = StringList::default();
    for name in &names {
        queues.push(name.as_bytes());
    }
    let (waits, timeout) = (fields.bool("wait")?, fields.duration("timeout")?);
    let wait = match (waits, timeout) {
        (Some(false), _) | (None, None) | (_, Some(0)) => Wait::No,
        (Some(true), None) => Wait::Forever,
        (_, Some(timeout_ms)) => Wait::Milliseconds(timeout_ms),
    };
    let most = u32::try_from(JOBS_PER_REQUEST_MAX).unwrap_or(u32::MAX);
    let limit = fields.integer("limit", 1_u32, most)?.unwrap_or(1) as usize;
    let lease = lease(&fields)?;
    let shows_run = lease.is_some() || fields.bool("attempts")?.unwrap_or(false);
    Ok(Args::Reserve { queues, terms: ReserveTerms { limit, wait, lease }, shows_run })
}

/// The lease under a token that a get asks for: without, the jobs are those of its connection.
fn lease(fields: &Fields<'_>) -> Result<Option<LeaseTerms>, Problem> {
    let (ttr_ms, worker) = (ttr(fields)?, worker(fields)?);
    if fields.bool("lease")?.unwrap_or(false) {
        return Ok(Some(LeaseTerms { ttr_ms, worker }));
    }
    let stray = [(ttr_ms.is_some(), "ttr_ms"), (!worker.is_empty(), "worker")];
    match stray.into_iter().find(|(is_said, _)| *is_said) {
        Some((_, field)) => Err(fields.wrong(field, "left out where 'lease' is not true")),
        None => Ok(None),
    }
}

/// The token of a line that says who its client is, as its digest. `None`: it is another request.
pub(in crate::protocol) fn auth_token(line: &[u8]) -> Option<Result<Digest, Problem>> {
    let members = object_members(line).ok()?;
    members.iter().find(|(name, text)| name == "request" && *text == "\"auth\"")?;
    let fields = Fields::of_known_line(line, &["token"]);
    let token = fields.and_then(|fields| {
        fields.string("token")?.ok_or_else(|| Problem::missing("token", "a string"))
    });
    Some(token.map(|token| Digest::of(token.as_bytes())))
}

/// Writes the line that answers a request.
pub(in crate::protocol) fn write_line(next: &Next, out: &mut Vec<u8>) {
    match next {
        Next::Submit | Next::Later | Next::Part { .. } | Next::Abort => {
            unreachable!("a line request takes one command")
        }
        Next::Answer(Answer { body, .. }) => {
            out.extend_from_slice(b"{\"status\":\"ok\"");
            match body.strip_prefix(b"{") {
                None | Some(b"}") => out.push(b'}'),
                Some(members) => {
                    out.push(b',');
                    out.extend_from_slice(members);
                }
            }
            out.push(b'\n');
        }
        Next::Problem(problem) => write_line_problem(problem, out),
    }
}

/// Writes the line about a problem, with its name and members as over HTTP.
pub(in crate::protocol) fn write_line_problem(problem: &Problem, out: &mut Vec<u8>) {
    match problem.kind {
        ProblemKind::NotFound
        | ProblemKind::Gone
        | ProblemKind::StaleToken
        | ProblemKind::Cancelled => out.extend_from_slice(b"{\"status\":\"no-job\"}\n"),
        _ => {
            out.extend_from_slice(b"{\"status\":\"error\",\"error\":");
            push_string(out, problem.detail.as_bytes());
            out.extend_from_slice(b",\"kind\":");
            push_string(out, problem.kind.facts().0.as_bytes());
            problem.write_optional(out);
            out.extend_from_slice(b"}\n");
        }
    }
}

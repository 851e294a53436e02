//! Connections of clients and registered workers as JSON.

use super::answer::{Answer, Next};
use super::job_json::{push_count, push_flag, push_name, push_text, push_time};
use super::problem::{Problem, ProblemKind};
use crate::model::show::{CloseOutcome, ConnectionDetails, WorkerDetails, connection_number};
use crate::model::worker::WorkerKind;
use crate::wire::json::push_string;

/// Writes the members of a connection behind an opening brace.
pub(super) fn push_connection(out: &mut Vec<u8>, connection: &ConnectionDetails) {
    push_count(out, "id", connection_number(connection.client));
    push_text(out, "protocol", Some(connection.protocol.name().as_bytes()));
    push_text(out, "peer", connection.peer.as_deref().map(str::as_bytes));
    push_text(out, "user", connection.user.as_deref().map(str::as_bytes));
    push_time(out, "since", Some(connection.since));
    push_flag(out, "waiting", connection.waits);
    push_count(out, "reserved", connection.reserved);
    push_count(out, "unsent_bytes", connection.unsent_bytes);
}

/// The answer to a request to close a connection.
pub(super) fn closed(outcome: CloseOutcome, number: u64) -> Next {
    let (kind, detail) = match outcome {
        CloseOutcome::Closed => return Next::Answer(Answer::empty()),
        CloseOutcome::Gone => (ProblemKind::Gone, format!("connection {number} has ended")),
        CloseOutcome::NeverAccepted => {
            (ProblemKind::NotFound, "there never was a connection of this number".to_owned())
        }
        CloseOutcome::Kept => {
            let detail =
                "this is the connection of the request, or standard input: end it yourself";
            (ProblemKind::WrongState, detail.to_owned())
        }
    };
    Next::Problem(Problem::new(kind, detail))
}

/// Writes the members of a worker behind an opening brace.
pub(super) fn push_worker(out: &mut Vec<u8>, details: &WorkerDetails) {
    let worker = details.worker.view();
    push_count(out, "id", details.worker.id.0);
    let (kind, url): (&[u8], _) = match worker.kind() {
        WorkerKind::Http(url) => (b"http", Some(url.as_bytes())),
        WorkerKind::Bus => (b"bus", None),
    };
    push_text(out, "kind", Some(kind));
    push_text(out, "name", Some(worker.name.as_bytes()));
    push_text(out, "url", url);
    push_count(out, "max_jobs", worker.max_jobs);
    push_name(out, "queues");
    match worker.queues {
        Some(names) => {
            out.push(b'[');
            for (number, name) in names.into_iter().enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                push_string(out, name);
            }
            out.push(b']');
        }
        None => out.extend_from_slice(b"null"),
    }
    push_count(out, "reserved", details.reserved);
    push_time(out, "last_reserved_at", details.last_reserved);
}

//! From replies to responses.

use super::messages::{
    Status, write_constraint, write_gone, write_job_accepted, write_json, write_worker_accepted,
};
use super::{HttpError, Operation};
use crate::model::id::JobId;
use crate::model::reply::{Rejection, Reply};
use crate::model::worker::{ConstraintReply, TrackedReply, WorkerReply};
use crate::wire::msgpack::push_map;

/// A response that is not an error.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::protocol::http) struct Response {
    /// 204: without a body.
    pub(in crate::protocol::http) status: u16,
    pub(in crate::protocol::http) body: Vec<u8>,
}

impl Response {
    /// `write` writes MessagePack.
    fn new(status: u16, is_json: bool, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut body = Vec::new();
        if is_json {
            write_json(&mut body, write);
        } else {
            write(&mut body);
        }
        Self { status, body }
    }

    const NOTHING: Self = Self { status: 204, body: Vec::new() };
}

/// The response to a request about `job`, if it names one. O(reply).
///
/// # Errors
/// The error response.
pub(in crate::protocol::http) fn respond(
    operation: Operation,
    job: JobId,
    is_json: bool,
    reply: &Reply<'_>,
) -> Result<Response, HttpError> {
    Ok(match reply {
        Reply::Put(id) => Response::new(201, is_json, |out| write_job_accepted(*id, out)),
        Reply::Done
        | Reply::Tracked(TrackedReply::Removed)
        | Reply::Worker(WorkerReply::Done)
        | Reply::Constraint(ConstraintReply::Removed) => Response::NOTHING,
        Reply::NoJob => {
            let why = "field 'job_id': the worker does not hold this job (any more)";
            return Err(HttpError::new(404, why));
        }
        Reply::Rejected(Rejection::Full) => return Err(full("job")),
        Reply::Rejected(Rejection::MemoryFull) => return Err(memory_full()),
        Reply::Rejected(Rejection::Draining) => {
            let why = "the server is being drained: it takes no new jobs until drain mode ends";
            return Err(HttpError::new(503, why));
        }
        Reply::Rejected(Rejection::DiskFull)
        | Reply::Worker(WorkerReply::DiskFull)
        | Reply::Constraint(ConstraintReply::DiskFull) => return Err(disk_full()),
        Reply::JobStatus(status) if is_json => {
            let mut body = Vec::new();
            Status::of(status).write_json(&mut body);
            Response { status: 200, body }
        }
        Reply::JobStatus(status) => Response::new(200, false, |out| Status::of(status).write(out)),
        Reply::Tracked(TrackedReply::Deleted) if operation != Operation::Cancel => {
            Response::new(200, is_json, write_gone)
        }
        Reply::Tracked(reply) => return Err(no_status(*reply, job)),
        Reply::Registered(id) => Response::new(201, is_json, |out| write_worker_accepted(*id, out)),
        Reply::Worker(WorkerReply::NoWorker) => {
            return Err(HttpError::new(404, "field 'worker-id': there is no such worker"));
        }
        Reply::Worker(WorkerReply::Full) => return Err(full("worker")),
        Reply::ConstraintFound(constraint) => {
            Response::new(200, is_json, |out| write_constraint(constraint, out))
        }
        Reply::Constraint(ConstraintReply::Set { new }) => {
            Response::new(if *new { 201 } else { 200 }, is_json, |out| push_map(out, 0))
        }
        Reply::Constraint(ConstraintReply::NoConstraint) => {
            return Err(HttpError::new(404, "there is no constraint of this name"));
        }
        Reply::Constraint(ConstraintReply::Full) => return Err(full("constraint")),
        other => other.unexpected(),
    })
}

/// The error response of a request about a tracked job.
#[cold]
fn no_status(reply: TrackedReply, job: JobId) -> HttpError {
    let (status, why) = match reply {
        TrackedReply::NoJob if job == JobId::NEVER => {
            return HttpError::new(404, "no job was ever given this id");
        }
        TrackedReply::NoJob => (404, format!("there was never a job {}", job.0)),
        TrackedReply::Removed | TrackedReply::Deleted => {
            (404, format!("the job {} is there no more", job.0))
        }
        // A client that half-closes ends its long poll, and is answered if it still reads.
        TrackedReply::NotYet | TrackedReply::Cancelled => {
            (408, format!("the job {} has not ended yet", job.0))
        }
        TrackedReply::TooLate => {
            (409, format!("the job {} is running or has ended: it can't be cancelled", job.0))
        }
    };
    HttpError::new(status, why)
}

#[cold]
fn full(what: &str) -> HttpError {
    HttpError::new(503, format!("the server has no place left for another {what}"))
}

#[cold]
fn memory_full() -> HttpError {
    HttpError::new(
        507,
        "the server's jobs take as much memory as it may use (--max-memory): jobs have to end",
    )
}

#[cold]
fn disk_full() -> HttpError {
    let why = "the server's disk is full, or with --engine its Redis: jobs have to end or space to \
               be made";
    HttpError::new(507, why)
}

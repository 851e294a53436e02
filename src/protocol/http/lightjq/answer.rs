//! From replies to responses.

use super::messages::{
    Status, write_constraint, write_gone, write_job_accepted, write_json, write_worker_accepted,
};
use super::{HttpError, Operation};
use crate::model::id::JobId;
use crate::model::reply::{Rejection, Reply};
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
        Reply::Worker(id) => Response::new(201, is_json, |out| write_worker_accepted(*id, out)),
        Reply::JobStatus(progress) if is_json => {
            let mut body = Vec::new();
            Status::of(progress).write_json(&mut body);
            Response { status: 200, body }
        }
        Reply::JobStatus(progress) => {
            Response::new(200, false, |out| Status::of(progress).write(out))
        }
        Reply::Deleted if operation != Operation::Cancel => Response::new(200, is_json, write_gone),
        Reply::Done => Response::NOTHING,
        Reply::Constrained { new } => {
            Response::new(if *new { 201 } else { 200 }, is_json, |out| push_map(out, 0))
        }
        Reply::Constraint(constraint) => {
            Response::new(200, is_json, |out| write_constraint(constraint, out))
        }
        _ => return Err(problem(operation, job, reply)),
    })
}

#[cold]
fn problem(operation: Operation, job: JobId, reply: &Reply<'_>) -> HttpError {
    match (reply, operation) {
        (Reply::NoJob, Operation::Report) => {
            HttpError::new(404, "field 'job_id': the worker does not hold this job (any more)")
        }
        (Reply::NoJob, _) if job == JobId::NEVER => {
            HttpError::new(404, "no job was ever given this id")
        }
        (Reply::NoJob, _) => HttpError::new(404, format!("there was never a job {}", job.0)),
        (Reply::Deleted, _) => HttpError::new(404, format!("the job {} is there no more", job.0)),
        // A client that half-closes ends its long poll, and is answered if it still reads.
        (Reply::NotYet | Reply::Cancelled, _) => {
            HttpError::new(408, format!("the job {} has not ended yet", job.0))
        }
        (Reply::NoWorker, _) => HttpError::new(404, "field 'worker-id': there is no such worker"),
        (Reply::NoConstraint, _) => HttpError::new(404, "there is no constraint of this name"),
        (Reply::Rejected(Rejection::TooLate(_)), _) => {
            let why = format!("the job {} is running or has ended: it can't be cancelled", job.0);
            HttpError::new(409, why)
        }
        (Reply::Rejected(Rejection::DiskFull), _) => {
            HttpError::new(507, "the server's disk is full: jobs have to end or space to be made")
        }
        (Reply::Rejected(Rejection::Full), operation) => HttpError::new(
            503,
            match operation {
                Operation::Register => "the server has no place left for another worker",
                Operation::SetConstraint => "the server has no place left for another constraint",
                _ => "the server has no place left for another job",
            },
        ),
        _ => reply.unexpected(),
    }
}

//! What is made of the store's replies.

use super::messages::{
    Status, write_constraint, write_gone, write_job_accepted, write_json, write_worker_accepted,
};
use super::{Operation, Problem};
use crate::model::id::JobId;
use crate::model::reply::{Refusal, Reply};
use crate::wire::msgpack::push_map;

/// An answer that is not an error.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::protocol::http) struct Told {
    /// With 204 there is no body.
    pub(in crate::protocol::http) status: u16,
    pub(in crate::protocol::http) body: Vec<u8>,
}

impl Told {
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

/// Writes what is to be answered to a request about `job`, if it names one; in JSON if that is
/// wanted. O(reply).
///
/// # Errors
/// What is to be answered as an error.
pub(in crate::protocol::http) fn told(
    operation: Operation,
    job: JobId,
    is_json: bool,
    reply: &Reply<'_>,
) -> Result<Told, Problem> {
    Ok(match reply {
        Reply::Put(id) => Told::new(201, is_json, |out| write_job_accepted(*id, out)),
        Reply::Worker(id) => Told::new(201, is_json, |out| write_worker_accepted(*id, out)),
        Reply::Progress(progress) if is_json => {
            let mut body = Vec::new();
            Status::of(progress).write_json(&mut body);
            Told { status: 200, body }
        }
        Reply::Progress(progress) => Told::new(200, false, |out| Status::of(progress).write(out)),
        Reply::Gone if operation != Operation::Cancel => Told::new(200, is_json, write_gone),
        Reply::Done => Told::NOTHING,
        Reply::Constrained { new } => {
            Told::new(if *new { 201 } else { 200 }, is_json, |out| push_map(out, 0))
        }
        Reply::Constraint(constraint) => {
            Told::new(200, is_json, |out| write_constraint(constraint, out))
        }
        _ => return Err(problem(operation, job, reply)),
    })
}

#[cold]
fn problem(operation: Operation, job: JobId, reply: &Reply<'_>) -> Problem {
    match (reply, operation) {
        (Reply::NoJob, Operation::Report) => {
            Problem::new(404, "field 'job_id': the worker does not hold this job (any more)")
        }
        (Reply::NoJob, _) if job == JobId::NEVER => {
            Problem::new(404, "no job was ever given this id")
        }
        (Reply::NoJob, _) => Problem::new(404, format!("there was never a job {}", job.0)),
        (Reply::Gone, _) => Problem::new(404, format!("the job {} is there no more", job.0)),
        // Whoever has stopped sending is told at once, if it still listens.
        (Reply::NotYet | Reply::Cancelled, _) => {
            Problem::new(408, format!("the job {} has not ended yet", job.0))
        }
        (Reply::NoWorker, _) => Problem::new(404, "field 'worker-id': there is no such worker"),
        (Reply::NoConstraint, _) => Problem::new(404, "there is no constraint of this name"),
        (Reply::Refused(Refusal::TooLate(_)), _) => {
            let why = format!("the job {} is running or has ended: it can't be cancelled", job.0);
            Problem::new(409, why)
        }
        (Reply::Refused(Refusal::DiskFull), _) => {
            Problem::new(507, "the server's disk is full: jobs have to end or space to be made")
        }
        (Reply::Refused(Refusal::Full), operation) => Problem::new(
            503,
            match operation {
                Operation::Enlist => "the server has no place left for another worker",
                Operation::Constrain => "the server has no place left for another constraint",
                _ => "the server has no place left for another job",
            },
        ),
        _ => unreachable!("nobody asks for this here"),
    }
}

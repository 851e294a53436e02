//! Requests in the words of the store.

use super::messages::read_worker;
use super::messages::{Done, NewJob, Problem as Wrong, read_constraint, read_constraint_json};
use super::{Details, Operation, Problem};
use crate::base::strings::StringList;
use crate::model::command::Command;
use crate::model::id::JobId;
use crate::model::job::{Retry, Terms, Turn, Urgency};
use crate::model::work::{Constraint, Work};

/// A request as it came.
#[derive(Clone, Copy, Debug)]
pub(in crate::protocol::http) struct Request<'a> {
    pub(in crate::protocol::http) operation: Operation,
    /// The job in the path, or [`JobId::NEVER`].
    pub(in crate::protocol::http) job: JobId,
    pub(in crate::protocol::http) details: Details,
    /// The name of the constraint in the path: UTF-8, if there is one.
    pub(in crate::protocol::http) name: &'a [u8],
    pub(in crate::protocol::http) body: &'a [u8],
    /// The body is JSON.
    pub(in crate::protocol::http) is_json: bool,
}

/// Memory for what is read, and the one setting that matters here.
#[derive(Debug, Default)]
pub(in crate::protocol::http) struct Scratch {
    /// How long results are kept (`--result-ttl`), in milliseconds.
    pub(in crate::protocol::http) result_ttl_ms: u64,
    terms: Terms,
    names: StringList,
    constraint: Option<Constraint>,
}

impl Scratch {
    /// Gives large memory back.
    pub(in crate::protocol::http) fn shrink(&mut self) {
        self.constraint = None;
    }
}

/// What is asked of the store.
#[derive(Debug)]
pub(in crate::protocol::http) enum Ask<'a> {
    Command(Command<'a>),
    Work(Work<'a>),
}

/// Reads what is asked. O(body).
///
/// # Errors
/// What is wrong with the body; then nothing is asked.
pub(in crate::protocol::http) fn ask<'a>(
    request: Request<'a>,
    scratch: &'a mut Scratch,
) -> Result<Ask<'a>, Problem> {
    let Request { operation, job: id, details, name, body, is_json } = request;
    // Proof: the path of a constraint is refused if its name is not UTF-8; nobody else has one.
    let name = || std::str::from_utf8(name).expect("the name of a constraint is UTF-8");
    Ok(Ask::Work(match operation {
        Operation::Put => return put(body, scratch).map(Ask::Command),
        Operation::Follow => Work::Follow { id },
        Operation::Await => Work::Await { id, wait_ms: details.wait_ms },
        Operation::Cancel => Work::Cancel { id },
        Operation::Enlist => {
            Work::Enlist(read_worker(body, &mut scratch.names).map_err(|wrong| bad(&wrong))?)
        }
        Operation::Dismiss => Work::Dismiss { worker: details.worker },
        Operation::Report => {
            let done = Done::read(body).map_err(|wrong| bad(&wrong))?;
            Work::Report { worker: details.worker, id: done.job_id, report: done.report() }
        }
        Operation::Show => Work::Constraint { name: name() },
        Operation::Constrain => {
            let read = if is_json { read_constraint_json } else { read_constraint };
            let constraint = read(name(), body).map_err(|wrong| bad(&wrong))?;
            Work::Constrain(scratch.constraint.insert(constraint))
        }
        Operation::Free => Work::Free { name: name() },
    }))
}

#[cold]
fn bad(wrong: &Wrong) -> Problem {
    Problem::new(400, wrong.to_string())
}

fn put<'a>(body: &'a [u8], scratch: &'a mut Scratch) -> Result<Command<'a>, Problem> {
    let job = NewJob::read(body).map_err(|wrong| bad(&wrong))?;
    let ttl = scratch.result_ttl_ms;
    scratch.terms = Terms {
        lease_ms: job.timeout_ms,
        retry: Some(Retry {
            limit: job.max_retry,
            first_ms: 1000,
            factor: 2,
            max_ms: 3_600_000,
            jitter_percent: 10,
        }),
        keep_ms: if job.keep_result { ttl } else { 0 },
        bury_ms: ttl,
        followed: true,
        fetch_once: true,
        ..Terms::default()
    };
    Ok(Command::Put {
        queue: job.name.as_bytes(),
        urgency: Urgency::Number(-i64::from(job.priority)),
        turn: Turn::OldestFirst,
        payload: job.argument,
        terms: Some(&scratch.terms),
    })
}

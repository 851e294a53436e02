//! Answers: the body of a response, or a line.

use super::problem::{Problem, ProblemKind};
use crate::model::id::JobId;
use crate::model::manage::{JobState, ManageReply, Missing};
use crate::model::reply::Rejection;

/// How a request came, and its answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::protocol) enum Style {
    Http,
    Line,
}

/// What becomes of the cookie of a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::protocol) enum Cookie {
    /// It has this id.
    Set(String),
    Remove,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::protocol) struct Answer {
    pub(in crate::protocol) status: u16,
    /// JSON; nothing with status 204.
    pub(in crate::protocol) body: Vec<u8>,
    /// The path of what was made.
    pub(in crate::protocol) location: Option<String>,
    /// Of a browser whose session has begun or ended.
    pub(in crate::protocol) cookie: Option<Cookie>,
}

impl Answer {
    pub(in crate::protocol) fn new(status: u16, body: Vec<u8>) -> Self {
        Self { status, body, location: None, cookie: None }
    }

    /// An answer without a body.
    pub(in crate::protocol) fn empty() -> Self {
        Self::new(204, Vec::new())
    }
}

/// What follows a reply.
#[derive(Debug)]
pub(in crate::protocol) enum Next {
    /// Submit the next command.
    Submit,
    /// Submit the same command once more, in the next pass.
    Later,
    Answer(Answer),
    Problem(Problem),
    /// A part of a long answer with status 200: written, and if it is not the last one, the next
    /// command is submitted once the client has read enough.
    Part {
        body: Vec<u8>,
        media_type: &'static str,
        is_last: bool,
    },
    /// The answer has begun and cannot be ended: the connection is closed.
    Abort,
}

/// The problem of a command that the store has rejected.
pub(super) fn rejected(rejection: Rejection) -> Problem {
    match rejection {
        Rejection::Full => Problem::new(
            ProblemKind::TooManyJobs,
            "the server has no place left for another job: delete some, or wait until some are \
             done",
        ),
        Rejection::DiskFull => Problem::new(
            ProblemKind::StorageFull,
            "the server's disk is full, or with --engine its Redis: no job and no result can be \
             kept until jobs are deleted or space is made",
        ),
        Rejection::MemoryFull => Problem::new(
            ProblemKind::MemoryFull,
            "the server's jobs take as much memory as it may use (--max-memory): no job can be put \
             until jobs are deleted",
        ),
        Rejection::Draining => Problem::new(
            ProblemKind::Draining,
            "the server is being drained: it takes no new jobs until drain mode ends",
        ),
        Rejection::ReservedByAnother(JobId(id)) => {
            Problem::new(ProblemKind::WrongState, format!("job {id} is reserved by another client"))
        }
        Rejection::NotReserved(JobId(id)) => {
            Problem::new(ProblemKind::WrongState, format!("job {id} is not reserved"))
        }
        Rejection::LeaseExpired(JobId(id)) => Problem::new(
            ProblemKind::StaleToken,
            format!("the lease of job {id} has ended, and it was handed out again"),
        ),
        Rejection::NotBuried(JobId(id)) => {
            Problem::new(ProblemKind::WrongState, format!("job {id} is not buried"))
        }
        Rejection::UnknownJob(id) => {
            let shown = if id == JobId::NEVER { "one".to_owned() } else { id.0.to_string() };
            let wanted = "ids of jobs that were put before";
            of_field(
                "after",
                format!("field 'after' must have {wanted}: {shown} was never given out"),
            )
        }
        Rejection::ReplaceAfter(id) => {
            let others = "which cannot be made to wait for others: put it without 'after' and";
            not_replaced(id, "after", &format!("{others} 'after_group'"))
        }
        Rejection::ReplaceInGroup(id) => {
            let group = "which cannot be put into a group: put it without 'group'";
            not_replaced(id, "group", group)
        }
        Rejection::NameTaken(id) => Problem {
            id: Some(id),
            ..Problem::new(ProblemKind::Duplicate, format!("job {} has this id", id.0))
        },
    }
}

/// The problem of a query that was not evaluated.
pub(super) fn bad_query(field: &str, why: &str) -> Problem {
    let kind = if why.contains("(--query-timeout)") {
        ProblemKind::Timeout
    } else {
        ProblemKind::InvalidField
    };
    Problem {
        field: Some(field.to_owned()),
        ..Problem::new(kind, format!("field '{field}': {why}"))
    }
}

/// A field has a wrong value.
fn of_field(field: &str, detail: String) -> Problem {
    let problem = Problem::new(ProblemKind::InvalidField, detail);
    Problem { field: Some(field.to_owned()), ..problem }
}

/// A put would replace the job that has its key, and has a field that this job cannot get.
fn not_replaced(JobId(id): JobId, field: &str, why: &str) -> Problem {
    let detail = format!("the key is taken by job {id}, {why}, or with another 'on_duplicate'");
    of_field(field, detail)
}

/// The problem of a put whose key is taken, and that wants to be rejected then.
pub(super) fn key_taken(id: JobId) -> Problem {
    let detail = format!(
        "the key is taken by job {}: put it when that job is done and its key_ttl_ms is over, or \
         with another key",
        id.0
    );
    Problem { id: Some(id), ..Problem::new(ProblemKind::Duplicate, detail) }
}

/// What can be done with a job whose state does not permit what was asked for.
fn what_to_do(state: JobState) -> &'static str {
    match state {
        JobState::Reserved => "wait until its run is over, or bury it first",
        JobState::Completed => "it can be read and deleted, nothing else",
        JobState::Blocked => "it becomes ready when what holds it back is over",
        JobState::Buried => "kick it first",
        JobState::Ready | JobState::Scheduled => "this cannot be done to it",
    }
}

/// The problem that a reply is, if it is one.
pub(super) fn problem_of(reply: &ManageReply, id: JobId) -> Option<Problem> {
    let shown = if id == JobId::NEVER { "this id".to_owned() } else { format!("id {}", id.0) };
    Some(match reply {
        ManageReply::Missing(Missing::NeverGivenOut) => Problem::new(
            ProblemKind::NotFound,
            format!("there is no job with {shown}, and there never was one"),
        ),
        ManageReply::Missing(Missing::Gone) => Problem::new(
            ProblemKind::Gone,
            format!("job {} is gone: done, deleted or expired", id.0),
        ),
        ManageReply::Missing(Missing::Queue) => Problem::new(
            ProblemKind::NotFound,
            "nothing is known of a queue of this name: a put or a pause makes one",
        ),
        ManageReply::WrongState(state) => Problem::new(
            ProblemKind::WrongState,
            format!("job {} is {}: {}", id.0, state.name(), what_to_do(*state)),
        ),
        ManageReply::NoIndex => Problem::new(
            ProblemKind::NoIndex,
            "the queue is not indexed: switch its index on with PUT /api/v1/queues/{q}/index",
        ),
        ManageReply::TooLarge => Problem::new(
            ProblemKind::TooLarge,
            "the job is a packet, and would be too large for one",
        ),
        ManageReply::QueueBusy(reserved) => Problem::new(
            ProblemKind::QueueBusy,
            format!("{reserved} jobs of the queue are reserved: nothing was deleted (?force=true)"),
        ),
        ManageReply::Rejected(rejection) => rejected(*rejection),
        ManageReply::KeyTaken(id) => key_taken(*id),
        ManageReply::StaleToken => Problem::new(
            ProblemKind::StaleToken,
            format!(
                "the token is not that of the present lease of job {}: the lease has ended",
                id.0
            ),
        ),
        ManageReply::Cancelled => Problem::new(
            ProblemKind::Cancelled,
            format!("job {} was cancelled: stop the work", id.0),
        ),
        _ => return None,
    })
}

//! What an engine answers.

use crate::model::id::{JobId, Ticket};
use crate::model::job::{Payload, Urgency};

/// A reply on its way to the session that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion<'a> {
    /// Which request is answered.
    pub ticket: Ticket,
    /// The answer.
    pub reply: Reply<'a>,
}

/// The answer to one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A take was called off by its client before there was a job.
    Cancelled,
    /// It is done.
    Done,
    /// Here is the job; the client holds it now.
    Job(JobView<'a>),
    /// There is no such job, or none ready.
    NoJob,
    /// The job is in its queue.
    Put(JobId),
    /// It cannot be done; nothing has changed.
    Refused(Refusal),
}

/// A job as a client gets to see it, borrowed from where it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobView<'a> {
    /// Its id.
    pub id: JobId,
    /// The name of its queue.
    pub queue: &'a [u8],
    /// How urgent it is.
    pub urgency: Urgency<'a>,
    /// What it carries.
    pub payload: Payload<'a>,
}

/// Why a command cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The store has no place or no id left.
    Full,
    /// A release of a job that another client holds.
    HeldByAnother(JobId),
    /// A release of a job that waits in its queue.
    NotHeld(JobId),
}

//! What of a job survives a restart, as values: for engines that keep a journal.

use crate::base::time::Mono;
use crate::model::event::{Event, EventLog};
use crate::model::external_id::Fraction;
use crate::model::id::JobId;
use crate::model::job::{JobOptions, LeaseEpoch, Payload, Priority, TieBreak};
use crate::model::worker::{Constraint, WorkerId};
use std::borrow::Cow;

/// What an entry of a journal says.
#[expect(clippy::large_enum_variant, reason = "most records are jobs, and live for a moment")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Here is a job, in place of what was known of it.
    Job(Snapshot<'a>),
    /// A job has changed.
    State(JobId, State<'a>),
    /// A job is gone, a queue is not declared any more, a worker not on the list, or a constraint
    /// does not hold.
    Deleted(JobId),
    /// Something has happened to a job that has a record, or was put before and has one now; which
    /// of its rows showed it first.
    Event(JobId, u64, Event),
    /// A queue of this name was declared. The id is no job's.
    Queue(JobId, &'a [u8]),
    /// Here is a constraint, in place of the one with this id. The id is no job's.
    Constraint(JobId, Cow<'a, Constraint>),
    /// A worker was enlisted. Its number is no job's id.
    Worker(WorkerId, PersistedWorker<'a>),
}

/// A worker as it was enlisted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistedWorker<'a> {
    /// A name for people.
    pub name: &'a str,
    /// Where it listens.
    pub url: &'a str,
    /// How many jobs it takes at a time.
    pub max_jobs: u32,
    /// The queues that it works on, if it named any.
    pub queues: Option<Vec<&'a [u8]>>,
}

/// A whole job. What a connection merely held is waiting again after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot<'a> {
    /// Its id.
    pub id: JobId,
    /// The name of its queue.
    pub queue: &'a [u8],
    /// How urgent it is.
    pub priority: Priority<'a>,
    /// Its place among the equally urgent.
    pub tie_break: TieBreak,
    /// What it carries.
    pub payload: Payload<'a>,
    /// What it asked for, if anything; its delay and its time to live count as moments below.
    pub options: Option<JobOptions>,
    /// When its time to live is over.
    pub expires: Option<Mono>,
    /// What else has become of it.
    pub state: State<'a>,
    /// Its record, if its queue is watched.
    pub history: Option<History<'a>>,
    /// The name that its sender gave it, if any.
    pub name: Option<&'a [u8]>,
}

/// The record of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History<'a> {
    /// Its user state: canonical JSON text.
    pub state: &'a [u8],
    /// When it was changed last, in Unix seconds.
    pub modified: u64,
    /// Which of its rows this is.
    pub version: u64,
    /// What has happened to it.
    pub events: EventLog,
}

/// What changes in the life of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State<'a> {
    /// What it is doing.
    pub stage: PersistedStatus,
    /// How many retries were decided so far.
    pub retries: u32,
    /// Its result, or what went wrong last.
    pub result: Option<Payload<'a>>,
    /// What went wrong last, for people.
    pub message: Option<&'a str>,
    /// How much of it is done, if somebody has said to work on it.
    pub progress: Option<Fraction>,
}

/// What a job is doing, as far as that outlives its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersistedStatus {
    /// It waits in its queue, or was being worked on by somebody who does not outlive the server.
    Waiting,
    /// A worker of the list works on it.
    Running {
        /// Which.
        worker: WorkerId,
        /// When its lease is over, if that is limited.
        until: Option<Mono>,
        /// Under which lease.
        lease: LeaseEpoch,
    },
    /// It waits for this moment.
    Delayed(Mono),
    /// It is finished; its result is kept until then.
    Completed(Mono),
    /// It has failed for good; kept until then, if that is limited.
    Buried(Option<Mono>),
}

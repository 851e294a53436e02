//! What of a job survives a restart: the records of the journal, as values.

use crate::base::time::Mono;
use crate::model::event::{Event, EventLog};
use crate::model::external_id::Fraction;
use crate::model::id::JobId;
use crate::model::job::{JobOptions, LeaseEpoch, Payload, Priority, TieBreak};
use crate::model::worker::{Constraint, WorkerId};
use std::borrow::Cow;

/// One record of the journal.
#[expect(clippy::large_enum_variant, reason = "most records are jobs, and live for a moment")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A job, replacing earlier records of it.
    Job(Snapshot<'a>),
    /// The new state of a job.
    State(JobId, StatusSnapshot<'a>),
    /// A job, declared queue, worker or constraint is gone.
    Deleted(JobId),
    /// An event of a job that has a history, or was put before and has one now; and the version of
    /// the row that showed it first.
    Event(JobId, u64, Event),
    /// A queue was declared. The id is no job's.
    Queue(JobId, &'a [u8]),
    /// A constraint, replacing the one with this id. The id is no job's.
    Constraint(JobId, Cow<'a, Constraint>),
    /// A worker was registered. Its id is no job's.
    Worker(WorkerId, PersistedWorker<'a>),
}

/// A worker as registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistedWorker<'a> {
    /// For people, UTF-8.
    pub name: &'a str,
    /// Where it receives deliveries.
    pub url: &'a str,
    /// Most jobs that it runs at a time.
    pub max_jobs: u32,
    /// Job names that it accepts; `None`: any tracked job.
    pub queues: Option<Vec<&'a [u8]>>,
}

/// A whole job. A reservation by a connection does not survive: the job waits again after a
/// restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot<'a> {
    /// Unique in the journal.
    pub id: JobId,
    /// Queue name: any bytes.
    pub queue: &'a [u8],
    /// Priority within the queue.
    pub priority: Priority<'a>,
    /// Order among jobs of the same priority.
    pub tie_break: TieBreak,
    /// As it was put.
    pub payload: Payload<'a>,
    /// Its options; delay and ttl are the moments below.
    pub options: Option<JobOptions>,
    /// End of its ttl.
    pub expires: Option<Mono>,
    /// Everything that changes.
    pub state: StatusSnapshot<'a>,
    /// Its row, if its queue is indexed.
    pub history: Option<History<'a>>,
    /// External id, if it has one.
    pub name: Option<&'a [u8]>,
}

/// The persistent part of a job's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History<'a> {
    /// Canonical JSON text.
    pub state: &'a [u8],
    /// Unix time of its last change, in seconds.
    pub modified: u64,
    /// [`crate::model::row::Row::version`].
    pub version: u64,
    /// Its history.
    pub events: EventLog,
}

/// The part of a job that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusSnapshot<'a> {
    /// Its status as far as it survives.
    pub stage: PersistedStatus,
    /// Number of retries begun so far.
    pub retries: u32,
    /// Its result, or its last error.
    pub result: Option<Payload<'a>>,
    /// Its last error message for people.
    pub message: Option<&'a str>,
    /// The done part, if a worker has reported it.
    pub progress: Option<Fraction>,
}

/// The status of a job, as far as it survives a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersistedStatus {
    /// Ready, blocked or group-only, or reserved by a connection.
    Waiting,
    /// Reserved by a registered worker.
    Running {
        /// The worker.
        worker: WorkerId,
        /// End of its lease, if it has a time limit.
        until: Option<Mono>,
        /// Epoch of the reservation.
        lease: LeaseEpoch,
    },
    /// Ready from this moment on.
    Delayed(Mono),
    /// Finished; the result is retained until then.
    Completed(Mono),
    /// Retained until then, if that is limited.
    Buried(Option<Mono>),
}

//! What of a job survives a restart: the records of the journal, as values.

use crate::base::time::{Mono, Wall};
use crate::model::event::{Event, EventLog};
use crate::model::external_id::Fraction;
use crate::model::id::JobId;
use crate::model::job::{JobOptions, LeaseEpoch, LeaseToken, Payload, Priority, TieBreak};
use crate::model::schedule::{Schedule, ScheduleState};
use crate::model::worker::{Constraint, WorkerId};
use std::borrow::Cow;

/// One record of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A job, replacing earlier records of it.
    Job(Snapshot<'a>),
    /// The new state of a job.
    State(JobId, StatusSnapshot<'a>),
    /// A job, declared queue, worker, constraint, pause, schedule, past key, past run or loss is
    /// gone.
    Deleted(JobId),
    /// An event of a job that has a history, or was put before and has one now; and the version of
    /// the row that showed it first.
    Event(JobId, u64, Event),
    /// A queue was declared. The id is no job's.
    Queue(JobId, &'a [u8]),
    /// A constraint, replacing the one with this id. The id is no job's.
    Constraint(JobId, Cow<'a, Constraint>),
    /// A queue is paused, until this moment if it ends by itself; replaces the one with this id.
    /// The id is no job's.
    Pause(JobId, &'a [u8], Option<Mono>),
    /// A schedule, replacing the one with this id. The id is no job's.
    Schedule(JobId, Cow<'a, Schedule>, ScheduleState),
    /// A key stays taken after the completion of its job; replaces the one with this id. The id is
    /// no job's.
    PastKey(JobId, PersistedKey<'a>),
    /// A job was completed under a token; replaces the one with this id. The id is no job's.
    PastRun(JobId, PersistedRun),
    /// A job was lost while others wait for it; replaces the one with this id. The id is no job's.
    Loss(JobId, PersistedLoss),
    /// A worker was registered. Its id is no job's.
    Worker(WorkerId, PersistedWorker<'a>),
}

impl Record<'_> {
    /// The id of what it is about.
    #[must_use]
    pub fn id(&self) -> JobId {
        match self {
            Self::Job(job) => job.id,
            Self::State(id, _)
            | Self::Deleted(id)
            | Self::Event(id, ..)
            | Self::Queue(id, _)
            | Self::Constraint(id, _)
            | Self::Pause(id, ..)
            | Self::Schedule(id, ..)
            | Self::PastKey(id, _)
            | Self::PastRun(id, _)
            | Self::Loss(id, _) => *id,
            Self::Worker(id, _) => JobId(id.0),
        }
    }
}

/// A key that stays taken after the completion of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersistedKey<'a> {
    /// Queue name: any bytes.
    pub queue: &'a [u8],
    /// The key.
    pub bytes: &'a [u8],
    /// The job that had it.
    pub job: JobId,
    /// Until when it is taken.
    pub until: Mono,
}

/// A run that was completed under a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersistedRun {
    /// The job that was completed.
    pub job: JobId,
    /// Of the lease.
    pub token: LeaseToken,
    /// Until when the run is known.
    pub until: Mono,
}

/// A job that was lost while others wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersistedLoss {
    /// The job.
    pub job: JobId,
    /// Jobs that wait for it and have lower ids are cancelled, unless they say otherwise.
    pub below: JobId,
}

/// What a job waits for, and its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistedDependencies<'a> {
    /// The jobs that it was put after.
    pub after: Cow<'a, [JobId]>,
    /// The group of which it is a member, and the first member of the group's run: with that the
    /// group began to have unfinished members.
    pub group: Option<(&'a [u8], JobId)>,
    /// The group that it was put after, and the run that it waited for; `None`: the group had no
    /// unfinished members.
    pub after_group: Option<(&'a [u8], Option<JobId>)>,
    /// Whether it runs although a job that it waits for is lost.
    pub runs_if_lost: bool,
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
    /// When it was put, in seconds since 1970; `None`: its history says it, or nothing does.
    pub created: Option<u32>,
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
    /// Its key, if it has one, and for how long that stays taken after its completion, in
    /// milliseconds.
    pub key: Option<(&'a [u8], u64)>,
    /// What it waits for, and its group, if it has said any.
    pub dependencies: Option<Box<PersistedDependencies<'a>>>,
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
    pub stage: PersistedStatus<'a>,
    /// Number of retries begun so far.
    pub retries: u32,
    /// Its result, or its last error.
    pub result: Option<Payload<'a>>,
    /// Its last error message for people.
    pub message: Option<&'a str>,
    /// The done part, if a worker has reported it.
    pub progress: Option<Fraction>,
    /// What the native API keeps of its runs, if there is anything.
    pub runs: Option<RunHistory<'a>>,
}

/// What the native API keeps of the runs of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunHistory<'a> {
    /// Attempts that have ended.
    pub attempts: u32,
    /// The last error: kind, message, and when.
    pub error: Option<(&'a str, &'a str, Wall)>,
    /// What its worker says of its progress.
    pub progress_message: Option<&'a str>,
    /// The token under which it was completed.
    pub completed_by: Option<LeaseToken>,
}

/// The status of a job, as far as it survives a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersistedStatus<'a> {
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
    /// Reserved under a token.
    Leased {
        /// Names the lease.
        token: LeaseToken,
        /// End of the lease.
        until: Mono,
        /// When it was reserved.
        since: Wall,
        /// The name of its worker; empty: none was said.
        worker: &'a str,
    },
    /// Ready from this moment on.
    Delayed(Mono),
    /// Finished; the result is retained until then.
    Completed(Mono),
    /// Buried.
    Buried {
        /// Of two buried jobs of a queue the one with the smaller number was buried first. 0: it is
        /// not known; then it was before those with numbers.
        number: u32,
        /// Retained until then, if that is limited.
        until: Option<Mono>,
    },
}

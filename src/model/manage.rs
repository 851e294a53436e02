//! Commands of the native API (`docs/protocols/api.md`): on jobs by id, on queues, and leases that
//! do not end with a connection. None of them is on the path of a plain put, reserve or delete.

use crate::base::strings::Strings;
use crate::base::time::Wall;
use crate::model::action::{ActionDetails, ActionSpec, JobChange};
use crate::model::backup::{BackupReply, BackupStep};
use crate::model::external_id::Fraction;
use crate::model::flow::{HistoryStep, Rates, StateCounts, StepCounts, StepWaits};
use crate::model::id::JobId;
use crate::model::job::OwnedPriority;
use crate::model::job::{Encoding, LeaseToken};
pub use crate::model::job_details::{
    BlockedBy, ErrorDetails, JobDetails, JobTerms, LeaseDetails, PastEvent,
};
pub use crate::model::job_state::JobState;
pub use crate::model::new_job::{NewDependencies, NewJob, NewKey, OnDuplicate, PutOutcome};
use crate::model::query::Query;
use crate::model::rejection::Rejection;
use crate::model::schedule::{ScheduleCommand, ScheduleReply};
use crate::model::show::{ConstraintPage, WorkerPage};
use crate::model::transfer::{ExportPage, ImportedJob};
use crate::model::wait::Wait;
use crate::model::worker::WorkerId;
use std::cmp::Reverse;
use std::sync::Arc;

/// A command of the native API. Answered by a [`ManageReply`].
#[derive(Clone, Copy, Debug)]
pub enum ManageCommand<'a> {
    /// Reads a job, whatever its status. Answered by `Job` or `Missing`.
    Show {
        /// Job id, existing or not.
        id: JobId,
    },
    /// Reads the counters of a queue. Answered by `Queue` or `Missing`.
    Queue {
        /// Queue name: any bytes.
        queue: &'a [u8],
    },
    /// Some of the queues that are heard of, by name, bytewise. Answered by `Queues`.
    Queues {
        /// Those behind this name; `None`: from the first one on.
        behind: Option<&'a [u8]>,
        /// Only those whose whole name matches; `*` is any text, `?` any byte.
        glob: Option<&'a [u8]>,
        /// Most queues in the answer.
        limit: usize,
    },
    /// The first queues in an order, of a snapshot that is at most a second old. Answered by
    /// `Queues` when it is there.
    Ranked {
        /// By what.
        order: QueueOrder,
        /// Only those whose whole name matches, as above.
        glob: Option<&'a [u8]>,
        /// Most queues in the answer.
        limit: usize,
    },
    /// Registered workers by id, without waiting. Answered by `Workers`.
    Workers {
        /// The smallest id.
        from: WorkerId,
        /// Most workers in the answer.
        limit: usize,
    },
    /// Constraints by name, bytewise. Answered by `Constraints`.
    Constraints {
        /// Behind this name.
        behind: Option<&'a str>,
        /// Most constraints in the answer.
        limit: usize,
    },
    /// What has happened lately. Answered by `History` or `Missing`.
    History {
        /// Of a queue; `None`: of the server.
        queue: Option<&'a [u8]>,
        /// In steps of this length.
        step: HistoryStep,
    },
    /// Pauses a queue: no protocol hands anything out of it, and it survives a restart. A second
    /// pause replaces the first. Answered by `Queue`.
    Pause {
        /// Queue name: any bytes. The queue is created if absent.
        queue: &'a [u8],
        /// When the pause ends by itself; `None`: never.
        for_ms: Option<u64>,
    },
    /// Ends the pause of a queue, if it has one. Answered by `Queue` or `Missing`.
    Resume {
        /// Queue name: any bytes.
        queue: &'a [u8],
    },
    /// Puts a job away, also one that is reserved. Answered by `Job`, `Missing` or `WrongState` (it
    /// is completed).
    Bury {
        /// Job id, existing or not.
        id: JobId,
    },
    /// Makes a buried or scheduled job ready. Answered by `Job`, `Missing` or `WrongState` (it is
    /// blocked, reserved or completed).
    Kick {
        /// Job id, existing or not.
        id: JobId,
    },
    /// Removes a job, whatever its state. Answered by `Done` or `Missing`.
    Remove {
        /// Job id, existing or not.
        id: JobId,
    },
    /// The same, but answered by `WrongState` if it is completed.
    Cancel {
        /// Job id, existing or not.
        id: JobId,
    },
    /// Changes a job. Answered by `Job`, `Missing`, `TooLarge` or `WrongState`: it is reserved or
    /// completed, or buried and has a delay in the change.
    Change {
        /// Job id, existing or not.
        id: JobId,
        /// What of it.
        change: &'a JobChange,
    },
    /// Begins an action. Answered by `Action` at once, or when it has ended, by `Missing`, or by
    /// `Rejected` if there are too many.
    Act(&'a ActionSpec),
    /// Deletes a queue with its jobs, its pause and its index: it is unknown then. Answered by
    /// `Action` when that is done, by `Missing` or `Rejected`, or by `QueueBusy`.
    DropQueue {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// Also if some of its jobs are reserved.
        force: bool,
    },
    /// Switches the index of a queue on, for histories and queries, or off. On: the queue is made
    /// if there is none. Answered by `Index`, off when all histories are freed; by `Missing` (off)
    /// or `Rejected` (on).
    SetIndex {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// Which of the two.
        on: bool,
    },
    /// The jobs of an indexed queue that match a query, by id. Answered by `JobPage`, `Missing` or
    /// `NoIndex`, by `IndexedPage::NotYet` while the index is made, or by
    /// `IndexedReply::BadQuery`.
    Search {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// The comparisons that a job must satisfy.
        query: &'a Arc<Query>,
        /// Only those with greater ids.
        behind: JobId,
        /// Most jobs in the answer.
        limit: usize,
    },
    /// Reads an action. Answered by `Action` or `Missing`.
    ShowAction {
        /// The number of an action, existing or not.
        id: u64,
    },
    /// Some of the last actions, the last one first. Answered by `Actions`.
    ListActions {
        /// Those with lower numbers; `None`: from the last one on.
        below: Option<u64>,
        /// Most actions in the answer.
        limit: usize,
    },
    /// Ends an action early. Answered by `Action` or `Missing`.
    CancelAction {
        /// The number of an action, existing or not.
        id: u64,
    },
    /// Adds a job. Answered by `Job` or `Rejected`, or if its key is taken by `Duplicate`,
    /// `Completed` or `KeyTaken`.
    Put {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// The job.
        job: &'a NewJob,
    },
    /// Adds jobs, each a put of its own. Answered by `Puts`.
    PutMany {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// The jobs, a bounded number.
        jobs: &'a [NewJob],
    },
    /// Reserves several jobs, and gives all of them leases of their own if the terms are there.
    /// Answered by `Jobs`; if there is none, like a reserve, at the end of the wait.
    ReserveMore {
        /// A job that the client has just reserved: it counts as the first one.
        first: Option<JobId>,
        /// Queue names, as of a reserve.
        queues: Strings<'a>,
        /// How many, how long to wait, and under which lease.
        terms: &'a ReserveTerms,
    },
    /// Some jobs of a queue. Answered by `JobPage` or `Missing`.
    Jobs {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// Only those in this state.
        state: Option<JobState>,
        /// Where to begin.
        from: &'a JobCursor,
        /// Most jobs in the answer.
        limit: usize,
    },
    /// What became of the run of a reserved job. Answered by `Job`, by `Done` if the job was
    /// completed, by `Missing` or `Rejected`, or by `StaleToken` or `Cancelled`.
    Report {
        /// Job id, existing or not.
        id: JobId,
        /// Names the lease; `None`: the job is reserved by the connection. Only a release is then
        /// for any client.
        token: Option<LeaseToken>,
        /// What became of it.
        report: &'a RunReport,
    },
    /// Waits for the end of a job. Answered by `Job` when it is completed or buried, or if the wait
    /// is 0, by `Missing`, or by `Reply::Tracked` with `Deleted` or `NotYet`.
    AwaitEnd {
        /// Job id, existing or not.
        id: JobId,
        /// In milliseconds.
        wait_ms: u64,
    },
    /// Some jobs, by id, with everything that another server needs of them. Answered by `Exported`
    /// or `Missing`.
    Export {
        /// Only those of this queue: any bytes.
        queue: Option<&'a [u8]>,
        /// Only those in this state.
        state: Option<JobState>,
        /// Those with this id and greater ones.
        from: JobId,
    },
    /// Adds jobs of another server, each with what has become of it. Groups that they wait for do
    /// not end before `EndImport`, or before the client is gone. Answered by `Puts`, or by
    /// `Rejected` if none was added.
    Import(&'a [ImportedJob]),
    /// The import of this client is over. Answered by `Done`.
    EndImport,
    /// A step of a backup. Answered by `Backup`.
    Backup(BackupStep),
    /// A command on schedules. Answered by `Schedule`, or as it says.
    Schedule(ScheduleCommand<'a>),
}

/// What a reserve of several jobs asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReserveTerms {
    /// Most jobs, the first included.
    pub limit: usize,
    /// How long to wait for the first one.
    pub wait: Wait,
    /// `None`: the jobs are reserved by the connection.
    pub lease: Option<LeaseTerms>,
}

/// What a lease under a token is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// Its length; `None`: that of the job, or one minute if it has none.
    pub ttr_ms: Option<u64>,
    /// The name of the worker; empty: it has said none.
    pub worker: Box<str>,
}

/// What became of the run of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunReport {
    /// It is done.
    Complete {
        /// Retained with the job for as long as its options say.
        result: Option<(Encoding, Box<[u8]>)>,
    },
    /// It has failed: the job is tried again after its backoff, or buried.
    Fail {
        /// Kind of the error.
        error: Box<str>,
        /// For people.
        message: Box<str>,
        /// Whether another try may succeed.
        retry: bool,
        /// In place of the backoff.
        delay_ms: Option<u64>,
    },
    /// The job goes back, and the run does not count as an attempt.
    Release {
        /// Its new priority.
        priority: Option<OwnedPriority>,
        /// Before it is ready again.
        delay_ms: u64,
    },
    /// The lease begins again.
    Touch {
        /// The new length of the lease.
        ttr_ms: Option<u64>,
    },
    /// How far it is. The lease goes on as it was.
    Progress {
        /// The part that is done.
        progress: Option<Fraction>,
        /// For people.
        message: Option<Box<str>>,
    },
}

/// The answer to a [`ManageCommand`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManageReply {
    /// The job after the command.
    Job(Box<JobDetails>),
    /// The queue after the command.
    Queue(Box<QueueDetails>),
    /// Some queues.
    Queues(Box<QueuePage>),
    /// What has happened lately.
    History(Box<HistoryDetails>),
    /// Some registered workers.
    Workers(Box<WorkerPage>),
    /// Some constraints.
    Constraints(Box<ConstraintPage>),
    /// The command was executed.
    Done,
    /// The answers to several puts, in their order.
    Puts(Box<[PutOutcome]>),
    /// Reserved jobs, the most urgent first.
    Jobs(Box<[JobDetails]>),
    /// The token is not that of the present lease.
    StaleToken,
    /// The job was cancelled while it ran.
    Cancelled,
    /// Some jobs of a queue.
    JobPage(Box<JobPage>),
    /// Nothing was added: this job has the key.
    Duplicate(Box<JobDetails>),
    /// Nothing was added: this job had the key, and is completed and gone.
    Completed(JobId),
    /// The put is rejected: this job has the key, or had it.
    KeyTaken(JobId),
    /// The state of the job does not permit the command.
    WrongState(JobState),
    /// The job would be too large for a packet.
    TooLarge,
    /// An action.
    Action(Box<ActionDetails>),
    /// Some actions, the last one first.
    Actions(Box<[ActionDetails]>),
    /// Whether the queue is indexed, and whether jobs are left that are not in the index yet.
    Index {
        /// It is switched on.
        on: bool,
        /// It is not complete.
        building: bool,
    },
    /// The queue is not indexed.
    NoIndex,
    /// This number of jobs of the queue are reserved.
    QueueBusy(u64),
    /// There is nothing to act on.
    Missing(Missing),
    /// Some jobs of an export.
    Exported(Box<ExportPage>),
    /// The answer to a step of a backup.
    Backup(Box<BackupReply>),
    /// The answer to a command on schedules.
    Schedule(Box<ScheduleReply>),
    /// Nothing has changed.
    Rejected(Rejection),
}

/// What is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// An id that was never given out to a job.
    NeverGivenOut,
    /// A job that is gone.
    Gone,
    /// A queue of which nothing is known.
    Queue,
}

/// Some jobs of a queue: ready ones in the order in which they would be handed out, scheduled ones
/// by their moments, up to a number; behind those, and all others, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobPage {
    /// In the order of the list.
    pub jobs: Vec<JobDetails>,
    /// Where the next page begins; `None`: this was the last one. A page may be empty and not the
    /// last one.
    pub next: Option<JobCursor>,
}

/// A place in a list of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum JobCursor {
    /// Its begin.
    #[default]
    Start,
    /// Behind this key, and this many jobs were shown.
    Ordered(ListKey, u32),
    /// From this id on, without those up to this key.
    ById(u64, Option<ListKey>),
}

/// The place of a job in the order of hand-out, or of firing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListKey {
    /// Compared first.
    pub rank: u64,
    /// Length and digits of a priority beyond 64 bits, which leaves sooner if it is larger.
    pub digits: Option<Reverse<(usize, Box<str>)>>,
    /// Compared last.
    pub tie: u64,
}

/// By what queues are ordered; the largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueOrder {
    /// The number of ready jobs.
    Ready,
    /// The age of the oldest ready job.
    Oldest,
}

/// What has happened lately, step by step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryDetails {
    /// The length of a step.
    pub step: HistoryStep,
    /// The end of the last one, which is not over.
    pub until: Wall,
    /// The oldest first.
    pub steps: Vec<StepCounts>,
    /// Of the server, for each step; of a queue there are none.
    pub waits: Vec<StepWaits>,
}

/// Some queues, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuePage {
    /// By name, bytewise.
    pub queues: Vec<QueueDetails>,
    /// The next page is behind this name; `None`: this was the last one. A page may be empty and
    /// not the last one.
    pub next: Option<Box<[u8]>>,
}

/// A queue with its counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueDetails {
    /// Queue name: any bytes.
    pub name: Box<[u8]>,
    /// Whether its jobs are not handed out.
    pub paused: bool,
    /// When the pause ends by itself.
    pub paused_until: Option<Wall>,
    /// Whether it is indexed, for queries and histories.
    pub indexed: bool,
    /// Numbers of jobs by state, in the order of [`JobState::ALL`].
    pub counts: StateCounts,
    /// Of the last minute.
    pub rates: Rates,
    /// For how long the oldest ready job has been ready, in milliseconds; of more than
    /// `QUEUE_JOBS_SCANNED` ready jobs, the oldest of that number of the more urgent ones.
    pub oldest_ready_ms: Option<u64>,
    /// Reserves and pops that wait for a job of this queue, counted up to `QUEUE_WAITERS_COUNTED`.
    pub waiting_consumers: u64,
}

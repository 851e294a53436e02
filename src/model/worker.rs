//! Commands of registered workers and tracked jobs, and constraints (`docs/protocols/lightjq.md`).

use crate::base::strings::{StringList, Strings};
use crate::model::external_id::{Fraction, JobRef};
use crate::model::id::JobId;
use crate::model::job::{LeaseEpoch, Payload};

/// Id of a registered worker: unique for the life of the data, rising.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u64);

/// A command of a registered worker, on a tracked job, on a job by external id, or on constraints.
#[derive(Clone, Copy, Debug)]
pub enum WorkerCommand<'a> {
    /// Registers a worker, in place of the one with the same URL, which is deregistered: its
    /// program was restarted. Answered by `Reply::Registered`, or that there is no space. It
    /// reserves nothing before [`WorkerCommand::Attach`]. Without a URL it is the bus worker: there
    /// is at most one, it cannot be deregistered, and registering it again changes nothing.
    Register(Worker<'a>),
    /// Deregisters a worker; its reserved jobs go back. Answered by [`WorkerReply`].
    Deregister {
        /// Registered or not.
        worker: WorkerId,
    },
    /// The registered workers from this id on, by id, a bounded number at a time; waits until there
    /// is one. Answered by `Reply::Workers`.
    AwaitWorkers {
        /// Smallest id.
        from: WorkerId,
    },
    /// The client acts for this worker from now on: reservations belong to the worker. Answered by
    /// `Reply::Attached` or `WorkerReply::NoWorker`. When the worker is deregistered, the client's
    /// waiting commands are cancelled.
    Attach {
        /// Registered or not.
        worker: WorkerId,
    },
    /// Waits until the client acts for no worker: its worker was deregistered, another client was
    /// attached to it, or the client was detached. Answered by `Reply::Done`, at once if that is
    /// so.
    AwaitDetach,
    /// As [`WorkerCommand::Attach`], with a lease for each later reservation of the client. Jobs of
    /// the worker that were never confirmed go back.
    AttachWithLease {
        /// Registered or not.
        worker: WorkerId,
        /// Length of the lease in milliseconds.
        lease_ms: u64,
    },
    /// The client acts for its worker no longer: its waiting commands are cancelled, and its
    /// reservations stay the worker's. Answered by `WorkerReply::Done`.
    Detach,
    /// Adds a job with an external id. Answered by `Reply::Put`, or `Rejection::NameTaken`.
    PutByName {
        /// Queue and external id, which must be unique.
        job: JobRef<'a>,
        /// Priority within the queue.
        priority: i64,
        /// Bytes that the server never changes.
        payload: Payload<'a>,
    },
    /// The client works on a reserved job: its lease starts again, and its progress is set.
    /// Answered like a release.
    ReportProgress {
        /// Queue and external id, existing or not.
        job: JobRef<'a>,
        /// The done part; `None`: as before, which is 0 at first.
        progress: Option<Fraction>,
    },
    /// A reserved job is done, without result. Answered like a release.
    CompleteByName {
        /// Queue and external id, existing or not.
        job: JobRef<'a>,
    },
    /// Removes a job, whatever its status. Answered by `Reply::Done` or `Reply::NoJob`.
    DeleteByName {
        /// Queue and external id, existing or not.
        job: JobRef<'a>,
    },
    /// Ready and reserved jobs of a queue, a bounded number at a time; a job that does not move
    /// counts exactly once. Answered by `Reply::QueueScan`.
    ScanQueue {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// 0, or `next` of an earlier reply.
        from: u32,
    },
    /// Reserves the most urgent ready tracked job of any queue. Answered as `Command::Reserve` that
    /// waits forever. No protocol submits it: dispatchers reserve by
    /// [`WorkerCommand::ReserveFor`], which also checks the worker; tests of the store reserve by
    /// this without a registered worker.
    ReserveAny,
    /// Reserves a job for this worker and waits forever. Answered as `Command::Reserve`, or by
    /// `WorkerReply::NoWorker` if the client does not act for it, or does so no longer.
    ReserveFor {
        /// The worker to which the client was attached.
        worker: WorkerId,
        /// Queue names; `None`: as [`WorkerCommand::ReserveAny`].
        queues: Option<Strings<'a>>,
    },
    /// Waits until the client's reservation of this job has ended, for whatever reason. Answered by
    /// `Reply::Done`, at once if that is so.
    AwaitRelease {
        /// Job id, existing or not.
        id: JobId,
        /// Epoch of the reservation.
        lease: LeaseEpoch,
    },
    /// Gives back a reserved job that was not started: no try is spent and its tokens are refunded.
    /// A job that a worker has confirmed stays. Answered like a release.
    ReturnUnstarted {
        /// Job id, existing or not.
        id: JobId,
        /// Epoch of the reservation.
        lease: LeaseEpoch,
        /// Whether to add the worker to the job's exclusion set.
        exclude: bool,
    },
    /// A worker reports the outcome of a run. Answered by `Reply::Done`, by `Reply::NoJob` if it
    /// has not reserved the job (any more), or by `WorkerReply::NoWorker`.
    Report {
        /// The reporting worker.
        worker: WorkerId,
        /// Of which job.
        id: JobId,
        /// Success, failure or rejection.
        report: RunOutcome<'a>,
    },
    /// The status of a tracked job, with its result. A result that is to be fetched once is
    /// removed. Answered by `Reply::JobStatus`, `TrackedReply::Deleted` or `TrackedReply::NoJob`.
    GetStatus {
        /// Job id, existing or not.
        id: JobId,
    },
    /// The same when the job is completed or buried, or after `wait_ms`: then
    /// `TrackedReply::NotYet`.
    AwaitResult {
        /// Job id, existing or not.
        id: JobId,
        /// Longest wait in milliseconds.
        wait_ms: u64,
    },
    /// Removes a job that is not reserved and has not ended. Answered by [`TrackedReply`].
    Cancel {
        /// Job id, existing or not.
        id: JobId,
    },
    /// Sets a constraint, in place of the one of its name. Answered by
    /// `ConstraintReply::Set`, or that there is no space.
    SetConstraint(&'a Constraint),
    /// Removes a constraint. Answered by `ConstraintReply::Removed` or
    /// `ConstraintReply::NoConstraint`.
    RemoveConstraint {
        /// The constraint's name, UTF-8.
        name: &'a str,
    },
    /// Reads a constraint. Answered by `Reply::ConstraintFound` or
    /// `ConstraintReply::NoConstraint`.
    GetConstraint {
        /// The constraint's name, UTF-8.
        name: &'a str,
    },
}

/// An answer to a command about the worker registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerReply {
    /// The command was executed.
    Done,
    /// The worker is not registered.
    NoWorker,
    /// There are too many workers, the job table is full, or the ids are used up.
    Full,
    /// The journal has no space for the worker.
    DiskFull,
}

/// An answer to a command on a tracked job that does not show its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackedReply {
    /// The job was removed by this command.
    Removed,
    /// The job existed and is gone.
    Deleted,
    /// The job never existed.
    NoJob,
    /// The job has not ended within the wait.
    NotYet,
    /// The wait was cancelled before the job had ended.
    Cancelled,
    /// The job is reserved or has ended, so that it cannot be cancelled.
    TooLate,
}

/// An answer to a command on a constraint that does not show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstraintReply {
    /// The constraint was set.
    Set {
        /// Whether no constraint had the name before.
        new: bool,
    },
    /// The constraint was removed.
    Removed,
    /// No constraint has this name.
    NoConstraint,
    /// There are too many constraints, the job table is full, or the ids are used up.
    Full,
    /// The journal has no space for the constraint.
    DiskFull,
}

/// A worker as it registers.
#[derive(Clone, Copy, Debug)]
pub struct Worker<'a> {
    /// For people, UTF-8.
    pub name: &'a str,
    /// Where it receives deliveries; empty for the bus worker: see [`Worker::kind`].
    pub url: &'a str,
    /// Most jobs that it runs at a time.
    pub max_jobs: u32,
    /// Job names that it accepts; `None`: any tracked job.
    pub queues: Option<&'a StringList>,
}

/// How jobs reach a registered worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerKind<'a> {
    /// By HTTP requests to this URL.
    Http(&'a str),
    /// By the processor protocol. There is at most one such worker, and it is not deregistered.
    Bus,
}

impl<'a> Worker<'a> {
    /// Its kind. In commands and in the journal the bus worker is the one with an empty URL.
    #[must_use]
    pub const fn kind(&self) -> WorkerKind<'a> {
        if self.url.is_empty() { WorkerKind::Bus } else { WorkerKind::Http(self.url) }
    }
}

/// A registered worker with its id: a [`Worker`] that borrows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedWorker {
    /// Its id.
    pub id: WorkerId,
    name: Box<str>,
    url: Box<str>,
    max_jobs: u32,
    queues: Option<StringList>,
}

impl OwnedWorker {
    /// O(bytes).
    #[must_use]
    pub fn new(id: WorkerId, worker: &Worker<'_>) -> Self {
        let queues = worker.queues.map(|names| {
            let mut list = StringList::default();
            names.into_iter().for_each(|name| list.push(name));
            list
        });
        let (name, url) = (worker.name.into(), worker.url.into());
        Self { id, name, url, max_jobs: worker.max_jobs, queues }
    }

    /// The copied view.
    #[must_use]
    pub fn view(&self) -> Worker<'_> {
        let Self { name, url, max_jobs, queues, .. } = self;
        Worker { name, url, max_jobs: *max_jobs, queues: queues.as_ref() }
    }
}

/// What came of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome<'a> {
    /// The job is done.
    Success {
        /// Retained with the completed job.
        result: Payload<'a>,
    },
    /// The run has failed.
    Failure {
        /// Whether another try may succeed.
        retry: bool,
        /// Machine-readable error.
        error: Payload<'a>,
        /// Error message for people, UTF-8.
        message: &'a str,
    },
    /// The worker does not accept the job: a failure that is tried again, but not by this worker.
    /// Ignored if it has reserved the job under another epoch by now.
    Rejected {
        /// Epoch under which the job was offered.
        lease: LeaseEpoch,
        /// Machine-readable error.
        error: Payload<'a>,
        /// Error message for people, UTF-8.
        message: &'a str,
    },
}

/// A limit on the jobs that a matcher selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// Unique among constraints, UTF-8.
    pub name: Box<str>,
    /// All of these must hold.
    pub matcher: Vec<Condition>,
    /// How many selected jobs run at a time.
    pub max_running: Option<u32>,
    /// How many of them start in a time.
    pub rate: Option<Rate>,
    /// Both limits apply to each value at this path by itself.
    pub per: Option<Path>,
}

impl Constraint {
    /// The bytes of its texts, nearly. O(conditions).
    #[must_use]
    pub fn bytes(&self) -> usize {
        let text = |value: &Scalar| if let Scalar::Text(text) = value { text.len() } else { 8 };
        let path = |path: &Path| match path {
            Path::Name => 4,
            Path::Argument(keys) => 8 + keys.iter().map(|key| 1 + key.len()).sum::<usize>(),
        };
        let condition = |condition: &Condition| {
            path(&condition.path) + condition.values.iter().map(text).sum::<usize>()
        };
        let matcher = self.matcher.iter().map(condition).sum::<usize>();
        self.name.len() + matcher + self.per.as_ref().map_or(0, path)
    }
}

/// A rate limit, kept by token buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Jobs per period.
    pub count: u32,
    /// Length of the period in milliseconds.
    pub period_ms: u64,
    /// Capacity of the token bucket: how many may start at once.
    pub burst: u32,
}

/// One comparison of a matcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The left side.
    pub path: Path,
    /// Comparison.
    pub op: Compare,
    /// The right side; more than one only for [`Compare::In`].
    pub values: Vec<Scalar>,
}

/// A value of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Path {
    /// The name of its queue.
    Name,
    /// A value in its payload, by keys from the outside in.
    Argument(Vec<Box<str>>),
}

/// A value that conditions compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Absent, or nil.
    Nil,
    /// True or false.
    Bool(bool),
    /// An integer.
    Integer(i128),
    /// The bits of a double; never NaN.
    Float(u64),
    /// A text; against queue names, `*` matches any text.
    Text(Box<str>),
}

/// Comparisons of conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `in`
    In,
}

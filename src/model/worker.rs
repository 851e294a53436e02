//! What a protocol asks whose jobs are followed to a result, and whose workers are called by the
//! server (`docs/protocols/lightjq.md`): workers that outlive their connections, waiting for the
//! end of a job, results that are fetched, constraints.

use crate::base::strings::Strings;
use crate::model::external_id::{Fraction, JobRef};
use crate::model::id::JobId;
use crate::model::job::{LeaseEpoch, Payload, Status};
use crate::model::reply::JobInfo;

/// A worker that was enlisted: unique for the life of the data, rising.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u64);

/// A question or an order about work that is followed to a result.
#[derive(Clone, Copy, Debug)]
pub enum WorkerCommand<'a> {
    /// Put a worker on the list, in place of the one at the same address, which is dismissed: what
    /// listens there was begun anew. Answered by `Reply::Worker`. It takes nothing before
    /// [`WorkerCommand::Attach`]. One without a URL is the processor, which nobody calls and nobody
    /// dismisses: there is one at most, and enlisting it again changes nothing.
    Register(Worker<'a>),
    /// Take a worker off the list; the jobs that it holds go back. Answered by `Reply::Done` or
    /// `Reply::NoWorker`.
    Deregister {
        /// Which.
        worker: WorkerId,
    },
    /// The asking client acts for this worker from now on: it holds what the worker holds. Answered
    /// by `Reply::Done` or `Reply::NoWorker`. When the worker is dismissed, all that the client
    /// waits for is cancelled.
    Attach {
        /// Which.
        worker: WorkerId,
    },
    /// As [`WorkerCommand::Attach`], and whatever the client is handed out from now on it holds for
    /// so long at a time. Of what the worker holds, that goes back which nobody has said to work
    /// on.
    AttachWithLease {
        /// Which.
        worker: WorkerId,
        /// The lease of everything that is handed out to the client, in milliseconds.
        lease_ms: u64,
    },
    /// The asking client acts for its worker no longer: what it waits for is cancelled, and what it
    /// holds the worker goes on to hold. Answered by `Reply::Done`.
    Detach,
    /// Make a job that has a name. Answered by `Reply::Put`, or `Refusal::NameTaken`.
    PutByName {
        /// Queue and name, which no other job has.
        job: JobRef<'a>,
        /// How urgent the job is.
        priority: i64,
        /// What it carries.
        payload: Payload<'a>,
    },
    /// The client works on a job that it holds: its lease begins anew, and so much is done of it;
    /// `None`: as much as before, which is nothing at first. Answered like a release.
    ReportProgress {
        /// Which.
        job: JobRef<'a>,
        /// How much is done.
        progress: Option<Fraction>,
    },
    /// A job that the client holds is done, with nothing to say about it. Answered like a release.
    CompleteByName {
        /// Which.
        job: JobRef<'a>,
    },
    /// Make an end of a job, whoever holds it. Answered by `Reply::Done` or `Reply::NoJob`.
    DeleteByName {
        /// Which.
        job: JobRef<'a>,
    },
    /// What the jobs of a queue are doing, from a place on that an earlier answer gave, 0 at first.
    /// Answered by `Reply::Survey`, a bounded number at a time; each job that stays where it is
    /// counts once.
    ScanQueue {
        /// The name of the queue.
        queue: &'a [u8],
        /// Where to go on.
        from: u32,
    },
    /// Hand the most urgent ready job of those that were put with `JobOptions::followed`, whatever
    /// their queues, to the client. Answered as `Command::Take` that waits forever.
    ReserveAny,
    /// Wait until the client does not hold this job any more, for whatever reason: its place is
    /// free. Answered by `Reply::Done`, at once if that is so.
    AwaitRelease {
        /// The job.
        id: JobId,
        /// Under which lease it was handed out.
        lease: LeaseEpoch,
    },
    /// A job that the client could not have worked on goes back as if it had never been handed
    /// out: no try of it is spent. One of which somebody says that it is worked on stays. Answered
    /// like a release.
    ReturnUnstarted {
        /// The job.
        id: JobId,
        /// Under which lease.
        lease: LeaseEpoch,
        /// Do not offer it to this worker again.
        exclude: bool,
    },
    /// A worker tells what came of a job that it holds. Answered by `Reply::Done`, by
    /// `Reply::NoJob` when it does not hold it (any more), or by `Reply::NoWorker`.
    Report {
        /// Who tells.
        worker: WorkerId,
        /// Of which job.
        id: JobId,
        /// What came of it.
        report: RunOutcome<'a>,
    },
    /// How a job is going. A kept result that is to be fetched once goes with the answer. Answered
    /// by `Reply::Progress`, `Reply::Deleted` for a job that was once, or `Reply::NoJob`.
    GetStatus {
        /// The job.
        id: JobId,
    },
    /// The same once it is finished or has failed for good, or after so many milliseconds: then
    /// `Reply::NotYet`.
    AwaitResult {
        /// The job.
        id: JobId,
        /// How long to wait at most.
        wait_ms: u64,
    },
    /// Remove a job that nobody works on and that has not ended. Answered by `Reply::Done`,
    /// `Reply::Deleted`, `Reply::NoJob`, or `Refusal::TooLate`.
    Cancel {
        /// The job.
        id: JobId,
    },
    /// Hold jobs back from now on, in place of the constraint of the same name. Answered by
    /// `Reply::Constrained`.
    SetConstraint(&'a Constraint),
    /// No longer. Answered by `Reply::Done` or `Reply::NoConstraint`.
    RemoveConstraint {
        /// The constraint's name.
        name: &'a str,
    },
    /// What a constraint says. Answered by `Reply::Constraint` or `Reply::NoConstraint`.
    GetConstraint {
        /// Its name.
        name: &'a str,
    },
}

/// A worker as it presents itself.
#[derive(Clone, Copy, Debug)]
pub struct Worker<'a> {
    /// A name for people.
    pub name: &'a str,
    /// Where it listens; empty for the bus worker: see [`Worker::kind`].
    pub url: &'a str,
    /// How many jobs it takes at a time.
    pub max_jobs: u32,
    /// The queues that it works on; `None`: whatever was put with `JobOptions::followed`.
    pub queues: Option<Strings<'a>>,
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

/// What came of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome<'a> {
    /// It is done.
    Success {
        /// What came of it.
        result: Payload<'a>,
    },
    /// It has failed.
    Failure {
        /// Whether it is worth another try.
        retry: bool,
        /// What went wrong, for programs.
        error: Payload<'a>,
        /// What went wrong, for people.
        message: &'a str,
    },
    /// The worker would not have it: it has failed and is worth another try, but is not offered to
    /// this worker again. If it holds the job under another lease by now, nothing is changed.
    Rejected {
        /// Under which lease it was offered the job.
        lease: LeaseEpoch,
        /// What went wrong, for programs.
        error: Payload<'a>,
        /// What went wrong, for people.
        message: &'a str,
    },
}

/// How a job is going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobStatus<'a> {
    /// Everything about it; its result, or what went wrong last, included.
    pub info: JobInfo<'a>,
    /// Who works on it.
    pub worker: Option<WorkerId>,
    /// What went wrong last, for people.
    pub message: Option<&'a str>,
}

impl JobStatus<'_> {
    /// The word for it.
    #[must_use]
    pub fn status(&self) -> &'static str {
        match self.info.status {
            Status::Reserved => "running",
            Status::Completed => "done",
            Status::Buried => "error",
            Status::Ready | Status::Blocked | Status::GroupOnly | Status::Delayed => {
                if self.info.retries > 0 { "retrying" } else { "queued" }
            }
        }
    }
}

/// Which jobs may run, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// Its name.
    pub name: Box<str>,
    /// Which jobs it is about: all of these hold.
    pub matcher: Vec<Condition>,
    /// How many of them run at a time.
    pub max_running: Option<u32>,
    /// How many of them are started in a time.
    pub rate: Option<Rate>,
    /// Both count for each value at this path of its own.
    pub per: Option<Path>,
}

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// So many jobs...
    pub count: u32,
    /// ... in so many milliseconds.
    pub period_ms: u64,
    /// How many may start at once after a rest.
    pub burst: u32,
}

/// One condition of a matcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Of what.
    pub path: Path,
    /// How it is compared.
    pub op: Compare,
    /// With what; more than one only for [`Compare::In`].
    pub values: Vec<Scalar>,
}

/// What a condition looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Path {
    /// The name of the job's queue.
    Name,
    /// A place in its payload, by keys from the outside in.
    Argument(Vec<Box<str>>),
}

/// A value that can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Nothing there, or nil.
    Nil,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Integer(i128),
    /// A number with a fraction, by its bits; never NaN.
    Float(u64),
    /// A text; of a name, `*` stands for any text.
    Text(Box<str>),
}

/// How a condition compares.
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

//! What an engine answers.

use crate::base::time::Mono;
use crate::model::external_id::QueueScan;
use crate::model::id::{JobId, Ticket};
use crate::model::indexed_queue::QueueSize;
use crate::model::job::{LeaseEpoch, Packet, Payload, Priority, Status};
use crate::model::row::{Row, Rows};
use crate::model::stats::StatsPage;
use crate::model::worker::{Constraint, JobStatus, WorkerId};
use std::sync::Arc;

/// A reply on its way to the session that asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion<'a> {
    /// Which request is answered.
    pub ticket: Ticket,
    /// The answer.
    pub reply: Reply<'a>,
}

/// The answer to one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The query is none that can be evaluated, or took too long: a sentence.
    BadQuery(&'a str),
    /// A take was called off by its client before there was a job.
    Cancelled,
    /// A part of a census.
    Stats(&'a StatsPage),
    /// The constraint of this name.
    Constraint(&'a Constraint),
    /// Jobs are held back as was asked.
    Constrained {
        /// Whether there was no constraint of the name before.
        new: bool,
    },
    /// The job has another state, this one.
    Conflict(&'a Arc<[u8]>),
    /// It is done.
    Done,
    /// So many jobs of the queue were removed.
    QueueDropped {
        /// How many.
        jobs: u32,
        /// Whether there are more, so that the queue is still there.
        more: bool,
    },
    /// There is no such job any more, but there was one.
    Deleted,
    /// These jobs match, in their order.
    QueryRows(&'a Arc<[Arc<Row>]>),
    /// Here is the job; the client holds it now.
    Job(JobView<'a>),
    /// So many buried jobs were kicked.
    Kicked(u32),
    /// There is no such constraint.
    NoConstraint,
    /// There is no such job, or none ready.
    NoJob,
    /// There is no such queue.
    NoQueue,
    /// There is no such worker.
    NoWorker,
    /// The jobs of the queue are being taken stock of: ask again in the next pass. Or: the job has
    /// not come to its end in the time that was given.
    NotYet,
    /// This is how the job is going.
    JobStatus(Box<JobStatus<'a>>),
    /// Here are the jobs; they are gone from the store. The first one was selected, the others have
    /// its key, newest first.
    Packets(&'a [Packet]),
    /// The job is in its queue.
    Put(JobId),
    /// The queue of this name is there now.
    Queue(&'a [u8]),
    /// Some of the queues.
    Queues {
        /// Which.
        queues: &'a [QueueSize],
        /// Where to go on, if there are more.
        next: Option<u32>,
    },
    /// It cannot be done; nothing has changed.
    Rejected(Rejection),
    /// This is the job now.
    Row(&'a Arc<Row>),
    /// These are the jobs of the queue.
    Rows(&'a Rows),
    /// This is what the job looks like. Boxed: rare, and twice the size of the others.
    Peeked(Box<JobInfo<'a>>),
    /// Some of the jobs of a queue.
    QueueScan(&'a QueueScan),
    /// The worker is on the list.
    Worker(WorkerId),
    /// A pop would have selected this job, which is too large for it; it stays.
    TooLarge(JobId),
}

impl Reply<'_> {
    /// The end of a session that is given this reply to a command with other replies.
    ///
    /// # Panics
    /// Always.
    #[cold]
    pub fn unexpected(&self) -> ! {
        panic!("{:.80} does not answer the command", format!("{self:?}"))
    }
}

/// A job as a client gets to see it, borrowed from where it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobView<'a> {
    /// Its id.
    pub id: JobId,
    /// The name of its queue.
    pub queue: &'a [u8],
    /// How urgent it is.
    pub priority: Priority<'a>,
    /// What it carries.
    pub payload: Payload<'a>,
    /// The lease under which it was handed out last.
    pub lease: LeaseEpoch,
    /// Whether it has a name, which its payload says.
    pub named: bool,
}

const _: () = assert!(size_of::<JobView<'_>>() == 80 && size_of::<Reply<'_>>() == 80);

/// Everything about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobInfo<'a> {
    /// What its holder sees.
    pub job: JobView<'a>,
    /// What it is doing.
    pub status: Status,
    /// When its status ends by itself: end of its delay or time to live, whichever comes first, of
    /// its lease, or of its being kept.
    pub due: Option<Mono>,
    /// For how long it is handed out at a time, in milliseconds; 0: for any time.
    pub lease_ms: u64,
    /// How many retries were decided so far.
    pub retries: u32,
    /// Its result, or what went wrong last.
    pub result: Option<Payload<'a>>,
}

/// Why a command cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The store has no place or no id left.
    Full,
    /// The disk has no space left for another job, or for a result to be kept.
    DiskFull,
    /// Another client holds the job.
    ReservedByAnother(JobId),
    /// Nobody holds the job.
    NotReserved(JobId),
    /// The client holds the job, but under a later lease than it names.
    LeaseExpired(JobId),
    /// A kick of a job that is not buried.
    NotBuried(JobId),
    /// There is a queue of this name already.
    QueueExists,
    /// The log of the job takes no more events.
    LogFull,
    /// This job has the name already.
    NameTaken(JobId),
    /// Somebody works on the job, or it has come to its end: it cannot be cancelled.
    TooLate(JobId),
}

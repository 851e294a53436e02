//! Replies of the engine, and the job views that they carry.

use crate::base::time::Mono;
use crate::model::consumer::ConsumerReply;
use crate::model::external_id::QueueScan;
use crate::model::id::{JobId, Ticket};
use crate::model::indexed_queue::{IndexedPage, IndexedReply};
use crate::model::job::{LeaseEpoch, Packet, Payload, Priority, Status};
use crate::model::manage::ManageReply;
pub use crate::model::rejection::Rejection;
use crate::model::stats::StatsPage;
use crate::model::worker::{
    Constraint, ConstraintReply, OwnedWorker, TrackedReply, WorkerId, WorkerReply,
};

/// The one answer to a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion<'a> {
    /// The request that is answered.
    pub ticket: Ticket,
    /// Valid until the next call of the engine.
    pub reply: Reply<'a>,
}

/// The answer to one command. The answers to commands on jobs are variants here, since they are
/// frequent; the others are grouped by what their commands are about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A waiting command was cancelled before there was a job.
    Cancelled,
    /// The command was executed.
    Done,
    /// The job, now reserved by the client.
    Job(JobView<'a>),
    /// Number of jobs kicked.
    Kicked(u32),
    /// No job is ready, and a lease that the client holds is in its last second.
    LeaseEnding,
    /// The job does not exist, or no job is ready.
    NoJob,
    /// Popped jobs, gone from the store. The first was selected, the others have its key, newest
    /// first.
    Packets(&'a [Packet]),
    /// The same, if they are many or large: their memory is the receiver's.
    KeyGroup(Vec<Packet>),
    /// A view of the job. Boxed: rare, and twice the size of the others.
    Peeked(Box<JobInfo<'a>>),
    /// The job was added.
    Put(JobId),
    /// Nothing has changed.
    Rejected(Rejection),
    /// A pop selected this job, which is too large for it; it stays.
    TooLarge(JobId),
    /// The end of a command on indexed queues.
    Indexed(&'a IndexedReply),
    /// The answer to one step of a command on indexed queues.
    IndexedPage(&'a IndexedPage),
    /// The answer to a [`ConsumerCommand`](crate::model::consumer::ConsumerCommand).
    Consumer(&'a ConsumerReply),
    /// The answer to a command of the native API.
    Manage(&'a ManageReply),
    /// The status of a tracked job.
    JobStatus(Box<JobStatus<'a>>),
    /// Any other answer to a command on a tracked job.
    Tracked(TrackedReply),
    /// The worker is registered under this id.
    Registered(WorkerId),
    /// The client is attached; the worker has reserved these jobs.
    Attached(&'a [(JobId, LeaseEpoch)]),
    /// Some registered workers, at least one, by id.
    Workers(&'a [OwnedWorker]),
    /// Any other answer to a command about the worker registry.
    Worker(WorkerReply),
    /// The constraint of this name.
    ConstraintFound(&'a Constraint),
    /// Any other answer to a command on a constraint.
    Constraint(ConstraintReply),
    /// Some of the jobs of a queue.
    QueueScan(&'a QueueScan),
    /// A page of statistics.
    Stats(&'a StatsPage),
}

impl Reply<'_> {
    /// The popped jobs.
    #[must_use]
    pub fn packets(&self) -> Option<&[Packet]> {
        match self {
            Self::Packets(packets) => Some(packets),
            Self::KeyGroup(packets) => Some(packets),
            _ => None,
        }
    }

    /// The end of a session that is given this reply to a command with other replies.
    ///
    /// # Panics
    /// Always.
    #[cold]
    pub fn unexpected(&self) -> ! {
        panic!("{:.80} does not answer the command", format!("{self:?}"))
    }
}

/// A job as clients see it, borrowed from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobView<'a> {
    /// Unique in the store.
    pub id: JobId,
    /// Queue name: any bytes.
    pub queue: &'a [u8],
    /// Priority within the queue.
    pub priority: Priority<'a>,
    /// As it was put.
    pub payload: Payload<'a>,
    /// Epoch of its last reservation.
    pub lease: LeaseEpoch,
    /// Whether it has an external id, which its payload contains.
    pub named: bool,
}

const _: () = assert!(size_of::<JobView<'_>>() == 80 && size_of::<Reply<'_>>() == 80);
const _: () = assert!(size_of::<Completion<'_>>() == 96 && size_of::<Rejection>() == 16);

/// A job with its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobInfo<'a> {
    /// The view of its client.
    pub job: JobView<'a>,
    /// At the moment of the reply.
    pub status: Status,
    /// When its status ends by itself: by the end of its delay or ttl, whichever comes first, of
    /// its lease, or of its retention.
    pub due: Option<Mono>,
    /// Length of its lease in milliseconds; 0: no time limit.
    pub lease_ms: u64,
    /// Number of retries begun so far.
    pub retries: u32,
    /// Its result, or its last error.
    pub result: Option<Payload<'a>>,
}

/// The status of a tracked job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobStatus<'a> {
    /// With its result or last error.
    pub info: JobInfo<'a>,
    /// The worker that has reserved it.
    pub worker: Option<WorkerId>,
    /// Its last error message for people.
    pub message: Option<&'a str>,
}

impl JobStatus<'_> {
    /// The status word of LightJQ.
    #[must_use]
    pub fn status(&self) -> &'static str {
        match self.info.status {
            Status::Reserved | Status::Popped => "running",
            Status::Completed => "done",
            Status::Buried => "error",
            Status::Ready | Status::Blocked | Status::GroupOnly | Status::Delayed => {
                if self.info.retries > 0 { "retrying" } else { "queued" }
            }
        }
    }
}

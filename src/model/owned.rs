//! Replies and job views that borrow nothing: of jobs that have left the store, of computed values,
//! and of replies that are gated.

use crate::base::time::Mono;
use crate::model::consumer::ConsumerReply;
use crate::model::external_id::QueueScan;
use crate::model::id::JobId;
use crate::model::indexed_queue::{IndexedPage, IndexedReply};
use crate::model::job::{Encoding, LeaseEpoch, OwnedPriority, Packet, Payload, Status};
use crate::model::manage::ManageReply;
use crate::model::reply::{JobInfo, JobStatus, JobView, Reply};
use crate::model::stats::StatsPage;
use crate::model::worker::{OwnedWorker, WorkerId};

/// A [`Reply`] that borrows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedReply {
    /// A reserved job.
    Job(Box<OwnedJob>),
    /// The status of a tracked job.
    JobStatus(Box<OwnedJobStatus>),
    /// Popped jobs.
    Packets(Vec<Packet>),
    /// The end of a command on indexed queues.
    Indexed(IndexedReply),
    /// A step of a command on indexed queues.
    IndexedPage(IndexedPage),
    /// The answer to a command of clients that reserve jobs by their connections.
    Consumer(ConsumerReply),
    /// The answer to a command of the native API.
    Manage(ManageReply),
    /// Some of the jobs of a queue.
    QueueScan(Box<QueueScan>),
    /// A page of statistics.
    Stats(Box<StatsPage>),
    /// The jobs that a worker has reserved.
    Attached(Box<[(JobId, LeaseEpoch)]>),
    /// A page of the worker registry.
    Workers(Box<[OwnedWorker]>),
}

const _: () = assert!(size_of::<OwnedReply>() <= 32, "gated replies are many");

impl OwnedReply {
    /// O(1).
    #[must_use]
    pub fn view(&self) -> Reply<'_> {
        match self {
            Self::Job(job) => Reply::Job(job.view()),
            Self::JobStatus(status) => Reply::JobStatus(Box::new(status.view())),
            Self::Packets(packets) => Reply::Packets(packets),
            Self::Indexed(reply) => Reply::Indexed(reply),
            Self::IndexedPage(page) => Reply::IndexedPage(page),
            Self::Consumer(reply) => Reply::Consumer(reply),
            Self::Manage(reply) => Reply::Manage(reply),
            Self::QueueScan(page) => Reply::QueueScan(page),
            Self::Stats(page) => Reply::Stats(page),
            Self::Attached(reserved) => Reply::Attached(reserved),
            Self::Workers(page) => Reply::Workers(page),
        }
    }

    /// The same, but popped jobs move into the reply. O(1).
    #[must_use]
    pub fn take_reply(&mut self) -> Reply<'_> {
        match self {
            Self::Packets(packets) => Reply::KeyGroup(std::mem::take(packets)),
            other => other.view(),
        }
    }

    /// Takes the reply out; what stays says nothing. O(1).
    #[must_use]
    pub fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Packets(Vec::new()))
    }

    /// Whether it depends on everything so far: it tells of changes that earlier calls have made.
    #[must_use]
    pub fn follows_all(&self) -> bool {
        matches!(
            self,
            Self::Manage(
                ManageReply::Action(_) | ManageReply::Index { .. } | ManageReply::Queues(_)
            )
        )
    }

    /// Whether it is sent before what it says is durable: it says that the command has to be
    /// repeated, or counts, or is for a dispatcher, which ends with the process.
    #[must_use]
    pub fn is_ungated(&self) -> bool {
        matches!(
            self,
            Self::IndexedPage(IndexedPage::NotYet | IndexedPage::QueueDropped { more: true, .. })
                | Self::QueueScan(_)
                | Self::Stats(_)
                | Self::Attached(_)
                | Self::Workers(_)
        )
    }
}

impl From<IndexedReply> for OwnedReply {
    fn from(reply: IndexedReply) -> Self {
        Self::Indexed(reply)
    }
}

impl From<ConsumerReply> for OwnedReply {
    fn from(reply: ConsumerReply) -> Self {
        Self::Consumer(reply)
    }
}

impl From<ManageReply> for OwnedReply {
    fn from(reply: ManageReply) -> Self {
        Self::Manage(reply)
    }
}

impl From<IndexedPage> for OwnedReply {
    fn from(page: IndexedPage) -> Self {
        Self::IndexedPage(page)
    }
}

/// A [`JobView`] that borrows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedJob {
    id: JobId,
    queue: Box<[u8]>,
    priority: OwnedPriority,
    encoding: Encoding,
    bytes: Box<[u8]>,
    lease: LeaseEpoch,
    named: bool,
}

impl OwnedJob {
    /// O(bytes).
    #[must_use]
    pub fn new(job: &JobView<'_>) -> Self {
        Self {
            id: job.id,
            queue: job.queue.into(),
            priority: job.priority.into(),
            encoding: job.payload.encoding,
            bytes: job.payload.bytes.into(),
            lease: job.lease,
            named: job.named,
        }
    }

    /// The copied view.
    #[must_use]
    pub fn view(&self) -> JobView<'_> {
        JobView {
            id: self.id,
            queue: &self.queue,
            priority: self.priority.view(),
            payload: Payload { encoding: self.encoding, bytes: &self.bytes },
            lease: self.lease,
            named: self.named,
        }
    }
}

/// A [`JobStatus`] that borrows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedJobStatus {
    job: OwnedJob,
    status: Status,
    due: Option<Mono>,
    lease_ms: u64,
    retries: u32,
    result: Option<(Encoding, Box<[u8]>)>,
    worker: Option<WorkerId>,
    message: Option<Box<str>>,
}

impl OwnedJobStatus {
    /// O(bytes).
    #[must_use]
    pub fn new(progress: &JobStatus<'_>) -> Self {
        let JobStatus { info: sight, worker, message } = progress;
        Self {
            job: OwnedJob::new(&sight.job),
            status: sight.status,
            due: sight.due,
            lease_ms: sight.lease_ms,
            retries: sight.retries,
            result: sight.result.map(|result| (result.encoding, result.bytes.into())),
            worker: *worker,
            message: message.map(Into::into),
        }
    }

    /// The copied status.
    #[must_use]
    pub fn view(&self) -> JobStatus<'_> {
        let result = self.result.as_ref();
        JobStatus {
            info: JobInfo {
                job: self.job.view(),
                status: self.status,
                due: self.due,
                lease_ms: self.lease_ms,
                retries: self.retries,
                result: result.map(|(encoding, bytes)| Payload { encoding: *encoding, bytes }),
            },
            worker: self.worker,
            message: self.message.as_deref(),
        }
    }
}

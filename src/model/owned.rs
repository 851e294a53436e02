//! Copies of views that borrow nothing, for replies that are gated, or that show what may have left
//! the store by then.

use crate::base::time::Mono;
use crate::model::id::JobId;
use crate::model::job::{Encoding, LeaseEpoch, Payload, Priority, Status};
use crate::model::reply::{JobInfo, JobStatus, JobView};
use crate::model::worker::WorkerId;

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

#[derive(Clone, Debug, PartialEq, Eq)]
enum OwnedPriority {
    Number(i64),
    Beyond(Box<str>),
    Never,
}

impl OwnedJob {
    /// O(bytes).
    #[must_use]
    pub fn new(job: &JobView<'_>) -> Self {
        Self {
            id: job.id,
            queue: job.queue.into(),
            priority: match job.priority {
                Priority::Small(number) => OwnedPriority::Number(number),
                Priority::Big(digits) => OwnedPriority::Beyond(digits.into()),
                Priority::Unselected => OwnedPriority::Never,
            },
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
            priority: match &self.priority {
                OwnedPriority::Number(number) => Priority::Small(*number),
                OwnedPriority::Beyond(digits) => Priority::Big(digits),
                OwnedPriority::Never => Priority::Unselected,
            },
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

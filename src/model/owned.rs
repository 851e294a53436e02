//! Jobs as clients see them, as values that borrow nothing: for answers that have to wait, or whose
//! job is gone from the store.

use crate::base::time::Mono;
use crate::model::id::JobId;
use crate::model::job::{Encoding, Lease, Payload, Status, Urgency};
use crate::model::reply::{JobView, Sight};
use crate::model::work::{Progress, WorkerId};

/// A [`JobView`] that borrows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedJob {
    id: JobId,
    queue: Box<[u8]>,
    urgency: OwnedUrgency,
    encoding: Encoding,
    bytes: Box<[u8]>,
    lease: Lease,
    named: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum OwnedUrgency {
    Number(i64),
    Beyond(Box<str>),
    Never,
}

impl OwnedJob {
    /// A copy. O(bytes).
    #[must_use]
    pub fn new(job: &JobView<'_>) -> Self {
        Self {
            id: job.id,
            queue: job.queue.into(),
            urgency: match job.urgency {
                Urgency::Number(number) => OwnedUrgency::Number(number),
                Urgency::Beyond(digits) => OwnedUrgency::Beyond(digits.into()),
                Urgency::Never => OwnedUrgency::Never,
            },
            encoding: job.payload.encoding,
            bytes: job.payload.bytes.into(),
            lease: job.lease,
            named: job.named,
        }
    }

    /// As it was.
    #[must_use]
    pub fn view(&self) -> JobView<'_> {
        JobView {
            id: self.id,
            queue: &self.queue,
            urgency: match &self.urgency {
                OwnedUrgency::Number(number) => Urgency::Number(*number),
                OwnedUrgency::Beyond(digits) => Urgency::Beyond(digits),
                OwnedUrgency::Never => Urgency::Never,
            },
            payload: Payload { encoding: self.encoding, bytes: &self.bytes },
            lease: self.lease,
            named: self.named,
        }
    }
}

/// A [`Progress`] that borrows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedProgress {
    job: OwnedJob,
    status: Status,
    due: Option<Mono>,
    lease_ms: u64,
    retries: u32,
    result: Option<(Encoding, Box<[u8]>)>,
    worker: Option<WorkerId>,
    message: Option<Box<str>>,
}

impl OwnedProgress {
    /// A copy. O(bytes).
    #[must_use]
    pub fn new(progress: &Progress<'_>) -> Self {
        let Progress { sight, worker, message } = progress;
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

    /// As it was.
    #[must_use]
    pub fn view(&self) -> Progress<'_> {
        let result = self.result.as_ref();
        Progress {
            sight: Sight {
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

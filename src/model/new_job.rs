//! Jobs that the native API puts, and what comes of a put.

use crate::model::id::JobId;
use crate::model::job::{Encoding, JobOptions, OwnedPriority};
use crate::model::rejection::Rejection;

/// A job to put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// Priority within the queue.
    pub priority: OwnedPriority,
    /// Format of the payload.
    pub encoding: Encoding,
    /// The payload, never changed by the server.
    pub payload: Box<[u8]>,
    /// Delay, leases, retries and retention.
    pub options: JobOptions,
    /// Unique in its queue.
    pub key: Option<Box<NewKey>>,
    /// What it waits for, and its group.
    pub dependencies: Option<Box<NewDependencies>>,
}

/// What a job to put waits for, and its group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewDependencies {
    /// The jobs that must be done first; each once, at most `DEPENDENCIES_MAX`.
    pub after: Box<[JobId]>,
    /// The group of which it is a member: any bytes, at least one.
    pub group: Option<Box<[u8]>>,
    /// The group that must have no unfinished member first, another one.
    pub after_group: Option<Box<[u8]>>,
    /// Whether it runs although a job that it waits for is lost: else it is cancelled then.
    pub runs_if_lost: bool,
}

/// The key of a job to put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewKey {
    /// Any bytes, at least one.
    pub bytes: Box<[u8]>,
    /// For how long it stays taken after the job is completed, in milliseconds.
    pub ttl_ms: u64,
    /// What comes of the put if it is taken.
    pub on_duplicate: OnDuplicate,
}

/// What comes of a put whose key is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDuplicate {
    /// The job that has the key stays, as urgent as the more urgent one of both.
    #[default]
    Keep,
    /// The job that has the key becomes like the new one, but for its id and its attempts. One that
    /// is reserved or completed stays.
    Replace,
    /// It is rejected.
    Reject,
}

/// The answer to one of several puts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// The job was added.
    Added(JobId),
    /// Nothing was added: this job has the key, or had it.
    Duplicate(JobId),
    /// The put is rejected: this job has the key, or had it.
    KeyTaken(JobId),
    /// Nothing was added.
    Rejected(Rejection),
}

impl PutOutcome {
    /// The job that is there now.
    #[must_use]
    pub fn id(&self) -> Option<JobId> {
        match *self {
            Self::Added(id) | Self::Duplicate(id) | Self::KeyTaken(id) => Some(id),
            Self::Rejected(_) => None,
        }
    }
}

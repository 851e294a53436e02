//! A job as the native API shows it.

use crate::base::time::Wall;
use crate::model::external_id::Fraction;
use crate::model::id::JobId;
use crate::model::job::{Encoding, JobOptions, LeaseToken, OwnedPriority};
use crate::model::job_state::JobState;

/// A job with everything that the API shows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDetails {
    /// Unique in the store.
    pub id: JobId,
    /// Queue name: any bytes.
    pub queue: Box<[u8]>,
    /// At the moment of the reply.
    pub state: JobState,
    /// Priority within the queue.
    pub priority: OwnedPriority,
    /// Format of the payload.
    pub encoding: Encoding,
    /// The payload as it was put.
    pub payload: Box<[u8]>,
    /// When it was put, in whole seconds.
    pub created_at: Wall,
    /// When it became ready last, or becomes ready.
    pub available_at: Wall,
    /// End of its time to live.
    pub expires_at: Option<Wall>,
    /// How often it was handed out and did not come back by a release, the present run included.
    pub attempts: u32,
    /// Most attempts; `None`: any number.
    pub max_attempts: Option<u32>,
    /// Its reservation.
    pub lease: Option<LeaseDetails>,
    /// Its last error.
    pub last_error: Option<ErrorDetails>,
    /// The part that is done.
    pub progress: Option<Fraction>,
    /// What its worker says of its progress.
    pub progress_message: Option<Box<str>>,
    /// Its result.
    pub result: Option<(Encoding, Box<[u8]>)>,
    /// Its key, which is unique in its queue.
    pub key: Option<Box<[u8]>>,
    /// The group of which it is a member.
    pub group: Option<Box<[u8]>>,
    /// The jobs that must be done before it.
    pub after: Box<[JobId]>,
    /// What holds a blocked job back.
    pub blocked_by: Option<BlockedBy>,
    /// Its terms, where it is shown alone or exported.
    pub terms: Option<Box<JobTerms>>,
}

/// What was agreed when a job was put, and what a list does not show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobTerms {
    /// The options that it was put with, without delay and time to live.
    pub options: JobOptions,
    /// For how long its key stays taken after its completion, in milliseconds.
    pub key_ttl_ms: u64,
    /// The group that it was put after.
    pub after_group: Option<Box<[u8]>>,
    /// Whether it runs although a job that it waits for is lost.
    pub runs_if_lost: bool,
    /// Number of retries begun so far.
    pub retries: u32,
    /// Until when it is kept, if it is completed or buried for a time.
    pub kept_until: Option<Wall>,
    /// What happened to it last, oldest first, if its queue is indexed and it is shown alone.
    pub history: Option<Box<[PastEvent]>>,
}

/// Something that happened to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastEvent {
    /// See [`EventKind::word`](crate::model::event::EventKind::word).
    pub event: Box<str>,
    /// In whole seconds.
    pub at: Wall,
}

impl JobDetails {
    /// The same without what is in it, for a user that may not see that: payload, result, last
    /// error and the text of its progress. O(other texts).
    #[must_use]
    pub fn without_contents(&self) -> Self {
        Self {
            encoding: Encoding::JsonLine,
            payload: (*b"null").into(),
            result: None,
            last_error: None,
            progress_message: None,
            queue: self.queue.clone(),
            priority: self.priority.clone(),
            lease: self.lease.clone(),
            key: self.key.clone(),
            group: self.group.clone(),
            after: self.after.clone(),
            blocked_by: self.blocked_by.clone(),
            terms: self.terms.clone(),
            ..*self
        }
    }

    /// The bytes of its texts, about.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let result = self.result.as_ref().map_or(0, |(_, bytes)| bytes.len());
        let error =
            self.last_error.as_ref().map_or(0, |last| last.error.len() + last.message.len());
        let message = self.progress_message.as_ref().map_or(0, |text| text.len());
        self.queue.len() + self.payload.len() + result + error + message
    }
}

/// What holds a job back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockedBy {
    /// The constraint of this name.
    Constraint(Box<str>),
    /// A job or group that is not done.
    Dependency,
}

/// The reservation of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseDetails {
    /// The name of its worker, if it has said one.
    pub worker: Option<Box<str>>,
    /// The name of the protocol by which it was reserved.
    pub protocol: &'static str,
    /// When it was reserved.
    pub since: Option<Wall>,
    /// When its lease ends, if it has a time limit.
    pub until: Option<Wall>,
    /// Names the lease; shown only to the one that has just got it.
    pub token: Option<LeaseToken>,
}

/// The last error of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorDetails {
    /// Its kind.
    pub error: Box<str>,
    /// For people.
    pub message: Box<str>,
    /// When the run failed.
    pub at: Option<Wall>,
}

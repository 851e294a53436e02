//! The life of a job: which status it may go to from which, by whose doing.
//!
//! ```text
//!             delay over                 take
//!   Delayed -------------> Ready/Aside --------> Held ----> gone (finish, delete)
//!      ^                      ^                   |  |
//!      |                      +--- release, ------+  +----> Kept (finish, if its result is kept)
//!      |                      |    lease over     |
//!      |                    kick                  |
//!      |                      |                   |
//!      |                   Buried <--- bury, -----+
//!      |                               fail       |
//!      +--------------- fail, retries left -------+
//! ```
//!
//! A job that is Ready for all that its queue knows may be Parked: constraints hold it back.
//!
//! A delete is legal in every status and for everybody, so nobody asks for leave here. The end of
//! its time to live removes a job that waits (Ready, Parked, Aside, Delayed), or that would go back
//! to waiting; the end of its keeping one that is Kept or Buried.

use super::jobs::Job;
use crate::model::id::JobId;
use crate::model::job::Status;
use crate::model::reply::Rejection;

/// What happens to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobEvent {
    /// Its holder gives it back.
    Release,
    /// Its holder needs more time.
    Touch,
    /// Its holder is done.
    Finish,
    /// Its holder gives up; worth another try or not.
    Fail { retry: bool },
    /// Its holder puts it away.
    Bury,
    /// Somebody wants it tried again.
    Kick,
    /// The deadline of its status has come.
    Due,
}

/// Who asks, seen from the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// Its present holder, under the present lease.
    ClientEntry,
    /// Its present holder, under an earlier lease.
    FormerHolder,
    /// Somebody else.
    Stranger,
    /// Nobody: time has passed.
    Clock,
}

/// Where a job goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transition {
    /// Nowhere; its lease begins anew.
    Renew,
    /// Back to its queue, or away if its time to live is over.
    Queue,
    /// To wait for its next try.
    Retry,
    /// To those whose results are kept.
    Keep,
    /// To those that have failed for good.
    Bury,
    /// Away.
    End,
}

/// Where `job` goes by this event. The one place that knows what is legal. O(1).
///
/// # Errors
/// Why it stays as it is.
#[inline(always)]
#[expect(clippy::match_same_arms, reason = "what comes first decides")]
pub(super) fn transition(job: &Job, event: JobEvent, by: Caller) -> Result<Transition, Rejection> {
    let id = JobId(job.id);
    match (job.status, event) {
        (Status::Buried, JobEvent::Kick) | (Status::Delayed, JobEvent::Due) => {
            Ok(Transition::Queue)
        }
        (_, JobEvent::Kick) => Err(Rejection::NotBuried(id)),

        (
            Status::Ready
            | Status::Blocked
            | Status::GroupOnly
            | Status::Completed
            | Status::Buried,
            JobEvent::Due,
        ) => Ok(Transition::End),
        (Status::Reserved, JobEvent::Due) if job.retry().is_some() || job.is_tracked() => {
            Ok(fail(job, true))
        }
        (Status::Reserved, JobEvent::Due) => Ok(Transition::Queue),

        (Status::Reserved, _) if by == Caller::Stranger => Err(Rejection::ReservedByAnother(id)),
        (Status::Reserved, _) if by == Caller::FormerHolder => Err(Rejection::LeaseExpired(id)),
        (Status::Reserved, JobEvent::Release) => Ok(Transition::Queue),
        (Status::Reserved, JobEvent::Touch) => Ok(Transition::Renew),
        (Status::Reserved, JobEvent::Finish) if job.options().result_retention_ms > 0 => {
            Ok(Transition::Keep)
        }
        (Status::Reserved, JobEvent::Finish) => Ok(Transition::End),
        (Status::Reserved, JobEvent::Fail { retry }) => Ok(fail(job, retry)),
        (Status::Reserved, JobEvent::Bury) => Ok(Transition::Bury),

        (
            Status::Ready
            | Status::Blocked
            | Status::GroupOnly
            | Status::Delayed
            | Status::Completed
            | Status::Buried,
            JobEvent::Release
            | JobEvent::Touch
            | JobEvent::Finish
            | JobEvent::Fail { .. }
            | JobEvent::Bury,
        ) => Err(Rejection::NotReserved(id)),
    }
}

fn fail(job: &Job, retry: bool) -> Transition {
    if retry && job.retries_left() { Transition::Retry } else { Transition::Bury }
}

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
use crate::model::reply::Refusal;

/// What happens to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
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
pub(super) enum Claim {
    /// Its present holder, under the present lease.
    Holder,
    /// Its present holder, under an earlier lease.
    FormerHolder,
    /// Somebody else.
    Stranger,
    /// Nobody: time has passed.
    Clock,
}

/// Where a job goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
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
pub(super) fn step(job: &Job, event: Event, by: Claim) -> Result<Step, Refusal> {
    let id = JobId(job.id);
    match (job.status, event) {
        (Status::Buried, Event::Kick) | (Status::Delayed, Event::Due) => Ok(Step::Queue),
        (_, Event::Kick) => Err(Refusal::NotBuried(id)),

        (
            Status::Ready | Status::Parked | Status::Aside | Status::Kept | Status::Buried,
            Event::Due,
        ) => Ok(Step::End),
        (Status::Held, Event::Due) if job.retry().is_some() || job.is_followed() => {
            Ok(fail(job, true))
        }
        (Status::Held, Event::Due) => Ok(Step::Queue),

        (Status::Held, _) if by == Claim::Stranger => Err(Refusal::HeldByAnother(id)),
        (Status::Held, _) if by == Claim::FormerHolder => Err(Refusal::LeaseOver(id)),
        (Status::Held, Event::Release) => Ok(Step::Queue),
        (Status::Held, Event::Touch) => Ok(Step::Renew),
        (Status::Held, Event::Finish) if job.terms().keep_ms > 0 => Ok(Step::Keep),
        (Status::Held, Event::Finish) => Ok(Step::End),
        (Status::Held, Event::Fail { retry }) => Ok(fail(job, retry)),
        (Status::Held, Event::Bury) => Ok(Step::Bury),

        (
            Status::Ready
            | Status::Parked
            | Status::Aside
            | Status::Delayed
            | Status::Kept
            | Status::Buried,
            Event::Release | Event::Touch | Event::Finish | Event::Fail { .. } | Event::Bury,
        ) => Err(Refusal::NotHeld(id)),
    }
}

fn fail(job: &Job, retry: bool) -> Step {
    if retry && job.retries_left() { Step::Retry } else { Step::Bury }
}

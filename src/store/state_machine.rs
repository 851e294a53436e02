//! The life of a job: the legal transitions, and who may cause them.
//!
//! ```text
//!              delay over                    reserve
//!   Delayed ----------------> Ready/GroupOnly ------> Reserved ---> gone (finish, delete)
//!      ^                       ^    |    ^             |    |
//!      |                       |    |    +-- release, -+    +-----> Completed (finish, result
//!      |                       |   pop       lease end |                       retained)
//!      |                     kick   |        (*)       |
//!      |                       |    +--> gone          |
//!      |                       |                       |
//!      |                     Buried <-- bury, fail ----+
//!      |                                               |
//!      +----------- fail, retries left ----------------+
//!
//!   (*) With a retry policy, or if the job is tracked, the end of a lease is a fail. With a limit
//!       of attempts it buries the job once they are used up.
//! ```
//!
//! A ready job may instead be blocked: constraints hold it back.
//!
//! A delete is legal in every status and for every client, so it is not checked here. The end of a
//! time to live removes a job that waits (ready, blocked, group-only, delayed) or would go back to
//! waiting; the end of retention removes a job that is completed or buried.

use super::job::Job;
use crate::model::id::JobId;
use crate::model::job::Status;
use crate::model::reply::Rejection;

/// An event in the life of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobEvent {
    /// The client gives the job back.
    Release,
    /// The client needs more time.
    Touch,
    /// The job is done.
    Finish,
    /// The run has failed; whether the job may be retried.
    Fail { retry: bool },
    /// The client puts the job away.
    Bury,
    /// A client wants a buried job to be ready again.
    Kick,
    /// The deadline of the status has fired.
    TimerFired,
}

/// Who causes an event, as the job sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// The client that has reserved it, under the present lease epoch.
    Reserver,
    /// The client that has reserved it, under an earlier lease epoch.
    FormerReserver,
    /// Another client.
    OtherClient,
}

/// What an event does to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transition {
    /// Starts its lease again.
    Renew,
    /// Requeues it, or removes it if it has expired.
    Requeue,
    /// Delays it until its next run.
    Retry,
    /// Retains it with its result.
    Complete,
    /// Buries it.
    Bury,
    /// Removes it.
    Remove,
}

/// What this event does to `job`. The one place that knows the legal transitions. O(1).
///
/// # Errors
/// Why the event is rejected.
#[inline(always)]
pub(super) fn transition(job: &Job, event: JobEvent, by: Caller) -> Result<Transition, Rejection> {
    let id = JobId(job.id());
    match (job.status(), event) {
        (_, JobEvent::TimerFired) => Ok(transition_at_deadline(job)),
        (Status::Buried, JobEvent::Kick) => Ok(Transition::Requeue),
        (_, JobEvent::Kick) => Err(Rejection::NotBuried(id)),

        (Status::Reserved, _) if by == Caller::OtherClient => Err(Rejection::ReservedByAnother(id)),
        (Status::Reserved, _) if by == Caller::FormerReserver => Err(Rejection::LeaseExpired(id)),
        (Status::Reserved, JobEvent::Release) => Ok(Transition::Requeue),
        (Status::Reserved, JobEvent::Touch) => Ok(Transition::Renew),
        (Status::Reserved, JobEvent::Finish) if job.options().result_retention_ms > 0 => {
            Ok(Transition::Complete)
        }
        (Status::Reserved, JobEvent::Finish) => Ok(Transition::Remove),
        (Status::Reserved, JobEvent::Fail { retry }) => Ok(retry_or_bury(job, retry)),
        (Status::Reserved, JobEvent::Bury) => Ok(Transition::Bury),

        (
            Status::Ready
            | Status::Blocked
            | Status::GroupOnly
            | Status::Delayed
            | Status::Completed
            | Status::Buried
            | Status::Popped,
            JobEvent::Release
            | JobEvent::Touch
            | JobEvent::Finish
            | JobEvent::Fail { .. }
            | JobEvent::Bury,
        ) => Err(Rejection::NotReserved(id)),
    }
}

/// What the end of the deadline of its status does to `job`: each status permits it. O(1).
#[inline]
pub(super) fn transition_at_deadline(job: &Job) -> Transition {
    match job.status() {
        Status::Ready
        | Status::Blocked
        | Status::GroupOnly
        | Status::Completed
        | Status::Buried
        | Status::Popped => Transition::Remove,
        Status::Reserved if job.max_attempts() > 0 && job.attempts_left() => Transition::Requeue,
        Status::Reserved if job.max_attempts() > 0 => Transition::Bury,
        Status::Reserved if job.is_tracked() => retry_or_bury(job, true),
        Status::Reserved | Status::Delayed => Transition::Requeue,
    }
}

/// A run has failed.
fn retry_or_bury(job: &Job, retry: bool) -> Transition {
    if retry && job.retries_left() { Transition::Retry } else { Transition::Bury }
}

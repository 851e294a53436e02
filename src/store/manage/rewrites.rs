//! What actions would change, and how much they write anew: a changed job is journaled as a whole,
//! so an action that changes many could fill the disk beyond what deletes need, or with larger
//! payloads the memory. The store knows of neither: its caller says how much there is, and an
//! action that needs more waits for a later pass, or fails.

use super::jobs::Verb;
use crate::base::time::Now;
use crate::model::action::JobChange;
use crate::model::job::Status;
use crate::model::reply::Rejection;
use crate::store::{JobIdx, Store};

/// What actions may write until it is said anew: see [`Store::limit_rewrites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RewriteLimit {
    /// Bytes of records of jobs.
    pub record_bytes: u64,
    /// Whether there will not be more: an action whose next job does not fit fails. Otherwise it
    /// goes on in a later pass once all are used, so the last job may exceed them.
    pub is_full: bool,
    /// Bytes by which payloads may grow. An action that needs more fails.
    pub payload_bytes: u64,
}

impl Default for RewriteLimit {
    /// None.
    fn default() -> Self {
        Self { record_bytes: u64::MAX, is_full: false, payload_bytes: u64::MAX }
    }
}

/// Whether a job may be written anew.
pub(super) enum Admission {
    Now,
    /// In a later pass.
    Later,
    Never(Rejection),
}

/// The most bytes of a record beside the contents of its job and the name of its queue.
const RECORD_OVERHEAD_BYTES: u64 = 192;

impl RewriteLimit {
    fn admit(&mut self, record: u64, growth: u64) -> Admission {
        if growth > self.payload_bytes {
            return Admission::Never(Rejection::MemoryFull);
        }
        if self.is_full && record > self.record_bytes {
            return Admission::Never(Rejection::DiskFull);
        }
        if self.record_bytes == 0 {
            return Admission::Later;
        }
        self.record_bytes = self.record_bytes.saturating_sub(record);
        self.payload_bytes -= growth;
        Admission::Now
    }
}

impl Store {
    /// Whether actions change jobs now or in the next pass. O(1).
    #[must_use]
    pub fn has_running_actions(&self) -> bool {
        self.actions.running() > 0
    }

    /// Says how much actions may write.
    pub fn limit_rewrites(&mut self, limit: RewriteLimit) {
        self.actions.rewrites = limit;
    }

    /// Whether a verb would change a job. O(key).
    pub(super) fn would_change(&self, slot: JobIdx, verb: Verb<'_>, now: Now) -> bool {
        let may_move = match verb {
            Verb::Change(JobChange { queue: Some(to), .. }) => self.may_move(slot, to, now),
            _ => true,
        };
        may_move && changes(verb, self.jobs[slot].counted_status())
    }

    /// Whether an action may change a job; if so, it counts. O(1).
    pub(super) fn admit_rewrite(&mut self, slot: JobIdx, change: &JobChange) -> Admission {
        let job = &self.jobs[slot];
        let old = job.payload().bytes.len();
        let new = change.payload.as_ref().map_or(old, |(_, bytes)| bytes.len());
        let queue = change.queue.as_ref().map_or(self.queues[job.queue].name.len(), |to| to.len());
        let record = job.content_bytes().saturating_sub(old) + new + queue;
        let (record, growth) = (record as u64 + RECORD_OVERHEAD_BYTES, new.saturating_sub(old));
        self.actions.rewrites.admit(record, growth as u64)
    }
}

/// Whether a verb would change a job in this status.
pub(super) fn changes(verb: Verb<'_>, status: Status) -> bool {
    match verb {
        Verb::Remove => true,
        Verb::Cancel => status != Status::Completed,
        Verb::Kick => matches!(status, Status::Buried | Status::Delayed),
        Verb::Bury => !matches!(status, Status::Buried | Status::Completed),
        Verb::Change(change) if *change == JobChange::default() => false,
        Verb::Change(change) => match status {
            Status::Reserved | Status::Completed => false,
            Status::Buried => change.delay_ms.is_none(),
            _ => true,
        },
    }
}

/// The sentence about an action that has failed.
pub(super) fn why_failed(rejection: Rejection) -> &'static str {
    match rejection {
        Rejection::MemoryFull => {
            "the server's jobs take as much memory as it may use (--max-memory): what is done \
             stays, delete jobs and do the rest then"
        }
        _ => {
            "the server's disk is full: what is done stays, delete jobs or make space and do the \
             rest then"
        }
    }
}

//! How many jobs of a queue have a rare status: one that a plain put, reserve, release and delete
//! never give.
//!
//! The other two need no counters, so the path of a request does not pay for them: ready jobs are
//! those in the queue's heaps, reserved ones are all others.

use super::Store;
use super::idx::JobIdx;
use crate::model::job::Status;
use crate::model::stats::StatusCounts;

/// A status that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RareStatus {
    Blocked,
    GroupOnly,
    Delayed,
    Completed,
    Buried,
}

impl RareStatus {
    /// All of them.
    pub(super) const ALL: [Self; 5] =
        [Self::Blocked, Self::GroupOnly, Self::Delayed, Self::Completed, Self::Buried];

    fn status(self) -> Status {
        match self {
            Self::Blocked => Status::Blocked,
            Self::GroupOnly => Status::GroupOnly,
            Self::Delayed => Status::Delayed,
            Self::Completed => Status::Completed,
            Self::Buried => Status::Buried,
        }
    }
}

/// Numbers of jobs by [`RareStatus`]. A job is counted from when it gets the status until it is
/// unlinked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RareCounts([u32; 5]);

impl RareCounts {
    fn add(&mut self, status: RareStatus) {
        self.0[status as usize] += 1;
    }

    /// A job with this status was unlinked.
    pub(super) fn remove(&mut self, status: RareStatus) {
        let count = &mut self.0[status as usize];
        debug_assert!(*count > 0, "a status is counted less often than jobs have it");
        *count -= 1;
    }

    pub(super) fn get(&self, status: RareStatus) -> u64 {
        u64::from(self.0[status as usize])
    }
}

impl Store {
    /// Gives an unlinked or ready job a rare status. O(1).
    pub(super) fn set_rare_status(&mut self, slot: JobIdx, status: RareStatus) {
        let job = &mut self.jobs[slot];
        job.set_status(status.status());
        let queue = &mut self.queues[job.queue];
        queue.counts.add(status);
        debug_assert!(
            queue.counts.get(status) <= u64::from(queue.jobs),
            "a status is counted for jobs of the queue"
        );
    }

    /// Makes an unlinked job a held one: it is counted as blocked. O(1).
    pub(super) fn set_held(&mut self, slot: JobIdx) {
        let job = &mut self.jobs[slot];
        debug_assert!(!job.is_linked(), "a held job is in no list");
        job.set_status(Status::Delayed);
        debug_assert!(job.timer().is_none(), "a held job has no deadline of its own");
        self.queues[job.queue].counts.add(RareStatus::Blocked);
    }

    /// A delayed or held job is being unlinked. O(1).
    pub(super) fn uncount_delayed(&mut self, slot: JobIdx) {
        let job = &self.jobs[slot];
        debug_assert_eq!(job.status(), Status::Delayed, "only a delay ends so");
        if let Some(at) = job.due(&self.deadlines) {
            self.unlist_delayed(slot, at);
        }
        let job = &self.jobs[slot];
        let status = if job.is_held() { RareStatus::Blocked } else { RareStatus::Delayed };
        self.queues[job.queue].counts.remove(status);
    }

    /// Asserts that the counts of every queue are those of its jobs. O(jobs + queues).
    pub(super) fn check_counts(&self) {
        let mut counted = std::collections::BTreeMap::<_, StatusCounts>::new();
        for (_, job) in self.jobs.iter() {
            counted.entry(job.queue).or_default().count(job.counted_status());
        }
        for (number, queue) in self.queues.iter() {
            let counts = counted.remove(&number).unwrap_or_default();
            assert_eq!(queue.status_counts(), counts, "a queue counts its jobs wrongly");
        }
        self.check_delays();
    }
}

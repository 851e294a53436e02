//! The delayed jobs of a queue, in the order in which they become ready.
//!
//! Invariant: it has exactly the jobs of its queue that are delayed and not held, each under the
//! moment of its deadline and its id.

use super::idx::JobIdx;
use super::{RareStatus, Store};
use crate::base::time::Mono;
use crate::model::id::JobId;
use crate::model::job::Status;
use std::collections::BTreeSet;

/// See the module documentation.
#[derive(Debug, Default)]
#[expect(clippy::box_collection, reason = "8 bytes instead of 24 in every queue")]
pub(super) struct Delays(Option<Box<BTreeSet<(Mono, u64)>>>);

impl Delays {
    /// The job that becomes ready first. O(log d).
    pub(super) fn first(&self) -> Option<JobId> {
        self.0.as_ref()?.first().map(|&(_, id)| JobId(id))
    }

    fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |jobs| jobs.len())
    }
}

impl Store {
    /// Delays an unlinked job until `at`, or until its time to live ends. O(log d).
    pub(super) fn delay_until(&mut self, slot: JobIdx, at: Mono) {
        self.set_rare_status(slot, RareStatus::Delayed);
        let expires = self.jobs[slot].ext_mut_or_insert().expires;
        debug_assert!(!self.jobs[slot].is_held(), "a held job has no deadline of a delay");
        self.jobs.arm(slot, at.min(expires), &mut self.deadlines);
        self.list_delayed(slot);
    }

    /// Lists a job that is delayed, and whose deadline is armed. O(log d).
    pub(super) fn list_delayed(&mut self, slot: JobIdx) {
        let job = &self.jobs[slot];
        debug_assert_eq!(job.status(), Status::Delayed, "only delayed jobs are listed");
        debug_assert!(!job.is_held(), "a held job is in no list of delays");
        let Some(at) = job.due(&self.deadlines) else { return };
        let delays = &mut self.queues[job.queue].delays;
        let is_new = delays.0.get_or_insert_default().insert((at, job.id()));
        debug_assert!(is_new, "a delayed job is listed once");
        debug_assert!(
            self.queues[job.queue].delays.len() as u64
                <= self.queues[job.queue].counts.get(RareStatus::Delayed),
            "a delayed job is counted before it is listed"
        );
    }

    /// Takes a job whose delay ends at `at` out of the list, if it is there. O(log d).
    pub(super) fn unlist_delayed(&mut self, slot: JobIdx, at: Mono) {
        let job = &self.jobs[slot];
        let delays = &mut self.queues[job.queue].delays;
        let Some(jobs) = &mut delays.0 else { return };
        let was_there = jobs.remove(&(at, job.id()));
        debug_assert_eq!(
            was_there,
            job.status() == Status::Delayed && !job.is_held(),
            "exactly the jobs that are delayed and not held are listed"
        );
        if jobs.is_empty() {
            delays.0 = None;
        }
    }

    /// Asserts the invariant. O(jobs + queues).
    pub(super) fn check_delays(&self) {
        for (_, queue) in self.queues.iter() {
            let delayed = queue.counts.get(RareStatus::Delayed);
            assert_eq!(queue.delays.len() as u64, delayed, "a delayed job is not listed");
            for &(at, id) in queue.delays.0.iter().flat_map(|jobs| jobs.iter()) {
                let slot = self.ids.find(id).expect("a listed job exists");
                let due = self.jobs[slot].due(&self.deadlines);
                assert_eq!(due, Some(at), "a delayed job is listed under another moment");
            }
        }
    }
}

//! The buried jobs of a queue, in the order of burial: a list linked through the jobs.
//!
//! Each has a *burial number*, which the journal keeps: the records of jobs come in another order
//! after a compaction. Along the list the numbers do not fall. They rise by one with each burial as
//! long as the list is not empty; after 4,294,967,295 the rest have that one, and after a restart
//! are in the order of their records. So are jobs with number 0, from journals without numbers.

use super::Store;
use super::idx::JobIdx;
use super::job::Job;
use super::jobs::Jobs;
use super::rare_counts::RareStatus;
use crate::base::slab_index::PackedOption;
use crate::base::time::Now;
use crate::model::job::Status;
use std::time::Duration;

/// Both ends of the list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Buried {
    first: PackedOption<JobIdx>,
    last: PackedOption<JobIdx>,
}

impl Buried {
    /// The job that was buried first. O(1).
    pub(super) fn first(self) -> Option<JobIdx> {
        self.first.expand()
    }

    /// The burial number of the next job. O(1).
    pub(super) fn next_number(self, jobs: &Jobs) -> u32 {
        self.last.expand().map_or(0, |last| jobs[last].burial()).saturating_add(1)
    }

    /// Appends a job. O(1).
    pub(super) fn link(&mut self, slot: JobIdx, jobs: &mut Jobs) {
        debug_assert!(!jobs[slot].is_linked(), "a job is buried once");
        self.link_numbered(slot, self.next_number(jobs), jobs);
    }

    /// Appends a restored job, whatever its number is: see [`Buried::sort`]. O(1).
    pub(super) fn link_numbered(&mut self, slot: JobIdx, number: u32, jobs: &mut Jobs) {
        debug_assert_eq!(jobs[slot].status(), Status::Buried, "only buried jobs are in the list");
        jobs[slot].set_burial(number);
        debug_assert!(
            self.last.expand().is_none_or(|last| jobs[last].next().is_none()),
            "no job is behind the one that was buried last"
        );
        let previous = std::mem::replace(&mut self.last, slot.into());
        jobs.set_previous(slot, previous);
        jobs[slot].set_next(PackedOption::NONE);
        match previous.expand() {
            None => self.first = slot.into(),
            Some(previous) => jobs[previous].set_next(slot.into()),
        }
    }

    /// Removes a job. O(1).
    pub(super) fn unlink(&mut self, slot: JobIdx, jobs: &mut Jobs) {
        let (previous, next) = (jobs.previous(slot), jobs[slot].next());
        if let Some(previous) = previous.expand() {
            debug_assert!(
                jobs[previous].next() == slot.into(),
                "neighbours among buried jobs name each other"
            );
            jobs[previous].set_next(next);
        } else {
            assert!(self.first == slot.into(), "a buried job is not in its queue's list");
            self.first = next;
        }
        if let Some(next) = next.expand() {
            debug_assert!(
                jobs.previous(next) == slot.into(),
                "neighbours among buried jobs name each other"
            );
            jobs.set_previous(next, previous);
        } else {
            assert!(self.last == slot.into(), "a buried job is not in its queue's list");
            self.last = previous;
        }
        jobs[slot].clear_links();
        debug_assert_eq!(
            self.first.is_none(),
            self.last.is_none(),
            "a list has a first job and a last one, or neither"
        );
    }

    /// Brings restored jobs into the order of their numbers. O(jobs) if they are, else
    /// O(jobs log jobs).
    pub(super) fn sort(&mut self, jobs: &mut Jobs) {
        let mut slots = self.jobs(jobs);
        if slots.is_sorted_by_key(|&slot| jobs[slot].burial()) {
            return;
        }
        slots.sort_by_key(|&slot| jobs[slot].burial());
        *self = Self::default();
        for slot in slots {
            self.link_numbered(slot, jobs[slot].burial(), jobs);
        }
    }

    /// The jobs in order. O(jobs).
    pub(super) fn jobs(self, jobs: &Jobs) -> Vec<JobIdx> {
        std::iter::successors(self.first(), |&slot| jobs[slot].next().expand()).collect()
    }
}

impl Job {
    /// The burial number of a buried job.
    pub(super) fn burial(&self) -> u32 {
        debug_assert_eq!(self.status(), Status::Buried, "only buried jobs have a burial number");
        self.holder
    }

    pub(super) fn set_burial(&mut self, number: u32) {
        debug_assert_eq!(self.status(), Status::Buried, "only buried jobs have a burial number");
        self.holder = number;
    }
}

impl Store {
    /// Buries an unlinked job. O(log d).
    pub(super) fn link_buried(&mut self, slot: JobIdx, now: Now) {
        self.set_rare_status(slot, RareStatus::Buried);
        let job = &self.jobs[slot];
        let (queue, bury_ms) = (job.queue, job.options().dead_retention_ms);
        self.queues[queue].buried.link(slot, &mut self.jobs);
        if bury_ms > 0 {
            let at = now.mono.after(Duration::from_millis(bury_ms));
            self.jobs.arm(slot, at, &mut self.deadlines);
        }
    }

    /// Brings the buried jobs of all queues into their order, after the restoration. O(q + b), and
    /// O(b log b) for b buried jobs that are in another order.
    pub(super) fn sort_buried(&mut self) {
        let filled = self.queues.iter().filter(|(_, queue)| queue.buried.first().is_some());
        for place in filled.map(|(place, _)| place).collect::<Vec<_>>() {
            self.queues[place].buried.sort(&mut self.jobs);
        }
    }
}

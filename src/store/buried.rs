//! The buried jobs of a queue, in the order of burial: a list linked through the jobs.

use super::jobs::{Jobs, NONE};
use crate::model::job::Status;

/// Both ends of the list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buried {
    first: u32,
    last: u32,
}

impl Default for Buried {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl Buried {
    /// The job that was buried first. O(1).
    pub(super) fn first(self) -> Option<u32> {
        Some(self.first).filter(|&slot| slot != NONE)
    }

    /// Appends a job. O(1).
    pub(super) fn link(&mut self, slot: u32, jobs: &mut Jobs) {
        debug_assert_eq!(jobs[slot].status, Status::Buried, "only buried jobs are in the list");
        let previous = std::mem::replace(&mut self.last, slot);
        (jobs[slot].place, jobs[slot].next) = (previous, NONE);
        if previous == NONE {
            self.first = slot;
        } else {
            jobs[previous].next = slot;
        }
    }

    /// Removes a job. O(1).
    pub(super) fn unlink(&mut self, slot: u32, jobs: &mut Jobs) {
        let (previous, next) = (jobs[slot].place, jobs[slot].next);
        if previous == NONE {
            assert!(self.first == slot, "a buried job is not in its queue's list");
            self.first = next;
        } else {
            jobs[previous].next = next;
        }
        if next == NONE {
            assert!(self.last == slot, "a buried job is not in its queue's list");
            self.last = previous;
        } else {
            jobs[next].place = previous;
        }
        (jobs[slot].place, jobs[slot].next) = (NONE, NONE);
    }

    /// The jobs in order. For checks. O(jobs).
    pub(super) fn jobs(self, jobs: &Jobs) -> Vec<u32> {
        let follow = |&slot: &u32| Some(jobs[slot].next).filter(|&next| next != NONE);
        std::iter::successors(self.first(), follow).collect()
    }
}

//! The buried jobs of a queue, in the order of burial: a list linked through the jobs.

use super::idx::JobIdx;
use super::jobs::Jobs;
use crate::base::slab_index::PackedOption;
use crate::model::job::Status;

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

    /// Appends a job. O(1).
    pub(super) fn link(&mut self, slot: JobIdx, jobs: &mut Jobs) {
        debug_assert_eq!(jobs[slot].status(), Status::Buried, "only buried jobs are in the list");
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
            jobs[previous].set_next(next);
        } else {
            assert!(self.first == slot.into(), "a buried job is not in its queue's list");
            self.first = next;
        }
        if let Some(next) = next.expand() {
            jobs.set_previous(next, previous);
        } else {
            assert!(self.last == slot.into(), "a buried job is not in its queue's list");
            self.last = previous;
        }
        jobs[slot].clear_links();
    }

    /// The jobs in order. For checks. O(jobs).
    pub(super) fn jobs(self, jobs: &Jobs) -> Vec<JobIdx> {
        std::iter::successors(self.first(), |&slot| jobs[slot].next().expand()).collect()
    }
}

//! The removal of jobs from all tables.

use super::job::Job;
use super::{DirtyRecord, Effects, JobIdx, Outcome, RecordKey, Store};
use crate::base::time::Now;
use crate::model::id::{JobId, Ticket};
use crate::model::job::Status;

impl Store {
    /// [`Store::delete`] of a job with rare fields, or that is neither ready nor reserved; its id
    /// is unknown already. O(log n).
    #[inline(never)]
    pub(super) fn delete_cold(&mut self, ticket: Ticket, slot: JobIdx, now: Now, fx: &mut Effects) {
        let job = &self.jobs[slot];
        let (queue, gone, id) = (job.queue, job.is_expired_waiting(now), JobId(job.id()));
        debug_assert!(self.ids.find(id.0).is_none(), "the id of a deleted job finds nothing");
        debug_assert_ne!(job.status(), Status::Popped, "no command finds a popped job");
        if self.has_reserved(ticket.client, job) {
            // Who has reserved it deletes it: it is done.
            self.note_finished(slot, now, fx);
        }
        self.count_deleted(slot, gone);
        self.unlink_cold(slot);
        self.detach_from_queue(slot);
        drop(self.jobs.remove(slot));
        fx.answer(ticket, if gone { Outcome::NoJob } else { Outcome::Done });
        fx.mark_dirty(DirtyRecord::Gone(RecordKey::Job(slot), id));
        self.rematch_queue(queue, now, fx);
    }

    /// Removes an unlinked job. O(1).
    #[inline(never)]
    pub(super) fn remove(&mut self, slot: JobIdx, fx: &mut Effects) -> Job {
        let job = self.remove_unjournaled(slot);
        fx.mark_dirty(DirtyRecord::Gone(RecordKey::Job(slot), JobId(job.id())));
        job
    }

    /// [`Store::remove`] without marking the job dirty.
    pub(super) fn remove_unjournaled(&mut self, slot: JobIdx) -> Job {
        debug_assert_ne!(
            self.jobs[slot].status(),
            Status::Popped,
            "a popped job leaves with its pop"
        );
        self.detach_from_queue(slot);
        let job = self.jobs.remove(slot);
        let known = self.ids.remove(job.id());
        debug_assert_eq!(known, Some(slot), "a job was not found by its id");
        job
    }

    /// Takes a job that is about to be removed out of its queue's counters and index, its job
    /// class, and the tables of external ids, keys and watchers. O(key).
    #[inline(always)]
    pub(super) fn detach_from_queue(&mut self, slot: JobIdx) {
        if !self.watchers.is_empty() {
            self.watchers.remove_all_of(slot, &mut self.deadlines);
        }
        if !self.external_ids.is_empty() {
            self.external_ids.release(slot, &self.jobs);
        }
        if !self.jobs[slot].is_simple() {
            if self.jobs[slot].work().is_some() {
                self.release_key(slot);
                self.end_dependencies(slot, false);
                self.drop_edges(slot);
            }
            if self.jobs[slot].class().is_some() {
                self.constraints.drop_class(slot, &mut self.queues, &mut self.jobs);
            }
        }
        let job = &self.jobs[slot];
        debug_assert!(job.timer().is_none(), "a job that leaves its queue has no deadline");
        let (number, has_ttl) = (job.queue, !job.is_simple() && job.has_ttl());
        let queue = &mut self.queues[number];
        debug_assert!(queue.jobs > 0, "a queue counts fewer jobs than it has");
        debug_assert!(queue.ttl_jobs >= u32::from(has_ttl), "a time to live is not counted");
        queue.jobs -= 1;
        queue.ttl_jobs -= u32::from(has_ttl);
        debug_assert!(queue.ttl_jobs <= queue.jobs, "a time to live is counted for a job only");
        if queue.index.is_some() {
            self.queues.remove_row(&self.jobs[slot]);
        }
        self.queues.list_if_idle(number);
    }
}

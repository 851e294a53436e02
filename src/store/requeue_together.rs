//! Jobs that go back to their queues together: what a client held that has gone, what a worker held
//! that was dismissed, and buried jobs of a queue that are kicked.

use super::{Effects, Outcome, RETURNED_KEPT, Store};
use crate::base::time::Now;
use crate::model::event::EventKind;
use crate::model::id::Ticket;
use crate::model::job::Status;
use crate::model::stats::JobCounter;

impl Store {
    /// Kicks the first `limit` buried jobs of a queue. O(limit log n).
    pub(super) fn kick_queue(
        &mut self,
        ticket: Ticket,
        queue: &[u8],
        limit: u32,
        now: Now,
        fx: &mut Effects,
    ) {
        let mut kicked = std::mem::take(&mut self.requeue_buf);
        if let Some(queue) = self.queues.find(queue) {
            while kicked.len() < limit as usize
                && let Some(slot) = self.queues[queue].buried.first()
            {
                self.unlink_cold(slot);
                self.jobs[slot].set_retries(0);
                self.mark_state_dirty(slot, fx);
                if self.jobs[slot].is_recorded() {
                    self.record_event(slot, EventKind::Kicked, now, fx);
                }
                self.totals.count(JobCounter::Kicked);
                kicked.push(slot);
            }
        }
        let count = u32::try_from(kicked.len()).unwrap_or(limit);
        fx.answer(ticket, Outcome::Kicked(count));
        self.requeue_batch(kicked, now, fx);
    }

    /// Brings jobs that are nowhere back to their queues together: all are there before anybody
    /// who waits is served, and then the most urgent goes first. O(h log n) for h jobs.
    /// Keeps the list's memory.
    pub(super) fn requeue_batch(&mut self, mut returned: Vec<u32>, now: Now, fx: &mut Effects) {
        // Sorting pays without waiters too: the heap takes a rising sequence without moving
        // anything.
        let jobs = &self.jobs;
        returned.sort_unstable_by(|&a, &b| jobs.order(a, b));
        let mut has_waiters = !self.global_ready.wait_queues.is_empty();
        for &slot in &returned {
            let queue = self.jobs[slot].queue;
            if !self.queues[queue].waiters.is_empty() {
                has_waiters = true;
                // Now, so that below each job that has come back can serve one waiter at most.
                self.pop_ready_head(queue, now, fx);
            }
        }
        returned.retain(|&slot| {
            if self.jobs[slot].is_expired(now) {
                drop(self.remove(slot, fx));
                return false;
            }
            self.enqueue(slot, now);
            true
        });
        if self.constraints.is_pending() {
            // What they have made room for may be more urgent.
            for &slot in &returned {
                if self.jobs[slot].status == Status::Ready {
                    self.schedule_match_for_job(slot);
                }
            }
        } else if has_waiters {
            for &slot in &returned {
                // It may have gone with its key group; its place is nobody else's before the next
                // command.
                if self.jobs.get(slot).is_some_and(|job| job.status == Status::Ready) {
                    self.match_job_global(slot, now, fx);
                }
            }
        }
        returned.clear();
        if returned.capacity() <= RETURNED_KEPT {
            self.requeue_buf = returned;
        }
    }
}

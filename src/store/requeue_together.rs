//! Requeuing several jobs together: those of a client that has ended or of a worker that was
//! deregistered, and kicked ones.

use super::idx::JobIdx;
use super::job::Job;
use super::{Effects, Outcome, REQUEUE_BUF_CAPACITY, Store};
use crate::base::time::Now;
use crate::model::event::EventKind;
use crate::model::id::Ticket;
use crate::model::job::Status;
use crate::model::stats::JobCounter;

impl Store {
    /// A buried job is kicked: if its time to live is over, it has none any more. Without this it
    /// would be removed as soon as it waits. O(1).
    pub(super) fn outlive(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) {
        let job = &self.jobs[slot];
        debug_assert_eq!(job.status(), Status::Buried, "only a buried job outlives its time");
        if !job.is_expired(now) {
            return;
        }
        let queue = job.queue;
        debug_assert!(self.queues[queue].ttl_jobs > 0, "a queue counts its jobs with a ttl");
        self.queues[queue].ttl_jobs -= 1;
        self.jobs.change(slot, Job::end_ttl);
        fx.mark_put_dirty(slot, &self.jobs[slot]);
    }

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
                debug_assert_eq!(self.jobs[slot].queue, queue, "a list has the jobs of its queue");
                self.unlink_cold(slot);
                self.outlive(slot, now, fx);
                self.jobs[slot].set_retries(0);
                self.count_kick(slot);
                fx.mark_state_dirty(slot, &self.jobs[slot]);
                if self.jobs[slot].has_row() {
                    self.queues.record_event(slot, EventKind::Kicked, now, &mut self.jobs, fx);
                }
                self.totals.count(JobCounter::Kicked);
                kicked.push(slot);
            }
        }
        let count = u32::try_from(kicked.len()).unwrap_or(limit);
        fx.answer(ticket, Outcome::Kicked(count));
        self.requeue_batch(kicked, now, fx);
    }

    /// Requeues unlinked jobs together: all are ready before any waiter is matched, and then the
    /// most urgent is first. O(h log n) for h jobs. Keeps the buffer's memory.
    pub(super) fn requeue_batch(&mut self, mut requeued: Vec<JobIdx>, now: Now, fx: &mut Effects) {
        // Sorting pays without waiters too: the heap takes a rising sequence without moving
        // anything.
        let jobs = &self.jobs;
        requeued.sort_unstable_by(|&a, &b| jobs.order(a, b));
        debug_assert!(
            requeued.windows(2).all(|pair| pair[0] != pair[1]),
            "a job is requeued twice"
        );
        let mut has_waiters = !self.global_ready.wait_queues.is_empty();
        for &slot in &requeued {
            let queue = self.jobs[slot].queue;
            if !self.queues[queue].waiters.is_empty() {
                has_waiters = true;
                // Expired heads go now: below, each requeued job then matches one waiter at most.
                self.ready_head(queue, now, fx);
            }
        }
        requeued.retain(|&slot| {
            if self.jobs[slot].is_expired(now) {
                drop(self.remove(slot, fx));
                return false;
            }
            if self.jobs[slot].has_unmet_dependencies() {
                // It was buried while it waited for other jobs.
                self.hold_back(slot, None, now);
                return false;
            }
            self.enqueue(slot, now);
            true
        });
        if has_waiters || self.constraints.is_pending() {
            for &slot in &requeued {
                // It may have left with its key group; its slot is not reused within this command.
                if self.jobs.get(slot).is_none_or(|job| job.status() != Status::Ready) {
                    continue;
                }
                // The capacity that these jobs have freed may be for a more urgent one; a job that
                // was popped may have released one.
                if self.constraints.is_pending() {
                    self.schedule_match_for_job(slot);
                } else {
                    self.match_job_global(slot, now, fx);
                }
            }
        }
        requeued.clear();
        if requeued.capacity() <= REQUEUE_BUF_CAPACITY {
            self.requeue_buf = requeued;
        }
    }
}

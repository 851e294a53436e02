//! Deadlines of jobs that fire: the end of a delay, a lease, a time to live or a retention.

use super::state_machine::{JobEvent, transition_at_deadline};
use super::{Effects, JobIdx, Store};
use crate::base::time::{Mono, Now};
use crate::base::timer_queue::TimerId;
use crate::model::job::Status;
use crate::model::stats::JobCounter;

impl Store {
    /// Handles the deadline of a job.
    pub(super) fn job_due(&mut self, (slot, at): (JobIdx, Mono), now: Now, fx: &mut Effects) {
        debug_assert!(at <= now.mono, "no deadline fires before its moment");
        self.unlist_delayed(slot, at);
        let job = &mut self.jobs[slot];
        job.unpack_timer();
        if let Some(ext) = job.ext_mut() {
            debug_assert!(!ext.timer.is_none(), "a deadline fires that was not armed");
            ext.timer = TimerId::NONE;
        }
        let (queue, recorded) = (job.queue, job.has_row());
        self.totals.count(JobCounter::TimerFired);
        debug_assert!(
            !matches!(job.status(), Status::Ready | Status::Blocked | Status::GroupOnly)
                || job.expires() == at,
            "the deadline of a job in its queue is the end of its time to live"
        );
        let step = transition_at_deadline(job);
        if self.jobs[slot].status() == Status::Reserved {
            self.end_attempt_by_clock(slot, now, fx);
        }
        if recorded {
            self.queues.emit_event(slot, JobEvent::TimerFired, now, &mut self.jobs, fx);
        }
        self.apply_transition_cold(slot, step, now, fx);
        self.rematch_queue(queue, now, fx);
    }

    /// Notes in a reserved job that its lease has ended.
    fn end_attempt_by_clock(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) {
        debug_assert_eq!(self.jobs[slot].status(), Status::Reserved, "only a lease ends so");
        self.totals.leases_ended += 1;
        let limited = self.jobs[slot].max_attempts() > 0;
        self.jobs.change(slot, |job| {
            if job.is_tracked() {
                job.mark_timed_out();
            }
            if limited || !job.is_tracked() {
                job.count_attempt();
            }
            if limited {
                job.set_run_error("LeaseExpired", "the lease of its worker has ended", now.wall);
            }
        });
        if limited {
            fx.mark_state_dirty(slot, &self.jobs[slot]);
        }
    }
}

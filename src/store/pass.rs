//! A pass of the store: the deadlines that are due, and a share of the work that is spread over
//! passes.

use super::{Due, Effects, Store};
use crate::base::time::Now;
use crate::base::timer_queue::TimerId;

impl Store {
    /// Starts a pass: resets the budgets that all commands of a pass share. O(1).
    #[inline]
    pub fn begin_pass(&mut self) {
        self.constraints.begin_pass();
        self.spread.begin_pass();
        self.queues.begin_pass();
    }

    /// Handles up to `limit` due deadlines, the earliest first, and a pass's share of constraint
    /// work and of work that is spread over passes. O(log n + log d) each.
    pub fn expire(&mut self, limit: usize, now: Now, fx: &mut Effects) {
        self.begin_pass();
        for _ in 0..limit {
            let Some((at, due)) = self.deadlines.pop_due(now.mono) else { break };
            match due {
                Due::Job(slot) => self.job_due((slot, at), now, fx),
                Due::Waiter(waiter) => {
                    debug_assert!(!self.waiters[waiter].timer.is_none(), "a timeout was armed");
                    self.waiters[waiter].timer = TimerId::NONE;
                    self.waiter_due(waiter, now, fx);
                }
                Due::Limiter(limiter) => self.constraints.refill_due(limiter),
                Due::Watcher(watcher) => self.watcher_due(watcher, now, fx),
                Due::Pause(queue) => self.pause_due(queue, fx),
                Due::Schedules => self.schedules_due(now, fx),
                Due::PastKey(past) => self.past_key_due(past, fx),
                Due::PastRuns => self.past_runs_due(now, fx),
            }
            // Capacity that was freed is used before later deadlines fire; tokens that come at one
            // moment are used together.
            let more = matches!(due, Due::Limiter(_)) && self.deadlines.next() == Some(at);
            if self.constraints.is_pending() && self.constraints.has_pass_steps() && !more {
                self.run_pending(now, fx);
            }
        }
        self.reevaluate_jobs(now);
        self.run_disconnects(now, fx);
        self.run_large_pops(now, fx);
        self.run_resumes();
        self.run_awaited_ends(now, fx);
        self.run_dependencies();
        self.run_actions(now, fx);
        self.run_index_work(fx);
        self.run_rankings(now, fx);
        self.run_deferred(now, fx);
        self.queues.end_pass();
    }
}

//! Waiting for the end of a job: it is completed or buried.
//!
//! Many clients may wait for a job with a large result, and each gets a copy of it. What is too
//! much for a pass is answered in later ones.

use crate::base::limits::AWAITED_BYTES_PER_STEP;
use crate::base::time::Now;
use crate::model::id::{JobId, Ticket};
use crate::model::manage::JobState;
use crate::model::worker::TrackedReply;
use crate::store::idx::WatcherIdx;
use crate::store::job_watchers::WatchFor;
use crate::store::{Effects, JobIdx, Outcome, Store};
use std::time::Duration;

impl Store {
    /// Answers when a job is completed or buried, or when the wait is over. O(log v + log d).
    pub(super) fn await_end(
        &mut self,
        ticket: Ticket,
        id: JobId,
        wait_ms: u64,
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(slot) = self.find_or_answer(ticket, id, now, fx) else { return };
        if wait_ms == 0 || self.has_ended(slot) {
            return self.answer_details(ticket, slot, now, fx);
        }
        let watcher = self.watchers.begin(ticket, slot, WatchFor::End, &mut self.jobs);
        let at = now.mono.after(Duration::from_millis(wait_ms));
        self.watchers.arm(watcher, at, &mut self.deadlines);
    }

    fn has_ended(&self, slot: JobIdx) -> bool {
        let state = super::details::state(self.jobs[slot].status());
        matches!(state, JobState::Completed | JobState::Buried)
    }

    /// Answers those that wait for the end of a job, which is there; if there are too many for this
    /// pass, in later ones. O(log v + bytes) for each, `SPREAD_STEPS_PER_PASS` bounds them.
    pub(in crate::store) fn notify_awaiters(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) {
        debug_assert!(self.has_ended(slot), "what waits for the end of a job is answered then");
        if !self.answer_awaiters(slot, now, fx) {
            self.awaited_ends.push_back(JobId(self.jobs[slot].id()));
            self.spread.begin_task();
        }
    }

    /// Says whether all are answered.
    fn answer_awaiters(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) -> bool {
        while let Some(watcher) = self.watchers.first_for(slot, WatchFor::End) {
            if self.spread.steps_left() == 0 {
                return false;
            }
            let bytes = self.jobs[slot].content_bytes();
            self.spread.spend(1 + bytes / AWAITED_BYTES_PER_STEP);
            let ticket = self.watchers.remove(watcher, &mut self.deadlines);
            self.answer_details(ticket, slot, now, fx);
        }
        true
    }

    /// Goes on with the answers that were too many for earlier passes.
    #[inline]
    pub(in crate::store) fn run_awaited_ends(&mut self, now: Now, fx: &mut Effects) {
        if !self.awaited_ends.is_empty() {
            self.go_on_answering_awaiters(now, fx);
        }
    }

    #[cold]
    fn go_on_answering_awaiters(&mut self, now: Now, fx: &mut Effects) {
        while let Some(&id) = self.awaited_ends.front() {
            // A job that was removed has answered; one that was kicked is awaited further.
            let slot = self.ids.find(id.0).filter(|&slot| self.has_ended(slot));
            if slot.is_some_and(|slot| !self.answer_awaiters(slot, now, fx)) {
                return;
            }
            self.awaited_ends.pop_front();
            self.spread.end_task();
        }
    }

    /// The time of a watcher is over. If its job has ended meanwhile, that is the answer.
    /// O(log v + bytes).
    pub(in crate::store) fn watcher_due(
        &mut self,
        watcher: WatcherIdx,
        now: Now,
        fx: &mut Effects,
    ) {
        let (job, watch_for) = (self.watchers.job(watcher), self.watchers.watch_for(watcher));
        let ticket = self.watchers.expire(watcher);
        if watch_for == WatchFor::End && self.has_ended(job) {
            return self.answer_details(ticket, job, now, fx);
        }
        fx.answer(ticket, Outcome::Tracked(TrackedReply::NotYet));
    }
}

//! Completions under a token are remembered for a while, also through restarts: a worker whose
//! answer was lost reports once more, and is answered like the first time.

use crate::base::api_limits::{PAST_RUNS_MAX, PAST_RUNS_PER_DEADLINE};
use crate::base::time::Now;
use crate::base::timer_queue::TimerId;
use crate::model::id::JobId;
use crate::model::job::LeaseToken;
use crate::model::snapshot::{PersistedRun, Record};
use crate::store::idx::PastRunIdx;
use crate::store::past_runs::PastRuns;
use crate::store::{DirtyRecord, Due, Effects, RecordKey, Store};

impl Store {
    /// Remembers that a job was completed under this token. O(log r + log d).
    pub(super) fn note_completed_run(
        &mut self,
        job: JobId,
        token: LeaseToken,
        now: Now,
        fx: &mut Effects,
    ) {
        if self.ids.is_exhausted() {
            return;
        }
        if self.past_runs.completed_len() >= PAST_RUNS_MAX
            && let Some((_, oldest)) = self.past_runs.first_completed()
        {
            self.remove_completed_run(oldest, fx);
        }
        debug_assert!(self.past_runs.completed_len() < PAST_RUNS_MAX, "past runs are bounded");
        let id = self.ids.take_hidden();
        let run = PersistedRun { job, token, until: PastRuns::end(now) };
        let slot = self.past_runs.insert_completed(id, run);
        self.arm_past_runs();
        fx.mark_dirty(DirtyRecord::Put(RecordKey::PastRun(slot), id));
    }

    fn remove_completed_run(&mut self, slot: PastRunIdx, fx: &mut Effects) {
        let id = self.past_runs.remove_completed(slot).id;
        fx.mark_dirty(DirtyRecord::Gone(RecordKey::PastRun(slot), id));
    }

    /// Arms the deadline for the run that is forgotten first. O(log r + log d).
    fn arm_past_runs(&mut self) {
        let first = self.past_runs.first_completed().map(|(until, _)| until);
        let timer = self.past_runs.timer;
        if !timer.is_none() {
            if first == Some(self.deadlines.moment(timer)) {
                return;
            }
            self.deadlines.cancel(timer);
        }
        let armed = first.map(|at| self.deadlines.arm(at, Due::PastRuns));
        self.past_runs.timer = armed.unwrap_or_default();
        debug_assert_eq!(
            self.past_runs.timer.is_none(),
            self.past_runs.completed_len() == 0,
            "a deadline is armed while there are completed runs"
        );
    }

    /// Forgets runs whose time is over, a bounded number at once. The deadline is not armed any
    /// more. O(log r + log d) for each.
    pub(in crate::store) fn past_runs_due(&mut self, now: Now, fx: &mut Effects) {
        debug_assert!(!self.past_runs.timer.is_none(), "a deadline fires that was armed");
        self.past_runs.timer = TimerId::NONE;
        for _ in 0..PAST_RUNS_PER_DEADLINE {
            match self.past_runs.first_completed() {
                Some((until, slot)) if until <= now.mono => self.remove_completed_run(slot, fx),
                _ => break,
            }
        }
        self.arm_past_runs();
    }

    /// The base record of a past run. O(1).
    pub(in crate::store) fn past_run_record(&self, slot: PastRunIdx) -> Record<'static> {
        let past = self.past_runs.completed(slot);
        Record::PastRun(past.id, past.run)
    }

    /// Restores a past run, in place of the one with its id. O(log r + log d).
    pub fn restore_past_run(&mut self, id: JobId, run: PersistedRun) -> RecordKey {
        self.ids.skip_hidden(id);
        if let Some(known) = self.past_runs.find_completed(id) {
            return RecordKey::PastRun(known);
        }
        let slot = self.past_runs.insert_completed(id, run);
        self.arm_past_runs();
        RecordKey::PastRun(slot)
    }

    /// Recovery: removes the past run with this id, if there is one. Returns its record.
    /// O(log r + log d).
    pub(in crate::store) fn undo_past_run(&mut self, id: JobId) -> Option<PastRunIdx> {
        let slot = self.past_runs.find_completed(id)?;
        self.past_runs.remove_completed(slot);
        self.arm_past_runs();
        Some(slot)
    }
}

//! Runs of jobs that are gone: completed under a token, so that the same report once more is
//! answered like the first, or cancelled, so that the worker is told.
//!
//! Both are kept for a time, and at most [`PAST_RUNS_MAX`] of each kind: the oldest are forgotten
//! first. Completed ones have a record each, so that they are known after a restart; cancelled ones
//! are in memory only.

use super::idx::PastRunIdx;
use crate::base::api_limits::{PAST_RUN_KEPT, PAST_RUNS_MAX};
use crate::base::paged::PagedSlab;
use crate::base::slab_index::SlabIndex;
use crate::base::time::{Mono, Now};
use crate::base::timer_queue::TimerId;
use crate::model::id::{ClientId, JobId};
use crate::model::job::LeaseToken;
use crate::model::manage::{ManageReply, Missing};
use crate::model::snapshot::PersistedRun;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Memory of a completed run, nearly: its slot, three entries of tables, and that of its record.
const PAST_RUN_MEMORY_BYTES: usize = 150;

/// Who had reserved a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunOwner {
    Token(LeaseToken),
    Client(ClientId),
}

/// A run that was completed under a token.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompletedRun {
    /// Of its record.
    pub(super) id: JobId,
    pub(super) run: PersistedRun,
}

/// Completed runs, by job, by the id of their record, and by their end.
#[derive(Debug, Default)]
struct CompletedRuns {
    runs: PagedSlab<CompletedRun, PastRunIdx>,
    by_job: BTreeMap<JobId, PastRunIdx>,
    by_id: BTreeMap<JobId, PastRunIdx>,
    by_end: BTreeSet<(Mono, u32)>,
}

/// Cancelled runs.
#[derive(Debug, Default)]
struct CancelledRuns {
    by_job: BTreeMap<JobId, (RunOwner, Mono)>,
    /// In the order in which they were added.
    order: VecDeque<JobId>,
}

impl CancelledRuns {
    /// O(log r) for r runs, amortised.
    fn add(&mut self, id: JobId, owner: RunOwner, until: Mono, now: Now) {
        while let Some(&oldest) = self.order.front() {
            let over = self.by_job.get(&oldest).is_none_or(|&(_, until)| until <= now.mono);
            if !over && self.order.len() < PAST_RUNS_MAX {
                break;
            }
            self.order.pop_front();
            self.by_job.remove(&oldest);
        }
        self.by_job.insert(id, (owner, until));
        self.order.push_back(id);
        debug_assert!(
            self.by_job.len() <= self.order.len() && self.order.len() <= PAST_RUNS_MAX,
            "cancelled runs are bounded, and each is in the order in which they are forgotten"
        );
    }

    fn contains(&self, id: JobId, owner: RunOwner, now: Now) -> bool {
        self.by_job.get(&id).is_some_and(|&(known, until)| known == owner && until > now.mono)
    }
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct PastRuns {
    completed: CompletedRuns,
    cancelled: CancelledRuns,
    /// When the first completed run is forgotten.
    pub(super) timer: TimerId,
}

impl PastRuns {
    /// Adds a completed run under the id of its record. O(log r).
    pub(super) fn insert_completed(&mut self, id: JobId, run: PersistedRun) -> PastRunIdx {
        let CompletedRuns { runs, by_job, by_id, by_end } = &mut self.completed;
        let slot = runs.insert(CompletedRun { id, run });
        assert_eq!(by_id.insert(id, slot), None, "an id was given out twice");
        by_job.insert(run.job, slot);
        let is_new = by_end.insert((run.until, slot.slot()));
        debug_assert!(is_new, "a past run ends once");
        debug_assert_eq!(
            (runs.len(), runs.len()),
            (by_id.len(), by_end.len()),
            "a past run has one record and one end"
        );
        slot
    }

    /// Removes a completed run. O(log r).
    pub(super) fn remove_completed(&mut self, slot: PastRunIdx) -> CompletedRun {
        let CompletedRuns { runs, by_job, by_id, by_end } = &mut self.completed;
        let past = runs.remove(slot).expect("a past run was removed twice");
        let known = by_id.remove(&past.id);
        debug_assert_eq!(known, Some(slot), "a past run is found by the id of its record");
        // A job is completed once; after a restart another record may be about the same one.
        if by_job.get(&past.run.job) == Some(&slot) {
            by_job.remove(&past.run.job);
        }
        let was_there = by_end.remove(&(past.run.until, slot.slot()));
        debug_assert!(was_there, "a past run is found by its end");
        debug_assert!(
            by_job.len() <= runs.len() && by_id.len() == runs.len() && by_end.len() == runs.len(),
            "a past run goes out of all tables"
        );
        past
    }

    /// The completed run whose record has this id. O(log r).
    pub(super) fn find_completed(&self, id: JobId) -> Option<PastRunIdx> {
        self.completed.by_id.get(&id).copied()
    }

    pub(super) fn completed(&self, slot: PastRunIdx) -> &CompletedRun {
        &self.completed.runs[slot]
    }

    /// The completed run that is forgotten first, and when.
    pub(super) fn first_completed(&self) -> Option<(Mono, PastRunIdx)> {
        let &(until, slot) = self.completed.by_end.first()?;
        let slot = PastRunIdx::from_slot(slot);
        debug_assert!(
            self.completed.runs.get(slot).is_some_and(|past| past.run.until == until),
            "an end in the order of ends is that of a run"
        );
        Some((until, slot))
    }

    /// The number of completed runs.
    pub(super) fn completed_len(&self) -> usize {
        self.completed.by_id.len()
    }

    /// Whether a deadline is armed: 0 or 1.
    pub(super) fn timers(&self) -> usize {
        usize::from(!self.timer.is_none())
    }

    /// The ids of the records of completed runs.
    pub(super) fn record_ids(&self) -> impl Iterator<Item = JobId> {
        self.completed.by_id.keys().copied()
    }

    /// The bytes that past runs take, nearly.
    pub(super) fn memory_bytes(&self) -> usize {
        (self.completed_len() + self.cancelled.order.len()) * PAST_RUN_MEMORY_BYTES
    }

    /// The moment until which a run that ends now is known.
    pub(super) fn end(now: Now) -> Mono {
        now.mono.after(PAST_RUN_KEPT)
    }

    /// Notes the run of a cancelled job, whose lease would have ended at `until`.
    pub(super) fn note_cancelled(
        &mut self,
        id: JobId,
        owner: RunOwner,
        until: Option<Mono>,
        now: Now,
    ) {
        let until = until.unwrap_or_else(|| Self::end(now));
        self.cancelled.add(id, owner, until, now);
    }

    /// The answer to a report about a job that is gone. O(log r).
    pub(super) fn reply(
        &self,
        id: JobId,
        owner: RunOwner,
        completes: bool,
        now: Now,
    ) -> ManageReply {
        if self.cancelled.contains(id, owner, now) {
            return ManageReply::Cancelled;
        }
        match owner {
            RunOwner::Token(token) if completes && self.was_completed(id, token, now) => {
                ManageReply::Done
            }
            RunOwner::Token(_) => ManageReply::StaleToken,
            RunOwner::Client(_) => ManageReply::Missing(Missing::Gone),
        }
    }

    fn was_completed(&self, id: JobId, token: LeaseToken, now: Now) -> bool {
        let run = self.completed.by_job.get(&id).map(|&slot| self.completed(slot).run);
        run.is_some_and(|run| run.token == token && run.until > now.mono)
    }

    /// Asserts that completed runs are found by all that they are found by, and that a deadline is
    /// armed if there are any. O(r log r): for checks.
    pub(super) fn check_invariants(&self) {
        let CompletedRuns { runs, by_job, by_id, by_end } = &self.completed;
        assert_eq!((runs.len(), runs.len()), (by_id.len(), by_end.len()), "a past run is lost");
        assert!(by_job.len() <= runs.len(), "a job has a past run that is not there");
        for (slot, past) in runs.iter() {
            assert_eq!(by_id.get(&past.id), Some(&slot), "a past run is not found by its id");
            let end = (past.run.until, slot.slot());
            assert!(by_end.contains(&end), "a past run is not found by its end");
        }
        assert_eq!(self.timer.is_none(), runs.is_empty(), "the deadline of past runs is wrong");
    }
}

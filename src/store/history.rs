//! Rows and histories of the jobs in indexed queues.
//!
//! Each event of such a job makes a new row, which replaces the former one in the queue's index.
//! All jobs of an indexed queue have a row, except those that were there before and have not been
//! backfilled.

use super::idx::QueueIdx;
use super::job::Job;
use super::jobs::Jobs;
use super::queue_index::{NO_STATE, QueueIndex, next_row};
use super::queues::Queues;
use super::state_machine::{JobEvent, Transition};
use super::{Effects, JobIdx};
use crate::base::limits::{BACKFILL_JOBS_PER_STEP, BACKFILL_SLOTS_PER_STEP};
use crate::base::slab_index::SlabIndex;
use crate::base::time::Now;
use crate::model::event::{Event, EventKind};
use crate::model::id::JobId;
use crate::model::job::{Payload, Status};
use crate::model::row::Row;
use std::sync::Arc;

/// The version of the event with which a history ends: its job has no row then.
pub(super) const HISTORY_ENDED: u64 = 0;

impl Queues {
    /// Removes the row of a job that is about to be removed. Its queue no longer counts the job.
    /// O(log n).
    #[inline(never)]
    pub(super) fn remove_row(&mut self, job: &Job) {
        let queue = &mut self[job.queue];
        if let (Some(row), Some(index)) = (job.row(), &mut queue.index) {
            index.remove(row);
        }
        debug_assert!(job.row().is_none() || queue.index.is_some(), "a row is in an index");
        queue.stop_indexing_if_gone();
    }

    /// The row of a job in an indexed queue, made if there is none. O(log n).
    pub(super) fn row_of(&mut self, slot: JobIdx, jobs: &mut Jobs, fx: &mut Effects) -> Arc<Row> {
        let job = &mut jobs[slot];
        if let Some(row) = job.row() {
            return row.clone();
        }
        let (id, at) = (JobId(job.id()), u64::from(job.created()));
        fx.mark_event_dirty(slot, id, 1, Event { kind: EventKind::Created, at });
        let index = self[job.queue].index_mut();
        jobs.change(slot, |job| index.make_row(job, None, NO_STATE, at))
    }

    /// [`Queues::append`] without a result.
    #[cold]
    pub(super) fn record_event(
        &mut self,
        slot: JobIdx,
        what: EventKind,
        now: Now,
        jobs: &mut Jobs,
        fx: &mut Effects,
    ) {
        self.append(slot, what, now, jobs, fx);
    }

    /// Appends an event to the history of a job that has a row; returns the new row. O(log n).
    pub(super) fn append(
        &mut self,
        slot: JobIdx,
        what: EventKind,
        now: Now,
        jobs: &mut Jobs,
        fx: &mut Effects,
    ) -> Arc<Row> {
        let job = &jobs[slot];
        let index = self[job.queue].index_mut();
        let event = Event { kind: what, at: index.event_time(now) };
        let row = job.row().expect("the job has a row");
        debug_assert!(event.at >= row.modified, "the changes of a job do not go back");
        let next = next_row(row, row.version + 1, &event);
        fx.mark_event_dirty(slot, next.id, next.version, event);
        jobs.change(slot, |job| index.replace_row(job, next))
    }

    /// Gives a job with this row a new state; returns the new row. O(log n).
    pub(super) fn advance(
        &mut self,
        slot: JobIdx,
        row: &Row,
        state: &[u8],
        now: Now,
        jobs: &mut Jobs,
        fx: &mut Effects,
    ) -> Arc<Row> {
        debug_assert_eq!(jobs[slot].id(), row.id.0, "a row of another job");
        debug_assert!(
            jobs[slot].row().is_some_and(|present| present.version == row.version),
            "a state follows that of the present row"
        );
        let new = self[jobs[slot].queue].index_mut().intern_state(state);
        self.append(slot, EventKind::Advanced { old: row.state.clone(), new }, now, jobs, fx)
    }

    /// Appends what a legal event of the state machine means to the history of a job. O(log n).
    #[cold]
    pub(super) fn emit_event(
        &mut self,
        slot: JobIdx,
        event: JobEvent,
        now: Now,
        jobs: &mut Jobs,
        fx: &mut Effects,
    ) {
        let job = &jobs[slot];
        let what = match (event, job.status()) {
            (JobEvent::Release, _) => EventKind::Aborted,
            (JobEvent::Fail { .. }, _) => EventKind::Failed,
            (JobEvent::Kick, _) => EventKind::Kicked,
            (JobEvent::TimerFired, Status::Reserved) => EventKind::Expired,
            (JobEvent::TimerFired, Status::Delayed) if !job.is_expired(now) => EventKind::Due,
            // The transition says it, or the job is removed, or (touch) clients cannot tell.
            (JobEvent::TimerFired | JobEvent::Finish | JobEvent::Bury | JobEvent::Touch, _) => {
                return;
            }
        };
        self.record_event(slot, what, now, jobs, fx);
    }

    /// Appends a transition to the history of a job. O(log n).
    #[cold]
    pub(super) fn record_transition(
        &mut self,
        slot: JobIdx,
        step: Transition,
        now: Now,
        jobs: &mut Jobs,
        fx: &mut Effects,
    ) {
        let what = match step {
            Transition::Retry => EventKind::Retried,
            Transition::Complete => EventKind::Finished,
            Transition::Bury => EventKind::Buried,
            Transition::Requeue | Transition::Renew | Transition::Remove => return,
        };
        self.record_event(slot, what, now, jobs, fx);
    }

    /// Ends the history of a job that has a row: its payload is its own again. Returns when the job
    /// was put, in Unix seconds. O(log n + bytes).
    pub(super) fn end_history(&mut self, slot: JobIdx, jobs: &mut Jobs) -> u32 {
        let job = &jobs[slot];
        let row = job.row().expect("the job has a row").clone();
        let created = u32::try_from(job.put_at()).unwrap_or(u32::MAX);
        self[job.queue].index_mut().remove(&row);
        let payload = Payload { encoding: row.encoding, bytes: &row.payload };
        jobs.change(slot, |job| job.set_payload(payload, created));
        debug_assert!(!jobs[slot].has_row(), "a payload is the job's own, or its row's");
        created
    }

    /// Backfills a bounded number of rows of a queue; returns whether all jobs have theirs. O(limit
    /// log n).
    pub(super) fn backfill_step(
        &mut self,
        queue: QueueIdx,
        jobs: &mut Jobs,
        fx: &mut Effects,
    ) -> bool {
        let mut cursor = self[queue].index_mut().cursor;
        let end = jobs.end().min(cursor.saturating_add(BACKFILL_SLOTS_PER_STEP));
        let mut made = 0;
        while !self[queue].is_backfilled() && cursor < end && made < BACKFILL_JOBS_PER_STEP {
            let slot = JobIdx::from_slot(cursor);
            if jobs.lacks_row(slot, queue) {
                self.row_of(slot, jobs, fx);
                made += 1;
            }
            cursor += 1;
        }
        debug_assert!(
            cursor < jobs.end() || self[queue].is_backfilled(),
            "backfill has passed over a job"
        );
        self[queue].index_mut().cursor = cursor;
        self[queue].is_backfilled()
    }

    /// Makes the row of a new job in an indexed queue. O(log n).
    #[cold]
    pub(super) fn record_put(
        &mut self,
        slot: JobIdx,
        payload: &[u8],
        state: &[u8],
        now: Now,
        jobs: &mut Jobs,
    ) -> Arc<Row> {
        let index = self[jobs[slot].queue].index_mut();
        let created = index.event_time(now);
        jobs.change(slot, |job| index.make_row(job, Some(payload.into()), state, created))
    }
    /// Restores an event of a job, whose row had this version after it; one that the row contains
    /// already is passed over. Version 0 ends the history, and with the last one of a queue that is
    /// not declared its index. O(log n).
    pub(super) fn restore_event(
        &mut self,
        slot: JobIdx,
        version: u64,
        event: Event,
        jobs: &mut Jobs,
    ) {
        if version == HISTORY_ENDED {
            if jobs[slot].has_row() {
                self.end_history(slot, jobs);
            }
            let queue = &mut self[jobs[slot].queue];
            let is_over = |index: &QueueIndex| index.rows().is_empty() && index.declared.is_none();
            if queue.index.as_deref().is_some_and(is_over) {
                queue.drop_index();
            }
            return;
        }
        let Some(row) = jobs[slot].row().cloned() else {
            let queue = &mut self[jobs[slot].queue];
            queue.start_indexing();
            let index = queue.index_mut();
            jobs.change(slot, |job| index.make_row(job, None, NO_STATE, event.at));
            return;
        };
        if version > row.version {
            let index = self[jobs[slot].queue].index_mut();
            let what = match event.kind {
                EventKind::Advanced { old, new } => {
                    let old = if old == row.state { row.state.clone() } else { old };
                    EventKind::Advanced { old, new: index.intern_state(&new) }
                }
                what => what,
            };
            let next = next_row(&row, version, &Event { kind: what, ..event });
            jobs.change(slot, |job| index.replace_row(job, next));
        }
    }
}

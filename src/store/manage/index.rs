//! The index of a queue, switched on and off. Both are done over several passes: switched on, the
//! jobs that are there get their rows; switched off, histories are freed, the oldest change first.
//!
//! A queue whose index was switched on is declared, so a restart keeps it on. Each history that is
//! freed is an event of version 0 in the journal; when the last one is freed, and only then, the
//! request is answered. Until then a restart may bring the index back with the histories that are
//! left, and a command of Jobq that names the queue, or one that switches the index on, ends the
//! removal: the index is on again with the histories that are left, and the request that has
//! switched it off is answered so.

use crate::base::api_limits::{ACTION_BYTES_PER_STEP, ACTION_STEPS_PER_JOB};
use crate::base::limits::{BACKFILL_JOBS_PER_STEP, DECLARED_QUEUES_MAX, EXTRA_WORK_PER_TURN};
use crate::model::event::{Event, EventKind};
use crate::model::id::{ClientId, JobId, Ticket};
use crate::model::manage::ManageReply;
use crate::model::reply::Rejection;
use crate::store::history::HISTORY_ENDED;
use crate::store::idx::QueueIdx;
use crate::store::{DirtyRecord, Effects, RecordKey, Store};
use std::collections::VecDeque;

/// Indexes that are being made or removed; each is a task of the spread work.
#[derive(Debug, Default)]
pub(in crate::store) struct IndexWork {
    tasks: VecDeque<IndexTask>,
}

#[derive(Debug)]
struct IndexTask {
    queue: QueueIdx,
    /// That of the queue: another one may come into its slot.
    serial: u64,
    /// It is switched off.
    ends: bool,
    /// To be answered at its end.
    ticket: Option<Ticket>,
}

const OFF: ManageReply = ManageReply::Index { on: false, building: false };

impl IndexWork {
    /// How many indexes later passes go on with.
    pub(in crate::store) fn running(&self) -> usize {
        self.tasks.len()
    }

    /// Whether this ticket is answered when an index is gone. O(tasks).
    pub(in crate::store) fn is_awaited(&self, ticket: Ticket) -> bool {
        self.tasks.iter().any(|task| task.ticket == Some(ticket))
    }

    /// The work goes on, and the ticket is not answered by it. Returns whether there was one.
    /// O(tasks).
    pub(in crate::store) fn stop_waiting(&mut self, ticket: Ticket) -> bool {
        let mut tasks = self.tasks.iter_mut();
        tasks.any(|task| task.ticket.take_if(|other| *other == ticket).is_some())
    }

    /// The work for a client that has ended goes on. O(tasks).
    pub(in crate::store) fn remove_client(&mut self, client: ClientId) {
        for task in &mut self.tasks {
            task.ticket.take_if(|ticket| ticket.client == client);
        }
    }
}

impl Store {
    /// Switches the index of a queue on. O(name + log n) for a bounded number of jobs; the others
    /// follow over the next passes.
    pub(super) fn index_on(&mut self, ticket: Ticket, name: &[u8], fx: &mut Effects) {
        let known = self.queues.find(name);
        let is_declared = known.is_some_and(|queue| {
            self.queues[queue].index.as_ref().is_some_and(|index| index.declared.is_some())
        });
        if !is_declared {
            let full = self.queues.declared().len() >= DECLARED_QUEUES_MAX;
            if full || self.ids.is_exhausted() {
                return fx.reply(ticket, ManageReply::Rejected(Rejection::Full));
            }
            let id = self.ids.take_hidden();
            let record = self.queues.declare(id, name);
            fx.mark_dirty(DirtyRecord::Put(RecordKey::Queue(record), id));
        }
        let queue = self.queues.find_or_add(name);
        let building = !self.queues.backfill_step(queue, &mut self.jobs, fx);
        if building && !self.index_work.tasks.iter().any(|task| task.queue == queue && !task.ends) {
            self.begin_index_work(queue, false, None);
        }
        fx.reply(ticket, ManageReply::Index { on: true, building });
    }

    /// Switches the index of a queue off, and answers when its histories are freed. O(log n +
    /// bytes) for each, a bounded number in each pass.
    pub(super) fn index_off(&mut self, ticket: Ticket, name: &[u8], fx: &mut Effects) {
        let Some(queue) = self.known_queue_or_answer(ticket, name, fx) else { return };
        if let Some((record, id)) = self.queues.end_declaration(queue) {
            fx.mark_dirty(DirtyRecord::Gone(RecordKey::Queue(record), id));
        }
        // Without jobs it has dropped its index, and it is idle.
        let Some(index) = self.queues.get(queue).and_then(|queue| queue.index.as_ref()) else {
            return fx.reply(ticket, OFF);
        };
        debug_assert!(index.declared.is_none(), "the declaration has ended");
        let index = self.queues[queue].index_mut();
        (index.ending, index.cursor) = (true, 0);
        if self.free_histories(queue, fx) {
            return fx.reply(ticket, OFF);
        }
        self.begin_index_work(queue, true, Some(ticket));
        // The client's next request waits: see `Store::is_deferred`.
        self.waiters.note_work(EXTRA_WORK_PER_TURN + 1);
    }

    fn begin_index_work(&mut self, queue: QueueIdx, ends: bool, ticket: Option<Ticket>) {
        debug_assert!(
            self.queues[queue].index.as_ref().is_some_and(|index| index.ending == ends),
            "index work is on an index that is switched on or off in the same way"
        );
        let serial = self.queues[queue].serial;
        self.index_work.tasks.push_back(IndexTask { queue, serial, ends, ticket });
        self.spread.begin_task();
    }

    /// Goes on with indexes that are being made or removed, up to what is left of
    /// `SPREAD_STEPS_PER_PASS`.
    #[inline]
    pub(in crate::store) fn run_index_work(&mut self, fx: &mut Effects) {
        if self.index_work.running() > 0 {
            self.run_some_index_work(fx);
        }
    }

    #[cold]
    fn run_some_index_work(&mut self, fx: &mut Effects) {
        for _ in 0..self.index_work.running() {
            if self.spread.steps_left() == 0 {
                return;
            }
            let Some(mut task) = self.index_work.tasks.pop_front() else { return };
            if !self.advance_index(&task, fx) {
                self.index_work.tasks.push_back(task);
                continue;
            }
            self.spread.end_task();
            if let Some(ticket) = task.ticket.take() {
                fx.reply(ticket, self.index_after(&task));
            }
        }
    }

    /// What is so of the index of a queue when a task is done. O(1).
    fn index_after(&self, task: &IndexTask) -> ManageReply {
        let record = self.queues.get(task.queue).filter(|queue| queue.serial == task.serial);
        match record.filter(|queue| queue.is_indexed()) {
            Some(queue) => ManageReply::Index { on: true, building: !queue.is_backfilled() },
            None => OFF,
        }
    }

    /// Makes or removes rows up to the steps that are left in this pass. Returns whether nothing is
    /// left to do.
    fn advance_index(&mut self, task: &IndexTask, fx: &mut Effects) -> bool {
        let record = self.queues.get(task.queue).filter(|queue| queue.serial == task.serial);
        let is_meant = record.and_then(|queue| queue.index.as_ref());
        if is_meant.is_none_or(|index| index.ending != task.ends) {
            return true;
        }
        if task.ends {
            return self.free_histories(task.queue, fx);
        }
        self.spread.spend(BACKFILL_JOBS_PER_STEP as usize * ACTION_STEPS_PER_JOB);
        self.queues.backfill_step(task.queue, &mut self.jobs, fx)
    }

    /// Frees histories of a queue up to the steps that are left in this pass. Returns whether none
    /// is left: then the queue is not indexed any more.
    fn free_histories(&mut self, queue: QueueIdx, fx: &mut Effects) -> bool {
        debug_assert!(
            self.queues[queue].index.as_ref().is_some_and(|index| index.ending),
            "only an index that is switched off loses its rows"
        );
        while let Some(row) = self.queues[queue].index_mut().first() {
            if self.spread.steps_left() == 0 {
                return false;
            }
            let (id, bytes) = (row.id, row.payload.len());
            self.spread.spend(ACTION_STEPS_PER_JOB + bytes / ACTION_BYTES_PER_STEP);
            let slot = self.ids.find(id.0).expect("a row is of a job");
            let created = self.queues.end_history(slot, &mut self.jobs);
            let event = Event { kind: EventKind::Created, at: u64::from(created) };
            fx.mark_event_dirty(slot, JobId(id.0), HISTORY_ENDED, event);
        }
        self.queues[queue].drop_index();
        self.queues.list_if_idle(queue);
        true
    }
}

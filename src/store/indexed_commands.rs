//! Commands on indexed queues (Jobq).
//!
//! A queue exists if it was declared, has a job, or is named `default`. It is indexed from the
//! first command that names it until it no longer exists.

use super::idx::{JobIdx, QueueIdx};
use super::job::Job;
use super::queue_index::has_capacity;
use super::queues::{DEFAULT, Queues};
use super::{DirtyRecord, Effects, RecordKey, SearchRequest, Store};
use crate::base::limits::{
    BACKFILL_SLOTS_PER_STEP, DECLARED_QUEUES_MAX, DROPPED_JOBS_PER_CHUNK,
    QUEUE_NAMES_PER_CHUNK_BYTES, QUEUES_PER_CHUNK, ROWS_PER_CHUNK,
};
use crate::base::slab_index::SlabIndex;
use crate::base::time::Now;
use crate::model::event::EventKind;
use crate::model::flow::FlowKind;
use crate::model::id::{JobId, Ticket};
use crate::model::indexed_queue::{IndexedCommand, IndexedPage, IndexedReply, QueueSize};
use crate::model::job::{Encoding, Payload, Priority, TieBreak};
use crate::model::query::Query;
use crate::model::row::Row;
use crate::model::stats::JobCounter;
use std::sync::Arc;

impl Queues {
    /// Lists a bounded number of queues. `default` comes first, so that it is listed once whether
    /// or not it is known. O(limit).
    fn page(&self, from: u32) -> IndexedPage {
        let mut queues = Vec::new();
        let mut bytes = 0;
        let default = self.find(DEFAULT);
        if from == 0 {
            let jobs = default.map_or(0, |queue| self[queue].jobs);
            queues.push(QueueSize { name: DEFAULT.into(), jobs });
        }
        let end = self.end();
        let stop = end.min(from.saturating_add(BACKFILL_SLOTS_PER_STEP));
        let mut place = from;
        while place < stop && queues.len() < QUEUES_PER_CHUNK && bytes < QUEUE_NAMES_PER_CHUNK_BYTES
        {
            let number = QueueIdx::from_slot(place);
            if let Some(queue) = self.get(number)
                && default != Some(number)
                && queue.exists()
            {
                bytes += queue.name.len();
                queues.push(QueueSize { name: (*queue.name).into(), jobs: queue.jobs });
            }
            place += 1;
        }
        let next = (place < end).then_some(place);
        IndexedPage::Queues { queues, next }
    }
}

impl Store {
    /// Executes a command, or pushes its query to [`Effects::searches`].
    #[inline(never)]
    pub(super) fn indexed_command(
        &mut self,
        ticket: Ticket,
        command: &IndexedCommand<'_>,
        now: Now,
        fx: &mut Effects,
    ) {
        match *command {
            IndexedCommand::Stats(scan) => self.scan_stats(ticket, scan, now, fx),
            IndexedCommand::Queues { from } => fx.reply(ticket, self.queues.page(from)),
            IndexedCommand::CreateQueue { queue } => self.create_queue(ticket, queue, fx),
            IndexedCommand::DropQueue { queue } => {
                let Some(queue) = self.indexed_queue(ticket, queue, fx) else { return };
                self.drop_jobs(ticket, queue, now, fx);
            }
            IndexedCommand::List { queue } => {
                let Some(queue) = self.indexed_queue(ticket, queue, fx) else { return };
                self.list_rows(ticket, queue, fx);
            }
            IndexedCommand::Find { queue, query, limit } => {
                let Some(queue) = self.indexed_queue(ticket, queue, fx) else { return };
                self.find_matching(ticket, queue, query, limit, fx);
            }
            IndexedCommand::Poll { queue, query, state } => {
                let Some(queue) = self.indexed_queue(ticket, queue, fx) else { return };
                self.claim_matching(ticket, queue, query, state, now, fx);
            }
            IndexedCommand::Put { queue, payload, state } => {
                let Some(queue) = self.indexed_queue(ticket, queue, fx) else { return };
                self.put_indexed(ticket, queue, payload, state, now, fx);
            }
            IndexedCommand::Show { queue, id } => {
                let Some(queue) = self.indexed_queue(ticket, queue, fx) else { return };
                if let Some((_, row)) = self.find_with_row(ticket, queue, id, now, fx) {
                    fx.reply(ticket, IndexedReply::Row(row));
                }
            }
            IndexedCommand::Delete { queue, id } => {
                let Some(queue) = self.indexed_queue(ticket, queue, fx) else { return };
                self.delete_indexed(ticket, queue, id, now, fx);
            }
            IndexedCommand::CompareAndSetState { queue, id, old, new } => {
                let Some(queue) = self.indexed_queue(ticket, queue, fx) else { return };
                let Some((slot, row)) = self.find_with_row(ticket, queue, id, now, fx) else {
                    return;
                };
                let answer = if *row.state == *old {
                    let jobs = &mut self.jobs;
                    IndexedReply::Row(self.queues.advance(slot, &row, new, now, jobs, fx))
                } else {
                    IndexedReply::Conflict(row.state.clone())
                };
                fx.reply(ticket, answer);
            }
            IndexedCommand::AppendEvent { queue, id, event } => {
                let Some(queue) = self.indexed_queue(ticket, queue, fx) else { return };
                self.append_user_event(ticket, (queue, id), event, now, fx);
            }
        }
    }

    /// Appends an event of a user to the history of a job of a queue, if it takes one more. O(log
    /// n).
    fn append_user_event(
        &mut self,
        ticket: Ticket,
        (queue, id): (QueueIdx, JobId),
        event: &[u8],
        now: Now,
        fx: &mut Effects,
    ) {
        let Some((slot, row)) = self.find_with_row(ticket, queue, id, now, fx) else { return };
        if !has_capacity(&row.events, 1) {
            return fx.reply(ticket, IndexedReply::LogFull);
        }
        let user = EventKind::User(event.into());
        let row = self.queues.append(slot, user, now, &mut self.jobs, fx);
        fx.reply(ticket, IndexedReply::Row(row));
    }

    /// The queue of this name, indexed from now on. If there is none, answers the ticket. O(name).
    fn indexed_queue(&mut self, ticket: Ticket, name: &[u8], fx: &mut Effects) -> Option<QueueIdx> {
        let queue = self.queues.find_indexed(name);
        if queue.is_none() {
            fx.reply(ticket, IndexedReply::NoQueue);
        }
        queue
    }

    /// All rows of a queue. O(1), or a bounded step of the backfill.
    fn list_rows(&mut self, ticket: Ticket, queue: QueueIdx, fx: &mut Effects) {
        if !self.queues.backfill_step(queue, &mut self.jobs, fx) {
            return fx.reply(ticket, IndexedPage::NotYet);
        }
        let rows = self.queues[queue].index_mut().rows().clone();
        fx.reply(ticket, IndexedReply::Rows(rows));
    }

    /// A job of a queue, with its row. If there is none, answers the ticket. O(log n).
    fn find_with_row(
        &mut self,
        ticket: Ticket,
        queue: QueueIdx,
        id: JobId,
        now: Now,
        fx: &mut Effects,
    ) -> Option<(JobIdx, Arc<Row>)> {
        let slot = self.find_in_queue(ticket, queue, id, now, fx)?;
        let row = self.queues.row_of(slot, &mut self.jobs, fx);
        debug_assert_eq!(row.id, id, "the row of a job names it");
        Some((slot, row))
    }

    /// A job of a queue. If there is none, answers the ticket. O(log n).
    fn find_in_queue(
        &mut self,
        ticket: Ticket,
        queue: QueueIdx,
        id: JobId,
        now: Now,
        fx: &mut Effects,
    ) -> Option<JobIdx> {
        let found = self.find_cold(id, now, fx);
        let slot = found.filter(|&slot| self.jobs[slot].queue == queue);
        if slot.is_none() {
            fx.reply(ticket, IndexedReply::NoJob);
        }
        slot
    }

    fn find_matching(
        &mut self,
        ticket: Ticket,
        queue: QueueIdx,
        query: &Arc<Query>,
        limit: Option<u64>,
        fx: &mut Effects,
    ) {
        if !self.queues.backfill_step(queue, &mut self.jobs, fx) {
            return fx.reply(ticket, IndexedPage::NotYet);
        }
        let (rows, search) = self.queues[queue].index_mut().candidates(query);
        let limit_rows = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        if !search && rows.len().min(limit_rows) <= ROWS_PER_CHUNK {
            let found = rows.values().take(limit_rows).cloned().collect();
            return fx.reply(ticket, IndexedReply::QueryRows(found));
        }
        let (queue, query) = (self.queues[queue].index_mut().name().clone(), query.clone());
        let native = None;
        fx.searches.push(SearchRequest { ticket, queue, rows, query, limit, poll: None, native });
    }

    fn claim_matching(
        &mut self,
        ticket: Ticket,
        queue: QueueIdx,
        query: &Arc<Query>,
        state: &[u8],
        now: Now,
        fx: &mut Effects,
    ) {
        if !self.queues.backfill_step(queue, &mut self.jobs, fx) {
            return fx.reply(ticket, IndexedPage::NotYet);
        }
        let (rows, search) = self.queues[queue].index_mut().candidates(query);
        if search {
            let (name, query) = (self.queues[queue].index_mut().name().clone(), query.clone());
            let poll = Some(state.into());
            return fx.searches.push(SearchRequest {
                ticket,
                queue: name,
                rows,
                query,
                limit: None,
                poll,
                native: None,
            });
        }
        if !self.advance_any(ticket, rows.values(), state, now, fx) {
            fx.reply(ticket, IndexedReply::NoJob);
        }
    }

    /// Gives the new state to the first of these jobs whose row is still the present one, and
    /// answers the ticket with its new row. Returns false, without an answer, if there is none.
    /// O(log n) for each row.
    pub fn advance_first(
        &mut self,
        ticket: Ticket,
        candidates: &[Arc<Row>],
        state: &[u8],
        now: Now,
        fx: &mut Effects,
    ) -> bool {
        let found = self.advance_any(ticket, candidates.iter(), state, now, fx);
        self.watchers.answer_ended(fx);
        found
    }

    fn advance_any<'a>(
        &mut self,
        ticket: Ticket,
        rows: impl Iterator<Item = &'a Arc<Row>>,
        state: &[u8],
        now: Now,
        fx: &mut Effects,
    ) -> bool {
        for row in rows {
            // Removes the job if it has expired.
            let Some(slot) = self.find_cold(row.id, now, fx) else { continue };
            let is_current = |now: &Arc<Row>| now.version == row.version;
            if self.jobs[slot].row().is_some_and(is_current) {
                let row = self.queues.advance(slot, row, state, now, &mut self.jobs, fx);
                fx.reply(ticket, IndexedReply::Row(row));
                return true;
            }
        }
        false
    }

    /// Runs a search again, because its result is out of date: answers the ticket, or pushes a new
    /// search. O(log n).
    pub fn resubmit_search(&mut self, search: &SearchRequest, now: Now, fx: &mut Effects) {
        if search.native.is_some() {
            return self.resubmit_native_search(search, fx);
        }
        let (queue, query) = (&*search.queue, &search.query);
        let command = match &search.poll {
            Some(state) => IndexedCommand::Poll { queue, query, state },
            None => IndexedCommand::Find { queue, query, limit: search.limit },
        };
        self.indexed_command(search.ticket, &command, now, fx);
        self.watchers.answer_ended(fx);
    }

    /// Adds a job with a state. O(log n).
    fn put_indexed(
        &mut self,
        ticket: Ticket,
        queue: QueueIdx,
        payload: &[u8],
        state: &[u8],
        now: Now,
        fx: &mut Effects,
    ) {
        if self.is_full() {
            return fx.reply(ticket, IndexedReply::Full);
        }
        debug_assert!(self.queues[queue].is_indexed(), "a queue that Jobq names is indexed");
        let content = Payload { encoding: Encoding::Json, bytes: b"" };
        let id = self.ids.take();
        self.totals.count(JobCounter::Put);
        self.queues[queue].flow.count(FlowKind::Put);
        let (priority, tie_break) = (Priority::Small(0), TieBreak::Fifo);
        let slot = self.jobs.insert(Job::new(id, queue, priority, tie_break, (content, 0), now));
        self.ids.insert(id, slot);
        self.queues[queue].jobs += 1;
        self.queues.list_name(queue);
        let row = self.queues.record_put(slot, payload, state, now, &mut self.jobs);
        fx.reply(ticket, IndexedReply::Row(row));
        fx.mark_put_dirty(slot, &self.jobs[slot]);
        if !self.constraints.is_empty() {
            self.attach_limiters(slot, now);
        }
        self.make_ready_cold(slot, now, fx);
    }

    fn delete_indexed(
        &mut self,
        ticket: Ticket,
        queue: QueueIdx,
        id: JobId,
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(slot) = self.find_in_queue(ticket, queue, id, now, fx) else { return };
        self.count_deleted(slot, false);
        self.unlink_cold(slot);
        drop(self.remove(slot, fx));
        fx.reply(ticket, IndexedReply::Done);
        self.rematch_queue(queue, now, fx);
    }

    /// Removes a bounded number of a queue's jobs, and the queue's declaration when none is left.
    /// O(limit log n).
    fn drop_jobs(&mut self, ticket: Ticket, queue: QueueIdx, now: Now, fx: &mut Effects) {
        let (mut gone, mut jobs) = (0, 0);
        let end = self.queues[queue]
            .index_mut()
            .cursor
            .saturating_add(BACKFILL_SLOTS_PER_STEP)
            .min(self.jobs.end());
        while gone < DROPPED_JOBS_PER_CHUNK
            && let Some(slot) = self.next_to_drop(queue, end)
        {
            gone += 1;
            let visible = !self.jobs[slot].is_expired_waiting(now);
            jobs += u32::from(visible);
            self.totals.counters[JobCounter::Deleted as usize] += u64::from(visible);
            self.totals.withdrawn += u64::from(visible);
            self.unlink_cold(slot);
            drop(self.remove(slot, fx));
        }
        self.rematch_queue(queue, now, fx);
        let more = self.queues[queue].jobs > 0;
        if !more && let Some((record, id)) = self.queues.end_declaration(queue) {
            fx.mark_dirty(DirtyRecord::Gone(RecordKey::Queue(record), id));
        }
        fx.reply(ticket, IndexedPage::QueueDropped { jobs, more });
    }

    /// The next job of a queue to remove; one without a row only if its slot is below `end`.
    fn next_to_drop(&mut self, queue: QueueIdx, end: u32) -> Option<JobIdx> {
        let index = self.queues[queue].index.as_ref()?;
        if let Some(row) = index.first() {
            let found = self.ids.find(row.id.0);
            debug_assert!(
                found.is_some_and(|slot| self.jobs[slot].queue == queue),
                "a row is of a job of its queue"
            );
            return found;
        }
        let mut cursor = index.cursor;
        while cursor < end && !self.jobs.lacks_row(JobIdx::from_slot(cursor), queue) {
            cursor += 1;
        }
        self.queues[queue].index_mut().cursor = cursor;
        (cursor < end).then(|| JobIdx::from_slot(cursor))
    }

    /// Declares a queue, so that it exists without jobs. O(name).
    fn create_queue(&mut self, ticket: Ticket, name: Option<&[u8]>, fx: &mut Effects) {
        if self.ids.is_exhausted() || self.queues.declared().len() >= DECLARED_QUEUES_MAX {
            return fx.reply(ticket, IndexedReply::Full);
        }
        let name: Box<[u8]> = match name {
            Some(name) => name.into(),
            None => loop {
                let name = format!("{:016x}", self.rng.next_u64()).into_bytes();
                if self.queues.find(&name).is_none() {
                    break name.into();
                }
            },
        };
        let known = self.queues.find(&name);
        if *name == *DEFAULT || known.is_some_and(|queue| self.queues[queue].exists()) {
            return fx.reply(ticket, IndexedReply::QueueExists);
        }
        let id = self.ids.take_hidden();
        let record = self.queues.declare(id, &name);
        fx.mark_dirty(DirtyRecord::Put(RecordKey::Queue(record), id));
        fx.reply(ticket, IndexedReply::Queue(name));
    }
}

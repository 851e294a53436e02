//! What is asked about watched queues and their jobs.
//!
//! A queue exists if it was declared, if there is a job in it, or if it is named `default`. It is
//! watched from the first question that names it until it no longer exists.

use super::jobs::Job;
use super::records::DEFAULT;
use super::watch::{Watched, has_room};
use super::{Change, Effects, JOBS_MAX, JobSlot, Outcome, Store};
use crate::base::limits::{
    DROPPED_AT_ONCE, FOUND_AT_ONCE, QUEUE_NAMES_AT_ONCE, QUEUES_AT_ONCE, STOCK_PLACES,
};
use crate::base::time::Now;
use crate::model::event::Happening;
use crate::model::figures::Deed;
use crate::model::id::{JobId, Ticket};
use crate::model::job::{Encoding, Payload, Status, Turn, Urgency};
use crate::model::query::Query;
use crate::model::reply::Refusal;
use crate::model::row::{Row, Rows};
use crate::model::watch::{QueueSize, Watch};
use std::sync::Arc;

/// A question that needs a look at many rows: whoever applies commands has them looked at, away
/// from the loop, and answers it.
#[derive(Clone, Debug)]
pub struct Search {
    /// Who asks.
    pub ticket: Ticket,
    /// The name of the queue.
    pub queue: Arc<[u8]>,
    /// Those that may match, at one moment.
    pub rows: Rows,
    /// Which of them are wanted.
    pub query: Arc<Query>,
    /// How many of them, if that is limited.
    pub limit: Option<u64>,
    /// The state that the first one gets ([`Store::advance_first`]); without one they are shown.
    pub poll: Option<Arc<[u8]>>,
}

impl Store {
    /// Answers a question, or pushes it to [`Effects::searches`].
    #[inline(never)]
    pub(super) fn watch(&mut self, ticket: Ticket, watch: &Watch<'_>, now: Now, fx: &mut Effects) {
        let name = match *watch {
            Watch::Census(census) => return self.take_census(ticket, census, now, fx),
            Watch::Queues { from } => return self.list_queues(ticket, from, fx),
            Watch::Declare { queue } => return self.declare(ticket, queue, fx),
            Watch::Drop { queue }
            | Watch::List { queue }
            | Watch::Find { queue, .. }
            | Watch::Poll { queue, .. }
            | Watch::Put { queue, .. }
            | Watch::Show { queue, .. }
            | Watch::Delete { queue, .. }
            | Watch::Advance { queue, .. }
            | Watch::Note { queue, .. } => queue,
        };
        let Some(queue) = self.watched_queue(name) else {
            return fx.tell(ticket, Watched::NoQueue);
        };
        match *watch {
            Watch::Census(_) | Watch::Queues { .. } | Watch::Declare { .. } => {
                unreachable!("these were done before")
            }
            Watch::Drop { .. } => self.drop_jobs(ticket, queue, now, fx),
            Watch::List { .. } => {
                let all = self.take_stock(queue, fx);
                let rows = self.stock(queue).rows();
                let found = if all { Watched::Rows(rows.clone()) } else { Watched::NotYet };
                fx.tell(ticket, found);
            }
            Watch::Find { query, limit, .. } => self.seek(ticket, queue, query, limit, fx),
            Watch::Poll { query, state, .. } => self.poll(ticket, queue, query, state, now, fx),
            Watch::Put { payload, state, .. } => {
                self.put_watched(ticket, queue, payload, state, now, fx);
            }
            Watch::Show { id, .. } => {
                if let Some((_, row)) = self.named(ticket, queue, id, now, fx) {
                    fx.tell(ticket, Watched::Row(row));
                }
            }
            Watch::Delete { id, .. } => self.delete_watched(ticket, queue, id, now, fx),
            Watch::Advance { id, old, new, .. } => {
                let Some((slot, row)) = self.named(ticket, queue, id, now, fx) else { return };
                let answer = if *row.state == *old {
                    Watched::Row(self.advance(slot, &row, new, now, fx))
                } else {
                    Watched::Conflict(row.state.clone())
                };
                fx.tell(ticket, answer);
            }
            Watch::Note { id, event, .. } => {
                let Some((slot, row)) = self.named(ticket, queue, id, now, fx) else { return };
                if !has_room(&row.events, 1) {
                    return fx.answer(ticket, Outcome::Refused(Refusal::LogFull));
                }
                let row = self.append(slot, Happening::User(event.into()), now, fx);
                fx.tell(ticket, Watched::Row(row));
            }
        }
    }

    /// The queue of this name, if it exists, watched from now on. O(name).
    fn watched_queue(&mut self, name: &[u8]) -> Option<u32> {
        let found = self.queues.find(name).filter(|&queue| self.exists(queue));
        let default = || (*name == *DEFAULT).then(|| self.queues.find_or_add(name));
        let queue = found.or_else(default)?;
        self.begin_watch(queue);
        Some(queue)
    }

    /// Whether a queue exists that is remembered. One that is watched does.
    fn exists(&self, queue: u32) -> bool {
        let queue = &self.queues[queue];
        queue.jobs > 0 || queue.watch.is_some()
    }

    /// A job of a queue, with its row; if there is none, the ticket is answered. O(log n).
    fn named(
        &mut self,
        ticket: Ticket,
        queue: u32,
        id: JobId,
        now: Now,
        fx: &mut Effects,
    ) -> Option<(u32, Arc<Row>)> {
        let slot = self.find_in(ticket, queue, id, now, fx)?;
        Some((slot, self.row_of(slot, fx)))
    }

    /// A job of a queue; if there is none, the ticket is answered. O(log n).
    fn find_in(
        &mut self,
        ticket: Ticket,
        queue: u32,
        id: JobId,
        now: Now,
        fx: &mut Effects,
    ) -> Option<u32> {
        let found = self.find_anywhere(id, now, fx);
        let slot = found.filter(|&slot| self.jobs[slot].queue == queue);
        if slot.is_none() {
            fx.answer(ticket, Outcome::NoJob);
        }
        slot
    }

    fn advance(
        &mut self,
        slot: u32,
        row: &Row,
        state: &[u8],
        now: Now,
        fx: &mut Effects,
    ) -> Arc<Row> {
        let new = self.stock(self.jobs[slot].queue).share(state);
        self.append(slot, Happening::Advanced { old: row.state.clone(), new }, now, fx)
    }

    /// Which rows may match, and whether they have to be looked at.
    fn candidates(&mut self, queue: u32, query: &Query) -> (Rows, bool) {
        let stock = self.stock(queue);
        match query.state_literal() {
            Some((state, rest)) => (stock.in_state(&state), rest),
            None => (stock.rows().clone(), !query.terms.is_empty()),
        }
    }

    fn seek(
        &mut self,
        ticket: Ticket,
        queue: u32,
        query: &Arc<Query>,
        limit: Option<u64>,
        fx: &mut Effects,
    ) {
        if !self.take_stock(queue, fx) {
            return fx.tell(ticket, Watched::NotYet);
        }
        let (rows, search) = self.candidates(queue, query);
        let most = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        if !search && rows.len().min(most) <= FOUND_AT_ONCE {
            let found = rows.values().take(most).cloned().collect();
            return fx.tell(ticket, Watched::Found(found));
        }
        let (queue, query) = (self.stock(queue).name().clone(), query.clone());
        fx.searches.push(Search { ticket, queue, rows, query, limit, poll: None });
    }

    fn poll(
        &mut self,
        ticket: Ticket,
        queue: u32,
        query: &Arc<Query>,
        state: &[u8],
        now: Now,
        fx: &mut Effects,
    ) {
        if !self.take_stock(queue, fx) {
            return fx.tell(ticket, Watched::NotYet);
        }
        let (rows, search) = self.candidates(queue, query);
        if search {
            let (name, query) = (self.stock(queue).name().clone(), query.clone());
            let poll = Some(state.into());
            return fx.searches.push(Search {
                ticket,
                queue: name,
                rows,
                query,
                limit: None,
                poll,
            });
        }
        if !self.advance_any(ticket, rows.values(), state, now, fx) {
            fx.answer(ticket, Outcome::NoJob);
        }
    }

    /// Gives the first of these rows' jobs a new state that has not changed since, and answers the
    /// ticket with its row. Tells whether there was one; else nothing is answered. O(log n) for
    /// each row.
    pub fn advance_first(
        &mut self,
        ticket: Ticket,
        candidates: &[Arc<Row>],
        state: &[u8],
        now: Now,
        fx: &mut Effects,
    ) -> bool {
        let found = self.advance_any(ticket, candidates.iter(), state, now, fx);
        self.tell_vigils(fx);
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
            // A job whose time to live is over goes here, once.
            let Some(slot) = self.find_anywhere(row.id, now, fx) else { continue };
            let is_current = |now: &Arc<Row>| now.version == row.version;
            if self.jobs[slot].row().is_some_and(is_current) {
                let row = self.advance(slot, row, state, now, fx);
                fx.tell(ticket, Watched::Row(row));
                return true;
            }
        }
        false
    }

    /// Asks again what a search was for, since what it found is out of date: the ticket is
    /// answered, or a new search is pushed. O(log n).
    pub fn search_again(&mut self, search: &Search, now: Now, fx: &mut Effects) {
        let (queue, query) = (&*search.queue, &search.query);
        let watch = match &search.poll {
            Some(state) => Watch::Poll { queue, query, state },
            None => Watch::Find { queue, query, limit: search.limit },
        };
        self.watch(search.ticket, &watch, now, fx);
        self.tell_vigils(fx);
    }

    /// Adds a job with a state. O(log n).
    fn put_watched(
        &mut self,
        ticket: Ticket,
        queue: u32,
        payload: &[u8],
        state: &[u8],
        now: Now,
        fx: &mut Effects,
    ) {
        if self.next_id >= self.first_hidden_id || self.jobs.len() >= JOBS_MAX {
            return fx.answer(ticket, Outcome::Refused(Refusal::Full));
        }
        let content = Payload { encoding: Encoding::Json, bytes: b"" };
        let id = self.next_id;
        self.next_id += 1;
        self.totals.note(Deed::Put);
        let (urgency, turn) = (Urgency::Number(0), Turn::OldestFirst);
        let slot = self.jobs.insert(Job::new(id, queue, urgency, turn, content, now));
        self.ids.insert(id, slot);
        self.queues[queue].jobs += 1;
        let row = self.record_put(slot, payload, state, now);
        fx.tell(ticket, Watched::Row(row));
        self.note_put(slot, fx);
        if !self.constraints.is_empty() {
            self.bind(slot, now);
        }
        self.make_ready_slowly(slot, now, fx);
    }

    fn delete_watched(
        &mut self,
        ticket: Ticket,
        queue: u32,
        id: JobId,
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(slot) = self.find_in(ticket, queue, id, now, fx) else { return };
        self.withdraw(slot);
        drop(self.remove(slot, fx));
        self.totals.note(Deed::Deleted);
        fx.answer(ticket, Outcome::Done);
        self.first_left(queue, now, fx);
    }

    /// Removes a bounded number of a queue's jobs, and the queue when there are none left.
    /// O(limit log n).
    fn drop_jobs(&mut self, ticket: Ticket, queue: u32, now: Now, fx: &mut Effects) {
        let (mut gone, mut jobs) = (0, 0);
        let end = self.stock(queue).cursor.saturating_add(STOCK_PLACES).min(self.jobs.end());
        while gone < DROPPED_AT_ONCE
            && let Some(slot) = self.next_to_drop(queue, end)
        {
            gone += 1;
            let there = !self.jobs[slot].is_gone(now);
            jobs += u32::from(there);
            self.totals.deeds[Deed::Deleted as usize] += u64::from(there);
            self.withdraw(slot);
            drop(self.remove(slot, fx));
        }
        self.first_left(queue, now, fx);
        let more = self.queues[queue].jobs > 0;
        if !more {
            self.undeclare(queue, fx);
        }
        fx.tell(ticket, Watched::Dropped { jobs, more });
    }

    /// A job of a queue; one without record only if its place is before `end`.
    fn next_to_drop(&mut self, queue: u32, end: u32) -> Option<u32> {
        let stock = self.queues[queue].watch.as_ref()?;
        if let Some(row) = stock.first() {
            return self.ids.find(row.id.0);
        }
        let mut slot = stock.cursor;
        while slot < end && !self.is_unrecorded(slot, queue) {
            slot += 1;
        }
        self.stock(queue).cursor = slot;
        (slot < end).then_some(slot)
    }

    /// Takes back that a queue was declared.
    fn undeclare(&mut self, queue: u32, fx: &mut Effects) {
        let declared = self.queues[queue].watch.as_mut().and_then(|stock| stock.declared.take());
        if let Some(slot) = declared {
            let id = self.remove_declaration(slot);
            fx.note(Change::Gone(JobSlot(slot), id));
        }
        self.end_watch_if_gone(queue);
        self.queues.leave_if_idle(queue);
    }

    pub(super) fn remove_declaration(&mut self, slot: u32) -> JobId {
        let id = self.jobs.remove(slot).id;
        self.declared.remove(&id);
        JobId(id)
    }

    /// Lets a queue exist without jobs. O(name).
    fn declare(&mut self, ticket: Ticket, name: Option<&[u8]>, fx: &mut Effects) {
        if self.next_id >= self.first_hidden_id || self.jobs.len() >= JOBS_MAX {
            return fx.answer(ticket, Outcome::Refused(Refusal::Full));
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
        if *name == *DEFAULT || known.is_some_and(|queue| self.exists(queue)) {
            return fx.answer(ticket, Outcome::Refused(Refusal::QueueExists));
        }
        self.first_hidden_id -= 1;
        let id = JobId(self.first_hidden_id);
        let slot = self.add_declaration(id, &name);
        fx.note(Change::Put(JobSlot(slot), id));
        fx.tell(ticket, Watched::Queue(name));
    }

    /// A declaration has a place among the jobs, so that a journal keeps it like one, and an id
    /// that finds nothing.
    pub(super) fn add_declaration(&mut self, id: JobId, name: &[u8]) -> u32 {
        let queue = self.queues.find_or_add(name);
        self.begin_watch(queue);
        let nothing = Payload { encoding: Encoding::Json, bytes: b"" };
        let (urgency, turn) = (Urgency::Never, Turn::OldestFirst);
        let mut place = Job::new(id.0, queue, urgency, turn, nothing, Now::default());
        place.status = Status::Aside;
        let slot = self.jobs.insert(place);
        self.declared.insert(id.0, slot);
        self.stock(queue).declared = Some(slot);
        slot
    }

    /// Lists some of the queues. `default` comes first, so that it comes once whether or not it is
    /// remembered. O(limit).
    fn list_queues(&self, ticket: Ticket, from: u32, fx: &mut Effects) {
        let mut queues = Vec::new();
        let mut bytes = 0;
        let default = self.queues.find(DEFAULT);
        if from == 0 {
            let jobs = default.map_or(0, |queue| self.queues[queue].jobs);
            queues.push(QueueSize { name: DEFAULT.into(), jobs });
        }
        let end = self.queues.end();
        let stop = end.min(from.saturating_add(STOCK_PLACES));
        let mut place = from;
        while place < stop && queues.len() < QUEUES_AT_ONCE && bytes < QUEUE_NAMES_AT_ONCE {
            if let Some(queue) = self.queues.get(place)
                && default != Some(place)
                && self.exists(place)
            {
                bytes += queue.name.len();
                queues.push(QueueSize { name: queue.name.clone(), jobs: queue.jobs });
            }
            place += 1;
        }
        let next = (place < end).then_some(place);
        fx.tell(ticket, Watched::Queues { queues, next });
    }
}

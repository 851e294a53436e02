//! F2: the store. Jobs, queues, who waits, who holds what; pure and total.
//!
//! [`Store::apply`] takes a command and the time and writes what came of it into [`Effects`]: no
//! socket, no file, no clock, no chance. A refusal is a value. This file is the only one that calls
//! the others; each of them keeps one structure and knows nothing of the rest.
//!
//! Invariants, asserted by [`Store::check_invariants`]:
//! - a job is ready and in its queue's heap at the position it knows, or held and in its holder's
//!   list, never both and never neither;
//! - between two commands no queue has both a ready job and a waiter;
//! - a queue that has neither jobs nor waiters is remembered as idle or not at all.
//!
//! Costs: `n` is the number of ready jobs in the one queue concerned, `q` the number of queues that
//! a take names. Nothing depends on the number of clients, of queues, or of jobs elsewhere.

mod check;
mod holders;
mod ids;
mod jobs;
mod queues;
mod waiters;

use crate::base::heap::{Entry, leaves_before};
use crate::base::limits::JOB_ID_END;
use crate::base::strings::Strings;
use crate::base::time::Now;
use crate::model::command::Command;
use crate::model::id::{ClientId, JobId, Ticket};
use crate::model::job::{Payload, Turn, Urgency};
use crate::model::reply::{JobView, Refusal};
use holders::Holders;
use ids::Ids;
use jobs::{Job, Jobs, Status};
use queues::Queues;
use std::collections::VecDeque;
use waiters::Waiters;

/// The place of a job in the store: valid until the next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobSlot(u32);

/// What became of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A take was called off.
    Cancelled,
    /// It is done.
    Done,
    /// The client holds this job now: see [`Store::view`].
    Job(JobSlot),
    /// There is no such job, or none ready.
    NoJob,
    /// The job is in its queue.
    Put(JobId),
    /// Nothing has changed.
    Refused(Refusal),
}

/// What commands brought about, in order. Reused; whoever applies commands drains it.
#[derive(Debug, Default)]
pub struct Effects {
    /// Requests that are answered, the caller's own or those of clients that waited.
    pub outcomes: VecDeque<(Ticket, Outcome)>,
}

impl Effects {
    fn answer(&mut self, ticket: Ticket, outcome: Outcome) {
        self.outcomes.push_back((ticket, outcome));
    }
}

/// Sizes of the store, for tests and statistics. O(1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Jobs in whatever state.
    pub jobs: usize,
    /// Queues that exist, idle ones included.
    pub queues: usize,
    /// Takes that wait.
    pub waiters: usize,
}

/// Places for jobs: slots are 32 bits wide.
const JOBS_MAX: usize = u32::MAX as usize - 1;

/// Places for returned jobs that are kept for the next client's end.
const RETURNED_KEPT: usize = 4096;

/// The store.
#[derive(Debug)]
pub struct Store {
    jobs: Jobs,
    ids: Ids,
    queues: Queues,
    waiters: Waiters,
    holders: Holders,
    next_id: u64,
    /// Jobs that come back at the end of a client. Reused.
    returned: Vec<u32>,
}

impl Store {
    /// An empty store. `seed` keys the hash of queue names, so that nobody can choose names that
    /// collide.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            jobs: Jobs::default(),
            ids: Ids::default(),
            queues: Queues::new(seed),
            waiters: Waiters::default(),
            holders: Holders::default(),
            next_id: 1,
            returned: Vec::new(),
        }
    }

    /// Carries out one command. The ticket is answered exactly once: in `effects` now, or, for a
    /// take that waits, by a later call.
    pub fn apply(&mut self, ticket: Ticket, command: &Command<'_>, _now: Now, fx: &mut Effects) {
        match *command {
            Command::Put { queue, urgency, turn, payload } => {
                self.put(ticket, queue, urgency, turn, payload, fx);
            }
            Command::Take { queues, wait } => self.take(ticket, queues, wait, fx),
            Command::Delete { id } => self.delete(ticket, id, fx),
            Command::Release { id } => self.release(ticket, id, fx),
        }
    }

    /// Adds a job. O(log n), or O(queues of the waiter) if one takes it at once.
    fn put(
        &mut self,
        ticket: Ticket,
        queue: &[u8],
        urgency: Urgency<'_>,
        turn: Turn,
        payload: Payload<'_>,
        fx: &mut Effects,
    ) {
        if self.next_id >= JOB_ID_END || self.jobs.len() >= JOBS_MAX {
            return fx.answer(ticket, Outcome::Refused(Refusal::Full));
        }
        let id = self.next_id;
        self.next_id += 1;
        let queue = self.queues.find_or_add(queue);
        let slot = self.jobs.insert(Job::new(id, queue, urgency, turn, payload));
        self.ids.insert(id, slot);
        self.queues[queue].jobs += 1;
        fx.answer(ticket, Outcome::Put(JobId(id)));
        self.make_ready(slot, fx);
    }

    /// Hands the most urgent job of the queues out. O(q + log n); a take that waits O(q).
    fn take(&mut self, ticket: Ticket, names: Strings<'_>, wait: bool, fx: &mut Effects) {
        let mut best: Option<(u32, Entry)> = None;
        for name in names {
            let Some(queue) = self.queues.find(name) else { continue };
            let Some(entry) = self.queues[queue].ready.peek() else { continue };
            if best.is_none_or(|(_, best)| leaves_before(&entry, &best, &self.jobs)) {
                best = Some((queue, entry));
            }
        }
        match best {
            Some((queue, _)) => {
                let slot = self.pop_ready(queue);
                self.hand_out(slot, ticket, fx);
            }
            None if wait => self.wait(ticket, names),
            None => fx.answer(ticket, Outcome::NoJob),
        }
    }

    /// Lets a take wait in all its queues. O(q).
    fn wait(&mut self, ticket: Ticket, names: Strings<'_>) {
        let waiter = self.waiters.add(ticket);
        self.holders.add_waiter(ticket.client, waiter, &mut self.waiters);
        for name in names {
            let queue = self.queues.find_or_add(name);
            self.waiters.join(waiter, queue, &mut self.queues[queue].waiters);
        }
    }

    /// Makes an end of a job. O(log n).
    fn delete(&mut self, ticket: Ticket, id: JobId, fx: &mut Effects) {
        let Some(slot) = self.ids.take(id.0, self.next_id) else {
            return fx.answer(ticket, Outcome::NoJob);
        };
        let job = &self.jobs[slot];
        let queue = job.queue;
        match job.status {
            Status::Ready => {
                let place = job.place;
                self.queues[queue].ready.remove(place, &mut self.jobs);
            }
            Status::Held => self.holders.unlink(slot, &mut self.jobs),
        }
        self.jobs.remove(slot);
        self.queues[queue].jobs -= 1;
        self.queues.leave_if_idle(queue);
        fx.answer(ticket, Outcome::Done);
    }

    /// Puts a job that the client holds back. O(log n).
    fn release(&mut self, ticket: Ticket, id: JobId, fx: &mut Effects) {
        let Some(slot) = self.ids.find(id.0) else {
            return fx.answer(ticket, Outcome::NoJob);
        };
        let refusal = match self.jobs[slot].status {
            Status::Ready => Refusal::NotHeld(id),
            Status::Held if !self.holders.holds(ticket.client, &self.jobs[slot]) => {
                Refusal::HeldByAnother(id)
            }
            Status::Held => {
                self.holders.unlink(slot, &mut self.jobs);
                fx.answer(ticket, Outcome::Done);
                return self.make_ready(slot, fx);
            }
        };
        fx.answer(ticket, Outcome::Refused(refusal));
    }

    /// Calls off one take if it still waits, and then answers it. O(queues it waits on + takes of
    /// its client that wait).
    pub fn cancel(&mut self, ticket: Ticket, fx: &mut Effects) {
        if let Some(waiter) = self.holders.waiter(ticket, &self.waiters) {
            self.end_wait(waiter);
            fx.answer(ticket, Outcome::Cancelled);
        }
    }

    /// The client is gone: its takes end unanswered, and the jobs that it holds go back together,
    /// before any waiter is served. O(h log n) for the `h` jobs that it held.
    pub fn forget(&mut self, client: ClientId, fx: &mut Effects) {
        while let Some(waiter) = self.holders.first_waiter(client) {
            self.end_wait(waiter);
        }
        let mut returned = std::mem::take(&mut self.returned);
        while let Some(slot) = self.holders.first_job(client) {
            self.holders.unlink(slot, &mut self.jobs);
            returned.push(slot);
        }
        self.holders.end(client);
        // A queue with a waiter has no other ready job, so going through the returned ones in their
        // order serves every waiter the best that there is for it. Without waiters sorting pays all
        // the same: the heap takes a rising sequence without moving anything.
        let jobs = &self.jobs;
        returned.sort_unstable_by(|&a, &b| jobs.order(a, b));
        for slot in returned.drain(..) {
            self.make_ready(slot, fx);
        }
        if returned.capacity() <= RETURNED_KEPT {
            self.returned = returned;
        }
    }

    /// A job that nobody holds becomes ready: the first who waits gets it, or else the heap.
    fn make_ready(&mut self, slot: u32, fx: &mut Effects) {
        let job = &mut self.jobs[slot];
        let queue = &mut self.queues[job.queue];
        if let Some(waiter) = self.waiters.first(queue.waiters) {
            assert!(queue.ready.is_empty(), "a waiter was left beside a ready job");
            let ticket = self.end_wait(waiter);
            self.hand_out(slot, ticket, fx);
        } else {
            job.status = Status::Ready;
            let entry = job.entry(slot);
            queue.ready.push(entry, &mut self.jobs);
        }
    }

    fn pop_ready(&mut self, queue: u32) -> u32 {
        let entry = self.queues[queue].ready.pop(&mut self.jobs);
        entry.expect("the queue was seen to have a ready job").slot
    }

    fn hand_out(&mut self, slot: u32, ticket: Ticket, fx: &mut Effects) {
        self.jobs[slot].status = Status::Held;
        self.holders.link(ticket.client, slot, &mut self.jobs);
        fx.answer(ticket, Outcome::Job(JobSlot(slot)));
    }

    /// Takes a waiter out of all its queues and returns its ticket.
    fn end_wait(&mut self, waiter: u32) -> Ticket {
        let queues = &mut self.queues;
        self.holders.remove_waiter(waiter, &mut self.waiters);
        self.waiters.end(waiter, |queue, node, nodes| {
            nodes.unlink(node, &mut queues[queue].waiters);
            queues.leave_if_idle(queue);
        })
    }

    /// The job in `slot`, as clients see it. O(1).
    ///
    /// # Panics
    /// If the slot is from before the last command and its job is gone.
    #[must_use]
    pub fn view(&self, slot: JobSlot) -> JobView<'_> {
        let job = &self.jobs[slot.0];
        JobView {
            id: JobId(job.id),
            queue: &self.queues[job.queue].name,
            urgency: job.urgency(),
            payload: job.payload(),
        }
    }

    /// How much there is.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts { jobs: self.jobs.len(), queues: self.queues.len(), waiters: self.waiters.len() }
    }
}

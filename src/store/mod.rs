//! F2: the store. Jobs, queues, who waits, who holds what, what is due when; pure and total.
//!
//! [`Store::apply`] takes a command and the time and writes what came of it into [`Effects`]: no
//! socket, no file, no clock, no chance but a seeded generator. A refusal is a value. The
//! operations are here, in `take` (how jobs go out) and in `change` (how they change); `life` says
//! which change is legal. The other files keep one structure each and know nothing of the rest.
//!
//! Invariants, asserted by [`Store::check_invariants`]:
//! - a job is exactly where its status says: in its queue's heap at the position it knows, among
//!   those that constraints hold back, in its holder's list, among the buried of its queue, or
//!   nowhere; a waiting packet is in its group;
//! - between two commands no queue has both a ready job and a waiter who could have the first one;
//! - a job has at most one deadline, which is that of its status;
//! - a queue that has neither jobs nor waiters is remembered as idle or not at all.
//!
//! Costs: `n` is the number of ready jobs in the one queue concerned, `q` the number of queues that
//! a take names, `d` the number of deadlines. Nothing depends on the number of clients, of queues,
//! or of jobs elsewhere. A job whose time to live is over goes when its deadline is handled or when
//! a take meets it at the top of its queue, whichever comes first: a take pays O(log n + log d) for
//! each of those that it meets, and nobody pays for it again.

mod anywhere;
mod buried;
mod census;
mod change;
mod check;
mod check_work;
mod constraints;
mod counts;
mod durable;
mod effects;
mod extra;
mod follow;
mod groups;
mod holders;
mod ids;
mod jobs;
mod life;
mod named;
mod names;
mod queues;
mod records;
mod retry;
mod shelves;
mod take;
mod together;
mod vigils;
mod waiters;
mod watch;
mod watched;
mod work;
mod workers;

use crate::base::deadlines::{Deadlines, Timer};
use crate::base::limits::JOB_ID_END;
use crate::base::rng::Rng;
use crate::base::time::{Mono, Now};
use crate::model::command::Command;
use crate::model::event;
use crate::model::figures::{Deed, Totals};
use crate::model::id::{ClientId, JobId, Ticket};
use crate::model::job::{Payload, Status, Terms, Turn, Urgency};
use crate::model::reply::{JobView, Refusal, Sight};
use anywhere::Anywhere;
use change::Wish;
use constraints::Constraints;
pub use counts::Counts;
pub use durable::Change;
pub use effects::{Effects, Outcome};
use groups::Groups;
use holders::Holders;
use ids::Ids;
use jobs::{Job, Jobs};
use life::Event;
use names::Names;
use queues::Queues;
use records::NO_STATE;
use std::collections::BTreeMap;
use vigils::Vigils;
use waiters::Waiters;
pub use watch::Watched;
pub use watched::Search;
use workers::Workers;

/// The place of a job in the store: valid until the next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobSlot(u32);

/// What is due at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// The deadline of the status of the job in this slot.
    Job(u32),
    /// The end of the patience of this waiter.
    Wait(u32),
    /// This bucket of a constraint has a token again, or is as good as new.
    Bucket(u32),
    /// The end of this vigil.
    Vigil(u32),
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
    groups: Groups,
    deadlines: Deadlines<Due>,
    /// The places of declarations of queues, by their ids.
    declared: BTreeMap<u64, u32>,
    constraints: Constraints,
    workers: Workers,
    anywhere: Anywhere,
    vigils: Vigils,
    names: Names,
    /// Answers to vigils that have ended in this call.
    told: Vec<(Ticket, Outcome)>,
    rng: Rng,
    next_id: u64,
    /// Ids from this one on belong to places that are no jobs: nobody can name them, and they are
    /// given out downwards.
    first_hidden_id: u64,
    totals: Totals,
    /// Jobs that come back at the end of a client. Reused.
    returned: Vec<u32>,
}

impl Store {
    /// An empty store. `seed` keys the hash of names, so that nobody can choose names that collide,
    /// and varies the waits before retries.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            jobs: Jobs::default(),
            ids: Ids::default(),
            queues: Queues::new(seed),
            waiters: Waiters::default(),
            holders: Holders::default(),
            groups: Groups::new(seed),
            deadlines: Deadlines::default(),
            declared: BTreeMap::new(),
            constraints: Constraints::default(),
            workers: Workers::default(),
            anywhere: Anywhere::default(),
            vigils: Vigils::default(),
            names: Names::new(seed),
            told: Vec::new(),
            rng: Rng::new(seed),
            next_id: 1,
            first_hidden_id: JOB_ID_END,
            totals: Totals::default(),
            returned: Vec::new(),
        }
    }

    /// Carries out one command. The ticket is answered exactly once: in `effects` now, or, for a
    /// take that waits, by a later call.
    #[inline(never)]
    pub fn apply(&mut self, ticket: Ticket, command: &Command<'_>, now: Now, fx: &mut Effects) {
        match *command {
            Command::Put { queue, urgency, turn, payload, terms } => {
                self.put(ticket, queue, (urgency, turn, payload), terms, now, fx);
            }
            Command::Take { queues, wait } => self.take(ticket, queues, wait, now, fx),
            Command::Delete { id } => self.delete(ticket, id, now, fx),
            Command::Release { id, lease } => {
                self.change(ticket, &Wish::of(id, lease, Event::Release), now, fx);
            }
            _ => self.apply_rare(ticket, command, now, fx),
        }
        self.work_off_and_tell(now, fx);
    }

    /// Behind whatever was done: what constraints let happen, and answers to those whose vigils
    /// have ended on the way.
    #[inline(always)]
    fn work_off_and_tell(&mut self, now: Now, fx: &mut Effects) {
        if self.constraints.is_pending() {
            self.work_off(now, fx);
        }
        if !self.told.is_empty() {
            self.tell_vigils(fx);
        }
    }

    #[inline(never)]
    fn apply_rare(&mut self, ticket: Ticket, command: &Command<'_>, now: Now, fx: &mut Effects) {
        let wish = match *command {
            Command::Pop { queues, wait } => return self.pop(ticket, queues, wait, now, fx),
            Command::Join { take, queue } => return self.join(ticket, take, queue, now, fx),
            Command::Leave { take, queue } => return self.leave(ticket, take, queue, fx),
            Command::KickQueue { queue, limit } => {
                return self.kick_queue(ticket, queue, limit, now, fx);
            }
            Command::Look { id } => return self.look(ticket, id, now, fx),
            Command::Watch(watch) => return self.watch(ticket, watch, now, fx),
            Command::Work(work) => return self.work(ticket, work, now, fx),
            Command::Touch { id, lease } => Wish::of(id, lease, Event::Touch),
            Command::Finish { id, lease, result } => {
                Wish { note: Some(result), ..Wish::of(id, lease, Event::Finish) }
            }
            Command::Fail { id, lease, retry, error } => {
                Wish { note: Some(error), ..Wish::of(id, lease, Event::Fail { retry }) }
            }
            Command::Bury { id, lease } => Wish::of(id, lease, Event::Bury),
            Command::Kick { id } => Wish::of(id, None, Event::Kick),
            Command::Put { .. }
            | Command::Take { .. }
            | Command::Delete { .. }
            | Command::Release { .. } => unreachable!("these are frequent"),
        };
        self.change(ticket, &wish, now, fx);
    }

    /// Adds a job. O(log n), or O(queues of the waiter) if one takes it at once.
    #[inline(always)]
    fn put(
        &mut self,
        ticket: Ticket,
        queue: &[u8],
        (urgency, turn, payload): (Urgency<'_>, Turn, Payload<'_>),
        terms: Option<&Terms>,
        now: Now,
        fx: &mut Effects,
    ) {
        if self.is_full() {
            return fx.answer(ticket, Outcome::Refused(Refusal::Full));
        }
        let slot = self.bring_in(ticket, queue, (urgency, turn, payload), now, fx);
        match terms {
            None => {
                if !self.constraints.is_empty() {
                    self.bind(slot, now);
                }
                self.make_ready(slot, now, fx);
            }
            Some(terms) => self.begin(slot, terms, now, fx),
        }
    }

    /// Whether there is no id or no place left.
    #[inline(always)]
    fn is_full(&self) -> bool {
        self.next_id >= self.first_hidden_id || self.jobs.len() >= JOBS_MAX
    }

    /// Makes a job that is nowhere yet, and says so. O(1).
    #[inline(always)]
    fn bring_in(
        &mut self,
        ticket: Ticket,
        queue: &[u8],
        (urgency, turn, payload): (Urgency<'_>, Turn, Payload<'_>),
        now: Now,
        fx: &mut Effects,
    ) -> u32 {
        let id = self.next_id;
        self.next_id += 1;
        self.totals.note(Deed::Put);
        let queue = self.queues.find_or_add(queue);
        let slot = self.jobs.insert(Job::new(id, queue, urgency, turn, payload, now));
        self.ids.insert(id, slot);
        let record = &mut self.queues[queue];
        record.jobs += 1;
        if record.watch.is_some() {
            self.record_put(slot, payload.bytes, NO_STATE, now);
        }
        fx.answer(ticket, Outcome::Put(JobId(id)));
        fx.note(Change::Put(JobSlot(slot), JobId(id)));
        slot
    }

    /// The life of a job with terms begins. O(log n + log d).
    #[cold]
    fn begin(&mut self, slot: u32, terms: &Terms, now: Now, fx: &mut Effects) {
        let job = &mut self.jobs[slot];
        job.agree(terms, now);
        if job.is_mortal() {
            self.queues[job.queue].mortals += 1;
        }
        if !self.constraints.is_empty() {
            self.bind(slot, now);
        }
        self.delay(slot, terms.delay_ms, now, fx);
    }

    /// Makes an end of a job. O(log n).
    #[inline(always)]
    fn delete(&mut self, ticket: Ticket, id: JobId, now: Now, fx: &mut Effects) {
        let Some(slot) = self.ids.take(id.0, self.next_id) else {
            return fx.answer(ticket, Outcome::NoJob);
        };
        let job = &self.jobs[slot];
        let (queue, place) = (job.queue, job.place);
        match job.status {
            Status::Held if job.is_plain() => self.holders.unlink(slot, &mut self.jobs),
            Status::Ready if job.is_plain() => {
                self.queues[queue].ready.remove(place, &mut self.jobs);
            }
            _ => return self.delete_rare(ticket, slot, now, fx),
        }
        drop(self.jobs.remove(slot));
        self.totals.note(Deed::Deleted);
        fx.answer(ticket, Outcome::Done);
        fx.note(Change::Gone(JobSlot(slot), id));
        let record = &mut self.queues[queue];
        record.jobs -= 1;
        let awaited = !record.waiters.is_empty();
        if record.watch.is_some() {
            self.end_watch_if_gone(queue);
        }
        if awaited {
            self.serve(queue, now, fx);
        } else {
            self.queues.leave_if_idle(queue);
        }
    }

    #[inline(never)]
    pub(super) fn delete_rare(&mut self, ticket: Ticket, slot: u32, now: Now, fx: &mut Effects) {
        let job = &self.jobs[slot];
        let (queue, gone, id) = (job.queue, job.is_gone(now), JobId(job.id));
        self.withdraw(slot);
        self.leave_queue(slot);
        drop(self.jobs.remove(slot));
        self.totals.deeds[Deed::Deleted as usize] += u64::from(!gone);
        fx.answer(ticket, if gone { Outcome::NoJob } else { Outcome::Done });
        fx.note(Change::Gone(JobSlot(slot), id));
        self.first_left(queue, now, fx);
    }

    /// Calls off one take, or one wait for news of a job, if it still waits, and then answers it.
    /// O(queues it waits on + takes of its client that wait).
    pub fn cancel(&mut self, ticket: Ticket, fx: &mut Effects) {
        if let Some(waiter) = self.holders.waiter(ticket, &self.waiters) {
            self.end_wait(waiter);
            fx.answer(ticket, Outcome::Cancelled);
        } else if let Some(vigil) = self.vigils.find(ticket) {
            self.end_vigil(vigil);
            fx.answer(ticket, Outcome::Cancelled);
        }
    }

    /// The client is gone: its takes end unanswered, and the jobs that it holds go back together,
    /// before any waiter is served. O(h log n) for the `h` jobs that it held.
    pub fn forget(&mut self, client: ClientId, now: Now, fx: &mut Effects) {
        while let Some(waiter) = self.holders.first_waiter(client) {
            self.end_wait(waiter);
        }
        while let Some(vigil) = self.vigils.first_of(client) {
            self.end_vigil(vigil);
        }
        if let Some(place) = self.holders.worker_of(client) {
            self.quit(client, place);
        }
        let mut returned = std::mem::take(&mut self.returned);
        while let Some(slot) = self.holders.first_job(client) {
            self.leave_worker(slot, fx);
            self.withdraw(slot);
            self.totals.note(Deed::Abandoned);
            if self.jobs[slot].is_recorded() {
                self.happen(slot, event::Happening::Abandoned, now, fx);
            }
            returned.push(slot);
        }
        self.holders.end(client);
        self.bring_back(returned, now, fx);
        self.work_off_and_tell(now, fx);
    }

    /// A new pass begins: what is bounded for all commands of one together counts anew. O(1).
    #[inline]
    pub fn begin_pass(&mut self) {
        self.constraints.begin_pass();
    }

    /// Handles up to `limit` things that are due, the earliest first, and what a pass does for
    /// constraints. O(log n + log d) each.
    pub fn expire(&mut self, limit: usize, now: Now, fx: &mut Effects) {
        self.constraints.begin_pass();
        for _ in 0..limit {
            let Some((at, due)) = self.deadlines.pop_due(now.mono) else { break };
            match due {
                Due::Job(slot) => self.job_due(slot, now, fx),
                Due::Wait(waiter) => {
                    self.waiters[waiter].timer = Timer::NONE;
                    let (_, ticket) = self.end_wait(waiter);
                    fx.answer(ticket, Outcome::NoJob);
                }
                Due::Bucket(bucket) => self.bucket_due(bucket),
                Due::Vigil(vigil) => {
                    let ticket = self.vigils.end(vigil).ticket;
                    fx.answer(ticket, Outcome::NotYet);
                }
            }
            // What it has made room for comes before what is due later; tokens that come in one
            // moment come together.
            let more = matches!(due, Due::Bucket(_)) && self.deadlines.next() == Some(at);
            if self.constraints.is_pending() && self.constraints.has_steps() && !more {
                self.work_off(now, fx);
            }
        }
        self.rematch(now);
        self.work_off_and_tell(now, fx);
    }

    /// When something is due next. O(1), exact.
    #[must_use]
    #[inline]
    pub fn next_deadline(&self) -> Option<Mono> {
        if self.constraints.is_pending() {
            return Some(Mono(0));
        }
        self.deadlines.next()
    }

    /// The job in `slot`, as clients see it. O(1).
    ///
    /// # Panics
    /// If the slot is from before the last command and its job is gone.
    #[must_use]
    #[inline]
    pub fn view(&self, slot: JobSlot) -> JobView<'_> {
        self.jobs[slot.0].view(&self.queues)
    }

    /// Everything about the job in `slot`. O(1).
    ///
    /// # Panics
    /// As [`Store::view`].
    #[must_use]
    pub fn sight(&self, slot: JobSlot) -> Sight<'_> {
        let job = &self.jobs[slot.0];
        Sight {
            job: self.view(slot),
            status: job.status,
            due: self.due(job),
            lease_ms: job.terms().lease_ms,
            retries: job.retries(),
            result: job.result(),
        }
    }
}

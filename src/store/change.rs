//! How jobs change: back to their queue, to their next try, among the kept or the buried, away.

use super::census::deed;
use super::jobs::{Job, NONE};
use super::life::{Claim, Event, Step, step};
use super::retry::backoff_ms;
use super::{Change, Due, Effects, JobSlot, Outcome, Store};
use crate::base::deadlines::Timer;
use crate::base::time::{Mono, Now};
use crate::model::figures::Deed;
use crate::model::id::{JobId, Ticket};
use crate::model::job::{Lease, Payload, Status};
use std::time::Duration;

/// What somebody wants of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish<'a> {
    pub(super) id: JobId,
    /// Under which lease the client believes to hold it.
    pub(super) lease: Option<Lease>,
    pub(super) event: Event,
    /// The result, or what went wrong.
    pub(super) note: Option<Payload<'a>>,
    /// What went wrong, for people.
    pub(super) message: Option<&'a str>,
}

impl Wish<'_> {
    #[inline]
    pub(super) fn of(id: JobId, lease: Option<Lease>, event: Event) -> Self {
        Self { id, lease, event, note: None, message: None }
    }
}

impl Store {
    /// [`Store::find`] for where it is not done for each request.
    #[inline(never)]
    pub(super) fn find_anywhere(&mut self, id: JobId, now: Now, fx: &mut Effects) -> Option<u32> {
        self.find(id, now, fx)
    }

    /// The job of this id, unless its time to live is over while it waits: then it goes. O(1).
    #[inline(always)]
    fn find(&mut self, id: JobId, now: Now, fx: &mut Effects) -> Option<u32> {
        let slot = self.ids.find(id.0)?;
        let job = &self.jobs[slot];
        if job.is_plain() || !job.is_gone(now) {
            return Some(slot);
        }
        let queue = job.queue;
        self.withdraw(slot);
        drop(self.remove(slot, fx));
        self.first_left(queue, now, fx);
        None
    }

    /// Does what the holder of a job asks for, or whoever may kick it. O(log n), and O(log d) for a
    /// deadline among d.
    #[inline(always)]
    pub(super) fn change(&mut self, ticket: Ticket, wish: &Wish<'_>, now: Now, fx: &mut Effects) {
        let Some(slot) = self.find(wish.id, now, fx) else {
            return fx.answer(ticket, Outcome::NoJob);
        };
        let claim = self.claim(ticket, slot, wish.lease);
        self.change_by(ticket, slot, wish, claim, now, fx);
    }

    /// [`Store::change`] for where it is not done for each request.
    #[inline(never)]
    pub(super) fn change_slowly(
        &mut self,
        ticket: Ticket,
        wish: &Wish<'_>,
        now: Now,
        fx: &mut Effects,
    ) {
        self.change(ticket, wish, now, fx);
    }

    #[inline(always)]
    fn change_by(
        &mut self,
        ticket: Ticket,
        slot: u32,
        wish: &Wish<'_>,
        claim: Claim,
        now: Now,
        fx: &mut Effects,
    ) {
        let job = &mut self.jobs[slot];
        let recorded = !job.is_plain() && job.is_recorded();
        match step(job, wish.event, claim) {
            Err(refusal) => fx.answer(ticket, Outcome::Refused(refusal)),
            Ok(step) => {
                self.totals.note(deed(wish.event));
                if let Some(note) = wish.note
                    && step != Step::End
                {
                    job.set_result(note);
                    job.set_message(wish.message);
                }
                if wish.event == Event::Kick {
                    job.set_retries(0);
                    fx.note(Change::State(JobSlot(slot), wish.id));
                }
                fx.answer(ticket, Outcome::Done);
                if recorded {
                    self.tell_event(slot, wish.event, now, fx);
                }
                self.go(slot, step, now, fx);
            }
        }
    }

    /// Does what is asked for in the name of whoever holds the job in `slot`. O(log n).
    #[inline(never)]
    pub(super) fn change_for_holder(
        &mut self,
        ticket: Ticket,
        slot: u32,
        wish: &Wish<'_>,
        now: Now,
        fx: &mut Effects,
    ) {
        self.change_by(ticket, slot, wish, Claim::Holder, now, fx);
    }

    /// Who asks, seen from a job that somebody holds. O(1).
    #[inline(always)]
    pub(super) fn claim(&self, ticket: Ticket, slot: u32, lease: Option<Lease>) -> Claim {
        let job = &self.jobs[slot];
        if !self.holders.holds(ticket.client, job) {
            Claim::Stranger
        } else if lease.is_some_and(|lease| lease != job.lease()) {
            Claim::FormerHolder
        } else {
            Claim::Holder
        }
    }

    /// The deadline of a job has come.
    pub(super) fn job_due(&mut self, slot: u32, now: Now, fx: &mut Effects) {
        let job = &mut self.jobs[slot];
        if let Some(extra) = job.extra_mut() {
            extra.timer = Timer::NONE;
        }
        let (queue, recorded) = (job.queue, job.is_recorded());
        self.totals.note(Deed::Due);
        match step(job, Event::Due, Claim::Clock) {
            Ok(step) => {
                if self.jobs[slot].status == Status::Held && self.jobs[slot].is_followed() {
                    self.jobs[slot].set_timed_out();
                }
                if recorded {
                    self.tell_event(slot, Event::Due, now, fx);
                }
                self.go_slowly(slot, step, now, fx);
            }
            Err(_) => unreachable!("whatever has a deadline can come to it"),
        }
        self.first_left(queue, now, fx);
    }

    #[inline(never)]
    pub(super) fn go_slowly(&mut self, slot: u32, step: Step, now: Now, fx: &mut Effects) {
        self.go(slot, step, now, fx);
    }

    /// Takes a job to where its step leads.
    #[inline(always)]
    fn go(&mut self, slot: u32, step: Step, now: Now, fx: &mut Effects) {
        if step == Step::Queue {
            if !self.jobs[slot].is_plain() {
                self.leave_worker(slot, fx);
            }
            self.detach(slot);
            self.make_ready(slot, now, fx);
        } else {
            self.go_elsewhere(slot, step, now, fx);
        }
    }

    #[inline(never)]
    fn go_elsewhere(&mut self, slot: u32, step: Step, now: Now, fx: &mut Effects) {
        if step == Step::Renew {
            self.disarm(slot);
            if self.jobs[slot].worker().is_some() {
                self.note_state(slot, fx);
            }
            return self.begin_lease(slot, now);
        }
        self.withdraw(slot);
        if step != Step::End {
            self.note_state(slot, fx);
            if self.jobs[slot].is_recorded() {
                self.tell_step(slot, step, now, fx);
            }
        }
        match step {
            Step::Renew | Step::Queue => unreachable!("these were done before"),
            Step::Retry => self.retry(slot, now, fx),
            Step::Keep => {
                self.jobs[slot].status = Status::Kept;
                let keep_ms = self.jobs[slot].terms().keep_ms;
                self.arm(slot, now.mono.after(Duration::from_millis(keep_ms)));
            }
            Step::Bury => {
                let job = &mut self.jobs[slot];
                job.status = Status::Buried;
                let (queue, bury_ms) = (job.queue, job.terms().bury_ms);
                self.queues[queue].buried.link(slot, &mut self.jobs);
                if bury_ms > 0 {
                    self.arm(slot, now.mono.after(Duration::from_millis(bury_ms)));
                }
            }
            Step::End => drop(self.remove(slot, fx)),
        }
        if matches!(step, Step::Keep | Step::Bury) && !self.vigils.is_empty() {
            self.tell_end(slot, fx);
        }
    }

    /// A job of a worker goes back to its queue, which has to be written down. O(1).
    #[inline(never)]
    pub(super) fn leave_worker(&self, slot: u32, fx: &mut Effects) {
        if self.jobs[slot].worker().is_some() {
            self.note_state(slot, fx);
        }
    }

    pub(super) fn note_state(&self, slot: u32, fx: &mut Effects) {
        fx.note(Change::State(JobSlot(slot), JobId(self.jobs[slot].id)));
    }

    fn retry(&mut self, slot: u32, now: Now, fx: &mut Effects) {
        let job = &mut self.jobs[slot];
        let retry = job.retries() + 1;
        job.set_retries(retry);
        let policy = job.retry().expect("a job without a policy is not tried again");
        let wait = backoff_ms(&policy, retry, &mut self.rng);
        self.delay(slot, wait, now, fx);
    }

    /// Lets a job that is nowhere wait for so long before it is ready. O(log d).
    pub(super) fn delay(&mut self, slot: u32, wait_ms: u64, now: Now, fx: &mut Effects) {
        if wait_ms == 0 {
            return self.make_ready_slowly(slot, now, fx);
        }
        let job = &mut self.jobs[slot];
        job.status = Status::Delayed;
        let expires = job.enrich().expires;
        self.arm(slot, now.mono.after(Duration::from_millis(wait_ms)).min(expires));
    }

    /// A job that is nowhere becomes ready: the first who waits gets it, or else the heap.
    /// O(log n).
    #[inline(always)]
    pub(super) fn make_ready(&mut self, slot: u32, now: Now, fx: &mut Effects) {
        let job = &self.jobs[slot];
        let (queue, plain) = (&self.queues[job.queue], job.is_plain());
        if plain && queue.waiters.is_empty() {
            return self.enqueue(slot, now);
        }
        if plain
            && queue.ready.is_empty()
            && let Some(waiter) = self.waiters.first_take(queue.waiters)
        {
            let (_, ticket) = self.end_wait(waiter);
            self.jobs[slot].ready_since(now);
            return self.hand_out(slot, ticket, now, fx);
        }
        self.make_ready_slowly(slot, now, fx);
    }

    /// The same for jobs that are not plain, and where pops wait.
    #[inline(never)]
    pub(super) fn make_ready_slowly(&mut self, slot: u32, now: Now, fx: &mut Effects) {
        if self.jobs[slot].is_over(now) {
            return drop(self.remove(slot, fx));
        }
        self.enqueue(slot, now);
        self.serve_with(slot, now, fx);
    }

    /// Puts a job that is nowhere into its queue. O(log n).
    #[inline(always)]
    pub(super) fn enqueue(&mut self, slot: u32, now: Now) {
        let job = &mut self.jobs[slot];
        job.ready_since(now);
        let queue = job.queue;
        if job.is_plain() {
            job.status = Status::Ready;
            let entry = job.entry(slot);
            self.queues[queue].ready.push(entry, &mut self.jobs);
        } else {
            self.enqueue_rare(slot, now);
        }
    }

    #[inline(never)]
    pub(super) fn enqueue_rare(&mut self, slot: u32, now: Now) {
        let job = &mut self.jobs[slot];
        let expires = job.is_mortal().then(|| job.enrich().expires);
        self.stand(slot, now);
        if let Some(expires) = expires {
            self.arm(slot, expires);
        }
    }

    /// Puts a job that is nowhere, and not plain, where it is found, or held back. O(log n).
    pub(super) fn stand(&mut self, slot: u32, now: Now) {
        let job = &mut self.jobs[slot];
        let packet = job.is_packet();
        if job.is_never_selected() {
            job.status = Status::Aside;
        } else if job.strand() != NONE {
            self.come(slot, now);
        } else {
            job.status = Status::Ready;
            self.stand_ready(slot);
        }
        if packet {
            self.groups.join(slot, &mut self.jobs);
        }
    }

    /// [`Store::detach`] for where it is not done for each request.
    #[inline(never)]
    pub(super) fn withdraw(&mut self, slot: u32) {
        self.detach(slot);
    }

    /// Takes a job out of whatever its status has it in; then it is nowhere. O(log n).
    #[inline(always)]
    pub(super) fn detach(&mut self, slot: u32) {
        let job = &self.jobs[slot];
        let (queue, place, plain) = (job.queue, job.place, job.is_plain());
        match job.status {
            Status::Ready if plain => {
                self.queues[queue].ready.remove(place, &mut self.jobs);
            }
            Status::Held => self.holders.unlink(slot, &mut self.jobs),
            Status::Buried => self.queues[queue].buried.unlink(slot, &mut self.jobs),
            Status::Ready | Status::Parked | Status::Aside | Status::Delayed | Status::Kept => {}
        }
        if !plain {
            self.detach_rare(slot);
        }
    }

    #[inline(never)]
    fn detach_rare(&mut self, slot: u32) {
        let job = &self.jobs[slot];
        let bound = job.strand() != NONE;
        if job.is_packet() && matches!(job.status, Status::Ready | Status::Aside) {
            self.groups.leave(slot, &mut self.jobs);
        }
        match self.jobs[slot].status {
            Status::Ready => self.leave_heaps(slot),
            Status::Held => self.leave_holder(slot),
            _ => {}
        }
        if bound {
            self.depart(slot);
        }
        self.disarm(slot);
    }

    /// Removes a job that is nowhere. O(1).
    #[inline(never)]
    pub(super) fn remove(&mut self, slot: u32, fx: &mut Effects) -> Job {
        let job = self.discard(slot);
        fx.note(Change::Gone(JobSlot(slot), JobId(job.id)));
        job
    }

    /// The same without a word to anybody.
    pub(super) fn discard(&mut self, slot: u32) -> Job {
        self.leave_queue(slot);
        let job = self.jobs.remove(slot);
        self.ids.take(job.id, self.next_id);
        job
    }

    /// A job that is about to be removed no longer counts in its queue. O(1).
    #[inline(always)]
    pub(super) fn leave_queue(&mut self, slot: u32) {
        if !self.vigils.is_empty() {
            self.end_vigils(slot);
        }
        if !self.names.is_empty() {
            self.lose_name(slot);
        }
        let job = &self.jobs[slot];
        if !job.is_plain() && job.strand() != NONE {
            self.unseat(slot);
        }
        let job = &self.jobs[slot];
        let (number, mortal) = (job.queue, !job.is_plain() && job.is_mortal());
        let queue = &mut self.queues[number];
        queue.jobs -= 1;
        queue.mortals -= u32::from(mortal);
        if queue.watch.is_some() {
            self.leave_stock(slot);
        }
        self.queues.leave_if_idle(number);
    }

    /// Sets the deadline of a job's status. O(log d), O(1) on average.
    pub(super) fn arm(&mut self, slot: u32, at: Mono) {
        let timer = self.deadlines.arm(at, Due::Job(slot));
        let extra = self.jobs[slot].enrich();
        assert!(extra.timer.is_none(), "a job has two deadlines");
        extra.timer = timer;
    }

    /// Calls the deadline of a job's status off, if it has one. O(log d), O(1) on average.
    pub(super) fn disarm(&mut self, slot: u32) {
        if let Some(extra) = self.jobs[slot].extra_mut()
            && !extra.timer.is_none()
        {
            self.deadlines.cancel(std::mem::take(&mut extra.timer));
        }
    }

    /// Shows a job. O(1).
    pub(super) fn look(&mut self, ticket: Ticket, id: JobId, now: Now, fx: &mut Effects) {
        let outcome = match self.find(id, now, fx) {
            Some(slot) => Outcome::Seen(JobSlot(slot)),
            None => Outcome::NoJob,
        };
        fx.answer(ticket, outcome);
    }
}

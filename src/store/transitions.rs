//! How jobs change: back to their queue, to their next try, among the kept or the buried, away.

use super::jobs::{Job, NONE};
use super::retry::backoff_ms;
use super::state_machine::{Caller, JobEvent, Transition, transition};
use super::stats::count;
use super::{DirtyRecord, Due, Effects, JobLocation, Outcome, Store};
use crate::base::time::{Mono, Now};
use crate::base::timer_queue::TimerId;
use crate::model::id::{JobId, Ticket};
use crate::model::job::{LeaseEpoch, Payload, Status};
use crate::model::stats::JobCounter;
use std::time::Duration;

/// What somebody wants of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransitionRequest<'a> {
    pub(super) id: JobId,
    /// Under which lease the client believes to hold it.
    pub(super) lease: Option<LeaseEpoch>,
    pub(super) event: JobEvent,
    /// The result, or what went wrong.
    pub(super) note: Option<Payload<'a>>,
    /// What went wrong, for people.
    pub(super) message: Option<&'a str>,
}

impl TransitionRequest<'_> {
    #[inline]
    pub(super) fn of(id: JobId, lease: Option<LeaseEpoch>, event: JobEvent) -> Self {
        Self { id, lease, event, note: None, message: None }
    }
}

impl Store {
    /// [`Store::find`] for where it is not done for each request.
    #[inline(never)]
    pub(super) fn find_cold(&mut self, id: JobId, now: Now, fx: &mut Effects) -> Option<u32> {
        self.find(id, now, fx)
    }

    /// The job of this id, unless its time to live is over while it waits: then it goes. O(1).
    #[inline(always)]
    fn find(&mut self, id: JobId, now: Now, fx: &mut Effects) -> Option<u32> {
        let slot = self.ids.find(id.0)?;
        let job = &self.jobs[slot];
        if job.is_simple() || !job.is_expired_waiting(now) {
            return Some(slot);
        }
        let queue = job.queue;
        self.unlink_cold(slot);
        drop(self.remove(slot, fx));
        self.rematch_queue(queue, now, fx);
        None
    }

    /// Does what the holder of a job asks for, or whoever may kick it. O(log n), and O(log d) for a
    /// deadline among d.
    #[inline(always)]
    pub(super) fn change(
        &mut self,
        ticket: Ticket,
        request: &TransitionRequest<'_>,
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(slot) = self.find(request.id, now, fx) else {
            return fx.answer(ticket, Outcome::NoJob);
        };
        let caller = self.caller(ticket, slot, request.lease);
        self.change_by(ticket, slot, request, caller, now, fx);
    }

    /// [`Store::change`] for where it is not done for each request.
    #[inline(never)]
    pub(super) fn change_cold(
        &mut self,
        ticket: Ticket,
        request: &TransitionRequest<'_>,
        now: Now,
        fx: &mut Effects,
    ) {
        self.change(ticket, request, now, fx);
    }

    #[inline(always)]
    fn change_by(
        &mut self,
        ticket: Ticket,
        slot: u32,
        request: &TransitionRequest<'_>,
        caller: Caller,
        now: Now,
        fx: &mut Effects,
    ) {
        let job = &mut self.jobs[slot];
        let recorded = !job.is_simple() && job.is_recorded();
        match transition(job, request.event, caller) {
            Err(rejection) => fx.answer(ticket, Outcome::Refused(rejection)),
            Ok(step) => {
                self.totals.count(count(request.event));
                if let Some(note) = request.note
                    && step != Transition::End
                {
                    job.set_result(note);
                    job.set_result_message(request.message);
                }
                if request.event == JobEvent::Kick {
                    job.set_retries(0);
                    fx.mark_dirty(DirtyRecord::State(JobLocation(slot), request.id));
                }
                fx.answer(ticket, Outcome::Done);
                if recorded {
                    self.emit_event(slot, request.event, now, fx);
                }
                self.apply_transition(slot, step, now, fx);
            }
        }
    }

    /// Does what is asked for in the name of whoever holds the job in `slot`. O(log n).
    #[inline(never)]
    pub(super) fn change_for_holder(
        &mut self,
        ticket: Ticket,
        slot: u32,
        request: &TransitionRequest<'_>,
        now: Now,
        fx: &mut Effects,
    ) {
        self.change_by(ticket, slot, request, Caller::ClientEntry, now, fx);
    }

    /// Who asks, seen from a job that somebody holds. O(1).
    #[inline(always)]
    pub(super) fn caller(&self, ticket: Ticket, slot: u32, lease: Option<LeaseEpoch>) -> Caller {
        let job = &self.jobs[slot];
        if !self.reservations.holds(ticket.client, job) {
            Caller::Stranger
        } else if lease.is_some_and(|lease| lease != job.lease()) {
            Caller::FormerHolder
        } else {
            Caller::ClientEntry
        }
    }

    /// The deadline of a job has come.
    pub(super) fn job_due(&mut self, slot: u32, now: Now, fx: &mut Effects) {
        let job = &mut self.jobs[slot];
        if let Some(ext) = job.ext_mut() {
            ext.timer = TimerId::NONE;
        }
        let (queue, recorded) = (job.queue, job.is_recorded());
        self.totals.count(JobCounter::TimerFired);
        match transition(job, JobEvent::Due, Caller::Clock) {
            Ok(step) => {
                if self.jobs[slot].status == Status::Reserved && self.jobs[slot].is_tracked() {
                    self.jobs[slot].mark_timed_out();
                }
                if recorded {
                    self.emit_event(slot, JobEvent::Due, now, fx);
                }
                self.apply_transition_cold(slot, step, now, fx);
            }
            Err(_) => unreachable!("whatever has a deadline can come to it"),
        }
        self.rematch_queue(queue, now, fx);
    }

    #[inline(never)]
    pub(super) fn apply_transition_cold(
        &mut self,
        slot: u32,
        step: Transition,
        now: Now,
        fx: &mut Effects,
    ) {
        self.apply_transition(slot, step, now, fx);
    }

    /// Takes a job to where its step leads.
    #[inline(always)]
    fn apply_transition(&mut self, slot: u32, step: Transition, now: Now, fx: &mut Effects) {
        if step == Transition::Queue {
            if !self.jobs[slot].is_simple() {
                self.mark_dirty_if_worker_job(slot, fx);
            }
            self.unlink(slot);
            self.make_ready(slot, now, fx);
        } else {
            self.apply_rare_transition(slot, step, now, fx);
        }
    }

    #[inline(never)]
    fn apply_rare_transition(&mut self, slot: u32, step: Transition, now: Now, fx: &mut Effects) {
        if step == Transition::Renew {
            self.disarm(slot);
            if self.jobs[slot].worker().is_some() {
                self.mark_state_dirty(slot, fx);
            }
            return self.start_lease(slot, now);
        }
        self.unlink_cold(slot);
        if step != Transition::End {
            self.mark_state_dirty(slot, fx);
            if self.jobs[slot].is_recorded() {
                self.record_transition(slot, step, now, fx);
            }
        }
        match step {
            Transition::Renew | Transition::Queue => unreachable!("these were done before"),
            Transition::Retry => self.retry(slot, now, fx),
            Transition::Keep => {
                self.jobs[slot].status = Status::Completed;
                let keep_ms = self.jobs[slot].options().result_retention_ms;
                self.arm(slot, now.mono.after(Duration::from_millis(keep_ms)));
            }
            Transition::Bury => {
                let job = &mut self.jobs[slot];
                job.status = Status::Buried;
                let (queue, bury_ms) = (job.queue, job.options().dead_retention_ms);
                self.queues[queue].buried.link(slot, &mut self.jobs);
                if bury_ms > 0 {
                    self.arm(slot, now.mono.after(Duration::from_millis(bury_ms)));
                }
            }
            Transition::End => drop(self.remove(slot, fx)),
        }
        if matches!(step, Transition::Keep | Transition::Bury) && !self.watchers.is_empty() {
            self.notify_end(slot, fx);
        }
    }

    /// A job of a worker goes back to its queue, which has to be written down. O(1).
    #[inline(never)]
    pub(super) fn mark_dirty_if_worker_job(&self, slot: u32, fx: &mut Effects) {
        if self.jobs[slot].worker().is_some() {
            self.mark_state_dirty(slot, fx);
        }
    }

    pub(super) fn mark_state_dirty(&self, slot: u32, fx: &mut Effects) {
        fx.mark_dirty(DirtyRecord::State(JobLocation(slot), JobId(self.jobs[slot].id)));
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
            return self.make_ready_cold(slot, now, fx);
        }
        let job = &mut self.jobs[slot];
        job.status = Status::Delayed;
        let expires = job.ext_mut_or_insert().expires;
        self.arm(slot, now.mono.after(Duration::from_millis(wait_ms)).min(expires));
    }

    /// A job that is nowhere becomes ready: the first who waits gets it, or else the heap.
    /// O(log n).
    #[inline(always)]
    pub(super) fn make_ready(&mut self, slot: u32, now: Now, fx: &mut Effects) {
        let job = &self.jobs[slot];
        let (queue, plain) = (&self.queues[job.queue], job.is_simple());
        if plain && queue.waiters.is_empty() {
            return self.enqueue(slot, now);
        }
        if plain
            && queue.ready.is_empty()
            && let Some(waiter) = self.waiters.first_reserve(queue.waiters)
        {
            let (_, ticket) = self.end_wait(waiter);
            self.jobs[slot].ready_since(now);
            return self.mark_reserved(slot, ticket, now, fx);
        }
        self.make_ready_cold(slot, now, fx);
    }

    /// The same for jobs that are not plain, and where pops wait.
    #[inline(never)]
    pub(super) fn make_ready_cold(&mut self, slot: u32, now: Now, fx: &mut Effects) {
        if self.jobs[slot].is_expired(now) {
            return drop(self.remove(slot, fx));
        }
        self.enqueue(slot, now);
        self.match_job(slot, now, fx);
    }

    /// Puts a job that is nowhere into its queue. O(log n).
    #[inline(always)]
    pub(super) fn enqueue(&mut self, slot: u32, now: Now) {
        let job = &mut self.jobs[slot];
        job.ready_since(now);
        let queue = job.queue;
        if job.is_simple() {
            job.status = Status::Ready;
            let entry = job.entry(slot);
            self.queues[queue].ready.push(entry, &mut self.jobs);
        } else {
            self.enqueue_cold(slot, now);
        }
    }

    #[inline(never)]
    pub(super) fn enqueue_cold(&mut self, slot: u32, now: Now) {
        let job = &mut self.jobs[slot];
        let expires = job.has_ttl().then(|| job.ext_mut_or_insert().expires);
        self.place_waiting(slot, now);
        if let Some(expires) = expires {
            self.arm(slot, expires);
        }
    }

    /// Puts a job that is nowhere, and not plain, where it is found, or held back. O(log n).
    pub(super) fn place_waiting(&mut self, slot: u32, now: Now) {
        let job = &mut self.jobs[slot];
        let packet = job.is_packet();
        if job.is_group_only() {
            job.status = Status::GroupOnly;
        } else if job.strand() != NONE {
            self.on_ready(slot, now);
        } else {
            job.status = Status::Ready;
            self.push_ready(slot);
        }
        if packet {
            self.key_groups.join(slot, &mut self.jobs);
        }
    }

    /// [`Store::detach`] for where it is not done for each request.
    #[inline(never)]
    pub(super) fn unlink_cold(&mut self, slot: u32) {
        self.unlink(slot);
    }

    /// Takes a job out of whatever its status has it in; then it is nowhere. O(log n).
    #[inline(always)]
    pub(super) fn unlink(&mut self, slot: u32) {
        let job = &self.jobs[slot];
        let (queue, place, plain) = (job.queue, job.place, job.is_simple());
        match job.status {
            Status::Ready if plain => {
                self.queues[queue].ready.remove(place, &mut self.jobs);
            }
            Status::Reserved => self.reservations.unlink(slot, &mut self.jobs),
            Status::Buried => self.queues[queue].buried.unlink(slot, &mut self.jobs),
            Status::Ready
            | Status::Blocked
            | Status::GroupOnly
            | Status::Delayed
            | Status::Completed => {}
        }
        if !plain {
            self.unlink_ext(slot);
        }
    }

    #[inline(never)]
    fn unlink_ext(&mut self, slot: u32) {
        let job = &self.jobs[slot];
        let bound = job.strand() != NONE;
        if job.is_packet() && matches!(job.status, Status::Ready | Status::GroupOnly) {
            self.key_groups.leave(slot, &mut self.jobs);
        }
        match self.jobs[slot].status {
            Status::Ready => self.remove_ready(slot),
            Status::Reserved => self.unlink_reservation(slot),
            _ => {}
        }
        if bound {
            self.on_removed(slot);
        }
        self.disarm(slot);
    }

    /// Removes a job that is nowhere. O(1).
    #[inline(never)]
    pub(super) fn remove(&mut self, slot: u32, fx: &mut Effects) -> Job {
        let job = self.remove_unjournaled(slot);
        fx.mark_dirty(DirtyRecord::Gone(JobLocation(slot), JobId(job.id)));
        job
    }

    /// The same without a word to anybody.
    pub(super) fn remove_unjournaled(&mut self, slot: u32) -> Job {
        self.detach_from_queue(slot);
        let job = self.jobs.remove(slot);
        self.ids.remove(job.id, self.next_id);
        job
    }

    /// A job that is about to be removed no longer counts in its queue. O(1).
    #[inline(always)]
    pub(super) fn detach_from_queue(&mut self, slot: u32) {
        if !self.watchers.is_empty() {
            self.remove_watchers(slot);
        }
        if !self.external_ids.is_empty() {
            self.release_id(slot);
        }
        let job = &self.jobs[slot];
        if !job.is_simple() && job.strand() != NONE {
            self.drop_class(slot);
        }
        let job = &self.jobs[slot];
        let (number, has_ttl) = (job.queue, !job.is_simple() && job.has_ttl());
        let queue = &mut self.queues[number];
        queue.jobs -= 1;
        queue.ttl_jobs -= u32::from(has_ttl);
        if queue.index.is_some() {
            self.remove_from_index(slot);
        }
        self.queues.leave_if_idle(number);
    }

    /// Sets the deadline of a job's status. O(log d), O(1) on average.
    pub(super) fn arm(&mut self, slot: u32, at: Mono) {
        let timer = self.deadlines.arm(at, Due::Job(slot));
        let ext = self.jobs[slot].ext_mut_or_insert();
        assert!(ext.timer.is_none(), "a job has two deadlines");
        ext.timer = timer;
    }

    /// Calls the deadline of a job's status off, if it has one. O(log d), O(1) on average.
    pub(super) fn disarm(&mut self, slot: u32) {
        if let Some(ext) = self.jobs[slot].ext_mut()
            && !ext.timer.is_none()
        {
            self.deadlines.cancel(std::mem::take(&mut ext.timer));
        }
    }

    /// Shows a job. O(1).
    pub(super) fn peek_job(&mut self, ticket: Ticket, id: JobId, now: Now, fx: &mut Effects) {
        let outcome = match self.find(id, now, fx) {
            Some(slot) => Outcome::Seen(JobLocation(slot)),
            None => Outcome::NoJob,
        };
        fx.answer(ticket, outcome);
    }
}

//! Changes of a job: release, touch, finish, fail, bury, kick, removal.

use super::job::Job;
use super::rare_counts::RareStatus;
use super::state_machine::{Caller, JobEvent, Transition, transition};
use super::stats::count;
use super::{DirtyRecord, Effects, JobIdx, Outcome, Store};
use crate::base::time::Now;
use crate::model::flow::FlowKind;
use crate::model::id::{JobId, Ticket};
use crate::model::job::{LeaseEpoch, Payload, Status};
use crate::model::reply::Rejection;
use std::time::Duration;

/// A client's request to change a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransitionRequest<'a> {
    pub(super) id: JobId,
    /// The lease epoch that the client believes to be the present one.
    pub(super) lease: Option<LeaseEpoch>,
    pub(super) event: JobEvent,
    /// The result or the error.
    pub(super) note: Option<Payload<'a>>,
    /// The error message, for people.
    pub(super) message: Option<&'a str>,
}

impl TransitionRequest<'_> {
    #[inline]
    pub(super) fn of(id: JobId, lease: Option<LeaseEpoch>, event: JobEvent) -> Self {
        Self { id, lease, event, note: None, message: None }
    }
}

impl Store {
    /// [`Store::find`], not inlined.
    #[inline(never)]
    pub(super) fn find_cold(&mut self, id: JobId, now: Now, fx: &mut Effects) -> Option<JobIdx> {
        self.find(id, now, fx)
    }

    /// The job with this id. One that is expired and waits is removed instead. O(1).
    #[inline(always)]
    fn find(&mut self, id: JobId, now: Now, fx: &mut Effects) -> Option<JobIdx> {
        let slot = self.ids.find(id.0)?;
        let job = &self.jobs[slot];
        debug_assert_eq!(job.id(), id.0, "a job is found by its own id");
        if job.is_simple() || !job.is_expired_waiting(now) {
            return Some(slot);
        }
        let queue = job.queue;
        self.unlink_cold(slot);
        drop(self.remove(slot, fx));
        self.rematch_queue(queue, now, fx);
        None
    }

    /// Executes a request of the client that reserved a job, or a kick by any client. O(log n), and
    /// O(log d) for a job with a deadline.
    #[inline(always)]
    pub(super) fn request_transition(
        &mut self,
        ticket: Ticket,
        request: &TransitionRequest<'_>,
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(slot) = self.find(request.id, now, fx) else {
            return fx.answer(ticket, Outcome::NoJob);
        };
        let caller = self.reservations.caller(ticket.client, &self.jobs[slot], request.lease);
        self.request_transition_by(ticket, slot, request, caller, now, fx);
    }

    /// [`Store::request_transition_by`], not inlined.
    #[inline(never)]
    pub(super) fn request_transition_by_cold(
        &mut self,
        ticket: Ticket,
        slot: JobIdx,
        request: &TransitionRequest<'_>,
        caller: Caller,
        now: Now,
        fx: &mut Effects,
    ) {
        self.request_transition_by(ticket, slot, request, caller, now, fx);
    }

    /// Executes a request of this caller to change the job in `slot`, which has not expired. O(log
    /// n).
    #[inline(always)]
    fn request_transition_by(
        &mut self,
        ticket: Ticket,
        slot: JobIdx,
        request: &TransitionRequest<'_>,
        caller: Caller,
        now: Now,
        fx: &mut Effects,
    ) {
        let job = &self.jobs[slot];
        debug_assert_eq!(job.id(), request.id.0, "a request for another job");
        debug_assert!(!job.is_expired_waiting(now), "clients do not see expired jobs");
        debug_assert_ne!(request.event, JobEvent::TimerFired, "no client causes a deadline");
        let mut recorded = false;
        if !job.is_simple() {
            if self.is_abandoned(job) && request.event != JobEvent::Kick {
                return Self::reject_unreserved(ticket, request.id, fx);
            }
            recorded = job.has_row();
        }
        match transition(job, request.event, caller) {
            Err(rejection) => fx.answer(ticket, Outcome::Rejected(rejection)),
            Ok(step) => {
                self.totals.count(count(request.event));
                debug_assert!(
                    matches!(
                        (self.jobs[slot].status(), request.event),
                        (Status::Buried, JobEvent::Kick) | (Status::Reserved, _)
                    ),
                    "a client changes a reserved job, or kicks a buried one"
                );
                if let Some(note) = request.note
                    && step != Transition::Remove
                {
                    self.jobs.change(slot, |job| {
                        job.set_result(note);
                        job.set_result_message(request.message);
                    });
                }
                if request.event == JobEvent::Finish {
                    let queue = self.jobs[slot].queue;
                    self.queues[queue].flow.count(FlowKind::Completed);
                    self.note_finished(slot, now, fx);
                }
                if matches!(request.event, JobEvent::Fail { .. }) {
                    self.count_failed_attempt(slot);
                }
                if request.event == JobEvent::Kick {
                    self.outlive(slot, now, fx);
                    self.jobs[slot].set_retries(0);
                    fx.mark_dirty(DirtyRecord::State(slot, request.id));
                }
                fx.answer(ticket, Outcome::Done);
                if recorded {
                    self.queues.emit_event(slot, request.event, now, &mut self.jobs, fx);
                }
                self.apply_transition(slot, step, now, fx);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn reject_unreserved(ticket: Ticket, id: JobId, fx: &mut Effects) {
        fx.answer(ticket, Outcome::Rejected(Rejection::NotReserved(id)));
    }

    /// A run has succeeded: the key is free, and what waits for the job goes on. O(key + log d).
    #[cold]
    pub(super) fn note_finished(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) {
        debug_assert_eq!(
            self.jobs[slot].status(),
            Status::Reserved,
            "a run ends that is under way"
        );
        self.complete_key(slot, now, fx);
        self.end_dependencies(slot, true);
    }

    /// Counts a run that has failed, also as an attempt if their number is limited.
    #[cold]
    fn count_failed_attempt(&mut self, slot: JobIdx) {
        debug_assert_eq!(
            self.jobs[slot].status(),
            Status::Reserved,
            "a run fails that is under way"
        );
        let queue = self.jobs[slot].queue;
        self.queues[queue].flow.count(FlowKind::Failed);
        if self.jobs[slot].max_attempts() > 0 {
            self.jobs.change(slot, Job::count_attempt);
        }
    }

    /// Executes a legal transition.
    #[inline(always)]
    fn apply_transition(&mut self, slot: JobIdx, step: Transition, now: Now, fx: &mut Effects) {
        if step == Transition::Requeue {
            self.requeue_reserved(slot, now, fx);
        } else {
            self.apply_transition_cold(slot, step, now, fx);
        }
    }

    #[inline(always)]
    fn requeue_reserved(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) {
        debug_assert!(
            matches!(self.jobs[slot].status(), Status::Reserved | Status::Delayed | Status::Buried),
            "a job goes back to its queue after a reservation, a delay or a kick"
        );
        if !self.jobs[slot].is_simple() {
            fx.mark_dirty_if_worker_job(slot, &self.jobs[slot]);
        }
        self.unlink(slot);
        self.make_ready(slot, now, fx);
    }

    /// [`Store::apply_transition`], not inlined.
    #[inline(never)]
    pub(super) fn apply_transition_cold(
        &mut self,
        slot: JobIdx,
        step: Transition,
        now: Now,
        fx: &mut Effects,
    ) {
        debug_assert!(
            !matches!(step, Transition::Renew | Transition::Retry | Transition::Complete)
                || self.jobs[slot].status() == Status::Reserved,
            "only a reserved job is renewed, retried or completed"
        );
        debug_assert_ne!(self.jobs[slot].status(), Status::Popped, "no event reaches a popped job");
        match step {
            Transition::Requeue => self.requeue_reserved(slot, now, fx),
            Transition::Renew => {
                self.jobs.disarm(slot, &mut self.deadlines);
                if self.jobs[slot].is_reservation_durable() {
                    fx.mark_state_dirty(slot, &self.jobs[slot]);
                }
                self.start_lease(slot, now);
            }
            Transition::Retry => {
                self.unlink_recorded(slot, step, now, fx);
                let wait_ms = self.jobs[slot].count_retry(&mut self.rng);
                self.delay(slot, wait_ms, now, fx);
            }
            Transition::Complete => {
                self.unlink_recorded(slot, step, now, fx);
                self.set_rare_status(slot, RareStatus::Completed);
                let keep_ms = self.jobs[slot].options().result_retention_ms;
                debug_assert!(keep_ms > 0, "a job that is completed is retained for a while");
                self.jobs.arm(
                    slot,
                    now.mono.after(Duration::from_millis(keep_ms)),
                    &mut self.deadlines,
                );
            }
            Transition::Bury => {
                self.unlink_recorded(slot, step, now, fx);
                self.link_buried(slot, now);
            }
            Transition::Remove => {
                self.unlink_cold(slot);
                drop(self.remove(slot, fx));
            }
        }
        if matches!(step, Transition::Complete | Transition::Bury) {
            self.notify_end_if_watched(slot, now, fx);
        }
    }

    /// Answers the watchers of a job that is completed or buried. O(log v) for each.
    pub(super) fn notify_end_if_watched(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) {
        if !self.watchers.is_empty() {
            self.notify_awaiters(slot, now, fx);
            self.notify_end(slot, fx);
        }
    }

    /// Takes a job out of its place for a transition that its journal record and its history show.
    /// O(log n).
    pub(super) fn unlink_recorded(
        &mut self,
        slot: JobIdx,
        step: Transition,
        now: Now,
        fx: &mut Effects,
    ) {
        debug_assert!(
            step == Transition::Bury || self.jobs[slot].status() == Status::Reserved,
            "a run that is retried or completed is under way"
        );
        self.unlink_cold(slot);
        fx.mark_state_dirty(slot, &self.jobs[slot]);
        if self.jobs[slot].has_row() {
            self.queues.record_transition(slot, step, now, &mut self.jobs, fx);
        }
    }

    /// Delays an unlinked job by `wait_ms` before it becomes ready. O(log d).
    pub(super) fn delay(&mut self, slot: JobIdx, wait_ms: u64, now: Now, fx: &mut Effects) {
        debug_assert!(
            !self.jobs[slot].is_linked() && self.jobs[slot].timer().is_none(),
            "a job that is delayed has left its former place, and the deadline there"
        );
        if wait_ms == 0 {
            return self.make_ready_cold(slot, now, fx);
        }
        let at = now.mono.after(Duration::from_millis(wait_ms));
        if self.jobs[slot].has_unmet_dependencies() {
            return self.hold_back(slot, Some(at), now);
        }
        self.delay_until(slot, at);
    }

    /// Makes an unlinked job ready: the first eligible waiter gets it, or else it is enqueued.
    /// O(log n).
    #[inline(always)]
    pub(super) fn make_ready(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) {
        let job = &self.jobs[slot];
        let (queue, plain) = (&mut self.queues[job.queue], job.is_simple());
        if plain && queue.waiters.is_empty() {
            return self.enqueue(slot, now);
        }
        if plain
            && queue.ready.is_empty()
            && !queue.holds.any()
            && let Some(waiter) = self.waiters.first_reserve(queue.waiters)
        {
            queue.flow.count(FlowKind::Reserved);
            let (_, ticket) = self.end_wait(waiter);
            self.jobs[slot].ready_since(now);
            return self.mark_reserved(slot, ticket, now, fx);
        }
        self.make_ready_cold(slot, now, fx);
    }

    /// [`Store::make_ready`] for jobs with rare fields, and for queues on which pops wait.
    #[inline(never)]
    pub(super) fn make_ready_cold(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) {
        let job = &self.jobs[slot];
        if let Some(ext) = job.ext() {
            if ext.expires <= now.mono {
                let queue = job.queue;
                drop(self.remove(slot, fx));
                // Behind an expired head there may be a job for a waiter: it is as due as this one.
                return self.rematch_queue(queue, now, fx);
            }
            if job.has_unmet_dependencies() {
                return self.hold_back(slot, None, now);
            }
        }
        self.enqueue(slot, now);
        self.match_job(slot, now, fx);
    }

    /// Adds an unlinked job to its queue. O(log n).
    #[inline(always)]
    pub(super) fn enqueue(&mut self, slot: JobIdx, now: Now) {
        let job = &mut self.jobs[slot];
        debug_assert!(!job.is_linked(), "a job that becomes ready is in no list");
        debug_assert!(job.timer().is_none(), "a job that becomes ready has no deadline yet");
        job.ready_since(now);
        let queue = job.queue;
        if job.is_simple() {
            job.set_status(Status::Ready);
            let entry = job.entry(slot);
            self.queues[queue].ready.push(entry, &mut self.jobs);
            debug_assert!(
                self.queues[queue].ready.len() <= self.queues[queue].jobs as usize,
                "the jobs of a queue are counted before they are ready"
            );
        } else {
            self.enqueue_cold(slot, now);
        }
    }

    #[inline(never)]
    pub(super) fn enqueue_cold(&mut self, slot: JobIdx, now: Now) {
        let job = &mut self.jobs[slot];
        let expires = job.has_ttl().then(|| job.ext_mut_or_insert().expires);
        self.place_waiting(slot, now);
        if let Some(expires) = expires {
            self.jobs.arm(slot, expires, &mut self.deadlines);
        }
        debug_assert!(
            matches!(self.jobs[slot].status(), Status::Ready | Status::Blocked | Status::GroupOnly),
            "a job that enters its queue waits there"
        );
        debug_assert!(
            self.jobs[slot].progress().is_none(),
            "a job that waits has no progress of a run"
        );
    }

    /// Adds an unlinked job with rare fields to the ready heaps, or to its job class, and to its
    /// key group. O(log n).
    pub(super) fn place_waiting(&mut self, slot: JobIdx, now: Now) {
        let job = &mut self.jobs[slot];
        let packet = job.is_packet();
        debug_assert!(
            !job.is_simple(),
            "a job without rare fields is in the heap of its queue only"
        );
        debug_assert!(
            !job.has_unmet_dependencies(),
            "a job that waits for others is held, and not in its queue"
        );
        if job.is_group_only() {
            self.set_rare_status(slot, RareStatus::GroupOnly);
        } else if job.class().is_some() {
            self.on_ready(slot, now);
        } else {
            job.set_status(Status::Ready);
            self.global_ready.push(slot, &mut self.queues, &mut self.jobs);
        }
        if packet {
            self.key_groups.join(slot, &mut self.jobs);
        }
    }

    /// [`Store::unlink`], not inlined.
    #[inline(never)]
    pub(super) fn unlink_cold(&mut self, slot: JobIdx) {
        self.unlink(slot);
    }

    /// Takes a job out of the heaps, lists and groups that its status has it in, and cancels its
    /// deadline. O(log n).
    #[inline(always)]
    pub(super) fn unlink(&mut self, slot: JobIdx) {
        let job = &self.jobs[slot];
        let (queue, plain) = (job.queue, job.is_simple());
        match job.status() {
            Status::Ready if plain => {
                let position = self.jobs.heap_position(slot);
                let ready = &mut self.queues[queue].ready;
                debug_assert!(ready.at(position).slot == slot, "a job knows its heap entry");
                ready.remove(position, &mut self.jobs);
            }
            Status::Reserved => self.reservations.unlink(slot, &mut self.jobs),
            Status::Buried => {
                self.queues[queue].counts.remove(RareStatus::Buried);
                self.queues[queue].buried.unlink(slot, &mut self.jobs);
            }
            Status::Blocked => self.queues[queue].counts.remove(RareStatus::Blocked),
            Status::GroupOnly => self.queues[queue].counts.remove(RareStatus::GroupOnly),
            Status::Delayed => self.end_delay(slot),
            Status::Completed => self.queues[queue].counts.remove(RareStatus::Completed),
            Status::Ready | Status::Popped => {}
        }
        if !plain {
            self.unlink_ext(slot);
        }
    }

    #[inline(never)]
    fn unlink_ext(&mut self, slot: JobIdx) {
        let job = &self.jobs[slot];
        let bound = job.class().is_some();
        debug_assert!(
            !job.is_simple(),
            "a job without rare fields has only the links of its status"
        );
        debug_assert!(bound || job.status() != Status::Blocked, "a blocked job has a class");
        if job.is_packet() && matches!(job.status(), Status::Ready | Status::GroupOnly) {
            self.key_groups.leave(slot, &mut self.jobs);
        }
        match self.jobs[slot].status() {
            Status::Ready => {
                self.global_ready.remove(slot, &mut self.queues, &mut self.jobs);
            }
            Status::Reserved => {
                if self.jobs[slot].runs().is_some() {
                    self.jobs.change(slot, Job::clear_run);
                } else {
                    self.jobs[slot].clear_run();
                }
                self.watchers.end_reservation(slot, &mut self.deadlines);
            }
            _ => {}
        }
        if bound {
            self.on_removed(slot);
        }
        self.jobs.disarm(slot, &mut self.deadlines);
        debug_assert!(!self.jobs[slot].is_linked(), "an unlinked job is in no list");
    }

    /// Answers with a job, unreserved. O(1).
    pub(super) fn peek_job(&mut self, ticket: Ticket, id: JobId, now: Now, fx: &mut Effects) {
        let outcome = match self.find(id, now, fx) {
            Some(slot) => Outcome::Peeked(slot),
            None => Outcome::NoJob,
        };
        fx.answer(ticket, outcome);
    }
}

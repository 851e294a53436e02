//! What becomes of the run of a reserved job: complete, fail, release, touch, progress.

use crate::base::time::Now;
use crate::model::flow::FlowKind;
use crate::model::id::{JobId, Ticket};
use crate::model::job::{LeaseToken, OwnedPriority, Payload, Priority, Retry, Status};
use crate::model::manage::{ManageReply, Missing, RunReport};
use crate::model::reply::Rejection;
use crate::model::stats::JobCounter;
use crate::store::job::Job;
use crate::store::past_runs::RunOwner;
use crate::store::retry::backoff_ms;
use crate::store::state_machine::{Caller, JobEvent, Transition};
use crate::store::transitions::TransitionRequest;
use crate::store::{DirtyRecord, Effects, JobIdx, Outcome, RecordKey, Store};
use std::time::Duration;

impl Store {
    /// Executes a report about the run of a job. O(log n + log d + bytes).
    pub(super) fn report_run(
        &mut self,
        ticket: Ticket,
        (id, token): (JobId, Option<LeaseToken>),
        report: &RunReport,
        now: Now,
        fx: &mut Effects,
    ) {
        let slot = match self.reported_job(ticket, (id, token), report, now, fx) {
            Ok(slot) => slot,
            Err(reply) => return fx.reply(ticket, reply),
        };
        debug_assert_eq!(self.jobs[slot].status(), Status::Reserved, "only a run is reported on");
        match report {
            RunReport::Complete { result } => {
                let result = result.as_ref();
                let result = result.map(|(encoding, bytes)| Payload { encoding: *encoding, bytes });
                self.complete_run(ticket, slot, result, now, fx);
            }
            &RunReport::Fail { ref error, ref message, retry, delay_ms } => {
                self.jobs.change(slot, |job| job.set_run_error(error, message, now.wall));
                self.fail_run(slot, retry, delay_ms, now, fx);
                self.answer_details_of(ticket, (id, slot), now, fx);
            }
            RunReport::Release { priority, delay_ms } => {
                let priority = priority.as_ref().map(OwnedPriority::view);
                self.release_run(slot, priority, *delay_ms, now, fx);
                self.answer_details_of(ticket, (id, slot), now, fx);
            }
            RunReport::Touch { ttr_ms } => {
                self.touch_run(slot, *ttr_ms, now, fx);
                self.answer_details_of(ticket, (id, slot), now, fx);
            }
            RunReport::Progress { progress, message } => {
                self.jobs.change(slot, |job| {
                    job.set_progress(progress.or(job.progress()));
                    job.runs_mut().progress_message.clone_from(message);
                });
                if self.jobs[slot].is_reservation_durable() {
                    fx.mark_state_dirty(slot, &self.jobs[slot]);
                }
                self.answer_details_of(ticket, (id, slot), now, fx);
            }
        }
    }

    /// Answers the touch of a job that is gone: a client that had reserved a cancelled job is told.
    /// O(log r).
    pub(in crate::store) fn touch_gone(
        &self,
        ticket: Ticket,
        id: JobId,
        now: Now,
        fx: &mut Effects,
    ) {
        match self.past_runs.reply(id, RunOwner::Client(ticket.client), false, now) {
            ManageReply::Cancelled => fx.reply(ticket, ManageReply::Cancelled),
            _ => fx.answer(ticket, Outcome::NoJob),
        }
    }

    /// The job of a report, if it is reserved by the client that reports. Others may release it
    /// too; the right that this needs is in `src/access/need.rs`. O(1).
    fn reported_job(
        &mut self,
        ticket: Ticket,
        (id, token): (JobId, Option<LeaseToken>),
        report: &RunReport,
        now: Now,
        fx: &mut Effects,
    ) -> Result<JobIdx, ManageReply> {
        let found = self.find_cold(id, now, fx);
        let Some(token) = token else {
            let owner = RunOwner::Client(ticket.client);
            let gone = || self.past_runs.reply(id, owner, false, now);
            let slot = found.ok_or_else(gone)?;
            let job = &self.jobs[slot];
            let is_reserved = job.status() == Status::Reserved && !self.is_abandoned(job);
            return match self.reservations.caller(ticket.client, job, None) {
                Caller::Reserver if is_reserved => Ok(slot),
                _ if is_reserved && matches!(report, RunReport::Release { .. }) => Ok(slot),
                _ if is_reserved => Err(ManageReply::Rejected(Rejection::ReservedByAnother(id))),
                _ => Err(ManageReply::Rejected(Rejection::NotReserved(id))),
            };
        };
        let completes = matches!(report, RunReport::Complete { .. });
        match found {
            Some(slot) => {
                let job = &self.jobs[slot];
                if job.token_lease().is_some_and(|lease| lease.token == token) {
                    return Ok(slot);
                }
                let again = job.runs().and_then(|runs| runs.completed_by) == Some(token);
                Err(if again && completes { ManageReply::Done } else { ManageReply::StaleToken })
            }
            None if !self.ids.was_given_out(id.0) => {
                Err(ManageReply::Missing(Missing::NeverGivenOut))
            }
            None => Err(self.past_runs.reply(id, RunOwner::Token(token), completes, now)),
        }
    }

    fn complete_run(
        &mut self,
        ticket: Ticket,
        slot: JobIdx,
        result: Option<Payload<'_>>,
        now: Now,
        fx: &mut Effects,
    ) {
        let job = &self.jobs[slot];
        let (id, token) = (JobId(job.id()), job.token_lease().map(|lease| lease.token));
        let kept = job.options().result_retention_ms > 0;
        if kept {
            self.jobs.change(slot, |job| {
                job.count_attempt();
                job.runs_mut().completed_by = token;
                // Without a result of this run there is none.
                job.resume_outcome(None, None);
            });
        }
        if let Some(token) = token {
            // A job that is kept for its result may be gone sooner than its token is forgotten.
            self.note_completed_run(id, token, now, fx);
        }
        let request =
            TransitionRequest { note: result, ..TransitionRequest::of(id, None, JobEvent::Finish) };
        self.request_transition_by_cold(ticket, slot, &request, Caller::Reserver, now, fx);
    }

    /// A failure: another try after a backoff, or the job is buried. O(log n + log d).
    fn fail_run(
        &mut self,
        slot: JobIdx,
        retry: bool,
        delay_ms: Option<u64>,
        now: Now,
        fx: &mut Effects,
    ) {
        let job = &self.jobs[slot];
        let unlimited = job.max_attempts() == 0 && job.retry().is_none();
        let again = retry && (unlimited || job.retries_left());
        self.jobs.change(slot, Job::count_attempt);
        self.totals.count(JobCounter::Failed);
        let queue = self.jobs[slot].queue;
        self.queues[queue].flow.count(FlowKind::Failed);
        if self.jobs[slot].has_row() {
            let event = JobEvent::Fail { retry };
            self.queues.emit_event(slot, event, now, &mut self.jobs, fx);
        }
        if !again {
            return self.apply_transition_cold(slot, Transition::Bury, now, fx);
        }
        self.unlink_recorded(slot, Transition::Retry, now, fx);
        let job = &mut self.jobs[slot];
        let number = job.retries().saturating_add(1);
        job.set_retries(number);
        let policy = job.retry().unwrap_or(Retry::DEFAULT);
        debug_assert!(
            job.max_attempts() == 0 || job.ended_attempts() < job.max_attempts(),
            "a job whose attempts are used up is not tried again"
        );
        let backoff = backoff_ms(&policy, number, &mut self.rng).min(policy.max_ms);
        self.delay(slot, delay_ms.unwrap_or(backoff), now, fx);
    }

    pub(in crate::store) fn release_run(
        &mut self,
        slot: JobIdx,
        priority: Option<Priority<'_>>,
        delay_ms: u64,
        now: Now,
        fx: &mut Effects,
    ) {
        debug_assert_eq!(self.jobs[slot].status(), Status::Reserved, "only a run is released");
        self.totals.count(JobCounter::Released);
        let id = JobId(self.jobs[slot].id());
        if self.jobs[slot].has_row() {
            self.queues.emit_event(slot, JobEvent::Release, now, &mut self.jobs, fx);
        }
        fx.mark_dirty_if_worker_job(slot, &self.jobs[slot]);
        if let Some(priority) = priority {
            self.change_priority(slot, priority, now);
        }
        self.unlink_cold(slot);
        if priority.is_some() {
            fx.mark_dirty(DirtyRecord::Put(RecordKey::Job(slot), id));
        } else if delay_ms > 0 {
            fx.mark_state_dirty(slot, &self.jobs[slot]);
        }
        self.delay(slot, delay_ms, now, fx);
    }

    fn touch_run(&mut self, slot: JobIdx, ttr_ms: Option<u64>, now: Now, fx: &mut Effects) {
        debug_assert_eq!(self.jobs[slot].status(), Status::Reserved, "only a run is touched");
        self.totals.count(JobCounter::Touched);
        self.jobs.disarm(slot, &mut self.deadlines);
        if let Some(ttr_ms) = ttr_ms
            && self.jobs[slot].token_lease().is_none()
        {
            let at = now.mono.after(Duration::from_millis(ttr_ms));
            return self.jobs.arm(slot, at, &mut self.deadlines);
        }
        if let Some(ttr_ms) = ttr_ms
            && let Some(lease) = self.jobs[slot].runs_mut().lease.as_mut()
        {
            lease.lease_ms = ttr_ms;
        }
        self.start_lease(slot, now);
        if self.jobs[slot].is_reservation_durable() {
            fx.mark_state_dirty(slot, &self.jobs[slot]);
        }
    }

    /// Answers with a job after a report, or that it is done if the job is gone: as it came back
    /// its time to live may have ended, or a pop may have taken it. O(bytes).
    fn answer_details_of(
        &mut self,
        ticket: Ticket,
        (id, slot): (JobId, JobIdx),
        now: Now,
        fx: &mut Effects,
    ) {
        self.settle_constraints(now, fx);
        if self.ids.find(id.0) == Some(slot) {
            self.answer_details(ticket, slot, now, fx);
        } else {
            fx.reply(ticket, ManageReply::Done);
        }
    }
}

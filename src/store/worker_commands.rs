//! Commands of registered workers and of clients of tracked jobs.
//!
//! A registered worker outlives the client that is attached to it. Reservations made by an attached
//! client belong to the worker; they are journaled when made, and survive a restart.

use super::ids::Ids;
use super::idx::WorkerIdx;
use super::job_watchers::WatchFor;
use super::state_machine::{Caller, JobEvent, Transition, transition};
use super::transitions::TransitionRequest;
use super::worker_registry::{RegisteredWorker, Workers};
use super::{DirtyRecord, Effects, JobIdx, Outcome, RecordKey, Store};
use crate::base::limits::{EXCLUSION_RESET_DELAY, WORKERS_MAX};
use crate::base::strings::Strings;
use crate::base::time::Now;
use crate::model::command::Wait;
use crate::model::id::{ClientId, JobId, Ticket};
use crate::model::job::{LeaseEpoch, Status};
use crate::model::owned::{OwnedJobStatus, OwnedReply};
use crate::model::reply::{JobStatus, Rejection};
use crate::model::worker::{
    RunOutcome, TrackedReply, Worker, WorkerCommand, WorkerId, WorkerKind, WorkerReply,
};
use std::time::Duration;

impl Store {
    /// Executes a command.
    #[inline(never)]
    pub(super) fn worker_command(
        &mut self,
        ticket: Ticket,
        work: &WorkerCommand<'_>,
        now: Now,
        fx: &mut Effects,
    ) {
        match *work {
            WorkerCommand::Register(ref worker) => self.register(ticket, worker, now, fx),
            WorkerCommand::Deregister { worker } => self.deregister(ticket, worker, now, fx),
            WorkerCommand::AwaitWorkers { from } => {
                self.registry_watchers.await_workers(ticket, from, &self.workers, fx);
            }
            WorkerCommand::Attach { worker } => self.attach(ticket, worker, fx),
            WorkerCommand::AwaitDetach => {
                self.registry_watchers.await_detach(ticket, &self.reservations, fx);
            }
            WorkerCommand::AttachWithLease { worker, lease_ms } => {
                self.attach_with_lease(ticket, worker, lease_ms, now, fx);
            }
            WorkerCommand::Detach => self.detach(ticket, fx),
            WorkerCommand::PutByName { ref job, priority, payload } => {
                self.put_by_name(ticket, job, priority, payload, now, fx);
            }
            WorkerCommand::ReportProgress { ref job, progress } => {
                self.report_progress(ticket, job, progress, now, fx);
            }
            WorkerCommand::CompleteByName { ref job } => {
                self.complete_by_name(ticket, job, now, fx);
            }
            WorkerCommand::DeleteByName { ref job } => self.delete_by_name(ticket, job, now, fx),
            WorkerCommand::ScanQueue { queue, from } => {
                self.scan_queue(ticket, (queue, from), now, fx);
            }
            WorkerCommand::ReserveAny => self.reserve_any(ticket, now, fx),
            WorkerCommand::ReserveFor { worker, queues } => {
                self.reserve_for(ticket, worker, queues, now, fx);
            }
            WorkerCommand::AwaitRelease { id, lease } => self.await_release(ticket, id, lease, fx),
            WorkerCommand::ReturnUnstarted { id, lease, exclude } => {
                self.return_unstarted(ticket, (id, lease), exclude, now, fx);
            }
            WorkerCommand::Report { worker, id, ref report } => {
                self.report(ticket, worker, id, report, now, fx);
            }
            WorkerCommand::GetStatus { id } => self.job_status(ticket, id, None, now, fx),
            WorkerCommand::AwaitResult { id, wait_ms } => {
                self.job_status(ticket, id, Some(wait_ms), now, fx);
            }
            WorkerCommand::Cancel { id } => self.cancel_wait(ticket, id, now, fx),
            WorkerCommand::SetConstraint(constraint) => {
                self.set_constraint(ticket, constraint, now, fx);
            }
            WorkerCommand::RemoveConstraint { name } => {
                self.remove_constraint(ticket, name, now, fx);
            }
            WorkerCommand::GetConstraint { name } => self.constraints.show(ticket, name, fx),
        }
    }

    /// O(log w), and the removal of the worker that has the same URL.
    fn register(&mut self, ticket: Ticket, worker: &Worker<'_>, now: Now, fx: &mut Effects) {
        if let Some(bus_worker) = self.workers.bus_worker()
            && worker.kind() == WorkerKind::Bus
        {
            return fx.answer(ticket, Outcome::Registered(bus_worker));
        }
        let former = self.workers.find_by_url(worker.url);
        if self.ids.is_exhausted() || (former.is_none() && self.workers.len() >= WORKERS_MAX) {
            return fx.answer(ticket, Outcome::Worker(WorkerReply::Full));
        }
        let id = WorkerId(self.ids.take());
        let Worker { name, url, max_jobs, queues } = *worker;
        let record = RegisteredWorker::new(name, url, max_jobs, queues);
        let place = self.workers.register(id, record);
        fx.mark_dirty(DirtyRecord::Put(RecordKey::Worker(place), JobId(id.0)));
        fx.answer(ticket, Outcome::Registered(id));
        if let Some(former) = former {
            self.remove_worker(former, now, fx);
        }
        self.registry_watchers.notify_registration(id, &self.workers, fx);
    }

    fn deregister(&mut self, ticket: Ticket, worker: WorkerId, now: Now, fx: &mut Effects) {
        let Some(place) = self.workers.find(worker) else {
            return fx.answer(ticket, Outcome::Worker(WorkerReply::NoWorker));
        };
        if self.workers.bus_worker() == Some(worker) {
            return fx.answer(ticket, Outcome::Worker(WorkerReply::NoWorker));
        }
        fx.answer(ticket, Outcome::Worker(WorkerReply::Done));
        self.remove_worker(place, now, fx);
    }

    /// Deregisters a worker; its jobs are requeued together, over several passes if there are many:
    /// see `disconnects`. O(w log w + h log n) for the `h` jobs that it has reserved and the `w`
    /// waiters of its client.
    fn remove_worker(&mut self, place: WorkerIdx, now: Now, fx: &mut Effects) {
        debug_assert!(self.workers[place].registered.is_some(), "a worker is deregistered once");
        let (worker, client) = (self.workers[place].id, self.workers[place].client);
        let budget = self.spread.steps_left();
        let has_more = match client {
            Some(client) => self.reservations.has_more_jobs(client, budget, &self.jobs),
            None => self.reservations.has_more_detached(place, budget, &self.jobs),
        };
        match client {
            Some(client) if has_more => {
                self.cancel_waiters(client, fx);
                self.reservations.move_to_worker(client, place, &mut self.jobs);
                self.end_attachment(client, place, fx);
            }
            Some(client) => self.detach_client(client, place, fx),
            None => {}
        }
        let mut requeued = std::mem::take(&mut self.requeue_buf);
        if !has_more {
            while let Some(slot) = self.reservations.first_detached(place) {
                self.take_back(slot, now, fx);
                self.spread.spend(1);
                requeued.push(slot);
            }
        }
        if self.workers.remove(place).is_some() {
            fx.mark_dirty(DirtyRecord::Gone(RecordKey::Worker(place), JobId(worker.0)));
        }
        if has_more {
            self.begin_worker_end(place);
        } else {
            self.workers.remove_entry(place);
        }
        self.requeue_batch(requeued, now, fx);
    }

    /// Detaches a client: its waiters and watchers are cancelled, and its reservations become the
    /// worker's alone. O(w log w + h).
    pub(super) fn detach_client(&mut self, client: ClientId, place: WorkerIdx, fx: &mut Effects) {
        debug_assert_eq!(
            self.workers[place].client,
            Some(client),
            "a client is detached from its own worker"
        );
        self.cancel_waiters(client, fx);
        while let Some(watcher) = self.watchers.first_of(client) {
            let (ticket, outcome) = self.watchers.cancel(watcher, &mut self.deadlines);
            fx.answer(ticket, outcome);
        }
        while let Some(slot) = self.reservations.first_job(client) {
            self.reservations.unlink(slot, &mut self.jobs);
            self.reservations.link_detached(place, slot, &mut self.jobs);
        }
        self.end_attachment(client, place, fx);
    }

    fn cancel_waiters(&mut self, client: ClientId, fx: &mut Effects) {
        while let Some(waiter) = self.reservations.first_waiter(client) {
            let (_, ticket) = self.end_wait(waiter);
            fx.answer(ticket, Outcome::Cancelled);
        }
    }

    fn end_attachment(&mut self, client: ClientId, place: WorkerIdx, fx: &mut Effects) {
        debug_assert!(
            self.reservations.first_waiter(client).is_none()
                && self.reservations.first_job(client).is_none(),
            "a detached client waits for nothing, and its jobs are the worker's"
        );
        self.workers.detach(place, client, &mut self.reservations);
        self.registry_watchers.notify_detach(client, fx);
    }

    /// O(h) for the jobs that the worker has reserved, and what [`Store::attach_client`] costs.
    fn attach(&mut self, ticket: Ticket, worker: WorkerId, fx: &mut Effects) {
        if !self.attach_client(ticket.client, worker, fx) {
            return fx.answer(ticket, Outcome::Worker(WorkerReply::NoWorker));
        }
        let slots = self.reservations.jobs_of(ticket.client.index, &self.jobs).into_iter();
        let reserved = slots.map(|slot| (JobId(self.jobs[slot].id()), self.jobs[slot].lease()));
        fx.reply(ticket, OwnedReply::Attached(reserved.collect()));
    }

    /// Attaches a client to a worker; whether the worker is registered. O(h) for the jobs that
    /// client and worker have reserved, and what it costs to detach the client from its former
    /// worker and the worker from its former client.
    pub(super) fn attach_client(
        &mut self,
        client: ClientId,
        worker: WorkerId,
        fx: &mut Effects,
    ) -> bool {
        let Some(place) = self.workers.find(worker) else { return false };
        if self.workers[place].client != Some(client) {
            if let Some(former) = self.reservations.worker_of(client) {
                self.detach_client(client, former, fx);
            }
            self.end_paused(client);
            if let Some(former) = self.workers[place].client {
                self.detach_client(former, place, fx);
            }
            for slot in self.reservations.jobs_of(client.index, &self.jobs) {
                self.jobs[slot].set_worker(Some(worker));
                fx.mark_state_dirty(slot, &self.jobs[slot]);
            }
            while let Some(slot) = self.reservations.first_detached(place) {
                debug_assert_eq!(
                    self.jobs[slot].worker(),
                    Some(worker),
                    "the list of a detached worker has its own jobs"
                );
                self.reservations.unlink(slot, &mut self.jobs);
                self.reservations.link(client, slot, &mut self.jobs);
            }
            self.workers.attach(place, client, &mut self.reservations);
        }
        debug_assert_eq!(self.workers.of_client(client, &self.reservations), Some(worker));
        debug_assert!(self.reservations.first_detached(place).is_none(), "a job was left behind");
        true
    }

    /// Reserves a job for a worker, if the client is attached to it. As a reserve.
    #[inline(never)]
    pub(super) fn reserve_for(
        &mut self,
        ticket: Ticket,
        worker: WorkerId,
        queues: Option<Strings<'_>>,
        now: Now,
        fx: &mut Effects,
    ) {
        if self.workers.of_client(ticket.client, &self.reservations) != Some(worker) {
            return fx.answer(ticket, Outcome::Worker(WorkerReply::NoWorker));
        }
        match queues {
            Some(queues) => self.reserve(ticket, queues, Wait::Forever, now, fx),
            None => self.reserve_any(ticket, now, fx),
        }
    }

    /// O(log v).
    fn await_release(&mut self, ticket: Ticket, id: JobId, lease: LeaseEpoch, fx: &mut Effects) {
        let found = self.ids.find(id.0).filter(|&slot| {
            let job = &self.jobs[slot];
            self.has_reserved(ticket.client, job) && job.lease() == lease
        });
        match found {
            None => fx.answer(ticket, Outcome::Done),
            Some(slot) => {
                self.watchers.begin(ticket, slot, WatchFor::Release, &mut self.jobs);
            }
        }
    }

    /// O(log n).
    fn return_unstarted(
        &mut self,
        ticket: Ticket,
        (id, lease): (JobId, LeaseEpoch),
        exclude: bool,
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(slot) = self.find_cold(id, now, fx) else {
            return fx.answer(ticket, Outcome::NoJob);
        };
        if self.is_abandoned(&self.jobs[slot]) {
            return fx.answer(ticket, Outcome::Rejected(Rejection::NotReserved(id)));
        }
        let caller = self.reservations.caller(ticket.client, &self.jobs[slot], Some(lease));
        let step = match transition(&self.jobs[slot], JobEvent::Release, caller) {
            Err(rejection) => return fx.answer(ticket, Outcome::Rejected(rejection)),
            Ok(step) => step,
        };
        debug_assert_eq!(step, Transition::Requeue, "a job that is released goes back");
        fx.answer(ticket, Outcome::Done);
        if self.jobs[slot].progress().is_some() {
            return;
        }
        if self.jobs[slot].has_row() {
            self.queues.emit_event(slot, JobEvent::Release, now, &mut self.jobs, fx);
        }
        self.constraints.refund(&self.jobs[slot], now);
        let worker = self.jobs[slot].worker().filter(|_| exclude);
        let remembered = worker.is_none_or(|worker| self.jobs[slot].exclude_worker(worker));
        if remembered && self.global_ready.has_exclusion_set(&self.jobs[slot], &self.queues) {
            return self.apply_transition_cold(slot, step, now, fx);
        }
        // Offered to every worker at once, it would be rejected in circles.
        fx.mark_state_dirty(slot, &self.jobs[slot]);
        self.unlink_cold(slot);
        self.jobs[slot].clear_exclusions();
        let rest = u64::try_from(EXCLUSION_RESET_DELAY.as_millis()).unwrap_or(u64::MAX);
        self.delay(slot, rest, now, fx);
    }

    /// Executes the report of the worker that has reserved the job. O(log n).
    fn report(
        &mut self,
        ticket: Ticket,
        worker: WorkerId,
        id: JobId,
        report: &RunOutcome<'_>,
        now: Now,
        fx: &mut Effects,
    ) {
        if self.workers.find(worker).is_none() {
            return fx.answer(ticket, Outcome::Worker(WorkerReply::NoWorker));
        }
        let found = self.find_cold(id, now, fx);
        let holds = |slot: &JobIdx| {
            let job = &self.jobs[*slot];
            let meant = match *report {
                RunOutcome::Rejected { lease, .. } => job.lease() == lease,
                RunOutcome::Success { .. } | RunOutcome::Failure { .. } => true,
            };
            job.worker() == Some(worker) && meant
        };
        let Some(slot) = found.filter(holds) else {
            return fx.answer(ticket, Outcome::NoJob);
        };
        debug_assert_eq!(
            self.jobs[slot].status(),
            Status::Reserved,
            "a job of a worker is reserved"
        );
        if let RunOutcome::Rejected { .. } = report
            && !self.jobs[slot].exclude_worker(worker)
        {
            self.jobs[slot].clear_exclusions();
        }
        let fail = |retry| JobEvent::Fail { retry };
        let (event, note, message) = match *report {
            RunOutcome::Success { result } => (JobEvent::Finish, result, None),
            RunOutcome::Failure { retry, error, message } => (fail(retry), error, Some(message)),
            RunOutcome::Rejected { error, message, .. } => (fail(true), error, Some(message)),
        };
        let request = TransitionRequest {
            note: Some(note),
            message,
            ..TransitionRequest::of(id, None, event)
        };
        self.request_transition_by_cold(ticket, slot, &request, Caller::Reserver, now, fx);
    }

    /// Answers with the status of a job; with `wait_ms`, when it has ended. O(log n).
    fn job_status(
        &mut self,
        ticket: Ticket,
        id: JobId,
        wait_ms: Option<u64>,
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(slot) = self.find_cold(id, now, fx) else {
            return fx
                .answer(ticket, Outcome::Tracked(missing_reply(id, &self.ids, &self.workers)));
        };
        let has_ended = matches!(self.jobs[slot].status(), Status::Completed | Status::Buried);
        if let Some(wait_ms) = wait_ms
            && !has_ended
        {
            let watcher = self.watchers.begin(ticket, slot, WatchFor::Completion, &mut self.jobs);
            let at = now.mono.after(Duration::from_millis(wait_ms));
            self.watchers.arm(watcher, at, &mut self.deadlines);
            return;
        }
        self.answer_status(ticket, slot, fx);
    }

    /// Answers with the status of a job, and removes it if its result may be fetched only once.
    /// Returns whether the job still exists.
    fn answer_status(&mut self, ticket: Ticket, slot: JobIdx, fx: &mut Effects) -> bool {
        let job = &self.jobs[slot];
        if job.status() != Status::Completed || !job.options().result_once {
            fx.answer(ticket, Outcome::JobStatus(slot));
            return true;
        }
        let status = OwnedJobStatus::new(&self.progress(slot));
        fx.reply(ticket, OwnedReply::JobStatus(Box::new(status)));
        self.unlink_cold(slot);
        drop(self.remove(slot, fx));
        false
    }

    /// The job in `slot` with its worker and error message. O(1).
    ///
    /// # Panics
    /// As [`Store::view`].
    #[must_use]
    pub fn progress(&self, slot: JobIdx) -> JobStatus<'_> {
        let job = &self.jobs[slot];
        JobStatus { info: self.job_info(slot), worker: job.worker(), message: job.result_message() }
    }

    /// O(log n).
    fn cancel_wait(&mut self, ticket: Ticket, id: JobId, now: Now, fx: &mut Effects) {
        let Some(slot) = self.find_cold(id, now, fx) else {
            return fx
                .answer(ticket, Outcome::Tracked(missing_reply(id, &self.ids, &self.workers)));
        };
        let job = &self.jobs[slot];
        if !job.waits() {
            return fx.answer(ticket, Outcome::Tracked(TrackedReply::TooLate));
        }
        let queue = job.queue;
        self.unlink_cold(slot);
        drop(self.remove(slot, fx));
        fx.answer(ticket, Outcome::Tracked(TrackedReply::Removed));
        self.rematch_queue(queue, now, fx);
    }

    /// Answers the watchers of a job that has completed or was buried, in the order of arrival.
    /// O(log v) for each.
    pub(super) fn notify_end(&mut self, slot: JobIdx, fx: &mut Effects) {
        let status = self.jobs[slot].status();
        debug_assert!(matches!(status, Status::Completed | Status::Buried), "it has not ended");
        while let Some(watcher) = self.watchers.first_for(slot, WatchFor::Completion) {
            let ticket = self.watchers.remove(watcher, &mut self.deadlines);
            if !self.answer_status(ticket, slot, fx) {
                return;
            }
        }
    }
}

/// The answer about a job that does not exist.
fn missing_reply(id: JobId, ids: &Ids, workers: &Workers) -> TrackedReply {
    debug_assert!(ids.find(id.0).is_none(), "the job exists");
    let is_worker = workers.find(WorkerId(id.0)).is_some();
    if ids.was_given_out(id.0) && !is_worker { TrackedReply::Deleted } else { TrackedReply::NoJob }
}

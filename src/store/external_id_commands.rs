//! Commands that address a job by its external id, and those of the bus worker
//! (`docs/protocols/processor.md`).
//!
//! The reservations of the bus worker are journaled like those of any registered worker. They have
//! the client's lease, whatever the job's options say. A job has a progress once a worker has
//! reported that it works on it; jobs without are requeued when the client attaches again.

use super::idx::JobIdx;
use super::state_machine::{JobEvent, transition};
use super::transitions::TransitionRequest;
use super::{Effects, Outcome, Store};
use crate::base::limits::STATS_SLOTS_PER_STEP;
use crate::base::time::Now;
use crate::model::external_id::{Fraction, JobRef, QueueScan, ReadyOrderKey, ReservedJob};
use crate::model::id::{JobId, Ticket};
use crate::model::job::{Encoding, Payload, Priority, Status, TieBreak};
use crate::model::owned::OwnedReply;
use crate::model::reply::Rejection;
use crate::model::stats::JobCounter;
use crate::model::worker::{WorkerId, WorkerReply};

/// The result of a job that finishes without one.
const NOTHING: Payload<'static> = Payload { encoding: Encoding::JsonLine, bytes: b"null" };

impl Store {
    /// As [`Store::put`], and O(1) more.
    pub(super) fn put_by_name(
        &mut self,
        ticket: Ticket,
        job: &JobRef<'_>,
        priority: i64,
        payload: Payload<'_>,
        now: Now,
        fx: &mut Effects,
    ) {
        if let Some(slot) = self.external_ids.find(job.name, &self.jobs) {
            let taken = Rejection::NameTaken(JobId(self.jobs[slot].id()));
            return fx.answer(ticket, Outcome::Rejected(taken));
        }
        if self.is_full() {
            return fx.answer(ticket, Outcome::Rejected(Rejection::Full));
        }
        let what = (Priority::Small(priority), TieBreak::Fifo, (payload, 0));
        let slot = self.insert_job(ticket, job.queue, what, now, fx);
        self.external_ids.assign(job.name, slot, &mut self.jobs);
        debug_assert_eq!(
            self.external_ids.find(job.name, &self.jobs),
            Some(slot),
            "a job is found by its external id"
        );
        if !self.constraints.is_empty() {
            self.attach_limiters(slot, now);
        }
        self.make_ready_cold(slot, now, fx);
    }

    /// The job with this external id, or the job without one with this id, in the queue named.
    fn find_by_ref(&mut self, job: &JobRef<'_>, now: Now, fx: &mut Effects) -> Option<JobIdx> {
        let queue = self.queues.find(job.queue)?;
        let here = |slot: &JobIdx| self.jobs[*slot].queue == queue;
        let named = self.external_ids.find(job.name, &self.jobs).filter(here);
        let slot = named.or_else(|| {
            let slot = self.ids.find(parse_id(job.name)?).filter(here)?;
            self.jobs[slot].external_id().is_none().then_some(slot)
        })?;
        self.find_cold(JobId(self.jobs[slot].id()), now, fx)
    }

    /// O(log n + log d).
    pub(super) fn report_progress(
        &mut self,
        ticket: Ticket,
        job: &JobRef<'_>,
        progress: Option<Fraction>,
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(slot) = self.find_by_ref(job, now, fx) else {
            return fx.answer(ticket, Outcome::NoJob);
        };
        if self.is_abandoned(&self.jobs[slot]) {
            let rejection = Rejection::NotReserved(JobId(self.jobs[slot].id()));
            return fx.answer(ticket, Outcome::Rejected(rejection));
        }
        let caller = self.reservations.caller(ticket.client, &self.jobs[slot], None);
        match transition(&self.jobs[slot], JobEvent::Touch, caller) {
            Err(rejection) => fx.answer(ticket, Outcome::Rejected(rejection)),
            Ok(step) => {
                let job = &mut self.jobs[slot];
                let progress = progress.or_else(|| job.progress()).unwrap_or(Fraction::ZERO);
                job.set_progress(Some(progress));
                self.totals.count(JobCounter::Touched);
                fx.answer(ticket, Outcome::Done);
                self.apply_transition_cold(slot, step, now, fx);
            }
        }
    }

    /// O(log n + log d).
    pub(super) fn complete_by_name(
        &mut self,
        ticket: Ticket,
        job: &JobRef<'_>,
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(slot) = self.find_by_ref(job, now, fx) else {
            return fx.answer(ticket, Outcome::NoJob);
        };
        let job = &self.jobs[slot];
        let id = JobId(job.id());
        let caller = self.reservations.caller(ticket.client, job, None);
        let request = TransitionRequest {
            note: Some(NOTHING),
            ..TransitionRequest::of(id, None, JobEvent::Finish)
        };
        self.request_transition_by_cold(ticket, slot, &request, caller, now, fx);
    }

    /// O(log n + log d).
    pub(super) fn delete_by_name(
        &mut self,
        ticket: Ticket,
        job: &JobRef<'_>,
        now: Now,
        fx: &mut Effects,
    ) {
        match self.find_by_ref(job, now, fx) {
            Some(slot) => {
                // The bus does not say whether its worker deletes the job: it is lost.
                self.end_dependencies(slot, false);
                self.ids.remove(self.jobs[slot].id());
                self.delete_cold(ticket, slot, now, fx);
            }
            None => fx.answer(ticket, Outcome::NoJob),
        }
    }

    /// O(h log n) for the reserved jobs of the worker, and what [`Store::attach_client`] costs.
    pub(super) fn attach_with_lease(
        &mut self,
        ticket: Ticket,
        worker: WorkerId,
        lease_ms: u64,
        now: Now,
        fx: &mut Effects,
    ) {
        if !self.attach_client(ticket.client, worker, fx) {
            return fx.answer(ticket, Outcome::Worker(WorkerReply::NoWorker));
        }
        fx.answer(ticket, Outcome::Worker(WorkerReply::Done));
        let Some(place) = self.workers.find(worker) else { return };
        debug_assert_eq!(self.workers[place].client, Some(ticket.client), "it was attached");
        self.workers[place].lease_ms = lease_ms;
        let mut requeued = std::mem::take(&mut self.requeue_buf);
        for slot in self.reservations.jobs_of(ticket.client.index, &self.jobs) {
            if self.jobs[slot].progress().is_some() {
                continue;
            }
            self.take_back(slot, now, fx);
            requeued.push(slot);
        }
        self.requeue_batch(requeued, now, fx);
    }

    /// O(w log w + h) for the `h` reserved jobs and the `w` waiters of the client.
    pub(super) fn detach(&mut self, ticket: Ticket, fx: &mut Effects) {
        if let Some(place) = self.reservations.worker_of(ticket.client) {
            self.detach_client(ticket.client, place, fx);
        }
        fx.answer(ticket, Outcome::Worker(WorkerReply::Done));
    }

    /// O([`STATS_SLOTS_PER_STEP`]).
    pub(super) fn scan_queue(
        &self,
        ticket: Ticket,
        (queue, from): (&[u8], u32),
        now: Now,
        fx: &mut Effects,
    ) {
        let mut page = QueueScan::default();
        let end = self.jobs.end();
        let stop = end.min(from.saturating_add(STATS_SLOTS_PER_STEP));
        if let Some(queue) = self.queues.find(queue) {
            let bus_worker = self.workers.bus_worker();
            for number in from..stop {
                let Some((slot, job)) = self.jobs.at(number) else { continue };
                if job.queue != queue {
                    continue;
                }
                let id = JobId(job.id());
                match job.status() {
                    Status::Ready | Status::Blocked => {
                        let entry = job.entry(slot);
                        page.ready.push(ReadyOrderKey { rank: entry.rank, tie: entry.tie, id });
                    }
                    Status::Reserved if bus_worker.is_some() && job.worker() == bus_worker => {
                        let name = job.external_id().map(Into::into);
                        let due = job.due(&self.deadlines);
                        let since = self.workers.lease_start(job, due, now);
                        page.reserved.push(ReservedJob {
                            id,
                            name,
                            progress: job.progress(),
                            since,
                        });
                    }
                    _ => {}
                }
            }
            page.next = (stop < end).then_some(stop);
        }
        fx.reply(ticket, OwnedReply::QueueScan(Box::new(page)));
    }
}

/// Parses a job id: digits without leading zeros.
fn parse_id(name: &[u8]) -> Option<u64> {
    let plain = name.iter().all(u8::is_ascii_digit) && name.first() != Some(&b'0');
    let text = std::str::from_utf8(name).ok().filter(|_| plain)?;
    text.parse().ok()
}

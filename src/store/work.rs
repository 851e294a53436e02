//! What is asked about work that is followed to a result, and about those who do it.
//!
//! A worker outlives whoever acts for it. As long as somebody does, all that he holds is the
//! worker's; what a worker holds is written down when it is handed out, and is still the worker's
//! after a restart.

use super::change::Wish;
use super::jobs::{Job, NONE};
use super::life::{Event, step};
use super::vigils::{Aim, Vigil};
use super::workers::Enlisted;
use super::{Change, Due, Effects, JobSlot, Outcome, Store};
use crate::base::limits::{REFUSED_REST, WORKERS_MAX};
use crate::base::time::Now;
use crate::model::event::Happening;
use crate::model::id::{ClientId, JobId, Ticket};
use crate::model::job::{Encoding, Lease, Payload, Status, Turn, Urgency};
use crate::model::owned::OwnedProgress;
use crate::model::reply::Refusal;
use crate::model::work::{Progress, Report, Work, Worker, WorkerId};
use std::time::Duration;

impl Store {
    /// Answers a question, or does what is asked.
    #[inline(never)]
    pub(super) fn work(&mut self, ticket: Ticket, work: &Work<'_>, now: Now, fx: &mut Effects) {
        match *work {
            Work::Enlist(ref worker) => self.enlist(ticket, worker, now, fx),
            Work::Dismiss { worker } => self.dismiss(ticket, worker, now, fx),
            Work::Serve { worker } => self.act_for(ticket, worker, fx),
            Work::Resume { worker, lease_ms } => self.resume(ticket, worker, lease_ms, now, fx),
            Work::Resign => self.resign(ticket, fx),
            Work::PutNamed { ref job, urgency, payload } => {
                self.put_named(ticket, job, urgency, payload, now, fx);
            }
            Work::Proceed { ref job, progress } => self.proceed(ticket, job, progress, now, fx),
            Work::FinishNamed { ref job } => self.finish_named(ticket, job, now, fx),
            Work::Remove { ref job } => self.remove_named(ticket, job, now, fx),
            Work::Survey { queue, from } => self.survey(ticket, (queue, from), now, fx),
            Work::TakeAny => self.take_any(ticket, now, fx),
            Work::Mind { id, lease } => self.mind(ticket, id, lease, fx),
            Work::GiveBack { id, lease, never_again } => {
                self.give_back(ticket, (id, lease), never_again, now, fx);
            }
            Work::Report { worker, id, ref report } => {
                self.report(ticket, worker, id, report, now, fx);
            }
            Work::Follow { id } => self.follow(ticket, id, None, now, fx),
            Work::Await { id, wait_ms } => self.follow(ticket, id, Some(wait_ms), now, fx),
            Work::Cancel { id } => self.call_off(ticket, id, now, fx),
            Work::Constrain(constraint) => self.constrain(ticket, constraint, now, fx),
            Work::Free { name } => self.free(ticket, name, now, fx),
            Work::Constraint { name } => self.show_constraint(ticket, name, fx),
        }
    }

    /// O(log w), and what it costs to dismiss the worker at the same address.
    fn enlist(&mut self, ticket: Ticket, worker: &Worker<'_>, now: Now, fx: &mut Effects) {
        if let Some(processor) = self.workers.processor()
            && worker.url.is_empty()
        {
            return fx.answer(ticket, Outcome::Worker(processor));
        }
        let former = self.workers.find_at(worker.url);
        if self.is_full() || (former.is_none() && self.workers.len() >= WORKERS_MAX) {
            return fx.answer(ticket, Outcome::Refused(Refusal::Full));
        }
        let id = JobId(self.next_id);
        self.next_id += 1;
        let Worker { name, url, max_jobs, queues } = *worker;
        let slot = self.add_worker(id, name, url, max_jobs, queues);
        fx.note(Change::Put(JobSlot(slot), id));
        fx.answer(ticket, Outcome::Worker(WorkerId(id.0)));
        if let Some(former) = former {
            self.remove_worker(former, now, fx);
        }
    }

    /// Puts a worker on the list, with a place among the jobs.
    pub(super) fn add_worker<'a>(
        &mut self,
        id: JobId,
        name: &str,
        url: &str,
        max_jobs: u32,
        queues: Option<impl IntoIterator<Item = &'a [u8]>>,
    ) -> u32 {
        let slot = self.add_place(id);
        let worker = Enlisted::new(slot, name, url, max_jobs, queues);
        self.workers.enlist(WorkerId(id.0), worker);
        slot
    }

    /// A place among the jobs, so that a journal keeps what has it like one, in no queue, and an id
    /// that finds no job. O(1).
    pub(super) fn add_place(&mut self, id: JobId) -> u32 {
        let nothing = Payload { encoding: Encoding::Json, bytes: b"" };
        let (urgency, turn) = (Urgency::Never, Turn::OldestFirst);
        let mut place = Job::new(id.0, NONE, urgency, turn, nothing, Now::default());
        place.status = Status::Aside;
        self.jobs.insert(place)
    }

    /// Whether this place has a worker of the list and no job.
    #[inline]
    pub(super) fn is_worker(&self, slot: u32) -> bool {
        self.jobs[slot].queue == NONE && !self.is_constraint(slot)
    }

    fn dismiss(&mut self, ticket: Ticket, worker: WorkerId, now: Now, fx: &mut Effects) {
        let Some(place) = self.workers.find(worker) else {
            return fx.answer(ticket, Outcome::NoWorker);
        };
        if self.workers.processor() == Some(worker) {
            return fx.answer(ticket, Outcome::NoWorker);
        }
        fx.answer(ticket, Outcome::Done);
        self.remove_worker(place, now, fx);
    }

    /// O(w log w + h log n) for the h jobs that the worker holds and w that wait for its client.
    fn remove_worker(&mut self, place: u32, now: Now, fx: &mut Effects) {
        let worker = self.workers[place].id;
        if let Some(client) = self.workers[place].client {
            self.end_service(client, place, fx);
        }
        let mut returned = std::mem::take(&mut self.returned);
        while let Some(slot) = self.holders.first_away(place) {
            self.leave_worker(slot, fx);
            self.withdraw(slot);
            if self.jobs[slot].is_recorded() {
                self.happen(slot, Happening::Abandoned, now, fx);
            }
            returned.push(slot);
        }
        if let Some(slot) = self.erase_worker(place) {
            fx.note(Change::Gone(JobSlot(slot), JobId(worker.0)));
        }
        self.workers.forget(place);
        self.bring_back(returned, now, fx);
    }

    /// Takes a worker off the list, if it is there, and its place from among the jobs.
    pub(super) fn erase_worker(&mut self, place: u32) -> Option<u32> {
        let slot = self.workers.strike(place)?.slot;
        drop(self.jobs.remove(slot));
        Some(slot)
    }

    /// A client no longer acts for its worker: what it waits for is called off, and what it holds
    /// the worker holds alone. O(w log w + h).
    pub(super) fn end_service(&mut self, client: ClientId, place: u32, fx: &mut Effects) {
        while let Some(waiter) = self.holders.first_waiter(client) {
            let (_, ticket) = self.end_wait(waiter);
            fx.answer(ticket, Outcome::Cancelled);
        }
        while let Some(vigil) = self.vigils.first_of(client) {
            fx.answer(self.end_vigil(vigil).ticket, Outcome::Cancelled);
        }
        while let Some(slot) = self.holders.first_job(client) {
            self.holders.unlink(slot, &mut self.jobs);
            self.holders.link_away(place, slot, &mut self.jobs);
        }
        self.quit(client, place);
    }

    /// Nobody acts for this worker any more.
    pub(super) fn quit(&mut self, client: ClientId, place: u32) {
        self.holders.set_worker(client, None);
        self.workers.set_client(place, None);
    }

    /// O(h) for the jobs that the client and the worker hold, and what it costs to relieve whoever
    /// acted for the worker before, or the worker for whom the client did.
    pub(super) fn act_for(&mut self, ticket: Ticket, worker: WorkerId, fx: &mut Effects) {
        let Some(place) = self.workers.find(worker) else {
            return fx.answer(ticket, Outcome::NoWorker);
        };
        let client = ticket.client;
        if self.workers[place].client != Some(client) {
            if let Some(former) = self.holders.worker_of(client) {
                self.end_service(client, former, fx);
            }
            if let Some(former) = self.workers[place].client {
                self.end_service(former, place, fx);
            }
            for slot in self.holders.jobs_of(client.index, &self.jobs) {
                self.jobs[slot].set_worker(Some(worker));
                self.note_state(slot, fx);
            }
            while let Some(slot) = self.holders.first_away(place) {
                self.holders.unlink(slot, &mut self.jobs);
                self.holders.link(client, slot, &mut self.jobs);
            }
            self.holders.set_worker(client, Some(place));
            self.workers.set_client(place, Some(client));
        }
        fx.answer(ticket, Outcome::Done);
    }

    /// The workers on the list with this number or a later one, in the order in which they were
    /// enlisted. O(log w + how many there are).
    pub fn workers(&self, first: WorkerId) -> impl Iterator<Item = (WorkerId, Worker<'_>)> {
        self.workers.iter_from(first).filter_map(|(_, record)| {
            record.enlisted.as_ref().map(|worker| (record.id, worker.view()))
        })
    }

    /// Whether a worker is on the list. O(log w).
    #[must_use]
    pub fn is_on_list(&self, worker: WorkerId) -> bool {
        self.workers.find(worker).is_some()
    }

    /// How often the list of workers was changed. O(1).
    #[must_use]
    pub fn list_changes(&self) -> u64 {
        self.workers.changes()
    }

    /// The jobs that a worker holds, and under which leases. O(h).
    #[must_use]
    pub fn held_by(&self, worker: WorkerId) -> Vec<(JobId, Lease)> {
        let Some(place) = self.workers.find(worker) else { return Vec::new() };
        let slots = match self.workers[place].client {
            Some(client) => self.holders.jobs_of(client.index, &self.jobs),
            None => self.holders.jobs_away(place, &self.jobs),
        };
        let held = slots.into_iter().map(|slot| &self.jobs[slot]);
        held.map(|job| (JobId(job.id), job.lease())).collect()
    }

    /// O(log v).
    fn mind(&mut self, ticket: Ticket, id: JobId, lease: Lease, fx: &mut Effects) {
        let found = self.ids.find(id.0).filter(|&slot| {
            let job = &self.jobs[slot];
            job.status == Status::Held
                && self.holders.holds(ticket.client, job)
                && job.lease() == lease
        });
        match found {
            None => fx.answer(ticket, Outcome::Done),
            Some(slot) => {
                self.watch_over(ticket, slot, Aim::Free);
            }
        }
    }

    fn watch_over(&mut self, ticket: Ticket, slot: u32, aim: Aim) -> u32 {
        // A plain job ends without a look at those who wait for it.
        self.jobs[slot].enrich();
        self.vigils.begin(ticket, slot, aim)
    }

    /// O(log n).
    fn give_back(
        &mut self,
        ticket: Ticket,
        (id, lease): (JobId, Lease),
        never_again: bool,
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(slot) = self.find_anywhere(id, now, fx) else {
            return fx.answer(ticket, Outcome::NoJob);
        };
        let claim = self.claim(ticket, slot, Some(lease));
        let step = match step(&self.jobs[slot], Event::Release, claim) {
            Err(refusal) => return fx.answer(ticket, Outcome::Refused(refusal)),
            Ok(step) => step,
        };
        fx.answer(ticket, Outcome::Done);
        if self.jobs[slot].progress().is_some() {
            return;
        }
        if self.jobs[slot].is_recorded() {
            self.tell_event(slot, Event::Release, now, fx);
        }
        self.refund(slot, now);
        let worker = self.jobs[slot].worker().filter(|_| never_again);
        let remembered = worker.is_none_or(|worker| self.jobs[slot].refuse(worker));
        if remembered && self.has_shelf(slot) {
            return self.go_slowly(slot, step, now, fx);
        }
        // Offered to everybody at once, it would go in circles.
        self.note_state(slot, fx);
        self.withdraw(slot);
        self.jobs[slot].forget_refusals();
        let rest = u64::try_from(REFUSED_REST.as_millis()).unwrap_or(u64::MAX);
        self.delay(slot, rest, now, fx);
    }

    /// What the holder of a job asks for, told by the worker whose it is. O(log n).
    fn report(
        &mut self,
        ticket: Ticket,
        worker: WorkerId,
        id: JobId,
        report: &Report<'_>,
        now: Now,
        fx: &mut Effects,
    ) {
        if self.workers.find(worker).is_none() {
            return fx.answer(ticket, Outcome::NoWorker);
        }
        let found = self.find_anywhere(id, now, fx);
        let holds = |slot: &u32| {
            let job = &self.jobs[*slot];
            let meant = match *report {
                Report::Refused { lease, .. } => job.lease() == lease,
                Report::Success { .. } | Report::Failure { .. } => true,
            };
            job.worker() == Some(worker) && meant
        };
        let Some(slot) = found.filter(holds) else {
            return fx.answer(ticket, Outcome::NoJob);
        };
        if let Report::Refused { .. } = report
            && !self.jobs[slot].refuse(worker)
        {
            self.jobs[slot].forget_refusals();
        }
        let fail = |retry| Event::Fail { retry };
        let (event, note, message) = match *report {
            Report::Success { result } => (Event::Finish, result, None),
            Report::Failure { retry, error, message } => (fail(retry), error, Some(message)),
            Report::Refused { error, message, .. } => (fail(true), error, Some(message)),
        };
        let wish = Wish { note: Some(note), message, ..Wish::of(id, None, event) };
        self.change_for_holder(ticket, slot, &wish, now, fx);
    }

    /// How a job is going, or with `wait_ms` how it ends. O(log n).
    fn follow(
        &mut self,
        ticket: Ticket,
        id: JobId,
        wait_ms: Option<u64>,
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(slot) = self.find_anywhere(id, now, fx) else {
            return fx.answer(ticket, self.absence(id));
        };
        let has_ended = matches!(self.jobs[slot].status, Status::Kept | Status::Buried);
        if let Some(wait_ms) = wait_ms
            && !has_ended
        {
            let vigil = self.watch_over(ticket, slot, Aim::End);
            let at = now.mono.after(Duration::from_millis(wait_ms));
            self.vigils[vigil].timer = self.deadlines.arm(at, Due::Vigil(vigil));
            return;
        }
        self.show_progress(ticket, slot, fx);
    }

    /// What is said of a job that is not there.
    fn absence(&self, id: JobId) -> Outcome {
        let given_out = (1..self.next_id).contains(&id.0);
        let is_other = self.declared.contains_key(&id.0) || self.is_enlisted(id);
        if given_out && !is_other { Outcome::Gone } else { Outcome::NoJob }
    }

    fn is_enlisted(&self, id: JobId) -> bool {
        self.workers.find(WorkerId(id.0)).is_some()
    }

    /// Shows a job; a result that is fetched once goes. Tells whether the job is still there.
    fn show_progress(&mut self, ticket: Ticket, slot: u32, fx: &mut Effects) -> bool {
        let job = &self.jobs[slot];
        if job.status != Status::Kept || !job.terms().fetch_once {
            fx.answer(ticket, Outcome::Progress(JobSlot(slot)));
            return true;
        }
        let progress = OwnedProgress::new(&self.progress(JobSlot(slot)));
        // Proof: one call answers less than it applies to, which slots of 32 bits number.
        let number = u32::try_from(fx.fetched.len()).expect("answers are numbered by 32 bits");
        fx.fetched.push(progress);
        fx.answer(ticket, Outcome::Fetched(number));
        self.withdraw(slot);
        drop(self.remove(slot, fx));
        false
    }

    /// Everything about the job in `slot`, and who works on it. O(1).
    ///
    /// # Panics
    /// As [`Store::view`].
    #[must_use]
    pub fn progress(&self, slot: JobSlot) -> Progress<'_> {
        let job = &self.jobs[slot.0];
        Progress { sight: self.sight(slot), worker: job.worker(), message: job.message() }
    }

    /// O(log n).
    fn call_off(&mut self, ticket: Ticket, id: JobId, now: Now, fx: &mut Effects) {
        let Some(slot) = self.find_anywhere(id, now, fx) else {
            return fx.answer(ticket, self.absence(id));
        };
        let job = &self.jobs[slot];
        if !job.waits() {
            return fx.answer(ticket, Outcome::Refused(Refusal::TooLate(id)));
        }
        let queue = job.queue;
        self.withdraw(slot);
        drop(self.remove(slot, fx));
        fx.answer(ticket, Outcome::Done);
        self.first_left(queue, now, fx);
    }

    /// A job has come to its end: those who waited for it are told, in the order in which they
    /// came. O(log v) for each.
    pub(super) fn tell_end(&mut self, slot: u32, fx: &mut Effects) {
        while let Some(vigil) = self.vigils.first_for(slot, Aim::End) {
            let ticket = self.end_vigil(vigil).ticket;
            if !self.show_progress(ticket, slot, fx) {
                return;
            }
        }
    }

    /// Nobody holds a job any more, which is still in its holder's hands as far as it says.
    pub(super) fn leave_holder(&mut self, slot: u32) {
        self.jobs[slot].set_worker(None);
        self.jobs[slot].set_progress(None);
        while let Some(vigil) = self.vigils.first_for(slot, Aim::Free) {
            let ticket = self.end_vigil(vigil).ticket;
            self.told.push((ticket, Outcome::Done));
        }
    }

    /// A job is about to be removed: whoever waits for it is told. O(log v) for each.
    #[cold]
    pub(super) fn end_vigils(&mut self, slot: u32) {
        for aim in [Aim::Free, Aim::End] {
            while let Some(vigil) = self.vigils.first_for(slot, aim) {
                let ticket = self.end_vigil(vigil).ticket;
                let outcome = if aim == Aim::Free { Outcome::Done } else { Outcome::Gone };
                self.told.push((ticket, outcome));
            }
        }
    }

    /// O(log v + log d).
    pub(super) fn end_vigil(&mut self, vigil: u32) -> Vigil {
        let vigil = self.vigils.end(vigil);
        if !vigil.timer.is_none() {
            self.deadlines.cancel(vigil.timer);
        }
        vigil
    }

    /// Answers the vigils that have ended on the way, behind everything else.
    #[cold]
    pub(super) fn tell_vigils(&mut self, fx: &mut Effects) {
        for (ticket, outcome) in self.told.drain(..) {
            fx.answer(ticket, outcome);
        }
    }
}

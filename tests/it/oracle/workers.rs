//! Registered workers and job watchers: commands about tracked jobs.
//!
//! As with indexed queues, all due timers fire before anything else happens.

use super::matching::ANYWHERE;
use super::timers::Due;
use super::types::{Answer, Load, Text};
use super::{Job, Oracle, Waiter};
use jobcentre::model::event::EventKind;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{LeaseEpoch, Status};

/// What kind of failure a worker reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    Retry,
    Final,
    /// Under which lease.
    Rejected(LeaseEpoch),
}

/// The name of every registered worker.
pub(crate) const WORKER_NAME: &str = "w";

/// A worker of the registry.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    pub(crate) id: u64,
    client: Option<ClientId>,
    url: &'static str,
}

/// What a job watcher waits for. The order is that in which they are told that a job is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Awaited {
    /// The end of its reservation.
    Release,
    /// Its end, by a client that follows it.
    End,
    /// Its end, by a client of the native API.
    NativeEnd,
}

/// A job watcher.
#[derive(Clone, Debug)]
pub(crate) struct Watcher {
    pub(crate) ticket: Ticket,
    pub(super) id: u64,
    pub(super) awaited: Awaited,
    pub(super) due: Option<Due>,
}

impl Watcher {
    fn ends(&self) -> bool {
        self.awaited != Awaited::Release
    }
}

impl Oracle {
    /// A watcher for the end of a job that is over, whose time is over too: both are due in one
    /// pass, in which the engine may come across the job before it comes to the wait.
    pub(crate) fn may_reply_either_way(&self) -> Vec<Ticket> {
        let is_over = |id| self.find(id).is_some_and(|job| self.is_over(job));
        let is_due = |it: &&Watcher| it.due.is_some_and(|due| due.at <= self.now.mono);
        let both = self.watchers.iter().filter(is_due).filter(|it| it.ends() && is_over(it.id));
        both.map(|watcher| watcher.ticket).collect()
    }

    /// Whether there is a watcher for the end of a job that is over: the engine tells it when it
    /// comes across the job, which may be before earlier deadlines.
    pub(crate) fn may_notify_early(&self) -> bool {
        let is_over = |id| self.find(id).is_some_and(|job| self.is_over(job));
        self.watchers.iter().any(|watcher| watcher.ends() && is_over(watcher.id))
    }

    /// The worker for whom a client acts.
    pub(super) fn worker_of(&self, client: ClientId) -> Option<u64> {
        let acts = |worker: &&Worker| worker.client == Some(client);
        self.workers.iter().find(acts).map(|worker| worker.id)
    }

    pub(crate) fn register(&mut self, ticket: Ticket, url: &'static str) {
        self.see("work: register");
        self.last_id += 1;
        self.registered += 1;
        let former = self.workers.iter().find(|worker| worker.url == url);
        let former = former.map(|worker| worker.id);
        self.workers.push(Worker { id: self.last_id, client: None, url });
        self.reply(ticket, Answer::Worker(self.last_id));
        if let Some(former) = former {
            self.see("register: in place of another one");
            self.remove_worker(former);
        }
    }

    pub(crate) fn deregister(&mut self, ticket: Ticket, id: u64) {
        self.see("work: deregister");
        if self.workers.iter().all(|worker| worker.id != id) {
            return self.reply(ticket, Answer::NoWorker);
        }
        self.reply(ticket, Answer::Done);
        self.remove_worker(id);
    }

    fn remove_worker(&mut self, id: u64) {
        let worker = self.workers.iter().find(|worker| worker.id == id);
        if let Some(client) = worker.unwrap().client {
            self.end_service(client);
        }
        self.workers.retain(|worker| worker.id != id);
        let held = self.jobs.iter().filter(|job| job.worker == Some(id));
        let held: Vec<u64> = held.map(|job| job.id).collect();
        if !held.is_empty() {
            self.see("deregister: jobs go back");
        }
        for &id in &held {
            self.record_event(id, EventKind::Abandoned);
        }
        self.requeue_all(&held);
    }

    pub(crate) fn attach(&mut self, ticket: Ticket, id: u64) {
        self.see("work: attach");
        let Some(worker) = self.workers.iter().find(|worker| worker.id == id) else {
            return self.reply(ticket, Answer::NoWorker);
        };
        let (client, former) = (ticket.client, worker.client);
        if former != Some(client) {
            self.see("attach: another one than before");
            if self.worker_of(client).is_some() {
                self.end_service(client);
            }
            if let Some(former) = former {
                self.end_service(former);
            }
            for job in self.jobs.iter_mut().filter(|job| job.holder == Some(client)) {
                job.worker = Some(id);
            }
            let detached = |job: &Job| job.worker == Some(id) && job.holder != Some(client);
            for number in self.linked(detached) {
                let taken = self.tick();
                let job = self.job(number);
                (job.holder, job.taken) = (Some(client), taken);
            }
            let worker = self.workers.iter_mut().find(|worker| worker.id == id);
            worker.unwrap().client = Some(client);
        }
        self.reply(ticket, Answer::Done);
    }

    /// A client no longer acts for a worker, which keeps what it holds.
    fn end_service(&mut self, client: ClientId) {
        let waiters = self.waiters.extract_if(.., |waiter| waiter.ticket.client == client);
        let mut waiters: Vec<Ticket> = waiters.map(|waiter| waiter.ticket).collect();
        waiters.reverse();
        let watchers = self.watchers.extract_if(.., |watcher| watcher.ticket.client == client);
        let mut watchers: Vec<Ticket> = watchers.map(|watcher| watcher.ticket).collect();
        watchers.sort_unstable();
        for ticket in waiters.into_iter().chain(watchers) {
            self.see("detach: a wait ends with it");
            self.reply(ticket, Answer::Cancelled);
        }
        for id in self.linked(|job| job.holder == Some(client)) {
            let taken = self.tick();
            let job = self.job(id);
            (job.holder, job.taken) = (None, taken);
        }
        self.detach(client);
    }

    /// These jobs, the one that was reserved last first.
    fn linked(&self, such: impl Fn(&Job) -> bool) -> Vec<u64> {
        let mut jobs: Vec<&Job> = self.jobs.iter().filter(|job| such(job)).collect();
        jobs.sort_by_key(|job| std::cmp::Reverse(job.taken));
        jobs.into_iter().map(|job| job.id).collect()
    }

    pub(super) fn detach(&mut self, client: ClientId) {
        for worker in self.workers.iter_mut().filter(|worker| worker.client == Some(client)) {
            worker.client = None;
        }
    }

    pub(crate) fn reserve_any(&mut self, ticket: Ticket) {
        self.see("work: reserve any");
        if let Some(id) = self.best_of(&[ANYWHERE], ticket.client) {
            let queue = self.find(id).unwrap().queue;
            self.hand_out(id, ticket);
            return self.serve(&[queue]);
        }
        let places = vec![(ANYWHERE, self.tick())];
        self.waiters.push(Waiter { ticket, pops: false, places, due: None, until: None });
    }

    pub(crate) fn await_release(&mut self, ticket: Ticket, id: JobId, lease: LeaseEpoch) {
        self.see("work: await release");
        let holds = |job: &Job| job.holder == Some(ticket.client) && job.lease == lease.0;
        if self.find(id.0).is_some_and(holds) {
            self.see("await release: of a job that is held");
            self.watchers.push(Watcher { ticket, id: id.0, awaited: Awaited::Release, due: None });
        } else {
            self.reply(ticket, Answer::Done);
        }
    }

    /// `exclude`: the worker is not offered the job again.
    pub(crate) fn return_unstarted(
        &mut self,
        ticket: Ticket,
        id: JobId,
        lease: LeaseEpoch,
        exclude: bool,
    ) {
        self.see("work: return unstarted");
        self.as_holder(ticket, id, Some(lease), |oracle, id| {
            if oracle.job(id).has_progress() {
                return oracle.see("work: return of a job that was begun");
            }
            if exclude {
                oracle.exclude(id);
            }
            oracle.record_event(id, EventKind::Aborted);
            oracle.requeue(id);
        });
    }

    /// The worker that holds a job is not offered it again.
    fn exclude(&mut self, id: u64) {
        let job = self.job(id);
        if let Some(worker) = job.worker
            && !job.refused_by.contains(&worker)
        {
            job.refused_by.push(worker);
            job.refused_by.sort_unstable();
            self.see("rejected by a worker");
        }
    }

    pub(crate) fn report(
        &mut self,
        ticket: Ticket,
        (worker, id): (u64, JobId),
        result: Load,
        failure: Option<(FailureKind, Text)>,
    ) {
        self.see("work: report");
        if self.workers.iter().all(|known| known.id != worker) {
            return self.reply(ticket, Answer::NoWorker);
        }
        let Some(job) = self.known(id.0).filter(|job| job.worker == Some(worker)) else {
            return self.reply(ticket, Answer::NoJob);
        };
        let (queue, current, detached) = (job.queue, job.lease, job.holder.is_none());
        if let Some((FailureKind::Rejected(lease), _)) = failure
            && lease.0 != current
        {
            self.see("report: a rejection that is late");
            return self.reply(ticket, Answer::NoJob);
        }
        self.see(if failure.is_some() { "report: a failure" } else { "report: a success" });
        if detached {
            self.see("report: of a worker without a client");
        }
        self.reply(ticket, Answer::Done);
        match failure {
            None => self.complete(id.0, Some(result)),
            Some((kind, message)) => {
                if let FailureKind::Rejected(_) = kind {
                    self.exclude(id.0);
                }
                self.fail_run(id.0, kind != FailureKind::Final, result, Some(message));
            }
        }
        self.serve_after(id.0, queue, false);
    }

    pub(crate) fn get_status(&mut self, ticket: Ticket, id: JobId) {
        self.see("work: get status");
        self.reply_status(ticket, id);
    }

    fn reply_status(&mut self, ticket: Ticket, id: JobId) {
        if self.known(id.0).is_some() {
            return self.show_progress(ticket, id.0);
        }
        let absence = self.absence(id);
        self.reply(ticket, absence);
    }

    pub(crate) fn await_result(&mut self, ticket: Ticket, id: JobId, wait_ms: u64) {
        self.see("work: await result");
        let ended = |job: &Job| matches!(job.status, Status::Completed | Status::Buried);
        if self.known(id.0).is_none_or(ended) {
            return self.reply_status(ticket, id);
        }
        let end = if wait_ms == 0 { Some(self.now.mono) } else { self.end_of(wait_ms) };
        let due = self.arm(end);
        self.watchers.push(Watcher { ticket, id: id.0, awaited: Awaited::End, due });
    }

    fn absence(&self, id: JobId) -> Answer {
        let given_out = (1..=self.last_id).contains(&id.0);
        let is_worker = self.workers.iter().any(|worker| worker.id == id.0);
        if given_out && !is_worker { Answer::Gone } else { Answer::NoJob }
    }

    /// Shows a job; a result that is fetched once goes.
    fn show_progress(&mut self, ticket: Ticket, id: u64) {
        let job = self.find(id).unwrap();
        let fetched = job.status == Status::Completed && job.options().result_once;
        let retried = job.retries > 0;
        let word = match job.status {
            Status::Reserved => "running",
            Status::Completed => "done",
            Status::Buried => "error",
            _ if retried => "retrying",
            _ => "queued",
        };
        let progress = Answer::Progress {
            view: job.view(),
            word,
            due: job.due.map(|due| due.at),
            retries: job.retries,
            result: job.result.clone(),
            worker: job.worker,
            message: job.message.clone(),
        };
        self.reply(ticket, progress);
        if fetched {
            self.see("fetched, and gone");
            self.remove(id);
        }
    }

    pub(crate) fn cancel_job(&mut self, ticket: Ticket, id: JobId) {
        self.see("work: cancel");
        let Some(job) = self.known(id.0) else {
            let absence = self.absence(id);
            return self.reply(ticket, absence);
        };
        if !matches!(job.status, Status::Ready | Status::GroupOnly | Status::Delayed) {
            return self.reply(ticket, Answer::TooLate);
        }
        let (queue, was_in_front) = (job.queue, self.is_in_front(job));
        self.remove(id.0);
        self.reply(ticket, Answer::Done);
        self.serve_after(id.0, queue, was_in_front);
    }

    /// This job is not reserved any more.
    pub(super) fn end_reservation(&mut self, id: u64) {
        let job = self.job(id);
        (job.holder, job.worker) = (None, None);
        job.runs.end();
        self.notify(id, Awaited::Release, &Answer::Done);
    }

    /// This job is about to be gone.
    pub(super) fn notify_gone(&mut self, id: u64) {
        self.notify(id, Awaited::End, &Answer::Gone);
        self.notify(id, Awaited::NativeEnd, &Answer::Gone);
    }

    /// What watchers are told comes behind everything else.
    pub(super) fn notify(&mut self, id: u64, awaited: Awaited, said: &Answer) {
        let is_meant = |watcher: &mut Watcher| watcher.id == id && watcher.awaited == awaited;
        for watcher in self.watchers.extract_if(.., is_meant) {
            self.told.push((watcher.ticket, said.clone()));
        }
    }

    /// This job is finished or has failed for good.
    pub(super) fn notify_end(&mut self, id: u64) {
        let meant = |watcher: &Watcher| watcher.id == id && watcher.awaited == Awaited::NativeEnd;
        while let Some(place) = self.watchers.iter().position(meant) {
            self.see("told of an end, natively");
            let ticket = self.watchers.remove(place).ticket;
            self.reply_details(ticket, id);
        }
        let meant = |watcher: &Watcher| watcher.id == id && watcher.awaited == Awaited::End;
        while self.find(id).is_some()
            && let Some(place) = self.watchers.iter().position(meant)
        {
            self.see("told of an end");
            let ticket = self.watchers.remove(place).ticket;
            self.show_progress(ticket, id);
        }
    }
}

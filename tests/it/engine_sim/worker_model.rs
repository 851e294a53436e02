//! The oracle's workers and job watchers: commands about tracked jobs.
//!
//! As with indexed queues, all due timers fire before anything else happens.

use super::constraint_model::{CONSTRAINT_NAMES, ConstraintSpec};
use super::matching_model::ANYWHERE;
use super::store_model::{Due, Job, Model, Waiter};
use super::types::{Answer, Load, Request, Text};
use jobcentre::base::strings::StringList;
use jobcentre::model::event::EventKind;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{LeaseEpoch, Status};
use jobcentre::model::worker::{RunOutcome, Worker as Enlisting, WorkerCommand, WorkerId};

/// Workers that are ever enlisted in one run.
pub(super) const WORKERS: usize = 5;

/// Where workers listen.
pub(super) const ADDRESSES: [&str; 4] = ["http://w", "http://w/x", "http://v:81", "https://w"];

/// What is asked.
#[derive(Clone, Debug)]
pub(super) enum WorkerAsk {
    /// At the address of this number.
    Enlist(usize),
    Dismiss(u64),
    Serve(u64),
    TakeAny,
    Mind(JobId, LeaseEpoch),
    GiveBack {
        id: JobId,
        lease: LeaseEpoch,
        never_again: bool,
    },
    Report {
        worker: u64,
        id: JobId,
        result: Load,
        failure: Option<(FailureKind, Text)>,
    },
    Follow(JobId),
    Await(JobId, u64),
    Cancel(JobId),
    Constrain(ConstraintSpec),
    Free(usize),
}

/// What kind of failure a worker reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    Retry,
    Final,
    /// Under which lease.
    Refused(LeaseEpoch),
}

impl WorkerAsk {
    /// Hands it, in the model's form, to `ask`.
    pub(super) fn with_work(&self, ask: impl FnOnce(&WorkerCommand<'_>)) {
        let mut queues = StringList::default();
        queues.push(b"a");
        let worker = |id| WorkerId(id);
        let work = match *self {
            Self::Enlist(at) => {
                let (url, queues) = (ADDRESSES[at], Some(&queues));
                WorkerCommand::Register(Enlisting { name: "w", url, max_jobs: 1, queues })
            }
            Self::Dismiss(id) => WorkerCommand::Deregister { worker: worker(id) },
            Self::Serve(id) => WorkerCommand::Attach { worker: worker(id) },
            Self::TakeAny => WorkerCommand::ReserveAny,
            Self::Mind(id, lease) => WorkerCommand::AwaitRelease { id, lease },
            Self::GiveBack { id, lease, never_again } => {
                WorkerCommand::ReturnUnstarted { id, lease, exclude: never_again }
            }
            Self::Report { worker: of, id, ref result, ref failure } => {
                let error = result.payload();
                let message = failure.as_ref().map_or(b"".as_slice(), |(_, text)| text.bytes());
                let message = std::str::from_utf8(message).unwrap();
                let report = match failure.as_ref().map(|(severity, _)| *severity) {
                    None => RunOutcome::Success { result: error },
                    Some(FailureKind::Refused(lease)) => {
                        RunOutcome::Rejected { lease, error, message }
                    }
                    Some(severity) => RunOutcome::Failure {
                        retry: severity == FailureKind::Retry,
                        error,
                        message,
                    },
                };
                WorkerCommand::Report { worker: worker(of), id, report }
            }
            Self::Follow(id) => WorkerCommand::GetStatus { id },
            Self::Await(id, wait_ms) => WorkerCommand::AwaitResult { id, wait_ms },
            Self::Cancel(id) => WorkerCommand::Cancel { id },
            Self::Constrain(ref constraint) => {
                return ask(&WorkerCommand::SetConstraint(&constraint.constraint()));
            }
            Self::Free(name) => WorkerCommand::RemoveConstraint { name: CONSTRAINT_NAMES[name] },
        };
        ask(&work);
    }

    pub(super) fn id_mut(&mut self) -> Option<&mut JobId> {
        match self {
            Self::Enlist(_)
            | Self::Dismiss(_)
            | Self::Serve(_)
            | Self::TakeAny
            | Self::Constrain(_)
            | Self::Free(_) => None,
            Self::Mind(id, _)
            | Self::GiveBack { id, .. }
            | Self::Report { id, .. }
            | Self::Follow(id)
            | Self::Await(id, _)
            | Self::Cancel(id) => Some(id),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Enlist(_) => "work: enlist",
            Self::Dismiss(_) => "work: dismiss",
            Self::Serve(_) => "work: serve",
            Self::TakeAny => "work: take any",
            Self::Mind(..) => "work: mind",
            Self::GiveBack { .. } => "work: give back",
            Self::Report { .. } => "work: report",
            Self::Follow(_) => "work: follow",
            Self::Await(..) => "work: await",
            Self::Cancel(_) => "work: cancel",
            Self::Constrain(_) => "work: constrain",
            Self::Free(_) => "work: free",
        }
    }
}

/// A worker on the list.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) id: u64,
    client: Option<ClientId>,
    /// The number of its address.
    at: usize,
}

/// A job watcher.
#[derive(Clone, Debug)]
pub(super) struct Vigil {
    pub(super) ticket: Ticket,
    id: u64,
    /// Whether for its end; else for its place.
    end: bool,
    pub(super) due: Option<Due>,
}

impl Model {
    /// A watcher for the end of a job that is over, whose time is over too: both are due in one
    /// pass, in which the engine may come across the job before it comes to the wait.
    pub(super) fn told_either_way(&self) -> Vec<Ticket> {
        let is_over = |id| self.find(id).is_some_and(|job| self.is_over(job));
        let is_due = |vigil: &&Vigil| vigil.due.is_some_and(|due| due.at <= self.now);
        let both = self.vigils.iter().filter(is_due).filter(|vigil| vigil.end && is_over(vigil.id));
        both.map(|vigil| vigil.ticket).collect()
    }

    /// Whether there is a watcher for the end of a job that is over: the engine tells it when it
    /// comes across the job, which may be before earlier deadlines.
    pub(super) fn may_tell_early(&self) -> bool {
        let is_over = |id| self.find(id).is_some_and(|job| self.is_over(job));
        self.vigils.iter().any(|vigil| vigil.end && is_over(vigil.id))
    }

    /// The worker for whom a client acts.
    pub(super) fn worker_of(&self, client: ClientId) -> Option<u64> {
        let serves = |worker: &&Worker| worker.client == Some(client);
        self.workers.iter().find(serves).map(|worker| worker.id)
    }

    pub(super) fn work(&mut self, ticket: Ticket, labour: &WorkerAsk) {
        match *labour {
            WorkerAsk::Enlist(at) => {
                self.last_id += 1;
                self.enlisted += 1;
                let former = self.workers.iter().find(|worker| worker.at == at);
                let former = former.map(|worker| worker.id);
                self.workers.push(Worker { id: self.last_id, client: None, at });
                self.say(ticket, Answer::Worker(self.last_id));
                if let Some(former) = former {
                    self.see("enlist: in place of another one");
                    self.remove_worker(former);
                }
            }
            WorkerAsk::Dismiss(id) => self.dismiss(ticket, id),
            WorkerAsk::Serve(id) => self.act_for(ticket, id),
            WorkerAsk::TakeAny => self.take_any(ticket),
            WorkerAsk::Mind(id, lease) => {
                let holds = |job: &Job| job.holder == Some(ticket.client) && job.lease == lease.0;
                if self.find(id.0).is_some_and(holds) {
                    self.see("mind: a place that is taken");
                    self.vigils.push(Vigil { ticket, id: id.0, end: false, due: None });
                } else {
                    self.say(ticket, Answer::Done);
                }
            }
            WorkerAsk::GiveBack { id, lease, never_again } => {
                self.give_back(ticket, id, lease, never_again);
            }
            WorkerAsk::Report { worker, id, ref result, ref failure } => {
                self.report(ticket, worker, id, result, failure.as_ref());
            }
            WorkerAsk::Follow(id) => self.follow(ticket, id),
            WorkerAsk::Await(id, wait_ms) => {
                let ended = |job: &Job| matches!(job.status, Status::Completed | Status::Buried);
                if self.known(id).is_none_or(ended) {
                    return self.follow(ticket, id);
                }
                let end = if wait_ms == 0 { Some(self.now) } else { self.end_of(wait_ms) };
                let due = self.arm(end);
                self.vigils.push(Vigil { ticket, id: id.0, end: true, due });
            }
            WorkerAsk::Cancel(id) => self.call_off(ticket, id),
            WorkerAsk::Constrain(ref constraint) => self.constrain(ticket, constraint),
            WorkerAsk::Free(name) => self.free(ticket, name),
        }
    }

    /// A client no longer acts for a worker, which keeps what it holds.
    fn end_service(&mut self, client: ClientId) {
        let mine = |waiter: &&Waiter| waiter.ticket.client == client;
        let newest_first = self.waiters.iter().rev().filter(mine).map(|waiter| waiter.ticket);
        let mut tickets: Vec<Ticket> = newest_first.collect();
        self.waiters.retain(|waiter| waiter.ticket.client != client);
        let vigils = self.vigils.iter().map(|vigil| vigil.ticket);
        let mut more: Vec<Ticket> = vigils.filter(|ticket| ticket.client == client).collect();
        more.sort_unstable();
        self.vigils.retain(|vigil| vigil.ticket.client != client);
        tickets.append(&mut more);
        for ticket in tickets {
            self.see("service: a wait ends with it");
            self.say(ticket, Answer::Cancelled);
        }
        for job in self.jobs.iter_mut().filter(|job| job.holder == Some(client)) {
            job.holder = None;
        }
        self.quit(client);
    }

    /// A client is not attached.
    pub(super) fn quit(&mut self, client: ClientId) {
        for worker in self.workers.iter_mut().filter(|worker| worker.client == Some(client)) {
            worker.client = None;
        }
    }

    fn dismiss(&mut self, ticket: Ticket, id: u64) {
        if self.workers.iter().all(|worker| worker.id != id) {
            return self.say(ticket, Answer::NoWorker);
        }
        self.say(ticket, Answer::Done);
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
            self.see("dismiss: jobs go back");
        }
        for &id in &held {
            self.happen(id, EventKind::Abandoned);
        }
        self.come_back(&held);
    }

    fn act_for(&mut self, ticket: Ticket, id: u64) {
        let Some(worker) = self.workers.iter().find(|worker| worker.id == id) else {
            return self.say(ticket, Answer::NoWorker);
        };
        let (client, former) = (ticket.client, worker.client);
        if former != Some(client) {
            self.see("serve: another one than before");
            if self.worker_of(client).is_some() {
                self.end_service(client);
            }
            if let Some(former) = former {
                self.end_service(former);
            }
            for job in &mut self.jobs {
                if job.holder == Some(client) {
                    job.worker = Some(id);
                } else if job.worker == Some(id) {
                    job.holder = Some(client);
                }
            }
            let worker = self.workers.iter_mut().find(|worker| worker.id == id);
            worker.unwrap().client = Some(client);
        }
        self.say(ticket, Answer::Done);
    }

    fn take_any(&mut self, ticket: Ticket) {
        if let Some(id) = self.best_of(&[ANYWHERE], ticket.client) {
            let queue = self.find(id).unwrap().queue;
            self.hand_out(id, ticket);
            return self.serve(&[queue]);
        }
        let lines = vec![(ANYWHERE, self.tick())];
        self.waiters.push(Waiter { ticket, pops: false, lines, due: None });
    }

    fn give_back(&mut self, ticket: Ticket, id: JobId, lease: LeaseEpoch, never_again: bool) {
        if let Some(refused) = self.refusal(ticket.client, id, Some(lease)) {
            return self.say(ticket, refused);
        }
        self.say(ticket, Answer::Done);
        if never_again {
            self.refuse(id.0);
        }
        self.happen(id.0, EventKind::Aborted);
        let queue = self.job(id.0).queue;
        self.go_back(id.0);
        self.serve_after(id.0, queue, false);
    }

    /// The worker that holds a job is not offered it again.
    fn refuse(&mut self, id: u64) {
        let job = self.job(id);
        if let Some(worker) = job.worker
            && !job.refused_by.contains(&worker)
        {
            job.refused_by.push(worker);
            job.refused_by.sort_unstable();
            self.see("refused by a worker");
        }
    }

    fn report(
        &mut self,
        ticket: Ticket,
        worker: u64,
        id: JobId,
        result: &Load,
        failure: Option<&(FailureKind, Text)>,
    ) {
        if self.workers.iter().all(|known| known.id != worker) {
            return self.say(ticket, Answer::NoWorker);
        }
        if self.known(id).is_none_or(|job| job.worker != Some(worker)) {
            return self.say(ticket, Answer::NoJob);
        }
        if let Some(&(FailureKind::Refused(lease), _)) = failure
            && self.find(id.0).is_some_and(|job| job.lease != lease.0)
        {
            self.see("report: a refusal that is late");
            return self.say(ticket, Answer::NoJob);
        }
        self.see(if failure.is_some() { "report: a failure" } else { "report: a success" });
        if self.find(id.0).is_some_and(|job| job.holder.is_none()) {
            self.see("report: of a worker without a client");
        }
        self.say(ticket, Answer::Done);
        let ask = match failure {
            None => Request::Finish(id, None, result.clone()),
            Some(&(severity, _)) => {
                if let FailureKind::Refused(_) = severity {
                    self.refuse(id.0);
                }
                let retry = severity != FailureKind::Final;
                Request::Fail { id, lease: None, retry, error: result.clone() }
            }
        };
        self.end_of_work(id.0, &ask, failure.map(|(_, message)| message.clone()));
    }

    fn follow(&mut self, ticket: Ticket, id: JobId) {
        if self.known(id).is_some() {
            return self.show_progress(ticket, id.0);
        }
        let absence = self.absence(id);
        self.say(ticket, absence);
    }

    fn absence(&self, id: JobId) -> Answer {
        let known = (1..=self.last_id).contains(&id.0);
        let is_worker = self.workers.iter().any(|worker| worker.id == id.0);
        if known && !is_worker { Answer::Gone } else { Answer::NoJob }
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
        self.say(ticket, progress);
        if fetched {
            self.see("fetched, and gone");
            self.gone(id);
        }
    }

    fn call_off(&mut self, ticket: Ticket, id: JobId) {
        let Some(job) = self.known(id) else {
            let absence = self.absence(id);
            return self.say(ticket, absence);
        };
        if !matches!(job.status, Status::Ready | Status::GroupOnly | Status::Delayed) {
            return self.say(ticket, Answer::TooLate);
        }
        let (queue, was_in_front) = (job.queue, self.is_in_front(job));
        self.gone(id.0);
        self.say(ticket, Answer::Done);
        self.serve_after(id.0, queue, was_in_front);
    }

    /// This job is not reserved any more.
    pub(super) fn let_go(&mut self, id: u64) {
        let job = self.job(id);
        (job.holder, job.worker) = (None, None);
        self.tell_those(|vigil| vigil.id == id && !vigil.end, &Answer::Done);
    }

    /// This job is about to be gone.
    pub(super) fn tell_gone(&mut self, id: u64) {
        self.tell_those(|vigil| vigil.id == id, &Answer::Gone);
    }

    fn tell_those(&mut self, who: impl Fn(&Vigil) -> bool, said: &Answer) {
        for vigil in self.vigils.extract_if(.., |vigil| who(vigil)) {
            self.told.push((vigil.ticket, said.clone()));
        }
    }

    /// This job is finished or has failed for good.
    pub(super) fn tell_end(&mut self, id: u64) {
        while self.find(id).is_some()
            && let Some(place) = self.vigils.iter().position(|vigil| vigil.id == id && vigil.end)
        {
            self.see("told of an end");
            let ticket = self.vigils.remove(place).ticket;
            self.show_progress(ticket, id);
        }
    }

    /// What vigils are told behind everything else.
    pub(super) fn tell(&mut self) {
        for (ticket, said) in std::mem::take(&mut self.told) {
            self.say(ticket, said);
        }
    }
}

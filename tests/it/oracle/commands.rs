//! Commands about jobs, of clients of any kind.

use super::dependencies::{Dependent, Deps};
use super::keys::Key;
use super::runs::Runs;
use super::types::{Answer, Load, Queue, Replies, Urgency};
use super::{Job, Oracle, Waiter};
use jobcentre::base::time::Mono;
use jobcentre::model::command::Wait;
use jobcentre::model::consumer::JobTally;
use jobcentre::model::event::EventKind;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{JobOptions, LeaseEpoch, Status, TieBreak};
use jobcentre::model::reply::Rejection;

/// What is put.
#[derive(Clone, Debug)]
pub(crate) struct NewJob {
    pub(crate) queue: Queue,
    pub(crate) priority: Urgency,
    pub(crate) tie_break: TieBreak,
    pub(crate) load: Load,
    pub(crate) options: Option<JobOptions>,
    pub(crate) key: Option<Key>,
    pub(crate) deps: Deps,
}

impl NewJob {
    /// Behind those of its priority, without options, key and dependencies.
    pub(crate) fn plain(queue: Queue, priority: Urgency, load: Load) -> Self {
        let (options, key, deps) = (None, None, Deps::default());
        Self { queue, priority, tie_break: TieBreak::Fifo, load, options, key, deps }
    }
}

impl Oracle {
    /// Performs a command; the answers to all clients are returned.
    pub(crate) fn submit(&mut self, command: impl FnOnce(&mut Self)) -> Replies {
        self.run(|oracle| {
            oracle.notice();
            command(oracle);
            oracle.serve_ended();
            oracle.notice();
        })
    }

    pub(crate) fn put(&mut self, ticket: Ticket, job: NewJob) {
        self.see("command: put");
        let (queue, delayed) = (job.queue, job.options.is_some_and(|it| it.delay_ms > 0));
        let id = self.add(job);
        self.reply(ticket, Answer::Put(id));
        if !delayed {
            self.requeue(id);
            self.serve(&[queue]);
        }
    }

    /// A new job, as if it were delayed.
    pub(super) fn add(&mut self, job: NewJob) -> u64 {
        let NewJob { queue, priority, tie_break, load, options, key, deps } = job;
        let waits_for = self.waits_of(&deps);
        let dependent = Dependent { deps, waits_for, ..Dependent::default() };
        self.last_id += 1;
        self.register_queue(queue);
        self.managed[queue].puts += 1;
        let id = self.last_id;
        let JobOptions { delay_ms, ttl_ms, .. } = options.unwrap_or_default();
        // A life that would last until the end of time is one without limit.
        let ttl_end = self.end_of(ttl_ms).filter(|end| end.0 < u64::MAX);
        let delay_end = self.end_of(delay_ms);
        let due = self.arm([delay_end, ttl_end].into_iter().flatten().min());
        self.jobs.push(Job {
            id,
            queue,
            priority,
            tie_break,
            load,
            options,
            status: Status::Delayed,
            holder: None,
            worker: None,
            lease: 0,
            retries: 0,
            result: None,
            message: None,
            refused_by: Vec::new(),
            ttl_end,
            due,
            buried: 0,
            created: self.created(),
            record: None,
            doubtful: false,
            taken: 0,
            runs: Runs::default(),
            tally: JobTally::default(),
            key,
            dependent,
        });
        if self.find(id).is_some_and(Job::is_held) {
            self.hold_back(id, delay_end);
        }
        self.record_new(id);
        id
    }

    pub(crate) fn reserve(&mut self, ticket: Ticket, queues: &[Queue], wait: Wait) {
        self.see("command: reserve");
        match self.best_of(queues, ticket.client) {
            Some(id) => {
                let queue = self.find(id).unwrap().queue;
                if self.has_waiters(queue) {
                    self.see("too large: taken before waiting pops");
                }
                self.hand_out(id, ticket);
                self.serve(&[queue]);
            }
            None => self.wait_or_reply(ticket, queues, wait),
        }
    }

    /// A reserve that has found no job.
    pub(super) fn wait_or_reply(&mut self, ticket: Ticket, queues: &[Queue], wait: Wait) {
        match wait {
            Wait::No => self.reply(ticket, Answer::NoJob),
            Wait::UntilLeaseEnds(wait_ms) => self.wait_until_lease_ends(ticket, queues, wait_ms),
            _ => self.wait(ticket, false, queues, wait),
        }
    }

    pub(crate) fn pop(&mut self, ticket: Ticket, queues: &[Queue], wait: Wait) {
        self.see("command: pop");
        let waits = wait != Wait::No;
        match self.first_of(queues, ticket.client, waits) {
            Some(id) if self.find(id).unwrap().load.is_too_large() => {
                self.see("a job was too large to be popped");
                self.reply(ticket, Answer::TooLarge(id));
            }
            Some(id) => {
                let queue = self.find(id).unwrap().queue;
                self.pop_out(id, ticket);
                self.serve(&[queue]);
            }
            None if !waits => self.reply(ticket, Answer::NoJob),
            None => {
                if self.best_of(queues, ticket.client).is_some() {
                    self.see("too large: a pop waits all the same");
                }
                self.wait(ticket, true, queues, wait);
            }
        }
    }

    fn wait(&mut self, ticket: Ticket, pops: bool, queues: &[Queue], wait: Wait) {
        let end = match wait {
            Wait::No => unreachable!("it does not wait"),
            Wait::Forever | Wait::Again => None,
            Wait::Milliseconds(0) => Some(self.now.mono),
            Wait::Milliseconds(milliseconds) => self.end_of(milliseconds),
            Wait::UntilLeaseEnds(_) => unreachable!("it is a reserve"),
        };
        let due = self.arm(end);
        let mut places: Vec<(Queue, u64)> = Vec::new();
        for &queue in queues {
            if places.iter().all(|place| place.0 != queue) {
                places.push((queue, self.tick()));
            }
        }
        self.waiters.push(Waiter { ticket, pops, places, due, until: None });
    }

    /// The waiter that a client means by this serial.
    fn waiter(&mut self, client: ClientId, serial: u32) -> Option<&mut Waiter> {
        let ticket = Ticket { client, serial };
        self.waiters.iter_mut().find(|waiter| waiter.ticket == ticket)
    }

    pub(crate) fn subscribe(&mut self, ticket: Ticket, serial: u32, queue: Queue) {
        self.see("command: subscribe");
        let place = self.tick();
        let Some(waiter) = self.waiter(ticket.client, serial) else {
            return self.reply(ticket, Answer::NoJob);
        };
        if waiter.places.iter().any(|place| place.0 == queue) {
            self.see("subscribe: named already");
            return self.reply(ticket, Answer::Done);
        }
        waiter.places.push((queue, place));
        self.see("subscribe: one more queue");
        self.reply(ticket, Answer::Done);
        let before = self.waiters.len();
        self.serve(&[queue]);
        if self.waiters.len() < before {
            self.see("subscribe: served at once");
        }
    }

    pub(crate) fn unsubscribe(&mut self, ticket: Ticket, serial: u32, queue: Queue) {
        self.see("command: unsubscribe");
        let Some(waiter) = self.waiter(ticket.client, serial) else {
            return self.reply(ticket, Answer::NoJob);
        };
        let before = waiter.places.len();
        waiter.places.retain(|place| place.0 != queue);
        let left = waiter.places.len() < before;
        self.see(if left { "unsubscribe: one queue" } else { "unsubscribe: not named" });
        self.reply(ticket, Answer::Done);
    }

    pub(crate) fn delete(&mut self, ticket: Ticket, id: JobId) {
        self.see("command: delete");
        let Some(job) = self.known(id.0) else {
            // It is removed, and answered, before its queue is looked at.
            self.reply(ticket, Answer::NoJob);
            return self.meet_over(id, "over: deleted");
        };
        let queue = job.queue;
        let was_in_front = self.is_in_front(job);
        let is_own = job.status == Status::Reserved && job.holder == Some(ticket.client);
        self.reply(ticket, Answer::Done);
        if is_own {
            self.complete_key(id.0);
            self.end_job(id.0, false);
        }
        self.remove(id.0);
        self.serve_after(id.0, queue, was_in_front);
    }

    /// Does what only the client may that has reserved the job, under this lease if one is named.
    pub(super) fn as_holder(
        &mut self,
        ticket: Ticket,
        id: JobId,
        lease: Option<LeaseEpoch>,
        act: impl FnOnce(&mut Self, u64),
    ) {
        let rejection = match self.known(id.0).map(|job| (job.status, job.holder, job.lease)) {
            None => {
                self.meet_over(id, "over: asked for by a holder");
                return self.reply(ticket, Answer::NoJob);
            }
            Some((Status::Reserved, holder, _)) if holder != Some(ticket.client) => {
                Rejection::ReservedByAnother(id)
            }
            Some((Status::Reserved, _, current)) if lease.is_some_and(|it| it.0 != current) => {
                Rejection::LeaseExpired(id)
            }
            Some((Status::Reserved, ..)) => {
                self.reply(ticket, Answer::Done);
                let queue = self.job(id.0).queue;
                act(self, id.0);
                return self.serve_after(id.0, queue, false);
            }
            Some(_) => Rejection::NotReserved(id),
        };
        self.reply(ticket, Answer::Refused(rejection));
    }

    pub(crate) fn release(&mut self, ticket: Ticket, id: JobId, lease: Option<LeaseEpoch>) {
        self.see("command: release");
        self.as_holder(ticket, id, lease, |oracle, id| {
            oracle.record_event(id, EventKind::Aborted);
            oracle.requeue(id);
        });
    }

    /// Whether a client had reserved a job that was cancelled since, and whose lease would not have
    /// ended.
    pub(super) fn is_told_of_cancel(&self, client: ClientId, id: JobId) -> bool {
        let now = self.now.mono;
        let is_its = |&(past, its, until): &(u64, ClientId, Mono)| {
            (past, its) == (id.0, client) && until > now
        };
        self.cancelled_of_clients.iter().any(is_its)
    }

    pub(crate) fn touch(&mut self, ticket: Ticket, id: JobId, lease: Option<LeaseEpoch>) {
        self.see("command: touch");
        if lease.is_none()
            && self.known(id.0).is_none()
            && self.is_told_of_cancel(ticket.client, id)
        {
            return self.reply(ticket, Answer::RunCancelled);
        }
        self.as_holder(ticket, id, lease, |oracle, id| {
            let lease_ms = oracle.job(id).options().lease_ms;
            let end = oracle.end_of(lease_ms);
            oracle.job(id).due = oracle.arm(end);
        });
    }

    pub(crate) fn finish(
        &mut self,
        ticket: Ticket,
        id: JobId,
        lease: Option<LeaseEpoch>,
        result: Load,
    ) {
        self.see("command: finish");
        self.as_holder(ticket, id, lease, |oracle, id| oracle.complete(id, Some(result)));
    }

    pub(crate) fn fail(
        &mut self,
        ticket: Ticket,
        id: JobId,
        lease: Option<LeaseEpoch>,
        (retry, error): (bool, Load),
    ) {
        self.see("command: fail");
        self.as_holder(ticket, id, lease, |oracle, id| oracle.fail_run(id, retry, error, None));
    }

    pub(crate) fn bury(&mut self, ticket: Ticket, id: JobId, lease: Option<LeaseEpoch>) {
        self.see("command: bury");
        self.as_holder(ticket, id, lease, Self::put_away);
    }

    pub(crate) fn kick(&mut self, ticket: Ticket, id: JobId) {
        self.see("command: kick");
        match self.known(id.0) {
            None => {
                self.meet_over(id, "over: kicked");
                self.reply(ticket, Answer::NoJob);
            }
            Some(job) if job.status != Status::Buried => {
                self.reply(ticket, Answer::Refused(Rejection::NotBuried(id)));
            }
            Some(job) => {
                let queue = job.queue;
                self.reply(ticket, Answer::Done);
                self.outlive(id.0);
                self.job(id.0).retries = 0;
                self.record_event(id.0, EventKind::Kicked);
                self.requeue(id.0);
                self.serve(&[queue]);
            }
        }
    }

    pub(crate) fn kick_queue(&mut self, ticket: Ticket, queue: Queue, limit: u32) {
        self.see("command: kick queue");
        let is_buried = |job: &&Job| job.queue == queue && job.status == Status::Buried;
        let mut buried: Vec<(u64, u64)> =
            self.jobs.iter().filter(is_buried).map(|job| (job.buried, job.id)).collect();
        buried.sort_unstable();
        buried.truncate(limit as usize);
        self.reply(ticket, Answer::Kicked(u32::try_from(buried.len()).unwrap()));
        for &(_, id) in &buried {
            self.outlive(id);
            self.job(id).retries = 0;
            self.job(id).tally.kicks += 1;
            self.record_event(id, EventKind::Kicked);
        }
        self.requeue_all(&buried.into_iter().map(|(_, id)| id).collect::<Vec<_>>());
    }

    pub(crate) fn peek(&mut self, ticket: Ticket, id: JobId) {
        self.see("command: peek");
        let said = self.known(id.0).map_or(Answer::NoJob, |job| Answer::Seen {
            view: job.view(),
            status: job.status,
            due: job.due.map(|due| due.at),
            retries: job.retries,
            result: job.result.clone(),
        });
        self.meet_over(id, "over: peeked at");
        self.reply(ticket, said);
    }

    /// A request waits no more.
    pub(crate) fn cancel(&mut self, ticket: Ticket) {
        self.see("cancel");
        let waiting = self.waiters.len();
        self.waiters.retain(|waiter| waiter.ticket != ticket);
        let watching = self.watchers.len();
        self.watchers.retain(|watcher| watcher.ticket != ticket);
        if self.watchers.len() < watching {
            self.see("cancel: a watcher");
        }
        if self.waiters.len() < waiting || self.watchers.len() < watching {
            self.reply(ticket, Answer::Cancelled);
        }
    }

    /// A client has ended: its jobs go back.
    pub(crate) fn forget(&mut self, client: ClientId) {
        self.see("forget");
        self.waiters.retain(|waiter| waiter.ticket.client != client);
        self.watchers.retain(|watcher| watcher.ticket.client != client);
        self.detach(client);
        self.end_import(client);
        let held = self.jobs.iter().filter(|job| job.holder == Some(client));
        let mut held: Vec<(u64, u64)> = held.map(|job| (job.taken, job.id)).collect();
        held.sort_unstable_by(|one, other| other.cmp(one));
        let mut held: Vec<u64> = held.into_iter().map(|(_, id)| id).collect();
        if !held.is_empty() {
            self.see("forget: a job goes back");
        }
        if held.len() > 1 {
            self.see("forget: several jobs go back");
        }
        for &id in &held {
            self.record_event(id, EventKind::Abandoned);
        }
        held.retain(|&id| {
            if !self.find(id).unwrap().is_limited()
                || self.lose_run(id, "the connection of its worker was lost")
            {
                return true;
            }
            self.see("forget: a job is buried");
            self.put_away(id);
            false
        });
        self.requeue_all(&held);
        self.notice();
    }
}

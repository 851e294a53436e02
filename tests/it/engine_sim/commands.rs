//! The oracle's store, second half: the commands.

use super::order::leaves_before;
use super::store_model::{Job, Model, Waiter};
use super::types::{Answer, Load, QUEUES, Queue, Request, Text};
use jobcentre::model::command::Wait;
use jobcentre::model::event::EventKind;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{JobOptions, LeaseEpoch, Priority, Status, TieBreak};
use jobcentre::model::reply::Rejection;
use std::cmp::Ordering;

impl Model {
    pub(super) fn submit(&mut self, ticket: Ticket, ask: &Request) {
        self.see(ask.name());
        self.notice();
        self.carry_out(ticket, ask);
        self.notice();
        self.tell();
    }

    fn carry_out(&mut self, ticket: Ticket, ask: &Request) {
        match *ask {
            Request::Put { queue, priority, tie_break, ref load, options } => {
                self.put(ticket, queue, priority, tie_break, load.clone(), options);
            }
            Request::Take { ref queues, wait } => self.take(ticket, queues, wait),
            Request::Pop { ref queues, wait } => self.pop(ticket, queues, wait),
            Request::Join { take, queue } => self.join(ticket, take, queue),
            Request::Leave { take, queue } => self.leave(ticket, take, queue),
            Request::Delete(id) => self.delete(ticket, id),
            Request::Kick(id) => self.kick(ticket, id),
            Request::KickQueue { queue, limit } => self.kick_queue(ticket, queue, limit),
            Request::Look(id) => self.look(ticket, id),
            Request::Watch(ref question) => self.watch(ticket, question),
            Request::Work(ref labour) => self.work(ticket, labour),
            Request::Release(id, lease)
            | Request::Touch(id, lease)
            | Request::Finish(id, lease, _)
            | Request::Fail { id, lease, .. }
            | Request::Bury(id, lease) => {
                if let Some(refused) = self.refusal(ticket.client, id, lease) {
                    return self.say(ticket, refused);
                }
                self.say(ticket, Answer::Done);
                self.end_of_work(id.0, ask, None);
            }
        }
    }

    /// A job that clients may still know of.
    pub(super) fn known(&self, id: JobId) -> Option<&Job> {
        self.find(id.0).filter(|job| !self.is_over(job))
    }

    fn put(
        &mut self,
        ticket: Ticket,
        queue: Queue,
        priority: Priority<'static>,
        tie_break: TieBreak,
        load: Load,
        options: Option<JobOptions>,
    ) {
        let id = self.add(queue, priority, tie_break, load, options);
        self.say(ticket, Answer::Put(id));
        if options.is_none_or(|options| options.delay_ms == 0) {
            self.go_back(id);
            self.serve(&[queue]);
        }
    }

    /// A new job, as if it were delayed.
    pub(super) fn add(
        &mut self,
        queue: Queue,
        priority: Priority<'static>,
        tie_break: TieBreak,
        load: Load,
        options: Option<JobOptions>,
    ) -> u64 {
        self.last_id += 1;
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
            lease: 0,
            retries: 0,
            result: None,
            message: None,
            worker: None,
            refused_by: Vec::new(),
            ttl_end,
            due,
            buried: 0,
            created: self.created(),
            record: None,
            doubtful: false,
        });
        self.record_new(id);
        id
    }

    fn take(&mut self, ticket: Ticket, queues: &[Queue], wait: Wait) {
        match self.best_of(queues, ticket.client) {
            Some(id) => {
                let queue = self.find(id).unwrap().queue;
                if self.has_waiters(queue) {
                    self.see("too large: taken before waiting pops");
                }
                self.hand_out(id, ticket);
                self.serve(&[queue]);
            }
            None if wait == Wait::No => self.say(ticket, Answer::NoJob),
            None => self.wait(ticket, false, queues, wait),
        }
    }

    fn pop(&mut self, ticket: Ticket, queues: &[Queue], wait: Wait) {
        let waits = wait != Wait::No;
        match self.first_of(queues, ticket.client, waits) {
            Some(id) if self.find(id).unwrap().load.is_too_large() => {
                self.say(ticket, Answer::TooLarge(id));
            }
            Some(id) => {
                let queue = self.find(id).unwrap().queue;
                self.pop_out(id, ticket);
                self.serve(&[queue]);
            }
            None if !waits => self.say(ticket, Answer::NoJob),
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
            Wait::Forever => None,
            Wait::Milliseconds(0) => Some(self.now),
            Wait::Milliseconds(milliseconds) => self.end_of(milliseconds),
        };
        let due = self.arm(end);
        let mut lines: Vec<(Queue, u64)> = Vec::new();
        for &queue in queues {
            if lines.iter().all(|line| line.0 != queue) {
                lines.push((queue, self.tick()));
            }
        }
        self.waiters.push(Waiter { ticket, pops, lines, due });
    }

    fn waiter(&mut self, ticket: Ticket) -> Option<&mut Waiter> {
        self.waiters.iter_mut().find(|waiter| waiter.ticket == ticket)
    }

    fn join(&mut self, ticket: Ticket, take: u32, queue: Queue) {
        let place = self.tick();
        let Some(waiter) = self.waiter(Ticket { client: ticket.client, serial: take }) else {
            return self.say(ticket, Answer::NoJob);
        };
        if waiter.lines.iter().any(|line| line.0 == queue) {
            self.see("join: stood there already");
            return self.say(ticket, Answer::Done);
        }
        waiter.lines.push((queue, place));
        self.see("join: one more queue");
        self.say(ticket, Answer::Done);
        let before = self.waiters.len();
        self.serve(&[queue]);
        if self.waiters.len() < before {
            self.see("join: served at once");
        }
    }

    fn leave(&mut self, ticket: Ticket, take: u32, queue: Queue) {
        let Some(waiter) = self.waiter(Ticket { client: ticket.client, serial: take }) else {
            return self.say(ticket, Answer::NoJob);
        };
        let before = waiter.lines.len();
        waiter.lines.retain(|line| line.0 != queue);
        let left = waiter.lines.len() < before;
        self.see(if left { "leave: one queue" } else { "leave: did not stand there" });
        self.say(ticket, Answer::Done);
    }

    fn delete(&mut self, ticket: Ticket, id: JobId) {
        let Some(job) = self.known(id) else {
            if self.find(id.0).is_some() {
                self.see("over: deleted");
            }
            return self.say(ticket, Answer::NoJob);
        };
        let queue = job.queue;
        let was_in_front = self.is_in_front(job);
        self.say(ticket, Answer::Done);
        self.gone(id.0);
        self.serve_after(id.0, queue, was_in_front);
    }

    /// Why a client cannot do what only the holder of a job may do.
    pub(super) fn refusal(
        &mut self,
        client: ClientId,
        id: JobId,
        lease: Option<LeaseEpoch>,
    ) -> Option<Answer> {
        let over = self.find(id.0).is_some_and(|job| self.is_over(job));
        let Some(job) = self.known(id) else {
            if over {
                self.see("over: asked for by a holder");
            }
            return Some(Answer::NoJob);
        };
        let refusal = match (job.status, job.holder) {
            (Status::Reserved, holder) if holder != Some(client) => {
                Rejection::ReservedByAnother(id)
            }
            (Status::Reserved, _) if lease.is_some_and(|lease| lease.0 != job.lease) => {
                Rejection::LeaseExpired(id)
            }
            (Status::Reserved, _) => return None,
            _ => Rejection::NotReserved(id),
        };
        Some(Answer::Refused(refusal))
    }

    /// What the holder of a job has asked for, after it was told that it is done.
    pub(super) fn end_of_work(&mut self, id: u64, ask: &Request, message: Option<Text>) {
        let job = self.job(id);
        let (queue, options) = (job.queue, job.options());
        match *ask {
            Request::Release(..) => {
                self.happen(id, EventKind::Aborted);
                self.go_back(id);
            }
            Request::Touch(..) => {
                if let Some(end) = self.end_of(options.lease_ms) {
                    self.job(id).due = self.arm(Some(end));
                }
            }
            Request::Finish(_, _, ref result) => match self.end_of(options.result_retention_ms) {
                None => self.gone(id),
                Some(end) => {
                    self.let_go(id);
                    let due = self.arm(Some(end));
                    let job = self.job(id);
                    (job.status, job.due) = (Status::Completed, due);
                    (job.result, job.message) = (Some(result.clone()), None);
                    self.happen(id, EventKind::Finished);
                    self.tell_end(id);
                }
            },
            Request::Fail { retry, ref error, .. } => {
                (job.result, job.message) = (Some(error.clone()), message);
                self.happen(id, EventKind::Failed);
                self.fail(id, retry);
            }
            Request::Bury(..) => self.bury(id),
            _ => unreachable!("no holder asks for that"),
        }
        self.serve_after(id, queue, false);
    }

    fn kick(&mut self, ticket: Ticket, id: JobId) {
        let over = self.find(id.0).is_some_and(|job| self.is_over(job));
        match self.known(id) {
            None => {
                if over {
                    self.see("over: kicked");
                }
                self.say(ticket, Answer::NoJob);
            }
            Some(job) if job.status != Status::Buried => {
                self.say(ticket, Answer::Refused(Rejection::NotBuried(id)));
            }
            Some(job) => {
                let queue = job.queue;
                self.say(ticket, Answer::Done);
                self.job(id.0).retries = 0;
                self.happen(id.0, EventKind::Kicked);
                self.go_back(id.0);
                self.serve(&[queue]);
            }
        }
    }

    fn kick_queue(&mut self, ticket: Ticket, queue: Queue, limit: u32) {
        let is_buried = |job: &&Job| job.queue == queue && job.status == Status::Buried;
        let mut buried: Vec<(u64, u64)> =
            self.jobs.iter().filter(is_buried).map(|job| (job.buried, job.id)).collect();
        buried.sort_unstable();
        buried.truncate(limit as usize);
        self.say(ticket, Answer::Kicked(u32::try_from(buried.len()).unwrap()));
        for &(_, id) in &buried {
            self.job(id).retries = 0;
            self.happen(id, EventKind::Kicked);
        }
        self.come_back(&buried.into_iter().map(|(_, id)| id).collect::<Vec<_>>());
    }

    /// These jobs go back together, and only then is anybody served.
    pub(super) fn come_back(&mut self, ids: &[u64]) {
        self.notice();
        let mut jobs: Vec<&Job> = ids.iter().filter_map(|&id| self.find(id)).collect();
        jobs.sort_by(
            |one, other| {
                if leaves_before(one, other) { Ordering::Less } else { Ordering::Greater }
            },
        );
        for id in jobs.iter().map(|job| job.id).collect::<Vec<_>>() {
            self.go_back(id);
        }
        let came = self.jobs.iter().filter(|job| ids.contains(&job.id));
        let queues: Vec<Queue> = came.map(|job| job.queue).collect();
        self.serve(&queues);
    }

    fn look(&mut self, ticket: Ticket, id: JobId) {
        let over = self.find(id.0).is_some_and(|job| self.is_over(job));
        let said = self.known(id).map_or(Answer::NoJob, |job| Answer::Seen {
            view: job.view(),
            status: job.status,
            due: job.due.map(|due| due.at),
            retries: job.retries,
            result: job.result.clone(),
        });
        if over {
            self.see("over: looked at");
        }
        self.say(ticket, said);
    }

    pub(super) fn cancel(&mut self, ticket: Ticket) {
        self.see("cancel");
        if self.waiter(ticket).is_some() {
            self.waiters.retain(|waiter| waiter.ticket != ticket);
            self.say(ticket, Answer::Cancelled);
        } else if self.vigils.iter().any(|vigil| vigil.ticket == ticket) {
            self.see("cancel: a vigil");
            self.vigils.retain(|vigil| vigil.ticket != ticket);
            self.say(ticket, Answer::Cancelled);
        }
    }

    /// A client is gone.
    pub(super) fn forget(&mut self, client: ClientId) {
        self.see("forget");
        self.waiters.retain(|waiter| waiter.ticket.client != client);
        self.vigils.retain(|vigil| vigil.ticket.client != client);
        self.quit(client);
        let held = self.jobs.iter().filter(|job| job.holder == Some(client));
        let held: Vec<u64> = held.map(|job| job.id).collect();
        if held.len() > 1 {
            self.see("forget: several jobs go back");
        }
        for &id in &held {
            self.happen(id, EventKind::Abandoned);
        }
        self.come_back(&held);
        self.notice();
        self.tell();
    }

    /// What the engine may notice at any time: of each queue, and of several together.
    fn notice(&mut self) {
        let mut noticed = Vec::new();
        for queue in 0..QUEUES.len() {
            if self.would_serve(queue) && self.notices() {
                noticed.push(queue);
            }
        }
        if noticed.len() > 1 && self.notices() {
            return self.serve(&noticed);
        }
        for queue in noticed {
            self.serve(&[queue]);
        }
    }
}

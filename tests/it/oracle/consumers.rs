//! Commands of clients that reserve jobs by their connections, and that use and watch queues.
//!
//! As with the native API, all due timers fire before such a command.

use super::manage::Pause;
use super::manage_jobs::Verb;
use super::matching::ANYWHERE;
use super::types::{Answer, Queue};
use super::{Oracle, Waiter};
use jobcentre::base::limits::LEASE_MARGIN;
use jobcentre::base::time::Mono;
use jobcentre::model::consumer::{JobTally, PeekedState};
use jobcentre::model::event::EventKind;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::Status;

/// How many clients use and watch a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Interest {
    pub(crate) using: u32,
    pub(crate) watching: u32,
}

/// What is counted of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) id: u64,
    pub(crate) queue: Queue,
    pub(crate) state: &'static str,
    /// `i64::MAX` stands for a larger one.
    pub(crate) priority: i64,
    pub(crate) lease_ms: u64,
    pub(crate) left_s: u64,
    pub(crate) reserves: u32,
    pub(crate) tally: JobTally,
}

impl Oracle {
    /// The job, if the client has reserved it; if not, that is said.
    fn own(&mut self, ticket: Ticket, id: JobId) -> bool {
        let is_own = self
            .known(id.0)
            .is_some_and(|job| job.status == Status::Reserved && job.holder == Some(ticket.client));
        if !is_own {
            self.reply(ticket, Answer::NoJob);
        }
        is_own
    }

    pub(crate) fn delete_own(&mut self, ticket: Ticket, id: JobId) {
        self.meet_over(id, "over: met by a consumer");
        self.see("consumer: delete");
        let may = self.known(id.0).is_some_and(|job| match job.status {
            Status::Reserved => job.holder == Some(ticket.client),
            status => status != Status::Completed,
        });
        if may {
            self.delete(ticket, id);
        } else {
            self.reply(ticket, Answer::NoJob);
        }
    }

    pub(crate) fn reserve_job(&mut self, ticket: Ticket, id: JobId) {
        self.meet_over(id, "over: met by a consumer");
        let may = self.known(id.0).is_some_and(|job| match job.status {
            Status::Ready => !self.is_held_back(job),
            Status::Delayed | Status::Buried => {
                let is_selected = self.constraints.iter().any(|it| self.is_about(it, job));
                !is_selected && job.dependent.waits_for.is_empty()
            }
            _ => false,
        });
        if !may {
            self.see("consumer: reserve of none");
            return self.reply(ticket, Answer::NoJob);
        }
        let job = self.job(id.0);
        let (queue, status) = (job.queue, std::mem::replace(&mut job.status, Status::Ready));
        self.see(match status {
            Status::Ready => "consumer: reserve of a ready job",
            Status::Delayed => "consumer: reserve of a delayed job",
            _ => "consumer: reserve of a buried job",
        });
        self.hand_out(id.0, ticket);
        self.serve(&[queue]);
    }

    pub(crate) fn release_with(
        &mut self,
        ticket: Ticket,
        (id, priority, delay_ms): (JobId, i128, u64),
    ) {
        self.see("consumer: release");
        if !self.own(ticket, id) {
            return;
        }
        self.reply(ticket, Answer::Done);
        let job = self.job(id.0);
        job.tally.releases += 1;
        job.priority = Some(priority);
        let queue = job.queue;
        self.record_event(id.0, EventKind::Aborted);
        self.end_reservation(id.0);
        let end = self.end_of(delay_ms);
        self.wait_until(id.0, end);
        self.serve_after(id.0, queue, false);
    }

    pub(crate) fn bury_with(&mut self, ticket: Ticket, (id, priority): (JobId, i128)) {
        self.see("consumer: bury");
        if !self.own(ticket, id) {
            return;
        }
        self.reply(ticket, Answer::Done);
        let job = self.job(id.0);
        job.tally.buries += 1;
        job.priority = Some(priority);
        let queue = job.queue;
        self.put_away(id.0);
        self.serve_after(id.0, queue, false);
    }

    /// Makes a buried or delayed job ready, and matches it.
    fn kick_counted(&mut self, id: u64) {
        let job = self.job(id);
        job.tally.kicks += 1;
        let queue = job.queue;
        self.apply(id, &Verb::Kick);
        self.serve(&[queue]);
    }

    pub(crate) fn kick_one(&mut self, ticket: Ticket, id: JobId) {
        self.meet_over(id, "over: met by a consumer");
        self.see("consumer: kick job");
        let may = self.known(id.0).is_some_and(|job| {
            job.status == Status::Buried || job.status == Status::Delayed && !job.is_held()
        });
        if !may {
            return self.reply(ticket, Answer::NoJob);
        }
        self.reply(ticket, Answer::Done);
        self.kick_counted(id.0);
    }

    /// The job of a queue that is the first one in a state. Those before it that are over are met.
    fn meet_first(&mut self, queue: Queue, among: PeekedState) -> Option<u64> {
        loop {
            let first = self.first_among(queue, among)?;
            if !self.find(first).is_some_and(|job| self.is_over(job)) {
                return Some(first);
            }
            self.meet_over(JobId(first), "over: in front of what a consumer asks for");
        }
    }

    /// The job of a queue that is the first one in a state, over or not.
    fn first_among(&self, queue: Queue, among: PeekedState) -> Option<u64> {
        let there = self.jobs.iter().filter(|job| job.queue == queue);
        match among {
            PeekedState::Ready => {
                let waits =
                    |job: &&super::Job| job.status == Status::Ready && job.refused_by.is_empty();
                let before = super::order::leaves_before;
                there
                    .filter(waits)
                    .reduce(|one, other| if before(other, one) { other } else { one })
            }
            PeekedState::Delayed => {
                let delayed = there.filter(|job| job.status == Status::Delayed && !job.is_held());
                delayed.min_by_key(|job| (job.due.map(|due| due.at), job.id))
            }
            PeekedState::Buried => {
                let buried = there.filter(|job| job.status == Status::Buried);
                buried.min_by_key(|job| job.buried)
            }
        }
        .map(|job| job.id)
    }

    pub(crate) fn kick_first(
        &mut self,
        ticket: Ticket,
        (queue, among): (Queue, PeekedState),
        limit: u32,
    ) {
        self.see("consumer: kick first");
        let kicked = self.kick_some((queue, among), limit);
        self.reply(ticket, Answer::Kicked(kicked));
    }

    fn kick_some(&mut self, (queue, among): (Queue, PeekedState), limit: u32) -> u32 {
        let mut kicked = 0;
        while kicked < limit
            && among != PeekedState::Ready
            && let Some(id) = self.meet_first(queue, among)
        {
            self.see(match among {
                PeekedState::Buried => "consumer: kick of a buried job",
                _ => "consumer: kick of a delayed job",
            });
            self.kick_counted(id);
            kicked += 1;
        }
        kicked
    }

    /// Kicks buried jobs; if there are none, delayed ones.
    pub(crate) fn kick_either(&mut self, ticket: Ticket, queue: Queue, limit: u32) {
        let among = match self.first_among(queue, PeekedState::Buried) {
            Some(_) => PeekedState::Buried,
            None => PeekedState::Delayed,
        };
        self.kick_first(ticket, (queue, among), limit);
    }

    pub(crate) fn peek_first(&mut self, ticket: Ticket, queue: Queue, among: PeekedState) {
        self.see("consumer: peek");
        match self.meet_first(queue, among) {
            Some(id) => self.peek(ticket, JobId(id)),
            None => self.reply(ticket, Answer::NoJob),
        }
    }

    pub(crate) fn count_job(&mut self, ticket: Ticket, id: JobId) {
        self.see("consumer: job stats");
        self.meet_over(id, "over: met by a consumer");
        let Some(job) = self.known(id.0) else { return self.reply(ticket, Answer::NoJob) };
        let state = match job.status {
            Status::Ready | Status::GroupOnly => "ready",
            Status::Delayed => "delayed",
            Status::Reserved => "reserved",
            Status::Buried => "buried",
            _ => return self.reply(ticket, Answer::NoJob),
        };
        let left = job.due.filter(|_| matches!(state, "delayed" | "reserved"));
        let now = self.now.mono;
        let counted = Counted {
            id: job.id,
            queue: job.queue,
            state,
            priority: match job.priority {
                None => i64::MIN,
                Some(number) => i64::try_from(number).unwrap_or(i64::MAX),
            },
            lease_ms: job.options().lease_ms,
            left_s: left
                .map_or(0, |due| due.at.0.saturating_sub(now.0).saturating_sub(1) / 1_000_000_000),
            reserves: job.lease,
            tally: job.tally,
        };
        self.reply(ticket, Answer::Counted(Box::new(counted)));
    }

    /// Whether a queue has jobs, users or watchers.
    pub(crate) fn is_in_use(&self, queue: Queue) -> bool {
        let Interest { using, watching } = self.interest[queue];
        using > 0 || watching > 0 || self.jobs.iter().any(|job| job.queue == queue)
    }

    pub(crate) fn pause_used(
        &mut self,
        ticket: Ticket,
        (queue, exists): (Queue, bool),
        for_ms: u64,
    ) {
        self.see("consumer: pause");
        if !exists && !self.is_in_use(queue) {
            return self.reply(ticket, Answer::NoJob);
        }
        self.reply(ticket, Answer::Done);
        if for_ms > 0 {
            self.register_queue(queue);
            let until = self.end_of(for_ms);
            let until = self.arm(until);
            self.managed[queue].paused = Some(Pause { until, is_of_users: true });
        } else if self.managed[queue].paused.take().is_some() {
            self.see("consumer: resume");
            self.serve(&[queue]);
        }
    }

    pub(crate) fn use_queue(
        &mut self,
        ticket: Ticket,
        queue: Option<Queue>,
        former: Option<Queue>,
    ) {
        self.see("consumer: use");
        if let Some(queue) = queue {
            self.interest[queue].using += 1;
        }
        self.reply(ticket, Answer::Done);
        if let Some(former) = former {
            self.interest[former].using -= 1;
            self.leave(former);
        }
    }

    pub(crate) fn watch_queue(&mut self, ticket: Ticket, queue: Queue) {
        self.see("consumer: watch");
        self.interest[queue].watching += 1;
        self.reply(ticket, Answer::Done);
    }

    pub(crate) fn leave_queues(&mut self, ticket: Ticket, used: Option<Queue>, watched: &[Queue]) {
        self.reply(ticket, Answer::Done);
        self.drop_queue_user(used, watched);
    }

    /// A client uses and watches these queues no longer.
    pub(crate) fn drop_queue_user(&mut self, used: Option<Queue>, watched: &[Queue]) {
        self.see("consumer: leave");
        if let Some(used) = used {
            self.interest[used].using -= 1;
            self.leave(used);
        }
        for &queue in watched {
            self.interest[queue].watching -= 1;
            self.leave(queue);
        }
    }

    /// The pause of a queue ends with its last user, if it has no jobs and the pause is theirs.
    fn leave(&mut self, queue: Queue) {
        let paused = self.managed[queue].paused;
        if !self.is_in_use(queue) && paused.is_some_and(|pause| pause.is_of_users) {
            self.see("consumer: a pause ends with its queue");
            self.managed[queue].paused = None;
            self.serve(&[queue]);
        }
    }

    /// When the first lease of a client comes to its last second.
    fn first_margin(&self, client: ClientId) -> Option<Mono> {
        let margin = u64::try_from(LEASE_MARGIN.as_nanos()).unwrap();
        let held = self.jobs.iter().filter(|job| job.holder == Some(client));
        let end = held.filter_map(|job| job.due).map(|due| due.at).min();
        end.map(|end| Mono(end.0.saturating_sub(margin)))
    }

    /// A reserve that found no job, and waits until a lease of its client ends.
    pub(super) fn wait_until_lease_ends(&mut self, ticket: Ticket, queues: &[Queue], wait_ms: u64) {
        let now = self.now.mono;
        let margin = self.first_margin(ticket.client);
        if margin.is_some_and(|margin| margin <= now) {
            self.see("consumer: a lease is ending");
            return self.reply(ticket, Answer::LeaseEnding);
        }
        if wait_ms == 0 {
            return self.reply(ticket, Answer::NoJob);
        }
        let until = match wait_ms {
            u64::MAX => Mono(u64::MAX),
            _ => self.after(wait_ms.into()),
        };
        let mut places: Vec<(Queue, u64)> = Vec::new();
        for &queue in queues {
            debug_assert_ne!(queue, ANYWHERE, "it names queues");
            if places.iter().all(|place| place.0 != queue) {
                places.push((queue, self.tick()));
            }
        }
        let end = margin.map_or(until, |margin| margin.min(until));
        let due = self.arm(Some(end).filter(|end| end.0 < u64::MAX));
        let until = Some(until);
        self.waiters.push(Waiter { ticket, pops: false, places, due, until });
    }

    /// The deadline of a reserve that waits until a lease ends. Says whether the wait is over.
    pub(super) fn ends_wait(&mut self, ticket: Ticket, until: Mono) -> Option<Answer> {
        let now = self.now.mono;
        let margin = self.first_margin(ticket.client);
        if margin.is_some_and(|margin| margin <= now) {
            self.see("consumer: a lease comes to its end");
            return Some(Answer::LeaseEnding);
        }
        if until <= now {
            self.see("end: wait");
            return Some(Answer::NoJob);
        }
        self.see("consumer: a lease was over before");
        let end = margin.map_or(until, |margin| margin.min(until));
        let due = self.arm(Some(end).filter(|end| end.0 < u64::MAX));
        let waiter = self.waiters.iter_mut().find(|waiter| waiter.ticket == ticket);
        waiter.expect("it waits").due = due;
        None
    }
}

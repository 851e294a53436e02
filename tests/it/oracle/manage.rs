//! The native API: commands on single jobs and on queues, and pauses.
//!
//! As with indexed queues, all due timers fire before such a command.

use super::timers::Due;
use super::types::{Answer, Queue};
use super::{Job, Oracle, Waiter};
use jobcentre::base::time::{Mono, Wall};
use jobcentre::model::id::{JobId, Ticket};
use jobcentre::model::job::Status;
use jobcentre::model::manage::{JobState, Missing, QueueOrder};
use std::time::Duration;

/// What the native API knows of a queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Managed {
    /// A job was put, it was paused, or its index was switched on.
    pub(crate) heard_of: bool,
    pub(crate) paused: Option<Pause>,
    /// Jobs that were put since.
    pub(crate) puts: u64,
}

/// A pause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pause {
    /// When it ends by itself.
    pub(super) until: Option<Due>,
    /// It is that of the clients that use and watch the queue.
    pub(super) is_of_users: bool,
}

/// Numbers of jobs that are scheduled, ready or blocked, reserved, buried, completed. Which ready
/// jobs an engine regards as blocked is its own affair.
pub(crate) type Counts = [u64; 5];

/// The state of a job for the native API; blocked is as good as ready.
pub(crate) fn state_of(status: Status) -> JobState {
    match status {
        Status::Ready | Status::GroupOnly | Status::Blocked => JobState::Ready,
        Status::Delayed => JobState::Scheduled,
        Status::Reserved | Status::Popped => JobState::Reserved,
        Status::Completed => JobState::Completed,
        Status::Buried => JobState::Buried,
    }
}

impl Oracle {
    pub(crate) fn is_paused(&self, queue: Queue) -> bool {
        self.managed[queue].paused.is_some()
    }

    pub(super) fn register_queue(&mut self, queue: Queue) {
        self.managed[queue].heard_of = true;
    }

    pub(super) fn is_registered(&self, queue: Queue) -> bool {
        self.managed[queue].heard_of
    }

    /// A queue is deleted: nothing is known of it any more.
    pub(super) fn remove_queue(&mut self, queue: Queue) {
        self.managed[queue] = Managed::default();
        self.remove_index(queue);
    }

    /// A moment on the wall clock, as far as is known now.
    pub(super) fn wall(&self, at: Mono) -> Wall {
        let (at, now) = (at.0 / 1_000_000, self.now.mono.0 / 1_000_000);
        let ahead = self.now.wall.0.saturating_add(at.saturating_sub(now));
        Wall(ahead.saturating_sub(now.saturating_sub(at)))
    }

    pub(super) fn absence_of(&self, id: JobId) -> Missing {
        let given_out = (1..=self.last_id).contains(&id.0);
        if given_out { Missing::Gone } else { Missing::NeverGivenOut }
    }

    /// The job of this id; if there is none, that is said.
    pub(super) fn managed_job(&mut self, ticket: Ticket, id: JobId) -> Option<Job> {
        let found = self.known(id.0).cloned();
        if found.is_none() {
            let missing = self.absence_of(id);
            self.reply(ticket, Answer::Missing(missing));
        }
        found
    }

    fn reply_queue(&mut self, ticket: Ticket, queue: Queue) {
        if !self.managed[queue].heard_of {
            return self.reply(ticket, Answer::Missing(Missing::Queue));
        }
        let mut counts = Counts::default();
        for job in self.jobs.iter().filter(|job| job.queue == queue) {
            let number = match job.api_state() {
                JobState::Scheduled => 0,
                JobState::Ready | JobState::Blocked => 1,
                JobState::Reserved => 2,
                JobState::Buried => 3,
                JobState::Completed => 4,
            };
            counts[number] += 1;
        }
        let paused = self.managed[queue].paused;
        let until = paused.and_then(|pause| pause.until).map(|due| self.wall(due.at));
        let (paused, indexed) = (paused.is_some(), self.is_indexed(queue));
        let names = |waiter: &&Waiter| waiter.places.iter().any(|&(named, _)| named == queue);
        let waiting = self.waiters.iter().filter(names).count() as u64;
        let puts = self.managed[queue].puts;
        let details = Answer::QueueDetails { queue, paused, until, indexed, counts, waiting, puts };
        self.reply(ticket, details);
    }

    pub(crate) fn show_job(&mut self, ticket: Ticket, id: JobId) {
        self.see("manage: show");
        if self.managed_job(ticket, id).is_some() {
            self.reply_details(ticket, id.0);
        }
    }

    pub(crate) fn show_queue(&mut self, ticket: Ticket, queue: Queue) {
        self.see("manage: queue");
        self.reply_queue(ticket, queue);
    }

    pub(crate) fn list_workers(&mut self, ticket: Ticket) {
        self.see("manage: workers");
        let mut ids: Vec<u64> = self.workers.iter().map(|worker| worker.id).collect();
        ids.sort_unstable();
        self.reply(ticket, Answer::Listed(ids.iter().map(u64::to_string).collect()));
    }

    pub(crate) fn list_constraints(&mut self, ticket: Ticket) {
        self.see("manage: constraints");
        let names = self.constraints.iter().map(|constraint| constraint.name.to_owned());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        self.reply(ticket, Answer::Listed(names));
    }

    /// Its steps together: the engine is asked within the first one.
    pub(crate) fn show_history(&mut self, ticket: Ticket, queue: Queue) {
        self.see("manage: history");
        let Managed { heard_of, puts, .. } = self.managed[queue];
        let answer = Answer::Missing(Missing::Queue);
        self.reply(ticket, if heard_of { Answer::History(puts) } else { answer });
    }

    /// The queues that are known, as of a second ago at most.
    pub(crate) fn rank(&mut self, ticket: Ticket, order: QueueOrder) {
        self.see("manage: rank");
        let now = self.now.mono;
        self.ranked.retain(|_, (at, _)| now < at.after(Duration::from_secs(1)));
        let known = (0..self.managed.len()).filter(|&queue| self.managed[queue].heard_of);
        let known = (now, known.collect());
        let (_, known) = self.ranked.entry(order).or_insert(known).clone();
        self.reply(ticket, Answer::Ranked(known));
    }

    pub(crate) fn pause(&mut self, ticket: Ticket, queue: Queue, for_ms: Option<u64>) {
        self.see("manage: pause");
        if self.is_paused(queue) {
            self.see("pause: of a paused queue");
        }
        self.register_queue(queue);
        let until = for_ms.map(|ms| self.after(ms.into()));
        self.managed[queue].paused = Some(Pause { until: self.arm(until), is_of_users: false });
        self.reply_queue(ticket, queue);
    }

    pub(crate) fn resume(&mut self, ticket: Ticket, queue: Queue) {
        self.see("manage: resume");
        let was_paused = self.managed[queue].paused.take().is_some();
        self.reply_queue(ticket, queue);
        if was_paused {
            if self.would_serve(queue) {
                self.see("resume: a waiter is served");
            }
            self.serve(&[queue]);
        }
    }

    /// The pauses that end by themselves.
    pub(super) fn pauses(&self) -> impl Iterator<Item = (Due, Queue)> {
        let managed = self.managed.iter().enumerate();
        managed.filter_map(|(queue, managed)| Some((managed.paused?.until?, queue)))
    }

    /// A pause ends by itself.
    pub(super) fn end_of_pause(&mut self, queue: Queue) {
        self.see("end: pause");
        self.managed[queue].paused = None;
        self.serve(&[queue]);
    }
}

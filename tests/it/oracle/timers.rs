//! Deadlines: what ends when time has passed.

use super::types::{Answer, Text};
use super::{Oracle, Waiter};
use jobcentre::base::time::Mono;
use jobcentre::model::event::EventKind;
use jobcentre::model::id::Ticket;
use jobcentre::model::job::Status;

/// A moment at which something ends, and the place in the order of arming.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Due {
    pub(super) at: Mono,
    armed: u64,
}

impl Oracle {
    pub(super) fn after(&self, milliseconds: u128) -> Mono {
        let nanos = milliseconds.saturating_mul(1_000_000).saturating_add(self.now.mono.0.into());
        Mono(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The moment in this many milliseconds; none if there are none.
    pub(super) fn end_of(&self, milliseconds: u64) -> Option<Mono> {
        (milliseconds > 0).then(|| self.after(milliseconds.into()))
    }

    pub(super) fn arm(&mut self, at: Option<Mono>) -> Option<Due> {
        let armed = self.tick();
        at.map(|at| Due { at, armed })
    }

    /// The deadlines of requests that wait.
    fn waits(&self) -> Vec<(Due, Ticket)> {
        let waiters = self.waiters.iter().map(|waiter| (waiter.due, waiter.ticket));
        let watchers = self.watchers.iter().map(|watcher| (watcher.due, watcher.ticket));
        waiters.chain(watchers).filter_map(|(due, ticket)| Some((due?, ticket))).collect()
    }

    /// The earliest and the latest moment that an engine may wish to be called at. They differ
    /// only by jobs and past keys that are over, which it may have forgotten.
    pub(crate) fn timeout(&self) -> (Option<Mono>, Option<Mono>) {
        let waits = self.waits().into_iter().map(|(due, _)| due);
        let wait = waits.chain(self.pauses().map(|(due, _)| due)).min();
        let runs = self.completed.iter().map(|&(_, _, until)| until).min();
        let keys = self.past_keys.iter().map(|past| past.due);
        let jobs = self.jobs.iter().filter_map(|job| job.due);
        let certain_keys = keys.clone().filter(|due| due.at > self.now.mono);
        let certain = self.jobs.iter().filter(|job| !self.is_over(job)).filter_map(|job| job.due);
        let earliest = jobs.chain(keys).chain(wait).min();
        let latest = certain.chain(certain_keys).chain(wait).min();
        let first = |due: Option<Due>| due.map(|due| due.at).into_iter().chain(runs).min();
        (first(earliest), first(latest))
    }

    /// Ends whatever is due, the earliest first.
    pub(crate) fn expire(&mut self) {
        self.expiring = true;
        let now = self.now.mono;
        self.past_keys.retain(|past| past.due.at > now);
        self.completed.retain(|&(_, _, until)| until > now);
        loop {
            let pause = self.pauses().min().filter(|(due, _)| due.at <= self.now.mono);
            let jobs = self.jobs.iter().filter_map(|job| Some((job.due?, job.id)));
            let job = jobs.min().filter(|(due, _)| due.at <= self.now.mono);
            let wait = self.waits().into_iter().min().filter(|(due, _)| due.at <= self.now.mono);
            let other = [job.map(|(due, _)| due), wait.map(|(due, _)| due)];
            if let Some((due, queue)) = pause
                && other.into_iter().flatten().all(|other| due < other)
            {
                self.end_of_pause(queue);
                continue;
            }
            match (job, wait) {
                (None, None) => break,
                (Some((due, id)), wait) if wait.is_none_or(|(end, _)| due < end) => {
                    self.end_of_status(id);
                }
                (_, Some((_, ticket))) => self.end_of_wait(ticket),
                (Some(_), None) => unreachable!("it is due before none"),
            }
        }
        (0..self.names.len()).for_each(|queue| self.serve(&[queue]));
        self.expiring = false;
    }

    fn end_of_wait(&mut self, ticket: Ticket) {
        let waiter = self.waiters.iter().find(|waiter| waiter.ticket == ticket);
        if let Some(until) = waiter.and_then(|waiter| waiter.until) {
            if let Some(answer) = self.ends_wait(ticket, until) {
                self.waiters.retain(|waiter| waiter.ticket != ticket);
                self.reply(ticket, answer);
            }
            return;
        }
        let is_its = |waiter: &mut Waiter| waiter.ticket == ticket;
        if self.waiters.extract_if(.., is_its).next().is_some() {
            self.see("end: wait");
            self.reply(ticket, Answer::NoJob);
        } else {
            self.watchers.retain(|watcher| watcher.ticket != ticket);
            self.reply(ticket, Answer::NotYet);
        }
    }

    fn end_of_status(&mut self, id: u64) {
        let job = self.find(id).unwrap();
        let (queue, tracked) = (job.queue, job.options().tracked);
        let (retries, over) = (job.retries, self.is_over(job));
        let was_in_front = self.is_in_front(job) && !job.doubtful;
        match job.status {
            Status::Ready => {
                self.see("end: time to live, ready");
                self.remove(id);
            }
            Status::GroupOnly => {
                self.see("end: time to live, group-only");
                self.remove(id);
            }
            Status::Blocked => unreachable!("here it is ready, and held back"),
            Status::Popped => unreachable!("here it is gone at once"),
            Status::Delayed if over => {
                self.see("end: time to live, delayed");
                self.remove(id);
            }
            Status::Delayed => {
                self.see(if retries > 0 { "end: backoff" } else { "end: delay" });
                self.record_event(id, EventKind::Due);
                self.requeue(id);
            }
            Status::Reserved if self.find(id).unwrap().is_limited() => {
                if tracked {
                    let job = self.job(id);
                    (job.result, job.message) = (None, Some(Text::new(b"timeout")));
                }
                self.record_event(id, EventKind::Expired);
                if self.lose_run(id, "the lease of its worker has ended") {
                    self.see("end: lease, another attempt");
                    self.requeue(id);
                } else {
                    self.see("end: lease, the last attempt");
                    self.put_away(id);
                }
            }
            Status::Reserved if tracked => {
                let job = self.job(id);
                (job.result, job.message) = (None, Some(Text::new(b"timeout")));
                self.record_event(id, EventKind::Expired);
                let again = self.find(id).unwrap().has_retries_left();
                self.retry_or_bury(id, again);
                let buried = self.find(id).is_some_and(|job| job.status == Status::Buried);
                self.see(if buried { "end: lease, buried" } else { "end: lease, retried" });
            }
            Status::Reserved => {
                self.see("end: lease, back");
                self.job(id).count_attempt();
                self.record_event(id, EventKind::Expired);
                self.requeue(id);
            }
            Status::Completed | Status::Buried => {
                let completed = job.status == Status::Completed;
                self.see(if completed { "end: completed" } else { "end: buried" });
                self.remove(id);
            }
        }
        self.serve_after(id, queue, was_in_front);
        self.serve_ended();
    }
}

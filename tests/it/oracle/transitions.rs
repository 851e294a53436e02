//! Transitions: what becomes of one job. They match no waiter, which is left to the operation.

use super::order::{backoff, leaves_before};
use super::types::{Answer, Load, Queue, Text};
use super::{Job, Oracle};
use jobcentre::base::time::Mono;
use jobcentre::model::event::EventKind;
use jobcentre::model::id::Ticket;
use jobcentre::model::job::{Retry, Status};
use std::cmp::{Ordering, Reverse};

/// The most packets that a reply carries beside the first one.
const OTHERS_MAX: usize = 65_534;

impl Oracle {
    /// A client has reserved a job.
    pub(super) fn hand_out(&mut self, id: u64, ticket: Ticket) {
        self.hold(id, ticket);
        let view = self.find(id).unwrap().view();
        self.reply(ticket, Answer::Job(view));
    }

    /// A client has reserved a job, and is not told yet.
    pub(super) fn hold(&mut self, id: u64, ticket: Ticket) {
        let end = self.end_of(self.find(id).unwrap().options().lease_ms);
        let due = self.arm(end);
        let (worker, taken) = (self.worker_of(ticket.client), self.tick());
        let job = self.job(id);
        assert!(job.status == Status::Ready && job.holder.is_none(), "the oracle gave it away");
        job.lease += u32::from(job.options.is_some());
        (job.status, job.due) = (Status::Reserved, due);
        (job.holder, job.worker) = (Some(ticket.client), worker);
        job.taken = taken;
        self.record_event(id, EventKind::Reserved { by: Some(ticket.client) });
    }

    /// A pop takes a job, with all of its key group: it comes first, then the newest one.
    pub(super) fn pop_out(&mut self, id: u64, ticket: Ticket) {
        let selected = self.find(id).unwrap();
        let is_member = |job: &&Job| {
            let waits = matches!(job.status, Status::Ready | Status::GroupOnly);
            let same = job.queue == selected.queue && job.load.key() == selected.load.key();
            selected.load.key().is_some() && waits && same && job.id != id && !self.is_over(job)
        };
        let mut others: Vec<&Job> = self.jobs.iter().filter(is_member).collect();
        others.sort_by_key(|job| Reverse(job.id));
        others.truncate(OTHERS_MAX);
        let what = match (others.is_empty(), selected.load.key()) {
            (false, _) => "a key group was popped",
            (true, Some(_)) => "a packet was popped",
            (true, None) => "a job was popped",
        };
        let group_only = others.iter().any(|job| job.status == Status::GroupOnly);
        let group: Vec<&Job> = std::iter::once(selected).chain(others).collect();
        let packet = |job: &&Job| {
            let key_len = job.load.key().map_or(0, <[u8]>::len);
            (u16::try_from(key_len).unwrap(), job.load.text.clone())
        };
        let packets: Vec<_> = group.iter().map(packet).collect();
        for id in group.iter().map(|job| job.id).collect::<Vec<_>>() {
            self.end_job(id, false);
            self.remove(id);
        }
        self.see(what);
        if group_only {
            self.see("a key group with a group-only job was popped");
        }
        self.reply(ticket, Answer::Packets(packets));
    }

    /// A job is gone.
    pub(super) fn remove(&mut self, id: u64) {
        self.end_job(id, true);
        self.end_reservation(id);
        self.notify_gone(id);
        self.jobs.retain(|job| job.id != id);
        self.drop_indexes();
    }

    /// A buried job is kicked: if its time to live is over, it has none any more.
    pub(super) fn outlive(&mut self, id: u64) {
        if self.has_passed(self.find(id).unwrap()) {
            self.see("kick: its time to live was over");
            self.job(id).ttl_end = None;
        }
    }

    /// A job may be reserved from now on; it is gone if its ttl has passed.
    pub(super) fn requeue(&mut self, id: u64) {
        let job = self.find(id).unwrap();
        let (end, passed) = (job.ttl_end, self.has_passed(job));
        if job.status == Status::Reserved && job.load.key().is_some() {
            self.see("a packet came back");
        }
        if passed {
            self.see("back: too late");
            return self.remove(id);
        }
        self.end_reservation(id);
        if !self.find(id).unwrap().dependent.waits_for.is_empty() {
            return self.hold_back(id, None);
        }
        let due = self.arm(end);
        let job = self.job(id);
        job.status = if job.priority.is_some() { Status::Ready } else { Status::GroupOnly };
        job.due = due;
    }

    /// These jobs go back together, and only then are waiters matched.
    pub(super) fn requeue_all(&mut self, ids: &[u64]) {
        self.notice();
        let mut jobs: Vec<&Job> = ids.iter().filter_map(|&id| self.find(id)).collect();
        jobs.sort_by(
            |one, other| {
                if leaves_before(one, other) { Ordering::Less } else { Ordering::Greater }
            },
        );
        for id in jobs.iter().map(|job| job.id).collect::<Vec<_>>() {
            self.requeue(id);
        }
        let came = self.jobs.iter().filter(|job| ids.contains(&job.id));
        let queues: Vec<Queue> = came.map(|job| job.queue).collect();
        self.serve(&queues);
    }

    /// A job is done: it is gone, or its result is retained.
    pub(super) fn complete(&mut self, id: u64, result: Option<Load>) {
        self.complete_key(id);
        self.end_job(id, false);
        let Some(end) = self.end_of(self.find(id).unwrap().options().result_retention_ms) else {
            return self.remove(id);
        };
        self.end_reservation(id);
        let due = self.arm(Some(end));
        let job = self.job(id);
        (job.status, job.due) = (Status::Completed, due);
        (job.result, job.message) = (result, None);
        self.record_event(id, EventKind::Finished);
        self.notify_end(id);
    }

    /// A run has failed.
    pub(super) fn fail_run(&mut self, id: u64, retry: bool, error: Load, message: Option<Text>) {
        let job = self.job(id);
        (job.result, job.message) = (Some(error), message);
        self.record_event(id, EventKind::Failed);
        let again = retry && self.job(id).has_retries_left();
        let job = self.job(id);
        if job.is_limited() {
            job.count_attempt();
        }
        self.retry_or_bury(id, again);
    }

    pub(super) fn put_away(&mut self, id: u64) {
        let end = self.end_of(self.find(id).unwrap().options().dead_retention_ms);
        self.end_reservation(id);
        let (due, buried) = (self.arm(end), self.tick());
        let job = self.job(id);
        (job.status, job.due, job.buried) = (Status::Buried, due, buried);
        self.record_event(id, EventKind::Buried);
        self.notify_end(id);
    }

    /// After a failure the job is retried, at once or later, or buried.
    pub(super) fn retry_or_bury(&mut self, id: u64, retry: bool) {
        self.end_reservation(id);
        if !retry {
            return self.put_away(id);
        }
        let job = self.job(id);
        let policy = job.options().retry.unwrap_or(Retry::DEFAULT);
        job.retries += 1;
        self.record_event(id, EventKind::Retried);
        let job = self.job(id);
        let (number, ttl_end) = (job.retries, job.ttl_end);
        let Some(end) = self.end_of_backoff(id, &policy, (number, false)) else {
            self.see("backoff: none");
            return self.requeue(id);
        };
        let due = self.arm(Some(ttl_end.map_or(end, |ttl_end| end.min(ttl_end))));
        let job = self.job(id);
        (job.status, job.due) = (Status::Delayed, due);
    }

    /// When this retry may begin; `None` for at once. What chance decides is learned, and must lie
    /// between the bounds. `capped`: chance does not make it longer than the policy's longest.
    pub(super) fn end_of_backoff(
        &mut self,
        id: u64,
        policy: &Retry,
        (number, capped): (u32, bool),
    ) -> Option<Mono> {
        let middle = backoff(policy, number);
        let jitter = u128::from(policy.jitter_percent);
        if jitter == 0 || middle == 0 {
            return (middle > 0).then(|| self.after(middle));
        }
        let lower = self.after(middle - middle.saturating_mul(jitter) / 100);
        let most = if capped { policy.max_ms.into() } else { u128::MAX };
        let upper = self.after(middle.saturating_mul(100 + jitter).div_ceil(100).min(most));
        let (now, job) = (self.now.mono, self.find(id).unwrap());
        let (ttl_end, passed) = (job.ttl_end, self.has_passed(job));
        let Some(&learned) = self.learned.get(&id) else {
            assert!(passed && capped && lower > now, "job {id} was not looked at");
            // It waits for the end of its life.
            return Some(lower);
        };
        let Some(end) = learned else {
            assert!(passed || lower == now, "job {id} should have had to wait");
            // It has waited for the end of its life, which came in its turn.
            return ((self.expiring || capped) && lower > now).then_some(lower);
        };
        assert!(lower <= end || ttl_end == Some(end), "job {id} waits until {end:?}: too short");
        assert!(end <= upper, "job {id} waits until {end:?} instead of {upper:?}: too long");
        self.see(if end < self.after(middle) { "backoff: shorter" } else { "backoff: longer" });
        Some(end)
    }

    /// The jobs whose backoff will be up to chance if this one fails, or if what is due ends.
    pub(crate) fn up_to_chance(&self, failing: Option<u64>) -> Vec<u64> {
        let (now, reserved) = (self.now.mono, Status::Reserved);
        let fails = |job: &&Job| match failing {
            Some(id) => job.id == id,
            None => job.status == reserved && job.due.is_some_and(|due| due.at <= now),
        };
        let jobs = self.jobs.iter().filter(|job| job.has_jitter(failing.is_some()));
        jobs.filter(fails).map(|job| job.id).collect()
    }
}

//! The oracle's store: a list of jobs and a list of waiters, searched from end to end. It is naive
//! on purpose.
//!
//! This file has the data, the order and the timers; `commands.rs` has the commands.
//!
//! A job whose ttl has passed stays in the list until it is expired, and is never found there. An
//! engine may delete it earlier; only a pop that waits for the job behind it could tell. When that
//! pop gets its job is the one choice that the oracle leaves to the engine.

use super::constraint_model::ConstraintSpec;
use super::indexed_queues::{Record, Watched};
use super::order::backoff;
use super::types::{Answer, Load, QUEUES, Queue, Replies, Text, View};
use super::worker_model::{Vigil, Worker};
use crate::seeds::Seen;
use jobcentre::base::time::Mono;
use jobcentre::model::event::EventKind;
use jobcentre::model::id::{ClientId, Ticket};
use jobcentre::model::job::{JobOptions, Priority, Retry, Status, TieBreak};
use std::collections::BTreeMap;

/// A moment at which something ends, and the place in the order of arming.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    pub(super) at: Mono,
    armed: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) id: u64,
    pub(super) queue: Queue,
    pub(super) priority: Priority<'static>,
    pub(super) tie_break: TieBreak,
    pub(super) load: Load,
    pub(super) options: Option<JobOptions>,
    pub(super) status: Status,
    pub(super) holder: Option<ClientId>,
    pub(super) lease: u32,
    pub(super) retries: u32,
    pub(super) result: Option<Load>,
    pub(super) message: Option<Text>,
    /// The worker that holds it.
    pub(super) worker: Option<u64>,
    /// The workers that it is not offered to, in rising order.
    pub(super) refused_by: Vec<u64>,
    /// When its time to live has passed.
    pub(super) ttl_end: Option<Mono>,
    /// When its status ends by itself.
    pub(super) due: Option<Due>,
    /// When it was buried, among all that were.
    pub(super) buried: u64,
    /// When it was put, in seconds of the wall clock.
    pub(super) created: u64,
    pub(super) record: Option<Record>,
    /// It is over, and the engine may have forgotten it.
    pub(super) doubtful: bool,
}

impl Job {
    pub(super) fn view(&self) -> View {
        View {
            id: self.id,
            queue: self.queue,
            priority: self.priority,
            load: self.load.clone(),
            lease: self.lease,
        }
    }

    /// The options of a job that has none: 0 is none.
    pub(super) fn options(&self) -> JobOptions {
        self.options.unwrap_or_default()
    }
}

/// A reserve or a pop that waits.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) ticket: Ticket,
    pub(super) pops: bool,
    /// The queues, with its place in the line of each.
    pub(super) lines: Vec<(Queue, u64)>,
    pub(super) due: Option<Due>,
}

#[derive(Clone, Default)]
pub(super) struct Model {
    pub(super) jobs: Vec<Job>,
    pub(super) waiters: Vec<Waiter>,
    pub(super) vigils: Vec<Vigil>,
    pub(super) workers: Vec<Worker>,
    pub(super) constraints: Vec<ConstraintSpec>,
    /// How many were ever enlisted.
    pub(super) enlisted: usize,
    /// What vigils are told behind everything else.
    pub(super) told: Replies,
    /// The highest id given out.
    pub(super) last_id: u64,
    pub(super) now: Mono,
    /// Milliseconds of the wall clock.
    pub(super) wall: u64,
    /// What is known of the queues that are watched.
    pub(super) watched: [Option<Watched>; QUEUES.len()],
    /// What has been said since it was last taken.
    pub(super) said: Replies,
    /// What became of jobs whose backoff is a matter of chance: the end of their delay, or `None`
    /// for those that are not delayed.
    pub(super) learned: BTreeMap<u64, Option<Mono>>,
    pub(super) seen: Seen,
    /// Whatever is due ends now.
    expiring: bool,
    /// What the engine chooses, as far as is known: whether it notices a job behind one that is
    /// over.
    pub(super) choices: Vec<bool>,
    /// How many choices there were so far.
    pub(super) chosen: usize,
    ticks: u64,
}

impl Model {
    pub(super) fn see(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    pub(super) fn say(&mut self, ticket: Ticket, said: Answer) {
        self.see(said.name());
        self.said.push((ticket, said));
    }

    pub(super) fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    fn after(&self, milliseconds: u128) -> Mono {
        let nanos = milliseconds.saturating_mul(1_000_000).saturating_add(self.now.0.into());
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

    pub(super) fn find(&self, id: u64) -> Option<&Job> {
        self.jobs.iter().find(|job| job.id == id)
    }

    pub(super) fn job(&mut self, id: u64) -> &mut Job {
        self.jobs.iter_mut().find(|job| job.id == id).unwrap()
    }

    pub(super) fn gone(&mut self, id: u64) {
        self.let_go(id);
        self.tell_gone(id);
        self.jobs.retain(|job| job.id != id);
        self.end_watches();
    }

    /// Whether the time to live has passed of a job.
    pub(super) fn has_passed(&self, job: &Job) -> bool {
        job.ttl_end.is_some_and(|end| end <= self.now)
    }

    /// Whether it should have left already.
    pub(super) fn is_over(&self, job: &Job) -> bool {
        let waits = matches!(job.status, Status::Ready | Status::GroupOnly | Status::Delayed);
        waits && self.has_passed(job)
    }

    /// A client holds this job from now on.
    pub(super) fn hand_out(&mut self, id: u64, ticket: Ticket) {
        let end = self.end_of(self.find(id).unwrap().options().lease_ms);
        let due = self.arm(end);
        let job = self.job(id);
        assert!(job.status == Status::Ready && job.holder.is_none(), "the oracle gave it away");
        job.lease += u32::from(job.options.is_some());
        (job.status, job.holder, job.due) = (Status::Reserved, Some(ticket.client), due);
        let worker = self.worker_of(ticket.client);
        let job = self.job(id);
        job.worker = worker;
        let view = job.view();
        self.happen(id, EventKind::Reserved { by: Some(ticket.client) });
        self.say(ticket, Answer::Job(view));
    }

    /// This job leaves for good, and all of its group.
    pub(super) fn pop_out(&mut self, id: u64, ticket: Ticket) {
        let selected = self.find(id).unwrap();
        let mut group: Vec<&Job> = vec![selected];
        if selected.load.key().is_some() {
            let is_member = |job: &&Job| {
                let there = matches!(job.status, Status::Ready | Status::GroupOnly);
                let same = job.queue == selected.queue && job.load.key() == selected.load.key();
                there && same && job.id != id && !self.is_over(job)
            };
            let mut others: Vec<&Job> = self.jobs.iter().filter(is_member).collect();
            others.sort_by_key(|job| std::cmp::Reverse(job.id));
            group.extend(others.into_iter().take(65_534));
        }
        let packet = |job: &&Job| {
            let key_len = job.load.key().map_or(0, <[u8]>::len);
            (u16::try_from(key_len).unwrap(), job.load.text.clone())
        };
        let packets: Vec<_> = group.iter().map(packet).collect();
        let ids: Vec<u64> = group.iter().map(|job| job.id).collect();
        let aside = group.iter().any(|job| job.status == Status::GroupOnly);
        for &id in &ids {
            self.tell_gone(id);
        }
        self.jobs.retain(|job| !ids.contains(&job.id));
        self.end_watches();
        self.see(if packets.len() > 1 { "group: several" } else { "group: one" });
        if aside {
            self.see("group: with one aside");
        }
        self.say(ticket, Answer::Packets(packets));
    }

    /// Requeues a job, or deletes it if its ttl has passed. Matches no waiter.
    pub(super) fn go_back(&mut self, id: u64) {
        let job = self.find(id).unwrap();
        if self.has_passed(job) {
            self.see("back: too late");
            return self.gone(id);
        }
        let end = job.ttl_end;
        self.let_go(id);
        let due = self.arm(end);
        let job = self.job(id);
        let never = job.priority == Priority::Unselected;
        job.status = if never { Status::GroupOnly } else { Status::Ready };
        job.due = due;
    }

    pub(super) fn bury(&mut self, id: u64) {
        let end = self.end_of(self.find(id).unwrap().options().dead_retention_ms);
        self.let_go(id);
        let (due, buried) = (self.arm(end), self.tick());
        let job = self.job(id);
        (job.status, job.due, job.buried) = (Status::Buried, due, buried);
        self.happen(id, EventKind::Buried);
        self.tell_end(id);
    }

    /// A failure: the job is retried, at once or later, or buried. Matches no waiter.
    pub(super) fn fail(&mut self, id: u64, retry: bool) {
        self.let_go(id);
        let job = self.job(id);
        let Some(policy) = job.options().retry.filter(|policy| retry && job.retries < policy.limit)
        else {
            return self.bury(id);
        };
        job.retries += 1;
        self.happen(id, EventKind::Retried);
        let job = self.job(id);
        let (number, ttl_end) = (job.retries, job.ttl_end);
        let Some(end) = self.end_of_backoff(id, &policy, number) else {
            self.see("backoff: none");
            return self.go_back(id);
        };
        let due = self.arm(Some(ttl_end.map_or(end, |ttl_end| end.min(ttl_end))));
        let job = self.job(id);
        (job.status, job.due) = (Status::Delayed, due);
    }

    /// When this retry may begin; `None` for at once. What chance decides is learned, and must lie
    /// between the bounds.
    fn end_of_backoff(&mut self, id: u64, policy: &Retry, number: u32) -> Option<Mono> {
        let middle = backoff(policy, number);
        let jitter = u128::from(policy.jitter_percent);
        if jitter == 0 || middle == 0 {
            return (middle > 0).then(|| self.after(middle));
        }
        let lower = self.after(middle - middle.saturating_mul(jitter) / 100);
        let upper = self.after(middle.saturating_mul(100 + jitter).div_ceil(100));
        let job = self.find(id).unwrap();
        let (ttl_end, passed) = (job.ttl_end, self.has_passed(job));
        let Some(&learned) = self.learned.get(&id) else { panic!("job {id} was not looked at") };
        let Some(end) = learned else {
            assert!(passed || lower == self.now, "job {id} should have had to wait");
            // It has waited for the end of its life, which came in its turn.
            return (self.expiring && lower > self.now).then_some(lower);
        };
        assert!(lower <= end || ttl_end == Some(end), "job {id} waits until {end:?}: too short");
        assert!(end <= upper, "job {id} waits until {end:?} instead of {upper:?}: too long");
        self.see(if end < self.after(middle) { "backoff: shorter" } else { "backoff: longer" });
        Some(end)
    }

    /// The jobs whose backoff will be up to chance if this one fails, or if what is due ends.
    pub(super) fn up_to_chance(&self, failing: Option<u64>) -> Vec<u64> {
        let fails = |job: &&Job| match failing {
            Some(id) => job.id == id,
            None => job.status == Status::Reserved && job.due.is_some_and(|due| due.at <= self.now),
        };
        let by_chance =
            |job: &&Job| job.options().retry.is_some_and(|policy| policy.jitter_percent > 0);
        self.jobs.iter().filter(fails).filter(by_chance).map(|job| job.id).collect()
    }

    /// Ends whatever is due, the earliest first.
    pub(super) fn expire(&mut self) {
        self.expiring = true;
        loop {
            let jobs = self.jobs.iter().filter_map(|job| Some((job.due?, job.id)));
            let job = jobs.min().filter(|(due, _)| due.at <= self.now);
            let takes = self.waiters.iter().filter_map(|waiter| Some((waiter.due?, waiter.ticket)));
            let vigils = self.vigils.iter().filter_map(|vigil| Some((vigil.due?, vigil.ticket)));
            let waits = takes.chain(vigils);
            let wait = waits.min().filter(|(due, _)| due.at <= self.now);
            match (job, wait) {
                (None, None) => break,
                (Some((due, id)), wait) if wait.is_none_or(|(end, _)| due < end) => {
                    self.end_of_status(id);
                }
                (_, Some((_, ticket))) => {
                    let vigils = self.vigils.len();
                    self.vigils.retain(|vigil| vigil.ticket != ticket);
                    if self.vigils.len() < vigils {
                        self.say(ticket, Answer::NotYet);
                        continue;
                    }
                    self.see("end: wait");
                    self.waiters.retain(|waiter| waiter.ticket != ticket);
                    self.say(ticket, Answer::NoJob);
                }
                (Some(_), None) => unreachable!("it is due before none"),
            }
        }
        (0..QUEUES.len()).for_each(|queue| self.serve(&[queue]));
        self.expiring = false;
        self.tell();
    }

    fn end_of_status(&mut self, id: u64) {
        let job = self.find(id).unwrap();
        let queue = job.queue;
        let followed = job.options().tracked;
        let fails = followed || job.options().retry.is_some();
        let (retries, over) = (job.retries, self.is_over(job));
        let was_in_front = self.is_in_front(job) && !job.doubtful;
        match job.status {
            Status::Ready => {
                self.see("end: time to live, ready");
                self.gone(id);
            }
            Status::GroupOnly => {
                self.see("end: time to live, aside");
                self.gone(id);
            }
            Status::Blocked => unreachable!("here it is ready, and held back"),
            Status::Delayed if over => {
                self.see("end: time to live, delayed");
                self.gone(id);
            }
            Status::Delayed => {
                self.see(if retries > 0 { "end: backoff" } else { "end: delay" });
                self.happen(id, EventKind::Due);
                self.go_back(id);
            }
            Status::Reserved if fails => {
                if followed {
                    let job = self.job(id);
                    (job.result, job.message) = (None, Some(Text::new(b"timeout")));
                }
                self.happen(id, EventKind::Expired);
                self.fail(id, true);
                let buried = self.find(id).is_some_and(|job| job.status == Status::Buried);
                self.see(if buried { "end: lease, buried" } else { "end: lease, retried" });
            }
            Status::Reserved => {
                self.see("end: lease, back");
                self.happen(id, EventKind::Expired);
                self.go_back(id);
            }
            Status::Completed => {
                self.see("end: kept");
                self.gone(id);
            }
            Status::Buried => {
                self.see("end: buried");
                self.gone(id);
            }
        }
        self.serve_after(id, queue, was_in_front);
    }
}

//! The oracle of all simulators: one naive store. It is naive on purpose, lists searched from end
//! to end, so that a reader checks each operation against `docs/internals/store.md` in a minute.
//!
//! Each operation is a method that takes the request's ticket and says what is answered, to whom,
//! in which order; a simulator performs it by [`Oracle::run`]. What is left to a simulator is to
//! draw requests, to submit them to what it tests, and to compare: in the terms of the engine
//! (`engine_sim`), or as bytes of a protocol (`wire` has lines and packets).
//!
//! A job whose ttl has passed stays in the list until it is expired, and is never found there. An
//! engine may delete it earlier; only a pop that waits for the job behind it could tell. When that
//! pop gets its job is the one choice that the oracle leaves to the engine.

pub(crate) mod commands;
pub(crate) mod constraints;
pub(crate) mod consumers;
pub(crate) mod dependencies;
pub(crate) mod imports;
pub(crate) mod indexed_queues;
pub(crate) mod keys;
pub(crate) mod manage;
pub(crate) mod manage_jobs;
pub(crate) mod matching;
mod order;
pub(crate) mod runs;
mod timers;
mod transitions;
pub(crate) mod types;
pub(crate) mod wire;
pub(crate) mod workers;

pub(crate) use commands::NewJob;

use crate::seeds::Seen;
use constraints::ConstraintSpec;
use consumers::Interest;
use dependencies::{Dependent, Ended};
use indexed_queues::{Indexed, Record};
use jobcentre::base::time::{Mono, Now};
use jobcentre::model::consumer::JobTally;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::LeaseToken;
use jobcentre::model::job::{JobOptions, Status, TieBreak};
use jobcentre::model::manage::QueueOrder;
use keys::{Key, PastKey};
use manage::Managed;
use runs::{PastRun, Runs};
use std::collections::{BTreeMap, VecDeque};
use timers::Due;
use types::{Answer, Load, Queue, Replies, Text, Urgency, View};
use workers::{Watcher, Worker};

/// A job.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) queue: Queue,
    pub(crate) priority: Urgency,
    tie_break: TieBreak,
    pub(crate) load: Load,
    options: Option<JobOptions>,
    pub(crate) status: Status,
    /// The client that has reserved it.
    pub(crate) holder: Option<ClientId>,
    /// The worker that has reserved it.
    pub(crate) worker: Option<u64>,
    pub(crate) lease: u32,
    retries: u32,
    result: Option<Load>,
    message: Option<Text>,
    /// The workers that it is not offered to, in rising order.
    refused_by: Vec<u64>,
    /// When its time to live has passed.
    ttl_end: Option<Mono>,
    /// When its status ends by itself.
    due: Option<Due>,
    /// Its place among the buried jobs.
    buried: u64,
    /// When it was put, in seconds of the wall clock.
    created: u64,
    record: Option<Record>,
    /// It is over, and the engine may have forgotten it.
    doubtful: bool,
    /// When its reservation was linked, in the order of what happens.
    taken: u64,
    pub(crate) runs: Runs,
    tally: JobTally,
    key: Option<Key>,
    pub(crate) dependent: Dependent,
}

impl Job {
    fn view(&self) -> View {
        View {
            id: self.id,
            queue: self.queue,
            priority: self.priority,
            load: self.load.clone(),
            lease: self.lease,
        }
    }

    /// The options of a job that has none: 0 is none.
    fn options(&self) -> JobOptions {
        self.options.unwrap_or_default()
    }

    /// Whether chance decides how long it waits after a failure, which is `reported`.
    fn has_jitter(&self, reported: bool) -> bool {
        self.options().retry.map_or(reported, |policy| policy.jitter_percent > 0)
    }
}

/// A reserve or a pop that waits.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) ticket: Ticket,
    pops: bool,
    /// The queues, with its place in the wait queue of each.
    places: Vec<(Queue, u64)>,
    due: Option<Due>,
    /// Of one that a lease of its client ends: when it ends at the latest.
    until: Option<Mono>,
}

/// The naive store.
#[derive(Clone)]
pub(crate) struct Oracle {
    /// The names of all queues that there may be.
    names: Vec<&'static [u8]>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) watchers: Vec<Watcher>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) constraints: Vec<ConstraintSpec>,
    /// What is known of each queue that is indexed.
    indexed: Vec<Option<Indexed>>,
    /// What the native API knows of each queue.
    managed: Vec<Managed>,
    pub(crate) interest: Vec<Interest>,
    /// How many workers were ever registered.
    pub(crate) registered: usize,
    /// The highest id given out.
    pub(crate) last_id: u64,
    pub(crate) now: Now,
    /// How often something happened, by its name.
    pub(crate) seen: Seen,
    /// What has been said in this step, and what watchers are told behind it.
    said: Replies,
    told: Replies,
    /// What became of jobs whose backoff is a matter of chance: the end of their delay, or `None`
    /// for those that are not delayed.
    pub(crate) learned: BTreeMap<u64, Option<Mono>>,
    /// Whatever is due ends now.
    expiring: bool,
    /// What the engine chooses, as far as is known: whether it notices a job behind one that is
    /// over.
    pub(crate) choices: Vec<bool>,
    /// How many choices there were so far.
    pub(crate) chosen: usize,
    /// The tokens of each job's leases, which are up to chance, the last one last.
    pub(crate) tokens: BTreeMap<u64, Vec<LeaseToken>>,
    /// The queues that were known when they were shown in an order last.
    ranked: BTreeMap<QueueOrder, (Mono, Vec<Queue>)>,
    /// Jobs that were completed under tokens and are gone, and until when that is remembered.
    completed: Vec<PastRun>,
    /// The same of jobs that were deleted while they were reserved under tokens.
    cancelled: Vec<PastRun>,
    /// Jobs that were cancelled while a connection had reserved them.
    cancelled_of_clients: Vec<(u64, ClientId, Mono)>,
    past_keys: Vec<PastKey>,
    /// What has ended, and was not settled yet.
    ended: VecDeque<Ended>,
    /// Groups that the imports of clients keep from ending.
    kept_groups: Vec<(ClientId, Text)>,
    ticks: u64,
}

impl Oracle {
    pub(crate) fn new(names: &[&'static [u8]]) -> Self {
        Self {
            names: names.to_vec(),
            jobs: Vec::new(),
            waiters: Vec::new(),
            watchers: Vec::new(),
            workers: Vec::new(),
            constraints: Vec::new(),
            indexed: vec![None; names.len()],
            managed: vec![Managed::default(); names.len()],
            interest: vec![Interest::default(); names.len()],
            registered: 0,
            last_id: 0,
            now: Now::default(),
            seen: Seen::new(),
            said: Replies::new(),
            told: Replies::new(),
            learned: BTreeMap::new(),
            expiring: false,
            choices: Vec::new(),
            chosen: 0,
            tokens: BTreeMap::new(),
            ranked: BTreeMap::new(),
            completed: Vec::new(),
            cancelled: Vec::new(),
            cancelled_of_clients: Vec::new(),
            past_keys: Vec::new(),
            ended: VecDeque::new(),
            kept_groups: Vec::new(),
            ticks: 0,
        }
    }

    /// The names of all queues that there may be.
    pub(crate) fn names(&self) -> &[&'static [u8]] {
        &self.names
    }

    /// Performs an operation; the answers to all clients are returned.
    pub(crate) fn run(&mut self, operation: impl FnOnce(&mut Self)) -> Replies {
        operation(self);
        self.serve_ended();
        for (ticket, said) in std::mem::take(&mut self.told) {
            self.reply(ticket, said);
        }
        std::mem::take(&mut self.said)
    }

    pub(crate) fn see(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// Sees how a report that is carried out names its run.
    fn see_reporter(&mut self, ticket: Ticket, (id, token): (JobId, Option<LeaseToken>)) {
        self.see(match (token, self.find(id.0).unwrap().holder) {
            (Some(_), _) => "report: by token",
            (None, Some(client)) if client == ticket.client => "report: by connection",
            (None, _) => "report: a release by another one",
        });
    }

    fn reply(&mut self, ticket: Ticket, said: Answer) {
        self.see(said.name());
        self.said.push((ticket, said));
    }

    /// Numbers what happens, so that things are known by their order.
    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    pub(crate) fn find(&self, id: u64) -> Option<&Job> {
        self.jobs.iter().find(|job| job.id == id)
    }

    fn job(&mut self, id: u64) -> &mut Job {
        self.jobs.iter_mut().find(|job| job.id == id).unwrap()
    }

    /// Whether the time to live has passed of a job.
    fn has_passed(&self, job: &Job) -> bool {
        job.ttl_end.is_some_and(|end| end <= self.now.mono)
    }

    /// Whether the time to live of this job, which is there, is over.
    pub(crate) fn is_past_its_time(&self, id: u64) -> bool {
        self.find(id).is_some_and(|job| self.has_passed(job))
    }

    /// Whether it should have left already.
    fn is_over(&self, job: &Job) -> bool {
        let waits = matches!(job.status, Status::Ready | Status::GroupOnly | Status::Delayed);
        waits && self.has_passed(job)
    }

    /// Whether a job is over, which the engine may know or not.
    pub(crate) fn has_over(&self) -> bool {
        self.jobs.iter().any(|job| self.is_over(job))
    }

    /// A job that clients may still know of.
    fn known(&self, id: u64) -> Option<&Job> {
        self.find(id).filter(|job| !self.is_over(job))
    }

    /// A command names a job: one that is over is removed, as the engine does. One that the engine
    /// may have come across before is perhaps gone there: then its queue is not looked at.
    fn meet_over(&mut self, id: JobId, seen: &'static str) {
        if let Some(job) = self.find(id.0).filter(|job| self.is_over(job)) {
            let (queue, doubtful) = (job.queue, job.doubtful);
            self.see(seen);
            self.remove(id.0);
            if !doubtful || !self.would_serve(queue) || self.notices() {
                self.serve(&[queue]);
            }
        }
    }

    /// The reserve or pop of a client that waits.
    pub(crate) fn waiting(&self, client: ClientId) -> Option<Ticket> {
        self.waiters.iter().map(|waiter| waiter.ticket).find(|ticket| ticket.client == client)
    }

    /// How many jobs an engine may have, at least and at most.
    pub(crate) fn count(&self) -> (usize, usize) {
        let over = self.jobs.iter().filter(|job| self.is_over(job)).count();
        (self.jobs.len() - over, self.jobs.len())
    }
}

//! An engine that completes late and out of order, as the contract of engines permits: commands are
//! executed in the order of their submission, and each completion is held for a drawn number of
//! passes.

use crate::rng::TestRng;
use jobcentre::base::time::{Mono, Now};
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::journal::LogStats;
use jobcentre::model::command::Command;
use jobcentre::model::driver::LogLine;
use jobcentre::model::external_id::QueueScan;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::indexed_queue::QueueSize;
use jobcentre::model::job::{LeaseEpoch, Packet};
use jobcentre::model::owned::{OwnedJob, OwnedJobStatus};
use jobcentre::model::reply::{Completion, JobStatus, Reply};
use jobcentre::model::row::{Row, Rows};
use jobcentre::model::stats::{ServerStats, StatsPage};
use jobcentre::model::worker::{Constraint, OwnedWorker};
use jobcentre::store::Counts;
use std::sync::Arc;

/// The client under which tests submit commands: its completions are not held.
const TEST_CLIENT_INDEX: u32 = u32::MAX - 1;

/// An [`Engine`] whose completions may be held.
#[derive(Debug)]
pub(crate) struct LateEngine {
    engine: Engine,
    /// Draws how long a completion is held, and which is the next one. `None`: none is held.
    rng: Option<TestRng>,
    held: Vec<Held>,
    /// What the last completion borrows from.
    current: Option<Held>,
}

#[derive(Debug)]
struct Held {
    ticket: Ticket,
    reply: OwnedReply,
    /// Passes to wait.
    passes: usize,
}

impl LateEngine {
    /// Completes late and out of order.
    pub(crate) fn late(engine: Engine, seed: u64) -> Self {
        Self { engine, rng: Some(TestRng::new(seed)), held: Vec::new(), current: None }
    }

    /// Completes as `engine` does.
    pub(crate) fn prompt(engine: Engine) -> Self {
        Self { engine, rng: None, held: Vec::new(), current: None }
    }

    /// The engine below, which shows what has been executed.
    pub(crate) fn inner(&self) -> &Engine {
        &self.engine
    }

    /// Takes in what the engine has completed.
    fn collect(&mut self) {
        while let Some(Completion { ticket, reply }) = self.engine.poll_completion() {
            let passes = match &mut self.rng {
                Some(rng) if ticket.client.index != TEST_CLIENT_INDEX => {
                    *rng.pick(&[0, 0, 1, 1, 2, 5])
                }
                _ => 0,
            };
            self.held.push(Held { ticket, reply: OwnedReply::new(&reply), passes });
        }
    }
}

impl CommandExecutor for LateEngine {
    fn submit(&mut self, ticket: Ticket, command: &Command<'_>, now: Now) {
        self.engine.submit(ticket, command, now);
        self.collect();
    }

    fn cancel(&mut self, ticket: Ticket, now: Now) {
        self.engine.cancel(ticket, now);
        self.collect();
    }

    fn disconnect_client(&mut self, client: ClientId, now: Now) {
        self.engine.disconnect_client(client, now);
        self.collect();
    }

    fn half_close_client(&mut self, client: ClientId) {
        self.engine.half_close_client(client);
    }

    fn expire(&mut self, now: Now) {
        self.engine.expire(now);
        self.collect();
    }

    fn commit(&mut self, now: Now) {
        self.engine.commit(now);
        self.collect();
        for held in &mut self.held {
            held.passes = held.passes.saturating_sub(1);
        }
    }

    fn poll_completion(&mut self) -> Option<Completion<'_>> {
        let due: Vec<usize> =
            (0..self.held.len()).filter(|&number| self.held[number].passes == 0).collect();
        if due.is_empty() {
            return None;
        }
        let number = self.rng.as_mut().map_or(due[0], |rng| *rng.pick(&due));
        let current = self.current.insert(self.held.remove(number));
        Some(Completion { ticket: current.ticket, reply: current.reply.view() })
    }

    fn poll_timeout(&self) -> Option<Mono> {
        if self.held.is_empty() { self.engine.poll_timeout() } else { Some(Mono(0)) }
    }

    fn poll_log_line(&mut self) -> Option<LogLine> {
        self.engine.poll_log_line()
    }

    fn fatal_error(&self) -> Option<String> {
        self.engine.fatal_error()
    }

    fn awaits_disk(&self) -> bool {
        !self.held.is_empty() || self.engine.awaits_disk()
    }

    fn close(&mut self, now: Now) {
        self.engine.close(now);
    }

    fn is_closed(&self) -> bool {
        self.held.is_empty() && self.engine.is_closed()
    }

    fn stats(&self, stats: &mut ServerStats) {
        self.engine.stats(stats);
    }

    fn journal_stats(&self) -> Option<LogStats> {
        self.engine.journal_stats()
    }

    fn counts(&self) -> Counts {
        self.engine.counts()
    }

    fn check_invariants(&self) {
        self.engine.check_invariants();
    }

    fn is_waiting(&self, ticket: Ticket) -> bool {
        self.engine.is_waiting(ticket)
    }
}

/// A reply that borrows nothing.
#[derive(Debug)]
enum OwnedReply {
    /// One that borrows nothing anyway.
    Plain(Reply<'static>),
    Attached(Vec<(JobId, LeaseEpoch)>),
    BadQuery(String),
    Stats(StatsPage),
    Constraint(Constraint),
    Conflict(Arc<[u8]>),
    QueryRows(Arc<[Arc<Row>]>),
    Job(OwnedJob),
    JobStatus(OwnedJobStatus),
    Packets(Vec<Packet>),
    Queue(Vec<u8>),
    Queues(Vec<QueueSize>, Option<u32>),
    Row(Arc<Row>),
    Rows(Rows),
    Peeked(OwnedJobStatus),
    QueueScan(QueueScan),
    Workers(Vec<OwnedWorker>),
}

impl OwnedReply {
    fn new(reply: &Reply<'_>) -> Self {
        match *reply {
            Reply::Attached(reserved) => Self::Attached(reserved.to_vec()),
            Reply::BadQuery(why) => Self::BadQuery(why.to_owned()),
            Reply::Stats(page) => Self::Stats(page.clone()),
            Reply::Constraint(constraint) => Self::Constraint(constraint.clone()),
            Reply::Conflict(state) => Self::Conflict(Arc::clone(state)),
            Reply::QueryRows(rows) => Self::QueryRows(Arc::clone(rows)),
            Reply::Job(job) => Self::Job(OwnedJob::new(&job)),
            Reply::JobStatus(ref status) => Self::JobStatus(OwnedJobStatus::new(status)),
            Reply::Packets(packets) => Self::Packets(packets.to_vec()),
            Reply::Queue(name) => Self::Queue(name.to_vec()),
            Reply::Queues { queues, next } => Self::Queues(queues.to_vec(), next),
            Reply::Row(row) => Self::Row(Arc::clone(row)),
            Reply::Rows(rows) => Self::Rows(rows.clone()),
            Reply::Peeked(ref info) => {
                let status = JobStatus { info: **info, worker: None, message: None };
                Self::Peeked(OwnedJobStatus::new(&status))
            }
            Reply::QueueScan(page) => Self::QueueScan(page.clone()),
            Reply::Workers(page) => Self::Workers(page.to_vec()),
            Reply::Cancelled => Self::Plain(Reply::Cancelled),
            Reply::Constrained { new } => Self::Plain(Reply::Constrained { new }),
            Reply::Done => Self::Plain(Reply::Done),
            Reply::QueueDropped { jobs, more } => Self::Plain(Reply::QueueDropped { jobs, more }),
            Reply::Deleted => Self::Plain(Reply::Deleted),
            Reply::Kicked(count) => Self::Plain(Reply::Kicked(count)),
            Reply::NoConstraint => Self::Plain(Reply::NoConstraint),
            Reply::NoJob => Self::Plain(Reply::NoJob),
            Reply::NoQueue => Self::Plain(Reply::NoQueue),
            Reply::NoWorker => Self::Plain(Reply::NoWorker),
            Reply::NotYet => Self::Plain(Reply::NotYet),
            Reply::Put(id) => Self::Plain(Reply::Put(id)),
            Reply::Rejected(rejection) => Self::Plain(Reply::Rejected(rejection)),
            Reply::Worker(id) => Self::Plain(Reply::Worker(id)),
            Reply::TooLarge(id) => Self::Plain(Reply::TooLarge(id)),
        }
    }

    fn view(&self) -> Reply<'_> {
        match self {
            Self::Plain(reply) => reply.clone(),
            Self::Attached(reserved) => Reply::Attached(reserved),
            Self::BadQuery(why) => Reply::BadQuery(why),
            Self::Stats(page) => Reply::Stats(page),
            Self::Constraint(constraint) => Reply::Constraint(constraint),
            Self::Conflict(state) => Reply::Conflict(state),
            Self::QueryRows(rows) => Reply::QueryRows(rows),
            Self::Job(job) => Reply::Job(job.view()),
            Self::JobStatus(status) => Reply::JobStatus(Box::new(status.view())),
            Self::Packets(packets) => Reply::Packets(packets),
            Self::Queue(name) => Reply::Queue(name),
            Self::Queues(queues, next) => Reply::Queues { queues, next: *next },
            Self::Row(row) => Reply::Row(row),
            Self::Rows(rows) => Reply::Rows(rows),
            Self::Peeked(status) => Reply::Peeked(Box::new(status.view().info)),
            Self::QueueScan(page) => Reply::QueueScan(page),
            Self::Workers(page) => Reply::Workers(page),
        }
    }
}

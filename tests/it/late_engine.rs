//! An engine that completes late and out of order, as the contract of engines permits: commands are
//! executed in the order of their submission, and each completion is held for a drawn number of
//! passes.

use crate::rng::TestRng;
use jobcentre::base::time::{Mono, Now};
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::journal::LogStats;
use jobcentre::model::command::Command;
use jobcentre::model::driver::LogLine;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::owned::{OwnedJob, OwnedJobStatus, OwnedReply};
use jobcentre::model::reply::{Completion, JobStatus, Reply};
use jobcentre::model::stats::ServerStats;
use jobcentre::model::worker::Constraint;
use jobcentre::store::Counts;

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
    reply: HeldReply,
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
            self.held.push(Held { ticket, reply: HeldReply::new(&reply), passes });
        }
    }
}

impl CommandExecutor for LateEngine {
    fn submit(&mut self, ticket: Ticket, command: &Command<'_>, now: Now) {
        self.engine.submit(ticket, command, now);
        self.collect();
    }

    fn take_work(&mut self) -> usize {
        self.engine.take_work()
    }

    fn noted_work(&self) -> usize {
        self.engine.noted_work()
    }

    fn is_deferred(&self, ticket: Ticket) -> bool {
        self.engine.is_deferred(ticket)
    }

    fn cancel(&mut self, ticket: Ticket, now: Now) {
        self.engine.cancel(ticket, now);
        self.collect();
    }

    fn disconnect_client(&mut self, client: ClientId, now: Now) {
        self.engine.disconnect_client(client, now);
        self.collect();
    }

    fn poll_disconnected(&mut self) -> Option<ClientId> {
        self.engine.poll_disconnected()
    }

    fn half_close_client(&mut self, client: ClientId) {
        self.engine.half_close_client(client);
    }

    fn sample(&mut self, now: Now) {
        self.engine.sample(now);
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

    fn set_draining(&mut self, draining: bool) {
        self.engine.set_draining(draining);
    }

    fn set_buffer_bytes(&mut self, bytes: u64) {
        self.engine.set_buffer_bytes(bytes);
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

    fn reserved_by(&self, client: ClientId, most: usize) -> usize {
        self.engine.reserved_by(client, most)
    }

    fn job_queue(&self, id: JobId, client: ClientId) -> Option<(&[u8], bool)> {
        self.engine.job_queue(id, client)
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
enum HeldReply {
    /// One that borrows nothing anyway.
    Plain(Reply<'static>),
    Constraint(Constraint),
    Peeked(OwnedJobStatus),
    Owned(OwnedReply),
}

impl HeldReply {
    fn new(reply: &Reply<'_>) -> Self {
        Self::Owned(match *reply {
            Reply::Attached(reserved) => OwnedReply::Attached(reserved.into()),
            Reply::Stats(page) => OwnedReply::Stats(Box::new(page.clone())),
            Reply::Indexed(reply) => OwnedReply::Indexed(reply.clone()),
            Reply::IndexedPage(page) => OwnedReply::IndexedPage(page.clone()),
            Reply::Job(job) => OwnedReply::Job(Box::new(OwnedJob::new(&job))),
            Reply::JobStatus(ref status) => {
                OwnedReply::JobStatus(Box::new(OwnedJobStatus::new(status)))
            }
            Reply::Packets(packets) => OwnedReply::Packets(packets.to_vec()),
            Reply::KeyGroup(ref packets) => OwnedReply::Packets(packets.clone()),
            Reply::Consumer(reply) => OwnedReply::Consumer(reply.clone()),
            Reply::Manage(reply) => OwnedReply::Manage(reply.clone()),
            Reply::QueueScan(page) => OwnedReply::QueueScan(Box::new(page.clone())),
            Reply::Workers(page) => OwnedReply::Workers(page.into()),
            Reply::ConstraintFound(constraint) => return Self::Constraint(constraint.clone()),
            Reply::Peeked(ref info) => {
                let status = JobStatus { info: **info, worker: None, message: None };
                return Self::Peeked(OwnedJobStatus::new(&status));
            }
            Reply::Cancelled => return Self::Plain(Reply::Cancelled),
            Reply::Done => return Self::Plain(Reply::Done),
            Reply::Kicked(count) => return Self::Plain(Reply::Kicked(count)),
            Reply::LeaseEnding => return Self::Plain(Reply::LeaseEnding),
            Reply::NoJob => return Self::Plain(Reply::NoJob),
            Reply::Put(id) => return Self::Plain(Reply::Put(id)),
            Reply::Rejected(rejection) => return Self::Plain(Reply::Rejected(rejection)),
            Reply::TooLarge(id) => return Self::Plain(Reply::TooLarge(id)),
            Reply::Registered(id) => return Self::Plain(Reply::Registered(id)),
            Reply::Worker(reply) => return Self::Plain(Reply::Worker(reply)),
            Reply::Tracked(reply) => return Self::Plain(Reply::Tracked(reply)),
            Reply::Constraint(reply) => return Self::Plain(Reply::Constraint(reply)),
        })
    }

    fn view(&self) -> Reply<'_> {
        match self {
            Self::Plain(reply) => reply.clone(),
            Self::Constraint(constraint) => Reply::ConstraintFound(constraint),
            Self::Peeked(status) => Reply::Peeked(Box::new(status.view().info)),
            Self::Owned(reply) => reply.view(),
        }
    }
}

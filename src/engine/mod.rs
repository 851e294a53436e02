//! F4: engines carry out commands. *Everything is op to exactly one completion.*
//!
//! The contract, whatever the engine:
//! - [`Engine::submit`] takes a command; its ticket comes back once from
//!   [`Engine::poll_completion`], at once or after any number of passes. No caller may assume
//!   which.
//! - After each call that changes something, completions are polled until there are none: they
//!   borrow what they show from the engine, and are good until the next call.
//! - [`Engine::cancel`] makes a waiting take, or a wait for news of a job, complete as
//!   `Reply::Cancelled`, unless its answer is already on the way.
//! - [`Engine::disconnect_client`] ends a client: what it held is ready again. A ticket of it may
//!   still come back, to nobody.
//! - [`Engine::expire`] lets time pass: jobs become ready, leases and waits end, some jobs go.
//! - [`Engine::commit`] ends a pass. An engine that keeps a journal answers only what is durable.
//!   Queries begin and end there.

mod disk_space;
mod durable;
mod embedded;
mod query_scheduler;
mod query_turns;
mod record;

use crate::base::time::{Mono, Now};
use crate::journal::disk::{Disk, Files};
use crate::journal::{LogStats, OpenError, Options, Progress, Recovered, Report};
use crate::model::command::Command;
use crate::model::driver::LogLine;
use crate::model::id::{ClientId, JobId, Ticket};
use crate::model::job::LeaseEpoch;
use crate::model::reply::{Completion, Reply};
use crate::model::snapshot::Record;
use crate::model::stats::ServerStats;
use crate::model::worker::{Constraint, JobStatus as JobProgress, Worker, WorkerId};
use crate::query::QueryExecutor;
use crate::store::{Counts, Effects, Outcome, Store};
use durable::Durable;
use embedded::Embedded;
use query_scheduler::QueryScheduler;
use std::time::Duration;

/// A store that was brought back, and what its journal needs to go on.
pub struct Restored {
    store: Store,
    recovered: Recovered,
}

impl Restored {
    /// How much came back.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.store.counts()
    }
}

/// The engines there are.
#[expect(clippy::large_enum_variant, reason = "there is one, and its path is the hot one")]
#[derive(Debug)]
pub enum Engine {
    /// The store in this process.
    Embedded(Embedded),
    /// The same with a journal.
    Durable(Box<Durable>),
}

/// Reads a record of an engine's journal, for those who want to look at one. Its moments are
/// counted from the first one of 1970 on the wall clock. O(bytes): texts are borrowed.
///
/// # Errors
/// A sentence, if the bytes are no record.
pub fn read_record(bytes: &[u8]) -> Result<Record<'_>, String> {
    record::read(bytes, Now::default()).map_err(|error| error.to_string())
}

/// What a store has brought about, as a reply that borrows from it.
#[inline(always)]
fn reply_for<'a>(outcome: Outcome, store: &'a Store, effects: &'a Effects) -> Reply<'a> {
    match outcome {
        Outcome::Cancelled => Reply::Cancelled,
        Outcome::Done => Reply::Done,
        Outcome::Job(slot) => Reply::Job(store.view(slot)),
        Outcome::Kicked(count) => Reply::Kicked(count),
        Outcome::NoJob => Reply::NoJob,
        Outcome::Packets { first, count } => {
            let (first, count) = (first as usize, count as usize);
            Reply::Packets(&effects.popped[first..first + count])
        }
        Outcome::Put(id) => Reply::Put(id),
        Outcome::Refused(refusal) => Reply::Rejected(refusal),
        Outcome::Seen(slot) => Reply::Peeked(Box::new(store.job_info(slot))),
        Outcome::TooLarge(id) => Reply::TooLarge(id),
        _ => reply_for_cold(outcome, store, effects),
    }
}

#[cold]
fn reply_for_cold<'a>(outcome: Outcome, store: &'a Store, effects: &'a Effects) -> Reply<'a> {
    match outcome {
        Outcome::Constrained { new } => Reply::Constrained { new },
        Outcome::Constraint(number) => Reply::Constraint(store.constraint(number)),
        Outcome::Fetched(number) => {
            Reply::JobStatus(Box::new(effects.fetched[number as usize].view()))
        }
        Outcome::Gone => Reply::Deleted,
        Outcome::NoConstraint => Reply::NoConstraint,
        Outcome::NoWorker => Reply::NoWorker,
        Outcome::NotYet => Reply::NotYet,
        Outcome::Progress(slot) => Reply::JobStatus(Box::new(store.progress(slot))),
        Outcome::Watched(number) => effects.watched[number as usize].reply(),
        Outcome::Worker(id) => Reply::Worker(id),
        _ => unreachable!("these are frequent"),
    }
}

impl Engine {
    /// An engine over a store in memory. `seed` is entropy for its hashes.
    #[must_use]
    pub fn in_memory(seed: u64) -> Self {
        Self::Embedded(Embedded::new(seed))
    }

    /// Brings a store back from the journal in `files`. `seed` is entropy for its hashes; moments
    /// that have passed on the wall clock are due at `now`.
    ///
    /// # Errors
    /// If the journal cannot be read: see [`OpenError`].
    pub fn restore(
        files: &mut dyn Files,
        options: &Options,
        seed: u64,
        now: Now,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Restored, Report), OpenError> {
        let (store, recovered, report) = durable::restore(files, options, seed, now, progress)?;
        Ok((Restored { store, recovered }, report))
    }

    /// An engine over a store that was brought back; its journal goes on with `disk`.
    #[must_use]
    pub fn durable(restored: Restored, disk: Box<dyn Disk>, now: Now) -> Self {
        let journal = restored.recovered.start(disk, now);
        Self::Durable(Box::new(Durable::new(restored.store, journal)))
    }

    /// The same engine with somebody who evaluates queries, each of which may take so long from its
    /// arrival, and makes the shell call [`Engine::commit`] when a turn has ended. Without, each
    /// query is answered by `Reply::BadQuery`.
    #[must_use]
    pub fn with_queries(mut self, helper: Box<dyn QueryExecutor>, timeout: Duration) -> Self {
        self.query_scheduler().set_helper(helper, timeout);
        self
    }

    /// What went wrong so badly that nothing that must last can be answered any more.
    #[must_use]
    pub fn fatal_error(&self) -> Option<String> {
        match self {
            Self::Embedded(_) => None,
            Self::Durable(engine) => engine.fatal_error(),
        }
    }

    /// Something for the operator.
    pub fn poll_remark(&mut self) -> Option<LogLine> {
        match self {
            Self::Embedded(_) => None,
            Self::Durable(engine) => engine.poll_remark(),
        }
    }

    /// Whether answers wait for the disk.
    #[must_use]
    pub fn awaits_disk(&self) -> bool {
        match self {
            Self::Embedded(_) => false,
            Self::Durable(engine) => engine.awaits_disk(),
        }
    }

    /// Begins the end: what must last is made to last. Go on with [`Engine::commit`] until
    /// [`Engine::is_closed`].
    pub fn close(&mut self, now: Now) {
        match self {
            Self::Embedded(_) => {}
            Self::Durable(engine) => engine.close(now),
        }
    }

    /// Whether all that must last does, after [`Engine::close`].
    #[must_use]
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Embedded(_) => true,
            Self::Durable(engine) => engine.is_closed(),
        }
    }

    /// Figures of the journal, if there is one. O(segments).
    #[must_use]
    pub fn journal_status(&self) -> Option<LogStats> {
        match self {
            Self::Embedded(_) => None,
            Self::Durable(engine) => Some(engine.journal_status()),
        }
    }

    /// Hands a command over.
    #[inline(always)]
    pub fn submit(&mut self, ticket: Ticket, command: &Command<'_>, now: Now) {
        match self {
            Self::Embedded(engine) => engine.submit(ticket, command, now),
            Self::Durable(engine) => engine.submit(ticket, command, now),
        }
    }

    /// Calls a take off, if it still waits.
    pub fn cancel(&mut self, ticket: Ticket, now: Now) {
        match self {
            Self::Embedded(engine) => engine.cancel(ticket, now),
            Self::Durable(engine) => engine.cancel(ticket, now),
        }
    }

    /// Ends a client.
    pub fn disconnect_client(&mut self, client: ClientId, now: Now) {
        match self {
            Self::Embedded(engine) => engine.disconnect_client(client, now),
            Self::Durable(engine) => engine.disconnect_client(client, now),
        }
    }

    /// A client sends nothing more, though it may still read: it may be gone, and what would take
    /// long to find out for it is not.
    pub fn leave(&mut self, client: ClientId) {
        self.query_scheduler().leave(client);
    }

    /// Handles a bounded number of things whose time has come; [`Engine::poll_timeout`] tells
    /// whether some are left. To be called in each pass: what all its commands may do together
    /// counts from here.
    pub fn expire(&mut self, now: Now) {
        match self {
            Self::Embedded(engine) => engine.expire(now),
            Self::Durable(engine) => engine.expire(now),
        }
    }

    /// Ends a pass.
    pub fn commit(&mut self, now: Now) {
        match self {
            Self::Embedded(engine) => engine.commit(now),
            Self::Durable(engine) => engine.commit(now),
        }
    }

    /// The next completion, in the order in which things happened.
    #[inline(always)]
    pub fn poll_completion(&mut self) -> Option<Completion<'_>> {
        match self {
            Self::Embedded(engine) => engine.poll_completion(),
            Self::Durable(engine) => engine.poll_completion(),
        }
    }

    /// When the engine wants [`Engine::expire`] and [`Engine::commit`] to be called at the latest.
    /// O(1), exact.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        match self {
            Self::Embedded(engine) => engine.poll_timeout(),
            Self::Durable(engine) => engine.poll_timeout(),
        }
    }

    /// Writes what the engine has counted into `figures`. O(segments).
    pub fn stats(&self, figures: &mut ServerStats) {
        match self {
            Self::Embedded(engine) => engine.stats(figures),
            Self::Durable(engine) => engine.stats(figures),
        }
    }

    /// The workers on the list with this number or a later one, in the order in which they were
    /// enlisted. O(log workers + how many there are).
    pub fn workers(&self, first: WorkerId) -> impl Iterator<Item = (WorkerId, Worker<'_>)> {
        self.store().workers(first)
    }

    /// Whether a worker is on the list. O(log workers).
    #[must_use]
    pub fn is_registered(&self, worker: WorkerId) -> bool {
        self.store().is_registered(worker)
    }

    /// The constraint of this name, as it stands: it may not be durable yet. O(log constraints).
    #[must_use]
    pub fn constraint(&self, name: &str) -> Option<&Constraint> {
        self.store().find_constraint(name)
    }

    /// How often the list of workers was changed: whoever has seen this number knows the list.
    /// O(1).
    #[must_use]
    pub fn registry_version(&self) -> u64 {
        self.store().registry_version()
    }

    /// The jobs that a worker holds, and under which leases: what whoever serves it after a restart
    /// has to know. O(jobs).
    #[must_use]
    pub fn reserved_by(&self, worker: WorkerId) -> Vec<(JobId, LeaseEpoch)> {
        self.store().reserved_by(worker)
    }

    /// How a job is going, as far as commands were carried out, durable or not. O(log n): for
    /// checks.
    #[must_use]
    pub fn peek(&self, id: JobId) -> Option<JobProgress<'_>> {
        self.store().peek(id)
    }

    /// Whether what was asked under this ticket waits for its time to be answered: what only waits
    /// for the disk does not. O(takes of the client that wait): for checks.
    #[must_use]
    pub fn is_waiting(&self, ticket: Ticket) -> bool {
        self.store().is_waiting(ticket)
    }

    fn query_scheduler(&mut self) -> &mut QueryScheduler {
        match self {
            Self::Embedded(engine) => engine.queries(),
            Self::Durable(engine) => engine.queries(),
        }
    }

    fn store(&self) -> &Store {
        match self {
            Self::Embedded(engine) => engine.store(),
            Self::Durable(engine) => engine.store(),
        }
    }

    /// How much there is in the store.
    #[must_use]
    pub fn counts(&self) -> Counts {
        match self {
            Self::Embedded(engine) => engine.counts(),
            Self::Durable(engine) => engine.counts(),
        }
    }

    /// Asserts every invariant. O(everything): for tests and the simulator.
    pub fn check_invariants(&self) {
        match self {
            Self::Embedded(engine) => engine.check_invariants(),
            Self::Durable(engine) => engine.check_invariants(),
        }
    }
}

//! L4: the engine executes commands: one store, the scheduler of its queries and, if the server
//! has a data directory, a journal.
//!
//! The contract of callers, which the trait [`CommandExecutor`] declares:
//! - [`CommandExecutor::submit`] takes a command under a ticket. The ticket completes exactly once,
//!   unless its client is disconnected before. The completion may be there at once or after any
//!   number of passes, and completions may come in another order than the commands. The commands of
//!   one client take effect in the order in which they are submitted. Callers act on completions
//!   only.
//! - After each call that changes something the caller polls [`CommandExecutor::poll_completion`]
//!   until it returns `None`. Completions borrow from the engine and are valid until the next call.
//! - [`CommandExecutor::cancel`] completes a waiting reserve or long poll with the `Cancelled`
//!   reply of its kind, unless its reply is already decided.
//! - [`CommandExecutor::disconnect_client`] requeues what the client has reserved. A completion of
//!   the client may still follow; the caller drops it.
//! - [`CommandExecutor::expire`] begins a pass and fires timers: delays, leases, timeouts,
//!   retention.
//! - [`CommandExecutor::commit`] ends a pass. Queries start and finish there, and an engine with a
//!   journal writes and syncs there: it replies only what is durable.

mod backups;
mod command_executor;
mod command_kind;
mod disk_space;
mod follower;
mod journal_gate;
mod memory_limit;
mod query_scheduler;
mod query_turns;
mod record;
mod record_key;
mod restore;
pub mod shared;
mod shared_check;
mod sink;
mod test_access;
mod transfer;

use crate::base::limits::STORE_DEADLINES_PER_PASS;
use crate::base::time::{Mono, Now};
use crate::journal::LogStats;
use crate::journal::disk::{Disk, SegmentReader};
use crate::model::command::Command;
use crate::model::driver::{Link, LogLine};
use crate::model::id::{ClientId, JobId, Ticket};
use crate::model::job::Packet;
use crate::model::manage::ManageCommand;
use crate::model::reply::{Completion, Reply};
use crate::model::snapshot::Record;
use crate::model::stats::{MemoryStats, ServerStats};
use crate::query::QueryExecutor;
use crate::store::{Counts, Effects, JobIdx, Outcome, RewriteLimit, ScheduleHold, Store};
use backups::Backups;
pub use command_executor::CommandExecutor;
pub use follower::{Follower, Step};
use journal_gate::JournalGate;
use memory_limit::MemoryLimit;
use query_scheduler::QueryScheduler;
pub use restore::{Restored, RestoredShared};
use shared::Leader;
pub use shared_check::{SharedCheck, check_shared};
use sink::Sink;
use std::time::Duration;
pub use transfer::{Moving, RecordKeys};

/// A store, the queries that are evaluated over it, and its journal, if it has one.
#[derive(Debug)]
pub struct Engine {
    store: Store,
    /// What the last call has brought about. Only with a journal does it list changed records.
    effects: Effects,
    queries: QueryScheduler,
    journal: Option<Box<JournalGate>>,
    memory: Option<Box<MemoryLimit>>,
    backups: Option<Box<Backups>>,
    /// There is a journal or a limit on memory, or the server is being drained.
    admits_first: bool,
    /// Nothing is put.
    draining: bool,
    /// Bytes of the buffers of connections.
    buffer_bytes: u64,
}

/// Decodes a journal record. Its wall-clock times are relative to 1970-01-01. O(bytes): texts are
/// borrowed.
///
/// # Errors
/// A sentence that says what is malformed.
pub fn read_record(bytes: &[u8]) -> Result<Record<'_>, String> {
    record::read(bytes, Now::default()).map_err(|error| error.to_string())
}

/// The reply for an outcome; it borrows from the store or from the effects.
#[inline(always)]
fn reply_for<'a>(outcome: Outcome, store: &'a Store, effects: &'a mut Effects) -> Reply<'a> {
    match outcome {
        Outcome::Cancelled => Reply::Cancelled,
        Outcome::Done => Reply::Done,
        Outcome::Job(slot) => Reply::Job(store.view(slot)),
        Outcome::Kicked(count) => Reply::Kicked(count),
        Outcome::LeaseEnding => Reply::LeaseEnding,
        Outcome::NoJob => Reply::NoJob,
        Outcome::Packets { first, count } => Reply::Packets(packets(effects, first, count)),
        Outcome::Peeked(slot) => Reply::Peeked(Box::new(store.job_info(slot))),
        Outcome::Put(id) => Reply::Put(id),
        Outcome::Rejected(rejection) => Reply::Rejected(rejection),
        Outcome::TooLarge(id) => Reply::TooLarge(id),
        Outcome::JobStatus(slot) => status_cold(slot, store),
        Outcome::Tracked(reply) => Reply::Tracked(reply),
        Outcome::Registered(worker) => Reply::Registered(worker),
        Outcome::Worker(reply) => Reply::Worker(reply),
        Outcome::ConstraintFound(number) => Reply::ConstraintFound(store.constraint(number)),
        Outcome::Constraint(reply) => Reply::Constraint(reply),
        Outcome::Owned(number) => owned_cold(number, effects),
    }
}

#[inline]
fn packets(effects: &Effects, first: u32, count: u32) -> &[Packet] {
    let (first, count) = (first as usize, count as usize);
    &effects.popped[first..first + count]
}

#[cold]
fn status_cold(slot: JobIdx, store: &Store) -> Reply<'_> {
    Reply::JobStatus(Box::new(store.progress(slot)))
}

#[cold]
fn owned_cold(number: u32, effects: &mut Effects) -> Reply<'_> {
    effects.owned[number as usize].take_reply()
}

/// The next completion that is not gated.
#[inline(always)]
fn next_completion<'a>(store: &'a Store, effects: &'a mut Effects) -> Option<Completion<'a>> {
    let (ticket, outcome) = effects.next_outcome()?;
    Some(Completion { ticket, reply: reply_for(outcome, store, effects) })
}

impl Engine {
    /// An engine without a journal. `seed` is entropy for the store's hashes.
    #[must_use]
    pub fn in_memory(seed: u64) -> Self {
        Self {
            store: Store::new(seed),
            effects: Effects::default(),
            queries: QueryScheduler::default(),
            journal: None,
            memory: None,
            backups: None,
            admits_first: false,
            draining: false,
            buffer_bytes: 0,
        }
    }

    /// An engine over a restored store; its journal continues on `disk`.
    #[must_use]
    pub fn durable(restored: Restored, disk: Box<dyn Disk>, now: Now) -> Self {
        let sink = Sink::Journal(restored.recovered.start(disk, now));
        Self::over(restored.store, sink)
    }

    /// An engine over a store that was restored from a shared sink, which `leader` writes from now
    /// on.
    #[must_use]
    pub fn leading(restored: RestoredShared, mut leader: Leader) -> Self {
        for field in restored.beside {
            leader.note_loaded(field);
        }
        Self::over(restored.store, Sink::Shared(Box::new(leader)))
    }

    fn over(store: Store, sink: Sink) -> Self {
        let journal = JournalGate::new(sink);
        journal.assert_record_count(&store);
        Self {
            store,
            effects: Effects::with_changes(),
            queries: QueryScheduler::default(),
            journal: Some(Box::new(journal)),
            memory: None,
            backups: None,
            admits_first: true,
            draining: false,
            buffer_bytes: 0,
        }
    }

    /// Refuses to put anything while jobs, tables and buffers take more than `limit` bytes.
    #[must_use]
    pub fn with_memory_limit(mut self, limit: Option<u64>) -> Self {
        self.memory = limit.map(|limit| Box::new(MemoryLimit::new(limit)));
        self.admits_first = self.journal.is_some() || self.memory.is_some();
        self
    }

    /// Lets clients copy the journal, whose segments `reader` reads. The reader has to make the
    /// driver call [`CommandExecutor::commit`] when a read ends.
    #[must_use]
    pub fn with_backups(mut self, reader: Box<dyn SegmentReader>) -> Self {
        self.backups = Some(Box::new(Backups::new(reader)));
        self
    }

    /// Evaluates queries by `executor`, each within `timeout` of its arrival. The executor has to
    /// make the driver call [`CommandExecutor::commit`] when a turn ends. Without an executor each
    /// query is answered with `IndexedReply::BadQuery`.
    #[must_use]
    pub fn with_queries(mut self, executor: Box<dyn QueryExecutor>, timeout: Duration) -> Self {
        assert!(self.queries.is_idle(), "queries would lose their executor");
        self.queries.set_executor(executor, timeout);
        self
    }

    #[inline(never)]
    fn submit_if_admitted(&mut self, ticket: Ticket, command: &Command<'_>, now: Now) {
        self.effects.prepare();
        if self.draining && memory_limit::is_put(command) {
            return memory_limit::answer_draining(ticket, command, &mut self.effects);
        }
        if let Some(memory) = &mut self.memory
            && !memory.admits(command, &self.store, self.buffer_bytes)
        {
            return memory_limit::answer_full(ticket, command, &mut self.effects);
        }
        if let Some(journal) = &mut self.journal
            && !journal.admits(command, &self.store)
        {
            return disk_space::answer_full(ticket, command, &mut self.effects);
        }
        if matches!(command, Command::Manage(ManageCommand::Act(_))) {
            self.limit_rewrites();
        }
        self.apply(ticket, command, now);
        self.write_changes(command_kind::names_job(command), now);
    }

    /// Says how much actions may write until this is called again.
    #[cold]
    fn limit_rewrites(&mut self) {
        let mut limit = RewriteLimit::default();
        if let Some(journal) = &self.journal {
            (limit.record_bytes, limit.is_full) = journal.bulk_capacity();
        }
        if let Some(memory) = &self.memory {
            limit.payload_bytes = memory.room(&self.store, self.buffer_bytes);
        }
        self.store.limit_rewrites(limit);
    }

    /// Schedules are due that put this many bytes: they are held while there is no
    /// space, or the server is being drained.
    #[cold]
    fn admit_schedules(&mut self, bytes: usize) {
        let memory = self.memory.as_ref();
        let fits = memory.is_none_or(|memory| memory.fits(bytes, &self.store, self.buffer_bytes));
        let space = self.journal.as_ref().is_none_or(|journal| journal.has_space(bytes));
        self.store.hold_schedules(ScheduleHold::of(self.draining, fits, space));
    }

    #[inline(always)]
    fn apply(&mut self, ticket: Ticket, command: &Command<'_>, now: Now) {
        self.store.apply(ticket, command, now, &mut self.effects);
        if !self.effects.searches.is_empty() {
            self.queries.enqueue(now, &mut self.effects);
        }
        debug_assert!(
            self.journal.is_some() || self.effects.changes.is_empty(),
            "changes are listed that no journal records"
        );
    }

    /// Appends the changes of the last call to the journal and gates the replies that depend on
    /// them; see [`JournalGate::write_changes`].
    #[inline]
    fn write_changes(&mut self, names_job: bool, now: Now) {
        if let Some(journal) = &mut self.journal {
            journal.write_changes(names_job, &self.store, &mut self.effects, now);
        }
        debug_assert!(
            self.effects.changes.is_empty() && self.effects.searches.is_empty(),
            "a change is not recorded, or a search is not queued"
        );
    }

    #[inline(never)]
    fn poll_completion_durable(&mut self) -> Option<Completion<'_>> {
        let journal = self.journal.as_mut()?;
        if journal.take_durable() {
            return journal.completion(&self.store, &mut self.effects);
        }
        next_completion(&self.store, &mut self.effects)
    }
}

impl CommandExecutor for Engine {
    #[inline(always)]
    fn submit(&mut self, ticket: Ticket, command: &Command<'_>, now: Now) {
        if self.admits_first {
            self.submit_if_admitted(ticket, command, now);
        } else {
            self.effects.prepare();
            self.apply(ticket, command, now);
        }
    }

    #[inline(always)]
    fn take_work(&mut self) -> usize {
        self.store.take_work()
    }

    fn noted_work(&self) -> usize {
        self.store.noted_work()
    }

    fn is_deferred(&self, ticket: Ticket) -> bool {
        self.store.is_deferred(ticket)
    }

    fn cancel(&mut self, ticket: Ticket, now: Now) {
        self.effects.prepare();
        self.store.cancel(ticket, &mut self.effects);
        self.write_changes(false, now);
    }

    fn disconnect_client(&mut self, client: ClientId, now: Now) {
        self.effects.prepare();
        self.store.disconnect_client(client, now, &mut self.effects);
        self.queries.disconnect_client(client, now);
        self.store.drop_backup_steps(client);
        if let (Some(backups), Some(journal)) = (&mut self.backups, &mut self.journal) {
            backups.remove_client(client, journal);
        }
        self.write_changes(false, now);
    }

    fn poll_disconnected(&mut self) -> Option<ClientId> {
        self.store.poll_disconnected()
    }

    fn half_close_client(&mut self, client: ClientId) {
        self.queries.half_close_client(client);
    }

    fn sample(&mut self, now: Now) {
        self.store.sample(now);
    }

    fn expire(&mut self, now: Now) {
        self.store.begin_pass();
        if self.store.next_deadline().is_some_and(|at| at <= now.mono) {
            self.effects.prepare();
            if self.admits_first
                && let Some(bytes) = self.store.due_schedule_bytes(now)
            {
                self.admit_schedules(bytes);
            }
            if self.admits_first && self.store.has_running_actions() {
                self.limit_rewrites();
            }
            self.store.expire(STORE_DEADLINES_PER_PASS, now, &mut self.effects);
            self.write_changes(false, now);
        }
    }

    fn commit(&mut self, now: Now) {
        if !self.queries.is_idle() {
            self.effects.prepare();
            self.queries.advance(&mut self.store, now, &mut self.effects);
            assert!(self.effects.searches.is_empty(), "a search is neither queued nor answered");
            self.write_changes(true, now);
        }
        if let Some(journal) = &mut self.journal {
            journal.commit(&self.store, now);
            let active = self.backups.as_ref().is_some_and(|backups| backups.is_active());
            if active || self.store.has_backup_steps() {
                self.run_backups(now);
            }
        }
        if let Some(memory) = &mut self.memory {
            memory.update(now);
        }
    }

    fn set_buffer_bytes(&mut self, bytes: u64) {
        self.buffer_bytes = bytes;
    }

    fn set_draining(&mut self, draining: bool) {
        self.draining = draining;
        self.admits_first = draining || self.journal.is_some() || self.memory.is_some();
        self.store.hold_schedules(if draining { ScheduleHold::Drained } else { ScheduleHold::No });
    }

    #[inline(always)]
    fn poll_completion(&mut self) -> Option<Completion<'_>> {
        if self.journal.is_some() {
            return self.poll_completion_durable();
        }
        next_completion(&self.store, &mut self.effects)
    }

    fn poll_timeout(&self) -> Option<Mono> {
        let own = [self.store.next_deadline(), self.queries.poll_timeout()];
        let journal = self.journal.as_ref().and_then(|journal| journal.poll_timeout());
        let memory = self.memory.as_ref().and_then(|memory| memory.poll_timeout());
        // A step that came after the end of a pass is taken in the next one, at once.
        let backup = self.store.has_backup_steps().then_some(Mono(0));
        own.into_iter().chain([journal, memory, backup]).flatten().min()
    }

    fn poll_log_line(&mut self) -> Option<LogLine> {
        let memory = self.memory.as_mut().and_then(|memory| memory.poll_log_line());
        memory.or_else(|| self.journal.as_mut().and_then(|journal| journal.poll_log_line()))
    }

    fn fatal_error(&self) -> Option<String> {
        self.journal.as_ref().and_then(|journal| journal.fatal_error())
    }

    fn has_lost_lead(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.has_lost_lead())
    }

    #[inline]
    fn unavailable(&self) -> Option<String> {
        self.journal.as_ref().and_then(|journal| journal.unavailable())
    }

    fn take_given_up(&mut self) -> Option<ClientId> {
        self.journal.as_mut().and_then(|journal| journal.take_given_up())
    }

    fn link(&mut self) -> Option<&mut dyn Link> {
        self.journal.as_mut().and_then(|journal| journal.link())
    }

    fn awaits_disk(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.awaits_disk())
    }

    fn close(&mut self, now: Now) {
        if let Some(journal) = &mut self.journal {
            journal.close(now);
        }
    }

    fn is_closed(&self) -> bool {
        self.journal.as_ref().is_none_or(|journal| journal.is_closed())
    }

    fn stats(&self, stats: &mut ServerStats) {
        stats.store = self.store.stats();
        stats.queries = self.queries.stats();
        stats.draining = self.draining;
        stats.memory = MemoryStats {
            store_bytes: self.store.memory_bytes(),
            buffer_bytes: self.buffer_bytes,
            limit_bytes: self.memory.as_ref().map(|memory| memory.limit_bytes()),
            refused: self.memory.as_ref().map_or(0, |memory| memory.refused()),
        };
        if let Some(journal) = &self.journal {
            journal.stats(stats);
        }
    }

    fn journal_stats(&self) -> Option<LogStats> {
        self.journal.as_ref().and_then(|journal| journal.log_stats())
    }

    fn counts(&self) -> Counts {
        self.store.counts()
    }

    fn reserved_by(&self, client: ClientId, most: usize) -> usize {
        self.store.reserved_by(client, most)
    }

    fn job_queue(&self, id: JobId, client: ClientId) -> Option<(&[u8], bool)> {
        self.store.job_queue(id, client)
    }

    fn check_invariants(&self) {
        self.effects.assert_drained();
        self.store.check_invariants();
        self.queries.check_invariants();
        if let Some(journal) = &self.journal {
            journal.check_invariants(&self.store);
        }
    }

    fn is_waiting(&self, ticket: Ticket) -> bool {
        self.store.is_waiting(ticket)
    }
}

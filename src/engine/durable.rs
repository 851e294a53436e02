//! The store in this process with a journal: what is submitted is carried out at once, and answered
//! once nothing that the answer rests on can be lost any more.
//!
//! What an answer rests on: its own records; for a job that is handed out, the record of its put;
//! for the absence of a job that somebody names, everything so far. Other answers do not wait.
//!
//! Invariants: the journal's owner of a job's record is the job's place in the store; a job that is
//! in the store has a base record, and a place without a job has none; answers that wait are kept
//! in the order of what they wait for.

use super::disk_space::{Space, live_bytes_added};
use super::query_scheduler::QueryScheduler;
use super::record;
use super::reply_for;
use crate::base::histogram::Histogram;
use crate::base::limits::EXPIRED_PER_PASS;
use crate::base::time::{Mono, Now};
use crate::journal::disk::Files;
use crate::journal::{
    BatchSeq, Journal, LogStats, OpenError, Options, Progress, RecordLocation, RecordRole,
    Recovered, Report, SYNC_BOUNDS_NS, recover,
};
use crate::model::command::Command;
use crate::model::driver::LogLine;
use crate::model::id::{ClientId, JobId, Ticket};
use crate::model::job::Packet;
use crate::model::owned::{OwnedJob, OwnedJobStatus};
use crate::model::reply::{Completion, Rejection, Reply};
use crate::model::snapshot::Record;
use crate::model::stats::{JournalStats, ServerStats};
use crate::model::worker::{self, WorkerCommand};
use crate::store::{Counts, DirtyRecord, Effects, IndexedReply, Outcome, Store};
use std::collections::VecDeque;

/// The embedded engine with a journal.
pub struct Durable {
    store: Store,
    effects: Effects,
    queries: QueryScheduler,
    journal: Journal,
    /// Answers that wait for the disk.
    gated: VecDeque<GatedReply>,
    /// The one of them that is being shown.
    showing: Option<GatedReply>,
    /// Batches that are not durable yet, each with the lowest id that was put in it. Not all ids
    /// rise: those of declared queues and constraints come from above, and jobs are put once more.
    unsynced_puts: VecDeque<(BatchSeq, JobId)>,
    /// The batch of the last record.
    last: BatchSeq,
    /// Something was written down since the last commit: there must be another one.
    uncommitted: bool,
    /// The moment of the last commit.
    now: Mono,
    /// How long answers have waited, in nanoseconds.
    waited_ns: Histogram,
    /// What the operator is told about space on the disk.
    space: Space,
}

/// An answer that waits until a batch is durable.
struct GatedReply {
    stamp: BatchSeq,
    /// Since when.
    since: Mono,
    ticket: Ticket,
    answer: OwnedReply,
}

/// A reply that borrows nothing.
enum OwnedReply {
    Outcome(Outcome),
    Job(Box<OwnedJob>),
    Packets(Vec<Packet>),
    Progress(Box<OwnedJobStatus>),
    Watched(Box<IndexedReply>),
}

/// Bytes of a record beside the payload and the name of the queue, at most, for a job without
/// digits beyond 64 bits.
const RECORD_OVERHEAD: usize = 128;

impl std::fmt::Debug for Durable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Durable").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Durable {
    /// A store that has been brought back, with the journal that goes on.
    pub(super) fn new(store: Store, journal: Journal) -> Self {
        let effects = Effects::with_changes();
        // What an earlier run wrote and may not have synced is answered only once it is.
        let last = journal.stamp() - 1;
        let unsure = last > journal.durable();
        Self {
            store,
            effects,
            queries: QueryScheduler::default(),
            journal,
            gated: VecDeque::new(),
            showing: None,
            unsynced_puts: unsure.then_some((last, JobId(0))).into_iter().collect(),
            last,
            uncommitted: false,
            now: Mono::default(),
            waited_ns: Histogram::default(),
            space: Space::default(),
        }
    }

    #[inline(never)]
    pub(super) fn submit(&mut self, ticket: Ticket, command: &Command<'_>, now: Now) {
        self.effects.prepare();
        if let Some(bytes) = live_bytes_added(command)
            && !self.journal.has_capacity(RECORD_OVERHEAD + bytes)
            && self.is_retained(command)
        {
            let bytes = RECORD_OVERHEAD + bytes;
            self.space.note_refusal(bytes, self.journal.lacks(bytes));
            self.effects.outcomes.push((ticket, Outcome::Refused(Rejection::DiskFull)));
            return;
        }
        self.store.apply(ticket, command, now, &mut self.effects);
        if !self.effects.searches.is_empty() {
            self.queries.take(now, &mut self.effects);
        }
        let names_job = !matches!(
            command,
            Command::Put { .. }
                | Command::Reserve { .. }
                | Command::Pop { .. }
                | Command::Work(WorkerCommand::ReserveAny | WorkerCommand::ScanQueue { .. })
        );
        self.record(names_job, now);
    }

    /// Whether what a command brings is kept: the result of a job that is gone is not. O(1).
    fn is_retained(&self, command: &Command<'_>) -> bool {
        let success =
            |report: &worker::RunOutcome<'_>| matches!(report, worker::RunOutcome::Success { .. });
        let id = match command {
            Command::Finish { id, .. } => id,
            Command::Work(WorkerCommand::Report { id, report, .. }) if success(report) => id,
            _ => return true,
        };
        self.store.options(*id).is_some_and(|options| options.result_retention_ms > 0)
    }

    pub(super) fn cancel(&mut self, ticket: Ticket, now: Now) {
        self.effects.prepare();
        self.store.cancel(ticket, &mut self.effects);
        self.record(false, now);
    }

    pub(super) fn disconnect_client(&mut self, client: ClientId, now: Now) {
        self.effects.prepare();
        self.store.disconnect_client(client, now, &mut self.effects);
        self.queries.forget(client, now);
        self.record(false, now);
    }

    pub(super) fn expire(&mut self, now: Now) {
        self.store.begin_pass();
        if self.store.next_deadline().is_some_and(|at| at <= now.mono) {
            self.effects.prepare();
            self.store.expire(EXPIRED_PER_PASS, now, &mut self.effects);
            self.record(false, now);
        }
    }

    pub(super) fn queries(&mut self) -> &mut QueryScheduler {
        &mut self.queries
    }

    /// Ends a pass: moves a little of what is old, hands everything to the disk, and takes in what
    /// the disk has done.
    pub(super) fn commit(&mut self, now: Now) {
        self.now = now.mono;
        self.effects.prepare();
        if !self.queries.is_idle() {
            self.queries.advance(&mut self.store, now, &mut self.effects);
            self.record(true, now);
        }
        self.journal.poll(now);
        while let Some(owner) = self.journal.next_to_move() {
            let slot = self.store.job_at(owner).expect("an owner is a job's place");
            let record = self.store.base_record(slot);
            self.last =
                self.journal.append_with(Some(owner), |out| record::write(&record, now, out));
        }
        self.journal.commit(now);
        self.uncommitted = false;
        self.journal.poll(now);
        self.space.look(&self.journal, now.mono);
        let durable = self.journal.durable();
        while self.unsynced_puts.front().is_some_and(|&(stamp, _)| stamp <= durable) {
            self.unsynced_puts.pop_front();
        }
    }

    /// Writes down what the last call has changed, and keeps back the answers that rest on it. An
    /// answer about a job that was named rests on everything that was done so far: what is said to
    /// be gone must stay gone.
    fn record(&mut self, names_job: bool, now: Now) {
        let recorded = !self.effects.changes.is_empty();
        if recorded {
            self.uncommitted = true;
            // Before any of these batches is sealed: a job that was put and is gone already has no
            // record that would tell its id.
            self.journal.raise_high_id(self.store.next_id().0);
        }
        for &change in &self.effects.changes {
            let stamp = match change {
                DirtyRecord::Put(slot, id) => {
                    if self.store.slot(id) != Some(slot) {
                        continue;
                    }
                    let record = self.store.base_record(slot);
                    let owner = Some(slot.number());
                    let stamp =
                        self.journal.append_with(owner, |out| record::write(&record, now, out));
                    match self.unsynced_puts.back_mut() {
                        Some((newest, lowest)) if *newest == stamp => *lowest = id.min(*lowest),
                        _ => self.unsynced_puts.push_back((stamp, id)),
                    }
                    stamp
                }
                DirtyRecord::State(slot, id) => {
                    if self.store.slot(id) != Some(slot) {
                        continue;
                    }
                    let record = Record::State(id, self.store.state(slot));
                    self.journal.append_with(None, |out| record::write(&record, now, out))
                }
                DirtyRecord::Event(slot, id, number) => {
                    if self.store.slot(id) != Some(slot) {
                        continue;
                    }
                    let (version, event) = &self.effects.events[number as usize];
                    let record = Record::Event(id, *version, event.clone());
                    self.journal.append_with(None, |out| record::write(&record, now, out))
                }
                DirtyRecord::Gone(slot, id) => {
                    self.journal.forget(slot.number());
                    let record = Record::Deleted(id);
                    self.journal.append_with(None, |out| record::write(&record, now, out))
                }
            };
            self.last = stamp;
        }
        self.effects.clear_changes();
        self.journal.maybe_seal();
        self.gate_reply(if recorded || names_job { self.last } else { 0 }, now);
    }

    /// Takes the answers that must wait out of the outcomes.
    fn gate_reply(&mut self, own: BatchSeq, now: Now) {
        let durable = self.journal.durable();
        let mut kept = 0;
        for number in 0..self.effects.outcomes.len() {
            let (ticket, outcome) = self.effects.outcomes[number];
            let stamp = own.max(self.depends_on_batch(outcome));
            // A look shows what is there now; it could not be shown later. And some answers say
            // nothing but that there will be another one.
            if stamp <= durable
                || matches!(outcome, Outcome::Seen(_) | Outcome::Constraint(_))
                || self.is_interim(outcome)
            {
                self.effects.outcomes[kept] = (ticket, outcome);
                kept += 1;
                continue;
            }
            let answer = match outcome {
                Outcome::Job(slot) => {
                    OwnedReply::Job(Box::new(OwnedJob::new(&self.store.view(slot))))
                }
                Outcome::Packets { first, count } => {
                    let (first, count) = (first as usize, count as usize);
                    OwnedReply::Packets(self.effects.popped[first..first + count].to_vec())
                }
                Outcome::Watched(number) => {
                    OwnedReply::Watched(Box::new(self.effects.watched[number as usize].clone()))
                }
                Outcome::Progress(slot) => {
                    OwnedReply::Progress(Box::new(OwnedJobStatus::new(&self.store.progress(slot))))
                }
                Outcome::Fetched(number) => {
                    OwnedReply::Progress(Box::new(self.effects.fetched[number as usize].clone()))
                }
                other => OwnedReply::Outcome(other),
            };
            // Those behind one that waits longer wait with it: a batch or two at most.
            let stamp = self.gated.back().map_or(stamp, |last| last.stamp.max(stamp));
            self.gated.push_back(GatedReply { stamp, since: now.mono, ticket, answer });
        }
        self.effects.outcomes.truncate(kept);
    }

    fn is_interim(&self, outcome: Outcome) -> bool {
        match outcome {
            Outcome::Watched(number) => self.effects.watched[number as usize].is_interim(),
            _ => false,
        }
    }

    /// The batch that must be durable before this can be answered, whatever its own records are.
    fn depends_on_batch(&self, outcome: Outcome) -> BatchSeq {
        let id = match outcome {
            Outcome::Job(slot) | Outcome::Progress(slot) => self.store.view(slot).id,
            Outcome::TooLarge(id) => id,
            _ => return 0,
        };
        let batch = self.unsynced_puts.iter().rev().find(|&&(_, lowest)| lowest <= id);
        batch.map_or(0, |&(stamp, _)| stamp)
    }

    #[inline(never)]
    pub(super) fn poll_completion(&mut self) -> Option<Completion<'_>> {
        let durable = self.journal.durable();
        if self.journal.fault().is_none()
            && self.gated.front().is_some_and(|waiting| waiting.stamp <= durable)
        {
            self.showing = self.gated.pop_front();
            let waiting = self.showing.as_ref()?;
            self.waited_ns.note(self.now.0.saturating_sub(waiting.since.0), 1);
            let reply = match &waiting.answer {
                OwnedReply::Job(job) => Reply::Job(job.view()),
                OwnedReply::Packets(packets) => Reply::Packets(packets),
                OwnedReply::Progress(progress) => Reply::JobStatus(Box::new(progress.view())),
                OwnedReply::Watched(answer) => answer.reply(),
                OwnedReply::Outcome(outcome) => reply_for(*outcome, &self.store, &self.effects),
            };
            return Some(Completion { ticket: waiting.ticket, reply });
        }
        let (ticket, outcome) = self.effects.next_outcome()?;
        Some(Completion { ticket, reply: reply_for(outcome, &self.store, &self.effects) })
    }

    /// When something is due next, in the store or at the disk.
    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        if self.uncommitted {
            // The shell may have gone on with requests behind the commit of its pass.
            return Some(Mono(0));
        }
        let (store, journal) = (self.store.next_deadline(), self.journal.poll_timeout());
        let others = [self.queries.poll_timeout(), self.space.poll_timeout()];
        [store, journal].into_iter().chain(others).flatten().min()
    }

    /// Something for the operator.
    pub(super) fn poll_remark(&mut self) -> Option<LogLine> {
        self.space.poll_remark()
    }

    /// What went wrong with the disk: nothing is answered any more that would have to last.
    pub(super) fn fatal_error(&self) -> Option<String> {
        self.journal.fault().map(ToString::to_string)
    }

    /// Whether answers wait for the disk.
    pub(super) fn awaits_disk(&self) -> bool {
        !self.gated.is_empty()
    }

    /// Begins the end: everything is written and synced.
    pub(super) fn close(&mut self, now: Now) {
        self.journal.close(now);
    }

    /// Whether that is done, or impossible.
    pub(super) fn is_closed(&self) -> bool {
        self.journal.is_closed()
    }

    pub(super) fn journal_status(&self) -> LogStats {
        self.journal.stats()
    }

    pub(super) fn stats(&self, figures: &mut ServerStats) {
        figures.store = self.store.stats();
        figures.queries = self.queries.figures();
        figures.answered_ns.add(&self.waited_ns);
        figures.journal = Some(journal_stats(&self.journal.stats()));
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn counts(&self) -> Counts {
        self.store.counts()
    }

    pub(super) fn check_invariants(&self) {
        self.effects.assert_drained();
        self.store.check_invariants();
        self.queries.check_invariants();
        self.journal.check_invariants();
        let owners = usize::try_from(self.journal.stats().owners).unwrap_or(usize::MAX);
        let Counts { jobs, declared, workers, constraints, .. } = self.store.counts();
        let expected = jobs + declared + workers + constraints;
        assert_eq!(owners, expected, "jobs and their base records differ");
    }
}

fn journal_stats(status: &LogStats) -> JournalStats {
    let bounds = SYNC_BOUNDS_NS.into_iter().map(Some).chain([None]);
    JournalStats {
        live_bytes: status.live_bytes,
        dead_bytes: status.dead_bytes,
        free_bytes: status.free_bytes,
        total_bytes: status.total_bytes,
        pending_bytes: status.pending_bytes,
        segments: status.segments,
        batches: status.batches,
        records: status.records,
        written_bytes: status.written_bytes,
        moved_bytes: status.moved_bytes,
        sync_ns: status.sync_ns,
        sync_max_ns: status.sync_max_ns,
        syncs: bounds.zip(status.sync_histogram).collect(),
        full: status.full,
    }
}

/// Brings a store back from what a journal has kept. The journal itself goes on with what is
/// returned beside it.
///
/// # Errors
/// If the journal cannot be read, or holds what is no record of ours: see [`OpenError`].
pub(super) fn restore(
    files: &mut dyn Files,
    options: &Options,
    seed: u64,
    now: Now,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Store, Recovered, Report), OpenError> {
    let mut store = Store::new(seed);
    let mut each = |bytes: &[u8], _: RecordLocation| match record::read(bytes, now) {
        Ok(Record::Job(job)) => Ok(RecordRole::Base(store.restore(&job, now).number())),
        Ok(Record::State(id, state)) => {
            store.restore_state(id, &state, now);
            Ok(RecordRole::None)
        }
        Ok(Record::Deleted(id)) => Ok(store
            .undo_restore(id)
            .map_or(RecordRole::None, |slot| RecordRole::Delete(slot.number()))),
        Ok(Record::Event(id, version, event)) => {
            store.restore_event(id, version, event);
            Ok(RecordRole::None)
        }
        Ok(Record::Worker(id, worker)) => {
            Ok(RecordRole::Base(store.restore_worker(id, &worker).number()))
        }
        Ok(Record::Queue(id, name)) => Ok(RecordRole::Base(store.restore_queue(id, name).number())),
        Ok(Record::Constraint(id, constraint)) => {
            Ok(RecordRole::Base(store.restore_constraint(id, &constraint, now).number()))
        }
        Err(error) => Err(error.to_string()),
    };
    let (recovered, report) = recover(files, options, &mut each, progress)?;
    store.finish_restore(now);
    store.skip_ids(JobId(report.mark));
    Ok((store, recovered, report))
}

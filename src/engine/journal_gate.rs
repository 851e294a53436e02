//! The journal of an engine, or the sink that it shares, and the replies that are gated on it:
//! commands are applied to the store at once, and answered when no crash can undo what the reply
//! depends on.
//!
//! A reply depends on the batches of its own records; a reserved job also on the batch of its put;
//! a reply about a job that the command named, on everything applied so far, since a job that was
//! reported as missing must stay missing. Other replies depend on no batch, unless the sink is
//! shared: then all depend on one that was open when they came about.
//!
//! Invariants: a job, declared queue, worker, constraint, pause or past key in the store has a base
//! record under its record key, and a free slot of their tables has none; `gated` is ordered by
//! batch.

use super::disk_space::{SpaceNotices, bytes_rewritten, is_retained, live_bytes_added};
use super::record_key::{pack, unpack};
use super::shared::Place;
use super::sink::Sink;
use super::{record, reply_for};
use crate::base::histogram::Histogram;
use crate::base::time::{Mono, Now};
use crate::journal::{BatchSeq, LogStats, SegmentCopy};
use crate::model::command::Command;
use crate::model::driver::{Link, LogLine};
use crate::model::id::{ClientId, JobId, Ticket};
use crate::model::job::Packet;
use crate::model::owned::{OwnedJob, OwnedJobStatus, OwnedReply};
use crate::model::reply::Completion;
use crate::model::snapshot::Record;
use crate::model::stats::ServerStats;
use crate::model::worker::ConstraintReply;
use crate::store::{Counts, DirtyRecord, Effects, Outcome, RecordKey, Store};
use std::collections::VecDeque;
use std::vec::IntoIter;

/// The journal with the replies that wait for it.
pub(super) struct JournalGate {
    sink: Sink,
    gated: VecDeque<GatedReply>,
    /// How many of the first of them their clients are not to wait for any more.
    given_up: usize,
    /// The gated reply that the last completion borrows from.
    current: Option<GatedReply>,
    /// The batches with puts that are not durable, each with its lowest job id. Ids need not rise
    /// with the batches: those of declared queues and constraints count down from the top, and jobs
    /// are put again.
    unsynced_puts: VecDeque<(BatchSeq, JobId)>,
    /// The batch of the last record.
    last: BatchSeq,
    /// Records were appended since the last commit, so another commit is due.
    uncommitted: bool,
    /// The moment of the last commit.
    now: Mono,
    /// How long replies were gated, in nanoseconds.
    gated_ns: Histogram,
    space: SpaceNotices,
}

/// A reply that is held back until a batch is durable.
struct GatedReply {
    batch: BatchSeq,
    since: Mono,
    ticket: Ticket,
    reply: HeldReply,
}

/// What a gated reply is made of.
enum HeldReply {
    /// It borrows nothing.
    Outcome(Outcome),
    /// The data that its outcome would have borrowed.
    Owned(OwnedReply),
}

/// The most bytes of a record beside payload and queue name, for a job whose priority fits in 64
/// bits.
const RECORD_OVERHEAD_BYTES: usize = 128;

impl std::fmt::Debug for JournalGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JournalGate").field("gated", &self.gated.len()).finish_non_exhaustive()
    }
}

impl JournalGate {
    pub(super) fn new(sink: Sink) -> Self {
        // The last batch of an earlier run may not be synced: replies about its jobs are gated too.
        let last = sink.next_batch() - 1;
        let durable = sink.durable();
        assert!(durable <= last, "a batch is durable before it is begun");
        let unsure = last > durable;
        Self {
            sink,
            gated: VecDeque::new(),
            given_up: 0,
            current: None,
            unsynced_puts: unsure.then_some((last, JobId(0))).into_iter().collect(),
            last,
            uncommitted: false,
            now: Mono::default(),
            gated_ns: Histogram::default(),
            space: SpaceNotices::default(),
        }
    }

    /// Whether there is space for the record of a command. A rejection is noted for the log. O(1),
    /// but O(bytes of the constraint or worker) for those.
    #[inline]
    pub(super) fn admits(&mut self, command: &Command<'_>, store: &Store) -> bool {
        let Some(bytes) = live_bytes_added(command) else { return true };
        let bytes = RECORD_OVERHEAD_BYTES + bytes + bytes_rewritten(command, store);
        if self.sink.has_capacity(bytes) || !is_retained(command, store) {
            return true;
        }
        if let Sink::Journal(journal) = &self.sink {
            self.space.note_rejection(bytes, journal.missing_bytes(bytes));
        }
        false
    }

    /// See [`Sink::begin_copy`].
    pub(super) fn begin_copy(&mut self) -> (Vec<SegmentCopy>, BatchSeq) {
        self.sink.begin_copy()
    }

    /// See [`Sink::end_copy`].
    pub(super) fn end_copy(&mut self) {
        self.sink.end_copy();
    }

    /// The last durable batch.
    pub(super) fn durable(&self) -> BatchSeq {
        self.sink.durable()
    }

    /// See [`Sink::bulk_capacity`].
    pub(super) fn bulk_capacity(&self) -> (u64, bool) {
        self.sink.bulk_capacity()
    }

    /// Whether there is space for this many bytes more.
    pub(super) fn has_space(&self, bytes: usize) -> bool {
        self.sink.has_capacity(RECORD_OVERHEAD_BYTES + bytes)
    }

    /// Appends the changes of the last call, and moves the replies that depend on batches that are
    /// not durable from the outcomes to the gated ones. `names_job`: as `command_kind` says.
    /// O(changes + outcomes).
    pub(super) fn write_changes(
        &mut self,
        names_job: bool,
        store: &Store,
        effects: &mut Effects,
        now: Now,
    ) {
        let recorded = !effects.changes.is_empty();
        if recorded {
            self.uncommitted = true;
            // Before any of these batches is sealed: a job that was put and is deleted already has
            // no record from which recovery would learn its id.
            self.sink.raise_high_id(store.next_id().0);
        }
        for &change in &effects.changes {
            self.append(change, store, effects, now);
        }
        effects.clear_changes();
        let any = if effects.outcomes.is_empty() { None } else { self.sink.batch_of_any_answer() };
        if let Some(batch) = any {
            self.uncommitted = true;
            // `last` does not go back: a closing sink took no record, but still writes batches.
            self.last = self.last.max(batch);
        }
        self.sink.maybe_seal();
        debug_assert!(
            self.last <= self.sink.next_batch() || self.last == BatchSeq::MAX,
            "replies would wait for a batch that is not begun"
        );
        let own = if recorded || names_job || any.is_some() { self.last } else { 0 };
        self.gate_replies(own, store, effects, now);
    }

    /// Appends one change. A change of a job that is gone by now is left out: its deletion follows.
    #[inline]
    fn append(&mut self, change: DirtyRecord, store: &Store, effects: &Effects, now: Now) {
        self.last = match change {
            DirtyRecord::Put(key, id) => {
                if !store.is_record(key, id) {
                    return;
                }
                let record = store.base_record(key);
                debug_assert_eq!(unpack(pack(key)), key, "compaction would move another record");
                let batch = self.sink.append(Place::Base(id), Some(pack(key)), |out| {
                    record::write(&record, now, out);
                });
                debug_assert!(
                    self.unsynced_puts.back().is_none_or(|&(newest, _)| newest <= batch),
                    "a put is recorded in a batch before that of an earlier put"
                );
                match self.unsynced_puts.back_mut() {
                    Some((newest, lowest)) if *newest == batch => *lowest = id.min(*lowest),
                    _ => self.unsynced_puts.push_back((batch, id)),
                }
                batch
            }
            DirtyRecord::State(slot, id) => {
                if !store.is_record(RecordKey::Job(slot), id) {
                    return;
                }
                let record = Record::State(id, store.state(slot));
                self.sink.append(Place::State(id), None, |out| record::write(&record, now, out))
            }
            DirtyRecord::Event(slot, id, number) => {
                if !store.is_record(RecordKey::Job(slot), id) {
                    return;
                }
                let (version, event) = &effects.events[number as usize];
                let record = Record::Event(id, *version, event.clone());
                self.sink.append(Place::Event(id), None, |out| record::write(&record, now, out))
            }
            DirtyRecord::Released(id) => {
                self.await_last_record(id);
                return;
            }
            DirtyRecord::Gone(key, id) => {
                debug_assert!(!store.is_record(key, id), "what is recorded as deleted is there");
                self.sink.mark_dead(pack(key));
                let record = Record::Deleted(id);
                self.sink.append(Place::Gone(id), None, |out| record::write(&record, now, out))
            }
            // In one batch: no batch is sealed before all changes of a call are appended.
            DirtyRecord::EndedTogether(ticket) => {
                store.popped_together(ticket).fold(self.last, |_, id| {
                    let record = Record::Deleted(id);
                    self.sink.append(Place::Gone(id), None, |out| record::write(&record, now, out))
                })
            }
            DirtyRecord::Forgotten(key) => {
                self.sink.mark_dead(pack(key));
                self.last
            }
        };
    }

    /// Replies that hand out this job wait for the last record, as if it was put with it.
    fn await_last_record(&mut self, id: JobId) {
        if self.last <= self.sink.durable() {
            return;
        }
        debug_assert!(
            self.unsynced_puts.back().is_none_or(|&(newest, _)| newest <= self.last),
            "a put is recorded behind the last record"
        );
        match self.unsynced_puts.back_mut() {
            Some((newest, lowest)) if *newest == self.last => *lowest = id.min(*lowest),
            _ => self.unsynced_puts.push_back((self.last, id)),
        }
    }

    /// Moves the replies that must wait from the outcomes to the gated ones. `own` is the batch on
    /// which all of them depend, or 0.
    fn gate_replies(&mut self, own: BatchSeq, store: &Store, effects: &mut Effects, now: Now) {
        let durable = self.sink.durable();
        let (mut kept, mut popped) = (0, Vec::new().into_iter());
        for number in 0..effects.outcomes.len() {
            let (ticket, outcome) = effects.outcomes[number];
            let batch = own.max(self.depends_on_batch(outcome, store, effects));
            // A peek shows the store as it is now and cannot be shown later.
            if batch <= durable
                || matches!(outcome, Outcome::Peeked(_) | Outcome::ConstraintFound(_))
                || is_ungated(outcome, effects)
            {
                effects.outcomes[kept] = (ticket, outcome);
                kept += 1;
                continue;
            }
            let reply = HeldReply::take(outcome, store, effects, &mut popped);
            // Replies behind one of a later batch wait for that batch: one or two more at most.
            let batch = self.gated.back().map_or(batch, |last| last.batch.max(batch));
            debug_assert!(
                batch <= self.last || self.last == 0,
                "a reply waits for a batch behind that of the last record"
            );
            self.gated.push_back(GatedReply { batch, since: now.mono, ticket, reply });
        }
        effects.outcomes.truncate(kept);
    }

    /// The batch that an outcome depends on beside those of its own records; 0 if on none.
    fn depends_on_batch(&self, outcome: Outcome, store: &Store, effects: &Effects) -> BatchSeq {
        let id = match outcome {
            Outcome::Job(slot) | Outcome::JobStatus(slot) => store.view(slot).id,
            Outcome::TooLarge(id) => id,
            // Answered when the change is in force, which may be passes after its record.
            Outcome::Constraint(ConstraintReply::Set { .. } | ConstraintReply::Removed) => {
                return self.last;
            }
            // As well: an action may have ended passes after its last record.
            Outcome::Owned(number) if effects.owned[number as usize].follows_all() => {
                return self.last;
            }
            _ => return 0,
        };
        let batch = self.unsynced_puts.iter().rev().find(|&&(_, lowest)| lowest <= id);
        batch.map_or(0, |&(batch, _)| batch)
    }

    /// Ends a pass: compacts a little, hands everything to the disk, and takes in its completions.
    pub(super) fn commit(&mut self, store: &Store, now: Now) {
        assert!(self.now <= now.mono, "the monotonic clock runs back");
        self.now = now.mono;
        let durable_before = self.sink.durable();
        self.sink.poll(now);
        // A record that was moved behind that of its end would come back after a crash.
        while !store.has_ended_records()
            && let Some(key) = self.sink.next_to_move()
        {
            let record = store.base_record(unpack(key));
            // Only a journal moves records, and to that the place is nothing.
            let place = Place::Base(JobId(0));
            self.last = self.sink.append(place, Some(key), |out| record::write(&record, now, out));
        }
        self.sink.commit(now);
        self.uncommitted = false;
        self.sink.poll(now);
        if let Sink::Journal(journal) = &self.sink {
            self.space.update(journal, now.mono);
        }
        let durable = self.sink.durable();
        assert!(durable >= durable_before, "a batch is durable no more");
        while self.unsynced_puts.front().is_some_and(|&(batch, _)| batch <= durable) {
            self.unsynced_puts.pop_front();
        }
    }

    /// Makes the first gated reply the current one if its batch is durable; whether it did. After a
    /// failure of the journal no reply is.
    #[inline]
    pub(super) fn take_durable(&mut self) -> bool {
        let durable = self.sink.durable();
        if self.sink.has_failed() || self.gated.front().is_none_or(|reply| reply.batch > durable) {
            return false;
        }
        self.current = self.gated.pop_front();
        self.given_up = self.given_up.saturating_sub(1);
        debug_assert!(self.given_up <= self.gated.len(), "only gated replies are given up");
        debug_assert!(
            self.gated.front().map(|next| next.batch).is_none_or(|next| {
                self.current.as_ref().is_some_and(|current| current.batch <= next)
            }),
            "a reply is completed before one of an earlier batch"
        );
        true
    }

    /// The current gated reply.
    #[inline]
    pub(super) fn completion<'a>(
        &'a mut self,
        store: &'a Store,
        effects: &'a mut Effects,
    ) -> Option<Completion<'a>> {
        let gated = self.current.as_mut()?;
        self.gated_ns.note(self.now.0.saturating_sub(gated.since.0), 1);
        let reply = match &mut gated.reply {
            HeldReply::Owned(reply) => reply.take_reply(),
            HeldReply::Outcome(outcome) => reply_for(*outcome, store, effects),
        };
        Some(Completion { ticket: gated.ticket, reply })
    }

    /// When the journal is due next. O(1).
    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        if self.uncommitted {
            // The driver may have submitted commands after the commit of its pass.
            return Some(Mono(0));
        }
        [self.sink.poll_timeout(), self.space.poll_timeout()].into_iter().flatten().min()
    }

    /// The next line for the operator's log.
    pub(super) fn poll_log_line(&mut self) -> Option<LogLine> {
        self.space.poll_log_line().or_else(|| self.sink.poll_log_line())
    }

    /// The I/O error that has stopped the journal.
    pub(super) fn fatal_error(&self) -> Option<String> {
        self.sink.failure()
    }

    /// See [`Sink::has_lost_lead`].
    pub(super) fn has_lost_lead(&self) -> bool {
        self.sink.has_lost_lead()
    }

    /// See [`Sink::unavailable`].
    #[inline]
    pub(super) fn unavailable(&self) -> Option<String> {
        self.sink.unavailable()
    }

    /// A client whose reply will not come soon, while [`Self::unavailable`]; each once a reply.
    pub(super) fn take_given_up(&mut self) -> Option<ClientId> {
        let gated = self.gated.get(self.given_up)?;
        self.given_up += 1;
        Some(gated.ticket.client)
    }

    /// Whether replies are gated.
    pub(super) fn awaits_disk(&self) -> bool {
        !self.gated.is_empty()
    }

    /// For tests: see [`Leader::set_forces`](super::shared::Leader).
    pub(super) fn set_forces(&mut self, forces: bool) {
        if let Sink::Shared(leader) = &mut self.sink {
            leader.set_forces(forces);
        }
    }

    /// See [`Sink::link`].
    pub(super) fn link(&mut self) -> Option<&mut dyn Link> {
        self.sink.link()
    }

    /// Starts to write and sync everything.
    pub(super) fn close(&mut self, now: Now) {
        self.sink.close(now);
    }

    /// Whether that is done, or the journal has failed.
    pub(super) fn is_closed(&self) -> bool {
        self.sink.is_closed()
    }

    /// O(segments).
    pub(super) fn log_stats(&self) -> Option<LogStats> {
        self.sink.journal_stats()
    }

    /// Writes the counters into `stats`. O(segments).
    pub(super) fn stats(&self, stats: &mut ServerStats) {
        stats.answered_ns.add(&self.gated_ns);
        self.sink.stats(stats);
    }

    /// Asserts every invariant. O(everything).
    pub(super) fn check_invariants(&self, store: &Store) {
        self.sink.check_invariants();
        let ordered = self.gated.iter().is_sorted_by_key(|reply| reply.batch);
        assert!(ordered, "gated replies are not ordered by batch");
        self.assert_record_count(store);
    }

    /// Asserts that each record of the store has one base record. O(segments).
    pub(super) fn assert_record_count(&self, store: &Store) {
        let Some(stats) = self.sink.journal_stats() else { return };
        let keys = usize::try_from(stats.record_keys).unwrap_or(usize::MAX);
        let counts = store.counts();
        let Counts { jobs, declared, paused, past_keys, past_runs, losses, .. } = counts;
        let Counts { schedules, workers, constraints, .. } = counts;
        let expected = jobs + declared + paused + past_keys + past_runs + losses;
        let expected = expected + schedules + workers + constraints;
        assert_eq!(keys, expected, "records and their base records differ in number");
    }
}

impl HeldReply {
    /// O(bytes of the job). What the effects own moves out of them; `popped` are the packets that
    /// later outcomes take, which have the same batch as the first.
    fn take(
        outcome: Outcome,
        store: &Store,
        effects: &mut Effects,
        popped: &mut IntoIter<Packet>,
    ) -> Self {
        Self::Owned(match outcome {
            Outcome::Job(slot) => OwnedReply::Job(Box::new(OwnedJob::new(&store.view(slot)))),
            Outcome::Packets { first, count } => {
                if popped.len() == 0 {
                    assert_eq!(first, 0, "packets that were not taken come before these");
                    *popped = std::mem::take(&mut effects.popped).into_iter();
                }
                debug_assert!(popped.len() >= count as usize, "a packet was taken twice");
                OwnedReply::Packets(popped.take(count as usize).collect())
            }
            Outcome::JobStatus(slot) => {
                OwnedReply::JobStatus(Box::new(OwnedJobStatus::new(&store.progress(slot))))
            }
            Outcome::Owned(number) => effects.owned[number as usize].take(),
            other => return Self::Outcome(other),
        })
    }
}

/// Whether the reply is owned, and [`OwnedReply::is_ungated`].
fn is_ungated(outcome: Outcome, effects: &Effects) -> bool {
    match outcome {
        Outcome::Owned(number) => effects.owned[number as usize].is_ungated(),
        _ => false,
    }
}

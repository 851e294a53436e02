//! Effects of commands: answers, and records to journal.

use super::idx::{ConstraintIdx, JobIdx};
use super::job::Job;
use super::record_tables::RecordKey;
use crate::model::event;
use crate::model::id::{JobId, Ticket};
use crate::model::job::Packet;
use crate::model::owned::OwnedReply;
use crate::model::query::Query;
use crate::model::reply::Rejection;
use crate::model::row::Rows;
use crate::model::worker::{ConstraintReply, TrackedReply, WorkerId, WorkerReply};
use std::sync::Arc;

/// Capacity, in packets, that `popped` keeps between two uses.
const POPPED_CAPACITY: usize = 1024;

/// The answer to one ticket: a [`Reply`](crate::model::reply::Reply) of the same name, without the
/// data that it borrows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// See `Reply`.
    Cancelled,
    /// See `Reply`.
    Done,
    /// The client has reserved this job: see [`Store::view`](super::Store::view).
    Job(JobIdx),
    /// See `Reply`.
    Kicked(u32),
    /// See `Reply`.
    LeaseEnding,
    /// See `Reply`.
    NoJob,
    /// The elements of [`Effects::popped`] from `first` on.
    Packets {
        /// Index of the first.
        first: u32,
        /// Number of packets, at least 1.
        count: u32,
    },
    /// The result of a peek: see [`Store::job_info`](super::Store::job_info).
    Peeked(JobIdx),
    /// See `Reply`.
    Put(JobId),
    /// See `Reply`.
    Rejected(Rejection),
    /// See `Reply`.
    TooLarge(JobId),
    /// The status of a job: see [`Store::progress`](super::Store::progress).
    JobStatus(JobIdx),
    /// See `Reply`.
    Tracked(TrackedReply),
    /// See `Reply`.
    Registered(WorkerId),
    /// See `Reply`.
    Worker(WorkerReply),
    /// A constraint: see [`Store::constraint`](super::Store::constraint).
    ConstraintFound(ConstraintIdx),
    /// See `Reply`.
    Constraint(ConstraintReply),
    /// The element of [`Effects::owned`] with this index.
    Owned(u32),
}

const _: () = assert!(size_of::<Outcome>() == 16 && size_of::<(Ticket, Outcome)>() == 32);

/// A record that has to be journaled. Slots are valid until the next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirtyRecord {
    /// A job was put, a queue declared, a worker registered, or a constraint set. It may have been
    /// removed by the end of the same command.
    Put(RecordKey, JobId),
    /// The status, result or worker of a job has changed.
    State(JobIdx, JobId),
    /// An event was appended to the history of a job: the one of this index in
    /// [`Effects::events`].
    Event(JobIdx, JobId, u32),
    /// What this job waited for is done: it must not be handed out before the last record is
    /// durable.
    Released(JobId),
    /// The record was removed.
    Gone(RecordKey, JobId),
    /// The jobs that [`Store::popped_together`](super::Store::popped_together) lists have ended.
    /// They keep their keys until each is [`DirtyRecord::Forgotten`].
    EndedTogether(Ticket),
    /// The record of a job that has ended leaves its key.
    Forgotten(RecordKey),
}

/// What the native API does with the rows that a query finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeSearch {
    /// A page of this number of jobs, those with the lowest ids
    /// ([`Store::answer_found`](super::Store::answer_found)).
    Page(usize),
    /// The action with this number is about them
    /// ([`Store::begin_found_action`](super::Store::begin_found_action)); its ticket is of no
    /// connection.
    Action(u64),
}

/// A query over many rows. The engine evaluates it outside the event loop and answers it.
#[derive(Clone, Debug)]
pub struct SearchRequest {
    /// The ticket to answer.
    pub ticket: Ticket,
    /// Name of the queue.
    pub queue: Arc<[u8]>,
    /// A snapshot of the candidates.
    pub rows: Rows,
    /// The conditions.
    pub query: Arc<Query>,
    /// Most rows to return; `None`: no limit.
    pub limit: Option<u64>,
    /// The state that the first match gets ([`Store::advance_first`](super::Store::advance_first));
    /// `None`: the rows are returned.
    pub poll: Option<Arc<[u8]>>,
    /// For the native API.
    pub native: Option<NativeSearch>,
}

/// What commands have brought about, in order. Reused: the engine takes the outcomes and clears it.
#[derive(Debug, Default)]
pub struct Effects {
    /// Answers, to the ticket of the command or to waiting ones.
    pub outcomes: Vec<(Ticket, Outcome)>,
    /// Popped packets, which are no longer in the store.
    pub popped: Vec<Packet>,
    /// Answers whose data is not in the store: computed, shared with it, or of jobs that are gone.
    pub owned: Vec<OwnedReply>,
    /// Queries that the engine has to evaluate; their tickets are not answered yet.
    pub searches: Vec<SearchRequest>,
    /// The events of [`DirtyRecord::Event`], each with the version of the job's row after it.
    pub events: Vec<(u64, event::Event)>,
    /// Records to journal, in order, if `keeps_changes`.
    pub changes: Vec<DirtyRecord>,
    /// Whether there is a journal.
    pub keeps_changes: bool,
    /// How many outcomes were taken.
    shown: usize,
}

impl Effects {
    /// Effects for a store with a journal.
    #[must_use]
    pub fn with_changes() -> Self {
        Self { keeps_changes: true, ..Self::default() }
    }

    /// Answers a ticket.
    #[inline]
    pub fn answer(&mut self, ticket: Ticket, outcome: Outcome) {
        self.outcomes.push((ticket, outcome));
    }

    #[inline]
    pub(super) fn mark_dirty(&mut self, change: DirtyRecord) {
        if self.keeps_changes {
            self.changes.push(change);
        }
    }

    /// Marks a job that was put dirty, which is in `slot`.
    pub(super) fn mark_put_dirty(&mut self, slot: JobIdx, job: &Job) {
        self.mark_dirty(DirtyRecord::Put(RecordKey::Job(slot), JobId(job.id())));
    }

    /// Marks the state of the job in `slot` dirty.
    pub(super) fn mark_state_dirty(&mut self, slot: JobIdx, job: &Job) {
        self.mark_dirty(DirtyRecord::State(slot, JobId(job.id())));
    }

    /// Marks the state of the job in `slot` dirty if its reservation outlives its client.
    #[inline(never)]
    pub(super) fn mark_dirty_if_worker_job(&mut self, slot: JobIdx, job: &Job) {
        if job.is_reservation_durable() {
            self.mark_state_dirty(slot, job);
        }
    }

    /// Answers with a reply that the effects own.
    pub fn reply(&mut self, ticket: Ticket, reply: impl Into<OwnedReply>) {
        // Proof: one call answers fewer tickets than there are slots, which 32 bits number.
        let number = u32::try_from(self.owned.len()).expect("answers are numbered by 32 bits");
        self.owned.push(reply.into());
        self.answer(ticket, Outcome::Owned(number));
    }

    /// Marks an event of a job dirty; its row has this version after it.
    pub(super) fn mark_event_dirty(
        &mut self,
        slot: JobIdx,
        id: JobId,
        version: u64,
        event: event::Event,
    ) {
        if self.keeps_changes {
            let number = u32::try_from(self.events.len()).expect("events are numbered by 32 bits");
            self.events.push((version, event));
            self.changes.push(DirtyRecord::Event(slot, id, number));
            debug_assert!(self.events.len() <= self.changes.len(), "an event has its record");
        }
    }

    /// The next outcome that was not taken. O(1).
    #[inline(always)]
    pub fn next_outcome(&mut self) -> Option<(Ticket, Outcome)> {
        let outcome = *self.outcomes.get(self.shown)?;
        self.shown += 1;
        debug_assert!(
            !matches!(outcome.1, Outcome::Owned(number) if number as usize >= self.owned.len()),
            "an outcome names an answer that is there"
        );
        Some(outcome)
    }

    /// Asserts that all outcomes were taken.
    #[inline]
    pub fn assert_drained(&self) {
        assert!(self.shown == self.outcomes.len(), "an outcome was not taken before the next call");
    }

    /// Clears everything but searches before the next call. O(packets).
    ///
    /// # Panics
    /// If an outcome was not taken.
    #[inline]
    pub fn prepare(&mut self) {
        self.assert_drained();
        self.clear();
    }

    /// Clears everything but searches, which the engine takes itself. O(packets).
    #[inline]
    pub fn clear(&mut self) {
        self.shown = 0;
        self.outcomes.clear();
        self.changes.clear();
        let rare = self.popped.len() | self.owned.len() | self.events.len();
        if rare != 0 {
            self.clear_cold();
        }
    }

    #[inline(never)]
    fn clear_cold(&mut self) {
        self.popped.clear();
        self.popped.shrink_to(POPPED_CAPACITY);
        self.owned.clear();
        self.events.clear();
    }

    /// Clears the records to journal once they are written.
    #[inline]
    pub fn clear_changes(&mut self) {
        debug_assert!(
            self.keeps_changes || self.changes.is_empty() && self.events.is_empty(),
            "without a journal no records are kept"
        );
        self.changes.clear();
        self.events.clear();
    }
}

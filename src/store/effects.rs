//! Effects of commands: answers, and records to journal.

use super::JobLocation;
use super::idx::ConstraintIdx;
use super::indexed_commands::SearchRequest;
use super::persist::DirtyRecord;
use super::queue_index::IndexedReply;
use crate::model::event;
use crate::model::id::{JobId, Ticket};
use crate::model::job::Packet;
use crate::model::owned::OwnedJobStatus;
use crate::model::reply::Rejection;
use crate::model::worker::WorkerId;

/// Capacity, in packets, that `popped` keeps between two uses.
const POPPED_CAPACITY: usize = 1024;

/// The answer to one ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The waiting command was cancelled.
    Cancelled,
    /// The constraint was set.
    Constrained {
        /// Whether there was none of this name before.
        new: bool,
    },
    /// A constraint: see [`Store::constraint`](super::Store::constraint).
    Constraint(ConstraintIdx),
    /// The constraint was removed.
    ConstraintRemoved,
    /// Success without a result.
    Done,
    /// The client has reserved this job: see [`Store::view`](super::Store::view).
    Job(JobLocation),
    /// The element of [`Effects::fetched`] with this index.
    Fetched(u32),
    /// The job existed and was removed.
    Gone,
    /// Number of buried jobs that were kicked.
    Kicked(u32),
    /// There is no such constraint.
    NoConstraint,
    /// There is no such job, or none ready.
    NoJob,
    /// There is no such worker.
    NoWorker,
    /// The job has not ended in time.
    NotYet,
    /// The elements of [`Effects::popped`] from `first` on.
    Packets {
        /// Index of the first.
        first: u32,
        /// Number of packets, at least 1.
        count: u32,
    },
    /// The status of a job: see [`Store::progress`](super::Store::progress).
    Progress(JobLocation),
    /// The job was put and has this id.
    Put(JobId),
    /// The store declined the command; nothing has changed.
    Refused(Rejection),
    /// The result of a peek: see [`Store::job_info`](super::Store::job_info).
    Seen(JobLocation),
    /// A pop cannot carry this job.
    TooLarge(JobId),
    /// The element of [`Effects::watched`] with this index.
    Watched(u32),
    /// The worker is registered under this id.
    Worker(WorkerId),
}

/// What commands have brought about, in order. Reused: the engine takes the outcomes and clears it.
#[derive(Debug, Default)]
pub struct Effects {
    /// Answers, to the ticket of the command or to waiting ones.
    pub outcomes: Vec<(Ticket, Outcome)>,
    /// Popped packets, which are no longer in the store.
    pub popped: Vec<Packet>,
    /// Fetched results of jobs that are no longer in the store.
    pub fetched: Vec<OwnedJobStatus>,
    /// Answers to commands on indexed queues.
    pub watched: Vec<IndexedReply>,
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

    #[inline]
    pub(super) fn answer(&mut self, ticket: Ticket, outcome: Outcome) {
        self.outcomes.push((ticket, outcome));
    }

    #[inline]
    pub(super) fn mark_dirty(&mut self, change: DirtyRecord) {
        if self.keeps_changes {
            self.changes.push(change);
        }
    }

    /// Answers a command on an indexed queue.
    pub fn reply(&mut self, ticket: Ticket, answer: IndexedReply) {
        // Proof: one call answers fewer tickets than there are slots, which 32 bits number.
        let number = u32::try_from(self.watched.len()).expect("answers are numbered by 32 bits");
        self.watched.push(answer);
        self.answer(ticket, Outcome::Watched(number));
    }

    /// Marks an event of a job dirty; its row has this version after it.
    pub(super) fn mark_event_dirty(
        &mut self,
        slot: JobLocation,
        id: JobId,
        version: u64,
        event: event::Event,
    ) {
        if self.keeps_changes {
            let number = u32::try_from(self.events.len()).expect("events are numbered by 32 bits");
            self.events.push((version, event));
            self.changes.push(DirtyRecord::Event(slot, id, number));
        }
    }

    /// The next outcome that was not taken. O(1).
    #[inline(always)]
    pub fn next_outcome(&mut self) -> Option<(Ticket, Outcome)> {
        let outcome = *self.outcomes.get(self.shown)?;
        self.shown += 1;
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
        let rare = self.popped.len() | self.watched.len() | self.events.len() | self.fetched.len();
        if rare != 0 {
            self.clear_cold();
        }
    }

    #[inline(never)]
    fn clear_cold(&mut self) {
        self.popped.clear();
        self.popped.shrink_to(POPPED_CAPACITY);
        self.watched.clear();
        self.fetched.clear();
        self.events.clear();
    }

    /// Clears the records to journal once they are written.
    #[inline]
    pub fn clear_changes(&mut self) {
        self.changes.clear();
        self.events.clear();
    }
}

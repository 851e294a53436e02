//! What commands bring about: answers, and what has to outlive a restart.

use super::JobLocation;
use super::indexed_commands::SearchRequest;
use super::persist::DirtyRecord;
use super::queue_index::IndexedReply;
use crate::model::event;
use crate::model::id::{JobId, Ticket};
use crate::model::job::Packet;
use crate::model::owned::OwnedJobStatus;
use crate::model::reply::Rejection;
use crate::model::worker::WorkerId;

/// Places for popped packets that are kept for the next pop.
const POPPED_KEPT: usize = 1024;

/// What became of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A take was called off.
    Cancelled,
    /// Jobs are held back as was asked; whether there was no constraint of the name before.
    Constrained {
        /// Whether.
        new: bool,
    },
    /// This constraint: see [`Store::constraint`](super::Store::constraint).
    Constraint(u32),
    /// It is done.
    Done,
    /// The client holds this job now: see [`Store::view`](super::Store::view).
    Job(JobLocation),
    /// This one of [`Effects::fetched`].
    Fetched(u32),
    /// There is no such job any more.
    Gone,
    /// So many buried jobs were kicked.
    Kicked(u32),
    /// There is no such constraint.
    NoConstraint,
    /// There is no such job, or none ready.
    NoJob,
    /// There is no such worker.
    NoWorker,
    /// The job has not come to its end in time.
    NotYet,
    /// These are [`Effects::popped`], from `first` on.
    Packets {
        /// The number of the first.
        first: u32,
        /// How many.
        count: u32,
    },
    /// This is how it is going: see [`Store::progress`](super::Store::progress).
    Progress(JobLocation),
    /// The job is in its queue, or will be.
    Put(JobId),
    /// Nothing has changed.
    Refused(Rejection),
    /// Here it is: see [`Store::job_info`](super::Store::job_info).
    Seen(JobLocation),
    /// A pop cannot carry this job.
    TooLarge(JobId),
    /// This one of [`Effects::watched`].
    Watched(u32),
    /// The worker is on the list.
    Worker(WorkerId),
}

/// What commands brought about, in order. Reused: whoever applies commands shows and clears it.
#[derive(Debug, Default)]
pub struct Effects {
    /// Requests that are answered, the caller's own or those of clients that waited.
    pub outcomes: Vec<(Ticket, Outcome)>,
    /// What was popped: of the outcomes' jobs those that are gone from the store.
    pub popped: Vec<Packet>,
    /// Jobs whose results were fetched, and are gone from the store.
    pub fetched: Vec<OwnedJobStatus>,
    /// What questions about watched queues are answered.
    pub watched: Vec<IndexedReply>,
    /// Questions that are not answered yet.
    pub searches: Vec<SearchRequest>,
    /// The events of [`DirtyRecord::Event`], each with the version of the job's row after it.
    pub events: Vec<(u64, event::Event)>,
    /// What has to outlive a restart, in order, if that is asked for.
    pub changes: Vec<DirtyRecord>,
    /// Whether it is.
    pub keeps_changes: bool,
    /// How many of the outcomes have been shown.
    shown: usize,
}

impl Effects {
    /// Effects that keep what has to outlive a restart.
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

    /// Answers a question about a watched queue.
    pub fn reply(&mut self, ticket: Ticket, answer: IndexedReply) {
        // Proof: one call answers less than it applies to, which slots of 32 bits number.
        let number = u32::try_from(self.watched.len()).expect("answers are numbered by 32 bits");
        self.watched.push(answer);
        self.answer(ticket, Outcome::Watched(number));
    }

    /// Notes an event of a job, which has this version now.
    pub(super) fn mark_event_dirty(
        &mut self,
        slot: JobLocation,
        id: JobId,
        version: u64,
        event: event::Event,
    ) {
        if self.keeps_changes {
            let number = u32::try_from(self.events.len()).expect("jobs and their events are fewer");
            self.events.push((version, event));
            self.changes.push(DirtyRecord::Event(slot, id, number));
        }
    }

    /// The next outcome that has not been shown. O(1).
    #[inline(always)]
    pub fn next_outcome(&mut self) -> Option<(Ticket, Outcome)> {
        let outcome = *self.outcomes.get(self.shown)?;
        self.shown += 1;
        Some(outcome)
    }

    /// Asserts that all outcomes have been shown.
    #[inline]
    pub fn assert_drained(&self) {
        assert!(
            self.shown == self.outcomes.len(),
            "completions show what the next call may change"
        );
    }

    /// Before each call that may bring about more: what the last one did has been shown, and is
    /// forgotten. O(packets).
    #[inline]
    pub fn prepare(&mut self) {
        self.assert_drained();
        self.clear();
    }

    /// Forgets everything but searches, which stay until somebody takes them. O(packets).
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
        self.popped.shrink_to(POPPED_KEPT);
        self.watched.clear();
        self.fetched.clear();
        self.events.clear();
    }

    /// Forgets the changes, once they are written down.
    #[inline]
    pub fn clear_changes(&mut self) {
        self.changes.clear();
        self.events.clear();
    }
}

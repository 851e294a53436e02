//! What a protocol asks that looks at queues as things of their own and at the record of their jobs
//! (`docs/protocols/jobq.md`). A queue is watched from the first such question on: until then its
//! jobs pay nothing for it.

use crate::model::id::JobId;
use crate::model::query::Query;
use crate::model::stats::StatsScan;
use std::sync::Arc;

/// A question, or an order, about a watched queue. States are canonical JSON texts.
///
/// Where it asks for all jobs of a queue that is not watched yet, the answer may be
/// `Reply::NotYet`: its jobs are being taken stock of, a bounded number in each pass; ask again in
/// the next one. A queue exists if it was declared, if there is a job in it, or if it is named
/// `default`; what names another one is answered by `Reply::NoQueue`.
#[derive(Clone, Copy, Debug)]
pub enum IndexedCommand<'a> {
    /// A part of a census over all queues. Answered by `Reply::Census`.
    Stats(StatsScan),
    /// Which queues there are, from a place on that an earlier answer gave, 0 at first. Answered by
    /// `Reply::Queues`, a bounded number at a time.
    Queues {
        /// Where to go on.
        from: u32,
    },
    /// Declare a queue, so that it exists without jobs. Without a name it gets one by chance.
    /// Answered by `Reply::Queue`, or `Refusal::QueueExists`.
    CreateQueue {
        /// Its name.
        queue: Option<&'a [u8]>,
    },
    /// Remove a queue with its jobs, whatever they are doing. Answered by `Reply::QueueDropped`, a
    /// bounded number of jobs at a time: ask again while there are more. `default` stays, empty.
    DropQueue {
        /// Its name.
        queue: &'a [u8],
    },
    /// All jobs of a queue at this moment. Answered by `Reply::Rows`.
    List {
        /// Its name.
        queue: &'a [u8],
    },
    /// The jobs of a queue that match, at one moment. Answered by `Reply::Found` or
    /// `Reply::BadQuery`.
    Find {
        /// The queue's name.
        queue: &'a [u8],
        /// Which jobs.
        query: &'a Arc<Query>,
        /// How many at most.
        limit: Option<u64>,
    },
    /// Give the longest untouched job that matches a new state, and nobody else the same.
    /// Answered by `Reply::Row`, `Reply::NoJob` or `Reply::BadQuery`.
    Poll {
        /// The queue's name.
        queue: &'a [u8],
        /// Which jobs.
        query: &'a Arc<Query>,
        /// The new state.
        state: &'a [u8],
    },
    /// Put a job with a state into a queue that exists. Answered by `Reply::Row` or a refusal.
    Put {
        /// The queue's name.
        queue: &'a [u8],
        /// What it carries: JSON text.
        payload: &'a [u8],
        /// Its state.
        state: &'a [u8],
    },
    /// Show a job of a queue. Answered by `Reply::Row` or `Reply::NoJob`.
    Show {
        /// The queue's name.
        queue: &'a [u8],
        /// The job.
        id: JobId,
    },
    /// Make an end of a job of a queue. Answered by `Reply::Done` or `Reply::NoJob`.
    Delete {
        /// The queue's name.
        queue: &'a [u8],
        /// The job.
        id: JobId,
    },
    /// Give a job a new state if it has the old one. Answered by `Reply::Row`, `Reply::Conflict`
    /// or `Reply::NoJob`.
    CompareAndSetState {
        /// The queue's name.
        queue: &'a [u8],
        /// The job.
        id: JobId,
        /// The state that it has to have.
        old: &'a [u8],
        /// The new one.
        new: &'a [u8],
    },
    /// Write an event into the log of a job. Answered by `Reply::Row`, `Reply::NoJob`, or
    /// `Refusal::LogFull`.
    AppendEvent {
        /// The queue's name.
        queue: &'a [u8],
        /// The job.
        id: JobId,
        /// JSON text.
        event: &'a [u8],
    },
}

/// A queue in a list of queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSize {
    /// Its name.
    pub name: Box<[u8]>,
    /// How many jobs belong to it, whatever they are doing.
    pub jobs: u32,
}

//! Commands on indexed queues (`docs/protocols/jobq.md`). A queue is indexed from the first of them
//! that names it; until then its jobs pay nothing for it.

use crate::model::id::JobId;
use crate::model::query::Query;
use crate::model::stats::StatsScan;
use std::sync::Arc;

/// A command on indexed queues. States are canonical JSON texts.
///
/// Where it needs all jobs of a queue that is not indexed yet, the answer may be `Reply::NotYet`:
/// the index is backfilled, a bounded number of jobs in each pass; ask again in the next one. A
/// queue exists if it was declared, if there is a job in it, or if it is named `default`; a command
/// that names another one is answered by `Reply::NoQueue`.
#[derive(Clone, Copy, Debug)]
pub enum IndexedCommand<'a> {
    /// One page of statistics over all queues. Answered by `Reply::Stats`.
    Stats(StatsScan),
    /// Lists queues, a bounded number at a time. Answered by `Reply::Queues`.
    Queues {
        /// 0, or `next` of an earlier reply.
        from: u32,
    },
    /// Declares a queue, so that it exists without jobs. Answered by `Reply::Queue`, or
    /// `Rejection::QueueExists`.
    CreateQueue {
        /// Queue name; `None`: a random one.
        queue: Option<&'a [u8]>,
    },
    /// Removes a queue with its jobs, whatever their status, a bounded number of jobs at a time:
    /// ask again while there are more. `default` stays, empty. Answered by `Reply::QueueDropped`.
    DropQueue {
        /// Queue name: any bytes.
        queue: &'a [u8],
    },
    /// All jobs of a queue at this moment. Answered by `Reply::Rows`.
    List {
        /// Queue name: any bytes.
        queue: &'a [u8],
    },
    /// The jobs of a queue that match, at one moment. Answered by `Reply::QueryRows` or
    /// `Reply::BadQuery`.
    Find {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// The comparisons that a job must satisfy.
        query: &'a Arc<Query>,
        /// Most rows to return; `None`: all.
        limit: Option<u64>,
    },
    /// Gives the matching job with the oldest change a new state, atomically. Answered by
    /// `Reply::Row`, `Reply::NoJob` or `Reply::BadQuery`.
    Poll {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// The comparisons that a job must satisfy.
        query: &'a Arc<Query>,
        /// New state: canonical JSON text.
        state: &'a [u8],
    },
    /// Puts a job with a state into an existing queue. Answered by `Reply::Row` or a rejection.
    Put {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// JSON text.
        payload: &'a [u8],
        /// First state: canonical JSON text.
        state: &'a [u8],
    },
    /// Reads a job of a queue. Answered by `Reply::Row` or `Reply::NoJob`.
    Show {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// Job id, existing or not.
        id: JobId,
    },
    /// Removes a job of a queue, whatever its status. Answered by `Reply::Done` or `Reply::NoJob`.
    Delete {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// Job id, existing or not.
        id: JobId,
    },
    /// Gives a job a new state if it has the old one. Answered by `Reply::Row`, `Reply::Conflict`
    /// or `Reply::NoJob`.
    CompareAndSetState {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// Job id, existing or not.
        id: JobId,
        /// Expected state: canonical JSON text.
        old: &'a [u8],
        /// New state: canonical JSON text.
        new: &'a [u8],
    },
    /// Appends an event to the history of a job. Answered by `Reply::Row`, `Reply::NoJob`, or
    /// `Rejection::LogFull`.
    AppendEvent {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// Job id, existing or not.
        id: JobId,
        /// JSON text.
        event: &'a [u8],
    },
}

/// A queue in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSize {
    /// Queue name: any bytes.
    pub name: Box<[u8]>,
    /// Number of its jobs, whatever their status.
    pub jobs: u32,
}

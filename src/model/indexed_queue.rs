//! Commands on indexed queues (`docs/protocols/jobq.md`). A queue is indexed from the first of them
//! that names it; until then its jobs pay nothing for it.

use crate::model::id::JobId;
use crate::model::query::Query;
use crate::model::row::{Row, Rows};
use crate::model::stats::StatsScan;
use std::sync::Arc;

/// A command on indexed queues. States are canonical JSON texts.
///
/// The answer is an [`IndexedReply`], or an [`IndexedPage`] if the command is to be repeated or
/// continued. Where it needs all jobs of a queue that is not indexed yet, it may be
/// [`IndexedPage::NotYet`]. A queue exists if it was declared, if there is a job in it, or if it is
/// named `default`; a command that names another one is answered by [`IndexedReply::NoQueue`], and
/// one for whose record the disk has no space by [`IndexedReply::DiskFull`]; one for which there is
/// no memory by [`IndexedReply::MemoryFull`].
#[derive(Clone, Copy, Debug)]
pub enum IndexedCommand<'a> {
    /// One page of statistics over all queues. Answered by `Reply::Stats`.
    Stats(StatsScan),
    /// Lists queues, a bounded number at a time. Answered by
    /// [`IndexedPage::Queues`].
    Queues {
        /// 0, or `next` of an earlier reply.
        from: u32,
    },
    /// Declares a queue, so that it exists without jobs. Answered by `Queue`, `QueueExists` or
    /// `Full`.
    CreateQueue {
        /// Queue name; `None`: a random one.
        queue: Option<&'a [u8]>,
    },
    /// Removes a queue with its jobs, whatever their status, a bounded number of jobs at a time:
    /// ask again while there are more. `default` stays, empty. Answered by
    /// [`IndexedPage::QueueDropped`].
    DropQueue {
        /// Queue name: any bytes.
        queue: &'a [u8],
    },
    /// All jobs of a queue at this moment. Answered by `Rows`.
    List {
        /// Queue name: any bytes.
        queue: &'a [u8],
    },
    /// The jobs of a queue that match, at one moment. Answered by `QueryRows` or
    /// `BadQuery`.
    Find {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// The comparisons that a job must satisfy.
        query: &'a Arc<Query>,
        /// Most rows to return; `None`: all.
        limit: Option<u64>,
    },
    /// Gives the matching job with the oldest change a new state, atomically. Answered by
    /// `Row`, `NoJob` or `BadQuery`.
    Poll {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// The comparisons that a job must satisfy.
        query: &'a Arc<Query>,
        /// New state: canonical JSON text.
        state: &'a [u8],
    },
    /// Puts a job with a state into an existing queue. Answered by `Row` or `Full`.
    Put {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// JSON text.
        payload: &'a [u8],
        /// First state: canonical JSON text.
        state: &'a [u8],
    },
    /// Reads a job of a queue. Answered by `Row` or `NoJob`.
    Show {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// Job id, existing or not.
        id: JobId,
    },
    /// Removes a job of a queue, whatever its status. Answered by `Done` or `NoJob`.
    Delete {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// Job id, existing or not.
        id: JobId,
    },
    /// Gives a job a new state if it has the old one. Answered by `Row`, `Conflict` or
    /// `NoJob`.
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
    /// Appends an event to the history of a job. Answered by `Row`, `NoJob` or
    /// `LogFull`.
    AppendEvent {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// Job id, existing or not.
        id: JobId,
        /// JSON text.
        event: &'a [u8],
    },
}

/// The end of a command on indexed queues. Cloning copies texts only: rows are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexedReply {
    /// The query cannot be evaluated, or took too long: a sentence.
    BadQuery(Box<str>),
    /// The job has another state than the expected one: this one.
    Conflict(Arc<[u8]>),
    /// The journal has no space for the record.
    DiskFull,
    /// The job was removed.
    Done,
    /// The job table is full, or the ids are used up.
    Full,
    /// The job's history takes no more events.
    LogFull,
    /// Jobs and buffers take as much memory as the settings allow.
    MemoryFull,
    /// The server is being drained: it takes no new jobs.
    Draining,
    /// There is no such job in the queue, or none that matches.
    NoJob,
    /// The queue does not exist.
    NoQueue,
    /// The rows that match, in order.
    QueryRows(Arc<[Arc<Row>]>),
    /// The queue of this name was declared.
    Queue(Box<[u8]>),
    /// A queue of this name exists.
    QueueExists,
    /// The row of the job after the command.
    Row(Arc<Row>),
    /// All rows of the queue.
    Rows(Rows),
}

/// The answer to one step of a command on indexed queues that is bounded in each pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexedPage {
    /// The queue's index is being backfilled: ask again in the next pass.
    NotYet,
    /// Jobs of the queue were removed.
    QueueDropped {
        /// Number of jobs removed by this command that clients still saw.
        jobs: u32,
        /// Whether jobs are left, so that the queue still exists: ask again.
        more: bool,
    },
    /// Some of the queues.
    Queues {
        /// In no order.
        queues: Vec<QueueSize>,
        /// Where to continue; `None`: this was the last part.
        next: Option<u32>,
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

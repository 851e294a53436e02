//! Commands of clients that reserve jobs by their connections, and that make queues by using and
//! watching them.

use crate::base::strings::{StringList, Strings};
use crate::model::flow::StateCounts;
use crate::model::id::JobId;
use crate::model::job::Priority;

/// A command of such a client.
#[derive(Clone, Copy, Debug)]
pub enum ConsumerCommand<'a> {
    /// Reserves this job, if it is ready, delayed or buried, also of a paused queue. Answered by
    /// `Reply::Job` or `Reply::NoJob`.
    ReserveJob {
        /// Job id, existing or not.
        id: JobId,
    },
    /// Gives a job that the client has reserved back to its queue. Answered by `Reply::Done`, or
    /// by `Reply::NoJob` if the client has not reserved it.
    Release {
        /// Job id, existing or not.
        id: JobId,
        /// Its new priority.
        priority: Priority<'a>,
        /// Before it is ready again.
        delay_ms: u64,
    },
    /// Buries a job that the client has reserved. Answered like a release.
    Bury {
        /// Job id, existing or not.
        id: JobId,
        /// Its new priority.
        priority: Priority<'a>,
    },
    /// Makes a buried or delayed job ready. Answered by `Reply::Done`, or by `Reply::NoJob` if it
    /// is neither.
    KickJob {
        /// Job id, existing or not.
        id: JobId,
    },
    /// Makes up to `limit` delayed or buried jobs of a queue ready, one after the other: those
    /// first that would be ready first, or that were buried first. Answered by `Reply::Kicked`.
    KickFirst {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// Which of its jobs.
        among: PeekedState,
        /// Most jobs to kick.
        limit: u32,
    },
    /// Reads the first job of a queue in a state. Answered by `Reply::Peeked` or `Reply::NoJob`.
    PeekFirst {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// Which of its jobs.
        among: PeekedState,
    },
    /// Reads what is counted of a job. Answered by `ConsumerReply::Job` or `Reply::NoJob`.
    JobStats {
        /// Job id, existing or not.
        id: JobId,
    },
    /// Reads what is counted of a queue. Answered by `ConsumerReply::Queue` or `Reply::NoJob`.
    QueueStats {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// Whether it counts as one that exists, whatever it has.
        exists: bool,
    },
    /// Some names of queues that have jobs, users or watchers. Answered by `ConsumerReply::Names`.
    QueueNames {
        /// From 0, or `QueueNames::next`, on.
        from: u32,
    },
    /// What is counted of all queues. Answered by `ConsumerReply::Totals`.
    Totals,
    /// Pauses a queue, in place of a former pause, or ends its pause. Answered by `Reply::Done`,
    /// `Reply::NoJob` if it has no jobs, users and watchers, or a rejection.
    Pause {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// Whether it counts as one that exists, whatever it has.
        exists: bool,
        /// For how long; 0: the pause ends.
        for_ms: u64,
    },
    /// The client uses a queue, which is made if there is none, and no longer a former one.
    /// Answered by `Reply::Done`.
    Use {
        /// Queue name; empty: none that is counted.
        queue: &'a [u8],
        /// The same of the former one.
        former: &'a [u8],
    },
    /// The client watches a queue, which is made if there is none. Answered by `Reply::Done`.
    Watch {
        /// Queue name: any bytes.
        queue: &'a [u8],
    },
    /// The client uses a queue, and watches others, no longer. Answered by `Reply::Done`.
    Leave {
        /// Queue name; empty: none that is counted.
        used: &'a [u8],
        /// Each of them was watched.
        watched: Strings<'a>,
    },
}

/// Which jobs of a queue have a first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeekedState {
    /// The one that is reserved next, also if the queue is paused.
    Ready,
    /// The one that is ready first.
    Delayed,
    /// The one that was buried first.
    Buried,
}

/// The answer to a [`ConsumerCommand`] that no other reply has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsumerReply {
    /// A job.
    Job(Box<JobStats>),
    /// A queue.
    Queue(Box<QueueStats>),
    /// Some queues.
    Names(Box<QueueNames>),
    /// All queues.
    Totals(Box<QueueTotals>),
}

/// What is counted of a job. Counters are those since the start of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStats {
    /// Unique in the store.
    pub id: JobId,
    /// Queue name: any bytes.
    pub queue: Box<[u8]>,
    /// The word of its state: `ready`, `reserved`, `delayed` or `buried`.
    pub state: &'static str,
    /// `i64::MAX` and `i64::MIN` stand for priorities that are no number of 64 bits.
    pub priority: i64,
    /// Whole seconds since it was put.
    pub age_s: u64,
    /// Its last delay, in milliseconds.
    pub delay_ms: u64,
    /// The length of its lease; 0: none.
    pub lease_ms: u64,
    /// Whole seconds until its lease or delay ends.
    pub left_s: u64,
    /// How often it was reserved.
    pub reserves: u32,
    /// How often its lease has ended.
    pub timeouts: u32,
    /// How often it was released, buried and kicked.
    pub tally: JobTally,
}

/// What was done to a job since the start of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobTally {
    /// Given back by a client.
    pub releases: u32,
    /// Buried by a client.
    pub buries: u32,
    /// Made ready by a client.
    pub kicks: u32,
}

/// What is counted of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Numbers of jobs by state, in the order of `JobState::ALL`.
    pub counts: StateCounts,
    /// Ready jobs with a priority above [`URGENT_ABOVE`], counted up to `URGENT_JOBS_COUNTED`.
    pub urgent: u64,
    /// Jobs put since its clients made it.
    pub put: u64,
    /// Clients that use it.
    pub using: u64,
    /// Clients that watch it.
    pub watching: u64,
    /// Reserves that wait for it, counted up to `QUEUE_WAITERS_COUNTED`.
    pub waiting: u64,
    /// How often its clients have paused it.
    pub pauses: u64,
    /// The length of its pause in seconds; 0: it has none.
    pub pause_s: u64,
    /// Whole seconds until that ends.
    pub pause_left_s: u64,
}

/// Jobs of higher priority are urgent.
pub const URGENT_ABOVE: i64 = -1024;

/// Some names of queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueNames {
    /// Any bytes, in the order in which the queues were made, but for places of former ones.
    pub names: StringList,
    /// Where to go on; `None`: these were the last ones.
    pub next: Option<u32>,
}

/// What is counted of all queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueTotals {
    /// Numbers of jobs by state, in the order of `JobState::ALL`; at most some seconds old if there
    /// are many queues.
    pub counts: StateCounts,
    /// As of a queue; of the first queues if there are many.
    pub urgent: u64,
    /// Queues with jobs, users or watchers. If there are many, some others may be counted.
    pub queues: u64,
    /// Jobs put since the start.
    pub put: u64,
    /// Leases that have ended since the start.
    pub timeouts: u64,
}

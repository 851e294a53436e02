//! What a protocol asks of an engine.

use crate::base::strings::Strings;
use crate::model::id::JobId;
use crate::model::indexed_queue::IndexedCommand;
use crate::model::job::{JobOptions, LeaseEpoch, Payload, Priority, TieBreak};
use crate::model::worker::WorkerCommand;

/// One request, in the words of the store. Every command gets exactly one completion.
///
/// Who asks is the client of the ticket. What only the holder of a job may ask for is refused to
/// everybody else, and to a former holder: one whose lease is over, or who names with `lease` an
/// earlier one than it has now.
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// Make a job. Answered by `Reply::Put` or a refusal.
    Put {
        /// The queue's name; the queue comes into being if need be.
        queue: &'a [u8],
        /// How urgent the job is.
        priority: Priority<'a>,
        /// Its place among the equally urgent.
        tie_break: TieBreak,
        /// What it carries.
        payload: Payload<'a>,
        /// What few jobs ask for.
        options: Option<&'a JobOptions>,
    },
    /// Hand the most urgent ready job of these queues to the client, who then holds it. Answered by
    /// `Reply::Job`, or by `Reply::NoJob` when there is none, at the end of the wait.
    Reserve {
        /// The queues' names; one named twice counts once. Among jobs of the same priority the
        /// oldest goes first.
        queues: Strings<'a>,
        /// Whether to wait for a job.
        wait: Wait,
    },
    /// Take the most urgent ready job of these queues out of the store for good, and if it is a
    /// packet all others of its queue with the same key. Answered by `Reply::Packets`, by
    /// `Reply::NoJob` when there is none, at the end of the wait, or by `Reply::TooLarge`.
    Pop {
        /// The queues' names; one named twice counts once. Among jobs of the same priority that of
        /// the queue named first goes first.
        queues: Strings<'a>,
        /// Whether to wait for a job.
        wait: Wait,
    },
    /// Let a take or pop of this client that waits wait in one more queue, at the end of its line.
    /// Answered by `Reply::Done`, or `Reply::NoJob` when it does not wait any more.
    Subscribe {
        /// The serial of the take.
        serial: u32,
        /// The queue's name.
        queue: &'a [u8],
    },
    /// Let a take or pop of this client that waits no longer wait in this queue. Answered by
    /// `Reply::Done`, or `Reply::NoJob` when it does not wait any more.
    Unsubscribe {
        /// The serial of the take.
        serial: u32,
        /// The queue's name.
        queue: &'a [u8],
    },
    /// Make an end of a job, whoever holds it. Answered by `Reply::Done` or `Reply::NoJob`.
    Delete {
        /// The job.
        id: JobId,
    },
    /// Put a job that the client holds back into its queue. Answered by `Reply::Done`,
    /// `Reply::NoJob`, or a refusal when the client does not hold it.
    Release {
        /// The job.
        id: JobId,
        /// Under which lease the client believes to hold it, if it can tell.
        lease: Option<LeaseEpoch>,
    },
    /// Let the lease of a job that the client holds begin anew; of a job without a time limit
    /// nothing changes. Answered like a release.
    Touch {
        /// The job.
        id: JobId,
        /// As for a release.
        lease: Option<LeaseEpoch>,
    },
    /// A job that the client holds is done. It is gone, or kept with its result for as long as its
    /// options say. Answered like a release.
    Finish {
        /// The job.
        id: JobId,
        /// As for a release.
        lease: Option<LeaseEpoch>,
        /// What came of it.
        result: Payload<'a>,
    },
    /// A job that the client holds has failed: it is tried again later if its options allow, or
    /// else buried. Answered like a release.
    Fail {
        /// The job.
        id: JobId,
        /// As for a release.
        lease: Option<LeaseEpoch>,
        /// Whether it is worth another try.
        retry: bool,
        /// What went wrong; kept in place of a result.
        error: Payload<'a>,
    },
    /// Put a job that the client holds away until it is kicked. Answered like a release.
    Bury {
        /// The job.
        id: JobId,
        /// As for a release.
        lease: Option<LeaseEpoch>,
    },
    /// Make a buried job ready again, with all its retries. Answered by `Reply::Done`,
    /// `Reply::NoJob`, or a refusal when it is not buried.
    Kick {
        /// The job.
        id: JobId,
    },
    /// Kick up to `limit` buried jobs of a queue, those first that were buried first. Answered by
    /// `Reply::Kicked`.
    KickQueue {
        /// The queue's name.
        queue: &'a [u8],
        /// How many at most.
        limit: u32,
    },
    /// Show a job, whatever it is doing. Answered by `Reply::Seen` or `Reply::NoJob`.
    Peek {
        /// The job.
        id: JobId,
    },
    /// Something about a watched queue: see [`IndexedCommand`].
    Indexed(IndexedCommand<'a>),
    /// Something about work that is followed to a result: see [`WorkerCommand`].
    Work(WorkerCommand<'a>),
}

/// How long a take waits when there is no job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// Until there is one or the client ends it.
    Forever,
    /// So many milliseconds.
    Milliseconds(u64),
}

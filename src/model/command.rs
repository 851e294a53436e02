//! Commands: what a protocol may ask of an engine.

use crate::base::strings::Strings;
use crate::model::consumer::ConsumerCommand;
use crate::model::id::JobId;
use crate::model::indexed_queue::IndexedCommand;
use crate::model::job::{JobOptions, LeaseEpoch, Payload, Priority, TieBreak};
use crate::model::manage::ManageCommand;
pub use crate::model::wait::Wait;
use crate::model::worker::WorkerCommand;

/// One request to the store. Every command gets exactly one completion.
///
/// The client is the ticket's. Commands on a reserved job are rejected for every client but the one
/// that has reserved it, and for a former one: its lease has ended, or `lease` is earlier than the
/// current epoch.
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// Adds a job. Answered by `Reply::Put` or a rejection.
    Put {
        /// Queue name: any bytes. The queue is created if absent.
        queue: &'a [u8],
        /// Priority within the queue.
        priority: Priority<'a>,
        /// Order among jobs of the same priority.
        tie_break: TieBreak,
        /// Bytes that the server never changes.
        payload: Payload<'a>,
        /// `None`: no delay, lease, ttl, retry or retention.
        options: Option<&'a JobOptions>,
    },
    /// Reserves the most urgent ready job of these queues. Answered by `Reply::Job`; without one by
    /// `Reply::NoJob`, at the end of the wait.
    Reserve {
        /// Queue names; duplicates count once. Among jobs of the same priority the oldest goes
        /// first.
        queues: Strings<'a>,
        /// How long to wait for a job.
        wait: Wait,
    },
    /// Removes the most urgent ready job of these queues and returns it; if it is a packet, with
    /// all others of its queue with the same key. Answered by `Reply::Packets` or
    /// `Reply::TooLarge`; without a job by `Reply::NoJob`, at the end of the wait.
    Pop {
        /// Queue names; duplicates count once. Among jobs of the same priority that of the queue
        /// named first goes first.
        queues: Strings<'a>,
        /// How long to wait for a job.
        wait: Wait,
    },
    /// Adds a queue to a waiting reserve or pop of this client, which joins the end of its wait
    /// queue. Answered by `Reply::Done`, or `Reply::NoJob` if it does not wait any more.
    Subscribe {
        /// Serial of the reserve's or pop's ticket.
        serial: u32,
        /// Queue name: any bytes.
        queue: &'a [u8],
    },
    /// Takes a queue out of a waiting reserve or pop of this client. Answered by `Reply::Done`, or
    /// `Reply::NoJob` if it does not wait any more.
    Unsubscribe {
        /// Serial of the reserve's or pop's ticket.
        serial: u32,
        /// Queue name: any bytes.
        queue: &'a [u8],
    },
    /// Removes a job, whatever its status. Answered by `Reply::Done` or `Reply::NoJob`.
    Delete {
        /// Job id, existing or not.
        id: JobId,
    },
    /// The same, unless another client or a worker has reserved it: then it is answered by
    /// `Reply::NoJob` too.
    DeleteOwn {
        /// Job id, existing or not.
        id: JobId,
    },
    /// Gives a job reserved by the client back to its queue. Answered by `Reply::Done`,
    /// `Reply::NoJob`, or a rejection if the client has not reserved it.
    Release {
        /// Job id, existing or not.
        id: JobId,
        /// Epoch of the reservation as the client knows it; `None`: not checked.
        lease: Option<LeaseEpoch>,
    },
    /// Starts the lease of a reserved job again; no effect without a time limit. Answered like a
    /// release.
    Touch {
        /// Job id, existing or not.
        id: JobId,
        /// As in [`Command::Release`].
        lease: Option<LeaseEpoch>,
    },
    /// A reserved job is done: removed, or completed with its result for as long as its options
    /// say. Answered like a release.
    Finish {
        /// Job id, existing or not.
        id: JobId,
        /// As in [`Command::Release`].
        lease: Option<LeaseEpoch>,
        /// Retained with the completed job.
        result: Payload<'a>,
    },
    /// The run of a reserved job has failed: it is tried again if its options allow, or else
    /// buried. Answered like a release.
    Fail {
        /// Job id, existing or not.
        id: JobId,
        /// As in [`Command::Release`].
        lease: Option<LeaseEpoch>,
        /// Whether another try may succeed; `false`: buried.
        retry: bool,
        /// Retained in place of a result.
        error: Payload<'a>,
    },
    /// Buries a reserved job. Answered like a release.
    Bury {
        /// Job id, existing or not.
        id: JobId,
        /// As in [`Command::Release`].
        lease: Option<LeaseEpoch>,
    },
    /// Makes a buried job ready again and resets its retry count. Answered by `Reply::Done`,
    /// `Reply::NoJob`, or a rejection if it is not buried.
    Kick {
        /// Job id, existing or not.
        id: JobId,
    },
    /// Kicks up to `limit` buried jobs of a queue, the earliest buried first. Answered by
    /// `Reply::Kicked`.
    KickQueue {
        /// Queue name: any bytes.
        queue: &'a [u8],
        /// Most jobs to kick.
        limit: u32,
    },
    /// Reads a job, whatever its status. Answered by `Reply::Peeked` or `Reply::NoJob`.
    Peek {
        /// Job id, existing or not.
        id: JobId,
    },
    /// A command on an indexed queue: see [`IndexedCommand`].
    Indexed(IndexedCommand<'a>),
    /// A command of clients that reserve jobs by their connections: see [`ConsumerCommand`].
    Consumer(ConsumerCommand<'a>),
    /// A command of the native API: see [`ManageCommand`].
    Manage(ManageCommand<'a>),
    /// A command of registered workers or on tracked jobs: see [`WorkerCommand`].
    Work(WorkerCommand<'a>),
}

#[cfg(test)]
mod tests {
    use super::Command;

    /// Each request moves its command twice.
    #[test]
    fn command_is_no_larger_than_a_put() {
        assert_eq!(size_of::<Command<'_>>(), 80);
    }
}

//! What a protocol asks of an engine.

use crate::base::strings::Strings;
use crate::model::id::JobId;
use crate::model::job::{Payload, Turn, Urgency};

/// One request, in the words of the store. Every command gets exactly one completion.
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// Make a job. Answered by `Reply::Put` or a refusal.
    Put {
        /// The queue's name; the queue comes into being if need be.
        queue: &'a [u8],
        /// How urgent the job is.
        urgency: Urgency<'a>,
        /// Its place among the equally urgent.
        turn: Turn,
        /// What it carries.
        payload: Payload<'a>,
    },
    /// Hand the most urgent ready job of these queues to the client, who then holds it. Answered by
    /// `Reply::Job`; without one by `Reply::NoJob`, or once there is one if `wait` is set.
    Take {
        /// The queues' names; one named twice counts once.
        queues: Strings<'a>,
        /// Whether to wait for a job.
        wait: bool,
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
    },
}

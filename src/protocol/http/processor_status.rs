//! `GET /processor/{queue}`: the seven structures of the processor (`docs/protocols/processor.md`,
//! "The state over HTTP").

use super::openapi::{Description, Schemas};
use crate::model::reply::Reply;
use crate::protocol::queue_listing::QueueListing;
use serde_json::Value;
use utoipa::ToSchema;

/// A listing that is collected and written a part at a time.
#[derive(Debug)]
pub(super) struct ProcessorStatus {
    pub(super) listing: QueueListing,
    /// Written text that is not in the output yet.
    pub(super) text: Vec<u8>,
    /// The last scan page was not the last of the queue: go on in the next turn.
    pub(super) yield_next: bool,
}

impl ProcessorStatus {
    pub(super) fn new(queue: &[u8]) -> Self {
        Self { listing: QueueListing::new(queue, None), text: Vec::new(), yield_next: false }
    }

    /// Adds the reply to a scan or a peek.
    #[cold]
    pub(super) fn add_reply(&mut self, reply: &Reply<'_>) {
        match reply {
            Reply::QueueScan(page) => {
                self.yield_next = page.next.is_some();
                self.listing.add_scan_page(page);
            }
            peeked => self.listing.add_peeked(peeked, &mut self.text),
        }
    }
}

/// What the processor has of a queue.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it is a shape")]
struct Structures {
    /// The jobs that wait, as they were added, the one first that goes first.
    #[schema(value_type = Vec<Object>)]
    jobs_queued: Vec<Value>,
    /// The jobs that were assigned and not accepted yet.
    jobs_dispatched: Vec<Dispatched>,
    /// The jobs that workers work on.
    jobs_processing: Vec<Seen>,
    /// The same, with how far they are.
    jobs_progress: Vec<Progress>,
    /// The workers.
    workers_last_seen: Vec<Seen>,
    /// The workers that are idle.
    workers_idle: Vec<String>,
    /// The workers that are busy.
    workers_busy: Vec<String>,
}

/// A job that was assigned.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it is a shape")]
struct Dispatched {
    uuid: String,
    /// When, in ISO 8601.
    dispatched_at: String,
}

/// A job or a worker.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it is a shape")]
struct Seen {
    uuid: String,
    /// When it was heard of last, in ISO 8601.
    last_seen: String,
}

/// A job that is being worked on.
#[derive(serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it is a shape")]
struct Progress {
    uuid: String,
    /// How much of it is done.
    #[schema(minimum = 0, maximum = 1)]
    progress: f64,
}

pub(super) fn describe(shapes: &mut Schemas) -> Description {
    Description {
        summary: "What the processor has of a queue: its jobs, and its workers",
        body: None,
        answers: vec![shapes.answer::<Structures>(200, "The seven structures; empty ones too")],
    }
}

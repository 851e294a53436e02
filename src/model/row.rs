//! Rows of indexed queues: immutable values that snapshots share.

use crate::model::event::EventLog;
use crate::model::id::JobId;
use crate::model::job::Encoding;
use imbl::OrdMap;
use std::sync::Arc;

/// A job at one moment. Never changed: a job that changes gets a new row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The job's id.
    pub id: JobId,
    /// Rises with every change of the job.
    pub version: u64,
    /// Queue name: any bytes.
    pub queue: Arc<[u8]>,
    /// Decimal digits; `None`: group-only.
    pub priority: Option<Box<str>>,
    /// Format of the payload.
    pub encoding: Encoding,
    /// As it was put.
    pub payload: Arc<[u8]>,
    /// Canonical JSON text (`wire::json::canonical`); `null` if it was never set.
    pub state: Arc<[u8]>,
    /// Its history.
    pub events: EventLog,
    /// Unix time of its last change, in seconds.
    pub modified: u64,
}

/// Order of rows in a queue: oldest change first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowKey {
    /// [`Row::modified`].
    pub modified: u64,
    /// [`Row::id`].
    pub id: JobId,
}

/// Rows in their order. Cloning is O(1), and a clone is a snapshot.
pub type Rows = OrdMap<RowKey, Arc<Row>>;

impl Row {
    /// Its position in [`Rows`].
    #[must_use]
    pub fn key(&self) -> RowKey {
        RowKey { modified: self.modified, id: self.id }
    }
}

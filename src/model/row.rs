//! Jobs of watched queues, as values that snapshots share: what is listed, queried and shown.

use crate::model::event::EventLog;
use crate::model::id::JobId;
use crate::model::job::Encoding;
use imbl::OrdMap;
use std::sync::Arc;

/// A job as it was at one moment. Never changed: a job that changes gets a new row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its id.
    pub id: JobId,
    /// Which of the job's rows it is: rises with every change.
    pub version: u64,
    /// The name of its queue.
    pub queue: Arc<[u8]>,
    /// Its priority as decimal digits, `None` for a job without.
    pub priority: Option<Box<str>>,
    /// How to read the payload.
    pub encoding: Encoding,
    /// What it carries.
    pub payload: Arc<[u8]>,
    /// Its user state: canonical JSON text (`wire::json::canonical`), `null` if it was never set.
    pub state: Arc<[u8]>,
    /// What has happened to it.
    pub events: EventLog,
    /// When it was changed last, in Unix seconds.
    pub modified: u64,
}

/// Where a row stands in its queue: longest untouched first.
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
    /// Where it stands.
    #[must_use]
    pub fn key(&self) -> RowKey {
        RowKey { modified: self.modified, id: self.id }
    }
}

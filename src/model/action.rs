//! Changes of jobs by the native API, and actions: the same for everything that matches.

use crate::base::time::Wall;
use crate::model::id::JobId;
use crate::model::job::{Encoding, OwnedPriority};
use crate::model::job_state::JobStates;
use crate::model::query::Query;
use std::sync::Arc;

/// What of a job is changed; `None` leaves it as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobChange {
    /// Of a packet the part behind its key.
    pub payload: Option<(Encoding, Box<[u8]>)>,
    /// Priority within the queue.
    pub priority: Option<OwnedPriority>,
    /// From now on; 0: the job is ready.
    pub delay_ms: Option<u64>,
    /// From now on; 0: no time to live.
    pub ttl_ms: Option<u64>,
    /// The queue to move it to: any bytes.
    pub queue: Option<Box<[u8]>>,
    /// Most attempts; 0: any number.
    pub max_attempts: Option<u32>,
}

/// Which jobs of a queue an action is about, of those that are there when it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionFilter {
    /// Those in these states when the action comes to them.
    States(JobStates),
    /// Those with these ids, whatever their state.
    Ids(Box<[JobId]>),
    /// Those that match this query, if they do not change before the action comes to them; of an
    /// indexed queue.
    Query(Arc<Query>),
}

/// What an action does to each job. Jobs whose state does not permit it are passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionVerb {
    /// Removes it, whatever its state.
    Delete,
    /// Makes it ready, if it is buried or scheduled.
    Kick,
    /// Puts it away.
    Bury,
    /// Moves it to another queue.
    Move {
        /// Queue name: any bytes.
        to: Box<[u8]>,
    },
    /// Changes it.
    Change(JobChange),
}

/// An action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionSpec {
    /// Queue name: any bytes.
    pub queue: Box<[u8]>,
    /// Which jobs.
    pub filter: ActionFilter,
    /// What is done to them.
    pub verb: ActionVerb,
    /// Most jobs that it changes.
    pub limit: Option<u64>,
    /// Nothing is changed, only counted.
    pub dry_run: bool,
    /// It is answered when it has ended.
    pub wait: bool,
}

/// How far an action is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionState {
    /// It goes on.
    Running,
    /// It has ended.
    Finished,
    /// It was cancelled: what is done stays.
    Cancelled,
    /// It has ended early because of an error.
    Failed,
}

impl ActionState {
    /// The word of the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

/// An action as the API shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionDetails {
    /// Of actions only; they count from 1 with each start of the server.
    pub id: u64,
    /// Queue name: any bytes.
    pub queue: Box<[u8]>,
    /// What it does, as a word of the API.
    pub verb: &'static str,
    /// Whether it changes nothing.
    pub dry_run: bool,
    /// How many jobs matched when it began, without regard to its limit; `None`: not known yet.
    pub matched: Option<u64>,
    /// How many it has changed, or would have.
    pub done: u64,
    /// How far it is.
    pub state: ActionState,
    /// Why it has failed.
    pub error: Option<Box<str>>,
    /// When it began.
    pub started_at: Wall,
    /// When it ended.
    pub ended_at: Option<Wall>,
}

//! What only tests look at and change.

use super::Engine;
use crate::model::id::JobId;
use crate::model::reply::JobStatus;
use crate::model::snapshot::Snapshot;

/// For tests.
impl Engine {
    /// The status of a job as the store has applied it, durable or not. O(log n).
    #[doc(hidden)]
    #[must_use]
    pub fn peek(&self, id: JobId) -> Option<JobStatus<'_>> {
        self.store.peek(id)
    }

    /// All jobs as their records would say it now, durable or not. O(n).
    #[doc(hidden)]
    pub fn snapshots(&self) -> impl Iterator<Item = Snapshot<'_>> {
        self.store.snapshots()
    }

    /// Whether every answer of a shared engine waits for a write, as it has to: a test may look at
    /// what is durable without one.
    #[doc(hidden)]
    pub fn set_answers_wait(&mut self, wait: bool) {
        if let Some(journal) = &mut self.journal {
            journal.set_forces(wait);
        }
    }

    /// Changes how many steps a pass has for work that is spread over passes.
    #[doc(hidden)]
    pub fn set_spread_steps(&mut self, steps: usize) {
        self.store.set_spread_steps(steps);
    }
}

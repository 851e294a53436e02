//! How much there is in a store.

use super::Store;

/// Sizes of the store, for tests and statistics. O(1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Jobs in whatever state.
    pub jobs: usize,
    /// Constraints.
    pub constraints: usize,
    /// Queues that were declared.
    pub declared: usize,
    /// Workers on the list.
    pub workers: usize,
    /// Queues that exist, idle ones included.
    pub queues: usize,
    /// Takes that wait.
    pub waiters: usize,
    /// Who waits for news of a job.
    pub watchers: usize,
    /// Deadlines that are armed.
    pub deadlines: usize,
}

impl Store {
    /// How much there is.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let (declared, workers) = (self.declared.len(), self.workers.len());
        let constraints = self.constraints.len();
        Counts {
            jobs: self.jobs.len() - declared - workers - constraints,
            constraints,
            declared,
            workers,
            queues: self.queues.len(),
            waiters: self.waiters.len(),
            watchers: self.watchers.len(),
            deadlines: self.deadlines.len(),
        }
    }
}

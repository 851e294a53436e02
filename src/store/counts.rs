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
    /// Queues that exist, idle ones included.
    pub queues: usize,
    /// Takes that wait.
    pub waiters: usize,
    /// Deadlines that are armed.
    pub deadlines: usize,
}

impl Store {
    /// How much there is.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            jobs: self.jobs.len() - self.declared.len() - self.constraints.len(),
            constraints: self.constraints.len(),
            declared: self.declared.len(),
            queues: self.queues.len(),
            waiters: self.waiters.len(),
            deadlines: self.deadlines.len(),
        }
    }
}

//! Index types of the store's tables.

use crate::base::slab_index::slab_index;

slab_index! {
    /// A queue.
    pub(super) struct QueueIdx;
    /// A constraint.
    pub struct ConstraintIdx;
    /// A key group.
    pub(super) struct KeyGroupIdx;
    /// A registered worker.
    pub(super) struct WorkerIdx;
    /// A waiter.
    pub(super) struct WaiterIdx;
    /// A waiter's node in one wait queue.
    pub(super) struct WaitNodeIdx;
    /// A job watcher.
    pub(super) struct WatcherIdx;
    /// A limiter.
    pub(super) struct LimiterIdx;
    /// A job class.
    pub(super) struct JobClassIdx;
    /// A limiter waitlist.
    pub(super) struct WaitlistIdx;
}

/// Where a reserve waits, or where waiters are matched: one queue, or the tracked jobs of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum QueueScope {
    One(QueueIdx),
    Any,
}

impl From<QueueIdx> for QueueScope {
    #[inline]
    fn from(queue: QueueIdx) -> Self {
        Self::One(queue)
    }
}

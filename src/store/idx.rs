//! Index types of the store's tables.

use crate::base::slab_index::{SlabIndex, slab_index};

slab_index! {
    /// A job. Valid until the next command.
    pub struct JobIdx;
    /// A queue.
    pub(super) struct QueueIdx;
    /// A constraint.
    pub struct ConstraintIdx;
    /// A key group.
    pub(super) struct KeyGroupIdx;
    /// A registered worker.
    pub struct WorkerIdx;
    /// The record of a declared queue.
    pub struct DeclarationIdx;
    /// The record of a constraint.
    pub struct ConstraintRecordIdx;
    /// The record of a paused queue.
    pub struct PauseIdx;
    /// The record of a schedule.
    pub struct ScheduleIdx;
    /// A key that stays taken after the completion of its job.
    pub struct PastKeyIdx;
    /// A run that was completed under a token.
    pub struct PastRunIdx;
    /// The record of a job that was lost while others wait for it.
    pub struct LossIdx;
    /// One reason of a job to wait for another one.
    pub(super) struct EdgeIdx;
    /// What jobs wait for: a job or a group.
    pub(super) struct SourceIdx;
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

/// Who has reserved a job, in four bytes: a client, by its index, a detached worker, or who has
/// its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(super) struct Holder(u32);

/// The kinds of [`Holder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HolderKind {
    Client(u32),
    Detached(WorkerIdx),
    Token,
}

impl Holder {
    /// Marks a worker's slot. Indexes of clients and slots of workers are smaller.
    const DETACHED: u32 = 1 << 31;
    /// The lease has a token. No slot of a worker is as large.
    pub(super) const TOKEN: Self = Self(u32::MAX - 2);

    #[inline]
    pub(super) fn client(index: u32) -> Self {
        debug_assert!(index < Self::DETACHED, "an index of a client is below 2^31");
        Self(index)
    }

    pub(super) fn detached(worker: WorkerIdx) -> Self {
        debug_assert!(worker.slot() < Self::DETACHED - 4, "a slot of a worker is below 2^31");
        Self(Self::DETACHED | worker.slot())
    }

    #[inline]
    pub(super) fn kind(self) -> HolderKind {
        match self.0 & Self::DETACHED {
            0 => HolderKind::Client(self.0),
            _ if self == Self::TOKEN => HolderKind::Token,
            _ => HolderKind::Detached(WorkerIdx::from_slot(self.0 ^ Self::DETACHED)),
        }
    }

    /// The holder that [`Holder::bits`] has returned these bits for.
    #[inline]
    pub(super) fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The holder as a number: for a field that holds other numbers at other times.
    #[inline]
    pub(super) fn bits(self) -> u32 {
        self.0
    }
}

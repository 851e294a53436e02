//! Jobs that are held back, in two steps, so that none of them is looked at before its turn.
//!
//! A *strand* is the jobs of one queue that share all their buckets and that the same may take: one
//! of them may run when any may, and the first of them is as good as all. Strands of one queue
//! whose first obstacle is the same bucket, and whose jobs the same may take, are a *group*: of
//! these only the first job of the first strand is shown, that is, in the heaps where takes find
//! it. So a job that nobody may take who is there stands before none that somebody may. A job is
//! shown in the hope that it may run; whoever would take it and finds that it may not moves its
//! whole strand to the group of the bucket that has no room, or, if that is its own, puts the group
//! to sleep until there is some.

use crate::base::heap::{Heap, orders_before};
use crate::model::job::Priority;
use crate::model::worker::WorkerId;
use crate::store::jobs::{Job, Jobs, NONE};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// When a job's turn is: smaller leaves first, in the order of queues' heaps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OrderKey {
    rank: u64,
    /// Of an priority beyond 64 bits: longer is larger, and larger leaves first.
    digits: Option<Reverse<(usize, Box<str>)>>,
    tie: u64,
}

impl OrderKey {
    pub(super) fn of(slot: u32, jobs: &Jobs) -> Self {
        let job = &jobs[slot];
        let entry = job.entry(slot);
        let digits = match job.priority() {
            Priority::Big(digits) => Some(Reverse((digits.len(), digits.into()))),
            Priority::Small(_) | Priority::Unselected => None,
        };
        Self { rank: entry.rank, digits, tie: entry.tie }
    }
}

/// Who may take a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Eligibility {
    /// Also those who take whatever is followed.
    followed: bool,
    /// Not these workers; in rising order.
    refused_by: Box<[WorkerId]>,
}

impl Eligibility {
    /// O(refusers).
    pub(super) fn of(job: &Job) -> Self {
        Self { followed: job.is_tracked(), refused_by: job.excluded_workers().into() }
    }

    /// Whether these are who may take this job. O(refusers).
    pub(super) fn are_of(&self, job: &Job) -> bool {
        self.followed == job.is_tracked() && *self.refused_by == *job.excluded_workers()
    }
}

/// Jobs of one queue with the same buckets that the same may take.
#[derive(Debug)]
pub(super) struct JobClass {
    pub(super) queue: u32,
    pub(super) takers: Eligibility,
    pub(super) buckets: Box<[u32]>,
    /// All its jobs, whatever they are doing.
    pub(super) jobs: u32,
    /// Those that are held back.
    pub(super) parked: Heap,
    /// The one that is in the queue's heap.
    pub(super) shown: u32,
    /// Where it stands if it has a job that is ready or held back.
    pub(super) group: u32,
    /// By which key it stands there.
    pub(super) key: Option<OrderKey>,
}

impl JobClass {
    pub(super) fn new(queue: u32, takers: Eligibility, buckets: &[u32]) -> Self {
        Self {
            queue,
            takers,
            buckets: buckets.into(),
            jobs: 0,
            parked: Heap::default(),
            shown: NONE,
            group: NONE,
            key: None,
        }
    }

    /// Its job that leaves first, of those that are ready or held back. O(1).
    pub(super) fn head(&self, jobs: &Jobs) -> Option<u32> {
        let shown = (self.shown != NONE).then(|| jobs[self.shown].entry(self.shown));
        match (shown, self.parked.peek()) {
            (Some(shown), Some(parked)) if orders_before(&parked, &shown, jobs) => {
                Some(parked.slot)
            }
            (shown, parked) => shown.or(parked).map(|entry| entry.slot),
        }
    }
}

/// Strands of one queue that wait for the same bucket, and whose jobs the same may take.
#[derive(Debug)]
pub(super) struct LimiterWaitlist {
    pub(super) bucket: u32,
    pub(super) queue: u32,
    pub(super) takers: Eligibility,
    pub(super) strands: BTreeSet<(OrderKey, u32)>,
    /// The job that is in the queue's heap, unless it sleeps.
    pub(super) shown: u32,
    /// By which key it sleeps at its bucket, if it does.
    pub(super) asleep: Option<OrderKey>,
}

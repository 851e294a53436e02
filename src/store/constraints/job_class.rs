//! Job classes and limiter waitlists, by which no blocked job is scanned.
//!
//! A *job class* is the jobs of one queue that have the same limiters and the same eligibility: all
//! of them may start or none may, so that its most urgent job stands for all. A *limiter waitlist*
//! is the classes of one queue and eligibility that are assigned to one limiter. Only the head of
//! an open waitlist is in the ready heap, without regard to whether it may run; because eligibility
//! is part of class and waitlist, a job that no client present is eligible for is never in front of
//! one that some client is eligible for. A reserve that meets a head which may not run moves its
//! class to the waitlist of the full limiter, or, if it is in that one, blocks the waitlist until
//! the limiter has capacity.

use crate::base::heap::{Heap, orders_before};
use crate::base::slab_index::PackedOption;
use crate::model::job::{Priority, Status};
use crate::model::worker::WorkerId;
use crate::store::idx::{JobClassIdx, JobIdx, LimiterIdx, QueueIdx, WaitlistIdx};
use crate::store::job::Job;
use crate::store::jobs::Jobs;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The position of a job in the order of ready heaps: smaller leaves first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OrderKey {
    rank: u64,
    /// Of a priority beyond 64 bits; a longer or larger number leaves first.
    digits: Option<Reverse<(usize, Box<str>)>>,
    tie: u64,
}

impl OrderKey {
    pub(super) fn of(slot: JobIdx, jobs: &Jobs) -> Self {
        let job = &jobs[slot];
        let entry = job.entry(slot);
        let digits = match job.priority() {
            Priority::Big(digits) => Some(Reverse((digits.len(), digits.into()))),
            Priority::Small(_) | Priority::Unselected => None,
        };
        Self { rank: entry.rank, digits, tie: entry.tie }
    }
}

/// Which clients may reserve a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Eligibility {
    /// Also clients that accept any tracked job.
    tracked: bool,
    /// All but these registered workers; in rising order.
    excluded_workers: Box<[WorkerId]>,
}

impl Eligibility {
    /// O(excluded workers).
    pub(super) fn of(job: &Job) -> Self {
        debug_assert!(job.excluded_workers().is_sorted(), "an exclusion set rises");
        Self { tracked: job.is_tracked(), excluded_workers: job.excluded_workers().into() }
    }

    /// Whether this is the eligibility of a job. O(excluded workers).
    pub(super) fn fits(&self, job: &Job) -> bool {
        self.tracked == job.is_tracked() && *self.excluded_workers == *job.excluded_workers()
    }
}

/// Jobs of one queue with the same limiters and eligibility.
#[derive(Debug)]
pub(super) struct JobClass {
    pub(super) queue: QueueIdx,
    pub(super) eligibility: Eligibility,
    pub(super) limiters: Box<[LimiterIdx]>,
    /// Number of its jobs, whatever their status.
    pub(super) jobs: u32,
    /// Those that are blocked.
    pub(super) blocked_jobs: Heap<JobIdx>,
    /// The one in the ready heap.
    pub(super) ready_job: PackedOption<JobIdx>,
    /// Its waitlist, if it has a waiting job.
    pub(super) waitlist: PackedOption<WaitlistIdx>,
    /// Order key of its head, by which it is in the waitlist.
    pub(super) key: Option<OrderKey>,
}

impl JobClass {
    pub(super) fn new(queue: QueueIdx, eligibility: Eligibility, limiters: &[LimiterIdx]) -> Self {
        Self {
            queue,
            eligibility,
            limiters: limiters.into(),
            jobs: 0,
            blocked_jobs: Heap::default(),
            ready_job: PackedOption::NONE,
            waitlist: PackedOption::NONE,
            key: None,
        }
    }

    /// Its waitlist.
    ///
    /// # Panics
    /// If it has no waiting job.
    pub(super) fn expect_waitlist(&self) -> WaitlistIdx {
        self.waitlist.expand().expect("a class with a waiting job is in a waitlist")
    }

    /// Its most urgent job, ready or blocked. O(1).
    pub(super) fn head(&self, jobs: &Jobs) -> Option<JobIdx> {
        debug_assert!(
            self.ready_job.expand().is_none_or(|slot| jobs[slot].status() == Status::Ready)
                && self
                    .blocked_jobs
                    .peek()
                    .is_none_or(|entry| { jobs[entry.slot].status() == Status::Blocked }),
            "a class has one ready job, and blocked ones"
        );
        let ready = self.ready_job.expand().map(|slot| jobs[slot].entry(slot));
        match (ready, self.blocked_jobs.peek()) {
            (Some(ready), Some(blocked)) if orders_before(&blocked, &ready, jobs) => {
                Some(blocked.slot)
            }
            (ready, blocked) => ready.or(blocked).map(|entry| entry.slot),
        }
    }
}

/// Classes of one queue and eligibility that are assigned to one limiter.
#[derive(Debug)]
pub(super) struct LimiterWaitlist {
    pub(super) limiter: LimiterIdx,
    pub(super) queue: QueueIdx,
    pub(super) eligibility: Eligibility,
    pub(super) classes: BTreeSet<(OrderKey, JobClassIdx)>,
    /// Its head, in the ready heap; none if blocked.
    pub(super) ready_job: PackedOption<JobIdx>,
    /// If blocked, the order key by which it is in the limiter's set.
    pub(super) blocked_key: Option<OrderKey>,
}

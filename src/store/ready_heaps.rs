//! The heaps of ready jobs with rare fields: those of their queues, the global ready heap, and the
//! heaps of jobs that workers have rejected.
//!
//! A ready tracked job is in the heap of its queue and in the global one. A job with an exclusion
//! set is in the [`ExcludedHeaps`] beside both instead. A job without rare fields is in the heap of
//! its queue only: nothing here touches it.

use super::excluded::ExcludedHeaps;
use super::idx::{JobIdx, QueueScope};
use super::job::Job;
use super::jobs::Jobs;
use super::queues::Queues;
use super::waiters::WaitQueues;
use crate::base::heap::{Heap, PositionMap};
use crate::model::job::Status;
use std::cmp::Ordering;

/// The ready tracked jobs of all queues, and the waiters for any of them.
#[derive(Debug, Default)]
pub(super) struct GlobalReady {
    pub(super) ready: Heap<JobIdx>,
    pub(super) excluded: ExcludedHeaps,
    pub(super) wait_queues: WaitQueues,
}

/// A view of the jobs that maintains their positions in the global ready heap.
struct GlobalPositions<'a>(&'a mut Jobs);

impl PositionMap for GlobalPositions<'_> {
    type Index = JobIdx;

    fn moved(&mut self, slot: JobIdx, position: u32) {
        self.0[slot].work_mut().global_position = position;
    }

    fn compare_exactly(&self, a: JobIdx, b: JobIdx) -> Ordering {
        self.0.compare_exactly(a, b)
    }
}

impl GlobalReady {
    /// Adds an unlinked job, which is ready, to its heaps. Clears its exclusions if there can be no
    /// heap for them. O(log n).
    pub(super) fn push(&mut self, slot: JobIdx, queues: &mut Queues, jobs: &mut Jobs) {
        let job = &mut jobs[slot];
        debug_assert_eq!(job.status(), Status::Ready, "only ready jobs are in these heaps");
        debug_assert!(!job.is_group_only(), "no reserve selects a group-only job");
        let (entry, queue, tracked) = (job.entry(slot), job.queue, job.is_tracked());
        let excluded_workers = job.excluded_workers().to_vec();
        if !excluded_workers.is_empty() && self.has_exclusion_set(job, queues) {
            let excluded = queues[queue].excluded.get_or_insert_default();
            excluded.push(&excluded_workers, entry, jobs);
            if tracked {
                self.excluded.push(&excluded_workers, entry, &mut GlobalPositions(jobs));
            }
            return;
        }
        job.clear_exclusions();
        queues[queue].ready.push(entry, jobs);
        if tracked {
            self.ready.push(entry, &mut GlobalPositions(jobs));
        }
    }

    /// Removes a ready job with rare fields from its heaps. O(log n).
    pub(super) fn remove(&mut self, slot: JobIdx, queues: &mut Queues, jobs: &mut Jobs) {
        let job = &jobs[slot];
        debug_assert_eq!(job.status(), Status::Ready, "only ready jobs are in these heaps");
        let (queue, place, tracked) = (job.queue, jobs.heap_position(slot), job.is_tracked());
        let global_position = job.work().map_or(0, |work| work.global_position);
        if job.excluded_workers().is_empty() {
            queues[queue].ready.remove(place, jobs);
            if tracked {
                self.ready.remove(global_position, &mut GlobalPositions(jobs));
            }
            return;
        }
        let excluded_workers = job.excluded_workers().to_vec();
        let excluded = &mut queues[queue].excluded;
        let list =
            excluded.as_mut().expect("a job with an exclusion set is in a heap of its queue");
        list.remove(&excluded_workers, place, jobs);
        if list.is_empty() {
            *excluded = None;
        }
        if tracked {
            self.excluded.remove(&excluded_workers, global_position, &mut GlobalPositions(jobs));
        }
    }

    /// Whether there is, or can be, a heap for the job's exclusion set. O(exclusion sets).
    pub(super) fn has_exclusion_set(&self, job: &Job, queues: &Queues) -> bool {
        let excluded_workers = job.excluded_workers();
        let excluded = queues[job.queue].excluded.as_ref();
        excluded_workers.is_empty()
            || excluded.is_none_or(|excluded| excluded.has_capacity(excluded_workers))
                && (!job.is_tracked() || self.excluded.has_capacity(excluded_workers))
    }

    /// Keeps the heaps of the job's exclusion set, even if empty, while constraints may block the
    /// job: when it is unblocked there is a heap for it. O(exclusion sets).
    pub(super) fn pin_exclusion_set(&mut self, job: &Job, queues: &mut Queues) {
        debug_assert!(self.has_exclusion_set(job, queues), "there are too many exclusion sets");
        if !job.excluded_workers().is_empty() {
            let queue = &mut queues[job.queue];
            queue.excluded.get_or_insert_default().reserve(job.excluded_workers());
            if job.is_tracked() {
                self.excluded.reserve(job.excluded_workers());
            }
        }
    }

    /// Reverses [`GlobalReady::pin_exclusion_set`]. O(exclusion sets).
    ///
    /// # Panics
    /// If it is not pinned.
    pub(super) fn unpin_exclusion_set(&mut self, job: &Job, queues: &mut Queues) {
        if job.excluded_workers().is_empty() {
            return;
        }
        let excluded = &mut queues[job.queue].excluded;
        let list = excluded.as_mut().expect("a pinned heap exists");
        list.release(job.excluded_workers());
        if list.is_empty() {
            *excluded = None;
        }
        if job.is_tracked() {
            self.excluded.release(job.excluded_workers());
        }
    }

    /// The heads of a queue's ready heap and of its exclusion sets, the most urgent first; none if
    /// no waiter could have one. O(s log s) for s exclusion sets.
    pub(super) fn awaited_heads(
        &self,
        queue: QueueScope,
        queues: &Queues,
        jobs: &Jobs,
    ) -> Vec<JobIdx> {
        let (heap, excluded, wait_queues) = match queue {
            QueueScope::Any => (&self.ready, Some(&self.excluded), WaitQueues::default()),
            QueueScope::One(queue) => {
                let Some(record) = queues.get(queue) else { return Vec::new() };
                (&record.ready, record.excluded.as_deref(), record.waiters)
            }
        };
        if wait_queues.is_empty() && self.wait_queues.is_empty() {
            return Vec::new();
        }
        let excluded = excluded.into_iter().flat_map(ExcludedHeaps::iter);
        let heads = excluded.filter_map(|excluded| excluded.ready.peek());
        let heads = heap.peek().into_iter().chain(heads);
        let mut heads: Vec<JobIdx> = heads.map(|entry| entry.slot).collect();
        let all_ready = heads.iter().all(|&slot| jobs[slot].status() == Status::Ready);
        debug_assert!(all_ready, "a job in a heap is not ready");
        heads.sort_unstable_by(|&one, &other| jobs.order(one, other));
        heads
    }
}

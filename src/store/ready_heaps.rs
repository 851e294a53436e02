//! The heaps of ready jobs with rare fields: those of their queues, the global ready heap, and the
//! heaps of jobs that workers have rejected.
//!
//! A ready tracked job is in the heap of its queue and in the global one. A job with an exclusion
//! set is in the [`ExcludedHeaps`] beside both instead. A job without rare fields is in the heap of
//! its queue only: nothing here touches it.
//!
//! The tracked jobs of a paused queue are not in the global heaps but *withheld*, in a list of the
//! queue: a job that becomes ready at once, one that was there before when it comes to the head.
//! They come back when the queue is resumed. The heap of its exclusion set is pinned for a withheld
//! job.

use super::excluded::ExcludedHeaps;
use super::idx::{JobIdx, QueueIdx, QueueScope};
use super::job::Job;
use super::jobs::Jobs;
use super::queues::Queues;
use super::spread_work::HoldMarks;
use super::waiters::WaitQueues;
use crate::base::heap::{Heap, PositionMap};
use crate::model::job::Status;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The ready tracked jobs of all queues, and the waiters for any of them.
#[derive(Debug, Default)]
pub(super) struct GlobalReady {
    pub(super) ready: Heap<JobIdx>,
    pub(super) excluded: ExcludedHeaps,
    pub(super) wait_queues: WaitQueues,
    /// By queue the jobs that are withheld; no list is empty. A job's position is its place there.
    withheld: BTreeMap<QueueIdx, Vec<JobIdx>>,
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

/// The position of a ready tracked job in its global heap, or among the withheld ones.
fn global_position(slot: JobIdx, jobs: &Jobs) -> u32 {
    jobs[slot].work().map_or(0, |work| work.global_position)
}

/// A place among the withheld jobs.
fn place(number: usize) -> u32 {
    // Proof: there are no more than slots of jobs, which 32 bits number.
    u32::try_from(number).expect("withheld jobs are numbered by 32 bits")
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
        } else {
            job.clear_exclusions();
            queues[queue].ready.push(entry, jobs);
        }
        debug_assert!(!self.is_withheld(slot, jobs), "a job that becomes ready is in no list yet");
        if tracked && queues[queue].holds.has(HoldMarks::PAUSED) {
            self.list_withheld(slot, jobs);
        } else if tracked {
            self.push_global(slot, jobs);
        }
    }

    /// Adds a ready tracked job to the global heap of its exclusion set. O(log n).
    fn push_global(&mut self, slot: JobIdx, jobs: &mut Jobs) {
        let entry = jobs[slot].entry(slot);
        let excluded_workers = jobs[slot].excluded_workers().to_vec();
        if excluded_workers.is_empty() {
            self.ready.push(entry, &mut GlobalPositions(jobs));
        } else {
            self.excluded.push(&excluded_workers, entry, &mut GlobalPositions(jobs));
        }
    }

    /// Removes a ready tracked job from its global heap. O(log n).
    fn remove_global(&mut self, slot: JobIdx, jobs: &mut Jobs) {
        let position = global_position(slot, jobs);
        let excluded_workers = jobs[slot].excluded_workers().to_vec();
        debug_assert!(jobs[slot].is_tracked(), "only tracked jobs are in the global heaps");
        if excluded_workers.is_empty() {
            debug_assert!(self.ready.at(position).slot == slot, "a job knows its global entry");
            self.ready.remove(position, &mut GlobalPositions(jobs));
        } else {
            debug_assert_eq!(
                self.excluded.slot_at(&excluded_workers, position),
                Some(slot),
                "a job with an exclusion set knows its global entry"
            );
            self.excluded.remove(&excluded_workers, position, &mut GlobalPositions(jobs));
        }
    }

    /// Takes a job of a paused queue out of its global heap until the queue is resumed. O(log n).
    pub(super) fn withhold(&mut self, slot: JobIdx, jobs: &mut Jobs) {
        if !jobs[slot].excluded_workers().is_empty() {
            // Before it leaves, so that the heap stays.
            self.excluded.reserve(jobs[slot].excluded_workers());
        }
        debug_assert!(!self.is_withheld(slot, jobs), "a withheld job is in no global heap");
        self.remove_global(slot, jobs);
        self.append_withheld(slot, jobs);
    }

    /// Appends a job to the withheld ones of its queue. O(log q).
    fn append_withheld(&mut self, slot: JobIdx, jobs: &mut Jobs) {
        debug_assert!(
            jobs[slot].status() == Status::Ready && jobs[slot].is_tracked(),
            "only ready tracked jobs are withheld"
        );
        let list = self.withheld.entry(jobs[slot].queue).or_default();
        jobs[slot].work_mut().global_position = place(list.len());
        list.push(slot);
    }

    /// Adds a ready tracked job that is in no global heap to the withheld ones. O(log q) for q
    /// queues with some.
    fn list_withheld(&mut self, slot: JobIdx, jobs: &mut Jobs) {
        if !jobs[slot].excluded_workers().is_empty() {
            self.excluded.reserve(jobs[slot].excluded_workers());
        }
        self.append_withheld(slot, jobs);
    }

    /// Whether a ready tracked job is withheld. O(log q).
    fn is_withheld(&self, slot: JobIdx, jobs: &Jobs) -> bool {
        let list = self.withheld.get(&jobs[slot].queue);
        let position = global_position(slot, jobs) as usize;
        list.is_some_and(|list| list.get(position) == Some(&slot))
    }

    /// Takes a job out of the withheld ones; it is in no global heap. O(log q).
    fn unlist_withheld(&mut self, slot: JobIdx, jobs: &mut Jobs) {
        let (queue, position) = (jobs[slot].queue, global_position(slot, jobs));
        let list = self.withheld.get_mut(&queue).expect("a withheld job is in a list");
        debug_assert_eq!(
            list.get(position as usize),
            Some(&slot),
            "a withheld job knows its place"
        );
        list.swap_remove(position as usize);
        if let Some(&moved) = list.get(position as usize) {
            debug_assert_eq!(jobs[moved].queue, queue, "a list has the withheld jobs of one queue");
            jobs[moved].work_mut().global_position = position;
        }
        if list.is_empty() {
            self.withheld.remove(&queue);
        }
        if !jobs[slot].excluded_workers().is_empty() {
            self.excluded.release(jobs[slot].excluded_workers());
        }
    }

    /// Whether a queue has withheld jobs. O(log q).
    pub(super) fn has_withheld(&self, queue: QueueIdx) -> bool {
        self.withheld.contains_key(&queue)
    }

    /// Brings one withheld job of a queue back into its global heap. Returns whether there was one.
    /// O(log n).
    pub(super) fn give_back_one(&mut self, queue: QueueIdx, jobs: &mut Jobs) -> bool {
        let found = self.withheld.get(&queue).and_then(|list| list.last().copied());
        if let Some(slot) = found {
            debug_assert!(
                jobs[slot].queue == queue && jobs[slot].status() == Status::Ready,
                "a withheld job is a ready one of its queue"
            );
            self.push_global(slot, jobs);
            let list = self.withheld.get_mut(&queue).expect("the list has a job");
            let popped = list.pop();
            debug_assert_eq!(popped, Some(slot), "the last job of the list is given back");
            if list.is_empty() {
                self.withheld.remove(&queue);
            }
            if !jobs[slot].excluded_workers().is_empty() {
                self.excluded.release(jobs[slot].excluded_workers());
            }
        }
        found.is_some()
    }

    /// All withheld jobs, with their queues. For checks.
    pub(super) fn all_withheld(&self) -> impl Iterator<Item = (QueueIdx, &[JobIdx])> {
        self.withheld.iter().map(|(&queue, list)| (queue, &**list))
    }

    /// Removes a ready job with rare fields from its heaps. O(log n).
    pub(super) fn remove(&mut self, slot: JobIdx, queues: &mut Queues, jobs: &mut Jobs) {
        let job = &jobs[slot];
        debug_assert_eq!(job.status(), Status::Ready, "only ready jobs are in these heaps");
        let (queue, place, tracked) = (job.queue, jobs.heap_position(slot), job.is_tracked());
        if job.excluded_workers().is_empty() {
            let ready = &mut queues[queue].ready;
            debug_assert!(ready.at(place).slot == slot, "a job knows its heap entry");
            ready.remove(place, jobs);
        } else {
            let excluded_workers = job.excluded_workers().to_vec();
            let excluded = &mut queues[queue].excluded;
            let list =
                excluded.as_mut().expect("a job with an exclusion set is in a heap of its queue");
            debug_assert_eq!(
                list.slot_at(&excluded_workers, place),
                Some(slot),
                "a job with an exclusion set knows its heap entry"
            );
            list.remove(&excluded_workers, place, jobs);
            if list.is_empty() {
                *excluded = None;
            }
        }
        if tracked && self.is_withheld(slot, jobs) {
            self.unlist_withheld(slot, jobs);
        } else if tracked {
            self.remove_global(slot, jobs);
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
        debug_assert!(
            heads.windows(2).all(|pair| pair[0] != pair[1]),
            "a job is in one heap of its queue"
        );
        heads
    }
}

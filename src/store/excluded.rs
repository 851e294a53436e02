//! Ready jobs that some workers have rejected: one heap for each exclusion set, beside the heap of
//! jobs for every worker.
//!
//! A reserve looks at the head of the plain heap and of every heap that its worker is eligible for.
//! However many jobs a worker has rejected, it skips them in O(exclusion sets), at most
//! [`EXCLUSION_SETS_MAX`]. Without rejections there is no cost.
//!
//! Invariants: a heap is empty only if it is pinned for jobs that constraints may block; no two
//! heaps have the same exclusion set.

use super::idx::JobIdx;
use crate::base::heap::{Heap, HeapEntry, PositionMap};
use crate::base::limits::EXCLUSION_SETS_MAX;
use crate::model::worker::WorkerId;

/// The heaps of one queue, or those beside the global heap.
#[derive(Debug, Default)]
pub(super) struct ExcludedHeaps {
    list: Vec<ExcludedHeap>,
}

/// The ready jobs with one exclusion set.
#[derive(Debug)]
pub(super) struct ExcludedHeap {
    /// Rising.
    pub(super) excluded_workers: Box<[WorkerId]>,
    pub(super) ready: Heap<JobIdx>,
    /// How many jobs pin the heap because constraints may block them.
    reserved: u32,
}

impl ExcludedHeap {
    /// Whether this worker, or a client without one, may reserve from here. O(log workers in the
    /// set).
    pub(super) fn is_eligible(&self, worker: Option<WorkerId>) -> bool {
        worker.is_none_or(|worker| self.excluded_workers.binary_search(&worker).is_err())
    }
}

impl ExcludedHeaps {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ExcludedHeap> {
        self.list.iter()
    }

    fn find(&self, excluded_workers: &[WorkerId]) -> Option<usize> {
        self.list.iter().position(|heap| *heap.excluded_workers == *excluded_workers)
    }

    /// Whether there is, or can be, a heap for this exclusion set. O(exclusion sets).
    pub(super) fn has_capacity(&self, excluded_workers: &[WorkerId]) -> bool {
        self.list.len() < EXCLUSION_SETS_MAX || self.find(excluded_workers).is_some()
    }

    /// The head of the heap of this exclusion set. O(exclusion sets).
    pub(super) fn first(&self, excluded_workers: &[WorkerId]) -> Option<HeapEntry<JobIdx>> {
        let heap = &self.list[self.find(excluded_workers)?];
        debug_assert!(
            !heap.ready.is_empty() || heap.reserved > 0,
            "a heap is kept empty only for jobs that constraints may block"
        );
        heap.ready.peek()
    }

    /// Adds a job. O(exclusion sets + log n).
    pub(super) fn push(
        &mut self,
        excluded_workers: &[WorkerId],
        entry: HeapEntry<JobIdx>,
        slots: &mut impl PositionMap<Index = JobIdx>,
    ) {
        debug_assert!(excluded_workers.is_sorted(), "exclusion sets are sorted");
        self.heap(excluded_workers).ready.push(entry, slots);
    }

    fn heap(&mut self, excluded_workers: &[WorkerId]) -> &mut ExcludedHeap {
        debug_assert!(!excluded_workers.is_empty(), "the plain heap has the jobs of all workers");
        let place = self.find(excluded_workers).unwrap_or_else(|| {
            debug_assert!(self.list.len() < EXCLUSION_SETS_MAX, "exclusion sets are bounded");
            let ready = Heap::default();
            self.list.push(ExcludedHeap {
                excluded_workers: excluded_workers.into(),
                ready,
                reserved: 0,
            });
            self.list.len() - 1
        });
        &mut self.list[place]
    }

    /// Pins the heap of this exclusion set for one more job. O(exclusion sets).
    pub(super) fn reserve(&mut self, excluded_workers: &[WorkerId]) {
        self.heap(excluded_workers).reserved += 1;
    }

    /// Unpins it for one job. O(exclusion sets).
    ///
    /// # Panics
    /// If it was not pinned.
    pub(super) fn release(&mut self, excluded_workers: &[WorkerId]) {
        let place = self.find(excluded_workers).expect("a pinned heap exists");
        debug_assert!(self.list[place].reserved > 0, "a heap is unpinned as often as it is pinned");
        self.list[place].reserved -= 1;
        self.drop_if_empty(place);
    }

    fn drop_if_empty(&mut self, place: usize) {
        if self.list[place].ready.is_empty() && self.list[place].reserved == 0 {
            self.list.swap_remove(place);
        }
    }

    /// The pinned exclusion sets, each with the number of its pins. For checks.
    pub(super) fn reserved(&self) -> impl Iterator<Item = (&[WorkerId], u32)> {
        let reserved = self.list.iter().filter(|heap| heap.reserved > 0);
        reserved.map(|heap| (&*heap.excluded_workers, heap.reserved))
    }

    /// The job at this position of the heap of an exclusion set. O(exclusion sets): for checks.
    pub(super) fn slot_at(&self, excluded_workers: &[WorkerId], position: u32) -> Option<JobIdx> {
        let ready = &self.list[self.find(excluded_workers)?].ready;
        ((position as usize) < ready.len()).then(|| ready.at(position).slot)
    }

    /// Removes the job at this position of its heap. O(exclusion sets + log n).
    ///
    /// # Panics
    /// If there is no such heap or position.
    pub(super) fn remove(
        &mut self,
        excluded_workers: &[WorkerId],
        position: u32,
        slots: &mut impl PositionMap<Index = JobIdx>,
    ) {
        let place =
            self.find(excluded_workers).expect("a job with an exclusion set is in its heap");
        debug_assert!(
            (position as usize) < self.list[place].ready.len(),
            "the position of a job is in its heap"
        );
        self.list[place].ready.remove(position, slots);
        self.drop_if_empty(place);
    }
}

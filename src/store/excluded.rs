//! Ready jobs that some workers are not offered any more: beside the heap of those for everybody
//! there is one, a heap, for each set of workers that have refused a job.
//!
//! Whoever takes looks at the first job of the heap and of every heap that he may take from. So
//! however many jobs somebody has refused, he passes over them in O(excluded), of which there are
//! at most [`EXCLUSION_SETS_MAX`]; and where nothing was refused nobody pays.
//!
//! Invariants: no heap is empty, unless it stays for jobs that constraints hold back; no two are
//! for the same set.

use crate::base::heap::{Entry, Heap, PositionMap};
use crate::base::limits::EXCLUSION_SETS_MAX;
use crate::model::worker::WorkerId;

/// Shelves of one queue, or of all.
#[derive(Debug, Default)]
pub(super) struct ExcludedHeaps {
    list: Vec<ExcludedHeap>,
}

/// Jobs that the same workers have refused.
#[derive(Debug)]
pub(super) struct ExcludedHeap {
    /// In rising order.
    pub(super) excluded_workers: Box<[WorkerId]>,
    pub(super) ready: Heap,
    /// Jobs that constraints may hold back: the heap stays for them, wherever they are.
    reserved: u32,
}

impl ExcludedHeap {
    /// Whether this worker, or who is none, may take from here. O(log refusers).
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

    /// Whether jobs that these have refused find a place. O(excluded).
    pub(super) fn has_capacity(&self, excluded_workers: &[WorkerId]) -> bool {
        self.list.len() < EXCLUSION_SETS_MAX || self.find(excluded_workers).is_some()
    }

    /// The first job on the heap of these refusers. O(excluded).
    pub(super) fn first(&self, excluded_workers: &[WorkerId]) -> Option<Entry> {
        self.list[self.find(excluded_workers)?].ready.peek()
    }

    /// Adds a job. O(excluded + log n).
    pub(super) fn push(
        &mut self,
        excluded_workers: &[WorkerId],
        entry: Entry,
        slots: &mut impl PositionMap,
    ) {
        self.heap(excluded_workers).ready.push(entry, slots);
    }

    fn heap(&mut self, excluded_workers: &[WorkerId]) -> &mut ExcludedHeap {
        let place = self.find(excluded_workers).unwrap_or_else(|| {
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

    /// The heap of these refusers stays for one job more. O(excluded).
    pub(super) fn reserve(&mut self, excluded_workers: &[WorkerId]) {
        self.heap(excluded_workers).reserved += 1;
    }

    /// It stays for one job less. O(excluded).
    ///
    /// # Panics
    /// If it was not to stay.
    pub(super) fn release(&mut self, excluded_workers: &[WorkerId]) {
        let place = self.find(excluded_workers).expect("a heap stays for whom it is reserved");
        self.list[place].reserved -= 1;
        self.drop_if_empty(place);
    }

    fn drop_if_empty(&mut self, place: usize) {
        if self.list[place].ready.is_empty() && self.list[place].reserved == 0 {
            self.list.swap_remove(place);
        }
    }

    /// For how many jobs excluded stay, for checks.
    pub(super) fn reserved(&self) -> impl Iterator<Item = (&[WorkerId], u32)> {
        let reserved = self.list.iter().filter(|heap| heap.reserved > 0);
        reserved.map(|heap| (&*heap.excluded_workers, heap.reserved))
    }

    /// Takes the job at this position of its heap. O(excluded + log n).
    ///
    /// # Panics
    /// If it is not there.
    pub(super) fn remove(
        &mut self,
        excluded_workers: &[WorkerId],
        position: u32,
        slots: &mut impl PositionMap,
    ) {
        let place = self.find(excluded_workers).expect("a refused job is on its heap");
        self.list[place].ready.remove(position, slots);
        self.drop_if_empty(place);
    }
}

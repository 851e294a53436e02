//! Ready jobs that some workers are not offered any more: beside the heap of those for everybody
//! there is one, a shelf, for each set of workers that have refused a job.
//!
//! Whoever takes looks at the first job of the heap and of every shelf that he may take from. So
//! however many jobs somebody has refused, he passes over them in O(shelves), of which there are at
//! most [`EXCLUSION_SETS_MAX`]; and where nothing was refused nobody pays.
//!
//! Invariants: no shelf is empty, unless it stays for jobs that constraints hold back; no two are
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
    pub(super) refused_by: Box<[WorkerId]>,
    pub(super) ready: Heap,
    /// Jobs that constraints may hold back: the shelf stays for them, wherever they are.
    reserved: u32,
}

impl ExcludedHeap {
    /// Whether this worker, or who is none, may take from here. O(log refusers).
    pub(super) fn is_eligible(&self, worker: Option<WorkerId>) -> bool {
        worker.is_none_or(|worker| self.refused_by.binary_search(&worker).is_err())
    }
}

impl ExcludedHeaps {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ExcludedHeap> {
        self.list.iter()
    }

    fn find(&self, refused_by: &[WorkerId]) -> Option<usize> {
        self.list.iter().position(|shelf| *shelf.refused_by == *refused_by)
    }

    /// Whether jobs that these have refused find a place. O(shelves).
    pub(super) fn has_room(&self, refused_by: &[WorkerId]) -> bool {
        self.list.len() < EXCLUSION_SETS_MAX || self.find(refused_by).is_some()
    }

    /// The first job on the shelf of these refusers. O(shelves).
    pub(super) fn first(&self, refused_by: &[WorkerId]) -> Option<Entry> {
        self.list[self.find(refused_by)?].ready.peek()
    }

    /// Adds a job. O(shelves + log n).
    pub(super) fn push(
        &mut self,
        refused_by: &[WorkerId],
        entry: Entry,
        slots: &mut impl PositionMap,
    ) {
        self.heap(refused_by).ready.push(entry, slots);
    }

    fn heap(&mut self, refused_by: &[WorkerId]) -> &mut ExcludedHeap {
        let place = self.find(refused_by).unwrap_or_else(|| {
            let ready = Heap::default();
            self.list.push(ExcludedHeap { refused_by: refused_by.into(), ready, reserved: 0 });
            self.list.len() - 1
        });
        &mut self.list[place]
    }

    /// The shelf of these refusers stays for one job more. O(shelves).
    pub(super) fn reserve(&mut self, refused_by: &[WorkerId]) {
        self.heap(refused_by).reserved += 1;
    }

    /// It stays for one job less. O(shelves).
    ///
    /// # Panics
    /// If it was not to stay.
    pub(super) fn release(&mut self, refused_by: &[WorkerId]) {
        let place = self.find(refused_by).expect("a shelf stays for whom it is reserved");
        self.list[place].reserved -= 1;
        self.drop_if_empty(place);
    }

    fn drop_if_empty(&mut self, place: usize) {
        if self.list[place].ready.is_empty() && self.list[place].reserved == 0 {
            self.list.swap_remove(place);
        }
    }

    /// For how many jobs shelves stay, for checks.
    pub(super) fn reserved(&self) -> impl Iterator<Item = (&[WorkerId], u32)> {
        let reserved = self.list.iter().filter(|shelf| shelf.reserved > 0);
        reserved.map(|shelf| (&*shelf.refused_by, shelf.reserved))
    }

    /// Takes the job at this position of its shelf. O(shelves + log n).
    ///
    /// # Panics
    /// If it is not there.
    pub(super) fn remove(
        &mut self,
        refused_by: &[WorkerId],
        position: u32,
        slots: &mut impl PositionMap,
    ) {
        let place = self.find(refused_by).expect("a refused job is on its shelf");
        self.list[place].ready.remove(position, slots);
        self.drop_if_empty(place);
    }
}

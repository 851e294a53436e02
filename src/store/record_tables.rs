//! What the journal knows by a record key, and the tables of the records that are not jobs.
//!
//! Each kind of record has slots of its own: jobs in the job table, registered workers in the
//! registry, declared queues and constraints in a [`RecordTable`] each. Ids are unique among all
//! kinds, because the record of a removal names an id alone: workers get theirs from the ids of
//! jobs, declared queues and constraints from the end of the id space downwards.

use super::JobLocation;
use crate::base::paged::PagedSlab;
use crate::model::id::JobId;
use std::collections::BTreeMap;
use std::ops::Index;

/// What a base record of the journal is about. Valid until the record is removed; the numbers are
/// slots in the table of their kind, small and dense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKey {
    /// A job.
    Job(JobLocation),
    /// A declared queue.
    Queue(u32),
    /// A registered worker.
    Worker(u32),
    /// A constraint.
    Constraint(u32),
}

/// A record, and where the thing is that it describes.
#[derive(Debug)]
pub(super) struct RecordEntry<T> {
    pub(super) id: JobId,
    pub(super) place: T,
}

/// Records of one kind, by slot and by id. A slot stays the same while the record exists, also if
/// the place changes.
#[derive(Debug)]
pub(super) struct RecordTable<T> {
    slots: PagedSlab<RecordEntry<T>>,
    by_id: BTreeMap<u64, u32>,
}

impl<T> Default for RecordTable<T> {
    fn default() -> Self {
        Self { slots: PagedSlab::default(), by_id: BTreeMap::new() }
    }
}

impl<T: Copy> RecordTable<T> {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Adds a record and returns its slot. O(log r) for r records.
    pub(super) fn insert(&mut self, id: JobId, place: T) -> u32 {
        let slot = self.slots.insert(RecordEntry { id, place });
        assert_eq!(self.by_id.insert(id.0, slot), None, "an id was given out twice");
        slot
    }

    /// Removes the record in `slot`. O(log r).
    pub(super) fn remove(&mut self, slot: u32) -> RecordEntry<T> {
        let record = self.slots.remove(slot).expect("a record was removed twice");
        self.by_id.remove(&record.id.0);
        record
    }

    /// The slot of the record with this id. O(log r).
    pub(super) fn find(&self, id: JobId) -> Option<u32> {
        self.by_id.get(&id.0).copied()
    }

    /// Sets the place of the record in `slot`. O(1).
    pub(super) fn set_place(&mut self, slot: u32, place: T) {
        self.slots[slot].place = place;
    }

    /// All records with their slots, in the order of slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &RecordEntry<T>)> {
        self.slots.iter()
    }

    /// Asserts that slots and ids agree. O(r log r): for checks.
    pub(super) fn check_invariants(&self) {
        assert_eq!(self.slots.len(), self.by_id.len(), "ids and records differ in number");
        for (slot, record) in self.slots.iter() {
            assert_eq!(self.find(record.id), Some(slot), "a record is not found by its id");
        }
    }
}

impl<T> Index<u32> for RecordTable<T> {
    type Output = RecordEntry<T>;
    fn index(&self, slot: u32) -> &RecordEntry<T> {
        &self.slots[slot]
    }
}

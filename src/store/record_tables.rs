//! What the journal knows by a record key, and the tables of the records that are not jobs.
//!
//! Each kind of record has slots of its own: jobs in the job table, registered workers in the
//! registry, declared and paused queues and constraints in a [`RecordTable`] each. Ids are unique
//! among all kinds, because the record of a removal names an id alone: workers get theirs from the
//! ids of jobs, the others from the end of the id space downwards.

use super::idx::{
    ConstraintRecordIdx, DeclarationIdx, JobIdx, LossIdx, PastKeyIdx, PastRunIdx, PauseIdx,
    ScheduleIdx, WorkerIdx,
};
use crate::base::paged::PagedSlab;
use crate::base::slab_index::SlabIndex;
use crate::model::id::JobId;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Index;

/// What a base record of the journal is about. Valid until the record is removed; the slots of
/// each kind are small and dense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKey {
    /// A job.
    Job(JobIdx),
    /// A declared queue.
    Queue(DeclarationIdx),
    /// A registered worker.
    Worker(WorkerIdx),
    /// A constraint.
    Constraint(ConstraintRecordIdx),
    /// A paused queue.
    Pause(PauseIdx),
    /// A schedule.
    Schedule(ScheduleIdx),
    /// A key that stays taken after the completion of its job.
    PastKey(PastKeyIdx),
    /// A run that was completed under a token.
    PastRun(PastRunIdx),
    /// A job that was lost while others wait for it.
    Loss(LossIdx),
}

/// A record, and where the thing is that it describes.
#[derive(Debug)]
pub(super) struct RecordEntry<T> {
    pub(super) id: JobId,
    pub(super) place: T,
}

/// Records of one kind, by index and by id. The index stays the same while the record exists, also
/// if the place changes.
#[derive(Debug)]
pub(super) struct RecordTable<T, I> {
    slots: PagedSlab<RecordEntry<T>, I>,
    by_id: BTreeMap<u64, I>,
}

impl<T, I> Default for RecordTable<T, I> {
    fn default() -> Self {
        Self { slots: PagedSlab::default(), by_id: BTreeMap::new() }
    }
}

impl<T: Copy, I: SlabIndex + PartialEq + Debug> RecordTable<T, I> {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Adds a record and returns its index. O(log r) for r records.
    pub(super) fn insert(&mut self, id: JobId, place: T) -> I {
        let record = self.slots.insert(RecordEntry { id, place });
        assert_eq!(self.by_id.insert(id.0, record), None, "an id was given out twice");
        debug_assert_eq!(self.slots.len(), self.by_id.len(), "a record has one id");
        record
    }

    /// Removes a record. O(log r).
    pub(super) fn remove(&mut self, record: I) -> RecordEntry<T> {
        let entry = self.slots.remove(record).expect("a record was removed twice");
        let known = self.by_id.remove(&entry.id.0);
        debug_assert_eq!(known, Some(record), "a record is found by its id");
        debug_assert_eq!(self.slots.len(), self.by_id.len(), "a record goes with its id");
        entry
    }

    /// The record with this id. O(log r).
    pub(super) fn find(&self, id: JobId) -> Option<I> {
        self.by_id.get(&id.0).copied()
    }

    /// Sets the place of a record. O(1).
    pub(super) fn set_place(&mut self, record: I, place: T) {
        self.slots[record].place = place;
    }

    /// All records, in the order of slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = (I, &RecordEntry<T>)> {
        self.slots.iter()
    }

    /// Asserts that slots and ids agree. O(r log r): for checks.
    pub(super) fn check_invariants(&self) {
        assert_eq!(self.slots.len(), self.by_id.len(), "ids and records differ in number");
        for (record, entry) in self.slots.iter() {
            assert_eq!(self.find(entry.id), Some(record), "a record is not found by its id");
        }
    }
}

impl<T, I: SlabIndex> Index<I> for RecordTable<T, I> {
    type Output = RecordEntry<T>;
    fn index(&self, record: I) -> &RecordEntry<T> {
        &self.slots[record]
    }
}

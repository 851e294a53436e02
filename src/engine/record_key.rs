//! The record keys of the store as the numbers by which the journal knows them. They are not
//! written to the disk: recovery gives them out again.

use crate::base::limits::{DECLARED_QUEUES_MAX, JOBS_MAX};
use crate::base::slab_index::SlabIndex;
use crate::journal::UPPER_KEYS;
use crate::store::{ConstraintRecordIdx, DeclarationIdx, JobIdx, RecordKey, WorkerIdx};

/// The low bits of an upper key: the kind of record. Its slot is in the bits above.
const KIND_BITS: u32 = 2;
const QUEUE: u32 = 0;
const WORKER: u32 = 1;
const CONSTRAINT: u32 = 2;

/// Slots of each kind for which there are keys. No key is `u32::MAX`, as no kind is 3.
const UPPER_SLOTS: u32 = (u32::MAX - UPPER_KEYS) >> KIND_BITS;

const _: () = assert!(JOBS_MAX <= UPPER_KEYS as usize, "a job's key would be an upper one");
const _: () = assert!(DECLARED_QUEUES_MAX <= UPPER_SLOTS as usize, "keys for declared queues");

/// The number of a record key: for a job its slot, so that lower keys are as dense as slots.
#[inline]
pub(super) fn pack(key: RecordKey) -> u32 {
    match key {
        RecordKey::Job(job) => {
            debug_assert!(job.slot() < UPPER_KEYS, "a job's key is an upper one");
            job.slot()
        }
        RecordKey::Queue(record) => upper(QUEUE, record),
        RecordKey::Worker(worker) => upper(WORKER, worker),
        RecordKey::Constraint(record) => upper(CONSTRAINT, record),
    }
}

#[cold]
fn upper(kind: u32, record: impl SlabIndex) -> u32 {
    let slot = record.slot();
    assert!(slot <= UPPER_SLOTS, "there are more records of a kind than keys");
    UPPER_KEYS + ((slot << KIND_BITS) | kind)
}

/// The record key of a number that [`pack`] has returned.
pub(super) fn unpack(number: u32) -> RecordKey {
    let Some(upper) = number.checked_sub(UPPER_KEYS) else {
        return RecordKey::Job(JobIdx::from_slot(number));
    };
    let slot = upper >> KIND_BITS;
    match upper & ((1 << KIND_BITS) - 1) {
        QUEUE => RecordKey::Queue(DeclarationIdx::from_slot(slot)),
        WORKER => RecordKey::Worker(WorkerIdx::from_slot(slot)),
        CONSTRAINT => RecordKey::Constraint(ConstraintRecordIdx::from_slot(slot)),
        _ => unreachable!("no record has a key of this kind"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_key_is_unpacked_to_itself_and_no_two_are_equal() {
        let slots = [0, 1, 2, 1_000, UPPER_SLOTS - 1, UPPER_SLOTS];
        let mut keys: Vec<RecordKey> = slots
            .into_iter()
            .flat_map(|slot| {
                [
                    RecordKey::Queue(DeclarationIdx::from_slot(slot)),
                    RecordKey::Worker(WorkerIdx::from_slot(slot)),
                    RecordKey::Constraint(ConstraintRecordIdx::from_slot(slot)),
                ]
            })
            .collect();
        let jobs = slots.into_iter().chain([UPPER_KEYS - 1]);
        keys.extend(jobs.map(|slot| RecordKey::Job(JobIdx::from_slot(slot))));
        let mut numbers: Vec<u32> = keys.iter().map(|&key| pack(key)).collect();
        for (&key, &number) in keys.iter().zip(&numbers) {
            assert_eq!(unpack(number), key);
            assert_ne!(number, u32::MAX, "the end of the journal's lists");
        }
        numbers.sort_unstable();
        assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    }
}

//! The record keys of the store as the numbers by which the journal knows them. They are not
//! written to the disk: recovery gives them out again.

use crate::base::api_limits::{
    LOSSES_MAX, PAST_KEYS_MAX, PAST_RUNS_MAX, PAUSED_QUEUES_MAX, SCHEDULES_MAX,
};
use crate::base::limits::{DECLARED_QUEUES_MAX, JOBS_MAX};
use crate::base::slab_index::SlabIndex;
use crate::journal::UPPER_KEYS;
use crate::store::{
    ConstraintRecordIdx, DeclarationIdx, JobIdx, LossIdx, PastKeyIdx, PastRunIdx, PauseIdx,
    RecordKey, ScheduleIdx, WorkerIdx,
};

/// The low bits of an upper key: the kind of record. Its slot is in the bits above.
const KIND_BITS: u32 = 3;
const QUEUE: u32 = 0;
const WORKER: u32 = 1;
const CONSTRAINT: u32 = 2;
const PAUSE: u32 = 3;
const SCHEDULE: u32 = 4;
const PAST_KEY: u32 = 5;
const PAST_RUN: u32 = 6;
const LOSS: u32 = 7;

/// The largest slot of each kind for which there is a key. No key is `u32::MAX`: there are fewer
/// losses.
const LAST_UPPER_SLOT: u32 = (u32::MAX - UPPER_KEYS) >> KIND_BITS;

const _: () = assert!(JOBS_MAX <= UPPER_KEYS as usize, "a job's key would be an upper one");
const _: () =
    assert!(DECLARED_QUEUES_MAX - 1 <= LAST_UPPER_SLOT as usize, "keys for declared queues");
const _: () = assert!(PAST_KEYS_MAX - 1 <= LAST_UPPER_SLOT as usize, "keys for past keys");
const _: () = assert!(PAST_RUNS_MAX <= LAST_UPPER_SLOT as usize, "keys for past runs");
const _: () = assert!(LOSSES_MAX - 1 < LAST_UPPER_SLOT as usize, "keys for losses");
const _: () = assert!(PAUSED_QUEUES_MAX - 1 <= LAST_UPPER_SLOT as usize, "keys for paused queues");
const _: () = assert!(SCHEDULES_MAX - 1 <= LAST_UPPER_SLOT as usize, "keys for schedules");

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
        RecordKey::Pause(record) => upper(PAUSE, record),
        RecordKey::Schedule(record) => upper(SCHEDULE, record),
        RecordKey::PastKey(record) => upper(PAST_KEY, record),
        RecordKey::PastRun(record) => upper(PAST_RUN, record),
        RecordKey::Loss(record) => upper(LOSS, record),
    }
}

#[cold]
fn upper(kind: u32, record: impl SlabIndex) -> u32 {
    let slot = record.slot();
    assert!(slot <= LAST_UPPER_SLOT, "there are more records of a kind than keys");
    UPPER_KEYS + ((slot << KIND_BITS) | kind)
}

/// The record key of a number that [`pack`] has returned.
pub(super) fn unpack(number: u32) -> RecordKey {
    let Some(upper) = number.checked_sub(UPPER_KEYS) else {
        return RecordKey::Job(JobIdx::from_slot(number));
    };
    OF_KIND[(upper & ((1 << KIND_BITS) - 1)) as usize](upper >> KIND_BITS)
}

/// The record key with this slot, by kind: `QUEUE` is the first.
const OF_KIND: [fn(u32) -> RecordKey; 1 << KIND_BITS] = [
    |slot| RecordKey::Queue(DeclarationIdx::from_slot(slot)),
    |slot| RecordKey::Worker(WorkerIdx::from_slot(slot)),
    |slot| RecordKey::Constraint(ConstraintRecordIdx::from_slot(slot)),
    |slot| RecordKey::Pause(PauseIdx::from_slot(slot)),
    |slot| RecordKey::Schedule(ScheduleIdx::from_slot(slot)),
    |slot| RecordKey::PastKey(PastKeyIdx::from_slot(slot)),
    |slot| RecordKey::PastRun(PastRunIdx::from_slot(slot)),
    |slot| RecordKey::Loss(LossIdx::from_slot(slot)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_key_is_unpacked_to_itself_and_no_two_are_equal() {
        let slots = [0, 1, 2, 1_000, LAST_UPPER_SLOT - 1, LAST_UPPER_SLOT];
        let mut keys: Vec<RecordKey> = slots
            .into_iter()
            .flat_map(|slot| {
                [
                    RecordKey::Queue(DeclarationIdx::from_slot(slot)),
                    RecordKey::Worker(WorkerIdx::from_slot(slot)),
                    RecordKey::Constraint(ConstraintRecordIdx::from_slot(slot)),
                    RecordKey::Pause(PauseIdx::from_slot(slot)),
                    RecordKey::Schedule(ScheduleIdx::from_slot(slot)),
                    RecordKey::PastKey(PastKeyIdx::from_slot(slot)),
                    RecordKey::PastRun(PastRunIdx::from_slot(slot)),
                ]
            })
            .collect();
        let losses = [0, 1, 2, 1_000, LAST_UPPER_SLOT - 1];
        keys.extend(losses.map(|slot| RecordKey::Loss(LossIdx::from_slot(slot))));
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

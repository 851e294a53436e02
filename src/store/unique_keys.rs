//! Unique keys: which job of a queue has a key, and which keys stay taken after the completion of
//! their jobs.
//!
//! Keys are found by a hash of the queue's name and the key, so that those of completed jobs need
//! no queue. The table has shards, so that no put pays for the growth of a large table.
//!
//! Invariant: a key of a queue has one owner, and is found by it: a job, until it is completed, or
//! a past key. All operations are O(key + name), amortised within a shard.

use super::idx::{JobIdx, PastKeyIdx};
use super::jobs::Jobs;
use super::queues::Queues;
use crate::base::paged::PagedSlab;
use crate::base::sharded_table::ShardedTable;
use crate::base::timer_queue::TimerId;
use crate::model::id::JobId;
use foldhash::fast::FixedState;
use std::collections::BTreeMap;
use std::hash::BuildHasher;

/// Memory of a past key beside its texts, nearly: slot, entries of the tables, deadline.
const PAST_KEY_MEMORY_BYTES: usize = 200;

/// Who has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyOwner {
    Job(JobIdx),
    /// A job that is completed.
    Past(PastKeyIdx),
}

/// A key that stays taken after the completion of its job.
#[derive(Debug)]
pub(super) struct PastKey {
    /// Of its record.
    pub(super) id: JobId,
    pub(super) queue: Box<[u8]>,
    pub(super) bytes: Box<[u8]>,
    /// The job that had it.
    pub(super) job: JobId,
    /// Its end.
    pub(super) timer: TimerId,
}

#[derive(Clone, Copy, Debug)]
struct KeyEntry {
    hash: u64,
    owner: KeyOwner,
}

/// All keys.
#[derive(Debug)]
pub(super) struct UniqueKeys {
    table: ShardedTable<KeyEntry>,
    hasher: FixedState,
    past: PagedSlab<PastKey, PastKeyIdx>,
    past_by_id: BTreeMap<u64, PastKeyIdx>,
    /// Bytes of the texts of past keys.
    past_bytes: usize,
}

impl UniqueKeys {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            table: ShardedTable::default(),
            hasher: FixedState::with_seed(seed),
            past: PagedSlab::default(),
            past_by_id: BTreeMap::new(),
            past_bytes: 0,
        }
    }

    fn hash(&self, queue: &[u8], key: &[u8]) -> u64 {
        self.hasher.hash_one((queue, key))
    }

    /// Who has this key of this queue.
    pub(super) fn find(
        &self,
        (queue, key): (&[u8], &[u8]),
        jobs: &Jobs,
        queues: &Queues,
    ) -> Option<KeyOwner> {
        let hash = self.hash(queue, key);
        let is_meant = |entry: &KeyEntry| {
            entry.hash == hash
                && match entry.owner {
                    KeyOwner::Job(slot) => {
                        let job = &jobs[slot];
                        let bytes = job.key_of_queue().map(|known| &*known.bytes);
                        bytes == Some(key) && *queues[job.queue].name == *queue
                    }
                    KeyOwner::Past(past) => {
                        let past = &self.past[past];
                        *past.bytes == *key && *past.queue == *queue
                    }
                }
        };
        self.table.find(hash, is_meant).map(|entry| entry.owner)
    }

    /// Adds a key that is free.
    pub(super) fn insert(&mut self, (queue, key): (&[u8], &[u8]), owner: KeyOwner) {
        let hash = self.hash(queue, key);
        debug_assert!(
            self.table.find(hash, |entry| entry.owner == owner).is_none(),
            "an owner has a key once"
        );
        self.table.insert_unique(hash, KeyEntry { hash, owner }, |entry| entry.hash);
    }

    /// Removes a key.
    ///
    /// # Panics
    /// If its owner is another one.
    pub(super) fn remove(&mut self, (queue, key): (&[u8], &[u8]), owner: KeyOwner) {
        let hash = self.hash(queue, key);
        self.table.remove(hash, |entry| entry.owner == owner, |entry| entry.hash);
    }

    /// Adds a past key, which is free. O(log k).
    pub(super) fn insert_past(&mut self, past: PastKey) -> PastKeyIdx {
        self.past_bytes += past.queue.len() + past.bytes.len();
        let id = past.id.0;
        let slot = self.past.insert(past);
        assert_eq!(self.past_by_id.insert(id, slot), None, "an id was given out twice");
        debug_assert_eq!(self.past.len(), self.past_by_id.len(), "a past key has one record");
        let past = &self.past[slot];
        let hash = self.hash(&past.queue, &past.bytes);
        let entry = KeyEntry { hash, owner: KeyOwner::Past(slot) };
        self.table.insert_unique(hash, entry, |entry| entry.hash);
        slot
    }

    /// Removes a past key. O(log k).
    pub(super) fn remove_past(&mut self, slot: PastKeyIdx) -> PastKey {
        let past = self.past.remove(slot).expect("a past key was removed twice");
        let known = self.past_by_id.remove(&past.id.0);
        debug_assert_eq!(known, Some(slot), "a past key is found by the id of its record");
        self.past_bytes -= past.queue.len() + past.bytes.len();
        self.remove((&past.queue, &past.bytes), KeyOwner::Past(slot));
        debug_assert!(
            self.past.len() == self.past_by_id.len()
                && (!self.past.is_empty() || self.past_bytes == 0),
            "a past key goes with its record and the bytes of its texts"
        );
        past
    }

    pub(super) fn past(&self, slot: PastKeyIdx) -> &PastKey {
        &self.past[slot]
    }

    pub(super) fn past_mut(&mut self, slot: PastKeyIdx) -> &mut PastKey {
        &mut self.past[slot]
    }

    /// The past key whose record has this id. O(log k).
    pub(super) fn find_past(&self, id: JobId) -> Option<PastKeyIdx> {
        self.past_by_id.get(&id.0).copied()
    }

    /// The number of past keys.
    pub(super) fn past_len(&self) -> usize {
        self.past.len()
    }

    /// The ids of the records of past keys.
    pub(super) fn record_ids(&self) -> impl Iterator<Item = JobId> {
        self.past_by_id.keys().map(|&id| JobId(id))
    }

    /// The bytes that past keys and the table take, nearly.
    pub(super) fn memory_bytes(&self) -> usize {
        self.past_bytes
            + self.past.len() * PAST_KEY_MEMORY_BYTES
            + self.table.len() * 2 * size_of::<KeyEntry>()
    }

    /// Asserts that keys are found by their owners. O(jobs + keys): for checks.
    pub(super) fn check_invariants(&self, jobs: &Jobs, queues: &Queues) {
        self.table.check_invariants();
        let mut owned = self.past.len();
        for (slot, job) in jobs.iter() {
            let Some(key) = job.key_of_queue().filter(|key| key.is_taken) else { continue };
            let found = self.find((&queues[job.queue].name, &key.bytes), jobs, queues);
            assert_eq!(found, Some(KeyOwner::Job(slot)), "a job is not found by its key");
            owned += 1;
        }
        for (slot, past) in self.past.iter() {
            let found = self.find((&past.queue, &past.bytes), jobs, queues);
            assert_eq!(found, Some(KeyOwner::Past(slot)), "a past key is not found");
            assert!(!past.timer.is_none(), "a past key is taken for ever");
        }
        assert_eq!(owned, self.table.len(), "a key has no owner");
    }
}

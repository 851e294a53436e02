//! External ids and the slots of their jobs.
//!
//! The table has shards, so that no put pays for the growth of a large table.
//!
//! Invariant: a job with an external id is found by it, and no other job has the same id. All
//! operations are O(1), amortised within a shard.

use super::idx::JobIdx;
use super::jobs::Jobs;
use crate::base::hash_index::remove_entry;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

const SHARDS: usize = 256;

/// Smallest capacity of a shard that is worth shrinking, in entries.
const SMALL: usize = 64;

/// The slot of a job, and the part of its id's hash that finds it.
#[derive(Clone, Copy, Debug)]
struct IdEntry {
    hash: u32,
    slot: JobIdx,
}

/// All external ids.
#[derive(Debug)]
pub(super) struct ExternalIds {
    /// Empty until the first id is added.
    shards: Vec<HashTable<IdEntry>>,
    hasher: FixedState,
    len: usize,
}

/// The hash for a shard's table; the shard itself is chosen by other bits.
fn spread(hash: u32) -> u64 {
    // The table takes its tag from the highest bits.
    u64::from(hash) << 32 | u64::from(hash)
}

impl ExternalIds {
    pub(super) fn new(seed: u64) -> Self {
        Self { shards: Vec::new(), hasher: FixedState::with_seed(seed), len: 0 }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Shard and hash of an external id.
    fn index(&self, name: &[u8]) -> (usize, u32) {
        let [shard, _, _, _, hash @ ..] = self.hasher.hash_one(name).to_le_bytes();
        (usize::from(shard), u32::from_le_bytes(hash))
    }

    /// The slot of the job with this external id.
    pub(super) fn find(&self, name: &[u8], jobs: &Jobs) -> Option<JobIdx> {
        let (shard, hash) = self.index(name);
        let is_meant =
            |known: &IdEntry| known.hash == hash && jobs[known.slot].external_id() == Some(name);
        self.shards.get(shard)?.find(spread(hash), is_meant).map(|known| known.slot)
    }

    /// Assigns an external id to a job that has none, unless another job has it.
    pub(super) fn assign(&mut self, name: &[u8], slot: JobIdx, jobs: &mut Jobs) {
        debug_assert!(jobs[slot].external_id().is_none(), "a job has two external ids");
        if self.find(name, jobs).is_none() {
            jobs.change(slot, |job| job.set_external_id(name));
            self.insert(name, slot);
        }
    }

    /// Releases the external id of a job that is about to be removed or replaced, if it has one.
    #[inline(never)]
    pub(super) fn release(&mut self, slot: JobIdx, jobs: &Jobs) {
        if let Some(name) = jobs[slot].external_id() {
            self.remove(name, slot);
        }
    }

    /// Adds an external id that no job has.
    fn insert(&mut self, name: &[u8], slot: JobIdx) {
        let (shard, hash) = self.index(name);
        if self.shards.is_empty() {
            self.shards.resize_with(SHARDS, HashTable::new);
        }
        let rehash = |known: &IdEntry| spread(known.hash);
        self.shards[shard].insert_unique(spread(hash), IdEntry { hash, slot }, rehash);
        self.len += 1;
        debug_assert!(self.shards[shard].len() <= self.len, "all shards together are counted");
    }

    /// Removes the external id of the job in this slot.
    ///
    /// # Panics
    /// If the job is not found by it.
    fn remove(&mut self, name: &[u8], slot: JobIdx) {
        assert!(self.len > 0, "no job has an external id");
        let (shard, hash) = self.index(name);
        let shard = &mut self.shards[shard];
        remove_entry(shard, spread(hash), |known| known.slot == slot);
        self.len -= 1;
        if shard.capacity() > SMALL && shard.len() < shard.capacity() / 8 {
            shard.shrink_to(shard.capacity() / 4, |known| spread(known.hash));
        }
    }

    /// Asserts that jobs are found by their external ids. O(jobs): for checks.
    pub(super) fn check_invariants(&self, jobs: &Jobs) {
        let mut named = 0;
        for (slot, job) in jobs.iter() {
            let Some(name) = job.external_id() else { continue };
            assert_eq!(self.find(name, jobs), Some(slot), "a job is not found by its external id");
            named += 1;
        }
        assert_eq!(named, self.len, "an external id has no job");
        let known: usize = self.shards.iter().map(HashTable::len).sum();
        assert_eq!(known, self.len, "external ids are miscounted");
    }
}

//! From the name that its sender gave a job to its place.
//!
//! The table is cut into shards, so that no put pays for the growth of all of it at once.
//!
//! Invariant: a job that has a name is found by it, and no other job has the same one. All
//! operations are O(1), amortised within a shard.

use super::jobs::Jobs;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

const SHARDS: usize = 256;

/// A shard of less room than this is not worth shrinking.
const SMALL: usize = 64;

/// Where the job of a name is, and by which part of its hash it is found there.
#[derive(Clone, Copy, Debug)]
struct IdEntry {
    hash: u32,
    slot: u32,
}

/// All names that jobs have.
#[derive(Debug)]
pub(super) struct ExternalIds {
    /// None before there is a name.
    shards: Vec<HashTable<IdEntry>>,
    hasher: FixedState,
    len: usize,
}

/// The table places by these bits; the shard goes by others.
fn spread(hash: u32) -> u64 {
    // The table's tag comes from the highest bits.
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

    /// Shard and hash of a name.
    fn index(&self, name: &[u8]) -> (usize, u32) {
        let [shard, _, _, _, hash @ ..] = self.hasher.hash_one(name).to_le_bytes();
        (usize::from(shard), u32::from_le_bytes(hash))
    }

    /// The slot of the job that has this name.
    pub(super) fn find(&self, name: &[u8], jobs: &Jobs) -> Option<u32> {
        let (shard, hash) = self.index(name);
        let is_meant =
            |known: &IdEntry| known.hash == hash && jobs[known.slot].external_id() == Some(name);
        self.shards.get(shard)?.find(spread(hash), is_meant).map(|known| known.slot)
    }

    /// Notes a name that no job has yet.
    pub(super) fn insert(&mut self, name: &[u8], slot: u32) {
        let (shard, hash) = self.index(name);
        if self.shards.is_empty() {
            self.shards.resize_with(SHARDS, HashTable::new);
        }
        let rehash = |known: &IdEntry| spread(known.hash);
        self.shards[shard].insert_unique(spread(hash), IdEntry { hash, slot }, rehash);
        self.len += 1;
    }

    /// Forgets the name of the job in this slot.
    ///
    /// # Panics
    /// If the job is not found by it.
    pub(super) fn remove(&mut self, name: &[u8], slot: u32) {
        let (shard, hash) = self.index(name);
        let shard = &mut self.shards[shard];
        match shard.find_entry(spread(hash), |known| known.slot == slot) {
            Ok(entry) => entry.remove(),
            Err(_) => unreachable!("a job that has a name is found by it"),
        };
        self.len -= 1;
        if shard.capacity() > SMALL && shard.len() < shard.capacity() / 8 {
            shard.shrink_to(shard.capacity() / 4, |known| spread(known.hash));
        }
    }

    /// Asserts that jobs are found by their names. O(jobs): for checks.
    pub(super) fn check_invariants(&self, jobs: &Jobs) {
        let mut named = 0;
        for (slot, job) in jobs.iter() {
            let Some(name) = job.external_id() else { continue };
            assert_eq!(self.find(name, jobs), Some(slot), "a job is not found by its name");
            named += 1;
        }
        assert_eq!(named, self.len, "a name without a job");
        let known: usize = self.shards.iter().map(HashTable::len).sum();
        assert_eq!(known, self.len, "names are miscounted");
    }
}

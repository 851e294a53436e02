//! A hash table in [`SHARDS`] parts, so that no pass of the loop pays for the growth of a large
//! one: growing or shrinking moves the entries of one part.
//!
//! As in [`HashTable`], the caller hashes and compares: an entry is in most cases the index of a
//! slab slot, where key and hash stand.

use super::hash_index::remove_entry;
use hashbrown::HashTable;

/// Number of parts. With a million entries one of them has about 4,000.
pub const SHARDS: usize = 256;

/// Capacity of a part, in entries, up to which it never shrinks.
const SMALL: usize = 64;

/// See the module documentation.
#[derive(Debug)]
pub struct ShardedTable<T> {
    shards: Box<[HashTable<T>; SHARDS]>,
    len: usize,
}

impl<T> Default for ShardedTable<T> {
    fn default() -> Self {
        Self { shards: Box::new([const { HashTable::new() }; SHARDS]), len: 0 }
    }
}

/// The part of a hash. [`HashTable`] takes its bucket from the lowest bits and its tag from the
/// highest, so these are others.
#[inline]
fn shard(hash: u64) -> usize {
    usize::from(hash.to_le_bytes()[5])
}

impl<T> ShardedTable<T> {
    /// Number of entries.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entry with this hash of which `is_it` is true. O(1).
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<&T> {
        self.shards[shard(hash)].find(hash, is_it)
    }

    /// Adds an entry that is not there. O(1); growth moves the entries of one part, whose hashes
    /// `hash_of` tells.
    #[inline]
    pub fn insert_unique(&mut self, hash: u64, entry: T, hash_of: impl Fn(&T) -> u64) {
        debug_assert_eq!(hash_of(&entry), hash, "an entry is added under a hash that it has not");
        self.shards[shard(hash)].insert_unique(hash, entry, hash_of);
        self.len += 1;
    }

    /// Removes the entry with this hash of which `is_it` is true. O(1); a part that has become
    /// nearly empty gives memory back and moves its entries, whose hashes `hash_of` tells.
    ///
    /// # Panics
    /// If there is none: the owner has added it.
    pub fn remove(
        &mut self,
        hash: u64,
        is_it: impl FnMut(&T) -> bool,
        hash_of: impl Fn(&T) -> u64,
    ) -> T {
        let shard = &mut self.shards[shard(hash)];
        let removed = remove_entry(shard, hash, is_it);
        self.len -= 1;
        if shard.capacity() > SMALL && shard.len() < shard.capacity() / 8 {
            shard.shrink_to(shard.capacity() / 4, hash_of);
        }
        removed
    }

    /// All entries, in no order. O(entries).
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.shards.iter().flat_map(HashTable::iter)
    }

    /// Asserts that the parts together have the counted number of entries. O(1).
    pub fn check_invariants(&self) {
        let entries: usize = self.shards.iter().map(HashTable::len).sum();
        assert_eq!(entries, self.len, "the entries of a sharded table are miscounted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldhash::fast::FixedState;
    use std::hash::BuildHasher;

    #[test]
    fn entries_are_found_until_removed_and_memory_comes_back() {
        let hasher = FixedState::with_seed(1);
        let hash = |entry: &u32| hasher.hash_one(entry);
        let mut table = ShardedTable::default();
        for entry in 0..100_000_u32 {
            table.insert_unique(hash(&entry), entry, hash);
        }
        table.check_invariants();
        let used = table.shards.iter().filter(|shard| !shard.is_empty()).count();
        assert_eq!(used, SHARDS, "a shard is never used");
        let largest = table.shards.iter().map(HashTable::len).max().unwrap();
        assert!(largest < 2 * 100_000 / SHARDS, "a shard has {largest} entries");
        for entry in 1..100_000 {
            assert_eq!(table.remove(hash(&entry), |&other| other == entry, hash), entry);
        }
        assert_eq!(table.iter().copied().collect::<Vec<_>>(), [0]);
        assert_eq!(table.find(hash(&0), |&other| other == 0), Some(&0));
        assert_eq!(table.find(hash(&1), |&other| other == 1), None);
        let capacity: usize = table.shards.iter().map(HashTable::capacity).sum();
        assert!(capacity < 3 * SMALL * SHARDS, "space for {capacity} entries is kept");
        table.check_invariants();
    }

    #[test]
    #[should_panic(expected = "found by the hash of its key")]
    fn missing_entry_panics() {
        ShardedTable::<u32>::default().remove(7, |_| true, |_| 7);
    }
}

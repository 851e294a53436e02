//! Hash tables of indexes into a slab: the hash and the key stand in the slab, so an entry is its
//! index.

use hashbrown::HashTable;

/// Removes the entry with this hash of which `is_it` is true. O(1).
///
/// # Panics
/// If there is none: the owner of table and slab has added it, and removes both together.
pub fn remove_entry<T>(table: &mut HashTable<T>, hash: u64, is_it: impl FnMut(&T) -> bool) -> T {
    let entry = table.find_entry(hash, is_it).ok();
    // Proof: the documented duty of the caller.
    entry.expect("an index is found by the hash of its key").remove().0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_entry_is_the_meant_one() {
        let mut table = HashTable::new();
        for index in 0..3_u32 {
            table.insert_unique(7, index, |_| 7);
        }
        assert_eq!(remove_entry(&mut table, 7, |&index| index == 1), 1);
        let mut left: Vec<u32> = table.into_iter().collect();
        left.sort_unstable();
        assert_eq!(left, [0, 2]);
    }

    #[test]
    #[should_panic(expected = "found by the hash of its key")]
    fn missing_entry_panics() {
        remove_entry(&mut HashTable::<u32>::new(), 7, |_| true);
    }
}

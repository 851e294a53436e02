//! Tables whose keys have a generation, so that a key may outlive its value.
//!
//! [`SlabKeys`] gives out keys and [`SlabTable`] finds values by them. Several tables may share one
//! source of keys: then each key has a value in one of them at most. A [`Slab`] is a table with a
//! source of its own.
//!
//! Invariant: a key finds the value it was made for or nothing; never a successor in the same slot
//! (until 2^32 values later).

/// Slot and generation of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlabKey {
    /// The place: small and dense, fit to index other tables.
    pub index: u32,
    /// Which of the values that have had this place.
    pub generation: u32,
}

/// A source of keys: no two of them that are in use have the same index. O(1), growth amortised.
#[derive(Debug, Default)]
pub struct SlabKeys {
    free: Vec<u32>,
    /// All indexes up to here were given out.
    end: u32,
    generation: u32,
}

impl SlabKeys {
    /// A key; of the free indexes that which was released last.
    ///
    /// # Panics
    /// With 2^32 keys in use, which no caller's limit allows.
    #[must_use]
    pub fn take(&mut self) -> SlabKey {
        self.generation = self.generation.wrapping_add(1);
        let index = self.free.pop().unwrap_or_else(|| {
            let index = self.end;
            self.end = index.checked_add(1).expect("fewer than 2^32 keys are in use");
            index
        });
        SlabKey { index, generation: self.generation }
    }

    /// The key is in use no longer. The caller names each key that it has taken once.
    pub fn release(&mut self, key: SlabKey) {
        debug_assert!(key.index < self.end, "a key that was not taken is released");
        self.free.push(key.index);
    }
}

/// Values found by generation-checked keys. All operations are O(1), growth amortised.
#[derive(Debug)]
pub struct SlabTable<T> {
    entries: Vec<Option<(u32, T)>>,
    len: usize,
}

impl<T> Default for SlabTable<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), len: 0 }
    }
}

impl<T> SlabTable<T> {
    /// Stores the value of a key.
    ///
    /// # Panics
    /// If there is a value at the key's index.
    pub fn insert(&mut self, key: SlabKey, value: T) {
        let index = key.index as usize;
        if index >= self.entries.len() {
            self.entries.resize_with(index + 1, || None);
        }
        let former = self.entries[index].replace((key.generation, value));
        assert!(former.is_none(), "two values have the same index");
        self.len += 1;
    }

    /// The value of `key`, if it is still there.
    #[must_use]
    #[inline]
    pub fn get(&self, key: SlabKey) -> Option<&T> {
        match self.entries.get(key.index as usize) {
            Some(Some((generation, value))) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// The value of `key`, if it is still there.
    #[inline]
    pub fn get_mut(&mut self, key: SlabKey) -> Option<&mut T> {
        match self.entries.get_mut(key.index as usize) {
            Some(Some((generation, value))) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// Takes the value of `key` out, if it is still there.
    pub fn remove(&mut self, key: SlabKey) -> Option<T> {
        self.get(key)?;
        self.len -= 1;
        self.entries[key.index as usize].take().map(|(_, value)| value)
    }

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All values with their keys, in the order of their places. O(places).
    pub fn iter(&self) -> impl Iterator<Item = (SlabKey, &T)> {
        let all = (0..).zip(&self.entries);
        all.filter_map(|(index, entry)| {
            let (generation, value) = entry.as_ref()?;
            Some((SlabKey { index, generation: *generation }, value))
        })
    }
}

/// A table that gives out its keys itself.
#[derive(Debug)]
pub struct Slab<T> {
    keys: SlabKeys,
    table: SlabTable<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { keys: SlabKeys::default(), table: SlabTable::default() }
    }
}

impl<T> Slab<T> {
    /// Stores `value` and returns its key.
    ///
    /// # Panics
    /// As [`SlabKeys::take`].
    pub fn insert(&mut self, value: T) -> SlabKey {
        let key = self.keys.take();
        self.table.insert(key, value);
        key
    }

    /// As [`SlabTable::get`].
    #[must_use]
    #[inline]
    pub fn get(&self, key: SlabKey) -> Option<&T> {
        self.table.get(key)
    }

    /// As [`SlabTable::get_mut`].
    #[inline]
    pub fn get_mut(&mut self, key: SlabKey) -> Option<&mut T> {
        self.table.get_mut(key)
    }

    /// Takes the value of `key` out, if it is still there.
    pub fn remove(&mut self, key: SlabKey) -> Option<T> {
        let value = self.table.remove(key)?;
        self.keys.release(key);
        Some(value)
    }

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// As [`SlabTable::iter`].
    pub fn iter(&self) -> impl Iterator<Item = (SlabKey, &T)> {
        self.table.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::{Slab, SlabKeys, SlabTable};

    #[test]
    fn a_late_key_finds_nothing() {
        let mut slab = Slab::default();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_eq!(first.index, second.index, "the place is used again");
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&"second"));
        assert_eq!(slab.iter().count(), 1);
    }

    #[test]
    fn tables_that_share_keys_share_no_index() {
        let mut keys = SlabKeys::default();
        let (mut letters, mut numbers) = (SlabTable::default(), SlabTable::default());
        let [a, one, b] = [keys.take(), keys.take(), keys.take()];
        letters.insert(a, 'a');
        numbers.insert(one, 1);
        letters.insert(b, 'b');
        assert_eq!([letters.get(one), letters.get(b)], [None, Some(&'b')]);
        assert_eq!(numbers.get(a), None);
        assert_eq!((letters.len(), numbers.len()), (2, 1));
        assert_eq!(letters.remove(a), Some('a'));
        keys.release(a);
        let two = keys.take();
        assert_eq!(two.index, a.index);
        numbers.insert(two, 2);
        assert_eq!(numbers.iter().map(|(_, &number)| number).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(letters.remove(a), None);
    }
}

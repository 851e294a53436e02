//! The slab crate with a generation in each key, so that a key may outlive its value.
//!
//! Invariant: a key finds the value it was made for or nothing; never a successor in the same slot
//! (until 2^32 values later).

use slab::Slab as Inner;

/// Slot and generation of a value in one [`Slab`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlabKey {
    /// The place: small and dense, fit to index other tables.
    pub index: u32,
    /// Which of the values that have had this place.
    pub generation: u32,
}

/// Values in slots, found by generation-checked keys. All operations are O(1), growth amortised.
#[derive(Debug)]
pub struct Slab<T> {
    entries: Inner<(u32, T)>,
    generation: u32,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Inner::new(), generation: 0 }
    }
}

impl<T> Slab<T> {
    /// Stores `value` and returns its key.
    ///
    /// # Panics
    /// With 2^32 values at once, which no caller's limit allows.
    pub fn insert(&mut self, value: T) -> SlabKey {
        self.generation = self.generation.wrapping_add(1);
        let index = self.entries.insert((self.generation, value));
        let index = u32::try_from(index).expect("a slab holds fewer than 2^32 values");
        SlabKey { index, generation: self.generation }
    }

    /// The value of `key`, if it is still there.
    #[must_use]
    #[inline]
    pub fn get(&self, key: SlabKey) -> Option<&T> {
        match self.entries.get(key.index as usize) {
            Some((generation, value)) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// The value of `key`, if it is still there.
    #[inline]
    pub fn get_mut(&mut self, key: SlabKey) -> Option<&mut T> {
        match self.entries.get_mut(key.index as usize) {
            Some((generation, value)) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// Takes the value of `key` out, if it is still there.
    pub fn remove(&mut self, key: SlabKey) -> Option<T> {
        self.get(key)?;
        Some(self.entries.remove(key.index as usize).1)
    }

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All values with their keys, in the order of their places. O(places).
    pub fn iter(&self) -> impl Iterator<Item = (SlabKey, &T)> {
        self.entries.iter().map(|(index, (generation, value))| {
            // Proof: `insert` refused every index beyond 32 bits.
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            (SlabKey { index, generation: *generation }, value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Slab;

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
}

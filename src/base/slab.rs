//! The slab crate with a generation in each key, so that a key may outlive its value.
//!
//! A key may be reserved for a value that is kept elsewhere: no other value has the same index
//! then, so that both can index further tables.
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
    /// Generation and value; `None` if the key is reserved.
    entries: Inner<(u32, Option<T>)>,
    /// Number of reserved keys.
    reserved: usize,
    generation: u32,
    end: u32,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Inner::new(), reserved: 0, generation: 0, end: 0 }
    }
}

impl<T> Slab<T> {
    /// Stores `value` and returns its key.
    ///
    /// # Panics
    /// With 2^32 keys in use, which no caller's limit allows.
    pub fn insert(&mut self, value: T) -> SlabKey {
        self.add(Some(value))
    }

    /// A key for a value that is kept elsewhere: it finds nothing here.
    ///
    /// # Panics
    /// As [`Slab::insert`].
    #[must_use]
    pub fn reserve_key(&mut self) -> SlabKey {
        self.reserved += 1;
        self.add(None)
    }

    fn add(&mut self, value: Option<T>) -> SlabKey {
        self.generation = self.generation.wrapping_add(1);
        debug_assert!(self.reserved <= self.entries.len() + 1, "a reserved key has no entry");
        let index = self.entries.insert((self.generation, value));
        let index = u32::try_from(index).expect("a slab holds fewer than 2^32 values");
        self.end = self.end.max(index + 1);
        SlabKey { index, generation: self.generation }
    }

    /// Takes the value of `key` out, if it is still there; the key stays reserved.
    pub fn vacate(&mut self, key: SlabKey) -> Option<T> {
        self.get(key)?;
        let (_, value) = self.entries.get_mut(key.index as usize)?;
        self.reserved += 1;
        value.take()
    }

    /// Ends the use of a reserved key.
    ///
    /// # Panics
    /// If the key is not reserved.
    pub fn release_key(&mut self, key: SlabKey) {
        let entry = self.entries.remove(key.index as usize);
        assert!(
            matches!(entry, (generation, None) if generation == key.generation),
            "a key is released that is not reserved"
        );
        self.reserved -= 1;
    }

    /// The value of `key`, if it is still there.
    #[must_use]
    #[inline]
    pub fn get(&self, key: SlabKey) -> Option<&T> {
        match self.entries.get(key.index as usize) {
            Some((generation, Some(value))) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// The value of `key`, if it is still there.
    #[inline]
    pub fn get_mut(&mut self, key: SlabKey) -> Option<&mut T> {
        match self.entries.get_mut(key.index as usize) {
            Some((generation, Some(value))) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// Takes the value of `key` out, if it is still there.
    pub fn remove(&mut self, key: SlabKey) -> Option<T> {
        self.get(key)?;
        self.entries.remove(key.index as usize).1
    }

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len() - self.reserved
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Values with their keys from a place on, in the order of their places: those of the next
    /// `most` places. O(most).
    pub fn range(&self, from: u32, most: u32) -> impl Iterator<Item = (SlabKey, &T)> {
        (from..from.saturating_add(most).min(self.end)).filter_map(|index| {
            let (generation, value) = self.entries.get(index as usize)?;
            Some((SlabKey { index, generation: *generation }, value.as_ref()?))
        })
    }

    /// One more than the largest place that was used.
    #[must_use]
    pub fn end(&self) -> u32 {
        self.end
    }

    /// Whether a key may have been given out: until 2^32 values later.
    #[must_use]
    pub fn was_given_out(&self, key: SlabKey) -> bool {
        key.index < self.end && (1..=self.generation).contains(&key.generation)
    }

    /// All values with their keys, in the order of their places. O(places).
    pub fn iter(&self) -> impl Iterator<Item = (SlabKey, &T)> {
        self.entries.iter().filter_map(|(index, (generation, value))| {
            // Proof: `insert` refused every index beyond 32 bits.
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            Some((SlabKey { index, generation: *generation }, value.as_ref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Slab, SlabKey};

    #[test]
    fn a_late_key_finds_nothing() {
        let mut slab = Slab::default();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        assert!(slab.is_empty());
        let second = slab.insert("second");
        assert_eq!(second.index, first.index);
        assert!(slab.get(first).is_none() && slab.get_mut(first).is_none());
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&"second"));
        assert_eq!(slab.iter().count(), 1);
    }

    #[test]
    fn ranges_skip_what_is_gone() {
        let mut slab = Slab::default();
        let keys = ["a", "b", "c", "d"].map(|text| slab.insert(text));
        slab.remove(keys[1]);
        let found = |from, most| slab.range(from, most).map(|(_, text)| *text).collect::<Vec<_>>();
        assert_eq!(
            (found(0, 3), found(1, 1), found(2, 9)),
            (vec!["a", "c"], vec![], vec!["c", "d"])
        );
        assert_eq!(slab.end(), 4);
        assert!(keys.iter().all(|&key| slab.was_given_out(key)));
        assert!(!slab.was_given_out(SlabKey { index: 0, generation: 9 }));
        assert!(!slab.was_given_out(SlabKey { index: 9, generation: 1 }));
    }

    #[test]
    fn reserved_key_finds_nothing_and_keeps_its_index() {
        let mut slab = Slab::default();
        let (value, reserved) = (slab.insert('a'), slab.reserve_key());
        assert_ne!(slab.insert('b').index, reserved.index);
        assert!(slab.get(reserved).is_none() && slab.get_mut(reserved).is_none());
        assert_eq!(slab.remove(reserved), None);
        assert_eq!((slab.len(), slab.iter().count()), (2, 2));
        slab.release_key(reserved);
        let next = slab.insert('c');
        assert_eq!(next.index, reserved.index);
        assert_eq!(
            (slab.get(reserved), slab.get(next), slab.get(value)),
            (None, Some(&'c'), Some(&'a'))
        );
    }
}

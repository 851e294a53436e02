//! Arrays and slabs that grow by pages: growth moves no value, so no pass of the loop pays for
//! copying a million values, and memory is freed page by page.
//!
//! Invariants: an index stays valid until its value is removed; at most one page more than needed
//! is kept, so that a value added and removed at the edge of a page costs no allocation each time.

use super::prefetch::prefetch;
use super::slab_index::SlabIndex;
use std::marker::PhantomData;

const SHIFT: u32 = 12;
/// Values in a page of a [`PagedVec`].
pub const PAGE: usize = 1 << SHIFT;
const MASK: usize = PAGE - 1;

/// A stack of values with indexed access. The first page grows like a `Vec`, so that a short stack
/// stays small.
#[derive(Debug)]
pub struct PagedVec<T> {
    pages: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for PagedVec<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), len: 0 }
    }
}

impl<T: Copy> PagedVec<T> {
    /// How many values there are.
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

    /// The value at `index`.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    #[inline]
    pub fn at(&self, index: usize) -> T {
        self.pages[index >> SHIFT][index & MASK]
    }

    /// The value at `index`, to be changed.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn at_mut(&mut self, index: usize) -> &mut T {
        &mut self.pages[index >> SHIFT][index & MASK]
    }

    /// The values from `first` up to `end`, if one page holds them all.
    #[must_use]
    #[inline]
    pub fn slice(&self, first: usize, end: usize) -> Option<&[T]> {
        self.pages.get(first >> SHIFT)?.get(first & MASK..(first & MASK) + (end - first))
    }

    /// All values, if one page holds them.
    #[inline]
    pub fn only_page(&mut self) -> Option<&mut [T]> {
        if self.len > PAGE { None } else { self.pages.first_mut().map(Vec::as_mut_slice) }
    }

    /// Prefetches up to `count` values from `first` on, as far as they are in one page.
    #[inline]
    pub fn prefetch(&self, first: usize, count: usize) {
        if let Some(page) = self.pages.get(first >> SHIFT)
            && let Some(values) = page.get(first & MASK..)
        {
            prefetch(values, count * size_of::<T>());
        }
    }

    /// Replaces the value at `index`.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn set(&mut self, index: usize, value: T) {
        self.pages[index >> SHIFT][index & MASK] = value;
    }

    /// Adds a value at the end. O(1); a copy of at most one page.
    #[inline(always)]
    pub fn push(&mut self, value: T) {
        let page = self.len >> SHIFT;
        if page == self.pages.len() {
            self.add_page();
        }
        debug_assert_eq!(self.pages[page].len(), self.len & MASK, "a page before is not full");
        self.pages[page].push(value);
        self.len += 1;
    }

    #[cold]
    fn add_page(&mut self) {
        let first = self.pages.is_empty();
        self.pages.reserve_exact(usize::from(first));
        self.pages.push(if first { Vec::new() } else { Vec::with_capacity(PAGE) });
    }

    /// Takes the last value. O(1).
    #[inline(always)]
    pub fn pop(&mut self) -> Option<T> {
        let index = self.len.checked_sub(1)?;
        let value = self.pages[index >> SHIFT].pop();
        debug_assert!(value.is_some(), "the last page has no value");
        self.len = index;
        if index & (PAGE / 2 - 1) == 0 {
            self.release_pages();
        }
        value
    }

    /// Gives pages back that are no longer needed, when the last one is half empty, or the only one
    /// is empty.
    #[cold]
    fn release_pages(&mut self) {
        if self.len & MASK == PAGE / 2 {
            self.pages.truncate((self.len >> SHIFT) + 1);
        } else if self.len == 0 && self.pages[0].capacity() > PAGE / 64 {
            self.pages = Vec::new();
        }
    }
}

const NONE: u32 = u32::MAX;
const SLAB_SHIFT: u32 = 10;
const SLAB_PAGE: usize = 1 << SLAB_SHIFT;
const SLAB_MASK: usize = SLAB_PAGE - 1;

#[derive(Debug)]
enum Slot<T> {
    Vacant(u32),
    Occupied(T),
}

#[derive(Debug)]
struct Page<T, S> {
    slots: Vec<Slot<T>>,
    beside: Vec<S>,
    vacant: u32,
    live: u32,
    listed: bool,
}

/// Largest number of values in a [`PagedSlab`]. The last page stays unused, so that no value has
/// the slot `u32::MAX`, which means "none" in a [`PackedOption`](super::slab_index::PackedOption).
pub const PAGED_SLAB_MAX: usize = u32::MAX as usize & !SLAB_MASK;

/// Values in slots, found by an index type `I` of their own. All operations are O(1).
///
/// Beside each value is a small one of type `S`, in an array of its own: for what is read or
/// written without the rest of a value. A cache line holds many of them.
#[derive(Debug)]
pub struct PagedSlab<T, I = u32, S = ()> {
    index: PhantomData<I>,
    pages: Vec<Page<T, S>>,
    /// Pages with room; the last one is filled first.
    pages_with_space: Vec<u32>,
    /// The one page that is empty and keeps its memory.
    spare: u32,
    len: usize,
}

impl<T, I, S> Default for PagedSlab<T, I, S> {
    fn default() -> Self {
        Self {
            index: PhantomData,
            pages: Vec::new(),
            pages_with_space: Vec::new(),
            spare: NONE,
            len: 0,
        }
    }
}

impl<T, I: SlabIndex, S: Copy + Default> PagedSlab<T, I, S> {
    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Stores `value` and returns its index. O(1).
    ///
    /// # Panics
    /// With more than [`PAGED_SLAB_MAX`] values at once: callers bound that.
    #[inline(always)]
    pub fn insert(&mut self, value: T) -> I {
        let number = match self.pages_with_space.last() {
            Some(&number) => number,
            None => self.add_page(),
        };
        let page = &mut self.pages[number as usize];
        debug_assert!(
            page.listed && (page.live as usize) < SLAB_PAGE,
            "a page without a free slot is listed as having one"
        );
        let offset = if page.vacant == NONE {
            if page.slots.capacity() == 0 {
                page.slots.reserve_exact(SLAB_PAGE);
                page.beside.reserve_exact(SLAB_PAGE);
            }
            page.slots.push(Slot::Occupied(value));
            page.beside.push(S::default());
            page.slots.len() - 1
        } else {
            let offset = page.vacant as usize;
            match std::mem::replace(&mut page.slots[offset], Slot::Occupied(value)) {
                Slot::Vacant(next) => page.vacant = next,
                Slot::Occupied(_) => unreachable!("the vacant list names vacant slots only"),
            }
            offset
        };
        page.live += 1;
        if page.vacant == NONE && page.slots.len() == SLAB_PAGE {
            page.listed = false;
            self.pages_with_space.pop();
        }
        self.len += 1;
        let offset = u32::try_from(offset).expect("an offset within a page");
        I::from_slot((number << SLAB_SHIFT) | offset)
    }

    fn add_page(&mut self) -> u32 {
        let number = u32::try_from(self.pages.len()).expect("fewer than 2^32 pages");
        assert!(number < u32::MAX >> SLAB_SHIFT, "a slab holds at most PAGED_SLAB_MAX values");
        let (slots, beside) = (Vec::new(), Vec::new());
        self.pages.push(Page { slots, beside, vacant: NONE, live: 0, listed: true });
        self.pages_with_space.push(number);
        number
    }

    /// The value at `index`, if there is one.
    #[must_use]
    #[inline(always)]
    pub fn get(&self, index: I) -> Option<&T> {
        let slot = index.slot() as usize;
        let page = self.pages.get(slot >> SLAB_SHIFT)?;
        match page.slots.get(slot & SLAB_MASK) {
            Some(Slot::Occupied(value)) => Some(value),
            _ => None,
        }
    }

    /// The value at `index`, if there is one.
    #[inline(always)]
    pub fn get_mut(&mut self, index: I) -> Option<&mut T> {
        let slot = index.slot() as usize;
        let page = self.pages.get_mut(slot >> SLAB_SHIFT)?;
        match page.slots.get_mut(slot & SLAB_MASK) {
            Some(Slot::Occupied(value)) => Some(value),
            _ => None,
        }
    }

    /// Prefetches the value at `index`.
    #[inline]
    pub fn prefetch(&self, index: I) {
        let slot = index.slot() as usize;
        if let Some(page) = self.pages.get(slot >> SLAB_SHIFT)
            && let Some(value) = page.slots.get(slot & SLAB_MASK)
        {
            prefetch(std::slice::from_ref(value), usize::MAX);
        }
    }

    /// The small value beside the one at `index`. Of a new value it is the default or whatever an
    /// earlier one with this index left.
    ///
    /// # Panics
    /// If there has never been a value at `index`.
    #[must_use]
    #[inline(always)]
    pub fn beside(&self, index: I) -> S {
        let slot = index.slot() as usize;
        self.pages[slot >> SLAB_SHIFT].beside[slot & SLAB_MASK]
    }

    /// Sets the small value beside the one at `index`.
    ///
    /// # Panics
    /// If there has never been a value at `index`.
    #[inline(always)]
    pub fn set_beside(&mut self, index: I, value: S) {
        let slot = index.slot() as usize;
        self.pages[slot >> SLAB_SHIFT].beside[slot & SLAB_MASK] = value;
    }

    /// Takes the value at `index` out, if there is one. O(1).
    #[inline(always)]
    pub fn remove(&mut self, index: I) -> Option<T> {
        let number = index.slot() >> SLAB_SHIFT;
        let page = self.pages.get_mut(number as usize)?;
        let offset = index.slot() as usize & SLAB_MASK;
        let slot = page.slots.get_mut(offset)?;
        let value = match std::mem::replace(slot, Slot::Vacant(page.vacant)) {
            Slot::Occupied(value) => value,
            vacant @ Slot::Vacant(_) => {
                *slot = vacant;
                return None;
            }
        };
        debug_assert!(
            page.live > 0 && page.live as usize <= page.slots.len(),
            "a page has fewer values than it has lost, or more than slots"
        );
        page.vacant = u32::try_from(offset).expect("an offset within a page");
        page.live -= 1;
        let emptied = page.live == 0;
        if !page.listed {
            page.listed = true;
            self.pages_with_space.push(number);
        }
        self.len -= 1;
        if emptied {
            self.keep_as_spare(number);
        }
        Some(value)
    }

    /// Page `number` has become empty: it is the spare one now, and the former one gives its memory
    /// back if it is still empty.
    fn keep_as_spare(&mut self, number: u32) {
        let former = std::mem::replace(&mut self.spare, number);
        if former == number {
            return;
        }
        if let Some(page) = self.pages.get_mut(former as usize)
            && page.live == 0
        {
            (page.slots, page.beside) = (Vec::new(), Vec::new());
            page.vacant = NONE;
        }
    }

    /// A slot behind all values. O(1).
    #[must_use]
    pub fn end(&self) -> u32 {
        u32::try_from(self.pages.len() << SLAB_SHIFT).unwrap_or(u32::MAX)
    }

    /// All values with their indexes, in order. O(slots).
    pub fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        self.pages.iter().zip(0_u32..).flat_map(|(page, number)| {
            page.slots.iter().zip(0_u32..).filter_map(move |(slot, offset)| match slot {
                Slot::Occupied(value) => {
                    Some((I::from_slot((number << SLAB_SHIFT) | offset), value))
                }
                Slot::Vacant(_) => None,
            })
        })
    }
}

impl<T, I: SlabIndex, S: Copy + Default> std::ops::Index<I> for PagedSlab<T, I, S> {
    type Output = T;
    #[inline(always)]
    fn index(&self, index: I) -> &T {
        self.get(index).expect("an index names a value that is there")
    }
}

impl<T, I: SlabIndex, S: Copy + Default> std::ops::IndexMut<I> for PagedSlab<T, I, S> {
    #[inline(always)]
    fn index_mut(&mut self, index: I) -> &mut T {
        self.get_mut(index).expect("an index names a value that is there")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn a_paged_vec_is_a_vec() {
        let (mut paged, mut plain) = (PagedVec::default(), Vec::new());
        let mut rng = Rng::new(1);
        for round in 0..60_000_u64 {
            let growing = (round / 15_000) % 2 == 0;
            if rng.below(10) < if growing { 8 } else { 2 } {
                paged.push(round);
                plain.push(round);
            } else {
                assert_eq!(paged.pop(), plain.pop());
            }
            assert_eq!(paged.len(), plain.len());
            if let Some(last) = plain.len().checked_sub(1) {
                let index = usize::try_from(rng.below(plain.len() as u64)).unwrap();
                paged.set(index, round + 6);
                *paged.at_mut(index) += 1;
                plain[index] = round + 7;
                assert_eq!(paged.at(last), plain[last]);
                assert_eq!(paged.slice(last, last + 1), Some(&plain[last..]));
            }
        }
        while paged.pop().is_some() {}
        let kept: usize = paged.pages.iter().map(Vec::capacity).sum();
        assert!(kept <= PAGE / 64, "a drained one keeps no large page");
    }

    #[test]
    fn a_paged_slab_is_a_map_and_gives_memory_back() {
        let mut slab = PagedSlab::<_, u32>::default();
        let mut model = BTreeMap::new();
        let mut rng = Rng::new(2);
        for round in 0..40_000_u64 {
            if rng.below(10) < if (round / 10_000) % 2 == 0 { 7 } else { 3 } {
                assert_eq!(model.insert(slab.insert(round), round), None);
            } else if let Some((&index, _)) =
                model.range(u32::try_from(rng.below(12_000)).unwrap()..).next()
            {
                assert_eq!(slab.remove(index), model.remove(&index));
                assert_eq!(slab.remove(index), None);
            }
            assert_eq!(slab.len(), model.len());
        }
        assert!(slab.iter().map(|(index, &value)| (index, value)).eq(model.clone()));
        for (index, value) in model {
            assert_eq!(slab[index], value);
            slab.remove(index);
        }
        let held = slab.pages.iter().filter(|page| page.slots.capacity() > 0).count();
        assert_eq!(held, 1, "one spare page stays");
    }

    #[test]
    fn a_value_that_comes_and_goes_stays_in_its_page() {
        let mut slab = PagedSlab::<_, u32>::default();
        let all: Vec<u32> = (0..3_000).map(|value| slab.insert(value)).collect();
        for index in all {
            slab.remove(index);
        }
        let first = slab.insert(1);
        slab.remove(first);
        for value in 0..100 {
            let index = slab.insert(value);
            assert_eq!(index, first);
            slab.remove(index);
        }
    }
}

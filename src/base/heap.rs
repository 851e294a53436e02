//! An indexed 4-ary min-heap: each entry's position is known, so that it can be removed from the
//! middle.
//!
//! The heap holds the keys, so that sifting touches no memory but the heap and one position for
//! each move. Four children to a node make it half as deep as a binary heap, and their keys lie in
//! one or two cache lines.
//!
//! Invariants: no entry comes before its parent; [`PositionMap::moved`] has been called with the
//! current position of every entry.

use crate::base::paged::PagedVec;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// An entry: a key of 128 bits, and the slot of its value. Smaller keys leave first. Packed,
/// because four bytes for each entry matter with millions of them.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
pub struct HeapEntry<I = u32> {
    /// Compared first. The value 0 is special: see [`PositionMap::compare_exactly`].
    pub rank: u64,
    /// Compared when ranks are equal. Unique within a heap.
    pub tie: u64,
    /// What the entry stands for.
    pub slot: I,
}

/// What the heap needs of the owner of the slots.
pub trait PositionMap {
    /// What the slots are named by.
    type Index: Copy;

    /// The entry of `slot` is at `position` now.
    fn moved(&mut self, slot: Self::Index, position: u32);

    /// The entry of `slot` leaves soon if nothing more urgent comes: its memory may be prefetched.
    /// Called in large heaps only, first when some ten entries are before it, then when a few are:
    /// `next` says so.
    fn approaches(&self, slot: Self::Index, next: bool) {
        let _ = (slot, next);
    }

    /// Compares two slots whose ranks are both 0, the rank of everything that is too far out to be
    /// told apart by 64 bits. `Less` leaves first; `Equal` lets the ties decide.
    fn compare_exactly(&self, a: Self::Index, b: Self::Index) -> Ordering;
}

/// Whether `a` leaves before `b`.
#[inline]
pub fn orders_before<M: PositionMap>(
    a: &HeapEntry<M::Index>,
    b: &HeapEntry<M::Index>,
    slots: &M,
) -> bool {
    let (rank_a, rank_b) = (a.rank, b.rank);
    if rank_a != rank_b {
        return rank_a < rank_b;
    }
    if rank_a == 0 {
        match slots.compare_exactly(a.slot, b.slot) {
            Ordering::Less => return true,
            Ordering::Greater => return false,
            Ordering::Equal => {}
        }
    }
    a.tie < b.tie
}

/// [`Heap::sift_up`] in a heap of one page, of an entry whose rank is not 0.
#[inline]
fn sift_up_in_page<M: PositionMap>(
    entries: &mut [HeapEntry<M::Index>],
    mut index: u32,
    entry: HeapEntry<M::Index>,
    slots: &mut M,
) {
    while let Some(below) = index.checked_sub(1) {
        let parent = entries[(below / PAGE_ARITY) as usize];
        if parent.rank <= entry.rank && (parent.rank < entry.rank || parent.tie < entry.tie) {
            break;
        }
        entries[index as usize] = parent;
        slots.moved(parent.slot, index);
        index = below / PAGE_ARITY;
    }
    entries[index as usize] = entry;
    slots.moved(entry.slot, index);
}

/// [`Heap::sift_down`] in a heap of one page.
#[inline]
fn sift_down_in_page<M: PositionMap>(
    entries: &mut [HeapEntry<M::Index>],
    mut index: u32,
    entry: HeapEntry<M::Index>,
    slots: &mut M,
) {
    loop {
        let first = index * PAGE_ARITY + 1;
        let Some(behind) = entries.get(first as usize..) else { break };
        let (mut place, mut child) = (0, entry);
        let mut is_exact = false;
        if let Some(four) = behind.first_chunk() {
            place = least_of_four(four);
            child = four[place as usize];
            is_exact = child.rank != 0;
        }
        if is_exact {
            if child.rank >= entry.rank && (child.rank > entry.rank || child.tie > entry.tie) {
                break;
            }
        } else if let Some(found) = least_before(behind, &entry, slots) {
            (place, child) = (found, behind[found as usize]);
        } else {
            break;
        }
        entries[index as usize] = child;
        slots.moved(child.slot, index);
        index = first + place;
    }
    debug_assert!(
        index == 0 || !orders_before(&entry, &entries[(index as usize - 1) / ARITY], slots),
        "an entry was moved down that comes before its parent"
    );
    entries[index as usize] = entry;
    slots.moved(entry.slot, index);
}

/// The place of the one of four entries that leaves first, unless its rank is 0.
#[inline]
fn least_of_four<I>(entries: &[HeapEntry<I>; ARITY]) -> u32 {
    let [a, b, c, d] = [entries[0].rank, entries[1].rank, entries[2].rank, entries[3].rank];
    let (left, right) = (a.min(b), c.min(d));
    let (at_left, at_right) = (u32::from(b < a), 2 + u32::from(d < c));
    if a == b || c == d || left == right {
        return least_key_of_four(entries);
    }
    if right < left { at_right } else { at_left }
}

/// [`least_of_four`], of which some may have the same rank.
#[inline]
fn least_key_of_four<I>(entries: &[HeapEntry<I>; ARITY]) -> u32 {
    let key = |entry: &HeapEntry<I>| u128::from(entry.rank) << 64 | u128::from(entry.tie);
    let [a, b, c, d] = [key(&entries[0]), key(&entries[1]), key(&entries[2]), key(&entries[3])];
    let (at_left, left) = if b < a { (1, b) } else { (0, a) };
    let (at_right, right) = if d < c { (3, d) } else { (2, c) };
    if right < left { at_right } else { at_left }
}

/// Of the first four entries, or as many as there are, the place of the one that leaves first, if
/// it leaves before `entry`.
#[inline(never)]
fn least_before<M: PositionMap>(
    entries: &[HeapEntry<M::Index>],
    entry: &HeapEntry<M::Index>,
    slots: &M,
) -> Option<u32> {
    let (&first, others) = entries.split_first()?;
    let (place, least) = least(first, &others[..others.len().min(ARITY - 1)], slots);
    orders_before(&least, entry, slots).then_some(place)
}

/// Of `first` and the entries behind it, the one that leaves first, and its place.
#[inline]
fn least<M: PositionMap>(
    first: HeapEntry<M::Index>,
    others: &[HeapEntry<M::Index>],
    slots: &M,
) -> (u32, HeapEntry<M::Index>) {
    let (mut place, mut best) = (0, first);
    for (at, entry) in (1..).zip(others) {
        if orders_before(entry, &best, slots) {
            (place, best) = (at, *entry);
        }
    }
    (place, best)
}

/// Whether `a` leaves before `b` whatever their tie breaks are.
#[inline]
pub fn outranks<M: PositionMap>(
    a: &HeapEntry<M::Index>,
    b: &HeapEntry<M::Index>,
    slots: &M,
) -> bool {
    let (rank_a, rank_b) = (a.rank, b.rank);
    if rank_a == 0 && rank_b == 0 {
        return slots.compare_exactly(a.slot, b.slot) == Ordering::Less;
    }
    rank_a < rank_b
}

/// A heap of up to 2^32 - 1 entries.
#[derive(Debug)]
pub struct Heap<I: Copy = u32> {
    entries: PagedVec<HeapEntry<I>>,
}

impl<I: Copy> Default for Heap<I> {
    fn default() -> Self {
        Self { entries: PagedVec::default() }
    }
}

const ARITY: usize = 4;
/// [`ARITY`], for positions in a page.
const PAGE_ARITY: u32 = 4;

/// From this many entries on, a heap and what its slots stand for do not fit into a processor's own
/// caches: what is needed soon is prefetched.
pub const LARGE: usize = 1 << 17;

fn position(index: usize) -> u32 {
    // Proof: there is one slot to an entry, and slots are 32 bits wide.
    u32::try_from(index).expect("a heap holds fewer than 2^32 entries")
}

impl<I: Copy> Heap<I> {
    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether it has at least [`LARGE`] entries.
    #[must_use]
    #[inline]
    pub fn is_large(&self) -> bool {
        self.entries.len() >= LARGE
    }

    /// The entry that leaves first. O(1).
    #[must_use]
    #[inline]
    pub fn peek(&self) -> Option<HeapEntry<I>> {
        if self.entries.is_empty() { None } else { Some(self.entries.at(0)) }
    }

    /// The entry at `index`. O(1).
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    #[inline]
    pub fn at(&self, index: u32) -> HeapEntry<I> {
        self.entries.at(index as usize)
    }

    /// The places of the entries that come directly after that at `index`, as far as there are
    /// any. O(1).
    pub fn below(&self, index: usize) -> impl Iterator<Item = usize> + use<I> {
        let first = index * ARITY + 1;
        first..(first + ARITY).min(self.entries.len()).max(first)
    }

    /// The rank of the entry at `index`, if there is one. O(1).
    #[must_use]
    pub fn rank_at(&self, index: usize) -> Option<u64> {
        (index < self.entries.len()).then(|| self.entries.at(index).rank)
    }

    /// The entries in their order, without a change. `key` has to order them as the heap does.
    /// O(log k) for the k-th.
    pub fn in_order<K: Ord>(
        &self,
        key: impl Fn(&HeapEntry<I>) -> K,
    ) -> impl Iterator<Item = HeapEntry<I>> {
        let mut candidates = BinaryHeap::new();
        if let Some(first) = self.peek() {
            candidates.push(Reverse((key(&first), 0)));
        }
        std::iter::from_fn(move || {
            let Reverse((_, index)) = candidates.pop()?;
            let first = index * ARITY + 1;
            for child in first..(first + ARITY).min(self.entries.len()) {
                candidates.push(Reverse((key(&self.entries.at(child)), child)));
            }
            Some(self.entries.at(index))
        })
    }

    /// Adds an entry. O(log n); O(1) on average for random keys.
    pub fn push(&mut self, entry: HeapEntry<I>, slots: &mut impl PositionMap<Index = I>) {
        let index = self.entries.len();
        self.entries.push(entry);
        if entry.rank != 0
            && let Some(entries) = self.entries.only_page()
        {
            return sift_up_in_page(entries, position(index), entry, slots);
        }
        self.sift_up(index, entry, slots);
    }

    /// Takes the entry that leaves first. O(log n).
    pub fn pop(&mut self, slots: &mut impl PositionMap<Index = I>) -> Option<HeapEntry<I>> {
        let first = self.peek()?;
        self.remove(0, slots);
        debug_assert!(
            self.peek().is_none_or(|next| !orders_before(&next, &first, slots)),
            "an entry leaves before one that is more urgent"
        );
        Some(first)
    }

    /// Takes the entry at `index` out. O(log n).
    ///
    /// # Panics
    /// If there is none.
    pub fn remove(&mut self, index: u32, slots: &mut impl PositionMap<Index = I>) -> HeapEntry<I> {
        let removed = self.entries.at(index as usize);
        let last = self.entries.pop().expect("an entry was found, so there is a last one");
        if index as usize == self.entries.len() {
            return removed;
        }
        if index > 0 {
            let parent = self.entries.at((index as usize - 1) / ARITY);
            if orders_before(&last, &parent, slots) {
                self.sift_up(index as usize, last, slots);
                return removed;
            }
        }
        match self.entries.only_page() {
            Some(entries) => sift_down_in_page(entries, index, last, slots),
            None => self.sift_down(index as usize, last, slots),
        }
        removed
    }

    /// Moves the hole at `index` up until `entry` fits into it.
    #[inline(never)]
    fn sift_up(
        &mut self,
        mut index: usize,
        entry: HeapEntry<I>,
        slots: &mut impl PositionMap<Index = I>,
    ) {
        while index > 0 {
            let parent_index = (index - 1) / ARITY;
            let parent = self.entries.at(parent_index);
            if !orders_before(&entry, &parent, slots) {
                break;
            }
            self.entries.set(index, parent);
            slots.moved(parent.slot, position(index));
            index = parent_index;
        }
        debug_assert!(
            index * ARITY + 1 >= self.entries.len()
                || !orders_before(&self.entries.at(index * ARITY + 1), &entry, slots),
            "an entry was moved up that comes after its first child"
        );
        self.entries.set(index, entry);
        slots.moved(entry.slot, position(index));
    }

    /// Moves the hole at `index` down until `entry` fits into it.
    #[inline(never)]
    fn sift_down(
        &mut self,
        mut index: usize,
        entry: HeapEntry<I>,
        slots: &mut impl PositionMap<Index = I>,
    ) {
        let prefetched = if self.is_large() { self.entries.len() } else { 0 };
        loop {
            let first = index * ARITY + 1;
            if first >= self.entries.len() {
                break;
            }
            // One of their four nodes is needed in the next step, whichever child leaves first.
            let grandchildren = first * ARITY + 1;
            if grandchildren < prefetched {
                self.entries.prefetch(grandchildren, ARITY * ARITY);
            }
            let (child_index, child) = self.first_child(first, slots);
            if !orders_before(&child, &entry, slots) {
                break;
            }
            self.entries.set(index, child);
            slots.moved(child.slot, position(index));
            if grandchildren < prefetched && (1..=ARITY * (ARITY + 1)).contains(&index) {
                slots.approaches(child.slot, index <= ARITY);
            }
            index = child_index;
        }
        debug_assert!(
            index == 0 || !orders_before(&entry, &self.entries.at((index - 1) / ARITY), slots),
            "an entry was moved down that comes before its parent"
        );
        self.entries.set(index, entry);
        slots.moved(entry.slot, position(index));
    }

    /// Of the up to four children that begin at `first`, the one that leaves first.
    #[inline]
    fn first_child(
        &self,
        first: usize,
        slots: &impl PositionMap<Index = I>,
    ) -> (usize, HeapEntry<I>) {
        let end = (first + ARITY).min(self.entries.len());
        if let Some(children) = self.entries.slice(first, end) {
            if let Some(four) = children.first_chunk()
                && let place = least_of_four(four)
                && four[place as usize].rank != 0
            {
                return (first + place as usize, four[place as usize]);
            }
            let (place, best) = least(children[0], &children[1..], slots);
            return (first + place as usize, best);
        }
        let mut best_index = first;
        let mut best = self.entries.at(first);
        for index in first + 1..end {
            let child = self.entries.at(index);
            if orders_before(&child, &best, slots) {
                (best_index, best) = (index, child);
            }
        }
        (best_index, best)
    }

    /// Asserts the order of every entry against its parent, and hands each to `check` with its
    /// position. O(n): for tests and the simulator.
    pub fn check_invariants(
        &self,
        slots: &impl PositionMap<Index = I>,
        mut check: impl FnMut(HeapEntry<I>, u32),
    ) {
        for index in 0..self.entries.len() {
            let entry = self.entries.at(index);
            if index > 0 {
                let parent = self.entries.at((index - 1) / ARITY);
                assert!(!orders_before(&entry, &parent, slots), "a child comes before its parent");
            }
            check(entry, position(index));
        }
    }
}

//! The ready heap of a queue against a `BTreeSet`, from 1,000 jobs to a million.
//!
//! `distinct` jobs have random ranks, `equal` ones the same rank and leave in the order of arrival.
//! The set finds a job in the middle by its key, which the owner of the slots has to keep; that is
//! counted, as the positions are for the heap.

use crate::{ROUND, sized};
use divan::{Bencher, black_box};
use jobcentre::base::heap::{Heap, HeapEntry, PositionMap};
use jobcentre::base::rng::Rng;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

/// What both sides can do.
trait Order: Default {
    fn push(&mut self, entry: HeapEntry);
    fn pop(&mut self) -> HeapEntry;
    fn remove(&mut self, slot: u32) -> HeapEntry;
}

/// Positions by slot, as the jobs keep them.
#[derive(Default)]
struct Positions(Vec<u32>);

impl PositionMap for Positions {
    type Index = u32;

    #[inline]
    fn moved(&mut self, slot: u32, position: u32) {
        self.0[slot as usize] = position;
    }

    fn compare_exactly(&self, _: u32, _: u32) -> Ordering {
        Ordering::Equal
    }
}

#[derive(Default)]
struct Indexed {
    heap: Heap,
    positions: Positions,
}

impl Order for Indexed {
    fn push(&mut self, entry: HeapEntry) {
        grow(&mut self.positions.0, entry.slot, 0);
        self.heap.push(entry, &mut self.positions);
    }

    fn pop(&mut self) -> HeapEntry {
        self.heap.pop(&mut self.positions).expect("there are entries")
    }

    fn remove(&mut self, slot: u32) -> HeapEntry {
        let position = self.positions.0[slot as usize];
        self.heap.remove(position, &mut self.positions)
    }
}

#[derive(Default)]
struct Tree {
    set: BTreeSet<(u64, u64, u32)>,
    keys: Vec<(u64, u64)>,
}

impl Order for Tree {
    fn push(&mut self, entry: HeapEntry) {
        grow(&mut self.keys, entry.slot, (0, 0));
        self.keys[entry.slot as usize] = (entry.rank, entry.tie);
        self.set.insert((entry.rank, entry.tie, entry.slot));
    }

    fn pop(&mut self) -> HeapEntry {
        let (rank, tie, slot) = self.set.pop_first().expect("there are entries");
        HeapEntry { rank, tie, slot }
    }

    fn remove(&mut self, slot: u32) -> HeapEntry {
        let (rank, tie) = self.keys[slot as usize];
        assert!(self.set.remove(&(rank, tie, slot)));
        HeapEntry { rank, tie, slot }
    }
}

fn grow<T: Copy>(values: &mut Vec<T>, slot: u32, value: T) {
    if values.len() <= slot as usize {
        values.resize(slot as usize + 1, value);
    }
}

#[derive(Clone, Copy)]
struct Case {
    len: usize,
    distinct: bool,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.len, if self.distinct { "distinct" } else { "equal" })
    }
}

fn cases() -> impl Iterator<Item = Case> {
    let of = |len| [true, false].map(|distinct| Case { len, distinct });
    [1_000, 50_000, 1_000_000].into_iter().flat_map(of)
}

/// How far ranks are spread.
const SPREAD: u64 = 1 << 40;

/// A queue in steady state, with as many jobs as its case says or a round more: a job that comes
/// ranks behind the one that left last, at random.
struct Model<T> {
    order: T,
    rng: Rng,
    distinct: bool,
    last: u64,
    arrivals: u64,
    free: Vec<u32>,
    /// All slots, in random order.
    shuffled: Vec<u32>,
}

impl<T: Order> Model<T> {
    fn new(case: Case) -> RefCell<Self> {
        let slots = u32::try_from(sized(case.len) + ROUND).expect("32 bits");
        let mut model = Self {
            order: T::default(),
            rng: Rng::new(3),
            distinct: case.distinct,
            last: 1,
            arrivals: 0,
            free: (0..slots).rev().collect(),
            shuffled: (0..slots).collect(),
        };
        model.fill();
        RefCell::new(model)
    }

    fn push(&mut self) {
        let slot = self.free.pop().expect("as many leave as come");
        let rank = if self.distinct { self.last + self.rng.below(SPREAD) } else { 1 };
        self.arrivals += 1;
        self.order.push(HeapEntry { rank, tie: self.arrivals, slot });
    }

    fn pop(&mut self) {
        let entry = self.order.pop();
        self.last = entry.rank;
        self.free.push(entry.slot);
    }

    fn fill(&mut self) {
        while !self.free.is_empty() {
            self.push();
        }
    }

    fn shrink(&mut self) {
        while self.free.len() < ROUND {
            self.pop();
        }
    }

    /// Fills the queue and names a round of slots at random.
    fn choose(&mut self) -> Vec<u32> {
        self.fill();
        for place in 0..ROUND {
            let left = (self.shuffled.len() - place) as u64;
            let other = place + usize::try_from(self.rng.below(left)).expect("a place");
            self.shuffled.swap(place, other);
        }
        self.shuffled[..ROUND].to_vec()
    }
}

#[divan::bench(types = [Indexed, Tree], args = cases(), sample_size = 1)]
fn push<T: Order>(bencher: Bencher, case: Case) {
    let model = Model::<T>::new(case);
    bencher.with_inputs(|| model.borrow_mut().shrink()).bench_local_values(|()| {
        let mut model = model.borrow_mut();
        for _ in 0..ROUND {
            model.push();
        }
    });
}

#[divan::bench(types = [Indexed, Tree], args = cases(), sample_size = 1)]
fn pop<T: Order>(bencher: Bencher, case: Case) {
    let model = Model::<T>::new(case);
    bencher.with_inputs(|| model.borrow_mut().fill()).bench_local_values(|()| {
        let mut model = model.borrow_mut();
        for _ in 0..ROUND {
            model.pop();
        }
    });
}

#[divan::bench(types = [Indexed, Tree], args = cases(), sample_size = 1)]
fn remove<T: Order>(bencher: Bencher, case: Case) {
    let model = Model::<T>::new(case);
    bencher.with_inputs(|| model.borrow_mut().choose()).bench_local_refs(|slots| {
        let mut model = model.borrow_mut();
        for &slot in slots.iter() {
            let entry = model.order.remove(slot);
            model.free.push(black_box(entry).slot);
        }
    });
}

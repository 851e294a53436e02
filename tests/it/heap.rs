//! The heap against a sorted list: random pushes, pops and removals.

use jobcentre::base::heap::{Heap, HeapEntry, LARGE, PositionMap};
use proptest::prelude::*;
use std::cell::RefCell;
use std::cmp::{Ordering, Reverse};

/// The owner of the slots: where each one's entry is, and what tells ranks of 0 apart.
#[derive(Default)]
struct Owner {
    positions: Vec<u32>,
    exact: Vec<u8>,
    /// The slots whose entries were said to leave soon; `true`: next.
    announced: RefCell<Vec<(u32, bool)>>,
}

impl PositionMap for Owner {
    type Index = u32;

    fn moved(&mut self, slot: u32, position: u32) {
        self.positions[slot as usize] = position;
    }

    fn approaches(&self, slot: u32, next: bool) {
        self.announced.borrow_mut().push((slot, next));
    }

    fn compare_exactly(&self, a: u32, b: u32) -> Ordering {
        // The larger leaves first, as with digits.
        self.exact[b as usize].cmp(&self.exact[a as usize])
    }
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Push {
        rank: u64,
        exact: u8,
        newest_first: bool,
    },
    Pop,
    /// Takes out the entry that stands at this place in the sorted list, counted round.
    Remove(usize),
}

/// A sorted list of keys, the next to leave first: rank, exact rank if the rank is 0, tie.
type Key = (u64, Reverse<u8>, u64);

struct Simulation {
    heap: Heap,
    owner: Owner,
    sorted: Vec<(Key, u32)>,
    free: Vec<u32>,
    ties: u64,
}

impl Simulation {
    fn new() -> Self {
        Self {
            heap: Heap::default(),
            owner: Owner::default(),
            sorted: Vec::new(),
            free: Vec::new(),
            ties: 0,
        }
    }

    fn push(&mut self, rank: u64, exact: u8, newest_first: bool) {
        self.ties += 1;
        let tie = if newest_first { u64::MAX - self.ties } else { self.ties };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.owner.positions.push(u32::MAX);
            self.owner.exact.push(0);
            u32::try_from(self.owner.positions.len() - 1).unwrap()
        });
        self.owner.exact[slot as usize] = exact;
        self.heap.push(HeapEntry { rank, tie, slot }, &mut self.owner);
        let key = (rank, Reverse(if rank == 0 { exact } else { 0 }), tie);
        let place = self.sorted.partition_point(|(other, _)| *other < key);
        self.sorted.insert(place, (key, slot));
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Push { rank, exact, newest_first } => self.push(rank, exact, newest_first),
            Operation::Pop => {
                let popped = self.heap.pop(&mut self.owner).map(|entry| entry.slot);
                let expected = (!self.sorted.is_empty()).then(|| self.sorted.remove(0).1);
                assert_eq!(popped, expected, "the wrong entry left first");
                self.free.extend(popped);
            }
            Operation::Remove(_) if self.sorted.is_empty() => {}
            Operation::Remove(place) => {
                let (_, slot) = self.sorted.remove(place % self.sorted.len());
                let position = self.owner.positions[slot as usize];
                let removed = self.heap.remove(position, &mut self.owner).slot;
                assert_eq!(removed, slot, "another entry stood at the position");
                self.free.push(slot);
            }
        }
    }

    fn check(&self) {
        assert_eq!(self.heap.len(), self.sorted.len());
        assert_eq!(self.heap.is_empty(), self.sorted.is_empty());
        let first = self.heap.peek().map(|entry| entry.slot);
        assert_eq!(first, self.sorted.first().map(|&(_, slot)| slot), "the wrong entry is first");
        let mut count = 0;
        self.heap.check_invariants(&self.owner, |entry, position| {
            let slot = entry.slot;
            assert_eq!(self.owner.positions[slot as usize], position, "a position is wrong");
            assert!(self.sorted.iter().any(|&(_, known)| known == slot), "an entry is a stranger");
            count += 1;
        });
        assert_eq!(count, self.sorted.len());
    }
}

fn operation(ranks: u64) -> impl Strategy<Value = Operation> {
    let rank = prop_oneof![4 => 0..ranks, 1 => any::<u64>()];
    prop_oneof![
        5 => (rank, 0..4_u8, any::<bool>())
            .prop_map(|(rank, exact, newest_first)| Operation::Push { rank, exact, newest_first }),
        2 => Just(Operation::Pop),
        2 => any::<usize>().prop_map(Operation::Remove),
    ]
}

/// Few ranks, so that ties and saturated ranks (0) are common.
fn operations() -> impl Strategy<Value = Vec<Operation>> {
    (1..5_u64).prop_flat_map(|ranks| prop::collection::vec(operation(ranks), 0..300))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn entries_pop_in_order_and_positions_stay_true(operations in operations()) {
        let mut simulation = Simulation::new();
        for operation in operations {
            simulation.apply(operation);
            simulation.check();
        }
        while !simulation.sorted.is_empty() {
            simulation.apply(Operation::Pop);
        }
        simulation.check();
    }
}

#[test]
fn large_heap_pops_in_order() {
    let mut simulation = Simulation::new();
    for number in 0..20_000_u64 {
        simulation.push(
            number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54,
            (number % 3) as u8,
            false,
        );
    }
    simulation.check_positions();
    let mut left = Vec::new();
    while let Some(entry) = simulation.heap.pop(&mut simulation.owner) {
        left.push(entry.slot);
    }
    let expected: Vec<u32> = simulation.sorted.iter().map(|&(_, slot)| slot).collect();
    assert_eq!(left, expected);
}

#[test]
fn entries_of_a_large_heap_are_announced_before_they_leave() {
    let (mut heap, mut owner) = (Heap::default(), Owner::default());
    let count = u32::try_from(LARGE + 3_000).unwrap();
    owner.positions = vec![0; count as usize];
    for slot in 0..count {
        let tie = u64::from(slot);
        let rank = 1 + (tie.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
        heap.push(HeapEntry { rank, tie, slot }, &mut owner);
    }
    assert!(owner.announced.get_mut().is_empty(), "no entry leaves yet");
    let (mut last, mut left, mut announced) = (0, 0, 0);
    while heap.is_large() {
        let before = owner.announced.borrow().clone();
        let entry = heap.pop(&mut owner).unwrap();
        assert!(last <= entry.rank, "the heap is out of order");
        last = entry.rank;
        left += 1;
        let (soon, next) = ((entry.slot, false), (entry.slot, true));
        announced += usize::from(before.contains(&soon) && before.contains(&next));
    }
    assert!(announced * 10 > left * 9, "{announced} of {left} were announced twice");
    owner.announced.get_mut().clear();
    heap.pop(&mut owner);
    assert!(owner.announced.get_mut().is_empty(), "the heap is no longer large");
}

impl Simulation {
    /// The part of [`Harness::check`] that does not take long.
    fn check_positions(&self) {
        self.heap.check_invariants(&self.owner, |entry, position| {
            let slot = entry.slot;
            assert_eq!(self.owner.positions[slot as usize], position, "a position is wrong");
        });
    }
}

//! The timer queue with many deadlines, against a `BTreeSet` of the same moments and keys whose
//! owner keeps each moment, to find it again.
//!
//! `arm_and_cancel` arms a deadline at a random moment and cancels a random one, as a slow peer
//! does; `lease` does so with one duration for all, as leases do, so that moments rise;
//! `arm_and_pop` lets the nearest one fire and arms another.

use crate::{ROUND, sized};
use divan::Bencher;
use jobcentre::base::rng::Rng;
use jobcentre::base::time::Mono;
use jobcentre::base::timer_queue::{TimerId, TimerQueue};
use std::collections::BTreeSet;

/// How far off deadlines are, in nanoseconds: 30 s.
const AHEAD: u64 = 30_000_000_000;
/// From one operation to the next, in nanoseconds.
const STEP: u64 = 1_000;
const COUNTS: [usize; 3] = [1_000, 100_000, 1_000_000];

/// What both sides can do. Owners are numbered, and have one deadline each.
trait Order {
    fn new(owners: usize) -> Self;
    fn arm(&mut self, at: Mono, owner: u32);
    fn cancel(&mut self, owner: u32);
    fn pop(&mut self) -> (Mono, u32);
}

struct Indexed {
    deadlines: TimerQueue<u32>,
    timers: Vec<TimerId>,
}

impl Order for Indexed {
    fn new(owners: usize) -> Self {
        Self { deadlines: TimerQueue::default(), timers: vec![TimerId::NONE; owners] }
    }

    fn arm(&mut self, at: Mono, owner: u32) {
        self.timers[owner as usize] = self.deadlines.arm(at, owner);
    }

    fn cancel(&mut self, owner: u32) {
        self.deadlines.cancel(std::mem::take(&mut self.timers[owner as usize]));
    }

    fn pop(&mut self) -> (Mono, u32) {
        let (at, owner) = self.deadlines.pop_due(Mono(u64::MAX)).expect("there are deadlines");
        self.timers[owner as usize] = TimerId::NONE;
        (at, owner)
    }
}

struct Tree {
    set: BTreeSet<(Mono, u32)>,
    moments: Vec<Mono>,
}

impl Order for Tree {
    fn new(owners: usize) -> Self {
        Self { set: BTreeSet::new(), moments: vec![Mono(0); owners] }
    }

    fn arm(&mut self, at: Mono, owner: u32) {
        self.moments[owner as usize] = at;
        self.set.insert((at, owner));
    }

    fn cancel(&mut self, owner: u32) {
        assert!(self.set.remove(&(self.moments[owner as usize], owner)));
    }

    fn pop(&mut self) -> (Mono, u32) {
        self.set.pop_first().expect("there are deadlines")
    }
}

/// As many owners as asked for, all with deadlines at random moments.
struct Model<T> {
    order: T,
    owners: u32,
    rng: Rng,
    now: u64,
}

impl<T: Order> Model<T> {
    fn new(count: usize) -> Self {
        let count = sized(count);
        let owners = u32::try_from(count).expect("a small number");
        let mut model = Self { order: T::new(count), owners, rng: Rng::new(9), now: 0 };
        for owner in 0..owners {
            model.arm(owner);
        }
        model
    }

    fn arm(&mut self, owner: u32) {
        self.order.arm(Mono(self.now + self.rng.below(AHEAD)), owner);
    }

    fn choose(&mut self) -> u32 {
        u32::try_from(self.rng.below(u64::from(self.owners))).expect("a small number")
    }
}

#[divan::bench(types = [Indexed, Tree], args = COUNTS)]
fn arm_and_cancel<T: Order>(bencher: Bencher, count: usize) {
    let mut model = Model::<T>::new(count);
    bencher.bench_local(|| {
        for _ in 0..ROUND {
            let owner = model.choose();
            model.order.cancel(owner);
            model.arm(owner);
        }
    });
}

#[divan::bench(types = [Indexed, Tree], args = COUNTS)]
fn lease<T: Order>(bencher: Bencher, count: usize) {
    let mut model = Model::<T>::new(count);
    bencher.bench_local(|| {
        for _ in 0..ROUND {
            model.now += STEP;
            let owner = model.choose();
            model.order.cancel(owner);
            model.order.arm(Mono(model.now + AHEAD), owner);
        }
    });
}

#[divan::bench(types = [Indexed, Tree], args = COUNTS)]
fn arm_and_pop<T: Order>(bencher: Bencher, count: usize) {
    let mut model = Model::<T>::new(count);
    bencher.bench_local(|| {
        for _ in 0..ROUND {
            let (at, owner) = model.order.pop();
            model.now = at.0;
            model.arm(owner);
        }
    });
}

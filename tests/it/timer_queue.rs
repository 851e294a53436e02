//! The timer queue against a sorted list: random arming, cancelling and firing. And a million
//! timers against the passes of a loop, of which none may fire late.

use crate::rng::TestRng;
use jobcentre::base::time::Mono;
use jobcentre::base::timer_queue::{TimerId, TimerQueue};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A moment as tests think of it.
#[derive(Clone, Copy, Debug)]
enum When {
    /// So long after now.
    In(u64),
    /// So long before now, as far as there is a before.
    Ago(u64),
    /// So long before the end of time, which is never.
    BeforeEnd(u64),
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Arm(When),
    /// Calls off what stands at this place in the sorted list, counted round.
    Cancel(usize),
    /// Calls it off and arms it anew, as a lease that is renewed.
    Renew(usize, When),
    /// Takes one that is due, if there is one.
    Fire,
    /// Lets time pass and takes all that are due then.
    Pass(u64),
}

struct Simulation {
    deadlines: TimerQueue<u64>,
    now: Mono,
    /// Moment and number of each, the next to fire first; numbers rise from arming to arming.
    sorted: Vec<(Mono, u64, TimerId)>,
    armed: u64,
}

impl Simulation {
    fn new(now: u64) -> Self {
        Self { deadlines: TimerQueue::default(), now: Mono(now), sorted: Vec::new(), armed: 0 }
    }

    fn arm(&mut self, when: When) {
        let at = Mono(match when {
            When::In(nanos) => self.now.0.saturating_add(nanos),
            When::Ago(nanos) => self.now.0.saturating_sub(nanos),
            When::BeforeEnd(nanos) => u64::MAX - nanos,
        });
        let timer = self.deadlines.arm(at, self.armed);
        assert!(!timer.is_none());
        let place = self.sorted.partition_point(|&(other, ..)| other <= at);
        self.sorted.insert(place, (at, self.armed, timer));
        self.armed += 1;
    }

    fn cancel(&mut self, place: usize) {
        if !self.sorted.is_empty() {
            let (at, _, timer) = self.sorted.remove(place % self.sorted.len());
            assert_eq!(self.deadlines.moment(timer), at);
            self.deadlines.cancel(timer);
        }
    }

    /// Whether one was due and fired, the right one of course.
    fn fire(&mut self) -> bool {
        let first = self.sorted.first().filter(|&&(at, ..)| at <= self.now);
        let expected = first.map(|&(at, number, _)| (at, number));
        assert_eq!(self.deadlines.pop_due(self.now), expected, "the wrong one fired");
        if expected.is_some() {
            self.sorted.remove(0);
        }
        expected.is_some()
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Arm(when) => self.arm(when),
            Operation::Cancel(place) => self.cancel(place),
            Operation::Renew(place, when) => {
                self.cancel(place);
                self.arm(when);
            }
            Operation::Fire => drop(self.fire()),
            Operation::Pass(nanos) => {
                self.now = Mono(self.now.0.saturating_add(nanos));
                while self.fire() {
                    self.check();
                }
                let next = self.deadlines.next();
                assert!(next.is_none_or(|at| at > self.now), "something due was left");
            }
        }
    }

    fn check(&self) {
        assert_eq!(self.deadlines.len(), self.sorted.len());
        assert_eq!(self.deadlines.is_empty(), self.sorted.is_empty());
        assert_eq!(self.deadlines.next(), self.sorted.first().map(|&(at, ..)| at), "next");
        let mut found = Vec::new();
        self.deadlines.check_invariants(|timer, at, number| {
            assert_eq!(self.deadlines.moment(timer), at);
            found.push((at, number, timer));
        });
        found.sort_unstable_by_key(|&(at, number, _)| (at, number));
        assert_eq!(found, self.sorted, "something was lost, or came from nowhere");
    }
}

/// Few moments, so that equal ones are common, and both ends of time.
fn when(spread: u64) -> impl Strategy<Value = When> {
    prop_oneof![
        6 => (0..spread).prop_map(When::In),
        1 => any::<u64>().prop_map(When::In),
        1 => (0..spread).prop_map(When::Ago),
        1 => (0..3_u64).prop_map(When::BeforeEnd),
    ]
}

fn operation(spread: u64) -> impl Strategy<Value = Operation> {
    prop_oneof![
        10 => when(spread).prop_map(Operation::Arm),
        3 => any::<usize>().prop_map(Operation::Cancel),
        2 => (any::<usize>(), when(spread)).prop_map(|(place, at)| Operation::Renew(place, at)),
        2 => Just(Operation::Fire),
        1 => (0..spread).prop_map(Operation::Pass),
    ]
}

/// When the clock begins, and what happens then. It may begin close to its end.
fn runs() -> impl Strategy<Value = (u64, Vec<Operation>)> {
    let starts = prop_oneof![Just(0), any::<u64>(), Just(u64::MAX - 5)];
    let operations = prop_oneof![1..4_u64, 1..1_000_u64]
        .prop_flat_map(|spread| prop::collection::vec(operation(spread), 0..300));
    (starts, operations)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn timers_fire_once_in_order_unless_cancelled((start, operations) in runs()) {
        let mut simulation = Simulation::new(start);
        for operation in operations {
            simulation.apply(operation);
            simulation.check();
        }
        simulation.apply(Operation::Pass(u64::MAX));
        assert!(simulation.deadlines.is_empty(), "a moment never comes");
        simulation.check();
    }
}

/// As many as the house wants to be fit for; fewer where each step costs ten times as much.
const MANY: usize = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
const PASSES: usize = 2_000;
const SECOND: usize = 1_000_000_000;

/// How far off deadlines of a server are, in nanoseconds: delays at random, leases and retention of
/// one length, back-off, and what is due at once.
fn ahead(rng: &mut TestRng) -> usize {
    match rng.below(10) {
        0..4 => rng.below(60 * SECOND),
        4..7 => 30 * SECOND,
        7 => SECOND << rng.below(6),
        8 => 3_600 * SECOND,
        _ => rng.below(2),
    }
}

/// What must be armed for an owner.
#[derive(Clone, Copy)]
struct Entry {
    at: Mono,
    number: u64,
    /// How many passes there had been when it was armed.
    passes: usize,
}

/// Many owners with one deadline each, and the passes of a loop that takes all that is due.
struct Loop {
    deadlines: TimerQueue<u32>,
    timers: Vec<TimerId>,
    entries: Vec<Option<Entry>>,
    /// Moment, number and owner of all entries.
    sorted: BTreeSet<(Mono, u64, u32)>,
    arms: u64,
    now: Mono,
    /// When the passes were.
    passes: Vec<Mono>,
    fired: usize,
    /// By how many passes the latest one came too late.
    latest: usize,
    rng: TestRng,
}

impl Loop {
    fn new(owners: usize, seed: u64) -> Self {
        let mut this = Self {
            deadlines: TimerQueue::default(),
            timers: vec![TimerId::NONE; owners],
            entries: vec![None; owners],
            sorted: BTreeSet::new(),
            arms: 0,
            now: Mono(0),
            passes: Vec::new(),
            fired: 0,
            latest: 0,
            rng: TestRng::new(seed),
        };
        for owner in 0..owners {
            this.arm(owner);
        }
        this
    }

    fn arm(&mut self, owner: usize) {
        assert!(self.timers[owner].is_none());
        let at = Mono(self.now.0 + ahead(&mut self.rng) as u64);
        let (key, number) = (u32::try_from(owner).unwrap(), self.arms);
        self.timers[owner] = self.deadlines.arm(at, key);
        assert!(self.sorted.insert((at, number, key)));
        self.entries[owner] = Some(Entry { at, number, passes: self.passes.len() });
        self.arms += 1;
    }

    fn cancel(&mut self, owner: usize) {
        let timer = std::mem::take(&mut self.timers[owner]);
        let Entry { at, number, .. } = self.entries[owner].take().unwrap();
        assert_eq!(self.deadlines.moment(timer), at);
        self.deadlines.cancel(timer);
        assert!(self.sorted.remove(&(at, number, u32::try_from(owner).unwrap())));
    }

    /// Arms, renews or cancels the timer of a random key.
    fn touch(&mut self) {
        let owner = self.rng.below(self.timers.len());
        if self.timers[owner].is_none() {
            self.arm(owner);
        } else {
            self.cancel(owner);
            if self.rng.percent(70) {
                self.arm(owner);
            }
        }
        self.check_next();
    }

    fn check_next(&self) {
        let first = self.sorted.first().map(|&(at, ..)| at);
        assert_eq!(self.deadlines.next(), first, "the next deadline is not exact");
    }

    /// Fires all that is due.
    fn pass(&mut self) {
        while let Some((at, owner)) = self.deadlines.pop_due(self.now) {
            let (first, _, expected) = self.sorted.pop_first().unwrap();
            assert_eq!((at, owner), (first, expected), "the wrong one fired");
            self.timers[owner as usize] = TimerId::NONE;
            let entry = self.entries[owner as usize].take().unwrap();
            let due = self.passes.partition_point(|&pass| pass < at).max(entry.passes);
            self.latest = self.latest.max(self.passes.len() - due);
            self.fired += 1;
        }
        self.check_next();
        assert!(self.deadlines.next().is_none_or(|at| at > self.now), "something due was left");
        self.passes.push(self.now);
    }

    /// Until the next pass: most often exactly until something is due.
    fn sleep(&mut self) {
        let left = self.deadlines.next().map_or(0, |at| at.0 - self.now.0);
        self.now.0 += match self.rng.below(100) {
            0 => 10 * SECOND as u64,
            1..50 => self.rng.below(SECOND / 10) as u64,
            _ => left,
        };
    }
}

#[test]
fn many_timers_fire_on_time() {
    let mut simulation = Loop::new(MANY, 11);
    for _ in 0..PASSES {
        simulation.sleep();
        for _ in 0..simulation.rng.below(MANY / 500) {
            simulation.touch();
        }
        simulation.pass();
    }
    simulation.deadlines.check_invariants(|timer, at, owner| {
        assert_eq!(simulation.timers[owner as usize], timer);
        assert_eq!(simulation.entries[owner as usize].map(|entry| entry.at), Some(at));
    });
    simulation.now = Mono(u64::MAX);
    simulation.pass();
    assert!(simulation.deadlines.is_empty() && simulation.sorted.is_empty());
    let Loop { arms, fired, latest, .. } = simulation;
    println!("{MANY} at once, {arms} armed, {fired} fired, the latest {latest} passes late");
    assert!(fired > MANY, "too few: {fired} fired");
    assert_eq!(latest, 0, "a pass has missed some");
}

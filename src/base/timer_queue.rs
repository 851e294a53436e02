//! Deadlines: delays, leases, retention, timeouts of sessions.
//!
//! One structure for all of them, exact to the nanosecond, and fit for a million. Deadlines that
//! are armed in their own order, as leases of one length are, stand in a few sorted lists
//! (`timer_runs`); all others are in an indexed heap. A cancelled deadline leaves nothing behind,
//! however far off it was.
//!
//! Invariants: an armed deadline fires at the first [`TimerQueue::pop_due`] loop at or after its
//! moment, or is cancelled, and never both; earlier moments fire first, equal ones in the order of
//! arming; every timer knows its position in the heap.

use crate::base::heap::{Heap, HeapEntry, PositionMap};
use crate::base::paged::PagedSlab;
use crate::base::time::Mono;
use crate::base::timer_runs::{Found, RUN_ENTRIES_MAX, TimerRuns};
use std::cmp::Ordering;
use std::num::NonZeroU32;

/// Handle of an armed deadline, which its owner keeps until the deadline has fired or was
/// cancelled. After that the same handle may be another deadline's: the owner has to drop it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerId(u32);

impl TimerId {
    /// No deadline.
    pub const NONE: Self = Self(u32::MAX);

    /// Whether this is [`TimerId::NONE`].
    #[must_use]
    #[inline]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

impl Default for TimerId {
    fn default() -> Self {
        Self::NONE
    }
}

/// Handles from here on are of timers in runs.
const RUN_HANDLES: u32 = u32::MAX - RUN_ENTRIES_MAX;

impl TimerId {
    #[inline]
    fn of_run(slot: u32) -> Self {
        Self(RUN_HANDLES + slot)
    }

    /// The handle as a number, which is not `u32::MAX`, for a field that holds other numbers at
    /// other times.
    #[must_use]
    #[inline]
    pub fn bits(self) -> u32 {
        self.0
    }

    /// The handle that [`TimerId::bits`] has returned these bits for.
    #[must_use]
    #[inline]
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The slot of a timer in a run.
    #[inline]
    fn run_slot(self) -> Option<u32> {
        self.0.checked_sub(RUN_HANDLES)
    }
}

/// Armed deadlines, each with a key that says what is due: 24 bytes and a key for each. Holds up to
/// 15 * 2^28 that are not in runs.
#[derive(Debug)]
pub struct TimerQueue<K> {
    heap: Heap,
    timers: TimerPositions<K>,
    runs: TimerRuns<K>,
    /// How many were ever armed: the order among equal moments.
    arms: u64,
}

#[derive(Debug)]
struct ArmedTimer<K> {
    key: K,
    /// One more than the position in the heap: what can not be 0 needs no tag in the slab.
    place: NonZeroU32,
}

impl<K> ArmedTimer<K> {
    #[inline]
    fn position(&self) -> u32 {
        self.place.get() - 1
    }
}

#[derive(Debug)]
struct TimerPositions<K>(PagedSlab<ArmedTimer<K>>);

impl<K> PositionMap for TimerPositions<K> {
    type Index = u32;

    #[inline]
    fn moved(&mut self, slot: u32, position: u32) {
        self.0[slot].place = NonZeroU32::MIN.saturating_add(position);
    }

    /// Ranks are moments, and 0 is one like any other.
    fn compare_exactly(&self, _: u32, _: u32) -> Ordering {
        Ordering::Equal
    }
}

impl<K> Default for TimerQueue<K> {
    fn default() -> Self {
        let timers = TimerPositions(PagedSlab::default());
        Self { heap: Heap::default(), timers, runs: TimerRuns::default(), arms: 0 }
    }
}

impl<K: Copy> TimerQueue<K> {
    /// How many are armed. O(1).
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len() + self.runs.len()
    }

    /// Whether none is armed. O(1).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Arms a deadline for `key`: at `at`, or at once if that has passed. O(1) for moments that
    /// rise; else O(log n), O(1) on average for random moments.
    ///
    /// # Panics
    /// With 15 * 2^28 deadlines at once: callers bound that.
    #[must_use = "without the handle a deadline can not be cancelled"]
    #[inline]
    pub fn arm(&mut self, at: Mono, key: K) -> TimerId {
        self.arms += 1;
        match self.runs.arm(at, self.arms, key) {
            Some(slot) => TimerId::of_run(slot),
            None => self.arm_in_heap(at, key),
        }
    }

    #[inline(never)]
    fn arm_in_heap(&mut self, at: Mono, key: K) -> TimerId {
        let slot = self.timers.0.insert(ArmedTimer { key, place: NonZeroU32::MAX });
        assert!(slot < RUN_HANDLES, "from here on handles are of timers in runs");
        self.heap.push(HeapEntry { rank: at.0, tie: self.arms, slot }, &mut self.timers);
        debug_assert!(
            self.heap.len() == self.timers.0.len() && self.moment(TimerId(slot)) == at,
            "a timer is armed for another moment, or has no entry"
        );
        TimerId(slot)
    }

    /// The place of a timer in the order of firing: its moment, and its rank among equal ones.
    /// O(1).
    ///
    /// # Panics
    /// If it is not armed.
    #[must_use]
    pub fn order(&self, timer: TimerId) -> (u64, u64) {
        if let Some(slot) = timer.run_slot() {
            let found = self.in_run(slot);
            return (found.at.0, found.tie);
        }
        let entry = self.heap.at(self.armed(timer).position());
        (entry.rank, entry.tie)
    }

    /// Armed timers in the order of firing, each with its place in it. O(log k) for the k-th.
    pub fn in_order(&self) -> impl Iterator<Item = ((u64, u64), K)> {
        let order = |entry: &HeapEntry| (entry.rank, entry.tie);
        let entries = self.heap.in_order(order);
        let entries = entries.map(move |entry| (order(&entry), self.timers.0[entry.slot].key));
        let runs = self.runs.in_order().map(|found| ((found.at.0, found.tie), found.key));
        let (mut entries, mut runs) = (entries.peekable(), runs.peekable());
        std::iter::from_fn(move || match (entries.peek(), runs.peek()) {
            (Some(entry), Some(found)) if entry.0 < found.0 => entries.next(),
            (Some(_), None) => entries.next(),
            _ => runs.next(),
        })
    }

    /// Calls `timer` off. O(1) for one that was armed behind earlier moments; else O(log n), O(1)
    /// on average.
    ///
    /// # Panics
    /// If it is not armed: its owner has forgotten to forget it.
    #[inline]
    pub fn cancel(&mut self, timer: TimerId) {
        match timer.run_slot() {
            Some(slot) => {
                // Proof: the documented duty of the caller.
                self.runs.remove(slot).expect("the owner of a timer knows whether it is armed");
            }
            None => self.cancel_in_heap(timer),
        }
    }

    #[inline(never)]
    fn cancel_in_heap(&mut self, timer: TimerId) {
        let position = self.armed(timer).position();
        let removed = self.heap.remove(position, &mut self.timers).slot;
        assert!(removed == timer.0, "a timer knows its position");
        self.timers.0.remove(removed);
    }

    /// When `timer` is due. O(1).
    ///
    /// # Panics
    /// If it is not armed.
    #[must_use]
    pub fn moment(&self, timer: TimerId) -> Mono {
        if let Some(slot) = timer.run_slot() {
            return self.in_run(slot).at;
        }
        let entry = self.heap.at(self.armed(timer).position());
        let slot = entry.slot;
        assert!(slot == timer.0, "a timer knows its position");
        Mono(entry.rank)
    }

    fn armed(&self, timer: TimerId) -> &ArmedTimer<K> {
        // Proof: the documented duty of the caller.
        self.timers.0.get(timer.0).expect("the owner of a timer knows whether it is armed")
    }

    fn in_run(&self, slot: u32) -> Found<K> {
        // Proof: the documented duty of the caller.
        self.runs.get(slot).expect("the owner of a timer knows whether it is armed")
    }

    /// The earliest armed moment. O(1).
    #[must_use]
    #[inline]
    pub fn next(&self) -> Option<Mono> {
        let in_runs = self.runs.next_at();
        match self.heap.peek() {
            Some(entry) => Some(Mono(entry.rank).min(in_runs)),
            None if self.runs.len() == 0 => None,
            None => Some(in_runs),
        }
    }

    /// Takes out one deadline that is due at `now`, the earliest first, and returns its moment and
    /// key; its handle names nothing any more. O(log n).
    pub fn pop_due(&mut self, now: Mono) -> Option<(Mono, K)> {
        let in_heap = self.heap.peek().map(|entry| (entry.rank, entry.tie));
        if self.runs.next_at() <= now
            && let Some(first) = self.runs.first()
            && in_heap.is_none_or(|in_heap| (first.at.0, first.tie) < in_heap)
        {
            return self.runs.remove(first.slot).map(|first| (first.at, first.key));
        }
        if in_heap?.0 > now.0 {
            return None;
        }
        let entry = self.heap.pop(&mut self.timers)?;
        let armed = self.timers.0.remove(entry.slot).expect("an entry names a timer");
        assert!(armed.position() == 0, "what fires was the first");
        debug_assert!(
            self.next().is_none_or(|next| next.0 >= entry.rank),
            "a deadline fires before an earlier one"
        );
        Some((Mono(entry.rank), armed.key))
    }

    /// Asserts order and positions, and hands each armed deadline to `check`. O(n): for tests and
    /// the simulator.
    pub fn check_invariants(&self, mut check: impl FnMut(TimerId, Mono, K)) {
        assert_eq!(self.heap.len(), self.timers.0.len(), "a timer without an entry, or too many");
        self.heap.check_invariants(&self.timers, |entry, position| {
            let armed = self.armed(TimerId(entry.slot));
            assert_eq!(armed.position(), position, "a timer has lost its position");
            let tie = entry.tie;
            assert!(tie <= self.arms, "an entry was never armed");
            check(TimerId(entry.slot), Mono(entry.rank), armed.key);
        });
        self.runs.check_invariants();
        for found in self.runs.in_order() {
            assert!(found.tie <= self.arms, "an entry was never armed");
            check(TimerId::of_run(found.slot), found.at, found.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Rng;
    use std::collections::BTreeMap;

    const END: u64 = u64::MAX;

    fn drain(deadlines: &mut TimerQueue<u8>, now: Mono) -> Vec<(u64, u8)> {
        std::iter::from_fn(|| deadlines.pop_due(now)).map(|(at, key)| (at.0, key)).collect()
    }

    #[test]
    fn due_ones_come_in_order_and_cancelled_ones_never() {
        let mut deadlines = TimerQueue::default();
        let [_, second, _, _] =
            [(30, 3), (20, 2), (10, 1), (20, 4)].map(|(at, key)| deadlines.arm(Mono(at), key));
        assert_eq!((deadlines.moment(second), deadlines.len()), (Mono(20), 4));
        deadlines.cancel(second);
        assert_eq!(deadlines.next(), Some(Mono(10)));
        assert_eq!(drain(&mut deadlines, Mono(9)), []);
        assert_eq!(drain(&mut deadlines, Mono(20)), [(10, 1), (20, 4)]);
        assert_eq!(deadlines.next(), Some(Mono(30)));
        assert_eq!(drain(&mut deadlines, Mono(END)), [(30, 3)]);
        assert!(deadlines.is_empty() && deadlines.next().is_none());
    }

    #[test]
    fn both_ends_of_time_are_moments_like_any_other() {
        let mut deadlines = TimerQueue::default();
        for (at, key) in [(END, 1), (0, 2), (END - 1, 3), (END, 4), (1, 5), (0, 6)] {
            let timer = deadlines.arm(Mono(at), key);
            assert_eq!(deadlines.moment(timer), Mono(at));
        }
        assert_eq!(drain(&mut deadlines, Mono(0)), [(0, 2), (0, 6)]);
        assert_eq!(drain(&mut deadlines, Mono(END - 1)), [(1, 5), (END - 1, 3)]);
        assert_eq!(drain(&mut deadlines, Mono(END)), [(END, 1), (END, 4)]);
    }

    /// Against a sorted map, with lengths that are few, and then random.
    #[test]
    fn random_timers_fire_in_the_order_of_their_moments() {
        let mut rng = Rng::new(3);
        let (mut deadlines, mut model) = (TimerQueue::default(), BTreeMap::new());
        let (mut now, mut armed) = (0, 0);
        for round in 0..60_000_u64 {
            let lengths = if round < 30_000 { 6 } else { 1_000 };
            match rng.below(10) {
                0..5 => {
                    armed += 1;
                    let at = now + 50 * rng.below(lengths);
                    let timer = deadlines.arm(Mono(at), armed);
                    model.insert((at, armed), timer);
                }
                5..8 => {
                    let from = (rng.below(now + 300), 0);
                    let Some((&key, &timer)) = model.range(from..).next() else { continue };
                    assert_eq!(
                        (deadlines.moment(timer), deadlines.order(timer).0),
                        (Mono(key.0), key.0)
                    );
                    deadlines.cancel(timer);
                    model.remove(&key);
                }
                _ => {
                    now += rng.below(60);
                    while let Some((at, number)) = deadlines.pop_due(Mono(now)) {
                        let ((first, armed), _) = model.pop_first().unwrap();
                        assert_eq!((at, number), (Mono(first), armed));
                    }
                }
            }
            let first = model.first_key_value().map(|(&(at, _), _)| Mono(at));
            assert_eq!((deadlines.next(), deadlines.len()), (first, model.len()));
            if round % 1_000 == 0 {
                let order = deadlines.in_order().map(|((at, _), number)| (at, number));
                assert!(order.eq(model.keys().copied()));
                let mut checked = 0;
                deadlines.check_invariants(|timer, at, number| {
                    assert_eq!(model.get(&(at.0, number)), Some(&timer));
                    checked += 1;
                });
                assert_eq!(checked, model.len());
            }
        }
    }

    #[test]
    #[should_panic(expected = "knows whether it is armed")]
    fn a_timer_that_has_fired_is_not_to_be_cancelled() {
        let mut deadlines = TimerQueue::default();
        let timer = deadlines.arm(Mono(1), 1);
        assert_eq!(drain(&mut deadlines, Mono(1)), [(1, 1)]);
        deadlines.cancel(timer);
    }

    #[test]
    #[should_panic(expected = "knows whether it is armed")]
    fn none_is_never_armed() {
        assert!(TimerId::NONE.is_none());
        let _ = TimerQueue::<u8>::default().moment(TimerId::NONE);
    }
}

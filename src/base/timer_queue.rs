//! Deadlines: delays, leases, retention, timeouts of sessions.
//!
//! One structure for all of them, exact to the nanosecond, and fit for a million: an indexed heap,
//! so that a cancelled deadline leaves nothing behind, however far off it was.
//!
//! Invariants: an armed deadline fires at the first [`TimerQueue::pop_due`] loop at or after its
//! moment, or is cancelled, and never both; earlier moments fire first, equal ones in the order of
//! arming; every timer knows its position in the heap.

use crate::base::heap::{Heap, HeapEntry, PositionMap};
use crate::base::paged::PagedSlab;
use crate::base::time::Mono;
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

/// Armed deadlines, each with a key that says what is due: 24 bytes and a key for each. Holds up to
/// 2^32 - 1.
#[derive(Debug)]
pub struct TimerQueue<K> {
    heap: Heap,
    timers: TimerPositions<K>,
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
        Self { heap: Heap::default(), timers: TimerPositions(PagedSlab::default()), arms: 0 }
    }
}

impl<K: Copy> TimerQueue<K> {
    /// How many are armed. O(1).
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether none is armed. O(1).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Arms a deadline for `key`: at `at`, or at once if that has passed. O(log n); O(1) on average
    /// for random moments, and for moments that rise.
    ///
    /// # Panics
    /// With 2^32 - 1 deadlines at once: callers bound that.
    #[must_use = "without the handle a deadline can not be cancelled"]
    pub fn arm(&mut self, at: Mono, key: K) -> TimerId {
        let slot = self.timers.0.insert(ArmedTimer { key, place: NonZeroU32::MAX });
        assert!(slot != TimerId::NONE.0, "the last slot is the handle that names none");
        self.arms += 1;
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
        let entry = self.heap.at(self.armed(timer).position());
        (entry.rank, entry.tie)
    }

    /// Armed timers in the order of firing, each with its place in it. O(log k) for the k-th.
    pub fn in_order(&self) -> impl Iterator<Item = ((u64, u64), K)> {
        let key = |entry: &HeapEntry| (entry.rank, entry.tie);
        let entries = self.heap.in_order(key);
        entries.map(move |entry| (key(&entry), self.timers.0[entry.slot].key))
    }

    /// Calls `timer` off. O(log n), O(1) on average.
    ///
    /// # Panics
    /// If it is not armed: its owner has forgotten to forget it.
    pub fn cancel(&mut self, timer: TimerId) {
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
        let entry = self.heap.at(self.armed(timer).position());
        let slot = entry.slot;
        assert!(slot == timer.0, "a timer knows its position");
        Mono(entry.rank)
    }

    fn armed(&self, timer: TimerId) -> &ArmedTimer<K> {
        // Proof: the documented duty of the caller.
        self.timers.0.get(timer.0).expect("the owner of a timer knows whether it is armed")
    }

    /// The earliest armed moment. O(1).
    #[must_use]
    #[inline]
    pub fn next(&self) -> Option<Mono> {
        self.heap.peek().map(|entry| Mono(entry.rank))
    }

    /// Takes out one deadline that is due at `now`, the earliest first, and returns its moment and
    /// key; its handle names nothing any more. O(log n).
    pub fn pop_due(&mut self, now: Mono) -> Option<(Mono, K)> {
        if self.next()? > now {
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

//! Deadlines that were armed in their own order: leases of one length, timeouts of one length.
//!
//! A run is a linked list whose moments rise. A deadline is added to the run whose last moment is
//! the latest one that is not after it, and can be taken out from the middle, both in constant
//! time. A deadline that fits behind no run is left to the caller's heap.
//!
//! Invariants: within a run moments never fall and ties rise; a run that is not empty knows its
//! first and last entry.

use super::paged::PagedSlab;
use super::time::Mono;

/// Runs. With as many lengths of leases in use at a time none of them needs the heap.
const RUNS: usize = 4;

/// Entries of all runs together, at most.
pub(super) const RUN_ENTRIES_MAX: u32 = (1 << 28) - (1 << 12);

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Run {
    first: u32,
    last: u32,
    /// The moment of the first entry; if there is none, the last moment there is.
    first_at: Mono,
    /// The moment of the last entry; 0 if there is none.
    last_at: Mono,
}

const END: Mono = Mono(u64::MAX);

const EMPTY: Run = Run { first: NONE, last: NONE, first_at: END, last_at: Mono(0) };

#[derive(Debug)]
struct RunEntry<K> {
    at: Mono,
    tie: u64,
    key: K,
    previous: u32,
    next: u32,
}

/// An entry, and where it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<K> {
    pub(super) at: Mono,
    pub(super) tie: u64,
    pub(super) slot: u32,
    pub(super) key: K,
}

#[derive(Debug)]
pub(super) struct TimerRuns<K> {
    entries: PagedSlab<RunEntry<K>>,
    runs: [Run; RUNS],
    /// The least last moment of a run: what is before it fits behind none.
    fits_from: Mono,
}

impl<K> Default for TimerRuns<K> {
    fn default() -> Self {
        let entries = PagedSlab::default();
        Self { entries, runs: [EMPTY; RUNS], fits_from: Mono(0) }
    }
}

impl<K: Copy> TimerRuns<K> {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds an entry, whose tie is larger than all before. `None`: it fits behind no run. O(1).
    #[inline]
    pub(super) fn arm(&mut self, at: Mono, tie: u64, key: K) -> Option<u32> {
        if at < self.fits_from {
            return None;
        }
        let mut best: Option<&mut Run> = None;
        for run in &mut self.runs {
            if run.last_at <= at && best.as_ref().is_none_or(|best| best.last_at < run.last_at) {
                best = Some(run);
            }
        }
        let run = best?;
        if self.entries.len() >= RUN_ENTRIES_MAX as usize {
            return None;
        }
        let entry = RunEntry { at, tie, key, previous: run.last, next: NONE };
        let slot = self.entries.insert(entry);
        let former = std::mem::replace(&mut run.last, slot);
        run.last_at = at;
        if former == NONE {
            (run.first, run.first_at) = (slot, at);
        } else {
            self.entries[former].next = slot;
        }
        self.note_ends();
        Some(slot)
    }

    #[inline]
    fn note_ends(&mut self) {
        let [a, b, c, d] = self.runs.map(|run| run.last_at);
        self.fits_from = a.min(b).min(c.min(d));
    }

    /// Takes an entry out, if there is one in this slot. O(1).
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) -> Option<Found<K>> {
        let RunEntry { at, tie, key, previous, next } = self.entries.remove(slot)?;
        if previous != NONE {
            self.entries[previous].next = next;
        }
        if next != NONE {
            self.entries[next].previous = previous;
        }
        if previous == NONE {
            let after = if next == NONE { END } else { self.entries[next].at };
            // Proof: an entry without one before it is the first of a run.
            let run = self.runs.iter_mut().find(|run| run.first == slot);
            let run = run.expect("an entry is in a run");
            (run.first, run.first_at) = (next, after);
        }
        if next == NONE {
            let before = if previous == NONE { Mono(0) } else { self.entries[previous].at };
            // Proof: an entry without one behind it is the last of a run.
            let run = self.runs.iter_mut().find(|run| run.last == slot);
            let run = run.expect("an entry is in a run");
            (run.last, run.last_at) = (previous, before);
            self.note_ends();
        }
        Some(Found { at, tie, slot, key })
    }

    /// The moment of the first entry; if there is none, the last moment there is. O(1).
    #[inline]
    pub(super) fn next_at(&self) -> Mono {
        let [a, b, c, d] = self.runs.map(|run| run.first_at);
        a.min(b).min(c.min(d))
    }

    /// The entry in this slot, if there is one. O(1).
    pub(super) fn get(&self, slot: u32) -> Option<Found<K>> {
        let &RunEntry { at, tie, key, .. } = self.entries.get(slot)?;
        Some(Found { at, tie, slot, key })
    }

    /// The entry that is due first. O(1).
    #[inline]
    pub(super) fn first(&self) -> Option<Found<K>> {
        let first = |run: &Run| self.get(run.first);
        self.runs.iter().filter_map(first).min_by_key(|found| (found.at, found.tie))
    }

    /// The entries in the order of their moments. O(1) for each.
    pub(super) fn in_order(&self) -> impl Iterator<Item = Found<K>> {
        let mut heads = self.runs.map(|run| run.first);
        std::iter::from_fn(move || {
            let found = heads.iter().filter_map(|&head| self.get(head));
            let first = found.min_by_key(|found| (found.at, found.tie))?;
            for head in &mut heads {
                if *head == first.slot {
                    *head = self.entries[first.slot].next;
                }
            }
            Some(first)
        })
    }

    /// Asserts order and links. O(n): for tests and the simulator.
    pub(super) fn check_invariants(&self) {
        let mut seen = 0;
        for run in &self.runs {
            let (mut at, mut tie, mut previous) = (Mono(0), 0, NONE);
            let first_at = self.get(run.first).map_or(END, |first| first.at);
            assert_eq!(run.first_at, first_at, "a run begins elsewhere");
            let mut slot = run.first;
            while let Some(entry) = self.entries.get(slot) {
                assert!(entry.at >= at && entry.tie > tie, "a run is not in order");
                assert_eq!(entry.previous, previous, "a run is linked wrongly");
                (at, tie, previous) = (entry.at, entry.tie, slot);
                (slot, seen) = (entry.next, seen + 1);
            }
            assert_eq!((slot, run.last, run.last_at), (NONE, previous, at), "a run ends elsewhere");
        }
        assert_eq!(seen, self.entries.len(), "an entry is in no run");
        let fits_from = self.runs.iter().map(|run| run.last_at).min();
        assert_eq!(Some(self.fits_from), fits_from, "what fits behind a run is not known");
    }
}

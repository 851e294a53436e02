//! Moments at which something is due: exact next deadline, O(log n) to arm and to cancel.

use crate::base::time::Mono;
use std::collections::BTreeSet;

/// A set of `(moment, key)` pairs. The owner of a key remembers its armed moment, so that it can
/// cancel it; a key may be armed at several moments.
#[derive(Debug)]
pub struct Deadlines<K> {
    armed: BTreeSet<(Mono, K)>,
}

impl<K: Ord + Copy> Default for Deadlines<K> {
    fn default() -> Self {
        Self { armed: BTreeSet::new() }
    }
}

impl<K: Ord + Copy> Deadlines<K> {
    /// Arms `key` at `at`. O(log n).
    pub fn arm(&mut self, at: Mono, key: K) {
        self.armed.insert((at, key));
    }

    /// Cancels what was armed for `key` at `at`; tells whether it was still armed. O(log n).
    pub fn cancel(&mut self, at: Mono, key: K) -> bool {
        self.armed.remove(&(at, key))
    }

    /// The earliest armed moment. O(log n).
    #[must_use]
    pub fn next(&self) -> Option<Mono> {
        self.armed.first().map(|&(at, _)| at)
    }

    /// Takes out one pair that is due at `now`, the earliest first. O(log n).
    pub fn pop_due(&mut self, now: Mono) -> Option<(Mono, K)> {
        let &(at, key) = self.armed.first()?;
        if at > now {
            return None;
        }
        self.armed.remove(&(at, key));
        Some((at, key))
    }
}

#[cfg(test)]
mod tests {
    use super::{Deadlines, Mono};

    #[test]
    fn due_ones_come_in_order_and_cancelled_ones_never() {
        let mut deadlines = Deadlines::default();
        deadlines.arm(Mono(30), 3);
        deadlines.arm(Mono(10), 1);
        deadlines.arm(Mono(20), 2);
        assert!(deadlines.cancel(Mono(20), 2));
        assert!(!deadlines.cancel(Mono(20), 2));
        assert_eq!(deadlines.next(), Some(Mono(10)));
        assert_eq!(deadlines.pop_due(Mono(9)), None);
        assert_eq!(deadlines.pop_due(Mono(40)), Some((Mono(10), 1)));
        assert_eq!(deadlines.pop_due(Mono(40)), Some((Mono(30), 3)));
        assert_eq!(deadlines.next(), None);
    }
}

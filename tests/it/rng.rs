//! The server's seeded generator, with functions for generators of test data.

use jobcentre::base::rng::Rng;

/// A seeded source of choices.
#[derive(Debug)]
pub(crate) struct TestRng(Rng);

impl TestRng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rng::new(seed))
    }

    pub(crate) fn seed(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from 0 up to but not including `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.0.below(bound as u64)).unwrap()
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True with this probability, in percent.
    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    pub(crate) fn word(&mut self, from: &[&'static str]) -> &'static str {
        self.pick::<&'static str>(from)
    }

    pub(crate) fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            things.swap(last, self.below(last + 1));
        }
    }
}

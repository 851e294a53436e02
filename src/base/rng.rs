//! A small seeded generator (`SplitMix64`), so that everything random can be replayed from its
//! seed.
//!
//! Not for secrets. The seed comes from the owner of entropy: the command line in production, the
//! simulator in tests.

/// A seeded pseudo-random generator. Generators with equal seeds give equal numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator that starts from `seed`; every seed is as good as another.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 uniformly distributed bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to but not including `bound`.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a random number below zero was asked for");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True once in `n` times on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn one_seed_gives_one_sequence_within_bounds() {
        let (mut first, mut second) = (Rng::new(7), Rng::new(7));
        let mut seen = [false; 10];
        for _ in 0..1_000 {
            let number = first.below(10);
            assert_eq!(number, second.below(10));
            seen[usize::try_from(number).unwrap()] = true;
        }
        assert_eq!(seen, [true; 10]);
    }
}

//! Chance, where it comes into the program: bits from the system that nobody can guess.
//!
//! Below the reactor chance is handed in, so that a simulator can replay it. What is handed in is
//! drawn here: seeds of generators and of hashes, salts, a UUID. They are no keys of cryptography.

use std::hash::{BuildHasher, RandomState};

/// 64 bits, other ones with each call and in each run. They come from the keys of a fresh hash: the
/// system's entropy, asked for once in a thread and counted up from then on. What is hashed does
/// not matter.
pub(super) fn draw() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::draw;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_draws_are_alike() {
        let drawn: BTreeSet<u64> = (0..1_000).map(|_| draw()).collect();
        assert_eq!(drawn.len(), 1_000);
    }
}

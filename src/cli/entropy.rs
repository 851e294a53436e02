//! Random numbers from the system.
//!
//! Below the reactor randomness is a parameter, so that a simulator can replay a run. These are the
//! values of that parameter: seeds of generators and hashes, salts, a UUID. They are unpredictable,
//! but not cryptographic keys.

use ring::rand::{SecureRandom, SystemRandom};
use std::hash::{BuildHasher, RandomState};

/// 64 random bits, different in each call and each run. They are the hash of a constant under new
/// keys of `RandomState`, which come from the system's entropy once a thread and are incremented
/// from then on.
#[expect(clippy::disallowed_methods, reason = "entropy comes from here")]
pub(super) fn random_u64() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// 256 random bits of the system, good for keys.
///
/// # Errors
/// The system has none.
pub(super) fn secret() -> Result<[u8; 32], &'static str> {
    let mut bytes = [0; 32];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map(|()| bytes).map_err(|_| "the system has no random numbers")
}

#[cfg(test)]
mod tests {
    use super::random_u64;
    use std::collections::BTreeSet;

    #[test]
    fn random_values_differ() {
        let values: BTreeSet<u64> = (0..1_000).map(|_| random_u64()).collect();
        assert_eq!(values.len(), 1_000);
    }
}

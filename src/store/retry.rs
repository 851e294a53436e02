//! The backoff before a retry.

use crate::base::rng::Rng;
use crate::model::job::Retry;

/// The backoff before retry number `retry`, counted from 1, in milliseconds: `min(first *
/// factor^(retry-1), max)`, up to `jitter_percent` shorter or longer. O(64).
pub(super) fn backoff_ms(policy: &Retry, retry: u32, rng: &mut Rng) -> u64 {
    debug_assert!(retry > 0, "retries are counted from 1");
    let factor = u64::from(policy.factor.max(1));
    let mut wait = policy.first_ms.min(policy.max_ms);
    if factor > 1 && wait > 0 {
        for _ in 1..retry {
            if wait >= policy.max_ms {
                break;
            }
            wait = wait.saturating_mul(factor).min(policy.max_ms);
        }
    }
    // Hundreds first, so that nothing overflows.
    let most = wait / 100 * u64::from(policy.jitter_percent.min(100))
        + wait % 100 * u64::from(policy.jitter_percent.min(100)) / 100;
    debug_assert!(
        most <= wait && wait <= policy.max_ms,
        "a backoff is bounded, and its jitter is a part of it"
    );
    if most == 0 {
        return wait;
    }
    (wait - most).saturating_add(rng.below(2 * most.min(u64::MAX / 4) + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Retry =
        Retry { limit: 9, first_ms: 1_000, factor: 2, max_ms: 3_600_000, jitter_percent: 10 };

    #[test]
    fn backoff_doubles_up_to_maximum_within_jitter() {
        let mut rng = Rng::new(4);
        for (retry, expected) in
            [(1, 1_000), (2, 2_000), (3, 4_000), (12, 2_048_000), (13, 3_600_000), (99, 3_600_000)]
        {
            let (mut least, mut most) = (u64::MAX, 0);
            for _ in 0..2_000 {
                let wait = backoff_ms(&POLICY, retry, &mut rng);
                (least, most) = (least.min(wait), most.max(wait));
            }
            assert!((expected - expected / 10..expected - expected / 12).contains(&least));
            assert!((expected + expected / 12..=expected + expected / 10).contains(&most));
        }
    }

    #[test]
    fn backoff_of_extreme_policies_does_not_overflow() {
        let mut rng = Rng::new(4);
        let huge = Retry {
            limit: u32::MAX,
            first_ms: u64::MAX,
            factor: u32::MAX,
            max_ms: u64::MAX,
            jitter_percent: 255,
        };
        for retry in [1, 2, u32::MAX] {
            backoff_ms(&huge, retry, &mut rng);
            let none = Retry { first_ms: 0, factor: 0, ..huge };
            assert_eq!(backoff_ms(&none, retry, &mut rng), 0);
            let steady = Retry { first_ms: 7, factor: 1, jitter_percent: 0, ..huge };
            assert_eq!(backoff_ms(&steady, retry, &mut rng), 7);
        }
    }
}

//! One limiter: the count of its running jobs, and a token bucket for its rate.
//!
//! The token bucket counts in whole numbers: a token is as many units as its period has
//! nanoseconds, and each nanosecond adds as many units as there are tokens in a period. So nothing
//! is lost to rounding, and the moment of the next token is exact.

use super::job_class::OrderKey;
use crate::base::time::{Mono, Now};
use crate::base::timer_queue::TimerId;
use crate::model::worker::Rate;
use crate::store::idx::{ConstraintIdx, QueueIdx, WaitlistIdx};
use std::collections::BTreeSet;
use std::time::Duration;

/// The counters of one constraint, or of one key value of a constraint with `per`.
#[derive(Debug)]
pub(super) struct Limiter {
    /// Its constraint.
    pub(super) constraint: ConstraintIdx,
    /// The key value at the constraint's `per` path; empty without `per`.
    pub(super) value: Box<[u8]>,
    /// Job classes that have this limiter.
    pub(super) class_count: u32,
    /// Its reserved jobs.
    pub(super) running: u32,
    pub(super) tokens: TokenBucket,
    /// Waitlists blocked here, by the order keys of their heads.
    pub(super) blocked_waitlists: BTreeSet<(OrderKey, WaitlistIdx)>,
    /// Armed for the next token if a waitlist is blocked, or for the moment at which an unused
    /// limiter has a full bucket and is removed.
    pub(super) timer: TimerId,
    /// Whether it is in the list of dirty limiters.
    pub(super) dirty: bool,
    /// Paused: it has unblocked a job for which a waiter of this queue may be eligible, and
    /// unblocks no more until that job has left the ready heap.
    pub(super) paused_for: Option<QueueIdx>,
    /// At most the first key of its blocked waitlists, while it is paused.
    pub(super) paused_first_key: Option<OrderKey>,
    /// Whether it is in the list of limiters whose constraint waits for the scan.
    pub(super) awaits_scan: bool,
}

/// The state of a rate limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBucket {
    rate: Option<Rate>,
    /// Units of a token, at `refilled_at`.
    level_units: u128,
    /// When that was so.
    refilled_at: Mono,
}

/// Units in one token: nanoseconds in the period.
fn token_units(rate: Rate) -> u128 {
    u128::from(rate.period_ms.max(1)) * 1_000_000
}

/// Units in a full bucket.
fn capacity_units(rate: Rate) -> u128 {
    u128::from(rate.burst.max(1)) * token_units(rate)
}

impl TokenBucket {
    /// A full bucket at `at`.
    pub(super) fn full(rate: Option<Rate>, at: Mono) -> Self {
        Self { rate, level_units: rate.map_or(0, capacity_units), refilled_at: at }
    }

    /// An empty bucket at `at`.
    pub(super) fn empty(rate: Option<Rate>, at: Mono) -> Self {
        Self { rate, level_units: 0, refilled_at: at }
    }

    /// Applies another rate from `since` on. Whole tokens stay, up to the new capacity; units of
    /// one do not.
    pub(super) fn set_rate(&mut self, rate: Option<Rate>, since: Mono) {
        if self.rate == rate {
            return;
        }
        self.refill(since);
        self.level_units = match (self.rate, rate) {
            (Some(old), Some(new)) => {
                (self.level_units / token_units(old) * token_units(new)).min(capacity_units(new))
            }
            (None, Some(new)) => capacity_units(new),
            (_, None) => 0,
        };
        self.rate = rate;
    }

    /// Adds the tokens due by now. O(1).
    fn refill(&mut self, now: Mono) {
        let Some(rate) = self.rate else { return };
        let elapsed_ns = u128::from(now.0.saturating_sub(self.refilled_at.0));
        self.level_units =
            (self.level_units + elapsed_ns * u128::from(rate.count)).min(capacity_units(rate));
        self.refilled_at = self.refilled_at.max(now);
    }

    /// Whether a job may start. O(1).
    pub(super) fn has_token(&mut self, now: Now) -> bool {
        self.refill(now.mono);
        self.rate.is_none_or(|rate| self.level_units >= token_units(rate))
    }

    /// How many tokens there are; `None` without a rate. O(1).
    pub(super) fn whole(mut self, now: Now) -> Option<u64> {
        self.refill(now.mono);
        let tokens = self.level_units / token_units(self.rate?);
        Some(u64::try_from(tokens).unwrap_or(u64::MAX))
    }

    /// Takes a token; the level stops at 0.
    pub(super) fn spend(&mut self, now: Now) {
        self.refill(now.mono);
        if let Some(rate) = self.rate {
            self.level_units = self.level_units.saturating_sub(token_units(rate));
        }
    }

    /// Returns a token, up to the capacity.
    pub(super) fn refund(&mut self, now: Now) {
        self.refill(now.mono);
        if let Some(rate) = self.rate {
            self.level_units = (self.level_units + token_units(rate)).min(capacity_units(rate));
        }
    }

    /// When there will be a token; `None` if there is one, or never will be.
    pub(super) fn next_token_at(&self) -> Option<Mono> {
        self.reached_at(token_units(self.rate?))
    }

    /// When the bucket will be full; `None` if it is, or never will be.
    pub(super) fn full_at(&self) -> Option<Mono> {
        self.reached_at(capacity_units(self.rate?))
    }

    fn reached_at(&self, level_units: u128) -> Option<Mono> {
        debug_assert!(
            self.level_units <= self.rate.map_or(0, capacity_units),
            "a bucket holds at most its capacity"
        );
        let count = u128::from(self.rate?.count);
        if self.level_units >= level_units || count == 0 {
            return None;
        }
        let wait_ns = (level_units - self.level_units).div_ceil(count);
        debug_assert!(
            self.level_units + wait_ns * count >= level_units
                && self.level_units + (wait_ns - 1) * count < level_units,
            "a level is reached at its moment, and not before"
        );
        Some(
            self.refilled_at
                .after(Duration::from_nanos(u64::try_from(wait_ns).unwrap_or(u64::MAX))),
        )
    }

    /// When the level was last computed.
    pub(super) fn refilled_at(&self) -> Mono {
        self.refilled_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Rng;

    fn at(nanos: u64) -> Now {
        Now { mono: Mono(nanos), ..Now::default() }
    }

    #[test]
    fn bucket_with_fractional_period_never_drifts() {
        // 3 in 7 ms: a token does not take a whole number of nanoseconds.
        let rate = Rate { count: 3, period_ms: 7, burst: 2 };
        let mut tokens = TokenBucket::empty(Some(rate), Mono(0));
        let (mut now, mut taken) = (0, 0_u64);
        let mut rng = Rng::new(5);
        while taken < 30_000 {
            let next = tokens.next_token_at().expect("it is empty");
            assert_eq!(next.0, ((taken + 1) * 7_000_000).div_ceil(3));
            // Refilled in between, and a nanosecond too early.
            now += rng.below(next.0 - now);
            assert!(!tokens.has_token(at(now)) && !tokens.has_token(at(next.0 - 1)));
            now = next.0;
            assert!(tokens.has_token(at(now)));
            tokens.spend(at(now));
            taken += 1;
        }
        assert_eq!(now, 30_000 / 3 * 7_000_000);
    }

    #[test]
    fn idle_bucket_fills_to_burst_only() {
        let rate = Rate { count: 1, period_ms: 1_000, burst: 3 };
        let mut tokens = TokenBucket::full(Some(rate), Mono(0));
        let mut started = 0;
        while tokens.has_token(at(u64::MAX / 2)) {
            tokens.spend(at(u64::MAX / 2));
            started += 1;
        }
        assert_eq!(started, 3);
        assert_eq!(tokens.full_at(), Some(Mono(u64::MAX / 2 + 3_000_000_000)));
        let huge = Rate { count: u32::MAX, period_ms: u64::MAX, burst: u32::MAX };
        let mut tokens = TokenBucket::empty(Some(huge), Mono(0));
        assert!(tokens.has_token(at(u64::MAX)), "the largest times do not overflow");
        assert_eq!(tokens.full_at(), Some(Mono(u64::MAX)));
    }

    #[test]
    fn changed_rate_keeps_whole_tokens() {
        let slow = Rate { count: 1, period_ms: 1_000, burst: 5 };
        let mut tokens = TokenBucket::full(Some(slow), Mono(0));
        tokens.spend(at(0));
        let fast = Rate { count: 10, period_ms: 100, burst: 3 };
        tokens.set_rate(Some(fast), Mono(500_000_000));
        for _ in 0..3 {
            assert!(tokens.has_token(at(500_000_000)));
            tokens.spend(at(500_000_000));
        }
        assert_eq!(tokens.next_token_at(), Some(Mono(510_000_000)));
        tokens.set_rate(None, Mono(1));
        assert!(
            tokens.has_token(at(2))
                && tokens.next_token_at().is_none()
                && tokens.full_at().is_none()
        );
    }
}

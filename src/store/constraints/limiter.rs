//! One bucket: how many of its jobs run, and how many more may start by its rate.
//!
//! The rate is a token bucket in whole numbers: a token is as many parts as its period has
//! nanoseconds, and every nanosecond brings as many parts as there are tokens to a period. So
//! nothing is lost to rounding, and the moment of the next token is exact.

use super::job_class::OrderKey;
use crate::base::time::{Mono, Now};
use crate::base::timer_queue::TimerId;
use crate::model::worker::Rate;
use std::collections::BTreeSet;
use std::time::Duration;

/// What the jobs of one constraint share, or those of them with the same value.
#[derive(Debug)]
pub(super) struct Limiter {
    /// The constraint's place.
    pub(super) rule: u32,
    /// Which of the values of the constraint's path.
    pub(super) value: Box<[u8]>,
    /// Strands that it holds back.
    pub(super) classes: u32,
    /// Its jobs that somebody holds.
    pub(super) running: u32,
    pub(super) tokens: TokenBucket,
    /// Groups that wait here until there is room, those with the most urgent job first.
    pub(super) asleep: BTreeSet<(OrderKey, u32)>,
    /// When there is a token again for those that wait, or when it is full and may be forgotten.
    pub(super) timer: TimerId,
    /// Whether it is on the list of those that are to be looked at.
    pub(super) dirty: bool,
    /// In which queue somebody may be waiting for the job that it has woken last.
    pub(super) paused_for: Option<u32>,
    /// The first key of those that slept when it began to rest, or a smaller one.
    pub(super) paused_before: Option<OrderKey>,
    /// Whether it is on the list of those whose constraint is not settled.
    pub(super) limiters_waiting: bool,
}

/// How many jobs may start, by a rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBucket {
    rate: Option<Rate>,
    /// In parts of a token.
    level: u128,
    /// When that was so.
    at: Mono,
}

fn token(rate: Rate) -> u128 {
    u128::from(rate.period_ms.max(1)) * 1_000_000
}

fn capacity(rate: Rate) -> u128 {
    u128::from(rate.burst.max(1)) * token(rate)
}

impl TokenBucket {
    /// As many as there may be.
    pub(super) fn full(rate: Option<Rate>, at: Mono) -> Self {
        Self { rate, level: rate.map_or(0, capacity), at }
    }

    /// None at `at`.
    pub(super) fn empty(rate: Option<Rate>, at: Mono) -> Self {
        Self { rate, level: 0, at }
    }

    /// Goes by this rate since then. Whole tokens stay as far as the new rate allows; parts of one
    /// do not.
    pub(super) fn change(&mut self, rate: Option<Rate>, since: Mono) {
        if self.rate == rate {
            return;
        }
        self.refill(since);
        self.level = match (self.rate, rate) {
            (Some(old), Some(new)) => (self.level / token(old) * token(new)).min(capacity(new)),
            (None, Some(new)) => capacity(new),
            (_, None) => 0,
        };
        self.rate = rate;
    }

    /// Adds what has come by now. O(1).
    fn refill(&mut self, now: Mono) {
        let Some(rate) = self.rate else { return };
        let passed = u128::from(now.0.saturating_sub(self.at.0));
        self.level = (self.level + passed * u128::from(rate.count)).min(capacity(rate));
        self.at = self.at.max(now);
    }

    /// Whether a job may start. O(1).
    pub(super) fn any(&mut self, now: Now) -> bool {
        self.refill(now.mono);
        self.rate.is_none_or(|rate| self.level >= token(rate))
    }

    /// A job starts, if need be on credit.
    pub(super) fn spend(&mut self, now: Now) {
        self.refill(now.mono);
        if let Some(rate) = self.rate {
            self.level = self.level.saturating_sub(token(rate));
        }
    }

    /// A job that has started has not, after all.
    pub(super) fn refund(&mut self, now: Now) {
        self.refill(now.mono);
        if let Some(rate) = self.rate {
            self.level = (self.level + token(rate)).min(capacity(rate));
        }
    }

    /// When there will be a token; `None` if there is one, or never.
    pub(super) fn next(&self) -> Option<Mono> {
        self.when(token(self.rate?))
    }

    /// When there will be as many as may be; `None` if there are, or never.
    pub(super) fn full_at(&self) -> Option<Mono> {
        self.when(capacity(self.rate?))
    }

    fn when(&self, level: u128) -> Option<Mono> {
        let count = u128::from(self.rate?.count);
        if self.level >= level || count == 0 {
            return None;
        }
        let wait = (level - self.level).div_ceil(count);
        Some(self.at.after(Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))))
    }

    /// When it was last looked at.
    pub(super) fn at(&self) -> Mono {
        self.at
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
    fn a_bucket_never_drifts_and_knows_its_next_token_exactly() {
        // 3 in 7 ms: no whole number of nanoseconds to a token.
        let rate = Rate { count: 3, period_ms: 7, burst: 2 };
        let mut tokens = TokenBucket::empty(Some(rate), Mono(0));
        let (mut now, mut taken) = (0, 0_u64);
        let mut rng = Rng::new(5);
        while taken < 30_000 {
            let next = tokens.next().expect("it is empty");
            assert_eq!(next.0, ((taken + 1) * 7_000_000).div_ceil(3));
            // Looked at in between, and a nanosecond too early.
            now += rng.below(next.0 - now);
            assert!(!tokens.any(at(now)) && !tokens.any(at(next.0 - 1)));
            now = next.0;
            assert!(tokens.any(at(now)));
            tokens.spend(at(now));
            taken += 1;
        }
        assert_eq!(now, 30_000 / 3 * 7_000_000);
    }

    #[test]
    fn a_rest_saves_up_the_burst_and_no_more() {
        let rate = Rate { count: 1, period_ms: 1_000, burst: 3 };
        let mut tokens = TokenBucket::full(Some(rate), Mono(0));
        let mut started = 0;
        while tokens.any(at(u64::MAX / 2)) {
            tokens.spend(at(u64::MAX / 2));
            started += 1;
        }
        assert_eq!(started, 3);
        assert_eq!(tokens.full_at(), Some(Mono(u64::MAX / 2 + 3_000_000_000)));
        let huge = Rate { count: u32::MAX, period_ms: u64::MAX, burst: u32::MAX };
        let mut tokens = TokenBucket::empty(Some(huge), Mono(0));
        assert!(tokens.any(at(u64::MAX)), "an age passes, and nothing overflows");
        assert_eq!(tokens.full_at(), Some(Mono(u64::MAX)));
    }

    #[test]
    fn a_changed_rate_keeps_whole_tokens_and_counts_from_its_begin() {
        let slow = Rate { count: 1, period_ms: 1_000, burst: 5 };
        let mut tokens = TokenBucket::full(Some(slow), Mono(0));
        tokens.spend(at(0));
        let fast = Rate { count: 10, period_ms: 100, burst: 3 };
        tokens.change(Some(fast), Mono(500_000_000));
        for _ in 0..3 {
            assert!(tokens.any(at(500_000_000)));
            tokens.spend(at(500_000_000));
        }
        assert_eq!(tokens.next(), Some(Mono(510_000_000)));
        tokens.change(None, Mono(1));
        assert!(tokens.any(at(2)) && tokens.next().is_none() && tokens.full_at().is_none());
    }
}

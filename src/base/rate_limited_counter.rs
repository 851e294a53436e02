//! Rate-limited reports of a counter.

use crate::base::time::Mono;
use std::time::Duration;

/// A counter that is reported at most once in an interval; the first event is reported at once.
#[derive(Debug)]
pub struct RateLimitedCounter {
    interval: Duration,
    reported_at: Option<Mono>,
    unreported: u64,
}

impl RateLimitedCounter {
    /// A counter at 0, with at most one report in an `interval`.
    #[must_use]
    pub fn new(interval: Duration) -> Self {
        Self { interval, reported_at: None, unreported: 0 }
    }

    /// Counts one event.
    pub fn count(&mut self) {
        self.unreported += 1;
    }

    /// The number of events since the last report, if a report is due.
    pub fn take_report(&mut self, now: Mono) -> Option<u64> {
        if self.next_report()? > now {
            return None;
        }
        self.reported_at = Some(now);
        Some(std::mem::take(&mut self.unreported))
    }

    /// When a report is due; past moments mean now.
    #[must_use]
    pub fn next_report(&self) -> Option<Mono> {
        let at = || self.reported_at.map(|last| last.after(self.interval)).unwrap_or_default();
        (self.unreported > 0).then(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_events_are_reported_once_in_an_interval_with_their_count() {
        let at = |seconds: u64| Mono(seconds * 1_000_000_000);
        let mut counter = RateLimitedCounter::new(Duration::from_secs(1));
        assert_eq!((counter.next_report(), counter.take_report(at(5))), (None, None));
        counter.count();
        assert_eq!(counter.take_report(at(5)), Some(1));
        for _ in 0..1_000 {
            counter.count();
            assert_eq!(counter.take_report(at(5)), None);
        }
        assert_eq!(
            counter.next_report(),
            Some(at(6)),
            "the rest is reported even without further events"
        );
        assert_eq!(counter.take_report(at(6)), Some(1_000));
        assert_eq!((counter.next_report(), counter.take_report(at(9))), (None, None));
    }
}

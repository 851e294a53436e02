//! Time as a value: sampled once per pass by the reactor and handed down.
//!
//! Invariant: within one run, [`Now::mono`] never decreases. Because a whole pass shares one
//! sample, a deadline may fire up to one pass early or late, never more.

use std::time::Duration;

/// A point on the monotonic clock, in nanoseconds since the clock's own start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(pub u64);

impl Mono {
    /// The moment `duration` after this one; saturates at the end of time.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }

    /// The moment this number of seconds after this one; saturates at the end of time.
    #[must_use]
    #[inline]
    pub fn after_seconds(self, seconds: u32) -> Self {
        Self(self.0.saturating_add(u64::from(seconds) * 1_000_000_000))
    }

    /// How long from `now` until this moment; zero if it has passed.
    #[must_use]
    pub fn until(self, now: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(now.0))
    }
}

/// Wall-clock time, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(pub u64);

/// One sample of both clocks. Everything that happens in one pass of the loop uses the same sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For deadlines: never runs back.
    pub mono: Mono,
    /// For what people read and for what survives a restart: may jump.
    pub wall: Wall,
}

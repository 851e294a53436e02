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

impl Now {
    /// The wall-clock time of a moment, as far as can be known now. The milliseconds of both clocks
    /// begin together, so it is the same in every pass, unless the wall clock jumps.
    #[must_use]
    pub fn wall_at(self, at: Mono) -> Wall {
        let (at, now) = (at.0 / 1_000_000, self.mono.0 / 1_000_000);
        let ahead = self.wall.0.saturating_add(at.saturating_sub(now));
        Wall(ahead.saturating_sub(now.saturating_sub(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moment_has_one_wall_clock_time_in_every_pass() {
        let put = Now { mono: Mono(1_700_000), wall: Wall(1_001) };
        let due = put.mono.after(Duration::from_millis(5));
        for mono in [1_700_000, 1_999_999, 2_000_000, 3_100_000, 6_699_999, 6_700_000, 9_000_000] {
            let now = Now { mono: Mono(mono), wall: Wall(1_000 + mono / 1_000_000) };
            assert_eq!(now.wall_at(due), Wall(1_006), "{mono}");
        }
        assert_eq!(put.wall_at(Mono(u64::MAX)).0, 1_000 + u64::MAX / 1_000_000);
        assert_eq!(Now { mono: Mono(5_000_000), wall: Wall(1) }.wall_at(Mono(0)), Wall(0));
    }
}

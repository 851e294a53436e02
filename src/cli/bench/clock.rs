//! The clock of the load generator.

use std::time::{Duration, Instant};

/// Nanoseconds since the start of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "it is the clock")]
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    #[inline]
    pub(super) fn now(self) -> u64 {
        nanos(self.0.elapsed())
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A number for reports, rounded to 15 digits.
#[expect(clippy::cast_precision_loss, reason = "15 digits are enough for people")]
pub(in crate::cli) fn float(number: u64) -> f64 {
    number as f64
}

pub(in crate::cli) fn seconds(nanos: u64) -> f64 {
    float(nanos) / 1e9
}

//! The one place that reads clocks.
//!
//! [`Clock`] tells the time of a pass, [`Stopwatch`] how long something took that is not of one,
//! [`worked`] what a thread has had of the processor.

use crate::base::time::{Mono, Now, Wall};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Samples both clocks and never lets the monotonic one run back.
#[derive(Debug)]
pub struct Clock {
    start: Instant,
    last: Mono,
}

/// Measures one length of time.
#[derive(Debug)]
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since its start.
    pub(super) fn nanos(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// How long the processor has worked for this thread.
pub(super) fn worked() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

impl Default for Clock {
    fn default() -> Self {
        Self::start()
    }
}

impl Clock {
    /// A clock whose monotonic time begins now.
    #[must_use]
    pub fn start() -> Self {
        Self { start: Instant::now(), last: Mono(0) }
    }

    /// Which moment it is on the monotonic clock.
    pub fn moment(&mut self) -> Mono {
        let nanos = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last = self.last.max(Mono(nanos));
        self.last
    }

    /// What time it is.
    pub fn sample(&mut self) -> Now {
        let mono = self.moment();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = Wall(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX));
        Now { mono, wall }
    }
}

//! The one place that reads clocks.

use crate::base::time::{Mono, Now, Wall};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Samples both clocks and never lets the monotonic one run back.
#[derive(Debug)]
pub(super) struct Clock {
    start: Instant,
    last: Mono,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { start: Instant::now(), last: Mono(0) }
    }

    pub(super) fn sample(&mut self) -> Now {
        let nanos = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last = self.last.max(Mono(nanos));
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = Wall(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX));
        Now { mono: self.last, wall }
    }
}

//! The only module of the server that reads clocks.
//!
//! [`Clock`] gives the time of a pass, [`Stopwatch`] measures durations outside of passes,
//! [`thread_cpu_time`] the processor time of a thread.

use crate::base::time::{Mono, Now, Wall};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Samples both clocks. The monotonic one never runs backwards.
/// A copy counts from the same moment.
#[derive(Clone, Debug)]
pub struct Clock {
    start: Instant,
    last: Mono,
}

/// Measures one duration.
#[derive(Debug)]
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "it is the clock")]
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since its start.
    pub(super) fn nanos(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Processor time that this thread has used.
pub(super) fn thread_cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

/// The system's monotonic clock in microseconds, as the service manager reads it.
pub(super) fn system_monotonic_us() -> u64 {
    let time: Duration = clock_gettime(ClockId::Monotonic).try_into().unwrap_or_default();
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Default for Clock {
    fn default() -> Self {
        Self::start()
    }
}

impl Clock {
    /// A clock whose monotonic time begins now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "it is the clock")]
    pub fn start() -> Self {
        Self { start: Instant::now(), last: Mono(0) }
    }

    /// The current monotonic time.
    pub fn moment(&mut self) -> Mono {
        let nanos = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last = self.last.max(Mono(nanos));
        self.last
    }

    /// The current monotonic and wall time.
    #[expect(clippy::disallowed_methods, reason = "it is the clock")]
    pub fn sample(&mut self) -> Now {
        let mono = self.moment();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = Wall(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX));
        Now { mono, wall }
    }
}

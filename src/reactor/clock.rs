//! The only module of the server that reads clocks.
//!
//! [`Clock`] gives the time of a pass, [`Stopwatch`] measures durations outside of passes,
//! [`thread_cpu_time`] the processor time of a thread.

use crate::base::limits::CPU_READ_INTERVAL;
use crate::base::time::{Mono, Now, Wall};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Samples both clocks. The monotonic one never runs backwards. Their milliseconds begin together,
/// as long as the wall clock does not jump.
/// A copy counts from the same moment.
#[derive(Clone, Debug)]
pub struct Clock {
    start: Instant,
    /// The monotonic time of the start: what the wall clock had of its millisecond, in nanoseconds.
    start_ns: u64,
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

/// CPU time of passes. To read it is a system call, so it is read only when passes have taken
/// [`CPU_READ_INTERVAL`] together: that of a pass may contain that of short ones before it.
#[derive(Debug, Default)]
pub(super) struct PassCpuTime {
    /// What the thread had used when it was read last.
    used: Duration,
    /// How long the passes took that have ended since.
    unread: Duration,
}

impl PassCpuTime {
    /// Ends a pass that took so long. Returns its CPU time in nanoseconds if it was long.
    pub(super) fn end_pass(&mut self, took_ns: u64) -> Option<u64> {
        let took = Duration::from_nanos(took_ns);
        self.unread = self.unread.saturating_add(took);
        if self.unread < CPU_READ_INTERVAL {
            return None;
        }
        self.unread = Duration::ZERO;
        let used = thread_cpu_time();
        let since = used.saturating_sub(std::mem::replace(&mut self.used, used));
        let cpu_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX).min(took_ns);
        (took >= CPU_READ_INTERVAL).then_some(cpu_ns)
    }
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
        let start_ns = wall_ns() % NS_PER_MS;
        Self { start: Instant::now(), start_ns, last: Mono(0) }
    }

    /// The current monotonic time.
    pub fn moment(&mut self) -> Mono {
        let nanos = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last = self.last.max(Mono(nanos.saturating_add(self.start_ns)));
        self.last
    }

    /// The current monotonic and wall time.
    pub fn sample(&mut self) -> Now {
        let mono = self.moment();
        Now { mono, wall: wall_beside(mono, wall_ns()) }
    }
}

const NS_PER_MS: u64 = 1_000_000;

/// The wall clock, in nanoseconds since the Unix epoch: up to the year 2554.
#[expect(clippy::disallowed_methods, reason = "it is the clock")]
fn wall_ns() -> u64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX)
}

/// The wall-clock time beside a monotonic one that was read just before. Their difference is
/// rounded: between the two reads a millisecond may have begun.
fn wall_beside(mono: Mono, wall_ns: u64) -> Wall {
    let begun = mono.0 % NS_PER_MS;
    let nearest = (wall_ns.saturating_sub(begun) + NS_PER_MS / 2) / NS_PER_MS;
    Wall(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_of_a_long_pass_is_what_it_used_at_most() {
        let long = u64::try_from(CPU_READ_INTERVAL.as_nanos()).unwrap();
        let mut time = PassCpuTime::default();
        assert_eq!(time.end_pass(long - 1), None);
        assert_eq!(time.end_pass(1), None, "it is read, but this pass was short");
        let most = thread_cpu_time() + CPU_READ_INTERVAL;
        while thread_cpu_time() < most {}
        let used = time.end_pass(100 * long).unwrap();
        assert!((long..=100 * long).contains(&used), "{used}");
        assert!(time.end_pass(u64::MAX).unwrap() < used, "what was read is not read again");
    }

    #[test]
    fn milliseconds_of_both_clocks_begin_together() {
        // Read a little later, or exactly together, in all parts of a millisecond.
        for begun in [0, 1, 499_999, 500_000, 999_999] {
            for later in [0, 1, 70, 400_000] {
                let mono = Mono(7 * NS_PER_MS + begun);
                let wall = wall_beside(mono, 1_000 * NS_PER_MS + begun + later);
                assert_eq!(wall, Wall(1_000), "{begun} {later}");
            }
        }
        assert_eq!(wall_beside(Mono(5), 0), Wall(0));
    }
}

//! Statistics of the server: connections, bytes, reply latency and the load of the loop.

use super::Server;
use crate::base::histogram::Histogram;
use crate::base::limits::BUSY_WINDOW_MIN;
use crate::base::time::Mono;
use crate::engine::CommandExecutor;
use crate::model::driver::Protocol;
use crate::model::forward::ForwardStats;
use crate::model::stats::{LoopStats, ProtocolStats, ServerStats, TlsStats};

/// Counters that are updated as events occur.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) protocols: [ProtocolStats; Protocol::ALL.len()],
    /// Replies in the current pass to commands of the same pass.
    pub(super) answered: u64,
    answered_ns: Histogram,
    passes: LoopStats,
    resident: Option<u64>,
    pub(super) tls: TlsStats,
    pub(super) forwards: ForwardStats,
    /// Processor time in user mode and in the system.
    processor_us: (u64, u64),
    /// Start of the current window, and for how long the loop was busy in it.
    window: Mono,
    busy_ns: u64,
}

impl Counters {
    /// Records a finished pass: its duration is the latency of each reply in it. Its CPU time
    /// is known if it was long. O(1).
    pub(super) fn record_pass(&mut self, from: Mono, to: Mono, cpu_ns: Option<u64>) {
        let took = to.0.saturating_sub(from.0);
        let cpu_ns = cpu_ns.unwrap_or(0);
        self.passes.longest_pass_cpu_ns = self.passes.longest_pass_cpu_ns.max(cpu_ns);
        self.passes.took_ns.note(took, 1);
        self.passes.longest_ns = self.passes.longest_ns.max(took);
        let answered = std::mem::take(&mut self.answered);
        if answered > 0 {
            self.answered_ns.note(took, answered);
        }
        self.busy_ns += took;
        let length = to.0.saturating_sub(self.window.0);
        if to >= self.window.after(BUSY_WINDOW_MIN) {
            self.passes.busy_millionths = millionths(self.busy_ns, length);
            self.window = to;
            self.busy_ns = 0;
        }
    }

    pub(super) fn record_processor(&mut self, user_us: u64, system_us: u64) {
        self.processor_us = (user_us, system_us);
    }

    pub(super) fn record_memory(&mut self, resident: u64) {
        self.resident = Some(resident);
    }
}

/// `part` / `whole` in millionths; a `whole` of 0 counts as 1.
fn millionths(part: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(part) * 1_000_000 / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

impl<E: CommandExecutor> Server<E> {
    /// All statistics. O(segments of the journal).
    #[must_use]
    pub fn stats(&self) -> Box<ServerStats> {
        let counters = &self.counters;
        let mut stats = Box::new(ServerStats {
            protocols: counters.protocols,
            answered_ns: counters.answered_ns,
            passes: counters.passes,
            resident_bytes: counters.resident,
            tls: counters.tls,
            access: self.access.stats(),
            is_standby: self.context.standby.is_some(),
            forwards: counters.forwards,
            user_us: counters.processor_us.0,
            system_us: counters.processor_us.1,
            ..ServerStats::default()
        });
        self.engine.stats(&mut stats);
        let processor = self.processor.and_then(|client| self.connections.get(client));
        stats.bus_workers = processor.map(|connection| connection.session.bus_workers());
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_share_is_that_of_the_last_complete_window() {
        let mut counters = Counters::default();
        let second = |seconds: u64| Mono(seconds * 1_000_000_000);
        counters.answered = 3;
        counters.record_pass(second(1), second(3), Some(7));
        assert_eq!(counters.passes.busy_millionths, 0);
        counters.record_pass(second(9), second(10), Some(5));
        assert_eq!(counters.passes.busy_millionths, 300_000);
        counters.record_pass(second(19), Mono(second(19).0 + 1), None);
        counters.record_pass(second(29), second(30), None);
        assert_eq!(counters.passes.busy_millionths, 50_000);
        assert_eq!(counters.passes.longest_ns, second(2).0);
        assert_eq!(counters.passes.longest_pass_cpu_ns, 7);
        assert_eq!((counters.passes.took_ns.count(), counters.answered), (4, 0));
        let answered = &counters.answered_ns;
        assert_eq!((answered.count(), answered.sum()), (3, second(6).0));
    }
}

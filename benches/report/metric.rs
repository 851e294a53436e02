//! Names, units and formats of what is measured.

use crate::stats::Spread;
use serde::Serialize;
use std::collections::BTreeMap;

/// One figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Metric {
    /// CPU time of the server for a request, in microseconds, user and system.
    Cpu,
    /// Requests a second.
    Throughput,
    /// Share of one core that the server used.
    Share,
    /// Latency in microseconds; where workers wait: from put to delivery.
    Min,
    P50,
    P90,
    P99,
    P999,
    P9999,
    Max,
    /// Memory of the server for a waiting job, in bytes.
    JobBytes,
    /// Share of the growth of memory that the server has kept right after the last job.
    KeptAtOnce,
    /// The same after a few seconds and a thousand requests.
    KeptLater,
    /// The same after ten thousand requests.
    KeptLast,
    /// Memory for a connection that does nothing, in bytes.
    IdleBytes,
    /// Memory for a connection that waits for a job, in bytes, all of it.
    WaitingBytes,
    /// System calls for a request.
    Calls,
    /// CPU time of the server for a whole cycle of put, get and delete, in microseconds.
    CycleCpu,
    /// CPU time of the server for a job, with all requests that belong to it, in microseconds.
    JobCpu,
    /// How late delayed jobs came, in microseconds.
    DelayP50,
    DelayP99,
    DelayWorst,
    /// How late jobs came whose lease was over.
    LeaseP50,
    LeaseP99,
    LeaseWorst,
    /// Jobs that should have come and never did.
    Missed,
    /// Latency of puts alone, in microseconds: a change, which has to be on the disk.
    PutP50,
    /// A bare write and fdatasync in the same directory, in microseconds.
    BareP50,
    /// The former over the latter.
    OverBare,
    /// What compaction has moved, in MiB.
    Moved,
    /// Jobs that are back in a second after a start.
    RecoveryRate,
    /// From the start until it listens.
    RecoverySeconds,
    /// Memory of the server before the stop and after the start, in MiB.
    MemoryBefore,
    MemoryAfter,
    /// The latter over the former.
    RecoveryMemory,
    /// Queries a second, back to back.
    Queries,
    /// Polls a second that got a job.
    Polls,
    /// Jobs a second that were done.
    Jobs,
    /// Messages of the processor a second.
    Messages,
    /// The most memory that the server ever had, in MiB.
    PeakMemory,
    /// The longest pass of the loop, in milliseconds.
    LongestPass,
    /// The most CPU time of a pass, in milliseconds.
    PassCpu,
    /// The part of the loop's time that event streams take.
    StreamsShare,
    /// p99.9 of a client beside event streams over that without them.
    BesideStreams,
}

impl Metric {
    /// The head of its column.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Cpu => "CPU a request, us",
            Self::Throughput => "requests a second",
            Self::Share => "server's share of its core",
            Self::Min => "min, us",
            Self::P50 => "p50, us",
            Self::P90 => "p90, us",
            Self::P99 => "p99, us",
            Self::P999 => "p99.9, us",
            Self::P9999 => "p99.99, us",
            Self::Max => "max, us",
            Self::JobBytes => "bytes a job",
            Self::KeptAtOnce => "kept at once",
            Self::KeptLater => "kept after 3 s and 1,000 requests",
            Self::KeptLast => "kept after 10,000 requests",
            Self::IdleBytes => "bytes an idle connection",
            Self::WaitingBytes => "bytes a waiting connection",
            Self::Calls => "system calls a request",
            Self::CycleCpu => "CPU a cycle, us",
            Self::JobCpu => "CPU a job, us",
            Self::DelayP50 => "after a delay: p50 late, us",
            Self::LeaseP50 => "after a lease: p50 late, us",
            Self::DelayP99 | Self::LeaseP99 => "p99 late, us",
            Self::DelayWorst | Self::LeaseWorst => "worst, us",
            Self::Missed => "missed",
            Self::PutP50 => "p50 of puts, us",
            Self::BareP50 => "bare write and fdatasync, p50, us",
            Self::OverBare => "p50 of puts / bare",
            Self::Moved => "moved by compaction, MiB",
            Self::RecoveryRate => "jobs back a second",
            Self::RecoverySeconds => "start until it listens, s",
            Self::MemoryBefore => "memory before the stop, MiB",
            Self::MemoryAfter => "memory after the start, MiB",
            Self::RecoveryMemory => "memory after / before",
            Self::Queries => "queries a second",
            Self::Polls => "polls a second",
            Self::Jobs => "jobs a second",
            Self::Messages => "messages a second",
            Self::PeakMemory => "peak memory, MiB",
            Self::LongestPass => "longest pass, ms",
            Self::PassCpu => "CPU time of a pass, ms at most",
            Self::StreamsShare => "share of streams",
            Self::BesideStreams => "p99.9 with streams / without",
        }
    }

    /// Its value as people read it.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Share | Self::KeptAtOnce | Self::KeptLater | Self::KeptLast => {
                format!("{:.0} %", 100.0 * value)
            }
            Self::StreamsShare => format!("{:.2} %", 100.0 * value),
            Self::Missed => format!("{value:.0}"),
            _ => figure(value),
        }
    }

    /// Median and limits.
    pub(crate) fn show_spread(self, spread: &Spread) -> String {
        let [median, min, max] = [spread.median, spread.min, spread.max].map(|v| self.show(v));
        if spread.rounds == 1 { median } else { format!("{median} ({min} - {max})") }
    }
}

/// Three digits that mean something, or all of those before the point, grouped.
pub(crate) fn figure(value: f64) -> String {
    let size = value.abs();
    if size >= 1000.0 {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}{}", grouped(&format!("{size:.0}")));
    }
    match size {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Digits as people read them: 1,234,567.
pub(crate) fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// All figures of one run of one entry.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Sample {
    pub(crate) values: BTreeMap<Metric, f64>,
    /// CPUs that other programs used meanwhile.
    pub(crate) others: Option<f64>,
    /// Everything that the instrument said.
    pub(crate) raw: serde_json::Value,
}

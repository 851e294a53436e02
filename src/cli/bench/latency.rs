//! Latency histograms, one for each kind of request.

use super::clock::{float, nanos};
use super::protocols::Request;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// Longer latencies are recorded as this.
const LONGEST: Duration = Duration::from_hours(1);

/// Decimal digits of precision.
const PRECISION_DIGITS: u8 = 3;

/// What is measured separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LatencyKind {
    Put,
    Get,
    Delete,
    /// From the sending of a put to the arrival of its job at a worker that waited.
    Delivery,
}

impl LatencyKind {
    pub(super) const ALL: [Self; 4] = [Self::Put, Self::Get, Self::Delete, Self::Delivery];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Delete => "delete",
            Self::Delivery => "delivery",
        }
    }

    pub(super) fn of(request: &Request) -> Self {
        match request {
            Request::Put { .. } => Self::Put,
            Request::Get { .. } => Self::Get,
            Request::Delete { .. } => Self::Delete,
        }
    }
}

/// The latencies of one run, in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Latencies {
    kinds: [Histogram<u64>; LatencyKind::ALL.len()],
    /// How late requests with an intended time were sent.
    lateness: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Self {
        // Proof: the bounds are constants that satisfy the constructor's conditions.
        let empty = || {
            Histogram::new_with_bounds(1, nanos(LONGEST), PRECISION_DIGITS)
                .expect("the bounds are valid")
        };
        Self { kinds: std::array::from_fn(|_| empty()), lateness: empty() }
    }
}

impl Latencies {
    #[inline]
    pub(super) fn record(&mut self, kind: LatencyKind, nanos: u64) {
        self.kinds[kind as usize].saturating_record(nanos.max(1));
    }

    #[inline]
    pub(super) fn record_lateness(&mut self, nanos: u64) {
        self.lateness.saturating_record(nanos.max(1));
    }

    /// The histogram of a kind.
    pub(super) fn of(&self, kind: LatencyKind) -> &Histogram<u64> {
        &self.kinds[kind as usize]
    }

    /// All requests, without deliveries.
    pub(super) fn all(&self) -> Histogram<u64> {
        let mut all = self.of(LatencyKind::Put).clone();
        for kind in [LatencyKind::Get, LatencyKind::Delete] {
            // Proof: all histograms have the same bounds.
            all.add(self.of(kind)).expect("the histograms have the same bounds");
        }
        all
    }

    pub(super) fn lateness(&self) -> &Histogram<u64> {
        &self.lateness
    }
}

/// One line of the table, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    pub(super) count: u64,
    pub(super) mean: f64,
    pub(super) min: f64,
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) p99_9: f64,
    pub(super) p99_99: f64,
    pub(super) max: f64,
}

impl Summary {
    /// `None`: the histogram is empty.
    pub(super) fn of(histogram: &Histogram<u64>) -> Option<Self> {
        if histogram.is_empty() {
            return None;
        }
        let micros = |nanos: u64| float(nanos) / 1e3;
        let at = |quantile| micros(histogram.value_at_quantile(quantile));
        Some(Self {
            count: histogram.len(),
            mean: histogram.mean() / 1e3,
            min: micros(histogram.min()),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: micros(histogram.max()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_are_not_counted_as_requests() {
        let mut latencies = Latencies::default();
        for micros in 1..=1000 {
            latencies.record(LatencyKind::Put, micros * 1000);
            latencies.record(LatencyKind::Delivery, 9_000_000);
        }
        latencies.record(LatencyKind::Get, 0);
        let put = Summary::of(latencies.of(LatencyKind::Put)).unwrap();
        assert_eq!(put.count, 1000);
        assert!((put.p50 - 500.0).abs() < 1.0 && (put.p99 - 990.0).abs() < 1.0, "{put:?}");
        assert!(put.p99 < put.p99_9 && put.p99_9 <= put.p99_99 && put.p99_99 <= put.max);
        let all = Summary::of(&latencies.all()).unwrap();
        assert_eq!(all.count, 1001);
        assert!(all.max < 1_002.0, "{all:?}");
        assert_eq!(Summary::of(latencies.of(LatencyKind::Delete)), None);
    }

    #[test]
    fn latency_beyond_the_maximum_is_recorded_as_the_maximum() {
        let mut latencies = Latencies::default();
        latencies.record(LatencyKind::Put, u64::MAX);
        assert_eq!(latencies.of(LatencyKind::Put).len(), 1);
    }
}

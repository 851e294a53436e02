//! Medians, spreads, and ratios of measurements of the same round.

use serde::Serialize;

/// What several rounds said.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) rounds: usize,
}

impl Spread {
    /// None of nothing.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        Some(Self { median, min, max, rounds: sorted.len() })
    }
}

/// Combines the values of two targets round by round: what disturbs one round disturbs both of
/// its values, so their ratio says more than the ratio of two medians.
pub(crate) fn paired(
    ours: &[Option<f64>],
    theirs: &[Option<f64>],
    combine: impl Fn(f64, f64) -> f64,
) -> Option<Spread> {
    let pairs = ours.iter().zip(theirs).filter_map(|(ours, theirs)| Some(((*ours)?, (*theirs)?)));
    let combined: Vec<f64> = pairs.map(|(ours, theirs)| combine(ours, theirs)).collect();
    Spread::of(&combined)
}

/// A count as a number to calculate with.
#[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds stay far below 2^53")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

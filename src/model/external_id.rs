//! Jobs by external id, and their progress (`docs/protocols/processor.md`).

use crate::base::time::Wall;
use crate::model::id::JobId;
use std::fmt;

/// A job as messages of the processor name it: by queue and external id, or by its job id in
/// decimal digits if it has no external id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobRef<'a> {
    /// Queue name: any bytes.
    pub queue: &'a [u8],
    /// External id, or the digits of the job id.
    pub name: &'a [u8],
}

/// The done part of a job: from 0 to 1, as the bits of a double.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction(u64);

impl Fraction {
    /// Nothing done.
    pub const ZERO: Self = Self(0);

    /// `None` if `part` is not from 0 to 1.
    #[must_use]
    pub fn new(part: f64) -> Option<Self> {
        // Adding makes 0 of -0, so that what is equal has equal bits.
        (0.0..=1.0).contains(&part).then(|| Self((part + 0.0).to_bits()))
    }

    /// From 0 to 1.
    #[must_use]
    pub fn value(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl fmt::Display for Fraction {
    /// As a JSON number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

/// Some of the jobs of a queue: those that are ready or blocked, and those that the bus worker has
/// reserved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueScan {
    /// Ready and blocked jobs, unordered.
    pub ready: Vec<ReadyOrderKey>,
    /// Jobs reserved by the bus worker, unordered.
    pub reserved: Vec<ReservedJob>,
    /// Where to continue; `None`: this was the last part.
    pub next: Option<u32>,
}

/// Order of a ready job; the smaller one leaves first. Priorities beyond 64 bits are equal here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadyOrderKey {
    /// From the priority: smaller is more urgent.
    pub rank: u64,
    /// Order among jobs of the same priority.
    pub tie: u64,
    /// Last criterion of the order.
    pub id: JobId,
}

/// A job reserved by the bus worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedJob {
    /// Its reservation is current.
    pub id: JobId,
    /// External id, if it has one.
    pub name: Option<Box<[u8]>>,
    /// The done part; `None`: no worker has confirmed that it works on the job.
    pub progress: Option<Fraction>,
    /// Start of its lease: when it was reserved, or last touched.
    pub since: Wall,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portion_is_a_part_of_one() {
        for part in [0.0, 1e-300, 0.25, 1.0] {
            assert_eq!(Fraction::new(part).map(Fraction::value), Some(part));
        }
        assert_eq!(Fraction::new(-0.0), Some(Fraction::ZERO));
        for none in [-0.1, 1.000_000_1, f64::NAN, f64::INFINITY] {
            assert_eq!(Fraction::new(none), None, "{none}");
        }
    }
}

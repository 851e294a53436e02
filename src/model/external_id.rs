//! What a protocol asks whose jobs bear names that their senders chose, and whose workers say
//! themselves how far they are (`docs/protocols/processor.md`).

use crate::base::time::Wall;
use crate::model::id::JobId;
use std::fmt;

/// A job as messages name it: by a name in a queue. A job without a name is named by its id, in
/// decimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobRef<'a> {
    /// The name of its queue.
    pub queue: &'a [u8],
    /// Its own.
    pub name: &'a [u8],
}

/// How much of a job is done: from 0 to 1, as the bits of a double.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction(u64);

impl Fraction {
    /// Nothing yet.
    pub const ZERO: Self = Self(0);

    /// So much, if that is from 0 to 1.
    #[must_use]
    pub fn new(part: f64) -> Option<Self> {
        // Adding makes 0 of -0, so that what is equal has equal bits.
        (0.0..=1.0).contains(&part).then(|| Self((part + 0.0).to_bits()))
    }

    /// As a number.
    #[must_use]
    pub fn value(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl fmt::Display for Fraction {
    /// As JSON writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

/// Some of the jobs of a queue: those that are ready, and those that are held for the processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueScan {
    /// Ready jobs, in no order.
    pub ready: Vec<ReadyOrderKey>,
    /// Jobs that the processor holds, in no order.
    pub reserved: Vec<ReservedJob>,
    /// Where to go on, if there are more.
    pub next: Option<u32>,
}

/// A ready job; the smaller one leaves first. Urgencies beyond 64 bits are all alike here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadyOrderKey {
    /// How urgent it is: smaller is more urgent.
    pub rank: u64,
    /// Its place among the equally urgent.
    pub tie: u64,
    /// The job.
    pub id: JobId,
}

/// A job that the processor holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedJob {
    /// The job.
    pub id: JobId,
    /// Its name, if it has one.
    pub name: Option<Box<[u8]>>,
    /// How much of it is done; `None`: nobody has said to work on it.
    pub progress: Option<Fraction>,
    /// When its lease began: when it was handed out, or was last heard of.
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

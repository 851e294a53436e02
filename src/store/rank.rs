//! Priorities as heap keys.

use crate::model::job::LEAST_PRIORITY;

const SIGN: u64 = 1 << 63;

/// The rank of a job without priority: that of `i64::MIN`. A job with this priority has the rank
/// too, and digits.
pub(super) const UNSELECTED_RANK: u64 = u64::MAX;

/// Turns "larger is more urgent" into "smaller is more urgent". The result is neither 0 nor
/// [`UNSELECTED_RANK`].
#[inline]
pub(super) const fn rank(number: i64) -> u64 {
    assert!(number < i64::MAX && number > i64::MIN, "larger numbers come as digits");
    !(number.cast_unsigned() ^ SIGN)
}

/// The rank of a priority that is kept as digits.
pub(super) fn rank_of_digits(digits: &str) -> u64 {
    if digits == LEAST_PRIORITY { UNSELECTED_RANK } else { 0 }
}

/// The number of which this is the [`rank`].
#[inline]
pub(super) fn number(rank: u64) -> i64 {
    debug_assert!(
        rank != 0 && rank != UNSELECTED_RANK,
        "a priority that is digits, and none, have no number"
    );
    (!rank ^ SIGN).cast_signed()
}

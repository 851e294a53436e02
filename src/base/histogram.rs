//! Histograms with buckets at powers of two: exact enough for distributions, cheap enough to count
//! every event.

/// Counts of values by size. Bucket `i` holds those above one power of two up to the next; the
/// first one 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram {
    classes: [u64; 65],
    sum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { classes: [0; 65], sum: 0 }
    }
}

impl Histogram {
    /// Counts `value` as often as `times` says. O(1).
    #[inline]
    pub fn note(&mut self, value: u64, times: u64) {
        self.classes[64 - value.saturating_sub(1).leading_zeros() as usize] += times;
        self.sum = self.sum.wrapping_add(value.wrapping_mul(times));
    }

    /// Adds what another one has counted.
    pub fn add(&mut self, other: &Self) {
        for (class, count) in self.classes.iter_mut().zip(other.classes) {
            *class += count;
        }
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// All values together.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// How many values there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.classes.iter().sum()
    }

    /// The value that this many thousandths of those counted since `earlier` do not exceed, as far
    /// as the buckets tell; `None`: there were none. O(1).
    #[must_use]
    pub fn quantile_since(&self, earlier: &Self, permille: u64) -> Option<u64> {
        let count = |at: usize| self.classes[at].saturating_sub(earlier.classes[at]);
        let total: u64 = (0..self.classes.len()).map(count).sum();
        let mut rank = total.saturating_mul(permille).div_ceil(1_000);
        for at in 0..self.classes.len() {
            let number = count(at);
            if rank > number || number == 0 {
                rank -= number;
                continue;
            }
            let upper = u128::from(1_u64) << at;
            let lower = if at == 0 { 0 } else { upper / 2 };
            let inside = (upper - lower) * u128::from(rank) / u128::from(number);
            return Some(u64::try_from(lower + inside).unwrap_or(u64::MAX));
        }
        None
    }

    /// How many values there were up to 2 to the power of `first`, how many above that up to the
    /// next power, and so on up to that of `last`; finally how many beyond.
    pub fn classes(&self, first: u8, last: u8) -> impl Iterator<Item = (Option<u64>, u64)> + Clone {
        let (first, last) = (usize::from(first), usize::from(last.min(63)));
        assert!(first <= last, "a histogram would count values twice");
        let below = self.classes[..=first].iter().sum();
        let inner = (first + 1..=last).map(|at| (Some(1 << at), self.classes[at]));
        let beyond = self.classes[last + 1..].iter().sum();
        std::iter::once((Some(1 << first), below)).chain(inner).chain([(None, beyond)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_is_inside_of_its_bucket() {
        let (mut earlier, mut later) = (Histogram::default(), Histogram::default());
        assert_eq!(later.quantile_since(&earlier, 500), None);
        earlier.note(1 << 40, 5);
        later.add(&earlier);
        later.note(4, 98);
        later.note(1_000, 2);
        let of = |permille| later.quantile_since(&earlier, permille);
        let found = [0, 500, 980, 990, 1_000].map(|permille| of(permille).unwrap());
        assert_eq!(found, [2, 3, 4, 768, 1_024]);
    }

    #[test]
    fn values_are_counted_up_to_the_next_power() {
        let mut histogram = Histogram::default();
        for value in [0, 1, 2, 3, 4, 5, 8, 9, 1 << 40] {
            histogram.note(value, 1);
        }
        histogram.note(6, 10);
        let mut twice = histogram;
        twice.add(&histogram);
        let upto = |bound, count| (Some(bound), count);
        let expected = [upto(2, 3), upto(4, 2), upto(8, 12), (None, 2)];
        assert!(histogram.classes(1, 3).eq(expected));
        assert_eq!((histogram.count(), histogram.sum()), (19, 92 + (1 << 40)));
        assert_eq!((twice.count(), twice.sum()), (38, 2 * histogram.sum()));
        histogram.note(u64::MAX, 1);
        assert_eq!(histogram.classes(0, 63).last(), Some((None, 1)));
    }
}

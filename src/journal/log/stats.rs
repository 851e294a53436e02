//! What a journal says of itself: plain numbers, for the operator.

/// Upper bounds of the classes that syncs are counted in by how long they took, in nanoseconds; the
/// last class has none.
pub const SYNC_BOUNDS_NS: [u64; 16] = [
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
];

/// Figures of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Bytes of base records in force.
    pub live_bytes: u64,
    /// Bytes of segments in use that are neither live nor still to be written.
    pub dead_bytes: u64,
    /// Bytes that are ready to be written: the rest of the head, and prepared segments.
    pub free_bytes: u64,
    /// Bytes of all files: segments in use, prepared ones, spares.
    pub total_bytes: u64,
    /// Bytes of batches that the disk has not been given yet.
    pub pending_bytes: u64,
    /// Owners with a base record.
    pub record_keys: u64,
    /// Segments in use or prepared.
    pub segments: u64,
    /// Files kept for reuse.
    pub spares: u64,
    /// Batches written.
    pub batches: u64,
    /// Records written.
    pub records: u64,
    /// Bytes written, compaction's share included.
    pub written_bytes: u64,
    /// Bytes of base records that compaction has moved.
    pub moved_bytes: u64,
    /// Syncs done.
    pub syncs: u64,
    /// Records that these syncs made durable.
    pub synced_records: u64,
    /// How long they took together, in nanoseconds, as the disk tells it: the sync, and of a batch
    /// that is synced at once also its write.
    pub sync_ns: u64,
    /// How long the longest took.
    pub sync_max_ns: u64,
    /// How many took at most so long as [`SYNC_BOUNDS_NS`] has it at the same place, and longer
    /// than at the one before; the last are those beyond all bounds.
    pub sync_histogram: [u64; SYNC_BOUNDS_NS.len() + 1],
    /// Whether there was no space for the next segment when it was last tried.
    pub full: bool,
}

impl LogStats {
    /// Counts a sync that took so long. O(bounds).
    pub(super) fn count_sync(&mut self, nanos: u64) {
        self.syncs += 1;
        self.sync_ns = self.sync_ns.saturating_add(nanos);
        self.sync_max_ns = self.sync_max_ns.max(nanos);
        self.sync_histogram[SYNC_BOUNDS_NS.partition_point(|&bound| bound < nanos)] += 1;
    }

    /// How many nanoseconds this part of a thousand of all syncs took at most: the bound of a
    /// class, or what the longest took if that is less. Zero without syncs. O(bounds).
    #[must_use]
    pub fn sync_permille_ns(&self, permille: u64) -> u64 {
        let rank = (self.syncs.saturating_mul(permille)).div_ceil(1000);
        let mut below = 0;
        for (count, bound) in self.sync_histogram.iter().zip(SYNC_BOUNDS_NS) {
            below += count;
            if below >= rank {
                return bound.min(self.sync_max_ns);
            }
        }
        self.sync_max_ns
    }
}

#[cfg(test)]
mod tests {
    use super::{LogStats, SYNC_BOUNDS_NS};

    #[test]
    fn syncs_are_counted_by_how_long_they_took() {
        let mut status = LogStats::default();
        assert_eq!(status.sync_permille_ns(500), 0);
        for nanos in [1, 20_000, 20_001, 60_000, 70_000, 5_000_000_000] {
            status.count_sync(nanos);
        }
        assert_eq!((status.syncs, status.sync_max_ns), (6, 5_000_000_000));
        assert_eq!(status.sync_ns, 5_000_170_002);
        assert_eq!(status.sync_histogram[..4], [2, 1, 2, 0]);
        assert_eq!(status.sync_histogram[SYNC_BOUNDS_NS.len()], 1);
        assert_eq!(status.sync_permille_ns(500), 50_000);
        assert_eq!(status.sync_permille_ns(800), 100_000);
        assert_eq!(status.sync_permille_ns(1000), 5_000_000_000);
    }

    #[test]
    fn no_sync_took_longer_than_the_longest() {
        let mut status = LogStats::default();
        status.count_sync(30_000);
        assert_eq!(status.sync_permille_ns(999), 30_000);
    }
}

//! Statistics of a journal.

use super::Journal;

/// Upper bounds of the buckets of [`LogStats::sync_histogram`], in nanoseconds. The last bucket has
/// none.
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

const _: () = {
    let mut index = 1;
    while index < SYNC_BOUNDS_NS.len() {
        assert!(SYNC_BOUNDS_NS[index - 1] < SYNC_BOUNDS_NS[index], "the bounds do not ascend");
        index += 1;
    }
};

/// Statistics of a journal: sizes now, and counts since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Bytes of live base records.
    pub live_bytes: u64,
    /// Bytes written to segments in use that are not live.
    pub dead_bytes: u64,
    /// Bytes that can be written at once: the rest of the head, and prepared segments.
    pub free_bytes: u64,
    /// Bytes of all files: segments in use, prepared ones, spares.
    pub total_bytes: u64,
    /// Bytes of batches that are not submitted to the disk.
    pub pending_bytes: u64,
    /// Record keys that have a base record.
    pub record_keys: u64,
    /// Segments in use or prepared.
    pub segments: u64,
    /// Files kept to be recycled.
    pub spares: u64,
    /// Batches written.
    pub batches: u64,
    /// Records written.
    pub records: u64,
    /// Bytes written, by compaction too.
    pub written_bytes: u64,
    /// Bytes of base records that compaction has moved.
    pub moved_bytes: u64,
    /// Syncs done.
    pub syncs: u64,
    /// Records that these syncs made durable.
    pub synced_records: u64,
    /// The sum of their durations in nanoseconds, as the disk reports them: the sync, and with
    /// [`SyncMode::Always`](crate::journal::SyncMode::Always) also the write.
    pub sync_ns: u64,
    /// The longest duration in nanoseconds.
    pub sync_max_ns: u64,
    /// Bucket `i` counts the syncs of at most `SYNC_BOUNDS_NS[i]` that are in no lower bucket; the
    /// last one counts all longer ones.
    pub sync_histogram: [u64; SYNC_BOUNDS_NS.len() + 1],
    /// Whether the last preparation of a segment failed for lack of space.
    pub full: bool,
}

impl LogStats {
    /// Counts a sync of this duration. O(buckets).
    pub(super) fn count_sync(&mut self, nanos: u64) {
        self.syncs += 1;
        self.sync_ns = self.sync_ns.saturating_add(nanos);
        self.sync_max_ns = self.sync_max_ns.max(nanos);
        self.sync_histogram[SYNC_BOUNDS_NS.partition_point(|&bound| bound < nanos)] += 1;
        debug_assert_eq!(
            self.sync_histogram.iter().sum::<u64>(),
            self.syncs,
            "a sync is in no bucket, or in two"
        );
        debug_assert!(
            self.sync_max_ns <= self.sync_ns,
            "one sync took longer than all of them together"
        );
    }

    /// The duration in nanoseconds that this many of a thousand syncs did not exceed: the bound of
    /// a bucket, or the longest duration if that is less. 0 without syncs. O(buckets).
    #[must_use]
    pub fn sync_permille_ns(&self, permille: u64) -> u64 {
        debug_assert!(permille <= 1000, "more than all syncs are asked for");
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

impl Journal {
    /// Statistics. O(segments).
    #[must_use]
    pub fn stats(&self) -> LogStats {
        let used: u64 = self.live_index.segments.iter().map(|segment| segment.used).sum();
        let live_bytes = self.live_index.live_bytes;
        let free_bytes = self.free_bytes();
        debug_assert!(
            free_bytes <= self.allocator.total_bytes,
            "more bytes can be written than the files have"
        );
        debug_assert!(
            live_bytes <= used + self.batch.bytes.len() as u64,
            "more bytes are live than were written and appended"
        );
        LogStats {
            live_bytes,
            dead_bytes: (used + self.batch.bytes.len() as u64).saturating_sub(live_bytes),
            free_bytes,
            total_bytes: self.allocator.total_bytes,
            pending_bytes: self.pending_bytes(),
            record_keys: self.live_index.record_keys,
            segments: self.live_index.segments.len() as u64,
            spares: self.allocator.spares.len() as u64,
            full: self.allocator.full,
            ..self.counters
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LogStats, SYNC_BOUNDS_NS};

    #[test]
    fn syncs_are_counted_by_duration() {
        let mut stats = LogStats::default();
        assert_eq!(stats.sync_permille_ns(500), 0);
        for nanos in [1, 20_000, 20_001, 60_000, 70_000, 5_000_000_000] {
            stats.count_sync(nanos);
        }
        assert_eq!((stats.syncs, stats.sync_max_ns), (6, 5_000_000_000));
        assert_eq!(stats.sync_ns, 5_000_170_002);
        assert_eq!(stats.sync_histogram[..4], [2, 1, 2, 0]);
        assert_eq!(stats.sync_histogram[SYNC_BOUNDS_NS.len()], 1);
        assert_eq!(stats.sync_permille_ns(500), 50_000);
        assert_eq!(stats.sync_permille_ns(800), 100_000);
        assert_eq!(stats.sync_permille_ns(1000), 5_000_000_000);
    }

    #[test]
    fn percentile_does_not_exceed_the_longest_sync() {
        let mut stats = LogStats::default();
        stats.count_sync(30_000);
        assert_eq!(stats.sync_permille_ns(999), 30_000);
    }
}

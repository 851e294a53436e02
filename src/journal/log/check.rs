//! What holds in a journal between two calls.

use super::Journal;
use crate::journal::format::SEGMENT_HEADER_BYTES;

impl Journal {
    /// Asserts the invariants. O(record keys + segments).
    pub fn check_invariants(&self) {
        self.live_index.check_invariants();
        let head = self.live_index.segment_index(self.head);
        for (index, segment) in self.live_index.segments.iter().enumerate() {
            assert!((SEGMENT_HEADER_BYTES as u64..=segment.size).contains(&segment.used));
            assert!(index >= head || segment.ready || !self.io.has_no_sealed());
            assert!(
                index <= head || segment.used == SEGMENT_HEADER_BYTES as u64,
                "a prepared segment is in use"
            );
            assert!(segment.live.count == 0 || segment.used > SEGMENT_HEADER_BYTES as u64);
        }
        assert!(self.live_index.first_epoch <= self.oldest && self.oldest <= self.head);
        let behind: u64 =
            self.live_index.segments.iter().take(head).map(|segment| segment.used).sum();
        assert_eq!(self.allocator.behind_bytes, behind, "the segments behind the head");
        self.io.check_invariants(self.sequence);
    }
}

//! Copies of the journal while it runs: which parts of which segments make a directory from which
//! everything up to a batch is restored.
//!
//! A copy has the segments from the oldest needed one to the head, each up to the end of its last
//! frame, with a header that says so. While it is made, no segment is freed: compaction goes on,
//! and the directory may exceed its bound.

use super::Journal;
use crate::journal::BatchSeq;
use crate::journal::format::{SEGMENT_HEADER_BYTES, SegmentHeader, segment_name};

/// A file of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentCopy {
    /// Of the segment.
    pub epoch: u64,
    /// The name of the file.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its first bytes; the others are those of the segment.
    pub head: Vec<u8>,
}

impl Journal {
    /// Holds segments back, and returns what a copy consists of, with the batch up to which it has
    /// everything: the files are to be read once that is durable. O(segments).
    ///
    /// # Panics
    /// If segments are held back already.
    pub fn begin_copy(&mut self) -> (Vec<SegmentCopy>, BatchSeq) {
        assert!(!self.allocator.holds_back, "two copies are made at a time");
        self.allocator.holds_back = true;
        assert!(
            self.live_index.first_epoch <= self.oldest,
            "a segment that the copy needs has been freed"
        );
        let used = |epoch: u64| {
            let segment = &self.live_index.segments[self.live_index.segment_index(epoch)];
            debug_assert!(segment.used <= segment.size, "a segment has more bytes than its file");
            segment.used
        };
        let with_frames = (self.oldest..=self.head)
            .map(|epoch| (epoch, used(epoch)))
            .filter(|&(_, size)| size > SEGMENT_HEADER_BYTES as u64);
        let copy = |(epoch, size)| {
            let mut head = SegmentHeader { epoch, size, salt: self.salt }.encode();
            // Without the zeros of a segment that has no frames yet.
            head.truncate(SEGMENT_HEADER_BYTES);
            SegmentCopy { epoch, name: segment_name(epoch), size, head }
        };
        (with_frames.map(copy).collect(), self.sequence - 1)
    }

    /// Segments are freed again.
    pub fn end_copy(&mut self) {
        debug_assert!(self.allocator.holds_back, "a copy ends that was begun");
        self.allocator.holds_back = false;
        debug_assert!(
            self.live_index.first_epoch <= self.oldest,
            "a needed segment was freed while a copy was made"
        );
    }
}

//! L3: the journal. It stores opaque records in batches and returns them after a crash.
//!
//! A pure state machine over an injected [`disk::Disk`], without clock, randomness or files.
//! `format` defines the bytes on the disk, `log` is the running journal, `live_index` knows which
//! base record is in which segment, `scan` and `recover` read what an earlier run has left
//! (`report`), `salvage` (with `survey`, `frame_search`, `keys` and `keys_from_frames`) reads a
//! damaged directory. [`disk`] is the interface to the disk; the reactor implements it.
//!
//! The guarantee after a crash at any moment: each batch is there whole or not at all; all batches
//! up to [`Journal::durable`] are there; none comes twice; their order is kept. What a power
//! failure may lose besides depends on [`SyncMode`].

pub mod disk;
mod format;
mod frame_search;
mod keys;
mod keys_from_frames;
pub mod limits;
mod live_index;
mod log;
mod reader;
mod recover;
mod recovery_scan;
mod report;
mod salvage;
mod survey;

pub use format::{LOCK_FILE, is_segment, segment_name, spare_name};
pub use live_index::UPPER_KEYS;
pub use log::{Journal, LogStats, SYNC_BOUNDS_NS, SegmentCopy};
pub use recover::{RecordRole, Recovered, read, recover};
pub use report::{
    OpenError, RecordLocation, RecordVisitor, RecoveryProgress, RecoveryReport, TornTail,
};
pub use salvage::{SalvageReport, SkippedRange, SuspiciousFile, salvage};

use crate::journal::limits::{
    JOURNAL_AUTO_SEGMENT_MIN_BYTES, JOURNAL_SEGMENT_BYTES, JOURNAL_SEGMENT_SPACE_DIVISOR,
};
use std::time::Duration;

/// The sequence of a batch. A record is acknowledged once [`Journal::durable`] has reached the
/// sequence that its append returned.
pub type BatchSeq = u64;

/// When a batch counts as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// When it is synced: nothing acknowledged is lost by a power cut.
    Always,
    /// When the kernel has it: nothing acknowledged is lost by a crash of the process. Synced this
    /// time later at the latest, also without traffic, and at the close.
    Every(Duration),
    /// When the kernel has it; synced when a segment is full or to be freed, and at the close.
    Never,
}

/// Settings of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalOptions {
    /// The usual size of a segment in bytes; rounded up to a multiple of 8, and to
    /// [`JOURNAL_SEGMENT_MIN_BYTES`](crate::journal::limits::JOURNAL_SEGMENT_MIN_BYTES).
    pub segment_bytes: u64,
    /// When a batch counts as durable.
    pub sync: SyncMode,
    /// Entropy for a new directory: checksums are salted with it, so that no payload verifies as a
    /// batch.
    pub salt: u64,
}

/// The usual segment size in bytes for a directory of `space` bytes: a small part of it, because
/// compaction needs two and a half segments at all times.
#[must_use]
pub fn segment_bytes_for(space: u64) -> u64 {
    let part = (space / JOURNAL_SEGMENT_SPACE_DIVISOR)
        .clamp(JOURNAL_AUTO_SEGMENT_MIN_BYTES, JOURNAL_SEGMENT_BYTES);
    // A power of two, so that a little more or less space changes nothing.
    let bytes = 1 << part.ilog2();
    debug_assert!(
        (JOURNAL_AUTO_SEGMENT_MIN_BYTES..=JOURNAL_SEGMENT_BYTES).contains(&bytes),
        "rounding has made a segment smaller than permitted"
    );
    bytes
}

/// Bytes of space below which a directory is too small to be useful.
pub const SPACE_MIN_BYTES: u64 = JOURNAL_SEGMENT_SPACE_DIVISOR * JOURNAL_AUTO_SEGMENT_MIN_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_size_is_a_small_power_of_two_of_the_space() {
        let mib = |count: u64| count << 20;
        for (space, segment) in [
            (0, mib(1) / 4),
            (SPACE_MIN_BYTES, mib(1) / 4),
            (mib(15), mib(1) / 2),
            (mib(16), mib(1)),
            (mib(40), mib(2)),
            (mib(70), mib(4)),
            (mib(511), mib(16)),
            (mib(512), mib(32)),
            (u64::MAX, mib(32)),
        ] {
            assert_eq!(segment_bytes_for(space), segment, "{space}");
        }
        assert_eq!(SPACE_MIN_BYTES, mib(4));
    }
}

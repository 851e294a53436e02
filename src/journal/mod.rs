//! F3: the journal. Opaque records go in and come back after a crash; what they say is their
//! owner's business.
//!
//! A pure state machine over an injected [`disk::Disk`]: no clock, no chance, no file. `format`
//! says how everything lies on the disk, `machine` is the running journal, `ledger` knows which
//! base record lives where, `chain` and `recover` read what an earlier run left, `salvage`, with
//! `survey` and `keys`, what damage left. [`disk`] is the disk as the journal sees it; the shell
//! owns the real one.
//!
//! The promise: after a crash at any moment every batch is there whole or not at all, all those are
//! there that [`Journal::durable`] had named, nothing comes twice, and the order is kept. What a
//! power cut may take besides is the business of [`SyncMode`].

pub mod disk;
mod format;
mod keys;
mod live_index;
mod log;
mod reader;
mod recover;
mod salvage;
mod scan;
mod survey;

pub use format::{LOCK_FILE, is_segment, segment_name, spare_name};
pub use log::{Journal, LogStats, SYNC_BOUNDS_NS};
pub use recover::{
    OpenError, RecordLocation, RecordRole, RecordVisitor, Recovered, RecoveryProgress,
    RecoveryReport, TornTail, read, recover,
};
pub use salvage::{SalvageReport, SkippedRange, SuspiciousFile, salvage};

use crate::base::limits::{JOURNAL_SEGMENT_BYTES, JOURNAL_SEGMENT_LEAST, JOURNAL_SPACE_PARTS};
use std::time::Duration;

/// The number of a batch. A record is acknowledged once [`Journal::durable`] has reached the stamp
/// that its append gave.
pub type BatchSeq = u64;

/// When a batch counts as acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// When it is synced: nothing acknowledged is lost by a power cut.
    Always,
    /// When the kernel has it: nothing acknowledged is lost by a crash of the process. Synced so
    /// long after at the latest, also without traffic, and at the end.
    Every(Duration),
    /// When the kernel has it; synced when a segment is full or to be given up, and at the end.
    Never,
}

/// How a journal is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalOptions {
    /// The usual size of a segment in bytes; rounded up to a multiple of 8, and to
    /// [`JOURNAL_SEGMENT_MIN_BYTES`](crate::base::limits::JOURNAL_SEGMENT_MIN_BYTES).
    pub segment_bytes: u64,
    /// When a batch counts as acknowledged.
    pub sync: SyncMode,
    /// A random number for a new directory: checksums depend on it, so that no payload can pretend
    /// to be a batch.
    pub salt: u64,
}

/// The usual size of a segment where a directory has so many bytes for all its files: small enough
/// that what compaction needs at all times, two and a half segments, is a small part of that.
#[must_use]
pub fn segment_bytes_for(space: u64) -> u64 {
    let part = (space / JOURNAL_SPACE_PARTS).clamp(JOURNAL_SEGMENT_LEAST, JOURNAL_SEGMENT_BYTES);
    // The largest power of two in it: a little more or less space changes nothing.
    1 << part.ilog2()
}

/// With less space than this a directory cannot hold much.
pub const SPACE_MIN_BYTES: u64 = JOURNAL_SPACE_PARTS * JOURNAL_SEGMENT_LEAST;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_a_small_part_of_the_space() {
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

//! The journal proper (skeleton).

use super::Stamp;
use super::disk::{Disk, Fault};
use crate::base::time::{Mono, Now};

/// A journal that runs.
///
/// One pass: [`Self::poll`] at its beginning, appends and forgets, `while let Some(owner) =
/// self.next_to_move()` append the owner's record anew, [`Self::commit`] at its end; then
/// everything up to [`Self::durable`] may be answered.
pub struct Journal {
    #[expect(dead_code, reason = "skeleton")]
    disk: Box<dyn Disk>,
}

/// Figures of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Bytes of base records in use.
    pub live_bytes: u64,
    /// Bytes in the segments' used parts that nobody needs any more.
    pub dead_bytes: u64,
    /// Bytes of all files: segments, prepared ones, spares.
    pub total_bytes: u64,
    /// Bytes prepared and not used yet.
    pub free_bytes: u64,
    /// Owners with a base record.
    pub owners: u64,
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
    /// Bytes of records that compaction has moved.
    pub moved_bytes: u64,
    /// Syncs done.
    pub syncs: u64,
    /// Records that these syncs made durable.
    pub synced_records: u64,
    /// How long the last sync took, in nanoseconds.
    pub sync_last_ns: u64,
    /// How long the longest took.
    pub sync_worst_ns: u64,
    /// Whether the disk had no space for the next segment.
    pub full: bool,
}

impl Journal {
    /// Appends a record to the open batch. With an owner it is the owner's base record from now on,
    /// and the former one is dead. O(bytes).
    pub fn append(&mut self, _owner: Option<u32>, _record: &[u8]) -> Stamp {
        unimplemented!()
    }

    /// Like [`Self::append`]; the record is what `write` adds to the buffer.
    pub fn append_with(&mut self, _owner: Option<u32>, _write: impl FnOnce(&mut Vec<u8>)) -> Stamp {
        unimplemented!()
    }

    /// The owner's base record is dead. O(1).
    pub fn forget(&mut self, _owner: u32) -> Stamp {
        unimplemented!()
    }

    /// Raises the owner's number that every batch carries.
    pub fn set_mark(&mut self, _mark: u64) {
        unimplemented!()
    }

    /// Between two commands of a pass: a large batch may be divided here, and nowhere else.
    pub fn part(&mut self) {
        unimplemented!()
    }

    /// The next owner whose base record must be appended anew, now, as it stands.
    pub fn next_to_move(&mut self) -> Option<u32> {
        unimplemented!()
    }

    /// At the end of a pass: hands what was appended to the disk, if it is not busy.
    pub fn commit(&mut self, _now: Now) {
        unimplemented!()
    }

    /// Takes in what the disk has finished. Call it after a wake, and when a timeout is due.
    pub fn poll(&mut self, _now: Now) {
        unimplemented!()
    }

    /// Every batch up to this one is acknowledged.
    #[must_use]
    pub fn durable(&self) -> Stamp {
        unimplemented!()
    }

    /// When [`Self::poll`] and [`Self::commit`] must be called even if nothing happens.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        unimplemented!()
    }

    /// Whether a record of so many bytes that makes the live data grow may be appended: false only
    /// on a full disk.
    #[must_use]
    pub fn accepts(&self, _bytes: usize) -> bool {
        unimplemented!()
    }

    /// What went wrong with the disk: nothing is acknowledged afterwards.
    #[must_use]
    pub fn fault(&self) -> Option<&Fault> {
        unimplemented!()
    }

    /// Figures. O(1).
    #[must_use]
    pub fn status(&self) -> Status {
        unimplemented!()
    }

    /// Begins the end: everything is written and synced. Go on polling until [`Self::is_closed`].
    pub fn close(&mut self, _now: Now) {
        unimplemented!()
    }

    /// Whether everything is durable after [`Self::close`], or the disk has failed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        unimplemented!()
    }

    /// Asserts what always holds. O(owners).
    pub fn check_invariants(&self) {
        unimplemented!()
    }
}

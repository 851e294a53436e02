//! F3: the journal. Opaque records go in and come back after a crash; what they say is their
//! owner's business.
//!
//! A pure state machine over an injected [`disk::Disk`]: no clock, no chance, no file. `format`
//! says how everything lies on the disk, `machine` is the running journal, `ledger` knows which
//! base record lives where, `chain` and `recover` read what an earlier run left, `salvage` what
//! damage left. [`disk`] is the disk as the journal sees it; the shell owns the real one.
//!
//! The promise: after a crash at any moment every batch is there whole or not at all, all those are
//! there that [`Journal::durable`] had named, nothing comes twice, and the order is kept. What a
//! power cut may take besides is the business of [`SyncMode`].

mod chain;
pub mod disk;
mod format;
mod ledger;
mod machine;
mod reader;
mod recover;
mod salvage;

pub use format::{LOCK, segment_name, spare_name};
pub use machine::{Journal, SYNC_BOUNDS_NS, Status};
pub use recover::{Note, Origin, Progress, Recovered, Refused, Report, Take, Torn, read, recover};
pub use salvage::{Salvaged, Skipped, salvage};

use std::time::Duration;

/// The number of a batch. A record is acknowledged once [`Journal::durable`] has reached the stamp
/// that its append gave.
pub type Stamp = u64;

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
pub struct Options {
    /// The usual size of a segment in bytes; rounded up to a multiple of 8, and to
    /// [`JOURNAL_SEGMENT_MIN`](crate::base::limits::JOURNAL_SEGMENT_MIN).
    pub segment_bytes: u64,
    /// When a batch counts as acknowledged.
    pub sync: SyncMode,
    /// A random number for a new directory: checksums depend on it, so that no payload can pretend
    /// to be a batch.
    pub salt: u64,
}

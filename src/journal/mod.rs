//! F3: the journal. Opaque records in, opaque records out; never names a job.
//!
//! A pure state machine over an injected [`disk::Disk`].

pub mod disk;
mod machine;
mod recover;

pub use machine::{Journal, Status};
pub use recover::{Note, Origin, Progress, Recovered, Refused, Report, Torn, read, recover};

use std::time::Duration;

/// The number of a batch. A record is acknowledged once [`Journal::durable`] has reached the stamp
/// that its append gave.
pub type Stamp = u64;

/// Bytes of later records that are kept in reserve for each owner.
pub const RESERVE: u64 = 64;

/// The usual size of a segment.
pub const SEGMENT_BYTES: u64 = 32 * 1024 * 1024;

/// When a batch counts as acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// When it is synced: nothing acknowledged is lost by a power cut.
    Always,
    /// When the kernel has it; synced so long after at the latest, also without traffic.
    Every(Duration),
    /// When the kernel has it; synced when a segment is full or given up, and at the end.
    Never,
}

/// How a journal is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The usual size of a segment in bytes.
    pub segment_bytes: u64,
    /// When a batch counts as acknowledged.
    pub sync: SyncMode,
    /// A random number for a new directory: checksums depend on it, so that no payload can pretend
    /// to be a batch.
    pub salt: u64,
}

//! What the journal asks of a disk, as values: operations go in, completions come out.
//!
//! [`Disk`] is what a running journal writes through, [`Files`] is what recovery, checks and
//! salvage read through, before a journal runs. The shell brings those of the operating system; the
//! simulated disk of the tests implements both.

use std::fmt;

/// Something the disk refused to do: fatal for the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskError {
    /// What was tried: "write", "sync", ..
    pub operation: &'static str,
    /// The file concerned, as the operator knows it.
    pub file: String,
    /// What the operating system said.
    pub error: String,
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.operation, self.file, self.error)
    }
}

impl std::error::Error for DiskError {}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IoFailure {
    /// There is no space left. Nothing but a preparation may fail for this reason and be tried
    /// again.
    Full(DiskError),
    /// Anything else.
    Error(DiskError),
}

/// An operation on one segment or spare.
///
/// Three lanes: writes, syncs, and space (prepare, free, discard). The operations of one lane are
/// carried out and completed in the order of their submission, and none after one that has failed
/// with a fault. Lanes pass each other freely, but a sync covers every write to its segment that
/// was submitted before it. A write with `sync` is in both of the first two lanes.
#[derive(Debug, PartialEq, Eq)]
pub enum DiskOp {
    /// Writes `bytes` at `offset` of a segment, and syncs it if asked to.
    Write {
        /// The segment.
        epoch: u64,
        /// Where.
        offset: u64,
        /// What. Comes back in [`Done::buffer`].
        bytes: Vec<u8>,
        /// Whether it is done only once it is durable.
        sync: bool,
    },
    /// Makes every earlier write to a segment durable.
    Sync {
        /// The segment.
        epoch: u64,
    },
    /// Makes a segment: it begins with `head`, and is durable, with its name, when this is done. It
    /// must never be seen under its name in another state.
    Prepare {
        /// Its epoch.
        epoch: u64,
        /// Its size in bytes.
        size: u64,
        /// Its first bytes.
        head: Vec<u8>,
        /// A spare of the same size to take, whose bytes behind `head` stay; none: zeros.
        reuse: Option<u32>,
    },
    /// Takes a segment away, durably.
    Free {
        /// The segment.
        epoch: u64,
        /// Under which number it is kept as a spare; none: it is deleted.
        keep: Option<u32>,
    },
    /// Deletes a spare.
    Discard {
        /// Its number.
        spare: u32,
    },
}

/// Which operation is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoKind {
    /// The earliest unfinished [`Op::Write`].
    Written,
    /// The earliest unfinished [`Op::Sync`].
    Synced,
    /// The earliest unfinished operation on space.
    Space,
    /// The earliest unfinished [`Op::Write`], made durable by the sync of the one before it.
    Coalesced,
}

/// A finished operation.
#[derive(Debug)]
pub struct IoCompletion {
    /// Which.
    pub kind: IoKind,
    /// How it went.
    pub result: Result<(), IoFailure>,
    /// The buffer of a write, to be used again.
    pub buffer: Vec<u8>,
    /// If it was a sync of its own: how long that took, in nanoseconds. The journal has no clock to
    /// tell it by.
    pub sync_ns: u64,
}

/// How soon a segment is needed that is being prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefillTarget {
    /// So many of its bytes should be there by now. Beyond them there is all the time in the
    /// world, and whoever else uses the disk is to be spared.
    Bytes(u64),
    /// Nothing can be written before it is there, so there is nobody to be spared.
    Immediately,
}

/// The disk under a running journal.
pub trait Disk: Send {
    /// Takes an operation; never blocks for long.
    fn submit(&mut self, op: DiskOp);

    /// How soon segment `epoch` is needed, whose preparation was submitted. Said again in every
    /// pass, so it must be cheap.
    fn set_prefill_target(&mut self, epoch: u64, need: PrefillTarget);

    /// The next operation that is finished, if there is one; never blocks.
    fn poll(&mut self) -> Option<IoCompletion>;
}

/// A file in the journal's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
}

/// The journal's directory while no journal runs on it.
pub trait Files {
    /// Everything that is there, in any order.
    ///
    /// # Errors
    /// If the directory cannot be read.
    fn list(&mut self) -> Result<Vec<FileEntry>, DiskError>;

    /// Reads into `out` from `offset` on; says how many bytes there were, fewer only at the end.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn read(&mut self, name: &str, offset: u64, out: &mut [u8]) -> Result<usize, DiskError>;

    /// Removes a file, durably.
    ///
    /// # Errors
    /// If that fails.
    fn remove(&mut self, name: &str) -> Result<(), DiskError>;

    /// Makes a new file of these bytes, durably.
    ///
    /// # Errors
    /// If there is one already, or it cannot be written.
    fn create(&mut self, name: &str, bytes: &[u8]) -> Result<(), DiskError>;
}

//! The disk as values: operations go in, completions come out.
//!
//! A running journal writes by [`Disk`]. Recovery, checks and salvage read by [`Files`], before a
//! journal runs. The reactor implements both for the operating system, the simulated disk of the
//! tests implements both in memory.

use std::fmt;

/// An I/O error: fatal for the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskError {
    /// The verb: "write", "sync", ...
    pub operation: &'static str,
    /// The name of the file for the operator.
    pub file: String,
    /// The text of the operating system.
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
    /// There is no space left. Only [`SpaceOp::Prepare`] may fail so and be tried again.
    Full(DiskError),
    /// Any other error: fatal.
    Error(DiskError),
}

/// An operation on the content of one segment.
///
/// There are three queues: writes, syncs, and space ([`SpaceOp`]). The operations of one queue are
/// executed and completed in the order of their submission, none after a fatal error. The queues
/// are independent of each other, but a sync covers every write to its segment that was submitted
/// before it. A write with `sync` belongs to the first two queues.
#[derive(Debug, PartialEq, Eq)]
pub enum DiskOp {
    /// Writes `bytes` at `offset` of a segment.
    Write {
        /// The segment.
        epoch: u64,
        /// In bytes from the begin of the file.
        offset: u64,
        /// One batch. Comes back in [`IoCompletion::buffer`].
        bytes: Vec<u8>,
        /// Whether the write completes only once it is durable.
        sync: bool,
    },
    /// Makes every earlier write to a segment durable.
    Sync {
        /// The segment.
        epoch: u64,
    },
}

/// An operation on space: it makes or removes one segment or spare.
#[derive(Debug, PartialEq, Eq)]
pub enum SpaceOp {
    /// Creates a segment that begins with `head`. On completion it is durable, with its name. Under
    /// its name it must never be visible in another state.
    Prepare {
        /// Its epoch.
        epoch: u64,
        /// Its size in bytes.
        size: u64,
        /// Its first bytes.
        head: Vec<u8>,
        /// A spare of the same size to recycle, whose bytes behind `head` stay; `None`: zeros.
        reuse: Option<u32>,
    },
    /// Removes a segment, durably.
    Free {
        /// The segment.
        epoch: u64,
        /// The number under which it becomes a spare; `None`: it is deleted.
        keep: Option<u32>,
    },
    /// Deletes a spare.
    Discard {
        /// The number of the spare.
        spare: u32,
    },
}

/// Which operation has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoKind {
    /// The earliest unfinished [`DiskOp::Write`].
    Written,
    /// The earliest unfinished [`DiskOp::Sync`].
    Synced,
    /// The earliest unfinished [`SpaceOp`].
    Space,
    /// The earliest unfinished [`DiskOp::Write`], made durable by the sync of the one before it.
    Coalesced,
}

/// A completed operation.
#[derive(Debug)]
pub struct IoCompletion {
    /// Which operation.
    pub kind: IoKind,
    /// Its outcome.
    pub result: Result<(), IoFailure>,
    /// The buffer of a write, for reuse.
    pub buffer: Vec<u8>,
    /// The duration of its own sync in nanoseconds, if it had one: the journal has no clock.
    pub sync_ns: u64,
}

/// How soon a segment that is being prepared is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefillTarget {
    /// This many of its bytes should be filled by now. The rest is not urgent and should leave the
    /// disk to others.
    Bytes(u64),
    /// Batches wait for the segment.
    Immediately,
}

/// The disk under a running journal.
pub trait Disk: Send {
    /// Submits a write or a sync; does not block.
    fn submit(&mut self, op: DiskOp);

    /// Submits an operation on space; does not block.
    fn submit_space(&mut self, op: SpaceOp);

    /// Says how soon segment `epoch`, whose preparation was submitted, is needed. Called in every
    /// pass: O(1).
    fn set_prefill_target(&mut self, epoch: u64, need: PrefillTarget);

    /// The next completion, if there is one; does not block.
    fn poll(&mut self) -> Option<IoCompletion>;
}

/// A part of a segment, to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPart {
    /// The segment.
    pub epoch: u64,
    /// From this byte on.
    pub offset: u64,
    /// This many bytes.
    pub length: usize,
}

/// Reads segments of a running journal, beside it.
pub trait SegmentReader: Send {
    /// Submits a read; does not block.
    fn submit(&mut self, part: SegmentPart);

    /// The bytes of the earliest read that was not returned, all that were asked for, if it has
    /// ended; does not block.
    fn poll(&mut self) -> Option<Result<Vec<u8>, DiskError>>;
}

/// A file in the journal's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// The file name without a path.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
}

/// The journal's directory while no journal runs on it.
pub trait Files {
    /// All files, in any order.
    ///
    /// # Errors
    /// If the directory cannot be read.
    fn list(&mut self) -> Result<Vec<FileEntry>, DiskError>;

    /// Reads from byte `offset` on into `out`. Returns the count of bytes read: 0 at the end.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn read(&mut self, name: &str, offset: u64, out: &mut [u8]) -> Result<usize, DiskError>;

    /// Removes a file, durably.
    ///
    /// # Errors
    /// If the file cannot be removed.
    fn remove(&mut self, name: &str) -> Result<(), DiskError>;

    /// Creates a file with these bytes, durably.
    ///
    /// # Errors
    /// If the file exists, or cannot be written.
    fn create(&mut self, name: &str, bytes: &[u8]) -> Result<(), DiskError>;
}

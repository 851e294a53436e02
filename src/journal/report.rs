//! What reading a journal reports: positions of records, progress, a torn tail, errors.

use super::disk::DiskError;
use super::format::FORMAT;
use std::fmt;

/// The position of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLocation {
    /// The segment.
    pub epoch: u64,
    /// The offset of its batch in the segment, in bytes.
    pub offset: u64,
    /// The sequence of its batch.
    pub sequence: u64,
}

/// Visits each record: returns its role, or why it cannot be decoded.
pub type RecordVisitor<'a, T> = dyn FnMut(&[u8], RecordLocation) -> Result<T, String> + 'a;

/// Progress of recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryProgress {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes of all segments.
    pub total_bytes: u64,
    /// Records read.
    pub records: u64,
}

/// The end of a journal that a crash cut short, or that was not durable. It is skipped: the journal
/// continues in the next segment. Damage of the last batch looks the same, because no later batch
/// says that it was durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The file.
    pub file: String,
    /// The offset of the first byte that is skipped.
    pub offset: u64,
    /// At most this many bytes are skipped: leftovers of a recycled file count too.
    pub bytes: u64,
    /// Whole batches among them.
    pub batches: u64,
}

/// What recovery has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Records visited.
    pub records: u64,
    /// Batches they were in.
    pub batches: u64,
    /// Bytes of these batches.
    pub bytes: u64,
    /// Segments read.
    pub segments: u64,
    /// The highest id, as the last batch says.
    pub high_id: u64,
    /// The torn tail, if there was one.
    pub torn: Option<TornTail>,
    /// Names of files that are not the journal's.
    pub foreign: Vec<String>,
}

/// Why a journal cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// An I/O error.
    Disk(DiskError),
    /// A durable part is damaged.
    Damaged {
        /// The file.
        file: String,
        /// The offset in the file, in bytes.
        offset: u64,
        /// What is wrong there, for the operator.
        what: String,
    },
    /// A needed segment is missing.
    Missing {
        /// The file.
        file: String,
    },
    /// All segments are missing, although there have been some.
    Gone,
    /// The format is newer than this program.
    Newer {
        /// The file.
        file: String,
        /// Its format version.
        format: u32,
    },
    /// The visitor could not decode a record.
    Record {
        /// The file.
        file: String,
        /// The offset of its batch, in bytes.
        offset: u64,
        /// The visitor's error.
        what: String,
    },
    /// The caller has stopped the reading: a sentence that says why.
    Stopped(String),
}

/// The text for callers that do not know the directory; the command line has one that names it.
const SALVAGE: &str = "Nothing was changed. Take the directory from a backup, or copy what can be \
                       read into a new one: jobcentre journal salvage DIR OUT";

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(error) => error.fmt(f),
            Self::Stopped(why) => f.write_str(why),
            Self::Damaged { file, offset, what } => {
                write!(f, "the journal is damaged: {file}, byte {offset}: {what}. {SALVAGE}")
            }
            Self::Missing { file } => {
                write!(f, "the journal is damaged: {file} is missing. {SALVAGE}")
            }
            Self::Gone => write!(f, "the journal is gone: all its segments are missing. {SALVAGE}"),
            Self::Newer { file, format } => write!(
                f,
                "{file} has format {format}, and this program knows formats up to {FORMAT}: use \
                 the program that wrote it, or a newer one"
            ),
            Self::Record { file, offset, what } => {
                write!(f, "the batch at byte {offset} of {file} was written whole, but {what}")
            }
        }
    }
}

impl std::error::Error for OpenError {}

impl From<DiskError> for OpenError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

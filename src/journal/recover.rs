//! Recovery: reads a directory, and prepares the journal that continues in it.

use super::disk::{Disk, DiskError, Files};
use super::format::RECORD_HEADER_BYTES;
use super::live_index::{LiveIndex, Segment};
use super::log::{Journal, RecoveredState};
use super::scan::{self, ScanResult};
use super::{JournalOptions, format};
use crate::base::limits::JOURNAL_SEGMENT_MIN_BYTES;
use crate::base::time::Now;
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

/// What a record means for the live index, as if it had just been appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordRole {
    /// It is the base record of this record key; the key's former one is dead.
    Base(u32),
    /// The base record of this record key is dead.
    Delete(u32),
    /// Neither.
    None,
}

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
}

/// The text for callers that do not know the directory; the command line has one that names it.
const SALVAGE: &str = "Nothing was changed. Take the directory from a backup, or copy what can be \
                       read into a new one: jobcentre journal salvage DIR OUT";

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(error) => error.fmt(f),
            Self::Damaged { file, offset, what } => {
                write!(f, "the journal is damaged: {file}, byte {offset}: {what}. {SALVAGE}")
            }
            Self::Missing { file } => {
                write!(f, "the journal is damaged: {file} is missing. {SALVAGE}")
            }
            Self::Gone => write!(f, "the journal is gone: all its segments are missing. {SALVAGE}"),
            Self::Newer { file, format } => write!(
                f,
                "{file} has format {format}, and this program knows formats up to {}: use the \
                 program that wrote it, or a newer one",
                format::FORMAT
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

/// A recovered journal that is not running yet.
pub struct Recovered(RecoveredState);

impl Recovered {
    /// Starts the journal behind the last batch, on the disk whose files were read.
    #[must_use]
    pub fn start(self, disk: Box<dyn Disk>, now: Now) -> Journal {
        Journal::start(self.0, disk, now)
    }
}

/// Applies a record to the live index. The sizes of the segments are filled in later.
fn index_record(
    live_index: &mut LiveIndex,
    location: RecordLocation,
    bytes: usize,
    role: RecordRole,
) {
    match role {
        RecordRole::Base(record_key) => {
            let bytes =
                u32::try_from(bytes + RECORD_HEADER_BYTES).expect("it was read from 32 bits");
            if live_index.segments.is_empty() {
                live_index.first_epoch = location.epoch;
            }
            while live_index.end_epoch() <= location.epoch {
                live_index.segments.push_back(Segment::new(0, 0));
            }
            live_index.insert_recovered(location.epoch, record_key, bytes);
        }
        RecordRole::Delete(record_key) => {
            live_index.forget(record_key);
        }
        RecordRole::None => {}
    }
}

/// Completes the live index by the segments, and collects what a journal needs to start.
fn recovered_state(
    mut live_index: LiveIndex,
    scanned: &ScanResult,
    options: JournalOptions,
) -> RecoveredState {
    let kept = &scanned.parts[..scanned.kept];
    let first = kept.first().map_or(1, |part| part.source.epoch);
    if live_index.segments.is_empty() {
        live_index.first_epoch = first;
    }
    while live_index.first_epoch > first {
        live_index.segments.push_front(Segment::new(0, 0));
        live_index.first_epoch -= 1;
    }
    while live_index.segments.len() < kept.len() {
        live_index.segments.push_back(Segment::new(0, 0));
    }
    for (segment, part) in live_index.segments.iter_mut().zip(kept) {
        segment.size = part.source.size;
        segment.used = part.end;
        segment.key = part.source.key;
        segment.ready = true;
    }
    let torn = scanned.report.torn.is_some();
    if torn && scanned.stop < kept.len() {
        // The bytes behind the cut count as dead.
        let cut = &mut live_index.segments[scanned.stop];
        cut.used = cut.size;
    }
    // The bytes behind a cut stay on the disk: the journal continues in the next segment.
    let head = if kept.is_empty() { 0 } else { scanned.stop as u64 + u64::from(torn) };
    let unsynced = kept.iter().filter(|part| part.last_sequence > scanned.last.synced);
    RecoveredState {
        salt: scanned.salt.unwrap_or(options.salt),
        head: first + head,
        last: scanned.last,
        unsynced: unsynced.map(|part| (part.source.epoch, part.last_sequence)).collect(),
        torn,
        live_index,
        options,
    }
}

/// Visits each record: returns its role, or why it cannot be decoded.
pub type RecordVisitor<'a, T> = dyn FnMut(&[u8], RecordLocation) -> Result<T, String> + 'a;

/// Visits all records in order, and removes obsolete files: spares, freed segments, and segments
/// that hold torn bytes only. O(bytes); no allocation per record.
///
/// # Errors
/// See [`OpenError`]. Nothing has been changed then, unless it is an I/O error.
pub fn recover(
    files: &mut dyn Files,
    options: &JournalOptions,
    visit: &mut RecordVisitor<'_, RecordRole>,
    progress: &mut dyn FnMut(RecoveryProgress),
) -> Result<(Recovered, RecoveryReport), OpenError> {
    let mut live_index = LiveIndex::default();
    let mut index = |record: &[u8], location: RecordLocation| {
        index_record(&mut live_index, location, record.len(), visit(record, location)?);
        Ok(())
    };
    let scanned = scan::scan(&mut *files, &mut index, progress)?;
    for name in &scanned.obsolete {
        files.remove(name)?;
    }
    let segment_bytes = options.segment_bytes.max(JOURNAL_SEGMENT_MIN_BYTES);
    let segment_bytes = segment_bytes.next_multiple_of(format::FRAME_ALIGN_BYTES as u64);
    let start =
        recovered_state(live_index, &scanned, JournalOptions { segment_bytes, ..options.clone() });
    Ok((Recovered(start), scanned.report))
}

/// As [`recover`], but changes nothing: for checks and dumps.
///
/// # Errors
/// See [`OpenError`].
pub fn read(
    files: &mut dyn Files,
    visit: &mut RecordVisitor<'_, ()>,
    progress: &mut dyn FnMut(RecoveryProgress),
) -> Result<RecoveryReport, OpenError> {
    Ok(scan::scan(files, visit, progress)?.report)
}

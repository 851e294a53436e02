//! Recovery: from a directory to a journal that goes on.

use super::disk::{Disk, DiskError, Files};
use super::format::RECORD_HEADER_BYTES;
use super::live_index::{LiveIndex, Segment};
use super::log::{Journal, RecoveredState};
use super::scan::{self, ScanResult};
use super::{JournalOptions, format};
use crate::base::limits::JOURNAL_SEGMENT_MIN_BYTES;
use crate::base::time::Now;
use std::fmt;

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLocation {
    /// The segment.
    pub epoch: u64,
    /// Where its batch begins in the segment.
    pub offset: u64,
    /// The number of its batch.
    pub sequence: u64,
}

/// What the owner of the records makes of one: as if it had just been appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordRole {
    /// It is the base record of this owner now; its former one is dead.
    Base(u32),
    /// The base record of this owner is dead.
    Delete(u32),
    /// Neither.
    None,
}

/// How far recovery has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryProgress {
    /// Bytes of the segments that are read.
    pub read_bytes: u64,
    /// Bytes of all segments.
    pub total_bytes: u64,
    /// Records so far.
    pub records: u64,
}

/// A tail that was not written to its end, or not durable: cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The file.
    pub file: String,
    /// Where the cut is.
    pub offset: u64,
    /// Bytes behind it, at most: what a recycled file held before counts as well.
    pub bytes: u64,
    /// Whole batches among them.
    pub batches: u64,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Records handed over.
    pub records: u64,
    /// Batches they were in.
    pub batches: u64,
    /// Bytes of these batches.
    pub bytes: u64,
    /// Segments read.
    pub segments: u64,
    /// The owner's number in the last batch.
    pub high_id: u64,
    /// The torn tail, if there was one.
    pub torn: Option<TornTail>,
    /// Files that are none of the journal's.
    pub foreign: Vec<String>,
}

/// Why a journal is not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The disk failed.
    Disk(DiskError),
    /// What was durable is damaged.
    Damaged {
        /// The file.
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// A segment that is needed is not there.
    Missing {
        /// The file.
        file: String,
    },
    /// There have been segments, and there is none.
    Gone,
    /// A newer program wrote it.
    Newer {
        /// The file.
        file: String,
        /// Its format.
        format: u32,
    },
    /// The owner could not make sense of a record.
    Record {
        /// The file.
        file: String,
        /// Where its batch begins.
        offset: u64,
        /// What the owner said.
        what: String,
    },
}

const SALVAGE: &str = "Nothing was changed. Look for a backup, or let `jobcentre journal salvage \
                       DIR OUT` copy what can be read into a new directory";

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(fault) => fault.fmt(f),
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
                write!(f, "a record of the batch at byte {offset} of {file} says nothing: {what}")
            }
        }
    }
}

impl std::error::Error for OpenError {}

impl From<DiskError> for OpenError {
    fn from(fault: DiskError) -> Self {
        Self::Disk(fault)
    }
}

/// What recovery leaves for the journal to go on with.
pub struct Recovered(RecoveredState);

impl Recovered {
    /// The journal goes on behind what was recovered, on the disk whose files were read.
    #[must_use]
    pub fn start(self, disk: Box<dyn Disk>, now: Now) -> Journal {
        Journal::start(self.0, disk, now)
    }
}

/// The ledger as the records tell it, before the sizes of the segments are known.
fn index_record(ledger: &mut LiveIndex, origin: RecordLocation, bytes: usize, note: RecordRole) {
    match note {
        RecordRole::Base(owner) => {
            let bytes =
                u32::try_from(bytes + RECORD_HEADER_BYTES).expect("it was read from 32 bits");
            if ledger.segments.is_empty() {
                ledger.first_epoch = origin.epoch;
            }
            while ledger.end_epoch() <= origin.epoch {
                ledger.segments.push_back(Segment::new(0, 0));
            }
            ledger.insert_recovered(origin.epoch, owner, bytes);
        }
        RecordRole::Delete(owner) => {
            ledger.forget(owner);
        }
        RecordRole::None => {}
    }
}

/// Completes the ledger, and says what else a journal has to know.
fn recovered_state(
    mut ledger: LiveIndex,
    chain: &ScanResult,
    options: JournalOptions,
) -> RecoveredState {
    let kept = &chain.parts[..chain.kept];
    let first = kept.first().map_or(1, |part| part.source.epoch);
    if ledger.segments.is_empty() {
        ledger.first_epoch = first;
    }
    while ledger.first_epoch > first {
        ledger.segments.push_front(Segment::new(0, 0));
        ledger.first_epoch -= 1;
    }
    while ledger.segments.len() < kept.len() {
        ledger.segments.push_back(Segment::new(0, 0));
    }
    for (segment, part) in ledger.segments.iter_mut().zip(kept) {
        segment.size = part.source.size;
        segment.used = part.end;
        segment.key = part.source.key;
        segment.ready = true;
    }
    let torn = chain.report.torn.is_some();
    if torn && chain.stop < kept.len() {
        // What is behind the cut is as good as dead.
        let cut = &mut ledger.segments[chain.stop];
        cut.used = cut.size;
    }
    // What is behind a cut stays there: the next segment goes on.
    let head = if kept.is_empty() { 0 } else { chain.stop as u64 + u64::from(torn) };
    let unsynced = kept.iter().filter(|part| part.last_sequence > chain.last.synced);
    RecoveredState {
        salt: chain.salt.unwrap_or(options.salt),
        head: first + head,
        last: chain.last,
        unsynced: unsynced.map(|part| (part.source.epoch, part.last_sequence)).collect(),
        torn,
        live_index: ledger,
        options,
    }
}

/// What takes the records, and says what it makes of each, or why it can make nothing of it.
pub type RecordVisitor<'a, T> = dyn FnMut(&[u8], RecordLocation) -> Result<T, String> + 'a;

/// Reads all records in their order, and makes the directory fit to go on with: a torn tail is cut.
/// O(bytes); no allocation per record.
///
/// # Errors
/// See [`OpenError`]. Unless the disk failed, nothing has been changed then.
pub fn recover(
    files: &mut dyn Files,
    options: &JournalOptions,
    each: &mut RecordVisitor<'_, RecordRole>,
    progress: &mut dyn FnMut(RecoveryProgress),
) -> Result<(Recovered, RecoveryReport), OpenError> {
    let mut ledger = LiveIndex::default();
    let mut take = |record: &[u8], origin: RecordLocation| {
        index_record(&mut ledger, origin, record.len(), each(record, origin)?);
        Ok(())
    };
    let chain = scan::scan(&mut *files, &mut take, progress)?;
    for name in &chain.obsolete {
        files.remove(name)?;
    }
    let segment_bytes = options.segment_bytes.max(JOURNAL_SEGMENT_MIN_BYTES);
    let segment_bytes = segment_bytes.next_multiple_of(format::FRAME_ALIGN_BYTES as u64);
    let start =
        recovered_state(ledger, &chain, JournalOptions { segment_bytes, ..options.clone() });
    Ok((Recovered(start), chain.report))
}

/// Like [`recover`], but changes nothing: for checks and dumps.
///
/// # Errors
/// See [`OpenError`].
pub fn read(
    files: &mut dyn Files,
    each: &mut RecordVisitor<'_, ()>,
    progress: &mut dyn FnMut(RecoveryProgress),
) -> Result<RecoveryReport, OpenError> {
    Ok(scan::scan(files, each, progress)?.report)
}

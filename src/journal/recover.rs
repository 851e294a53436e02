//! Recovery: reads a directory, and prepares the journal that continues in it.

use super::disk::{Disk, Files};
use super::format::RECORD_HEADER_BYTES;
use super::live_index::{LiveIndex, Segment};
use super::log::{Journal, RecoveredState};
use super::recovery_scan::{self, ScanResult};
use super::report::{OpenError, RecordLocation, RecordVisitor, RecoveryProgress, RecoveryReport};
use super::{JournalOptions, format};
use crate::base::time::Now;
use crate::journal::limits::JOURNAL_SEGMENT_MIN_BYTES;

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
            assert!(
                location.epoch + 1 >= live_index.end_epoch(),
                "records are not visited in the order of their segments"
            );
            while live_index.end_epoch() <= location.epoch {
                live_index.segments.push_back(Segment::new(0, 0));
            }
            live_index.insert_recovered(location.epoch, record_key, bytes);
        }
        RecordRole::Delete(record_key) => {
            live_index.mark_dead(record_key);
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
    assert!(
        kept.last().is_none_or(|last| last.source.epoch + 1 == first + kept.len() as u64),
        "the epochs of the segments that are kept have a gap"
    );
    assert!(
        kept.get(scanned.stop).map_or(0, |part| part.last_sequence) == scanned.last.sequence,
        "the last batch is not in the segment where reading stopped"
    );
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
    assert_eq!(
        (live_index.first_epoch, live_index.segments.len()),
        (first, kept.len()),
        "a base record is in a segment that is not kept"
    );
    for (index, (segment, part)) in live_index.segments.iter_mut().zip(kept).enumerate() {
        assert!(
            index <= scanned.stop || (segment.live.count == 0 && part.last_sequence == 0),
            "a segment behind the one where reading stopped has batches"
        );
        assert!(part.end <= part.source.size, "a batch ends behind the end of its segment");
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
    let scanned = recovery_scan::scan(&mut *files, &mut index, progress)?;
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
    Ok(recovery_scan::scan(files, visit, progress)?.report)
}

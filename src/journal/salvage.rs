//! Salvage: copies every batch that verifies and is valid into a new directory, in the order of the
//! sequences, wherever it is: in a file of another name, behind a damaged header, at another offset
//! than where it was written, or twice.
//!
//! Batches that verify but are superseded:
//! - those that an earlier recovery has cut off: a later segment continues with the same sequence
//!   or a lower one;
//! - those of a freed segment: the valid batches need only later segments, and no file is that
//!   segment any more. Such batches are behind the end of recycled segments, and in spares.

use super::disk::{DiskError, Files};
use super::format::{self, BatchHeader, FRAME_ALIGN_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::reader::{FIRST_FRAME_OFFSET, SegmentReader};
use super::recovery_scan::SegmentList;
use super::report::OpenError;
use super::survey::{BatchRun, Gap, HeaderState, Survey, SurveyedFile, TolerantFiles};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// At most this many missing segments are listed.
const MISSING_NAMED: usize = 1_000;

/// A range of bytes that was not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedRange {
    /// The file.
    pub file: String,
    /// The offset in the file, in bytes.
    pub offset: u64,
    /// The length in bytes.
    pub bytes: u64,
    /// Why, for the operator.
    pub what: String,
}

/// A file that is not as expected. It does not mean that anything was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuspiciousFile {
    /// The file.
    pub file: String,
    /// What is unexpected, for the operator.
    pub what: String,
}

/// The result of a salvage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvageReport {
    /// Batches copied.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// Batches missing in the sequence.
    pub lost_batches: u64,
    /// Missing segments.
    pub missing: Vec<String>,
    /// Ranges that do not verify, or cannot be read.
    pub skipped: Vec<SkippedRange>,
    /// Files that are not as expected.
    pub suspicious: Vec<SuspiciousFile>,
    /// Batches that verify and are superseded: not copied.
    pub superseded: u64,
}

/// Writes the segments of the new directory.
struct SegmentWriter<'f> {
    files: &'f mut dyn Files,
    segment_bytes: u64,
    salt: u64,
    epoch: u64,
    bytes: Vec<u8>,
    sequence: u64,
    high_id: u64,
}

impl SegmentWriter<'_> {
    fn push(&mut self, frame: &[u8], head: &BatchHeader) -> Result<(), DiskError> {
        assert!(
            frame.len() == head.length as usize && frame.len().is_multiple_of(FRAME_ALIGN_BYTES),
            "a frame is copied that does not verify"
        );
        let room = (frame.len() + FRAME_ALIGN_BYTES) as u64;
        if self.bytes.len() as u64 + room > self.segment_bytes {
            self.flush()?;
        }
        if self.bytes.is_empty() {
            self.bytes.resize(SEGMENT_HEADER_BYTES, 0);
        }
        self.sequence += 1;
        let mut frame = frame.to_vec();
        let (sequence, mark, count) = (self.sequence, self.high_id, head.count);
        let head = BatchHeader {
            length: 0,
            sequence,
            synced: sequence - 1,
            oldest: 1,
            high_id: mark,
            count,
        };
        format::seal(&mut frame, head, format::segment_key(self.salt, self.epoch));
        debug_assert!(self.bytes.len() >= SEGMENT_HEADER_BYTES, "frames follow the header");
        self.bytes.append(&mut frame);
        Ok(())
    }

    /// Writes the current segment, if it has batches.
    fn flush(&mut self) -> Result<(), DiskError> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        self.bytes.resize(self.bytes.len() + FRAME_ALIGN_BYTES, 0);
        assert!(
            self.bytes.len() > SEGMENT_HEADER_BYTES + FRAME_ALIGN_BYTES,
            "a segment without a batch is written"
        );
        let header =
            SegmentHeader { epoch: self.epoch, size: self.bytes.len() as u64, salt: self.salt };
        self.bytes[..SEGMENT_HEADER_BYTES]
            .copy_from_slice(&header.encode()[..SEGMENT_HEADER_BYTES]);
        self.files.create(&format::segment_name(self.epoch), &self.bytes)?;
        self.epoch += 1;
        self.bytes.clear();
        Ok(())
    }
}

/// For each segment the sequence from which on its batches are superseded by a later segment.
fn sequence_limits(runs: &[BatchRun]) -> BTreeMap<u64, u64> {
    let mut firsts: BTreeMap<u64, u64> = BTreeMap::new();
    for run in runs {
        let first = firsts.entry(run.epoch).or_insert(run.first);
        *first = run.first.min(*first);
    }
    let mut limit = u64::MAX;
    let limits = firsts.into_iter().rev().map(|(epoch, first)| {
        let own = limit;
        limit = limit.min(first);
        (epoch, own)
    });
    limits.collect()
}

/// Valid batches of one run. Of two ranges the better one orders last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BatchRange {
    epoch: u64,
    /// Whether they are in the file of their segment.
    in_place: bool,
    last: u64,
    run: usize,
}

/// The batches to copy.
struct SalvagePlan {
    /// Ranges by their first sequence.
    parts: Vec<(u64, BatchRange)>,
    /// Segments before this epoch have been freed.
    start: u64,
    superseded: u64,
}

fn plan(survey: &Survey) -> SalvagePlan {
    let limits = sequence_limits(&survey.runs);
    let in_force = |run: &BatchRun| run.first < limits[&run.epoch];
    let needed = survey.runs.iter().filter(|run| in_force(run)).map(|run| run.oldest).max();
    let start = survey.contiguous_start().min(needed.unwrap_or(u64::MAX));
    let mut plan = SalvagePlan { parts: Vec::new(), start, superseded: 0 };
    for (number, run) in survey.runs.iter().enumerate() {
        debug_assert!(run.first <= run.last, "a run of batches ends before it begins");
        let batches = run.last + 1 - run.first;
        if run.epoch < start || !in_force(run) {
            plan.superseded += batches;
            continue;
        }
        let last = run.last.min(limits[&run.epoch] - 1);
        assert!(run.first <= last && last <= run.last, "a range of batches is empty or too long");
        plan.superseded += run.last - last;
        let in_place = survey.files[run.file].named == Some(run.epoch);
        plan.parts.push((run.first, BatchRange { epoch: run.epoch, in_place, last, run: number }));
    }
    plan.parts.sort_unstable();
    plan
}

/// Reports unexpected files, skipped ranges and missing segments.
fn report_files(survey: &Survey, plan: &SalvagePlan, salvaged: &mut SalvageReport) {
    for (number, place) in survey.files.iter().enumerate() {
        let runs = || survey.runs.iter().filter(|run| run.file == number);
        let epochs: BTreeSet<u64> =
            runs().map(|run| run.epoch).filter(|&epoch| epoch >= plan.start).collect();
        if place.named.is_none() && epochs.is_empty() {
            continue;
        }
        let mut tell = |what: String| {
            let file = place.name.clone();
            salvaged.suspicious.push(SuspiciousFile { file, what });
        };
        match place.header {
            HeaderState::Foreign => tell("it comes from another directory".to_owned()),
            HeaderState::Unreadable => tell("its header is damaged".to_owned()),
            HeaderState::Repaired(_) => tell("a bit or two of its header are wrong".to_owned()),
            HeaderState::Header(header) if header.size != place.size => {
                tell(format!("it has {} bytes, and should have {}", place.size, header.size));
            }
            HeaderState::Header(_) => {}
        }
        let other: Vec<_> = epochs.iter().filter(|&&epoch| place.named != Some(epoch)).collect();
        if !other.is_empty() {
            let names: Vec<_> =
                other.iter().take(3).map(|&&epoch| format::segment_name(epoch)).collect();
            let more = if other.len() > 3 { ", .." } else { "" };
            tell(format!("it holds batches of {}{more}", names.join(", ")));
        }
    }
    for rest in &survey.gaps {
        salvaged.skipped.extend(skipped(survey, plan, rest));
    }
    let named_epochs = survey.files.iter().filter_map(SurveyedFile::epoch);
    let there: BTreeSet<u64> =
        named_epochs.chain(survey.runs.iter().map(|run| run.epoch)).collect();
    let last = there.last().copied().unwrap_or_default();
    let missing = (plan.start..last).filter(|epoch| !there.contains(epoch)).take(MISSING_NAMED);
    salvaged.missing.extend(missing.map(format::segment_name));
}

/// The report of a gap between batches; `None` if no valid batch can have been there.
fn skipped(survey: &Survey, plan: &SalvagePlan, rest: &Gap) -> Option<SkippedRange> {
    let place = &survey.files[rest.file];
    let at = survey.runs.partition_point(|run| (run.file, run.offset) < (rest.file, rest.offset));
    let counts = |run: &&BatchRun| run.file == rest.file && run.epoch >= plan.start;
    let before = at.checked_sub(1).and_then(|at| survey.runs.get(at)).filter(counts);
    let behind = survey.runs.get(at).filter(counts);
    let is_segment = place.named.is_some_and(|epoch| epoch >= plan.start);
    let begins = rest.offset <= FIRST_FRAME_OFFSET
        && is_segment
        && place.header.header().is_none_or(|header| header.epoch >= plan.start);
    let what = match (before, behind) {
        (_, Some(_)) => "it does not verify",
        (Some(_), None) if !rest.ends => {
            "it does not verify: batches that are damaged, or were never written to their end"
        }
        (None, None) if begins && !rest.ends => "it does not verify",
        _ => return None,
    };
    let end = behind.map_or(rest.filled, |run| run.offset);
    // A damaged header is reported on its own.
    let offset = rest.offset.max(FIRST_FRAME_OFFSET);
    (offset < end).then(|| SkippedRange {
        file: place.name.clone(),
        offset,
        bytes: end - offset,
        what: what.to_owned(),
    })
}

/// Copies every batch that verifies and is valid into another directory, which must not contain a
/// journal. A deleted job is restored if its deletion is lost. O(bytes); memory for one segment,
/// each run of batches and each gap.
///
/// # Errors
/// If a directory cannot be read or written, if `to` holds a journal, or if the journal has a newer
/// format.
pub fn salvage(
    from: &mut dyn Files,
    to: &mut dyn Files,
    segment_bytes: u64,
) -> Result<SalvageReport, OpenError> {
    if let Some(&(epoch, _)) = SegmentList::list(to)?.segments.first() {
        return Err(OpenError::Disk(DiskError {
            operation: "salvage to a directory with",
            file: format::segment_name(epoch),
            error: "choose an empty directory".to_owned(),
        }));
    }
    let entries = from.list()?;
    let mut from = TolerantFiles::new(from);
    let mut reader = SegmentReader::new(&mut from);
    let mut salvaged = SalvageReport::default();
    if let Some(survey) = Survey::scan(&mut reader, entries)? {
        let plan = plan(&survey);
        report_files(&survey, &plan, &mut salvaged);
        salvaged.superseded = plan.superseded;
        let (salt, mark) = (survey.salt, survey.high_id);
        let bytes = Vec::new();
        let mut writer = SegmentWriter {
            files: to,
            segment_bytes,
            salt,
            epoch: 1,
            bytes,
            sequence: 0,
            high_id: mark,
        };
        copy_all(&mut reader, &survey, &plan, &mut writer, &mut salvaged)?;
        writer.flush()?;
        assert_eq!(writer.sequence, salvaged.batches, "a copied batch has no sequence of its own");
    }
    for (file, offset, bytes) in from.unreadable {
        let what = "the disk cannot read it".to_owned();
        salvaged.skipped.push(SkippedRange { file, offset, bytes, what });
    }
    Ok(salvaged)
}

/// Copies the ranges in the order of their sequences; each sequence once.
fn copy_all(
    reader: &mut SegmentReader<'_>,
    survey: &Survey,
    plan: &SalvagePlan,
    writer: &mut SegmentWriter<'_>,
    salvaged: &mut SalvageReport,
) -> Result<(), OpenError> {
    let mut parts = plan.parts.iter().peekable();
    let Some(&&(first, _)) = parts.peek() else { return Ok(()) };
    // Segment 1 begins with batch 1.
    let mut done = if plan.start == 1 { 0 } else { first - 1 };
    let mut ready = BinaryHeap::new();
    loop {
        while let Some((_, part)) = parts.next_if(|(first, _)| *first <= done + 1) {
            ready.push(*part);
        }
        if let Some(part) = ready.pop() {
            if part.last > done {
                copy(reader, survey, &part, done, writer, salvaged)?;
                done = part.last;
            }
        } else if let Some((first, _)) = parts.peek() {
            assert!(*first > done + 1, "a range of batches was passed over");
            salvaged.lost_batches += first - 1 - done;
            done = first - 1;
        } else {
            return Ok(());
        }
    }
}

/// Copies the batches of one range behind sequence `done`.
fn copy(
    reader: &mut SegmentReader<'_>,
    survey: &Survey,
    part: &BatchRange,
    done: u64,
    writer: &mut SegmentWriter<'_>,
    salvaged: &mut SalvageReport,
) -> Result<(), OpenError> {
    let run = &survey.runs[part.run];
    let place = &survey.files[run.file];
    let mut offset = run.offset;
    assert!(done < part.last, "the batches of a range are copied a second time");
    assert!(
        run.first <= done + 1 && part.last <= run.last,
        "batches before the range are passed over, or the range is longer than its run"
    );
    for sequence in run.first..=part.last {
        let room = place.size - offset;
        let bytes = reader.bytes(&place.name, place.size, offset, format::FRAME_HEADER_BYTES)?;
        let head = format::read_batch_header(bytes, room, run.key)
            .ok_or_else(|| changed_meanwhile(&place.name))?;
        if sequence > done {
            let frame = reader.bytes(&place.name, place.size, offset, head.length as usize)?;
            if head.sequence != sequence || !format::frame_verifies(frame, &head, run.key) {
                return Err(changed_meanwhile(&place.name));
            }
            writer.push(frame, &head)?;
            salvaged.batches += 1;
            salvaged.records += u64::from(head.count);
        }
        offset += u64::from(head.length);
    }
    Ok(())
}

/// The error for a file that reads differently than before.
fn changed_meanwhile(name: &str) -> OpenError {
    OpenError::Disk(DiskError {
        operation: "read",
        file: name.to_owned(),
        error: "it has changed meanwhile: copy the directory to another disk, and try again there"
            .to_owned(),
    })
}

//! Reads the segments of a directory in order, and classifies what is behind the last valid batch:
//! a clean end, a torn tail, or damage.
//!
//! Sequences have no gaps, and a batch says which batches were durable when it was sealed. Bytes
//! that do not verify are therefore a torn tail, which was never acknowledged, unless a later batch
//! shows that they were durable. A torn tail that an earlier recovery has cut is skipped: the next
//! segment begins with the expected sequence.

use super::disk::{DiskError, Files};
use super::format::{self, BadHeader, BatchHeader, Records, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::reader::{FIRST_FRAME_OFFSET, FrameScan, SegmentReader, SegmentSource};
use super::report::{
    OpenError, RecordLocation, RecordVisitor, RecoveryProgress, RecoveryReport, TornTail,
};
use crate::journal::limits::JOURNAL_READ_BYTES;

/// The files of a directory.
#[derive(Debug, Default)]
pub(super) struct SegmentList {
    /// Epochs and sizes in bytes of the segments, by epoch.
    pub(super) segments: Vec<(u64, u64)>,
    pub(super) spares: Vec<String>,
    pub(super) foreign: Vec<String>,
    /// Whether the directory has ever had a segment.
    pub(super) was_used: bool,
}

impl SegmentList {
    pub(super) fn list(files: &mut dyn Files) -> Result<Self, DiskError> {
        let mut listing = Self::default();
        for entry in files.list()? {
            if let Some(epoch) = format::epoch_of(&entry.name) {
                listing.segments.push((epoch, entry.size));
            } else if format::spare_of(&entry.name).is_some() {
                listing.spares.push(entry.name);
            } else if entry.name == format::LOCK_FILE {
                listing.was_used = entry.size > 0;
            } else {
                listing.foreign.push(entry.name);
            }
        }
        listing.segments.sort_unstable();
        listing.foreign.sort_unstable();
        Ok(listing)
    }

    /// The index of the first segment from which on the epochs have no gap.
    pub(super) fn contiguous_start(&self) -> usize {
        let gap = self.segments.windows(2).rposition(|pair| pair[0].0 + 1 != pair[1].0);
        gap.map_or(0, |at| at + 1)
    }
}

/// A segment that is read.
#[derive(Debug)]
pub(super) struct SegmentPart {
    pub(super) source: SegmentSource,
    /// The offset at which its last valid batch ends.
    pub(super) end: u64,
    /// The sequence of that batch; 0: there is none.
    pub(super) last_sequence: u64,
}

/// The result of reading a directory.
#[derive(Debug, Default)]
pub(super) struct ScanResult {
    pub(super) parts: Vec<SegmentPart>,
    /// The index of the part with the last valid batch.
    pub(super) stop: usize,
    pub(super) salt: Option<u64>,
    /// The header of the last valid batch.
    pub(super) last: BatchHeader,
    /// Files that recovery has to remove, in this order, before the journal continues.
    pub(super) obsolete: Vec<String>,
    /// Parts from this index on are obsolete too.
    pub(super) kept: usize,
    pub(super) report: RecoveryReport,
}

fn damaged(name: &str, offset: u64, what: &str) -> OpenError {
    OpenError::Damaged { file: name.to_owned(), offset, what: what.to_owned() }
}

/// Reads and checks a segment's header.
fn header(
    reader: &mut SegmentReader<'_>,
    epoch: u64,
    size: u64,
    salt: &mut Option<u64>,
) -> Result<SegmentSource, OpenError> {
    let name = format::segment_name(epoch);
    let bytes = reader.bytes(&name, size, 0, SEGMENT_HEADER_BYTES)?;
    let header = SegmentHeader::decode(bytes).map_err(|bad| match bad {
        BadHeader::Newer(format) => OpenError::Newer { file: name.clone(), format },
        BadHeader::Damaged(what) => damaged(&name, 0, what),
    })?;
    if header.epoch != epoch {
        let what = format!("its header says that it is {}", format::segment_name(header.epoch));
        return Err(damaged(&name, 0, &what));
    }
    if header.size != size {
        let what = format!("the file has {size} bytes, and should have {}", header.size);
        return Err(damaged(&name, size.min(header.size), &what));
    }
    if *salt.get_or_insert(header.salt) != header.salt {
        return Err(damaged(&name, 0, "it comes from another directory"));
    }
    Ok(SegmentSource { name, epoch, size, key: format::segment_key(header.salt, epoch) })
}

/// The state of reading the segments.
struct Scan<'w> {
    reader: SegmentReader<'w>,
    each: &'w mut RecordVisitor<'w, ()>,
    progress: &'w mut dyn FnMut(RecoveryProgress),
    parts: Vec<SegmentPart>,
    /// The sequence that the next batch must have; `None`: any.
    expected: Option<u64>,
    last: BatchHeader,
    report: RecoveryReport,
    done: RecoveryProgress,
}

/// What is behind the last valid batch.
#[derive(Default)]
struct Tail {
    /// Batches that verify, and the bytes up to the last one that is not zero.
    batches: u64,
    bytes: u64,
    /// The index of the first later part that is not empty.
    unclean: Option<usize>,
}

impl Scan<'_> {
    /// Reads the valid batches of one part.
    fn scan_segment(&mut self, index: usize) -> Result<(), OpenError> {
        let source = self.parts[index].source.clone();
        assert!(self.parts[index].last_sequence == 0, "a segment is read a second time");
        let (mut offset, mut reported) = (FIRST_FRAME_OFFSET, 0);
        while let FrameScan::Frame(head) = self.reader.peek_frame(&source, offset)?
            && self.expected.is_none_or(|expected| expected == head.sequence)
        {
            let frame = self.reader.frame(&source, offset, &head)?;
            let location = RecordLocation { epoch: source.epoch, offset, sequence: head.sequence };
            for record in Records::new(frame).take(head.count as usize) {
                (self.each)(record, location).map_err(|what| OpenError::Record {
                    file: source.name.clone(),
                    offset,
                    what,
                })?;
            }
            self.report.batches += 1;
            self.report.records += u64::from(head.count);
            self.report.bytes += u64::from(head.length);
            self.expected = Some(head.sequence + 1);
            offset += u64::from(head.length);
            (self.last, self.parts[index].last_sequence) = (head, head.sequence);
            if offset - reported >= JOURNAL_READ_BYTES as u64 {
                reported = offset;
                let done =
                    RecoveryProgress { read_bytes: self.done.read_bytes + offset, ..self.done };
                (self.progress)(RecoveryProgress { records: self.report.records, ..done });
            }
        }
        assert!(
            offset <= source.size && self.expected.is_none_or(|next| next > self.last.sequence),
            "the batches exceed their segment, or the next one is not expected behind the last"
        );
        self.parts[index].end = offset;
        self.done.read_bytes += source.size;
        debug_assert!(
            self.done.read_bytes <= self.done.total_bytes,
            "more bytes were read than the segments have"
        );
        (self.progress)(RecoveryProgress { records: self.report.records, ..self.done });
        Ok(())
    }

    /// Whether the next part begins with the expected sequence.
    fn continues_in_next(&mut self, index: usize) -> Result<bool, OpenError> {
        let Some(next) = self.parts.get(index + 1) else { return Ok(false) };
        let sight = self.reader.peek_frame(&next.source, FIRST_FRAME_OFFSET)?;
        Ok(matches!(sight, FrameScan::Frame(head) if Some(head.sequence) == self.expected))
    }

    /// Where the batch after the last valid one, in part `stop`, should be: behind it, or at the
    /// begin of the next part.
    fn expected_next(&mut self, stop: usize) -> Result<(String, u64), OpenError> {
        let part = &self.parts[stop];
        if let Some(next) = self.parts.get(stop + 1)
            && self.reader.peek_frame(&part.source, part.end)? == FrameScan::End
            && self.reader.peek_frame(&next.source, FIRST_FRAME_OFFSET)? == FrameScan::Bad
        {
            return Ok((next.source.name.clone(), FIRST_FRAME_OFFSET));
        }
        Ok((part.source.name.clone(), part.end))
    }

    /// Checks the bytes behind the end of part `stop`, the last one with a valid batch.
    fn check_tail(&mut self, stop: usize) -> Result<Tail, OpenError> {
        let mut tail = Tail::default();
        assert!(
            (self.report.batches == 0) == (self.last.sequence == 0),
            "a batch was visited that is not the last, or none was"
        );
        let expected = self.expected.unwrap_or(1);
        debug_assert_eq!(
            expected,
            self.last.sequence + 1,
            "the batch that is expected is not the one after the last"
        );
        let end = self.parts[stop].end;
        let expected_at = self.expected_next(stop)?;
        for index in stop..self.parts.len() {
            let source = self.parts[index].source.clone();
            let start = if index == stop { end } else { FIRST_FRAME_OFFSET };
            let mut clean = self.reader.peek_frame(&source, start)? == FrameScan::End;
            let (mut offset, mut filled) = (start, start);
            while let Some((at, head)) = self.reader.search(&source, offset, &mut filled)? {
                if head.synced >= expected {
                    let what = "a batch that was durable does not verify";
                    return Err(damaged(&expected_at.0, expected_at.1, what));
                }
                if head.sequence < expected {
                    return Err(damaged(&source.name, at, "a batch comes a second time"));
                }
                clean = false;
                tail.batches += 1;
                offset = at + u64::from(head.length);
            }
            if !clean {
                tail.bytes += filled - start;
                if index > stop {
                    tail.unclean.get_or_insert(index);
                }
            }
        }
        debug_assert!(
            tail.batches == 0 || tail.bytes > 0,
            "whole batches behind the last valid one have no bytes"
        );
        Ok(tail)
    }
}

/// Reads a directory, and visits each record of the valid batches.
pub(super) fn scan<'w>(
    files: &'w mut dyn Files,
    each: &'w mut RecordVisitor<'w, ()>,
    progress: &'w mut dyn FnMut(RecoveryProgress),
) -> Result<ScanResult, OpenError> {
    let listing = SegmentList::list(files)?;
    let run = listing.contiguous_start();
    let mut result = ScanResult { obsolete: listing.spares.clone(), ..ScanResult::default() };
    result.report.foreign.clone_from(&listing.foreign);
    let Some(&(first, _)) = listing.segments.get(run) else {
        return if listing.was_used { Err(OpenError::Gone) } else { Ok(result) };
    };
    let old = listing.segments[..run].iter().map(|&(epoch, _)| format::segment_name(epoch));
    result.obsolete.extend(old);

    let mut reader = SegmentReader::new(files);
    let mut parts = Vec::new();
    for &(epoch, size) in &listing.segments[run..] {
        let source = header(&mut reader, epoch, size, &mut result.salt)?;
        parts.push(SegmentPart { source, end: FIRST_FRAME_OFFSET, last_sequence: 0 });
    }
    let of = parts.iter().map(|part| part.source.size).sum();
    let mut scan = Scan {
        reader,
        each,
        progress,
        parts,
        expected: (first == 1).then_some(1),
        last: BatchHeader::default(),
        report: result.report,
        done: RecoveryProgress { read_bytes: 0, total_bytes: of, records: 0 },
    };
    let mut stop = 0;
    loop {
        scan.scan_segment(stop)?;
        if !scan.continues_in_next(stop)? {
            break;
        }
        stop += 1;
    }
    if scan.expected.is_none() {
        // Earlier segments were freed because of this batch.
        let name = &scan.parts[0].source.name;
        return Err(if run > 0 {
            missing(first)
        } else {
            damaged(name, FIRST_FRAME_OFFSET, NO_BATCH)
        });
    }
    if scan.last.oldest < first && scan.last.sequence > 0 {
        return Err(missing(first));
    }
    let tail = scan.check_tail(stop)?;
    scan.report.segments = scan.parts.len() as u64;
    scan.report.high_id = scan.last.high_id;
    result.kept = scan.parts.len();
    if tail.bytes > 0 {
        let part = &scan.parts[stop];
        scan.report.torn = Some(TornTail {
            file: part.source.name.clone(),
            offset: part.end,
            bytes: tail.bytes,
            batches: tail.batches,
        });
        let first_gone = if part.last_sequence == 0 { Some(stop) } else { tail.unclean };
        result.kept = first_gone.unwrap_or(result.kept);
        let gone = scan.parts[result.kept..].iter().rev();
        result.obsolete.extend(gone.map(|part| part.source.name.clone()));
    }
    Ok(ScanResult { parts: scan.parts, stop, last: scan.last, report: scan.report, ..result })
}

const NO_BATCH: &str = "the first batch of the oldest segment does not verify";

fn missing(first: u64) -> OpenError {
    OpenError::Missing { file: format::segment_name(first - 1) }
}

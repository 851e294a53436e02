//! Finds every frame of a damaged directory that verifies, in any file and at any offset.
//!
//! Names and headers are evidence only: the checksums of a frame show in which segment it was
//! written ([`super::keys`]). One segment key of the directory has to be known. A header yields it,
//! after repair of up to two bits; without a header the frames do ([`super::keys_from_frames`]).

use super::disk::{DiskError, FileEntry, Files};
use super::format::{
    self, BadHeader, FRAME_ALIGN_BYTES, FRAME_HEADER_BYTES, NUMBER_END, SEGMENT_HEADER_BYTES,
    SegmentHeader,
};
use super::frame_search::{EPOCHS_AHEAD, Frame, FrameSearch, KeyFilter};
use super::keys::DirectoryKeys;
use super::keys_from_frames::{NamedFile, keys_from_frames};
use super::reader::{FIRST_FRAME_OFFSET, SegmentReader};
use super::recovery_scan::SegmentList;
use super::report::OpenError;

/// The bytes that a disk reads as a whole or not at all.
const BLOCK_BYTES: usize = 4096;

/// What the first bytes of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderState {
    /// A valid header.
    Header(SegmentHeader),
    /// A header that is valid after repair of one or two bits.
    Repaired(SegmentHeader),
    /// A header of another directory.
    Foreign,
    /// No header.
    Unreadable,
}

impl HeaderState {
    pub(super) fn header(self) -> Option<SegmentHeader> {
        match self {
            Self::Header(header) | Self::Repaired(header) => Some(header),
            Self::Foreign | Self::Unreadable => None,
        }
    }
}

/// A file that may contain frames.
#[derive(Clone, Debug)]
pub(super) struct SurveyedFile {
    pub(super) name: String,
    pub(super) size: u64,
    /// The epoch in its name.
    pub(super) named: Option<u64>,
    pub(super) is_spare: bool,
    pub(super) header: HeaderState,
}

impl SurveyedFile {
    /// The epoch of the segment that it seems to be.
    pub(super) fn epoch(&self) -> Option<u64> {
        let named = self.named.filter(|_| self.header != HeaderState::Foreign);
        self.header.header().map(|header| header.epoch).or(named).filter(|_| !self.is_spare)
    }
}

/// Consecutive frames of one segment with consecutive sequences.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchRun {
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) end: u64,
    pub(super) key: u32,
    pub(super) epoch: u64,
    pub(super) first: u64,
    pub(super) last: u64,
    /// The oldest needed segment, the same in all these batches.
    pub(super) oldest: u64,
}

/// Bytes before a frame, or behind the last one of a file unless they are all zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    pub(super) file: usize,
    pub(super) offset: u64,
    /// The offset behind the last byte that is not zero.
    pub(super) filled: u64,
    /// Whether it begins with the zeros that end a segment.
    pub(super) ends: bool,
}

/// All files and frames of a directory.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) files: Vec<SurveyedFile>,
    /// By file, and in a file by offset.
    pub(super) runs: Vec<BatchRun>,
    pub(super) gaps: Vec<Gap>,
    pub(super) salt: u64,
    /// The highest id that any frame says.
    pub(super) high_id: u64,
}

/// Reads the first bytes of all files that may be segments, or parts of one.
fn files(
    reader: &mut SegmentReader<'_>,
    entries: Vec<FileEntry>,
) -> Result<Vec<SurveyedFile>, OpenError> {
    let mut places = Vec::new();
    for FileEntry { name, size } in entries {
        if name == format::LOCK_FILE || size < (FRAME_HEADER_BYTES + FRAME_ALIGN_BYTES) as u64 {
            continue;
        }
        let named = format::epoch_of(&name);
        let is_spare = format::spare_of(&name).is_some();
        // A directory, for example, cannot be read and is not the journal's.
        let bytes = match reader.bytes(&name, size, 0, SEGMENT_HEADER_BYTES) {
            Err(_) if named.is_none() && !is_spare => continue,
            bytes => bytes?,
        };
        let says = match SegmentHeader::decode(bytes) {
            Ok(header) => HeaderState::Header(header),
            Err(BadHeader::Newer(format)) if named.is_some() => {
                return Err(OpenError::Newer { file: name, format });
            }
            Err(_) => repair_header(bytes).map_or(HeaderState::Unreadable, HeaderState::Repaired),
        };
        places.push(SurveyedFile { name, size, named, is_spare, header: says });
    }
    places.sort_by(|a, b| {
        (a.named.is_none(), a.named, &a.name).cmp(&(b.named.is_none(), b.named, &b.name))
    });
    Ok(places)
}

/// A valid header that differs from these bytes in one bit, or else in two.
fn repair_header(bytes: &[u8]) -> Option<SegmentHeader> {
    let bits = SEGMENT_HEADER_BYTES * 8;
    let mut bytes: [u8; SEGMENT_HEADER_BYTES] = *bytes.first_chunk()?;
    let one = (0..bits).find_map(|bit| decode_flipped(&mut bytes, bit));
    one.or_else(|| {
        (0..bits).find_map(|bit| {
            flip(&mut bytes, bit);
            let found = (bit + 1..bits).find_map(|other| decode_flipped(&mut bytes, other));
            flip(&mut bytes, bit);
            found
        })
    })
}

fn flip(bytes: &mut [u8; SEGMENT_HEADER_BYTES], bit: usize) {
    bytes[bit / 8] ^= 1 << (bit % 8);
}

/// The header with this bit flipped, if it is valid.
fn decode_flipped(bytes: &mut [u8; SEGMENT_HEADER_BYTES], bit: usize) -> Option<SegmentHeader> {
    flip(bytes, bit);
    let header = SegmentHeader::decode(bytes).ok();
    flip(bytes, bit);
    header
}

/// Files with unreadable blocks, which are read as zeros.
pub(super) struct TolerantFiles<'f> {
    files: &'f mut dyn Files,
    /// The unreadable ranges: name, offset and bytes.
    pub(super) unreadable: Vec<(String, u64, u64)>,
}

impl<'f> TolerantFiles<'f> {
    pub(super) fn new(files: &'f mut dyn Files) -> Self {
        Self { files, unreadable: Vec::new() }
    }

    fn note(&mut self, name: &str, offset: u64, bytes: u64) {
        debug_assert!(bytes > 0, "a range without bytes is unreadable");
        let known = |(file, from, count): &&mut (String, u64, u64)| {
            file == name && (*from..=*from + *count).contains(&offset)
        };
        match self.unreadable.iter_mut().rev().find(known) {
            Some((_, from, count)) => *count = (*count).max(offset + bytes - *from),
            None => self.unreadable.push((name.to_owned(), offset, bytes)),
        }
    }
}

impl Files for TolerantFiles<'_> {
    fn list(&mut self) -> Result<Vec<FileEntry>, DiskError> {
        self.files.list()
    }

    fn read(&mut self, name: &str, offset: u64, out: &mut [u8]) -> Result<usize, DiskError> {
        let whole = self.files.read(name, offset, out);
        let is_ours = format::epoch_of(name).is_some() || format::spare_of(name).is_some();
        // A directory, for example, cannot be read at offset 0.
        if whole.is_ok() || (offset == 0 && !is_ours) {
            return whole;
        }
        let block = BLOCK_BYTES - usize::try_from(offset % BLOCK_BYTES as u64).unwrap_or_default();
        let count = out.len().min(block);
        self.files.read(name, offset, &mut out[..count]).or_else(|_| {
            out[..count].fill(0);
            self.note(name, offset, count as u64);
            Ok(count)
        })
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.files.remove(name)
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        self.files.create(name, bytes)
    }
}

/// The directory of most headers, and its salt.
fn by_headers(places: &[SurveyedFile]) -> Option<(DirectoryKeys, u64)> {
    let headers = || places.iter().filter_map(|place| Some((place, place.header.header()?)));
    let votes = |salt: u64| {
        let of = headers().filter(|(_, header)| header.salt == salt);
        of.map(|(place, _)| if place.named.is_some() { 1_000 } else { 1 }).sum::<u64>()
    };
    let (_, header) = headers().max_by_key(|(_, header)| votes(header.salt))?;
    let family = DirectoryKeys::new(header.epoch, format::segment_key(header.salt, header.epoch));
    Some((family, header.salt))
}

/// The directory of most frames, if no header is left.
fn by_frames(
    reader: &mut SegmentReader<'_>,
    places: &[SurveyedFile],
) -> Result<Option<DirectoryKeys>, DiskError> {
    let files = places.iter().map(|place| NamedFile {
        name: &place.name,
        size: place.size,
        epoch: place.named,
    });
    keys_from_frames(reader, files)
}

impl Survey {
    /// Scans all files of a directory. `None`: there is no trace of a journal. O(bytes); memory for
    /// each run of batches and each gap.
    pub(super) fn scan(
        reader: &mut SegmentReader<'_>,
        entries: Vec<FileEntry>,
    ) -> Result<Option<Self>, OpenError> {
        let mut places = files(reader, entries)?;
        let (family, salt) = match by_headers(&places) {
            Some(found) => found,
            None => match by_frames(reader, &places)? {
                // Any number that clients cannot know.
                Some(family) => (family, u64::from(family.anchor().1) << 32 | 0x9e37_79b9),
                None => return Ok(None),
            },
        };
        for place in &mut places {
            if place.header.header().is_some_and(|header| header.salt != salt) {
                place.header = HeaderState::Foreign;
            }
        }
        let known = places.iter().filter_map(SurveyedFile::epoch).chain([family.anchor().0]);
        let last = known.max().unwrap_or_default() + EPOCHS_AHEAD;
        let mut survey =
            Self { files: places, runs: Vec::new(), gaps: Vec::new(), salt, high_id: 0 };
        for number in 0..survey.files.len() {
            survey.scan_file(reader, number, &family, last)?;
        }
        Ok(Some(survey))
    }

    fn scan_file(
        &mut self,
        reader: &mut SegmentReader<'_>,
        number: usize,
        family: &DirectoryKeys,
        last: u64,
    ) -> Result<(), DiskError> {
        let place = &self.files[number];
        let mut search = FrameSearch::new(reader, &place.name, place.size);
        if place.header != HeaderState::Unreadable {
            search.offset = FIRST_FRAME_OFFSET;
        }
        loop {
            let start = search.offset;
            search.filled = start;
            let found = search.next(&KeyFilter::Family(family, last))?;
            let filled = found.map_or(search.filled, |frame| search.filled.min(frame.offset));
            debug_assert!(filled >= start, "a gap ends before it begins");
            if filled > start || found.is_some_and(|frame| frame.offset > start) {
                let ends =
                    search.reader.bytes(&place.name, place.size, start, FRAME_ALIGN_BYTES)?;
                let ends = ends.iter().all(|&byte| byte == 0);
                self.gaps.push(Gap { file: number, offset: start, filled, ends });
            }
            let Some(Frame { offset, head, key }) = found else { return Ok(()) };
            self.high_id = self.high_id.max(head.high_id);
            let end = offset + u64::from(head.length);
            assert!(start <= offset && end <= place.size, "a frame is outside of the bytes read");
            assert!(
                self.runs.last().is_none_or(|run| run.file < number || run.end <= offset),
                "the runs of batches are not in the order of files and offsets"
            );
            if let Some(run) = self.runs.last_mut()
                && (run.file, run.end, run.key) == (number, offset, key)
                && (run.last + 1, run.oldest) == (head.sequence, head.oldest)
            {
                (run.end, run.last) = (end, head.sequence);
                continue;
            }
            let epoch = family.epoch_of(key);
            assert!(
                (1..=last).contains(&epoch) && head.oldest <= epoch,
                "a frame is accepted that no segment of the directory can hold"
            );
            self.runs.push(BatchRun {
                file: number,
                offset,
                end,
                key,
                epoch,
                first: head.sequence,
                last: head.sequence,
                oldest: head.oldest,
            });
        }
    }

    /// The epoch from which on the segments have no gap, by the files that are named as segments:
    /// where recovery would begin.
    pub(super) fn contiguous_start(&self) -> u64 {
        let named = self.files.iter().filter(|place| place.named.is_some());
        let mut segments: Vec<_> =
            named.filter_map(|place| Some((place.epoch()?, place.size))).collect();
        segments.sort_unstable();
        segments.dedup_by_key(|segment| segment.0);
        let listing = SegmentList { segments, ..SegmentList::default() };
        listing.segments.get(listing.contiguous_start()).map_or(NUMBER_END, |&(epoch, _)| epoch)
    }
}

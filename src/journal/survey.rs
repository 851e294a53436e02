//! What is left of a damaged directory: every frame that verifies, in whatever file and place.
//!
//! Names and headers are evidence, not more: a frame tells by its checksums in which segment it was
//! written ([`super::keys`]). All that has to be known is one key of the directory. A header tells
//! it, with up to two wrong bits put right; where no header is left the frames do: the key of most
//! of them that is in force (the highest numbers) in a file whose name tells the epoch.

use super::disk::{DiskError, Entry, Files};
use super::format::{
    self, ALIGN, BadHeader, BatchHeader, FRAME_HEAD, HEADER, NUMBER_END, SegmentHeader,
};
use super::keys::{Family, key_of};
use super::reader::{FIRST, Reader};
use super::recover::OpenError;
use super::scan::SegmentList;
use std::collections::HashMap;

/// Bytes that are searched at a time.
const PIECE: usize = 64 * 1024;

/// What a disk reads or cannot read.
const BLOCK: usize = 4096;

/// Epochs so far behind the last one that is known are believed.
const EPOCHS_AHEAD: u64 = 4096;

/// Without any header: keys of a file that are tried, and that are counted.
const KEYS_TRIED: usize = 16;
const KEYS_COUNTED: usize = 1 << 20;

/// What the first bytes of a file say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// This.
    Header(SegmentHeader),
    /// This, if a bit or two are put right.
    Mended(SegmentHeader),
    /// That it is of another directory.
    Foreign,
    /// Nothing.
    Nothing,
}

impl Says {
    pub(super) fn header(self) -> Option<SegmentHeader> {
        match self {
            Self::Header(header) | Self::Mended(header) => Some(header),
            Self::Foreign | Self::Nothing => None,
        }
    }
}

/// A file in which there may be frames.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) size: u64,
    /// The epoch that its name tells.
    pub(super) named: Option<u64>,
    pub(super) is_spare: bool,
    pub(super) says: Says,
}

impl Place {
    /// Which segment it seems to be.
    pub(super) fn epoch(&self) -> Option<u64> {
        let named = self.named.filter(|_| self.says != Says::Foreign);
        self.says.header().map(|header| header.epoch).or(named).filter(|_| !self.is_spare)
    }
}

/// Frames that stand one behind the other, of one segment, their numbers without gaps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) place: usize,
    pub(super) offset: u64,
    pub(super) end: u64,
    pub(super) key: u32,
    pub(super) epoch: u64,
    pub(super) first: u64,
    pub(super) last: u64,
    /// What each of them says of the oldest segment that is needed.
    pub(super) oldest: u64,
}

/// Bytes before a frame, or behind the last one of a file if they are not all zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    pub(super) place: usize,
    pub(super) offset: u64,
    /// Behind the last one that is not zero.
    pub(super) filled: u64,
    /// Whether the first of them are those that stand behind a last frame: zeros.
    pub(super) ends: bool,
}

/// Everything that was found.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) places: Vec<Place>,
    /// By place, and in a place by offset.
    pub(super) runs: Vec<Run>,
    pub(super) rests: Vec<Rest>,
    pub(super) salt: u64,
    /// The highest of the owner's numbers.
    pub(super) mark: u64,
}

/// A frame that verifies.
#[derive(Clone, Copy, Debug)]
struct Frame {
    offset: u64,
    head: BatchHeader,
    key: u32,
}

/// Reads the first bytes of all files that may be segments, or parts of one.
fn places(reader: &mut Reader<'_>, entries: Vec<Entry>) -> Result<Vec<Place>, OpenError> {
    let mut places = Vec::new();
    for Entry { name, size } in entries {
        if name == format::LOCK || size < (FRAME_HEAD + ALIGN) as u64 {
            continue;
        }
        let named = format::epoch_of(&name);
        let is_spare = format::spare_of(&name).is_some();
        // What is no file cannot be read, and is none of the journal's.
        let bytes = match reader.bytes(&name, size, 0, HEADER) {
            Err(_) if named.is_none() && !is_spare => continue,
            bytes => bytes?,
        };
        let says = match SegmentHeader::decode(bytes) {
            Ok(header) => Says::Header(header),
            Err(BadHeader::Newer(format)) if named.is_some() => {
                return Err(OpenError::Newer { file: name, format });
            }
            Err(_) => mend(bytes).map_or(Says::Nothing, Says::Mended),
        };
        places.push(Place { name, size, named, is_spare, says });
    }
    places.sort_by(|a, b| {
        (a.named.is_none(), a.named, &a.name).cmp(&(b.named.is_none(), b.named, &b.name))
    });
    Ok(places)
}

/// A header that differs from these bytes in one bit, or else in two.
fn mend(bytes: &[u8]) -> Option<SegmentHeader> {
    let bits = HEADER * 8;
    let mut bytes: [u8; HEADER] = *bytes.first_chunk()?;
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

fn flip(bytes: &mut [u8; HEADER], bit: usize) {
    bytes[bit / 8] ^= 1 << (bit % 8);
}

/// The header that it is if this bit is another one.
fn decode_flipped(bytes: &mut [u8; HEADER], bit: usize) -> Option<SegmentHeader> {
    flip(bytes, bit);
    let header = SegmentHeader::decode(bytes).ok();
    flip(bytes, bit);
    header
}

/// Which frames count.
enum Keys<'k> {
    /// Those of this directory, up to an epoch.
    Family(&'k Family, u64),
    /// Those with these keys.
    These(&'k [u32]),
}

impl Keys<'_> {
    /// Whether a frame with this key may say that it needs segments from `oldest` on.
    fn take(&self, key: u32, oldest: u64) -> bool {
        match self {
            Self::Family(family, last) => {
                let epoch = family.epoch_of(key);
                (1..=*last).contains(&epoch) && oldest <= epoch
            }
            Self::These(keys) => keys.contains(&key),
        }
    }
}

/// The head at the beginning of `bytes`, if there is a key for which it may be one; and that key.
fn likely_head(bytes: &[u8], room: u64) -> Option<(BatchHeader, u32)> {
    let bytes: &[u8; FRAME_HEAD] = bytes.first_chunk()?;
    let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    if (length as usize) < FRAME_HEAD || u64::from(length) > room {
        return None;
    }
    let key = key_of(bytes);
    let head = format::head(bytes, room, key)?;
    let likely = head.synced < head.sequence && (1..NUMBER_END).contains(&head.oldest);
    likely.then_some((head, key))
}

/// Files of which some places cannot be read: zeros stand for them.
pub(super) struct Tolerant<'f> {
    files: &'f mut dyn Files,
    /// What could not be read: name, offset, bytes.
    pub(super) unreadable: Vec<(String, u64, u64)>,
}

impl<'f> Tolerant<'f> {
    pub(super) fn new(files: &'f mut dyn Files) -> Self {
        Self { files, unreadable: Vec::new() }
    }

    fn note(&mut self, name: &str, offset: u64, bytes: u64) {
        let known = |(file, from, count): &&mut (String, u64, u64)| {
            file == name && (*from..=*from + *count).contains(&offset)
        };
        match self.unreadable.iter_mut().rev().find(known) {
            Some((_, from, count)) => *count = (*count).max(offset + bytes - *from),
            None => self.unreadable.push((name.to_owned(), offset, bytes)),
        }
    }
}

impl Files for Tolerant<'_> {
    fn list(&mut self) -> Result<Vec<Entry>, DiskError> {
        self.files.list()
    }

    fn read(&mut self, name: &str, offset: u64, out: &mut [u8]) -> Result<usize, DiskError> {
        let whole = self.files.read(name, offset, out);
        let is_ours = format::epoch_of(name).is_some() || format::spare_of(name).is_some();
        // A directory, for one, cannot be read from its beginning on.
        if whole.is_ok() || (offset == 0 && !is_ours) {
            return whole;
        }
        let block = BLOCK - usize::try_from(offset % BLOCK as u64).unwrap_or_default();
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

/// A search through one file.
struct Search<'s, 'f> {
    reader: &'s mut Reader<'f>,
    place: &'s Place,
    offset: u64,
    /// Behind the last byte seen that is not zero.
    filled: u64,
}

impl<'s, 'f> Search<'s, 'f> {
    fn new(reader: &'s mut Reader<'f>, place: &'s Place) -> Self {
        Self { reader, place, offset: 0, filled: 0 }
    }

    /// The next place at which `look` sees something. O(bytes) beside what it does.
    fn seek<T>(
        &mut self,
        mut look: impl FnMut(&[u8], u64) -> Option<T>,
    ) -> Result<Option<(u64, T)>, DiskError> {
        let size = self.place.size;
        while self.offset + FRAME_HEAD as u64 <= size {
            let piece = self.reader.bytes(&self.place.name, size, self.offset, PIECE)?;
            let (mut at, start) = (0, self.offset);
            while at + FRAME_HEAD <= piece.len() {
                if piece[at..at + ALIGN] != [0; ALIGN] {
                    let room = size - start - at as u64;
                    if let Some(seen) = look(&piece[at..], room) {
                        self.offset = start + at as u64;
                        return Ok(Some((self.offset, seen)));
                    }
                    self.filled = start + (at + ALIGN) as u64;
                }
                at += ALIGN;
            }
            if at == 0 {
                break;
            }
            self.offset = start + at as u64;
        }
        Ok(None)
    }

    /// The next frame that counts; the search goes on behind it. O(bytes), as what is no frame
    /// does not have such a key.
    fn next(&mut self, keys: &Keys<'_>) -> Result<Option<Frame>, DiskError> {
        let look = |bytes: &[u8], room| {
            likely_head(bytes, room).filter(|(head, key)| keys.take(*key, head.oldest))
        };
        while let Some((offset, (head, key))) = self.seek(look)? {
            let Place { name, size, .. } = self.place;
            let frame = self.reader.bytes(name, *size, offset, head.length as usize)?;
            if format::is_whole(frame, &head, key) {
                self.offset = offset + u64::from(head.length);
                return Ok(Some(Frame { offset, head, key }));
            }
            self.offset = offset + ALIGN as u64;
            self.filled = self.offset;
        }
        Ok(None)
    }
}

/// The directory that most of the headers are of, and its salt.
fn by_headers(places: &[Place]) -> Option<(Family, u64)> {
    let headers = || places.iter().filter_map(|place| Some((place, place.says.header()?)));
    let votes = |salt: u64| {
        let of = headers().filter(|(_, header)| header.salt == salt);
        of.map(|(place, _)| if place.named.is_some() { 1_000 } else { 1 }).sum::<u64>()
    };
    let (_, header) = headers().max_by_key(|(_, header)| votes(header.salt))?;
    let family = Family::new(header.epoch, format::key(header.salt, header.epoch));
    Some((family, header.salt))
}

/// What the frames of one file tell of its key.
struct Evidence {
    family: Family,
    bytes: u64,
}

/// The key of the frames with the highest numbers in a file, as of the segment that its name tells,
/// or else the youngest that its frames need. O(bytes) for each key that is tried.
fn evidence(reader: &mut Reader<'_>, place: &Place) -> Result<Option<Evidence>, DiskError> {
    let mut counts: HashMap<u32, u64> = HashMap::new();
    let mut search = Search::new(reader, place);
    while let Some((_, key)) = search.seek(|bytes, room| Some(likely_head(bytes, room)?.1))? {
        if counts.len() < KEYS_COUNTED || counts.contains_key(&key) {
            *counts.entry(key).or_default() += 1;
        }
        search.offset += ALIGN as u64;
    }
    let mut keys: Vec<(u64, u32)> = counts.into_iter().map(|(key, count)| (count, key)).collect();
    keys.sort_unstable_by(|a, b| b.cmp(a));
    let keys: Vec<u32> = keys.into_iter().take(KEYS_TRIED).map(|(_, key)| key).collect();
    let mut found: HashMap<u32, (u64, u64, u64)> = HashMap::new();
    let mut search = Search::new(reader, place);
    while let Some(Frame { head, key, .. }) = search.next(&Keys::These(&keys))? {
        let (sequence, oldest, bytes) = found.entry(key).or_default();
        *sequence = head.sequence.max(*sequence);
        *oldest = head.oldest.max(*oldest);
        *bytes += u64::from(head.length);
    }
    let latest = found.into_iter().max_by_key(|(_, (sequence, ..))| *sequence);
    Ok(latest.map(|(key, (_, oldest, bytes))| Evidence {
        family: Family::new(place.named.unwrap_or(oldest), key),
        // A name that tells the epoch is worth more than one that does not.
        bytes: if place.named.is_some() { bytes << 8 } else { bytes },
    }))
}

/// The directory that most of the frames are of, where no header is left.
fn by_frames(reader: &mut Reader<'_>, places: &[Place]) -> Result<Option<Family>, DiskError> {
    let mut all = Vec::new();
    for place in places {
        all.extend(evidence(reader, place)?);
    }
    let votes = |family: &Family| {
        let of = all.iter().filter(|other| family.is(&other.family));
        of.map(|other| other.bytes).sum::<u64>()
    };
    Ok(all.iter().max_by_key(|one| votes(&one.family)).map(|one| one.family))
}

impl Survey {
    /// Looks through all files of a directory. O(bytes), and memory for what is between stretches
    /// that are whole. None: nothing in it tells of a journal.
    pub(super) fn of(
        reader: &mut Reader<'_>,
        entries: Vec<Entry>,
    ) -> Result<Option<Self>, OpenError> {
        let mut places = places(reader, entries)?;
        let (family, salt) = match by_headers(&places) {
            Some(found) => found,
            None => match by_frames(reader, &places)? {
                // Some number that is known to nobody who has not seen the files.
                Some(family) => (family, u64::from(family.known().1) << 32 | 0x9e37_79b9),
                None => return Ok(None),
            },
        };
        for place in &mut places {
            if place.says.header().is_some_and(|header| header.salt != salt) {
                place.says = Says::Foreign;
            }
        }
        let known = places.iter().filter_map(Place::epoch).chain([family.known().0]);
        let last = known.max().unwrap_or_default() + EPOCHS_AHEAD;
        let mut survey = Self { places, runs: Vec::new(), rests: Vec::new(), salt, mark: 0 };
        for number in 0..survey.places.len() {
            survey.look_through(reader, number, &family, last)?;
        }
        Ok(Some(survey))
    }

    fn look_through(
        &mut self,
        reader: &mut Reader<'_>,
        number: usize,
        family: &Family,
        last: u64,
    ) -> Result<(), DiskError> {
        let place = &self.places[number];
        let mut search = Search::new(reader, place);
        if place.says != Says::Nothing {
            search.offset = FIRST;
        }
        loop {
            let start = search.offset;
            search.filled = start;
            let found = search.next(&Keys::Family(family, last))?;
            let filled = found.map_or(search.filled, |frame| search.filled.min(frame.offset));
            if filled > start || found.is_some_and(|frame| frame.offset > start) {
                let ends = search.reader.bytes(&place.name, place.size, start, ALIGN)?;
                let ends = ends.iter().all(|&byte| byte == 0);
                self.rests.push(Rest { place: number, offset: start, filled, ends });
            }
            let Some(Frame { offset, head, key }) = found else { return Ok(()) };
            self.mark = self.mark.max(head.mark);
            let end = offset + u64::from(head.length);
            if let Some(run) = self.runs.last_mut()
                && (run.place, run.end, run.key) == (number, offset, key)
                && (run.last + 1, run.oldest) == (head.sequence, head.oldest)
            {
                (run.end, run.last) = (end, head.sequence);
                continue;
            }
            self.runs.push(Run {
                place: number,
                offset,
                end,
                key,
                epoch: family.epoch_of(key),
                first: head.sequence,
                last: head.sequence,
                oldest: head.oldest,
            });
        }
    }

    /// The first of those segments that follow each other up to the last, as far as files with
    /// names of segments are some: what recovery would begin with.
    pub(super) fn run_start(&self) -> u64 {
        let named = self.places.iter().filter(|place| place.named.is_some());
        let mut segments: Vec<_> =
            named.filter_map(|place| Some((place.epoch()?, place.size))).collect();
        segments.sort_unstable();
        segments.dedup_by_key(|segment| segment.0);
        let listing = SegmentList { segments, ..SegmentList::default() };
        listing.segments.get(listing.run()).map_or(NUMBER_END, |&(epoch, _)| epoch)
    }
}

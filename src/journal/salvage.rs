//! Salvage: every batch that verifies is copied into a new directory, whatever is between.

use super::chain::Listing;
use super::disk::{Fault, Files};
use super::format::{self, ALIGN, FRAME_HEAD, HEADER, Head, Header};
use super::reader::{FIRST, Reader, Source};
use super::recover::Refused;

/// A stretch that was not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The file.
    pub file: String,
    /// Where the stretch begins.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
    /// Why.
    pub what: String,
}

/// What was copied, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Batches copied.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// Batches that the numbers of their neighbours show to have been there.
    pub lost_batches: u64,
    /// Segments that are not there.
    pub missing: Vec<String>,
    /// Stretches that do not verify.
    pub skipped: Vec<Skipped>,
}

/// Segments in the making.
struct Writer<'f> {
    files: &'f mut dyn Files,
    segment_bytes: u64,
    salt: u64,
    epoch: u64,
    bytes: Vec<u8>,
    sequence: u64,
    mark: u64,
}

impl Writer<'_> {
    fn push(&mut self, frame: &[u8], head: &Head) -> Result<(), Fault> {
        let room = (frame.len() + ALIGN) as u64;
        if self.bytes.len() as u64 + room > self.segment_bytes {
            self.flush()?;
        }
        if self.bytes.is_empty() {
            self.bytes.resize(HEADER, 0);
        }
        self.sequence += 1;
        self.mark = self.mark.max(head.mark);
        let mut frame = frame.to_vec();
        let (sequence, mark, count) = (self.sequence, self.mark, head.count);
        let head = Head { length: 0, sequence, synced: sequence - 1, oldest: 1, mark, count };
        format::seal(&mut frame, head, format::key(self.salt, self.epoch));
        self.bytes.append(&mut frame);
        Ok(())
    }

    /// Writes the segment that was filled, if there is one.
    fn flush(&mut self) -> Result<(), Fault> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        self.bytes.resize(self.bytes.len() + ALIGN, 0);
        let header = Header { epoch: self.epoch, size: self.bytes.len() as u64, salt: self.salt };
        self.bytes[..HEADER].copy_from_slice(&header.encode()[..HEADER]);
        self.files.create(&format::segment_name(self.epoch), &self.bytes)?;
        self.epoch += 1;
        self.bytes.clear();
        Ok(())
    }
}

/// The segments whose frames can be verified; a header that is damaged is no obstacle as long as
/// that of another segment is not.
fn sources(
    reader: &mut Reader<'_>,
    listing: &Listing,
    salvaged: &mut Salvaged,
) -> Result<(Vec<Source>, Option<u64>), Refused> {
    let mut salt = None;
    let mut found = Vec::new();
    for &(epoch, size) in &listing.segments {
        let name = format::segment_name(epoch);
        match Header::decode(reader.bytes(&name, size, 0, HEADER)?) {
            Err(format::BadHeader::Newer(format)) => {
                return Err(Refused::Newer { file: name, format });
            }
            Ok(header) if header.epoch == epoch => {
                salt.get_or_insert(header.salt);
            }
            Ok(_) | Err(_) => {
                let what = "the header is not that of this segment".to_owned();
                let bytes = size.min(HEADER as u64);
                salvaged.skipped.push(Skipped { file: name.clone(), offset: 0, bytes, what });
            }
        }
        found.push(Source { name, epoch, size, key: 0 });
    }
    if let Some(salt) = salt {
        for source in &mut found {
            source.key = format::key(salt, source.epoch);
        }
    }
    Ok((found, salt))
}

/// What the first look at all segments has shown.
struct Survey {
    /// The number of the first batch in each segment.
    firsts: Vec<u64>,
    /// Segments before this epoch have been given up.
    start: u64,
}

fn survey(
    reader: &mut Reader<'_>,
    sources: &[Source],
    run_start: u64,
    salvaged: &mut Salvaged,
) -> Result<Survey, Refused> {
    let (mut firsts, mut oldest) = (Vec::new(), 0);
    for source in sources {
        let (mut offset, mut first, mut filled) = (FIRST, u64::MAX, 0);
        while let Some((at, head)) = reader.search(source, offset, &mut filled)? {
            first = first.min(head.sequence);
            oldest = oldest.max(head.oldest);
            offset = at + u64::from(head.length);
        }
        firsts.push(first);
    }
    let start = if oldest == 0 { run_start } else { run_start.min(oldest) };
    let last = sources.last().map_or(start, |source| source.epoch);
    let there = |epoch: &u64| sources.iter().all(|source| source.epoch != *epoch);
    salvaged.missing.extend((start..last).filter(there).map(format::segment_name));
    Ok(Survey { firsts, start })
}

/// Copies every batch that verifies from one directory into another, which must not hold a journal.
/// What was lost in between is lost: a deleted job may be back if its deletion was there. O(bytes),
/// and memory for one segment.
///
/// # Errors
/// If a directory cannot be read or written, if `to` holds a journal, or if the journal has a newer
/// format.
pub fn salvage(
    from: &mut dyn Files,
    to: &mut dyn Files,
    segment_bytes: u64,
) -> Result<Salvaged, Refused> {
    if let Some(&(epoch, _)) = Listing::of(to)?.segments.first() {
        return Err(Refused::Fault(Fault {
            operation: "salvage to a directory with",
            file: format::segment_name(epoch),
            error: "choose an empty directory".to_owned(),
        }));
    }
    let listing = Listing::of(from)?;
    let mut reader = Reader::new(from);
    let mut salvaged = Salvaged::default();
    let (sources, salt) = sources(&mut reader, &listing, &mut salvaged)?;
    let Some(salt) = salt else { return Ok(salvaged) };
    let run_start = listing.segments.get(listing.run()).map_or(0, |&(epoch, _)| epoch);
    let survey = survey(&mut reader, &sources, run_start, &mut salvaged)?;
    let bytes = Vec::new();
    let mut writer =
        Writer { files: to, segment_bytes, salt, epoch: 1, bytes, sequence: 0, mark: 0 };
    let mut last = None;
    for (index, source) in sources.iter().enumerate() {
        if source.epoch < survey.start {
            continue;
        }
        // Batches that an earlier recovery has cut off are superseded by those of later segments.
        let limit = survey.firsts[index + 1..].iter().copied().min().unwrap_or(u64::MAX);
        copy(&mut reader, source, limit, &mut last, &mut writer, &mut salvaged)?;
    }
    writer.flush()?;
    Ok(salvaged)
}

fn copy(
    reader: &mut Reader<'_>,
    source: &Source,
    limit: u64,
    last: &mut Option<u64>,
    writer: &mut Writer<'_>,
    salvaged: &mut Salvaged,
) -> Result<(), Refused> {
    let (mut offset, mut filled) = (FIRST, FIRST);
    while let Some((at, head)) = reader.search(source, offset, &mut filled)? {
        if head.sequence >= limit || last.is_some_and(|last| head.sequence <= last) {
            offset = at + u64::from(head.length);
            continue;
        }
        if at > offset {
            let what = "it does not verify".to_owned();
            let file = source.name.clone();
            salvaged.skipped.push(Skipped { file, offset, bytes: at - offset, what });
        }
        salvaged.lost_batches += last.map_or(0, |last| head.sequence - last - 1);
        *last = Some(head.sequence);
        let frame = reader.frame(source, at, &head)?;
        assert!(frame.len() >= FRAME_HEAD, "a frame that was found is whole");
        writer.push(frame, &head)?;
        salvaged.batches += 1;
        salvaged.records += u64::from(head.count);
        offset = at + u64::from(head.length);
    }
    Ok(())
}

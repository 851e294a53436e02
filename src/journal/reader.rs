//! Reading segments: piece by piece, frame by frame, and looking for frames where none should be.

use super::disk::{DiskError, Files};
use super::format::{
    self, BatchHeader, FRAME_ALIGN_BYTES, FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES,
};
use crate::base::limits::JOURNAL_READ_BYTES;

/// What stands at some place of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameScan {
    /// A frame that verifies.
    Frame(BatchHeader),
    /// Zeros, or the end of the segment.
    End,
    /// Something else.
    Bad,
}

/// A segment that is read.
#[derive(Clone, Debug)]
pub(super) struct SegmentSource {
    pub(super) name: String,
    pub(super) epoch: u64,
    pub(super) size: u64,
    /// What checksums continue from.
    pub(super) key: u32,
}

/// A piece of one file at a time. Memory: [`JOURNAL_READ_BYTES`], or the largest frame.
pub(super) struct SegmentReader<'f> {
    files: &'f mut dyn Files,
    name: String,
    buffer: Vec<u8>,
    /// Where the piece begins in the file, and how much of it counts.
    start: u64,
    length: usize,
}

impl<'f> SegmentReader<'f> {
    pub(super) fn new(files: &'f mut dyn Files) -> Self {
        Self { files, name: String::new(), buffer: Vec::new(), start: 0, length: 0 }
    }

    /// The `want` bytes of the file from `offset` on, fewer at its end.
    pub(super) fn bytes(
        &mut self,
        name: &str,
        size: u64,
        offset: u64,
        want: usize,
    ) -> Result<&[u8], DiskError> {
        let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let want = want.min(left);
        if self.name != name {
            name.clone_into(&mut self.name);
            (self.start, self.length) = (offset, 0);
        }
        let end = self.start + self.length as u64;
        if offset < self.start || offset + want as u64 > end {
            self.fill(offset, want, left)?;
        }
        let at = usize::try_from(offset - self.start).expect("within the piece");
        Ok(&self.buffer[at.min(self.length)..self.length.min(at + want)])
    }

    /// Reads the piece that begins at `offset`: `want` bytes at least, if there are as many.
    fn fill(&mut self, offset: u64, want: usize, left: usize) -> Result<(), DiskError> {
        let end = self.start + self.length as u64;
        let kept = if (self.start..=end).contains(&offset) {
            let at = usize::try_from(offset - self.start).expect("within the piece");
            self.buffer.copy_within(at..self.length, 0);
            self.length - at
        } else {
            0
        };
        (self.start, self.length) = (offset, kept);
        let target = want.max(JOURNAL_READ_BYTES.min(left));
        if self.buffer.len() < target {
            let mut larger = vec![0; target];
            larger[..kept].copy_from_slice(&self.buffer[..kept]);
            self.buffer = larger;
        }
        while self.length < target {
            let at = offset + self.length as u64;
            match self.files.read(&self.name, at, &mut self.buffer[self.length..target])? {
                0 => break,
                count => self.length += count,
            }
        }
        Ok(())
    }

    /// What stands at `offset`.
    pub(super) fn peek_frame(
        &mut self,
        source: &SegmentSource,
        offset: u64,
    ) -> Result<FrameScan, DiskError> {
        let SegmentSource { name, size, key, .. } = source;
        let bytes = self.bytes(name, *size, offset, FRAME_HEADER_BYTES)?;
        if bytes.iter().take(FRAME_ALIGN_BYTES).all(|&byte| byte == 0) {
            return Ok(FrameScan::End);
        }
        let Some(head) = format::read_batch_header(bytes, size - offset, *key) else {
            return Ok(FrameScan::Bad);
        };
        let frame = self.frame(source, offset, &head)?;
        let whole = format::frame_verifies(frame, &head, *key)
            && head.synced < head.sequence
            && head.oldest <= source.epoch;
        Ok(if whole { FrameScan::Frame(head) } else { FrameScan::Bad })
    }

    /// The frame at `offset`, whose head was seen there.
    pub(super) fn frame(
        &mut self,
        source: &SegmentSource,
        offset: u64,
        head: &BatchHeader,
    ) -> Result<&[u8], DiskError> {
        self.bytes(&source.name, source.size, offset, head.length as usize)
    }

    /// The first frame that verifies at `offset` or behind it, at whatever place. `filled` is
    /// raised to behind the last bytes seen that are not zero. O(bytes), as what is no frame is not
    /// likely to have a head that verifies.
    pub(super) fn search(
        &mut self,
        source: &SegmentSource,
        mut offset: u64,
        filled: &mut u64,
    ) -> Result<Option<(u64, BatchHeader)>, DiskError> {
        while offset + FRAME_HEADER_BYTES as u64 <= source.size {
            self.bytes(&source.name, source.size, offset, FRAME_HEADER_BYTES)?;
            let start = usize::try_from(offset - self.start).expect("within the piece");
            let piece = &self.buffer[start..self.length];
            let (mut at, mut found) = (0, false);
            while at + FRAME_HEADER_BYTES <= piece.len() && !found {
                if piece[at..at + FRAME_ALIGN_BYTES] == [0; FRAME_ALIGN_BYTES] {
                    at += FRAME_ALIGN_BYTES;
                    continue;
                }
                let room = source.size - offset - at as u64;
                found = format::read_batch_header(&piece[at..], room, source.key).is_some();
                if !found {
                    at += FRAME_ALIGN_BYTES;
                    *filled = (*filled).max(offset + at as u64);
                }
            }
            if at == 0 && !found {
                return Ok(None);
            }
            offset += at as u64;
            if found {
                if let FrameScan::Frame(head) = self.peek_frame(source, offset)? {
                    *filled = (*filled).max(offset + u64::from(head.length));
                    return Ok(Some((offset, head)));
                }
                offset += FRAME_ALIGN_BYTES as u64;
            }
        }
        Ok(None)
    }
}

/// Where the first frame of a segment stands.
pub(super) const FIRST_FRAME_OFFSET: u64 = SEGMENT_HEADER_BYTES as u64;

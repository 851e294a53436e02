//! Reading segments in chunks and frame by frame, and searching for frames at any offset.

use super::disk::{DiskError, Files};
use super::format::{
    self, BatchHeader, FRAME_ALIGN_BYTES, FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES,
};
use crate::journal::limits::JOURNAL_READ_BYTES;

/// What is at an offset of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameScan {
    /// A frame that verifies.
    Frame(BatchHeader),
    /// Zeros, or the end of the segment.
    End,
    /// Something else.
    Bad,
}

/// A segment to read.
#[derive(Clone, Debug)]
pub(super) struct SegmentSource {
    pub(super) name: String,
    pub(super) epoch: u64,
    pub(super) size: u64,
    /// The segment key.
    pub(super) key: u32,
}

/// Buffers one chunk of one file. Memory: [`JOURNAL_READ_BYTES`], or the largest frame.
pub(super) struct SegmentReader<'f> {
    files: &'f mut dyn Files,
    name: String,
    buffer: Vec<u8>,
    /// The offset of the buffer in the file, and its valid bytes.
    start: u64,
    length: usize,
}

impl<'f> SegmentReader<'f> {
    pub(super) fn new(files: &'f mut dyn Files) -> Self {
        Self { files, name: String::new(), buffer: Vec::new(), start: 0, length: 0 }
    }

    /// `want` bytes of the file from `offset` on, fewer at its end.
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
        debug_assert!(self.length <= self.buffer.len(), "the valid bytes are in the buffer");
        let at = usize::try_from(offset - self.start).expect("the offset is within the buffer");
        Ok(&self.buffer[at.min(self.length)..self.length.min(at + want)])
    }

    /// Fills the buffer from `offset` on, with at least `want` bytes unless the file ends before.
    fn fill(&mut self, offset: u64, want: usize, left: usize) -> Result<(), DiskError> {
        debug_assert!(want <= left, "more bytes are wanted than the file has");
        let end = self.start + self.length as u64;
        let kept = if (self.start..=end).contains(&offset) {
            let at = usize::try_from(offset - self.start).expect("the offset is within the buffer");
            self.buffer.copy_within(at..self.length, 0);
            self.length - at
        } else {
            0
        };
        debug_assert!(kept <= want, "the buffer is filled although it has what is wanted");
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
            assert!(self.length <= target, "more bytes were read than asked for");
        }
        Ok(())
    }

    /// What is at `offset`: a frame only if it verifies as a whole. O(bytes of the frame).
    pub(super) fn peek_frame(
        &mut self,
        source: &SegmentSource,
        offset: u64,
    ) -> Result<FrameScan, DiskError> {
        let SegmentSource { name, size, key, .. } = source;
        debug_assert!(
            offset <= *size && offset.is_multiple_of(FRAME_ALIGN_BYTES as u64),
            "no frame can begin here: behind the file, or between two possible offsets"
        );
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

    /// The bytes of the frame at `offset`, whose header is known.
    pub(super) fn frame(
        &mut self,
        source: &SegmentSource,
        offset: u64,
        head: &BatchHeader,
    ) -> Result<&[u8], DiskError> {
        debug_assert!(
            offset + u64::from(head.length) <= source.size,
            "a frame ends behind its segment although its header was checked"
        );
        self.bytes(&source.name, source.size, offset, head.length as usize)
    }

    /// The first frame that verifies at or behind `offset`. `filled` is raised to the end of the
    /// last bytes scanned that are not zero. O(bytes), as other bytes rarely verify as a header.
    pub(super) fn search(
        &mut self,
        source: &SegmentSource,
        mut offset: u64,
        filled: &mut u64,
    ) -> Result<Option<(u64, BatchHeader)>, DiskError> {
        while offset + FRAME_HEADER_BYTES as u64 <= source.size {
            self.bytes(&source.name, source.size, offset, FRAME_HEADER_BYTES)?;
            let start =
                usize::try_from(offset - self.start).expect("the offset is within the buffer");
            let chunk = &self.buffer[start..self.length];
            let (mut at, mut found) = (0, false);
            while at + FRAME_HEADER_BYTES <= chunk.len() && !found {
                if chunk[at..at + FRAME_ALIGN_BYTES] == [0; FRAME_ALIGN_BYTES] {
                    at += FRAME_ALIGN_BYTES;
                    continue;
                }
                let room = source.size - offset - at as u64;
                found = format::read_batch_header(&chunk[at..], room, source.key).is_some();
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
                    debug_assert!(
                        *filled <= source.size,
                        "more bytes were scanned than the segment has"
                    );
                    return Ok(Some((offset, head)));
                }
                offset += FRAME_ALIGN_BYTES as u64;
            }
        }
        Ok(None)
    }
}

/// The offset of the first frame of a segment.
pub(super) const FIRST_FRAME_OFFSET: u64 = SEGMENT_HEADER_BYTES as u64;

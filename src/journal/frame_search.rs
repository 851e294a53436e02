//! Searches a file for frames at any offset, of any segment.

use super::disk::DiskError;
use super::format::{self, BatchHeader, FRAME_ALIGN_BYTES, FRAME_HEADER_BYTES, NUMBER_END};
use super::keys::{DirectoryKeys, key_from_header};
use super::reader::SegmentReader;

/// Bytes that are searched at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// Epochs up to this far beyond the last known one are plausible.
pub(super) const EPOCHS_AHEAD: u64 = 4096;

/// A frame that verifies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) offset: u64,
    pub(super) head: BatchHeader,
    pub(super) key: u32,
}

/// Which frames are accepted.
pub(super) enum KeyFilter<'k> {
    /// Those of this directory, up to an epoch.
    Family(&'k DirectoryKeys, u64),
    /// Those with these keys.
    Listed(&'k [u32]),
}

impl KeyFilter<'_> {
    /// Whether a frame with this key and this oldest needed segment is plausible.
    fn accepts(&self, key: u32, oldest: u64) -> bool {
        match self {
            Self::Family(family, last) => {
                let epoch = family.epoch_of(key);
                (1..=*last).contains(&epoch) && oldest <= epoch
            }
            Self::Listed(keys) => keys.contains(&key),
        }
    }
}

/// The batch header at the begin of `bytes`, if it is plausible, and its segment key.
pub(super) fn likely_head(bytes: &[u8], room: u64) -> Option<(BatchHeader, u32)> {
    let bytes: &[u8; FRAME_HEADER_BYTES] = bytes.first_chunk()?;
    let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    if (length as usize) < FRAME_HEADER_BYTES || u64::from(length) > room {
        return None;
    }
    let key = key_from_header(bytes);
    let head = format::read_batch_header(bytes, room, key)?;
    let likely = head.synced < head.sequence && (1..NUMBER_END).contains(&head.oldest);
    likely.then_some((head, key))
}

/// A search through one file.
pub(super) struct FrameSearch<'s, 'f> {
    pub(super) reader: &'s mut SegmentReader<'f>,
    name: &'s str,
    size: u64,
    /// Where the search continues.
    pub(super) offset: u64,
    /// The offset behind the last byte scanned that is not zero.
    pub(super) filled: u64,
}

impl<'s, 'f> FrameSearch<'s, 'f> {
    pub(super) fn new(reader: &'s mut SegmentReader<'f>, name: &'s str, size: u64) -> Self {
        Self { reader, name, size, offset: 0, filled: 0 }
    }

    /// Continues behind the offset of what was found last.
    pub(super) fn step(&mut self) {
        debug_assert!(
            self.offset + FRAME_HEADER_BYTES as u64 <= self.size,
            "the search continues behind an offset where nothing can have been found"
        );
        self.offset += FRAME_ALIGN_BYTES as u64;
    }

    /// The next offset at which `look` returns something. O(bytes) beside the costs of `look`.
    pub(super) fn seek<T>(
        &mut self,
        mut look: impl FnMut(&[u8], u64) -> Option<T>,
    ) -> Result<Option<(u64, T)>, DiskError> {
        let size = self.size;
        debug_assert!(
            self.offset.is_multiple_of(FRAME_ALIGN_BYTES as u64),
            "the search would pass over every frame: it is between two possible offsets"
        );
        while self.offset + FRAME_HEADER_BYTES as u64 <= size {
            let piece = self.reader.bytes(self.name, size, self.offset, CHUNK_BYTES)?;
            let (mut at, start) = (0, self.offset);
            while at + FRAME_HEADER_BYTES <= piece.len() {
                if piece[at..at + FRAME_ALIGN_BYTES] != [0; FRAME_ALIGN_BYTES] {
                    let room = size - start - at as u64;
                    if let Some(seen) = look(&piece[at..], room) {
                        self.offset = start + at as u64;
                        return Ok(Some((self.offset, seen)));
                    }
                    self.filled = start + (at + FRAME_ALIGN_BYTES) as u64;
                }
                at += FRAME_ALIGN_BYTES;
            }
            if at == 0 {
                break;
            }
            self.offset = start + at as u64;
        }
        Ok(None)
    }

    /// The next accepted frame; the search continues behind it. O(bytes), as other bytes rarely
    /// yield an accepted key.
    pub(super) fn next(&mut self, keys: &KeyFilter<'_>) -> Result<Option<Frame>, DiskError> {
        let look = |bytes: &[u8], room| {
            likely_head(bytes, room).filter(|(head, key)| keys.accepts(*key, head.oldest))
        };
        while let Some((offset, (head, key))) = self.seek(look)? {
            let length = head.length as usize;
            let frame = self.reader.bytes(self.name, self.size, offset, length)?;
            if format::frame_verifies(frame, &head, key) {
                debug_assert!(
                    offset + u64::from(head.length) <= self.size && self.filled <= offset,
                    "a frame ends behind its file, or bytes before it were not scanned"
                );
                self.offset = offset + u64::from(head.length);
                return Ok(Some(Frame { offset, head, key }));
            }
            self.step();
            self.filled = self.offset;
        }
        Ok(None)
    }
}

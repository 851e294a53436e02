//! CRC32C in reverse: from a frame to the segment key with which it was sealed.
//!
//! The segment keys of a directory differ by their epochs alone, independent of the salt, so one of
//! them determines all others. The checksum of a frame's header fits exactly one segment key. So a
//! frame shows by itself in which segment it was written, wherever it is now, and whether that
//! segment belongs to this directory.

use super::format::FRAME_HEADER_BYTES;

/// The polynomial of CRC32C, bits reversed as in the checksum.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The inverse CRC table: by the top byte of a state, what undoes one byte.
const REVERSE_TABLE: [u32; 256] = backwards();

const fn backwards() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut forward, mut bit) = (byte, 0);
        while bit < 8 {
            forward = if forward & 1 == 1 { forward >> 1 ^ POLYNOMIAL } else { forward >> 1 };
            bit += 1;
        }
        let top = (forward >> 24) as usize;
        assert!(byte == 0 || table[top] == 0, "two bytes would be undone alike");
        table[top] = forward << 8 ^ byte;
        byte += 1;
    }
    table
}

/// The CRC state before `byte` was added. O(1).
fn undo_byte(state: u32, byte: u8) -> u32 {
    state << 8 ^ REVERSE_TABLE[(state >> 24) as usize] ^ u32::from(byte)
}

/// The one segment key with which a frame's header verifies.
pub(super) fn key_from_header(head: &[u8; FRAME_HEADER_BYTES]) -> u32 {
    let [.., a, b, c, d] = *head;
    let state = !u32::from_le_bytes([a, b, c, d]);
    let bytes = head[..4].iter().rev().chain(head[8..44].iter().rev());
    !bytes.fold(state, |state, &byte| undo_byte(state, byte))
}

/// All segment keys of a directory, derived from one of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct DirectoryKeys {
    epoch: u64,
    key: u32,
}

impl DirectoryKeys {
    /// The directory whose segment `epoch` has this key.
    pub(super) fn new(epoch: u64, key: u32) -> Self {
        Self { epoch, key }
    }

    /// The epoch of a segment key. Any key yields some epoch, with the upper half of the known one:
    /// the caller checks that it is plausible. So that of key 0 tells directories apart.
    pub(super) fn epoch_of(&self, key: u32) -> u64 {
        self.epoch ^ u64::from((0..8).fold(key ^ self.key, |state, _| undo_byte(state, 0)))
    }

    /// The known epoch and its key.
    pub(super) fn anchor(&self) -> (u64, u32) {
        (self.epoch, self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::format::{BatchHeader, push_record, seal, segment_key};

    #[test]
    fn frame_header_yields_key_and_key_yields_epoch() {
        for (salt, known, epoch) in
            [(1, 1, 1), (0x5a17, 3, 70_000), (u64::MAX, 9, 2), (7 << 40, 1 << 40, (1 << 40) + 5)]
        {
            let mut frame = vec![0; FRAME_HEADER_BYTES];
            push_record(&mut frame, |out| out.extend_from_slice(b"a record"));
            let head =
                BatchHeader { sequence: 77, synced: 5, oldest: 1, high_id: 3, count: 1, length: 0 };
            seal(&mut frame, head, segment_key(salt, epoch));
            let found = key_from_header(frame.first_chunk().unwrap());
            assert_eq!(found, segment_key(salt, epoch));
            let family = DirectoryKeys::new(known, segment_key(salt, known));
            assert_eq!(family.epoch_of(found), epoch);
            let same = DirectoryKeys::new(epoch, found);
            let other = DirectoryKeys::new(epoch, segment_key(salt ^ 1, epoch));
            assert_eq!(family.epoch_of(0), same.epoch_of(0));
            assert_ne!(family.epoch_of(0), other.epoch_of(0));
            frame[8] ^= 1;
            assert_ne!(key_from_header(frame.first_chunk().unwrap()), found);
        }
    }
}

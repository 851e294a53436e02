//! Checksums backwards: from a frame to the key that it was sealed with.
//!
//! The keys of a directory differ by their epochs alone, and in a way that does not depend on the
//! salt: from one of them all follow. And there is just one key with which the checksum of
//! a frame's head can be right. So a frame tells by itself in which segment it was written,
//! wherever it lies now, and whether that is a segment of this directory.

use super::format::FRAME_HEADER_BYTES;

/// The polynomial of CRC32C, its bits in the order of the checksum's.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// What a byte at the upper end is made of when a byte is taken out at the lower end.
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
        table[(forward >> 24) as usize] = forward << 8 ^ byte;
        byte += 1;
    }
    table
}

/// What the state was before this byte.
fn undo_byte(state: u32, byte: u8) -> u32 {
    state << 8 ^ REVERSE_TABLE[(state >> 24) as usize] ^ u32::from(byte)
}

/// The one key with which these first bytes of a frame have the right checksum of the head.
pub(super) fn key_from_header(head: &[u8; FRAME_HEADER_BYTES]) -> u32 {
    let [.., a, b, c, d] = *head;
    let state = !u32::from_le_bytes([a, b, c, d]);
    let bytes = head[..4].iter().rev().chain(head[8..44].iter().rev());
    !bytes.fold(state, |state, &byte| undo_byte(state, byte))
}

/// All keys of one directory, by one of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct DirectoryKeys {
    epoch: u64,
    key: u32,
}

impl DirectoryKeys {
    /// The directory in which segment `epoch` has this key.
    pub(super) fn new(epoch: u64, key: u32) -> Self {
        Self { epoch, key }
    }

    /// The epoch whose key this is. Some epoch comes out of any key: it has to be a likely one. (It
    /// shares its upper half with those that are known.)
    pub(super) fn epoch_of(&self, key: u32) -> u64 {
        self.epoch ^ u64::from((0..8).fold(key ^ self.key, |state, _| undo_byte(state, 0)))
    }

    /// The epoch and the key by which it is known.
    pub(super) fn anchor(&self) -> (u64, u32) {
        (self.epoch, self.key)
    }

    /// Whether both are the same directory's.
    pub(super) fn is_same_directory(&self, other: &Self) -> bool {
        self.epoch_of(other.key) == other.epoch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::format::{BatchHeader, push_record, seal, segment_key};

    #[test]
    fn a_frame_tells_its_key_and_the_key_its_epoch() {
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
            assert!(family.is_same_directory(&DirectoryKeys::new(epoch, found)));
            assert!(
                !family.is_same_directory(&DirectoryKeys::new(epoch, segment_key(salt ^ 1, epoch)))
            );
            frame[8] ^= 1;
            assert_ne!(key_from_header(frame.first_chunk().unwrap()), found);
        }
    }
}

//! The format on the disk. All numbers are little endian.
//!
//! A directory holds
//! - `lock`, which the process that uses the directory has locked. It is not empty once there has
//!   been a segment: a directory without a segment is damaged then;
//! - segments, `<epoch as 16 hexadecimal digits>.seg`, their epochs without gaps;
//! - spares, `spare-<number>.seg`: being prepared, or kept to be recycled. Their content means
//!   nothing.
//!
//! A segment begins with its header; a file has a segment's name only once that header is durable.
//!
//! | at | bytes | header |
//! |---|---|---|
//! | 0 | 8 | [`MAGIC`] |
//! | 8 | 4 | format: [`FORMAT`]. A higher one is refused |
//! | 12 | 4 | size of the header: 64 |
//! | 16 | 8 | epoch, as in the name |
//! | 24 | 8 | size of the file |
//! | 32 | 8 | salt, the same in all segments of a directory |
//! | 40 | 20 | zero |
//! | 60 | 4 | CRC32C of the 60 bytes before |
//!
//! Magic, format and checksum stay where they are in every later format.
//!
//! Frames follow from byte 64 on, each a batch and each a multiple of 8 bytes. Behind the last one
//! are 8 zero bytes, if they fit, which the next one overwrites. What comes then means nothing:
//! zeros, or in a recycled segment leftovers of its earlier use.
//!
//! | at | bytes | frame |
//! |---|---|---|
//! | 0 | 4 | size of the frame |
//! | 4 | 4 | checksum: CRC32C of bytes 8.. and then of bytes 0..4 |
//! | 8 | 8 | sequence: the first batch of a directory has 1, each one more than the one before |
//! | 16 | 8 | synced: batches up to this one were durable when this one was sealed |
//! | 24 | 8 | oldest: the epoch of the oldest segment that is needed once this batch is durable |
//! | 32 | 8 | the highest id that was given out |
//! | 40 | 4 | count of records |
//! | 44 | 4 | checksum of the header: CRC32C of bytes 8..44 and then of bytes 0..4 |
//! | 48 | | the records, each its size in 4 bytes and then itself |
//! | | 0..8 | zero |
//!
//! Both checksums continue from the segment key, the checksum of salt and epoch (8 bytes each). So
//! leftovers of an earlier use do not verify, nor does a payload that a client without knowledge of
//! the salt has made to look like a batch.

use crate::journal::limits::{JOURNAL_READ_BYTES, JOURNAL_SEGMENT_MIN_BYTES};

/// The first bytes of every segment. The line end shows a transfer that has changed line ends.
pub(super) const MAGIC: [u8; 8] = *b"JCJRNL\r\n";

/// The format version that is written, and the highest that is read.
pub(super) const FORMAT: u32 = 1;

/// Size of a segment's header, in bytes.
pub(super) const SEGMENT_HEADER_BYTES: usize = HEADER_BYTES_U32 as usize;

/// The same, as the header stores it.
const HEADER_BYTES_U32: u32 = 64;

/// Size of a frame's header, in bytes.
pub(super) const FRAME_HEADER_BYTES: usize = 48;

/// Frames are multiples of this many bytes, and as many zero bytes end a segment.
pub(super) const FRAME_ALIGN_BYTES: usize = 8;

/// Epochs and sequences stay below this, so that incrementing them does not overflow.
pub(super) const NUMBER_END: u64 = 1 << 63;

/// Bytes of a record's size, in front of it.
pub(super) const RECORD_HEADER_BYTES: usize = 4;

/// The name of the file that is locked.
pub const LOCK_FILE: &str = "lock";

const _: () = assert!(
    SEGMENT_HEADER_BYTES.is_multiple_of(FRAME_ALIGN_BYTES)
        && FRAME_HEADER_BYTES.is_multiple_of(FRAME_ALIGN_BYTES),
    "frames begin at multiples of their alignment, where recovery searches for them"
);
const _: () = assert!(
    JOURNAL_SEGMENT_MIN_BYTES / 8 > (FRAME_HEADER_BYTES + RECORD_HEADER_BYTES) as u64,
    "a batch without a record would be as large as one that is sealed for its size"
);
const _: () = assert!(JOURNAL_SEGMENT_MIN_BYTES > SEGMENT_HEADER_BYTES as u64);
const _: () = assert!(
    JOURNAL_READ_BYTES > FRAME_HEADER_BYTES && JOURNAL_READ_BYTES > SEGMENT_HEADER_BYTES,
    "a chunk that is read holds a whole header"
);

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) epoch: u64,
    pub(super) size: u64,
    pub(super) salt: u64,
}

/// Why a header is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BadHeader {
    Newer(u32),
    Damaged(&'static str),
}

/// The header of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BatchHeader {
    /// Bytes of the whole frame.
    pub(super) length: u32,
    pub(super) sequence: u64,
    pub(super) synced: u64,
    pub(super) oldest: u64,
    pub(super) high_id: u64,
    pub(super) count: u32,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The name of a segment.
#[must_use]
pub fn segment_name(epoch: u64) -> String {
    format!("{epoch:016x}.seg")
}

/// The name of a spare.
#[must_use]
pub fn spare_name(number: u32) -> String {
    format!("spare-{number}.seg")
}

/// Whether a file name is that of a segment.
#[must_use]
pub fn is_segment(name: &str) -> bool {
    epoch_of(name).is_some()
}

/// The epoch in the name of a segment; `None` for other names.
pub(super) fn epoch_of(name: &str) -> Option<u64> {
    let epoch = u64::from_str_radix(name.strip_suffix(".seg")?, 16).ok()?;
    (segment_name(epoch) == name && (1..NUMBER_END).contains(&epoch)).then_some(epoch)
}

/// The number in the name of a spare; `None` for other names.
pub(super) fn spare_of(name: &str) -> Option<u32> {
    let number = name.strip_prefix("spare-")?.strip_suffix(".seg")?.parse().ok()?;
    (spare_name(number) == name).then_some(number)
}

impl SegmentHeader {
    /// The first bytes of a segment without batches.
    pub(super) fn encode(&self) -> Vec<u8> {
        assert!(
            (1..NUMBER_END).contains(&self.epoch),
            "recovery would reject the segment: its epoch is too low or too high"
        );
        assert!(self.size > SEGMENT_HEADER_BYTES as u64, "a segment has no space for frames");
        let mut bytes = vec![0; SEGMENT_HEADER_BYTES + FRAME_ALIGN_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[12..16].copy_from_slice(&HEADER_BYTES_U32.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.size.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.salt.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[..SEGMENT_HEADER_BYTES - 4]);
        bytes[SEGMENT_HEADER_BYTES - 4..SEGMENT_HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        assert!(Self::decode(&bytes) == Ok(*self), "a segment's header cannot be read");
        bytes
    }

    /// Reads a header from the first bytes of a file.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, BadHeader> {
        let damaged = |what| Err(BadHeader::Damaged(what));
        if bytes.is_empty() {
            return damaged("the file is empty");
        }
        let Some(bytes) = bytes.get(..SEGMENT_HEADER_BYTES) else {
            return damaged("the file ends within its header");
        };
        if bytes[..8] != MAGIC {
            return damaged("the file does not begin as a segment does");
        }
        if u32_at(bytes, SEGMENT_HEADER_BYTES - 4)
            != crc32c::crc32c(&bytes[..SEGMENT_HEADER_BYTES - 4])
        {
            return damaged("the checksum of the header is wrong");
        }
        let format = u32_at(bytes, 8);
        if format > FORMAT {
            return Err(BadHeader::Newer(format));
        }
        if format == 0
            || u32_at(bytes, 12) != HEADER_BYTES_U32
            || bytes[40..SEGMENT_HEADER_BYTES - 4].iter().any(|&byte| byte != 0)
        {
            return damaged("the header says what no program has written");
        }
        let (epoch, size, salt) = (u64_at(bytes, 16), u64_at(bytes, 24), u64_at(bytes, 32));
        Ok(Self { epoch, size, salt })
    }
}

/// The segment key, from which the checksums of a segment's frames continue.
pub(super) fn segment_key(salt: u64, epoch: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), &epoch.to_le_bytes())
}

fn checksum(key: u32, frame: &[u8]) -> u32 {
    debug_assert!(frame.len() >= FRAME_HEADER_BYTES, "a frame is shorter than its header");
    crc32c::crc32c_append(crc32c::crc32c_append(key, &frame[8..]), &frame[..4])
}

fn header_checksum(key: u32, frame: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(key, &frame[8..44]), &frame[..4])
}

/// Appends a record's size and the record that `write` appends. Returns the bytes of both.
pub(super) fn push_record(frame: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> u32 {
    let start = frame.len();
    frame.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
    write(frame);
    debug_assert!(
        frame.len() >= start + RECORD_HEADER_BYTES,
        "the writer of a record has removed bytes that are not its own"
    );
    let bytes = |count| u32::try_from(count).expect("a record is shorter than 2^32 bytes");
    let whole = bytes(frame.len() - start);
    let length = bytes(frame.len() - start - RECORD_HEADER_BYTES);
    frame[start..start + RECORD_HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
    whole
}

/// The bytes of a sealed frame, from those of its header and records.
pub(super) fn padded(length: usize) -> usize {
    length.next_multiple_of(FRAME_ALIGN_BYTES)
}

/// Seals a frame, which has space for its header and then the records: pads it, and writes the
/// header. The length in `head` is set here.
pub(super) fn seal(frame: &mut Vec<u8>, mut head: BatchHeader, key: u32) {
    assert!(frame.len() >= FRAME_HEADER_BYTES, "a frame has no space for its header");
    assert!(
        head.synced < head.sequence && head.sequence < NUMBER_END,
        "recovery would reject the batch: its sequence is too low or too high"
    );
    assert!(
        (1..NUMBER_END).contains(&head.oldest),
        "salvage would reject the batch: the oldest segment that it needs is no segment"
    );
    debug_assert!(
        frame.len() >= FRAME_HEADER_BYTES + head.count as usize * RECORD_HEADER_BYTES,
        "a frame is shorter than the sizes of its records"
    );
    frame.resize(padded(frame.len()), 0);
    head.length = u32::try_from(frame.len()).expect("a batch is shorter than 2^32 bytes");
    frame[..4].copy_from_slice(&head.length.to_le_bytes());
    frame[8..16].copy_from_slice(&head.sequence.to_le_bytes());
    frame[16..24].copy_from_slice(&head.synced.to_le_bytes());
    frame[24..32].copy_from_slice(&head.oldest.to_le_bytes());
    frame[32..40].copy_from_slice(&head.high_id.to_le_bytes());
    frame[40..44].copy_from_slice(&head.count.to_le_bytes());
    let sum = header_checksum(key, frame);
    frame[44..48].copy_from_slice(&sum.to_le_bytes());
    let sum = checksum(key, frame);
    frame[4..8].copy_from_slice(&sum.to_le_bytes());
    debug_assert_eq!(
        read_batch_header(frame, frame.len() as u64, key),
        Some(head),
        "a batch's header cannot be read"
    );
}

/// The batch header at the begin of `bytes`, if it verifies; the frame is not checked. `room`: the
/// bytes of the segment from there on.
pub(super) fn read_batch_header(bytes: &[u8], room: u64, key: u32) -> Option<BatchHeader> {
    let bytes = bytes.get(..FRAME_HEADER_BYTES)?;
    let length = u32_at(bytes, 0);
    let possible = length as usize >= FRAME_HEADER_BYTES
        && u64_at(bytes, 8) < NUMBER_END
        && (length as usize).is_multiple_of(FRAME_ALIGN_BYTES)
        && u64::from(length) <= room
        && u32_at(bytes, 44) == header_checksum(key, bytes);
    possible.then(|| BatchHeader {
        length,
        sequence: u64_at(bytes, 8),
        synced: u64_at(bytes, 16),
        oldest: u64_at(bytes, 24),
        high_id: u64_at(bytes, 32),
        count: u32_at(bytes, 40),
    })
}

/// Whether a frame verifies whose header does: its checksum, and its count of records. O(bytes).
pub(super) fn frame_verifies(frame: &[u8], head: &BatchHeader, key: u32) -> bool {
    if frame.len() != head.length as usize || u32_at(frame, 4) != checksum(key, frame) {
        return false;
    }
    let mut records = Records::new(frame);
    for _ in 0..head.count {
        if records.next().is_none() {
            return false;
        }
    }
    records.rest.len() < FRAME_ALIGN_BYTES && records.rest.iter().all(|&byte| byte == 0)
}

/// The records of a frame.
pub(super) struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// The records behind the header. Only as many as the header says are valid.
    pub(super) fn new(frame: &'a [u8]) -> Self {
        Self { rest: &frame[FRAME_HEADER_BYTES..] }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.rest.split_first_chunk::<RECORD_HEADER_BYTES>()?;
        let (record, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        self.rest = rest;
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(records: &[&[u8]], key: u32) -> Vec<u8> {
        let mut frame = vec![0; FRAME_HEADER_BYTES];
        for record in records {
            push_record(&mut frame, |out| out.extend_from_slice(record));
        }
        let count = u32::try_from(records.len()).unwrap();
        let head = BatchHeader { sequence: 7, synced: 5, oldest: 2, high_id: 99, count, length: 0 };
        seal(&mut frame, head, key);
        frame
    }

    #[test]
    fn encoded_bytes_match_the_documented_layout() {
        let header = SegmentHeader { epoch: 0x0102, size: 4096, salt: 3 }.encode();
        assert_eq!(header[..8], *b"JCJRNL\r\n");
        assert_eq!(header[8..16], [1, 0, 0, 0, 64, 0, 0, 0]);
        assert_eq!(header[16..32], [2, 1, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0]);
        assert_eq!(header[32..40], [3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(header[40..60], [0; 20]);
        // These checksums were computed by another program.
        assert_eq!(header[60..64], [0xfe, 0x1c, 0x14, 0xea]);
        assert_eq!(header[64..], [0; 8]);
        let frame = frame(&[b"a", b""], segment_key(3, 0x0102));
        assert_eq!(frame[..4], [64, 0, 0, 0]);
        assert_eq!(frame[4..8], [0xa8, 0xaf, 0x28, 0x25]);
        assert_eq!(frame[44..48], [0xd2, 0x37, 0x0a, 0x3b]);
        assert_eq!(frame[8..16], [7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(frame[16..24], [5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(frame[24..32], [2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(frame[32..40], [99, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(frame[40..44], [2, 0, 0, 0]);
        assert_eq!(frame[48..], [1, 0, 0, 0, b'a', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn sealed_frame_is_read_and_any_flipped_bit_is_detected() {
        let key = segment_key(9, 4);
        let whole = frame(&[b"one", b"", b"three three"], key);
        let head_of = |bytes: &[u8]| read_batch_header(bytes, 4096, key);
        let head = head_of(&whole).unwrap();
        assert_eq!((head.sequence, head.high_id, head.count), (7, 99, 3));
        assert!(frame_verifies(&whole, &head, key));
        let records: Vec<_> = Records::new(&whole).take(3).collect();
        assert_eq!(records, [&b"one"[..], b"", b"three three"]);
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let verifies =
                head_of(&flipped).is_some_and(|head| frame_verifies(&flipped, &head, key));
            assert!(!verifies, "flipped bit {bit} is not detected");
        }
        for end in 0..whole.len() {
            assert!(!frame_verifies(&whole[..end.max(FRAME_HEADER_BYTES)], &head, key));
        }
        assert!(read_batch_header(&whole, head.length.into(), segment_key(9, 5)).is_none());
        assert!(read_batch_header(&whole, u64::from(head.length) - 1, key).is_none());
    }

    #[test]
    fn invalid_header_is_damaged_or_newer() {
        let header = SegmentHeader { epoch: 1, size: 4096, salt: 3 };
        let bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
        for bit in 0..SEGMENT_HEADER_BYTES * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(SegmentHeader::decode(&flipped), Err(BadHeader::Damaged(_))));
        }
        for end in 0..SEGMENT_HEADER_BYTES {
            assert!(matches!(SegmentHeader::decode(&bytes[..end]), Err(BadHeader::Damaged(_))));
        }
        let mut newer = bytes;
        newer[8] = 2;
        newer[45] = 1;
        let sum = crc32c::crc32c(&newer[..SEGMENT_HEADER_BYTES - 4]);
        newer[SEGMENT_HEADER_BYTES - 4..SEGMENT_HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&newer), Err(BadHeader::Newer(2)));
    }

    #[test]
    fn file_names_round_trip() {
        assert_eq!(segment_name(0xab), "00000000000000ab.seg");
        assert_eq!(epoch_of("00000000000000ab.seg"), Some(0xab));
        assert_eq!(epoch_of("00000000000000AB.seg"), None);
        assert_eq!(epoch_of("ab.seg"), None);
        assert_eq!(epoch_of("0000000000000000.seg"), None);
        assert_eq!(epoch_of("ffffffffffffffff.seg"), None);
        assert_eq!(epoch_of("+0000000000000ab.seg"), None);
        assert_eq!(spare_of("spare-7.seg"), Some(7));
        assert_eq!(spare_of("spare-07.seg"), None);
        assert_eq!(spare_of("spare-x.seg"), None);
    }
}

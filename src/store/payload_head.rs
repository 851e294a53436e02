//! What is kept before the bytes of a payload, in the same block of memory: what is needed only
//! with them, or rarely.

use crate::base::time::Wall;
use crate::model::job::{Encoding, Payload, StoredPayload};

/// The prefix of a stored payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct PayloadHead {
    /// When its job was put, in Unix seconds; after a restart, when it was restored.
    pub(super) created: u32,
    pub(super) encoding: Encoding,
    /// How many 32nds of a second later, rounded down. Only of [`Encoding::Bytes`].
    pub(super) created_32nds: u8,
    /// Length of its lease in seconds, if it is kept here: see `Job::has_short_lease`. Only of
    /// [`Encoding::Bytes`].
    pub(super) lease_s: u16,
}

const JSON: u8 = 0;
const JSON_LINE: u8 = 1;
const MSG_PACK: u8 = 2;
const PACKET: u8 = 3;
const BYTES: u8 = 4;

/// Bits of the last byte of a head; the others are of [`PayloadHead::created_32nds`].
const TAG_BITS: u32 = 3;

impl PayloadHead {
    /// The head of a payload whose job is put now.
    #[inline(always)]
    pub(super) fn at(now: Wall, encoding: Encoding, lease_s: u16) -> Self {
        let created = u32::try_from(now.0 / 1_000).unwrap_or(u32::MAX);
        #[expect(clippy::cast_possible_truncation, reason = "a part of a second")]
        let part = || (now.0 % 1_000 * 32 / 1_000) as u8;
        let created_32nds = if encoding == Encoding::Bytes { part() } else { 0 };
        Self { created, encoding, created_32nds, lease_s }
    }

    /// The head of a payload whose job was put in this second, and whose lease is elsewhere.
    pub(super) fn of_second(created: u32, encoding: Encoding) -> Self {
        Self { created, encoding, created_32nds: 0, lease_s: 0 }
    }

    /// A copy of these bytes behind this head. O(bytes).
    #[inline(always)]
    pub(super) fn store(self, bytes: &[u8]) -> StoredPayload {
        debug_assert!(
            self.encoding == Encoding::Bytes || self.lease_s == 0 && self.created_32nds == 0,
            "a lease and a part of a second are kept beside bytes only"
        );
        debug_assert!(
            usize::from(self.encoding.key_len()) <= bytes.len(),
            "the key of a packet is a part of it"
        );
        debug_assert!(self.created_32nds < 32, "a part of a second has five bits");
        let (tag, key_len) = match self.encoding {
            Encoding::Json => (JSON, 0),
            Encoding::JsonLine => (JSON_LINE, 0),
            Encoding::MsgPack => (MSG_PACK, 0),
            Encoding::Packet { key_len } => (PACKET, key_len),
            Encoding::Bytes => (BYTES | self.created_32nds << TAG_BITS, self.lease_s),
        };
        let ([c0, c1, c2, c3], [k0, k1]) = (self.created.to_le_bytes(), key_len.to_le_bytes());
        StoredPayload::new([c0, c1, c2, c3, k0, k1, tag], bytes)
    }

    /// The head of a stored payload.
    #[inline(always)]
    pub(super) fn of(payload: &StoredPayload) -> Self {
        let [c0, c1, c2, c3, k0, k1, tag] = payload.prefix();
        let encoding = match tag {
            JSON => Encoding::Json,
            JSON_LINE => Encoding::JsonLine,
            MSG_PACK => Encoding::MsgPack,
            PACKET => Encoding::Packet { key_len: u16::from_le_bytes([k0, k1]) },
            _ => Encoding::Bytes,
        };
        let is_bytes = encoding == Encoding::Bytes;
        let lease_s = if is_bytes { u16::from_le_bytes([k0, k1]) } else { 0 };
        let created_32nds = if is_bytes { tag >> TAG_BITS } else { 0 };
        Self { created: u32::from_le_bytes([c0, c1, c2, c3]), encoding, created_32nds, lease_s }
    }

    /// The payload that this is the head of.
    #[inline(always)]
    pub(super) fn payload(self, payload: &StoredPayload) -> Payload<'_> {
        Payload { encoding: self.encoding, bytes: payload }
    }
}

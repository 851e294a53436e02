//! Hash slots of a cluster: which keys live together.

/// How many slots there are.
pub const SLOTS: u16 = 16_384;

/// CRC-16/XMODEM of each byte: polynomial 0x1021, begun with 0.
const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte: u16 = 0;
    while byte < 256 {
        let mut crc = byte << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
};

#[inline]
fn add(crc: u16, byte: u8) -> u16 {
    crc << 8 ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)]
}

/// The slot of a key. O(key).
#[must_use]
pub fn slot(key: &[u8]) -> u16 {
    tagged(key).iter().fold(0, |crc, byte| add(crc, *byte)) % SLOTS
}

/// What of a key decides its slot: what stands between its first `{` and the first `}` behind
/// that, if there is something between them; else all of it. O(key).
#[must_use]
pub fn tagged(key: &[u8]) -> &[u8] {
    let Some(open) = memchr::memchr(b'{', key) else { return key };
    let inner = &key[open + 1..];
    match memchr::memchr(b'}', inner) {
        None | Some(0) => key,
        Some(close) => &inner[..close],
    }
}

/// What tags consist of.
const LETTERS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// A text of four digits and small letters whose slot is this one, always the same. At most 36^4
/// steps, some 16,000 as a rule: for start and set-up, not for the path of a request.
///
/// # Panics
/// If there is no such slot.
#[must_use]
pub fn tag_of_slot(slot: u16) -> [u8; 4] {
    assert!(slot < SLOTS, "there is no slot {slot}");
    for a in *LETTERS {
        for b in *LETTERS {
            let front = add(add(0, a), b);
            for c in *LETTERS {
                let front = add(front, c);
                for d in *LETTERS {
                    if add(front, d) % SLOTS == slot {
                        return [a, b, c, d];
                    }
                }
            }
        }
    }
    // Proof: the unit test below looks for all of them.
    unreachable!("every slot has a tag of four letters")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // The check value of CRC-16/XMODEM, and keys of the cluster specification.
        assert_eq!(slot(b"123456789"), 0x31c3 % SLOTS);
        assert_eq!(slot(b""), 0);
        assert_eq!(slot(b"foo"), 12_182);
        assert_eq!(slot(b"{user1000}.following"), slot(b"{user1000}.followers"));
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
    }

    #[test]
    fn tag_is_the_first_that_is_not_empty() {
        for (key, tag) in [
            (&b"foo"[..], &b"foo"[..]),
            (b"foo{}{bar}", b"foo{}{bar}"),
            (b"foo{{bar}}zap", b"{bar"),
            (b"foo{bar}{zap}", b"bar"),
            (b"foo{bar", b"foo{bar"),
            (b"}foo{bar}", b"bar"),
            (b"{", b"{"),
            (b"{}", b"{}"),
        ] {
            assert_eq!(tagged(key), tag, "{}", key.escape_ascii());
        }
    }

    #[test]
    fn each_slot_has_a_tag() {
        for number in 0..SLOTS {
            let tag = tag_of_slot(number);
            assert_eq!(slot(&tag), number);
            assert_eq!(slot(&[b"jc:{", &tag[..], b"}:jobs"].concat()), number);
        }
    }
}

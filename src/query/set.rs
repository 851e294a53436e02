//! Character sets in `GLOB` patterns: `[abc]`, `[a-z]`, `[^a]`, with the syntax of SQLite.

use super::text_functions::char_len;

/// A set of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Set {
    /// It is the complement of `ranges`.
    inverted: bool,
    /// First and last character, both included; sorted, and not overlapping.
    ranges: Vec<(u32, u32)>,
}

impl Set {
    /// Parses a set behind its `[`. Returns the rest of the pattern too; `None` without a `]`.
    pub(super) fn read(pattern: &[u8]) -> Option<(Self, &[u8])> {
        let mut rest = pattern;
        let mut next = || {
            let (char, behind) = rest.split_at(char_len_or_none(rest)?);
            rest = behind;
            Some((read_char(char), behind))
        };
        let close = u32::from(b']');
        let mut ranges = Vec::new();
        let mut at = next()?;
        let inverted = at.0 == u32::from(b'^');
        if inverted {
            at = next()?;
        }
        if at.0 == close {
            ranges.push((close, close));
            at = next()?;
        }
        // The character with which a range may begin.
        let mut before = None;
        loop {
            let (char, behind) = at;
            if char == close {
                return Some((Self { inverted, ranges: merged(ranges) }, behind));
            }
            let goes_on = !matches!(behind.first(), None | Some(b']'));
            if let Some(first) = before.filter(|_| char == u32::from(b'-') && goes_on) {
                ranges.push((first, next()?.0));
                before = None;
            } else {
                ranges.push((char, char));
                before = Some(char);
            }
            at = next()?;
        }
    }

    /// Whether the set contains a character. O(log ranges).
    pub(super) fn has(&self, char: u32) -> bool {
        let at = self.ranges.partition_point(|&(_, last)| last < char);
        self.ranges.get(at).is_some_and(|&(first, _)| first <= char) != self.inverted
    }
}

/// Sorts ranges and merges those that overlap.
fn merged(mut ranges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    ranges.retain(|(first, last)| first <= last);
    ranges.sort_unstable();
    ranges.dedup_by(|next, before| {
        let touches = next.0 <= before.1;
        before.1 = if touches { before.1.max(next.1) } else { before.1 };
        touches
    });
    ranges
}

fn char_len_or_none(text: &[u8]) -> Option<usize> {
    (!text.is_empty()).then(|| char_len(text))
}

/// The first character as SQLite decodes it, even if it is malformed. The text must not be empty.
pub(super) fn read_char(text: &[u8]) -> u32 {
    let first = u32::from(text[0]);
    let bits = match first {
        ..0xc0 => return first,
        0xc0..0xe0 => first & 0x1f,
        0xe0..0xf0 => first & 0x0f,
        0xf0..0xf8 => first & 0x07,
        0xf8..0xfc => first & 0x03,
        0xfc..0xfe => first & 0x01,
        _ => 0,
    };
    let more = &text[1..char_len(text)];
    let char =
        more.iter().fold(bits, |char, &byte| (char << 6).wrapping_add(u32::from(byte & 0x3f)));
    match char {
        ..0x80 | 0xd800..=0xdfff => 0xfffd,
        _ if char & 0xffff_fffe == 0xfffe => 0xfffd,
        _ => char,
    }
}

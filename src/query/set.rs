//! Sets of characters in patterns of `GLOB`: `[abc]`, `[a-z]`, `[^a]`, just as SQLite reads them.

use super::text_functions::char_len;

/// One of these characters, or none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Set {
    /// Those that are not meant.
    inverted: bool,
    /// From the first to the last, both included; in their order.
    ranges: Vec<(u32, u32)>,
}

impl Set {
    /// Reads a set behind its `[`; `None` if it has no end. Gives what stands behind it too.
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
        // What a range may begin with.
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

    /// Whether it is one of them. O(log ranges).
    pub(super) fn has(&self, char: u32) -> bool {
        let at = self.ranges.partition_point(|&(_, last)| last < char);
        self.ranges.get(at).is_some_and(|&(first, _)| first <= char) != self.inverted
    }
}

/// The same in their order, none of which touches another.
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

/// The first character, as SQLite reads it, whether it is well formed or not. Not of nothing.
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

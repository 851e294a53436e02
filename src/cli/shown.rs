//! Foreign text as it may be shown: on one line, without characters that control a terminal or hide
//! what they are, and of a bounded length.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Whether a character is shown as what it is. The others end lines, control terminals, turn the
/// direction of what follows, or cannot be seen.
pub(super) fn is_plain(character: char) -> bool {
    !(character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        ))
}

/// Writes a text with everything escaped that is not plain: `\n`, `\u{1b}`.
pub(super) fn push_escaped(text: &str, out: &mut String) {
    for character in text.chars() {
        if is_plain(character) {
            out.push(character);
        } else {
            out.extend(character.escape_default());
        }
    }
}

/// The same in quotation marks, which are escaped inside.
pub(super) fn push_quoted(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        if is_plain(character) && !matches!(character, '"' | '\\') {
            out.push(character);
        } else {
            out.extend(character.escape_default());
        }
    }
    out.push('"');
}

/// The last `max` bytes of a text, and in front how much is left out. The last, because that is
/// where programs say why they gave up.
pub(super) fn last_of(text: &str, max: usize) -> Cow<'_, str> {
    match text.ceil_char_boundary(text.len().saturating_sub(max)) {
        0 => text.into(),
        start => format!("({start} bytes before) {}", &text[start..]).into(),
    }
}

/// Collects a text up to a length in bytes, and counts the rest.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    text: String,
    max: usize,
    left_out: usize,
}

impl Cut {
    pub(super) fn new(max: usize) -> Self {
        Self { text: String::new(), max, left_out: 0 }
    }

    /// The text, with a note of how much is missing.
    pub(super) fn finish(mut self) -> String {
        if self.left_out > 0 {
            let _ = write!(self.text, " ... ({} more bytes)", self.left_out);
        }
        self.text
    }
}

impl Write for Cut {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let room = if self.left_out > 0 { 0 } else { self.max - self.text.len() };
        let end = piece.floor_char_boundary(room);
        self.text.push_str(&piece[..end]);
        self.left_out += piece.len() - end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(text: &str) -> String {
        let mut out = String::new();
        push_escaped(text, &mut out);
        out
    }

    #[test]
    fn what_controls_or_hides_is_escaped() {
        assert_eq!(escaped("a\nb\r\t\x1b[31m\x7f"), r"a\nb\r\t\u{1b}[31m\u{7f}");
        assert_eq!(escaped("\u{202e}abc\u{2066}\u{200b}\u{9b}"), {
            r"\u{202e}abc\u{2066}\u{200b}\u{9b}"
        });
        assert_eq!(escaped("\u{2028}\u{feff}"), r"\u{2028}\u{feff}");
        assert_eq!(escaped("plain \"text\" \\ ä 日本 🦀"), "plain \"text\" \\ ä 日本 🦀");
        let mut quoted = String::new();
        push_quoted("a \"b\" \\ \n", &mut quoted);
        assert_eq!(quoted, r#""a \"b\" \\ \n""#);
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_how_much_is_missing() {
        let mut cut = Cut::new(5);
        for piece in ["ab", "cä", "ö", "x"] {
            cut.write_str(piece).unwrap();
        }
        assert_eq!(cut.finish(), "abcä ... (3 more bytes)");
        let mut cut = Cut::new(5);
        cut.write_str("abcäx").unwrap();
        assert_eq!(cut.finish(), "abcä ... (1 more bytes)");
        assert_eq!(Cut::new(5).finish(), "");
        assert_eq!(last_of("first\nlast", 4), "(6 bytes before) last");
        assert_eq!(last_of("ää", 3), "(2 bytes before) ä");
        assert_eq!(last_of("a\nb", 3), "a\nb");
    }
}

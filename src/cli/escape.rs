//! Escaping and truncation of foreign text for output: one line, without characters that control a
//! terminal or are invisible, of bounded length.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Whether a character is printed unescaped. The others end lines, control terminals, change the
/// direction of writing, or are invisible.
pub(super) fn is_printable(character: char) -> bool {
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

/// Appends a text in which every character that is not printable is escaped: `\n`, `\u{1b}`.
pub(super) fn push_escaped(text: &str, out: &mut String) {
    for character in text.chars() {
        if is_printable(character) {
            out.push(character);
        } else {
            out.extend(character.escape_default());
        }
    }
}

/// Appends a text in quotation marks, with quotation marks and backslashes escaped too.
pub(super) fn push_quoted(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        if is_printable(character) && !matches!(character, '"' | '\\') {
            out.push(character);
        } else {
            out.extend(character.escape_default());
        }
    }
    out.push('"');
}

/// The last `max_bytes` bytes of a text, preceded by the number of omitted bytes: programs print
/// the reason of a failure last.
pub(super) fn truncate_front(text: &str, max_bytes: usize) -> Cow<'_, str> {
    match text.ceil_char_boundary(text.len().saturating_sub(max_bytes)) {
        0 => text.into(),
        start => format!("({start} bytes before) {}", &text[start..]).into(),
    }
}

/// Collects a text up to a length in bytes, and counts the bytes beyond it.
#[derive(Clone, Debug)]
pub(super) struct TruncatedText {
    text: String,
    max_bytes: usize,
    omitted_bytes: usize,
}

impl TruncatedText {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { text: String::new(), max_bytes, omitted_bytes: 0 }
    }

    /// The text, followed by the number of omitted bytes, if there are any.
    pub(super) fn finish(mut self) -> String {
        if self.omitted_bytes > 0 {
            let _ = write!(self.text, " ... ({} more bytes)", self.omitted_bytes);
        }
        self.text
    }
}

impl Write for TruncatedText {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let left = if self.omitted_bytes > 0 { 0 } else { self.max_bytes - self.text.len() };
        let end = piece.floor_char_boundary(left);
        self.text.push_str(&piece[..end]);
        self.omitted_bytes += piece.len() - end;
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
    fn control_and_invisible_characters_are_escaped() {
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
    fn long_text_is_truncated_at_a_character_with_a_note() {
        let mut text = TruncatedText::new(5);
        for piece in ["ab", "cä", "ö", "x"] {
            text.write_str(piece).unwrap();
        }
        assert_eq!(text.finish(), "abcä ... (3 more bytes)");
        let mut text = TruncatedText::new(5);
        text.write_str("abcäx").unwrap();
        assert_eq!(text.finish(), "abcä ... (1 more bytes)");
        assert_eq!(TruncatedText::new(5).finish(), "");
        assert_eq!(truncate_front("first\nlast", 4), "(6 bytes before) last");
        assert_eq!(truncate_front("ää", 3), "(2 bytes before) ä");
        assert_eq!(truncate_front("a\nb", 3), "a\nb");
    }
}

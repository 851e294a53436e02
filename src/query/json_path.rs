//! The value at a path in a JSON text, read only as far as needed and without recursion.
//!
//! If the text is JSON to SQLite, which includes JSON5, the result is the value that SQLite finds,
//! or [`Value::Unsure`] wherever something else than plain JSON is met. If it is not JSON, the
//! result is unspecified.

use super::StopCheck;
use super::sqlite::{UNCHECKED_BYTES_MAX, stopped};
use memchr::memchr2;
use rusqlite::Result;

/// A number of up to this many digits fits into 64 bits.
const DIGITS: usize = 18;

/// A step of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PathStep {
    /// The value of an object with this label, of letters, digits, `_` and `-`.
    Label(Box<[u8]>),
    /// The item of an array with this index, from 0.
    Index(u32),
}

/// A value as SQLite would return it, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// Absent, or `null`.
    Null,
    /// An integer or a boolean.
    Integer(i64),
    /// A number that was not parsed.
    Number,
    Text(&'a [u8]),
    /// A text with escapes, which was not parsed.
    Escaped,
    /// An array or an object, with its first byte.
    Container(u8),
    /// Unknown.
    Unsure,
}

/// What to extract of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extract {
    /// The value itself.
    Value,
    /// The number of its items, 0 if it is not an array.
    Length,
}

/// Why no value was found.
enum NotFound {
    Absent,
    /// The text is not plain JSON here.
    Unsure,
    /// A stop check has stopped it.
    Stopped,
}

/// Classes of bytes inside a container that is skipped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Quote,
    Open,
    Close,
    /// It may begin something that only JSON5 has: a single quote, a comment, an escape.
    Odd,
}

const KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Odd; 256];
    let mut byte = b' ';
    while byte < 0x7f {
        kinds[byte as usize] = match byte {
            b'"' => Kind::Quote,
            b'[' | b'{' => Kind::Open,
            b']' | b'}' => Kind::Close,
            b'\'' | b'/' | b'\\' => Kind::Odd,
            _ => Kind::Plain,
        };
        byte += 1;
    }
    kinds[b'\t' as usize] = Kind::Plain;
    kinds[b'\n' as usize] = Kind::Plain;
    kinds[b'\r' as usize] = Kind::Plain;
    kinds
};

/// The value at a path; the first one if labels occur twice. O(text).
///
/// # Errors
/// If it is stopped.
pub(super) fn extract<'a>(
    text: &'a [u8],
    path: &[PathStep],
    what: Extract,
    stop: &StopCheck,
) -> Result<Value<'a>> {
    let mut reader = Reader { text, at: 0, next_check: UNCHECKED_BYTES_MAX, stop };
    reader.space();
    let there = path.iter().try_for_each(|step| match step {
        PathStep::Label(label) => reader.find_label(label),
        PathStep::Index(index) => reader.find_item(*index),
    });
    let value = there.and_then(|()| match what {
        Extract::Value => Ok(reader.value()),
        Extract::Length => reader.length().map(Value::Integer),
    });
    match value {
        Ok(value) => Ok(value),
        Err(NotFound::Absent) => Ok(Value::Null),
        Err(NotFound::Unsure) => Ok(Value::Unsure),
        Err(NotFound::Stopped) => Err(stopped()),
    }
}

struct Reader<'a, 'b> {
    text: &'a [u8],
    at: usize,
    /// Offset of the next stop check.
    next_check: usize,
    stop: &'b StopCheck,
}

impl<'a> Reader<'a, '_> {
    /// Moves from an object to one of its values.
    #[inline]
    fn find_label(&mut self, label: &[u8]) -> Result<(), NotFound> {
        self.enter(b'{', b'}')?;
        loop {
            let key = self.string().ok_or(NotFound::Unsure)?;
            // With an escape it may be any label.
            if key.contains(&b'\\') {
                return Err(NotFound::Unsure);
            }
            self.space();
            if self.peek() != Some(b':') {
                return Err(NotFound::Unsure);
            }
            self.at += 1;
            self.space();
            if key == label {
                return Ok(());
            }
            self.skip_value(b'}')?;
        }
    }

    /// Moves from an array to one of its items.
    #[inline]
    fn find_item(&mut self, index: u32) -> Result<(), NotFound> {
        self.enter(b'[', b']')?;
        for _ in 0..index {
            self.skip_value(b']')?;
        }
        Ok(())
    }

    /// Moves into a container of the expected kind that is not empty.
    #[inline]
    fn enter(&mut self, open: u8, close: u8) -> Result<(), NotFound> {
        match self.peek() {
            Some(byte) if byte == open => self.at += 1,
            // Some other value.
            Some(b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                return Err(NotFound::Absent);
            }
            _ => return Err(NotFound::Unsure),
        }
        self.space();
        if self.peek() == Some(close) { Err(NotFound::Absent) } else { Ok(()) }
    }

    /// Moves from a value to the next one of its container; absent at the end of the container.
    #[inline]
    fn skip_value(&mut self, close: u8) -> Result<(), NotFound> {
        match self.peek() {
            Some(b'"') => drop(self.string().ok_or(NotFound::Unsure)?),
            Some(b'{' | b'[') => self.container()?,
            Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => drop(self.word()),
            _ => return Err(NotFound::Unsure),
        }
        if self.at >= self.next_check {
            self.check_stop()?;
        }
        self.space();
        match self.peek() {
            Some(b',') => self.at += 1,
            Some(byte) if byte == close => return Err(NotFound::Absent),
            _ => return Err(NotFound::Unsure),
        }
        self.space();
        Ok(())
    }

    /// Skips an array or an object.
    fn container(&mut self) -> Result<(), NotFound> {
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match KINDS[usize::from(byte)] {
                Kind::Plain => {
                    self.at += 1;
                    continue;
                }
                Kind::Quote => drop(self.string().ok_or(NotFound::Unsure)?),
                Kind::Open => {
                    depth += 1;
                    self.at += 1;
                }
                Kind::Close => {
                    depth -= 1;
                    self.at += 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                Kind::Odd => break,
            }
            if self.at >= self.next_check {
                self.check_stop()?;
            }
        }
        Err(NotFound::Unsure)
    }

    /// Skips a string and returns its content, unescaped; `None` if it is unterminated.
    #[inline]
    fn string(&mut self) -> Option<&'a [u8]> {
        if self.peek() != Some(b'"') {
            return None;
        }
        let from = self.at + 1;
        self.at = from;
        loop {
            let at = self.at + memchr2(b'"', b'\\', self.text.get(self.at..)?)?;
            if self.text[at] == b'"' {
                self.at = at + 1;
                return Some(&self.text[from..at]);
            }
            self.at = at + 2;
        }
    }

    /// Skips a number or a literal name, and returns it.
    #[inline]
    fn word(&mut self) -> &'a [u8] {
        let rest = &self.text[self.at..];
        let belongs =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let len = rest.iter().position(|byte| !belongs(byte)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// The value here.
    fn value(&mut self) -> Value<'a> {
        match self.peek() {
            Some(b'"') => match self.string() {
                Some(text) if text.contains(&b'\\') => Value::Escaped,
                Some(text) => Value::Text(text),
                None => Value::Unsure,
            },
            Some(begin @ (b'{' | b'[')) => Value::Container(begin),
            Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                let word = self.word();
                match self.peek() {
                    None | Some(b' ' | b'\t' | b'\n' | b'\r' | b',' | b'}' | b']') => scalar(word),
                    Some(_) => Value::Unsure,
                }
            }
            _ => Value::Unsure,
        }
    }

    /// Number of items of the value here.
    fn length(&mut self) -> Result<i64, NotFound> {
        match self.enter(b'[', b']') {
            // Empty, or not an array.
            Err(NotFound::Absent) => return Ok(0),
            entered => entered?,
        }
        let mut length = 1;
        loop {
            match self.skip_value(b']') {
                Err(NotFound::Absent) => return Ok(length),
                passed => passed?,
            }
            length += 1;
        }
    }

    #[inline]
    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[cold]
    fn check_stop(&mut self) -> Result<(), NotFound> {
        self.next_check = self.at + UNCHECKED_BYTES_MAX;
        if (self.stop)() { Err(NotFound::Stopped) } else { Ok(()) }
    }
}

fn scalar(word: &[u8]) -> Value<'_> {
    let is_decimal = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    match word {
        b"null" => Value::Null,
        b"false" => Value::Integer(0),
        b"true" => Value::Integer(1),
        [b'-', b'0'..=b'9', ..] | [b'0'..=b'9', ..] => match integer(word) {
            Some(number) => Value::Integer(number),
            None if word.iter().all(is_decimal) => Value::Number,
            None => Value::Unsure,
        },
        _ => Value::Unsure,
    }
}

/// Parses an integer of up to [`DIGITS`] digits with an optional minus sign.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let (digits, is_negative) = match text {
        [b'-', digits @ ..] => (digits, true),
        digits => (digits, false),
    };
    if digits.is_empty() || digits.len() > DIGITS || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
    Some(if is_negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn at<'a>(text: &'a str, path: &[PathStep]) -> Value<'a> {
        let stop: StopCheck = Arc::new(|| false);
        extract(text.as_bytes(), path, Extract::Value, &stop).expect("it is not stopped")
    }

    #[test]
    fn values_of_plain_json_are_extracted() {
        let label = |name: &str| PathStep::Label(name.as_bytes().into());
        let text = r#" {"b": [{"a":3}, "x}\"]", -70 , true], "c":{"d":"\\","e":[]},
            "a":false, "n":null, "f":1.5e3, "g":12345678901234567890, "s":"t", "s":"u"} "#;
        for (path, value) in [
            (vec![], Value::Container(b'{')),
            (vec![label("b")], Value::Container(b'[')),
            (vec![label("b"), PathStep::Index(0), label("a")], Value::Integer(3)),
            (vec![label("b"), PathStep::Index(1)], Value::Escaped),
            (vec![label("b"), PathStep::Index(2)], Value::Integer(-70)),
            (vec![label("b"), PathStep::Index(3)], Value::Integer(1)),
            (vec![label("b"), PathStep::Index(4)], Value::Null),
            (vec![label("b"), label("a")], Value::Null),
            (vec![label("c"), label("d")], Value::Escaped),
            (vec![label("c"), label("e"), PathStep::Index(0)], Value::Null),
            (vec![label("a")], Value::Integer(0)),
            (vec![label("a"), label("a")], Value::Null),
            (vec![label("n")], Value::Null),
            (vec![label("f")], Value::Number),
            (vec![label("g")], Value::Number),
            (vec![label("s")], Value::Text(b"t")),
            (vec![label("x")], Value::Null),
            (vec![PathStep::Index(0)], Value::Null),
        ] {
            assert_eq!(at(text, &path), value, "{path:?}");
        }
    }

    #[test]
    fn json5_and_malformed_text_are_unsure() {
        let path = [PathStep::Label(Box::from(*b"a"))];
        for text in [
            "",
            "{",
            "{a:1}",
            "{'a':1}",
            r#"{"\u0061":1}"#,
            r#"{/**/"a":1}"#,
            r#"{"a"/**/:1}"#,
            r#"{"a":/**/1}"#,
            r#"{"a":1/**/}"#,
            r#"{"b":[/*]*/],"a":1}"#,
            r#"{"b":[']'],"a":1}"#,
            r#"{"b":'',"a":1}"#,
            r#"{"b":1,}"#,
            r#"{"b":1"#,
            r#"{"b":[1"#,
            r#"{"b"#,
            r#"{"b\"#,
            r#"{"a":+1}"#,
            r#"{"a":.1}"#,
            r#"{"a":0x1}"#,
            r#"{"a":-Infinity}"#,
            r#"{"a":NaN}"#,
            r#"{"a":nan}"#,
            r#"{"a":'x'}"#,
            r#"{"a":"#,
            r#"{"a":"x"#,
            "\u{b}{\"a\":1}",
        ] {
            assert_eq!(at(text, &path), Value::Unsure, "{text}");
        }
    }

    #[test]
    fn length_counts_the_items_of_arrays() {
        let at = |text: &str, path: &[PathStep]| {
            let stop: StopCheck = Arc::new(|| false);
            let Value::Integer(length) = extract(text.as_bytes(), path, Extract::Length, &stop)?
            else {
                return Ok(None);
            };
            Ok::<_, rusqlite::Error>(Some(length))
        };
        for (text, length) in [
            ("[]", 0),
            ("[ ]", 0),
            ("[1]", 1),
            (r#" [ [1,2] , {"a":[3]},"],",null ] "#, 4),
            (r#"{"a":[1]}"#, 0),
            ("null", 0),
            ("-5", 0),
            (r#""[1]""#, 0),
        ] {
            assert_eq!(at(text, &[]).unwrap(), Some(length), "{text}");
        }
        for text in ["[1,]", "[1", "[1/**/]", "[']']", "[,]", "[1 2]", "+5"] {
            assert_eq!(at(text, &[]).unwrap(), None, "{text}");
        }
        let path = [PathStep::Label(Box::from(*b"a"))];
        assert_eq!(at(r#"{"b":1}"#, &path).unwrap(), None);
        assert_eq!(at(r#"{"a":null}"#, &path).unwrap(), Some(0));
        assert_eq!(at(r#"{"a":[7,7]}"#, &path).unwrap(), Some(2));
    }
}

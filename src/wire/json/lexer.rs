//! A lexer of valid JSON text, for walks through all of it.
//!
//! Invariants: nothing recurses and nothing is allocated but the text of a string with escapes;
//! invalid text ends the walk or gives wrong tokens, never a panic.

use super::{JsonError, exact};
use crate::wire::{Found, Leaf, Paths};
use memchr::memchr2;
use std::borrow::Cow;

/// One token; commas, colons and blanks say nothing more in checked text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::wire) enum Token<'a> {
    /// `[`
    Array,
    /// `{`
    Object,
    /// `]` or `}`
    Close,
    /// What stands between its quotes.
    String(&'a [u8]),
    /// As it is written.
    Number(&'a [u8]),
    Bool(bool),
    Null,
}

/// A walk through a text.
#[derive(Clone, Debug)]
pub(in crate::wire) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(in crate::wire) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Passes over what is still to come of a value whose first token was this one. O(value).
    pub(in crate::wire) fn skip_rest(&mut self, first: Token<'_>) {
        let mut open = usize::from(matches!(first, Token::Array | Token::Object));
        while open > 0 {
            match self.next() {
                None => return,
                Some(Token::Array | Token::Object) => open += 1,
                Some(Token::Close) => open -= 1,
                Some(_) => {}
            }
        }
    }

    /// The value whose first token was this one, which began at `start`.
    fn leaf(&mut self, first: Token<'a>, start: usize) -> Leaf<'a> {
        match first {
            Token::Null => Leaf::Nil,
            Token::Bool(value) => Leaf::Bool(value),
            Token::Number(digits) => match number(digits) {
                Number::Integer(number) => Leaf::Integer(number),
                Number::Float(number) => Leaf::Float(number),
            },
            Token::String(inner) => Leaf::Text(unescape(inner)),
            Token::Array | Token::Object | Token::Close => {
                self.skip_rest(first);
                Leaf::Other(&self.text[start..self.at])
            }
        }
    }

    /// The next token, and where it begins.
    fn next_at(&mut self) -> Option<(Token<'a>, usize)> {
        let token = self.next()?;
        let length = match token {
            Token::Array | Token::Object | Token::Close => 1,
            Token::String(inner) => inner.len() + 2,
            Token::Number(digits) => digits.len(),
            Token::Null | Token::Bool(true) => 4,
            Token::Bool(false) => 5,
        };
        Some((token, self.at - length))
    }

    /// What stands between the quotes of the string that begins here.
    fn string(&mut self) -> Option<&'a [u8]> {
        let start = self.at + 1;
        let mut at = start;
        loop {
            let found = at + memchr2(b'"', b'\\', self.text.get(at..)?)?;
            if self.text[found] == b'"' {
                self.at = found + 1;
                return Some(&self.text[start..found]);
            }
            at = found + 2;
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        let there = self.text[self.at..].starts_with(word);
        self.at += if there { word.len() } else { 0 };
        there.then_some(())
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        while let b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' = *self.text.get(self.at)? {
            self.at += 1;
        }
        let simple = match self.text[self.at] {
            b'[' => Token::Array,
            b'{' => Token::Object,
            b']' | b'}' => Token::Close,
            b'"' => return self.string().map(Token::String),
            b't' => return self.word(b"true").map(|()| Token::Bool(true)),
            b'f' => return self.word(b"false").map(|()| Token::Bool(false)),
            b'n' => return self.word(b"null").map(|()| Token::Null),
            b'-' | b'0'..=b'9' => {
                let rest = &self.text[self.at..];
                let digit =
                    |&byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
                let end = rest.iter().position(|byte| !digit(byte)).unwrap_or(rest.len());
                self.at += end;
                return Some(Token::Number(&rest[..end]));
            }
            _ => return None,
        };
        self.at += 1;
        Some(simple)
    }
}

/// A number of JSON.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::wire) enum Number {
    /// Written as an integer, and one of 64 bits, with a sign or without.
    Integer(i128),
    /// The nearest one; what is too large for it is infinite.
    Float(f64),
}

pub(in crate::wire) fn number(digits: &[u8]) -> Number {
    let text = std::str::from_utf8(digits).unwrap_or_default();
    if !digits.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
        if let Ok(number) = text.parse::<u64>() {
            return Number::Integer(number.into());
        }
        if let Ok(number) = text.parse::<i64>() {
            return Number::Integer(number.into());
        }
    }
    Number::Float(text.parse().unwrap_or(f64::NAN))
}

/// The text of a string by what stands between its quotes. Half a surrogate pair, which is no
/// text, becomes U+FFFD. O(string).
pub(in crate::wire) fn unescape(inner: &[u8]) -> Cow<'_, str> {
    let Some(first) = memchr::memchr(b'\\', inner) else { return String::from_utf8_lossy(inner) };
    let mut text = String::with_capacity(inner.len());
    text.push_str(&String::from_utf8_lossy(&inner[..first]));
    let mut rest = &inner[first..];
    while let [b'\\', escape, behind @ ..] = rest {
        rest = behind;
        match escape {
            b'b' => text.push('\u{8}'),
            b'f' => text.push('\u{c}'),
            b'n' => text.push('\n'),
            b'r' => text.push('\r'),
            b't' => text.push('\t'),
            b'u' => text.push(unicode(&mut rest)),
            &plain => text.push(char::from(plain)),
        }
        let plain = memchr::memchr(b'\\', rest).unwrap_or(rest.len());
        text.push_str(&String::from_utf8_lossy(&rest[..plain]));
        rest = &rest[plain..];
    }
    Cow::Owned(text)
}

/// Takes the digits behind `\u`, and the other half of a pair.
fn unicode(rest: &mut &[u8]) -> char {
    let first = hex(rest);
    *rest = rest.get(4..).unwrap_or_default();
    if let Some(high @ 0xd800..0xdc00) = first
        && let [b'\\', b'u', behind @ ..] = rest
        && let Some(low @ 0xdc00..0xe000) = hex(behind)
    {
        *rest = &behind[4..];
        let pair = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        return char::from_u32(pair).unwrap_or(char::REPLACEMENT_CHARACTER);
    }
    first.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn hex(digits: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(digits.get(..4)?).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

/// Whether `text` is one JSON value and nothing else. O(text).
///
/// # Errors
/// Says why not.
pub fn check(text: &[u8]) -> Result<(), JsonError> {
    exact::check(text)
}

/// What stands at the end of a path of names, from the outside in, in checked text; of a name that
/// is there twice the last one counts. O(text).
#[must_use]
pub fn at<'a, K: AsRef<str>>(text: &'a [u8], path: &[K]) -> Option<Leaf<'a>> {
    let mut paths = Paths::default();
    paths.add(path);
    find(text, &paths).at(&paths, path).cloned()
}

/// What stands at many places, as [`at`] finds it at each; nothing if the text ends too early.
/// O(text * log of the names that are neighbours, and all names of paths).
#[must_use]
pub fn find<'a>(text: &'a [u8], paths: &Paths) -> Found<'a> {
    let mut found = Found::nothing(paths);
    match walk(text, paths, &mut found) {
        Some(()) => found,
        None => Found::nothing(paths),
    }
}

fn walk<'a>(text: &'a [u8], paths: &Paths, found: &mut Found<'a>) -> Option<()> {
    let mut lexer = Lexer::new(text);
    // The objects of paths that we are in, and where they began.
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut node = Paths::ROOT;
    loop {
        let (first, start) = lexer.next_at()?;
        found.begin(node, start);
        if first == Token::Object && paths.leads_on(node) {
            open.push((node, start));
        } else if paths.is_wanted(node) {
            found.set(paths, node, || lexer.leaf(first, start));
        } else {
            lexer.skip_rest(first);
        }
        node = loop {
            let Some(&(around, start)) = open.last() else { return Some(()) };
            let name = match lexer.next()? {
                Token::String(name) => name,
                Token::Close => {
                    found.set(paths, around, || Leaf::Other(&text[start..lexer.at]));
                    open.pop();
                    continue;
                }
                _ => return None,
            };
            let child = match memchr::memchr(b'\\', name) {
                None => paths.child(around, name),
                Some(_) => paths.child(around, unescape(name).as_bytes()),
            };
            if let Some(child) = child {
                break child;
            }
            let first = lexer.next()?;
            lexer.skip_rest(first);
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn found<'a>(text: &'a str, path: &[&str]) -> Option<Leaf<'a>> {
        check(text.as_bytes()).unwrap();
        at(text.as_bytes(), path)
    }

    #[test]
    fn a_path_leads_to_the_last_one_of_each_name() {
        let text = r#" { "x" : [ {"a":1} , "}" ] , "a" : {"b":{"c":1}},
            "\u0061":{"c":2,"b":{"c":"\ud83d\ude00\n\ud800","c":[1, "]"] , "d":-3 } } } "#;
        assert_eq!(found(text, &["a", "b", "c"]), Some(Leaf::Other(b"[1, \"]\"]")));
        assert_eq!(found(text, &["a", "b", "d"]), Some(Leaf::Integer(-3)));
        assert_eq!(found(text, &["a", "c"]), Some(Leaf::Integer(2)));
        assert_eq!(found(text, &["a", "c", "d"]), None);
        assert_eq!(found(text, &["b"]), None);
        assert_eq!(found(text, &["x", "a"]), None);
        let gone = r#"{"a":{"b":1},"a":null}"#;
        assert_eq!(found(gone, &["a", "b"]), None);
        assert_eq!(found(gone, &["a"]), Some(Leaf::Nil));
        let none: [&str; 0] = [];
        assert_eq!(found(" [ ] ", &none), Some(Leaf::Other(b"[ ]")));
        assert_eq!(found(" true", &none), Some(Leaf::Bool(true)));
        assert_eq!(found("[]", &["a"]), None);
    }

    #[test]
    fn numbers_and_texts_are_what_they_say() {
        let none: [&str; 0] = [];
        let leaf = |text| found(text, &none).unwrap();
        assert_eq!(leaf("18446744073709551615"), Leaf::Integer(u64::MAX.into()));
        assert_eq!(leaf("18446744073709551616"), Leaf::Float(18_446_744_073_709_551_616.0));
        assert_eq!(leaf("-9223372036854775808"), Leaf::Integer(i64::MIN.into()));
        assert_eq!(leaf("-0"), Leaf::Integer(0));
        assert_eq!(leaf("1.0"), Leaf::Float(1.0));
        assert_eq!(leaf("1e400"), Leaf::Float(f64::INFINITY));
        assert_eq!(leaf(r#""\ud83d\ude00""#), Leaf::Text("\u{1f600}".into()));
        assert_eq!(leaf(r#""\ud83dx\udc00\ud800\ud83d\ude00""#), {
            Leaf::Text("\u{fffd}x\u{fffd}\u{fffd}\u{1f600}".into())
        });
        assert_eq!(leaf(r#""\"\\\/\b\f\n\r\t""#), Leaf::Text("\"\\/\u{8}\u{c}\n\r\t".into()));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_byte() {
        let error = check(b"{\n\n  \"a\": x}").unwrap_err();
        assert_eq!(error.to_string(), "is not JSON: expected value at byte 11");
        for (text, error) in [
            (&b""[..], JsonError::Empty),
            (b" \n", JsonError::Empty),
            (b"\xef\xbb\xbf1", JsonError::ByteOrderMark),
            (b"\"\xff\"", JsonError::NotUtf8(2)),
        ] {
            assert_eq!(check(text), Err(error));
        }
    }

    #[test]
    fn text_that_is_no_json_leads_nowhere() {
        for text in ["{\"a\":[n", "{\"a\":[tru", "{\"a\":fals", "{\"a\":\"\\", "{\"a\"", "x"] {
            let found = at(text.as_bytes(), &["a"]);
            assert!(matches!(found, None | Some(Leaf::Other(_))), "{text}");
        }
    }

    #[test]
    fn a_million_levels_are_walked_through() {
        let mut text = "{\"a\":".repeat(1_000_000);
        text.push('7');
        text.push_str(&"}".repeat(1_000_000));
        check(text.as_bytes()).unwrap();
        assert_eq!(at(text.as_bytes(), &vec!["a"; 1_000_000]), Some(Leaf::Integer(7)));
        assert_eq!(at(text.as_bytes(), &["b"]), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn any_bytes_are_survived(text: Vec<u8>, path: Vec<String>) {
            let _ = at(&text, &path);
            let judged = serde_json::from_slice::<Value>(&text).is_ok();
            prop_assert!(check(&text).is_ok() || !judged);
        }

        #[test]
        fn json_like_bytes_are_survived(text in r#"[\[\]{}",:\\u0-9a-f\. -]{0,40}"#) {
            let _ = at(text.as_bytes(), &["a", "b"]);
            prop_assert_eq!(Lexer::new(text.as_bytes()).take(100).count() < 100, true);
        }

        #[test]
        fn any_text_is_unescaped_as_by_another_reader(text: String) {
            let json = serde_json::to_string(&text).unwrap();
            let none: [&str; 0] = [];
            prop_assert_eq!(at(json.as_bytes(), &none), Some(Leaf::Text(text.into())));
        }
    }
}

//! Canonical JSON: one text for each value, so that values can be compared, and found, as bytes.
//!
//! No blanks; the members of an object in the byte order of their names as written here, of
//! duplicates the last; strings with as few escapes as JSON permits; numbers by their value and
//! with all their digits, so that `1`, `1.0` and `10e-1` are the same.
//!
//! Invariants: nothing recurses, so depth is limited by the length of the text alone; each byte is
//! read once and written once, beside sorting; a number grows by no more than a few characters.

mod number;

use memchr::memchr;
use number::{PLAIN_DIGITS, push_number};

/// Appends the canonical text of the JSON value `text` to `out`. O(n log n).
///
/// # Panics
/// If `text` is no JSON, or has 4 GiB: callers have checked that.
pub fn canonical(text: &str, out: &mut Vec<u8>) {
    if let "null" | "true" | "false" = text {
        return out.extend_from_slice(text.as_bytes());
    }
    let values = Values::read(text.as_bytes());
    out.reserve(text.len());
    values.write(out);
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// It stands in the text as it is to be written.
    AsIs,
    /// It stands in `made`.
    Made,
    Array,
    /// Its members are names and values in turn.
    Object,
}

/// A value, or the name of a member; those inside of it follow.
#[derive(Clone, Copy, Debug)]
struct Value {
    kind: Kind,
    /// Where its bytes are.
    start: u32,
    end: u32,
    /// The number of the first value behind it.
    behind: u32,
}

/// All values of a text in its order.
struct Values<'a> {
    text: &'a [u8],
    made: Vec<u8>,
    all: Vec<Value>,
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).expect("a request is far smaller than 4 GiB")
}

impl<'a> Values<'a> {
    fn read(text: &'a [u8]) -> Self {
        let mut values = Self { text, made: Vec::new(), all: Vec::new() };
        let (mut open, mut at) = (Vec::new(), 0);
        while let Some(&byte) = text.get(at) {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' => at += 1,
                b'[' | b'{' => {
                    let kind = if byte == b'[' { Kind::Array } else { Kind::Object };
                    open.push(values.all.len());
                    values.push(kind, at, at);
                    at += 1;
                }
                b']' | b'}' => {
                    let number: usize = open.pop().expect("brackets are balanced");
                    values.all[number].behind = narrow(values.all.len());
                    at += 1;
                }
                b'"' => at = values.read_string(at),
                _ => at = values.read_word(at),
            }
        }
        assert!(open.is_empty(), "brackets are balanced");
        values
    }

    fn push(&mut self, kind: Kind, start: usize, end: usize) {
        let behind = narrow(self.all.len() + 1);
        self.all.push(Value { kind, start: narrow(start), end: narrow(end), behind });
    }

    /// Adds what was appended to `made`.
    fn push_made(&mut self, from: usize) {
        self.push(Kind::Made, from, self.made.len());
    }

    /// Reads a string from its opening quote. Where it ends.
    fn read_string(&mut self, start: usize) -> usize {
        let (mut at, mut escaped) = (start + 1, false);
        loop {
            match self.text[at] {
                b'"' => break,
                b'\\' => {
                    escaped = true;
                    at += 2;
                }
                _ => at += 1,
            }
        }
        let end = at + 1;
        if escaped {
            let from = self.made.len();
            self.made.push(b'"');
            unescape(&self.text[start + 1..at], &mut self.made);
            self.made.push(b'"');
            self.push_made(from);
        } else {
            self.push(Kind::AsIs, start, end);
        }
        end
    }

    /// Reads a number, `true`, `false` or `null`. Where it ends.
    fn read_word(&mut self, start: usize) -> usize {
        let stops = |byte: &u8| b" \t\r\n,:]}".contains(byte);
        let rest = &self.text[start..];
        let word = &rest[..rest.iter().position(stops).unwrap_or(rest.len())];
        let small = word.len() <= PLAIN_DIGITS && word.iter().all(u8::is_ascii_digit);
        if small || matches!(word[0], b't' | b'f' | b'n') {
            self.push(Kind::AsIs, start, start + word.len());
        } else {
            let from = self.made.len();
            push_number(word, &mut self.made);
            self.push_made(from);
        }
        start + word.len()
    }

    fn bytes(&self, value: Value) -> &[u8] {
        let place = value.start as usize..value.end as usize;
        if let Kind::Made = value.kind { &self.made[place] } else { &self.text[place] }
    }

    /// Writes them in their canonical order.
    fn write(&self, out: &mut Vec<u8>) {
        let mut open: Vec<Open> = Vec::new();
        // The names of the members of open objects, as numbers of values.
        let mut names: Vec<u32> = Vec::new();
        let mut next = Some(0_u32);
        while let Some(number) = next {
            let value = self.all[number as usize];
            match value.kind {
                Kind::AsIs | Kind::Made => out.extend_from_slice(self.bytes(value)),
                Kind::Array => {
                    out.push(b'[');
                    open.push(Open { names: None, at: number + 1, end: value.behind, first: true });
                }
                Kind::Object => {
                    out.push(b'{');
                    let start = names.len();
                    self.sort_names(number, &mut names);
                    let (at, end) = (narrow(start), narrow(names.len()));
                    open.push(Open { names: Some(at), at, end, first: true });
                }
            }
            next = self.go_on(&mut open, &mut names, out);
        }
    }

    /// Closes what is at its end, and finds the next value to be written.
    fn go_on(&self, open: &mut Vec<Open>, names: &mut Vec<u32>, out: &mut Vec<u8>) -> Option<u32> {
        loop {
            let inner = open.last_mut()?;
            if inner.at == inner.end {
                match inner.names {
                    Some(start) => {
                        names.truncate(start as usize);
                        out.push(b'}');
                    }
                    None => out.push(b']'),
                }
                open.pop();
                continue;
            }
            if !std::mem::take(&mut inner.first) {
                out.push(b',');
            }
            let at = inner.at;
            if inner.names.is_none() {
                inner.at = self.all[at as usize].behind;
                return Some(at);
            }
            inner.at += 1;
            let name = names[at as usize];
            out.extend_from_slice(self.bytes(self.all[name as usize]));
            out.push(b':');
            return Some(name + 1);
        }
    }

    /// Appends the names of an object to `names`, in order, each once: its last one.
    fn sort_names(&self, object: u32, names: &mut Vec<u32>) {
        let start = names.len();
        let (mut at, end) = (object + 1, self.all[object as usize].behind);
        while at < end {
            names.push(at);
            at = self.all[at as usize + 1].behind;
        }
        let name = |number: u32| self.bytes(self.all[number as usize]);
        let sorted = names[start..].is_sorted_by(|&one, &other| name(one) < name(other));
        if sorted {
            return;
        }
        // The later one of two with the same name comes first, and is kept.
        names[start..]
            .sort_unstable_by(|&one, &other| name(one).cmp(name(other)).then(other.cmp(&one)));
        let mut kept = start;
        for number in start..names.len() {
            if kept == start || name(names[kept - 1]) != name(names[number]) {
                names[kept] = names[number];
                kept += 1;
            }
        }
        names.truncate(kept);
    }
}

/// An array or object that is being written.
struct Open {
    /// Where the names of an object begin.
    names: Option<u32>,
    /// What comes next: the number of a value, or the place of a name.
    at: u32,
    end: u32,
    first: bool,
}

/// Appends what is inside the quotes of a string, with as few escapes as possible.
fn unescape(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some(found) = memchr(b'\\', text) {
        out.extend_from_slice(&text[..found]);
        let escape = text[found + 1];
        text = &text[found + 2..];
        match escape {
            b'u' => text = push_unit(text, out),
            // These stand for themselves behind a backslash, and need it.
            b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't' => {
                out.extend_from_slice(&[b'\\', escape]);
            }
            _ => out.push(escape),
        }
    }
    out.extend_from_slice(text);
}

/// Appends the character of a `\u` escape at the start of `text`. Returns the rest.
fn push_unit<'t>(text: &'t [u8], out: &mut Vec<u8>) -> &'t [u8] {
    let (unit, rest) = unit(text);
    if let 0xd800..0xdc00 = unit
        && let [b'\\', b'u', low @ ..] = rest
    {
        let (second, behind) = self::unit(low);
        if let 0xdc00..0xe000 = second {
            let code = 0x10000 + ((unit - 0xd800) << 10) + (second - 0xdc00);
            push_char(code, out);
            return behind;
        }
    }
    push_char(unit, out);
    rest
}

fn unit(text: &[u8]) -> (u32, &[u8]) {
    let (digits, rest) = text.split_at(4);
    let value = |digit: &u8| char::from(*digit).to_digit(16).expect("four hexadecimal digits");
    (digits.iter().fold(0, |sum, digit| sum * 16 + value(digit)), rest)
}

/// Appends a character, or half a surrogate pair as its escape.
fn push_char(code: u32, out: &mut Vec<u8>) {
    match char::from_u32(code) {
        Some('"') => out.extend_from_slice(b"\\\""),
        Some('\\') => out.extend_from_slice(b"\\\\"),
        Some('\u{8}') => out.extend_from_slice(b"\\b"),
        Some('\u{c}') => out.extend_from_slice(b"\\f"),
        Some('\n') => out.extend_from_slice(b"\\n"),
        Some('\r') => out.extend_from_slice(b"\\r"),
        Some('\t') => out.extend_from_slice(b"\\t"),
        Some(char) if code >= 0x20 => {
            out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
        }
        _ => out.extend_from_slice(format!("\\u{code:04x}").as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value as Json;

    fn made(text: &str) -> String {
        let mut out = Vec::new();
        canonical(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_value_has_one_text() {
        for (canonical, others) in [
            ("null", &[" null\n"][..]),
            ("0", &["-0", "0.0", "-0e5", "0E-99999999999999999999", "0.000"]),
            ("1", &["1.0", "1e0", "10e-1", "0.1e1", "0.01E+2", "1000e-3", "1e-0"]),
            ("-12.5", &["-12.50", "-125e-1", "-0.125e2"]),
            ("0.001", &["1e-3", "0.0010", "1000e-6"]),
            ("100000000000000000000", &["1e20", "100000000000000000000.0", "1000e17"]),
            ("1e21", &["1000000000000000000000", "10e20", "0.1e22"]),
            ("1.5e-30", &["15e-31", "0.000015e-25"]),
            ("123456789012345678901234567890.5", &["1234567890123456789012345678905e-1"]),
            (
                "1e999999999999999999999",
                &["10e999999999999999999998", "1E+00999999999999999999999"],
            ),
            ("1e1000000000000000000000", &["10e999999999999999999999"]),
            ("1e-999999999999999999999", &["10e-1000000000000000000000"]),
            ("1e99999999999999999", &["0.1e100000000000000000"]),
            (r#""a/ü""#, &[r#""\u0061\/\u00fc""#, r#""a\/\u00FC""#]),
            (
                r#""\"\\\b\f\n\r\t\u0000\u001f""#,
                &[r#""\u0022\u005c\u0008\u000C\u000a\u000D\u0009\u0000\u001F""#],
            ),
            (r#""😀""#, &[r#""\ud83d\ude00""#, r#""\uD83D\uDE00""#]),
            (
                r#""\ud83dx\ude00\ud83d""#,
                &[r#""\uD83Dx\uDE00\uD83D""#, r#""\uD83D\u0078\uDE00\uD83D""#],
            ),
            (r#""\ud83d😀""#, &[r#""\ud83d\ud83d\ude00""#]),
            ("[]", &["[ ]"]),
            ("[1,[],{},[2]]", &[" [ 1.0 , [ ] , { } , [2] ] "]),
            (
                r#"{"a":1,"b":2}"#,
                &[
                    r#"{"b":2,"a":1}"#,
                    r#"{"a":0,"b":2,"\u0061":1}"#,
                    r#"{"b":9,"b":[9],"a":1e0,"b":2.0}"#,
                ],
            ),
            (r#"{"":{"x":[{"y":0}],"z":1},"é":2}"#, &[r#"{"é":2,"":{"z":1,"x":[{"y":-0}]}}"#]),
        ] {
            assert_eq!(made(canonical), canonical);
            for other in others {
                assert_eq!(made(other), canonical, "{other}");
            }
        }
    }

    #[test]
    fn depth_and_order_cost_no_more_than_length() {
        const DEPTH: usize = 200_000;
        let deep = format!("{}1.0{}", "[".repeat(DEPTH), "]".repeat(DEPTH));
        assert_eq!(made(&deep).len(), 2 * DEPTH + 1);
        // Every level is out of order, so what sorts by moving the values would move them all.
        let nested = format!("{}1{}", r#"{"b":0,"a":"#.repeat(DEPTH), "}".repeat(DEPTH));
        let sorted = made(&nested);
        assert!(sorted.starts_with(r#"{"a":{"a":"#) && sorted.ends_with(r#","b":0},"b":0}"#));
        assert_eq!(sorted.len(), nested.len());
        assert_eq!(made(&sorted), sorted);
    }

    /// A value, and one of its many texts.
    fn text() -> impl Strategy<Value = String> {
        let number = prop_oneof![
            (-99..100_i32).prop_map(|n| n.to_string()),
            (-99..100_i32, 0..4_usize).prop_map(|(n, zeros)| format!("{n}.{}0", "0".repeat(zeros))),
            (1..100_i32, 0..4_u32).prop_map(|(n, e)| format!("{n}{}e-{e}", "0".repeat(e as usize))),
        ];
        let string = prop_oneof![
            "[a-c]{0,2}".prop_map(|s| format!("\"{s}\"")),
            "[a-c]".prop_map(|s| format!("\"\\u00{:x}\"", s.as_bytes()[0])),
            "\\PC{0,3}".prop_map(|s| serde_json::to_string(&s).unwrap()),
        ];
        let leaf =
            prop_oneof![number, string.clone(), Just("null".to_owned()), Just("true".to_owned())];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            let member = (string.clone(), inner.clone()).prop_map(|(k, v)| format!("{k} :{v}"));
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(|all| format!("[{} ]", all.join(" ,"))),
                prop::collection::vec(member, 0..5)
                    .prop_map(|all| format!("{{{}\n}}", all.join(", "))),
            ]
        })
    }

    /// The value with all numbers as the same kind of number.
    fn value(text: &str) -> Json {
        fn plain(json: Json) -> Json {
            match json {
                Json::Number(number) => Json::from(number.as_f64().unwrap() + 0.0),
                Json::Array(all) => all.into_iter().map(plain).collect(),
                Json::Object(all) => all.into_iter().map(|(k, v)| (k, plain(v))).collect(),
                other => other,
            }
        }
        plain(serde_json::from_str(text).unwrap())
    }

    proptest! {
        #[test]
        fn equal_texts_are_equal_values(one in text(), other in text()) {
            let (first, second) = (made(&one), made(&other));
            prop_assert_eq!(value(&first), value(&one));
            prop_assert_eq!(&made(&first), &first);
            prop_assert_eq!(first == second, value(&one) == value(&other), "{} {}", first, second);
        }
    }
}

//! Which jobs a constraint selects, and the key value at its `per` path.
//!
//! What is absent counts as nil. Numbers compare by value, however they are written; texts by their
//! bytes. Values of different kinds are unequal, and neither is less. In queue names `*` matches
//! any text where `=`, `!=` or `in` compare.

use crate::model::job::{Encoding, Payload};
use crate::model::worker::{Compare, Condition, Constraint, Path, Scalar};
use crate::wire::{Found, Leaf, Paths, json, msgpack};
use foldhash::quality::FixedState;
use memchr::memmem;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::cmp::Ordering;
use std::hash::BuildHasher;

/// Longest key value that is kept as it is; longer ones are hashed.
const VALUE_BYTES: usize = 256;

/// The values at all paths that constraints name, found in one walk through the payload when the
/// first is asked for.
pub(super) struct PayloadView<'a> {
    payload: Payload<'a>,
    paths: &'a Paths,
    found: OnceCell<Found<'a>>,
}

impl<'a> PayloadView<'a> {
    /// `paths` must contain every path that will be asked for.
    pub(super) fn new(payload: Payload<'a>, paths: &'a Paths) -> Self {
        Self { payload, paths, found: OnceCell::new() }
    }

    /// O(payload) at first.
    fn found(&self) -> &Found<'a> {
        let Payload { encoding, bytes } = self.payload;
        self.found.get_or_init(|| match encoding {
            Encoding::Json | Encoding::JsonLine => json::find(bytes, self.paths),
            Encoding::MsgPack => msgpack::find(bytes, self.paths),
            Encoding::Packet { .. } | Encoding::Bytes => Found::nothing(self.paths),
        })
    }

    /// The value at `path` in the payload; nil for the queue name.
    fn leaf(&self, path: &Path) -> &Leaf<'a> {
        let found = match path {
            Path::Argument(keys) => self.found().at(self.paths, keys),
            Path::Name => None,
        };
        found.unwrap_or(&Leaf::Nil)
    }
}

/// Adds the payload paths that a constraint names. O(its keys).
pub(super) fn add_paths(constraint: &Constraint, paths: &mut Paths) {
    let asked = constraint.matcher.iter().map(|condition| &condition.path);
    for path in asked.chain(&constraint.per) {
        if let Path::Argument(keys) = path {
            paths.add(keys);
        }
    }
}

/// Whether a constraint selects a job of the queue `name` with this payload. O(keys and values of
/// the conditions), beside one walk through the payload.
pub(super) fn matches(constraint: &Constraint, name: &[u8], arguments: &PayloadView<'_>) -> bool {
    let of_name = |condition: &&Condition| condition.path == Path::Name;
    let matcher = &constraint.matcher;
    // Names first: they are short.
    matcher.iter().filter(of_name).all(|condition| name_holds(condition, name))
        && matcher
            .iter()
            .filter(|condition| !of_name(condition))
            .all(|condition| holds(condition, arguments.leaf(&condition.path)))
}

/// The key value of a job: equal for jobs whose values at `path` are equal. Arrays, maps and other
/// non-scalars are equal if their bytes are. At most [`VALUE_BYTES`] and one more, because it is
/// kept: a longer value is replaced by its length and a hash of 128 bits. The hash is not keyed: a
/// client that constructs a collision makes two values share a limit. O(value), otherwise as
/// [`matches()`].
pub(super) fn value(path: &Path, name: &[u8], arguments: &PayloadView<'_>) -> Box<[u8]> {
    let tagged = |tag: u8, bytes: &[u8]| match bytes.len() {
        ..=VALUE_BYTES => [&[tag], bytes].concat().into_boxed_slice(),
        length => {
            let half = |seed| FixedState::with_seed(seed).hash_one(bytes).to_be_bytes();
            let length = (length as u64).to_be_bytes();
            [&[tag | 0x80][..], &length, &half(1), &half(2)].concat().into_boxed_slice()
        }
    };
    if *path == Path::Name {
        return tagged(b'n', name);
    }
    match arguments.leaf(path) {
        Leaf::Nil => tagged(0, b""),
        Leaf::Bool(value) => tagged(1, &[u8::from(*value)]),
        Leaf::Integer(number) => tagged(2, &number.to_be_bytes()),
        Leaf::Float(number) => match whole(*number) {
            Some(number) => tagged(2, &number.to_be_bytes()),
            None => tagged(3, &number.to_bits().to_be_bytes()),
        },
        Leaf::Text(text) => tagged(4, text.as_bytes()),
        Leaf::Other(bytes) => tagged(5, bytes),
    }
}

fn name_holds(condition: &Condition, name: &[u8]) -> bool {
    let mut texts = condition.values.iter().filter_map(|value| match value {
        Scalar::Text(text) => Some(text.as_bytes()),
        _ => None,
    });
    match condition.op {
        Compare::Equal | Compare::In => texts.any(|text| globs(text, name)),
        Compare::NotEqual => !texts.any(|text| globs(text, name)),
        op => texts.any(|text| is(op, Some(name.cmp(text)))),
    }
}

fn holds(condition: &Condition, found: &Leaf<'_>) -> bool {
    let mut values = condition.values.iter();
    match condition.op {
        Compare::Equal | Compare::In => values.any(|value| equal(found, value)),
        Compare::NotEqual => !values.any(|value| equal(found, value)),
        op => values.any(|value| is(op, order(found, value))),
    }
}

fn is(op: Compare, order: Option<Ordering>) -> bool {
    let Some(order) = order else { return false };
    match op {
        Compare::Less => order.is_lt(),
        Compare::LessOrEqual => order.is_le(),
        Compare::Greater => order.is_gt(),
        Compare::GreaterOrEqual => order.is_ge(),
        Compare::Equal | Compare::In => order.is_eq(),
        Compare::NotEqual => order.is_ne(),
    }
}

fn equal(found: &Leaf<'_>, value: &Scalar) -> bool {
    match (found, value) {
        (Leaf::Nil, Scalar::Nil) => true,
        (Leaf::Bool(found), Scalar::Bool(value)) => found == value,
        _ => order(found, value) == Some(Ordering::Equal),
    }
}

/// The order of two numbers or two texts.
fn order(found: &Leaf<'_>, value: &Scalar) -> Option<Ordering> {
    match (found, value) {
        (Leaf::Text(found), Scalar::Text(value)) => Some(Cow::as_ref(found).cmp(&**value)),
        (Leaf::Integer(found), Scalar::Integer(value)) => Some(found.cmp(value)),
        (Leaf::Integer(found), Scalar::Float(value)) => against(*found, f64::from_bits(*value)),
        (Leaf::Float(found), Scalar::Integer(value)) => {
            against(*value, *found).map(Ordering::reverse)
        }
        (Leaf::Float(found), Scalar::Float(value)) => found.partial_cmp(&f64::from_bits(*value)),
        _ => None,
    }
}

/// Every signed or unsigned integer of 64 bits is well within ± this.
const WIDE: f64 = 1e38;

/// Compares an integer with a float, exactly.
#[expect(clippy::cast_possible_truncation, reason = "what is beyond the range was told apart")]
fn against(number: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    if float >= WIDE {
        return Some(Ordering::Less);
    }
    if float <= -WIDE {
        return Some(Ordering::Greater);
    }
    let whole = float.trunc();
    let order = number.cmp(&(whole as i128));
    Some(order.then_with(|| whole.partial_cmp(&float).unwrap_or(Ordering::Equal)))
}

/// The integer equal to a float, if it has no fraction.
#[expect(clippy::cast_possible_truncation, reason = "it is within the range")]
fn whole(float: f64) -> Option<i128> {
    let is_whole = float.abs() < WIDE && float.fract().abs() < f64::MIN_POSITIVE;
    is_whole.then_some(float as i128)
}

/// Whether `pattern`, in which `*` stands for any bytes, matches `text`. O(pattern + text): the
/// leftmost occurrence of a piece between two stars is always a right choice.
fn globs(pattern: &[u8], text: &[u8]) -> bool {
    let mut pieces = pattern.split(|&byte| byte == b'*');
    let Some(mut rest) = text.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = memmem::find(rest, piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [`super::matches`] of a payload.
    fn matches(constraint: &Constraint, name: &[u8], payload: &Payload<'_>) -> bool {
        let mut paths = Paths::default();
        add_paths(constraint, &mut paths);
        super::matches(constraint, name, &PayloadView::new(*payload, &paths))
    }

    /// [`super::value`] of a payload.
    fn value(path: &Path, name: &[u8], payload: &Payload<'_>) -> Box<[u8]> {
        let mut paths = Paths::default();
        if let Path::Argument(keys) = path {
            paths.add(keys);
        }
        super::value(path, name, &PayloadView::new(*payload, &paths))
    }

    fn argument(path: &str) -> Path {
        Path::Argument(path.split('.').filter(|key| !key.is_empty()).map(Into::into).collect())
    }

    fn text(text: &str) -> Scalar {
        Scalar::Text(text.into())
    }

    fn constraint(path: Path, op: Compare, values: &[Scalar]) -> Constraint {
        let matcher = vec![Condition { path, op, values: values.to_vec() }];
        Constraint { name: "c".into(), matcher, max_running: Some(1), rate: None, per: None }
    }

    /// Whether a condition holds of an argument, in both encodings.
    fn condition_holds(path: &str, op: Compare, values: &[Scalar], json: &str) -> bool {
        let constraint = constraint(argument(path), op, values);
        let mut packed = Vec::new();
        msgpack::from_json(json.as_bytes(), &mut packed).unwrap();
        let by = |encoding, bytes| matches(&constraint, b"q", &Payload { encoding, bytes });
        let found = by(Encoding::Json, json.as_bytes());
        assert_eq!(by(Encoding::MsgPack, &packed), found, "{path} {op:?} {values:?} {json}");
        found
    }

    #[test]
    fn scalars_compare_by_value_and_kind() {
        use Compare::{Equal, Greater, GreaterOrEqual, In, Less, LessOrEqual, NotEqual};
        let one = Scalar::Integer(1);
        let half = Scalar::Float(0.5_f64.to_bits());
        for (path, op, values, json, expected) in [
            ("a", Equal, vec![one.clone()], r#"{"a":1}"#, true),
            ("a", Equal, vec![one.clone()], r#"{"a":1.0}"#, true),
            ("a", Equal, vec![one.clone()], r#"{"a":"1"}"#, false),
            ("a", NotEqual, vec![one.clone()], r#"{"a":"1"}"#, true),
            ("a", NotEqual, vec![one.clone()], r"{}", true),
            ("a", Equal, vec![Scalar::Nil], r"{}", true),
            ("a", Equal, vec![Scalar::Nil], r#"{"a":null}"#, true),
            ("a", Equal, vec![Scalar::Nil], r#"{"a":[]}"#, false),
            ("a.b", Equal, vec![text("x*")], r#"{"a":{"b":"x*"}}"#, true),
            ("a.b", Equal, vec![text("x*")], r#"{"a":{"b":"xy"}}"#, false),
            ("", Equal, vec![Scalar::Bool(true)], "true", true),
            ("", Equal, vec![Scalar::Bool(true)], "false", false),
            ("a", Less, vec![one.clone()], r#"{"a":0.9}"#, true),
            ("a", Less, vec![one.clone()], r#"{"a":"0"}"#, false),
            ("a", Less, vec![one.clone()], r"{}", false),
            ("a", LessOrEqual, vec![half.clone()], r#"{"a":0}"#, true),
            ("a", Greater, vec![half.clone()], r#"{"a":1}"#, true),
            ("a", GreaterOrEqual, vec![half], r#"{"a":0.5}"#, true),
            ("a", Greater, vec![text("a")], r#"{"a":"b"}"#, true),
            ("a", In, vec![text("a"), one.clone()], r#"{"a":1}"#, true),
            ("a", In, vec![text("a"), one], r#"{"a":2}"#, false),
        ] {
            assert_eq!(
                condition_holds(path, op, &values, json),
                expected,
                "{path} {op:?} {values:?} {json}"
            );
        }
    }

    #[test]
    fn integers_and_floats_compare_exactly_beyond_53_bits() {
        let near = (1_i128 << 53) + 1;
        let float = 9_007_199_254_740_992.0;
        assert_eq!(against(near, float), Some(Ordering::Greater));
        assert_eq!(against(near - 1, float), Some(Ordering::Equal));
        assert_eq!(against(-1, -0.5), Some(Ordering::Less));
        assert_eq!(against(0, -0.5), Some(Ordering::Greater));
        assert_eq!(against(i128::MAX, f64::INFINITY), Some(Ordering::Less));
        assert_eq!(against(0, f64::NEG_INFINITY), Some(Ordering::Greater));
        assert_eq!(against(0, f64::NAN), None);
    }

    #[test]
    fn names_match_by_globs() {
        for (pattern, name, expected) in [
            ("mail", "mail", true),
            ("mail", "mails", false),
            ("mail-*", "mail-", true),
            ("mail-*", "mail-x", true),
            ("*", "", true),
            ("", "", true),
            ("a*b*c", "axxbyybc", true),
            ("a*b*c", "axxcyyb", false),
            ("*aab", "aaaab", true),
            ("**", "x", true),
        ] {
            assert_eq!(globs(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
            let json = Payload { encoding: Encoding::Json, bytes: b"1" };
            for (op, found) in [
                (Compare::Equal, expected),
                (Compare::In, expected),
                (Compare::NotEqual, !expected),
            ] {
                let constraint = constraint(Path::Name, op, &[text(pattern)]);
                assert_eq!(matches(&constraint, name.as_bytes(), &json), found);
            }
        }
        let json = Payload { encoding: Encoding::Json, bytes: b"1" };
        assert!(matches(&constraint(Path::Name, Compare::Less, &[text("b")]), b"a", &json));
        assert!(!matches(&constraint(Path::Name, Compare::Greater, &[text("b")]), b"a", &json));
    }

    /// Tries every length for a star.
    fn globs_naive(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([b'*', pattern @ ..], _) => {
                (0..=text.len()).any(|from| globs_naive(pattern, &text[from..]))
            }
            ([first, pattern @ ..], [byte, text @ ..]) => {
                first == byte && globs_naive(pattern, text)
            }
            _ => pattern.is_empty() && text.is_empty(),
        }
    }

    #[test]
    fn short_globs_agree_with_the_naive_matcher() {
        let words = |alphabet: &'static [u8], longest: usize| {
            let mut all = vec![Vec::new()];
            for from in 0.. {
                let word: &Vec<u8> = &all[from];
                if word.len() == longest {
                    return all;
                }
                let longer = alphabet.iter().map(|&byte| [&word[..], &[byte]].concat());
                let longer: Vec<_> = longer.collect();
                all.extend(longer);
            }
            all
        };
        let (mut matched, names) = (0, words(b"ab", 6));
        for pattern in words(b"ab*", 5) {
            for name in &names {
                let found = globs(&pattern, name);
                assert_eq!(found, globs_naive(&pattern, name), "{pattern:?} {name:?}");
                matched += usize::from(found);
            }
        }
        assert!(matched > 5_000, "only {matched} matched");
    }

    /// A naive matcher would take 10^11 steps.
    #[test]
    fn long_glob_on_long_name_is_linear() {
        let half = "a".repeat(1 << 18);
        let (pattern, name) = (format!("*{half}b*"), format!("{half}{half}c"));
        assert!(!globs(pattern.as_bytes(), name.as_bytes()));
        assert!(globs(pattern.as_bytes(), format!("{name}{half}bb").as_bytes()));
    }

    #[test]
    fn long_values_have_short_distinct_keys() {
        let text = |bytes: usize, last: char| format!("\"{}{last}\"", "a".repeat(bytes - 1));
        let long = VALUE_BYTES + 1;
        let all = [
            text(VALUE_BYTES, 'a'),
            text(long, 'a'),
            text(long, 'b'),
            text(1 << 20, 'a'),
            format!("[{}]", text(1 << 20, 'a')),
        ];
        let keys = all.each_ref().map(|json| {
            let payload = Payload { encoding: Encoding::Json, bytes: json.as_bytes() };
            let key = value(&argument(""), b"q", &payload);
            assert!(key.len() <= VALUE_BYTES + 1, "{} bytes", key.len());
            assert_eq!(key, value(&argument(""), b"q", &payload));
            key
        });
        assert_eq!(keys.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len());
        let name = "n".repeat(1 << 20);
        let payload = Payload { encoding: Encoding::Json, bytes: b"1" };
        assert!(value(&Path::Name, name.as_bytes(), &payload).len() <= VALUE_BYTES + 1);
        let packed = [&[0xdb, 0, 0, 1, 1][..], "a".repeat(long).as_bytes()].concat();
        let payload = Payload { encoding: Encoding::MsgPack, bytes: &packed };
        assert_eq!(
            value(&argument(""), b"q", &payload),
            keys[1],
            "the key depends on the encoding"
        );
    }

    #[test]
    fn equal_values_have_equal_keys_in_all_encodings() {
        let key_of = |json: &str| {
            let path = argument("a");
            let mut packed = Vec::new();
            msgpack::from_json(json.as_bytes(), &mut packed).unwrap();
            let by = |encoding, bytes| value(&path, b"q", &Payload { encoding, bytes });
            let found = by(Encoding::JsonLine, json.as_bytes());
            assert_eq!(by(Encoding::MsgPack, &packed), found);
            found
        };
        assert_eq!(key_of(r#"{"a":1}"#), key_of(r#"{"x":{"a":3},"a":1.0}"#));
        assert_eq!(key_of(r#"{"a":null}"#), key_of("[]"));
        let all = [r#"{"a":1}"#, r#"{"a":"1"}"#, r#"{"a":1.5}"#, r#"{"a":true}"#, "{}"];
        let distinct: std::collections::BTreeSet<_> = all.into_iter().map(key_of).collect();
        assert_eq!(distinct.len(), all.len());
        let name = Payload { encoding: Encoding::Json, bytes: b"1" };
        assert_ne!(value(&Path::Name, b"q", &name), value(&Path::Name, b"r", &name));
    }
}

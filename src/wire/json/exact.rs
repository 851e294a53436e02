//! The exact parser: `serde_json` over the original text. It decides what is JSON.
//!
//! Values of unwanted fields are skipped and those of wanted ones kept as text first, both without
//! recursion; then the last one of each name is parsed.

use super::tape::narrow;
use super::{Arrays, Fields, Integer, JsonError, StringsAt, Value};
use crate::base::strings::StringList;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// Parses `bytes` as one object into `values`, whatever they hold.
#[cold]
pub(super) fn parse<'a, F: Fields<N>, const N: usize>(
    bytes: &'a [u8],
    strings: &'a mut StringList,
    values: &mut [Value<'a>; N],
) -> Result<Arrays<'a>, JsonError> {
    let (raw, _) = object::<F, N>(bytes)?;
    strings.clear();
    let found = raw.map(|raw| raw.map_or(Found::Value(Value::Absent), |raw| look_at(raw, strings)));
    let strings: &'a StringList = strings;
    *values = found.map(|found| match found {
        Found::Value(value) => value,
        // Proof: `look_at` put a `str` there.
        Found::Unescaped(number) => strings
            .range(number..number + 1)
            .into_iter()
            .next()
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .map_or(Value::BrokenString, Value::String),
    });
    Ok(Arrays { strings, members: None })
}

/// The text as such, and its first byte that is no blank.
fn begin(bytes: &[u8]) -> Result<(&str, u8), JsonError> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| JsonError::NotUtf8(error.valid_up_to() + 1))?;
    match text.trim_start_matches([' ', '\t', '\r', '\n']).bytes().next() {
        None => Err(JsonError::Empty),
        Some(_) if text.starts_with('\u{feff}') => Err(JsonError::ByteOrderMark),
        Some(first) => Ok((text, first)),
    }
}

/// The texts of the wanted members of an object by their numbers, and the name of the first member
/// that is not wanted.
type Object<'a, const N: usize> = ([Option<&'a RawValue>; N], Option<&'a RawValue>);

fn object<F: Fields<N>, const N: usize>(bytes: &[u8]) -> Result<Object<'_, N>, JsonError> {
    let (text, first) = begin(bytes)?;
    if first != b'{' {
        let whole: Result<IgnoredAny, _> = serde_json::from_str(text);
        whole.map_err(|error| syntax(text, &error))?;
        return Err(JsonError::NotObject(kind(first)));
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let object = ObjectVisitor::<F, N>(PhantomData);
    let raw = json.deserialize_map(object).map_err(|error| syntax(text, &error))?;
    json.end().map_err(|error| syntax(text, &error))?;
    Ok(raw)
}

/// The wanted members of an object as their texts, by their numbers: of members with the same name
/// the last. Then the name of the first one that is not wanted, as JSON. O(text).
///
/// # Errors
/// Says why `bytes` are no JSON object.
pub fn members<F: Fields<N>, const N: usize>(bytes: &[u8]) -> Result<Members<'_, N>, JsonError> {
    let (wanted, other) = object::<F, N>(bytes)?;
    Ok((wanted.map(|raw| raw.map(RawValue::get)), other.map(RawValue::get)))
}

/// The texts of wanted members, and the name of one that is not wanted.
pub type Members<'a, const N: usize> = ([Option<&'a str>; N], Option<&'a str>);

/// All members of an object in their order: unescaped names, and values as their texts. Half a
/// surrogate pair in a name is U+FFFD. O(text).
///
/// # Errors
/// Says why `bytes` are no JSON object.
pub fn object_members(bytes: &[u8]) -> Result<Vec<(Cow<'_, str>, &str)>, JsonError> {
    let (text, first) = begin(bytes)?;
    let mut json = serde_json::Deserializer::from_str(text);
    if first != b'{' {
        value(bytes)?;
        return Err(JsonError::NotObject(kind(first)));
    }
    let members = json.deserialize_map(AllMembers).map_err(|error| syntax(text, &error))?;
    json.end().map_err(|error| syntax(text, &error))?;
    Ok(members)
}

/// Any JSON value as its text, without the blanks around it. O(text).
///
/// # Errors
/// Says why `bytes` are no JSON value.
pub fn value(bytes: &[u8]) -> Result<&str, JsonError> {
    let (text, _) = begin(bytes)?;
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| syntax(text, &error))?;
    Ok(raw.get())
}

/// The elements of an array as their texts; nothing if the text is no array. O(text).
#[must_use]
pub fn elements(text: &str) -> Option<Vec<&str>> {
    let elements: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    Some(elements.into_iter().map(RawValue::get).collect())
}

/// Whether `bytes` are one JSON value.
pub(super) fn check(bytes: &[u8]) -> Result<(), JsonError> {
    value(bytes).map(|_| ())
}

fn kind(first: u8) -> &'static str {
    match first {
        b'[' => "an array",
        b'"' => "a string",
        b't' | b'f' => "a boolean",
        b'n' => "null",
        _ => "a number",
    }
}

fn syntax(text: &str, error: &serde_json::Error) -> JsonError {
    let sentence = error.to_string();
    let what = sentence.split(" at line ").next().unwrap_or_default().to_owned();
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let before: usize = lines.map(str::len).sum();
    JsonError::Syntax { what, column: before + error.column() }
}

/// A value, or where its unescaped text has been put.
enum Found<'a> {
    Value(Value<'a>),
    Unescaped(usize),
}

fn look_at<'a>(raw: &'a RawValue, strings: &mut StringList) -> Found<'a> {
    let text = raw.get();
    Found::Value(match text.as_bytes() {
        [b'{', ..] => Value::Object(text.as_bytes()),
        [b'[', ..] => array(text, strings),
        [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => {
            Value::String(&text[1..text.len() - 1])
        }
        [b'"', ..] => match serde_json::from_str::<String>(text) {
            Ok(unescaped) => {
                strings.push(unescaped.as_bytes());
                return Found::Unescaped(strings.len() - 1);
            }
            Err(_) => Value::BrokenString,
        },
        [b't', ..] => Value::Bool(true),
        [b'f', ..] => Value::Bool(false),
        [b'n', ..] => Value::Null,
        _ => number(text),
    })
}

fn number(text: &str) -> Value<'_> {
    if text.contains(['.', 'e', 'E']) {
        return Value::Number;
    }
    Value::Integer(match text.parse::<i64>() {
        _ if text.starts_with('-') => Integer::Negative,
        Ok(small) if small < i64::MAX => Integer::Small(small),
        _ => Integer::Large(text),
    })
}

fn array(text: &str, strings: &mut StringList) -> Value<'static> {
    let first = strings.len();
    let mut json = serde_json::Deserializer::from_str(text);
    if json.deserialize_seq(StringsVisitor(strings)).is_err() {
        strings.truncate(first);
        return Value::Array;
    }
    Value::Strings(StringsAt { first: narrow(first), end: narrow(strings.len()) })
}

struct ObjectVisitor<F, const N: usize>(PhantomData<F>);

impl<'de, F: Fields<N>, const N: usize> Visitor<'de> for ObjectVisitor<F, N> {
    type Value = Object<'de, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut values, mut other) = ([None; N], None);
        while let Some(name) = map.next_key::<&RawValue>()? {
            if let Some(number) = number_of::<F, N>(name) {
                values[number] = Some(map.next_value::<&RawValue>()?);
            } else {
                other = other.or(Some(name));
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok((values, other))
    }
}

/// Collects all members of an object.
struct AllMembers;

impl<'de> Visitor<'de> for AllMembers {
    type Value = Vec<(Cow<'de, str>, &'de str)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = map.next_key::<&RawValue>()? {
            let text = name.get();
            let name = if text.contains('\\') {
                Cow::Owned(serde_json::from_str(text).unwrap_or_else(|_| "\u{fffd}".to_owned()))
            } else {
                Cow::Borrowed(&text[1..text.len() - 1])
            };
            members.push((name, map.next_value::<&RawValue>()?.get()));
        }
        Ok(members)
    }
}

/// The number of the field with this name. The name comes as its text, because only a text that is
/// passed over is checked for control characters, and is read as bytes, because half a surrogate
/// pair is legal in a name that is not looked up.
fn number_of<F: Fields<N>, const N: usize>(name: &RawValue) -> Option<usize> {
    match name.get().as_bytes() {
        [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => F::number(inner),
        _ => {
            let mut json = serde_json::Deserializer::from_str(name.get());
            json.deserialize_bytes(NameVisitor::<F, N>(PhantomData)).ok().flatten()
        }
    }
}

struct NameVisitor<F, const N: usize>(PhantomData<F>);

impl<F: Fields<N>, const N: usize> Visitor<'_> for NameVisitor<F, N> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field's name")
    }

    fn visit_bytes<E>(self, name: &[u8]) -> Result<Self::Value, E> {
        Ok(F::number(name))
    }
}

/// Collects the elements of an array; any element that is no string ends it with an error.
struct StringsVisitor<'s>(&'s mut StringList);

impl<'de> Visitor<'de> for StringsVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of strings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        while let Some(CowStr(string)) = sequence.next_element()? {
            self.0.push(string.as_bytes());
        }
        Ok(())
    }
}

#[derive(serde::Deserialize)]
struct CowStr<'a>(#[serde(borrow)] Cow<'a, str>);

//! Tables of fields, and the maps that are read with them.

use super::timestamp;
use crate::base::names;
use crate::model::job::{Encoding, Payload};
use crate::protocol::matcher::A_PATH;
use crate::wire::json::{self, JsonError};
use crate::wire::msgpack::{Error, Raw, Token, from_json, push_float, push_integer, read_map};
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

/// One field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Unique in its message.
    pub name: &'static str,
    /// The type of its value.
    pub kind: FieldKind,
    /// Whether it is required.
    pub need: Presence,
    /// Its description in the OpenAPI document.
    pub about: &'static str,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Any value.
    Any,
    /// `true` or `false`.
    Bool,
    /// An id: a decimal number as a string.
    Id,
    /// An integer from `min` on; above `max` it counts as `max`, or is an error.
    Integer {
        /// The least value.
        min: i64,
        /// The greatest value.
        max: i64,
        /// A greater value is an error.
        strict: bool,
    },
    /// Another message.
    Map(&'static [Field]),
    /// Conditions: `[path, operator, value]` each.
    Matcher,
    /// A time in ISO 8601, as a string; without an offset it is UTC.
    Moment,
    /// A path into a job, as a string.
    Path,
    /// A number of seconds above 0, with or without a fraction.
    Seconds,
    /// A string.
    Text,
    /// An array of at least one string.
    Texts,
    /// The URL of an HTTP server, as a string.
    Url,
    /// One of these strings.
    Word(&'static [&'static str]),
}

/// Whether a field is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It must be present.
    Required,
    /// It may be absent.
    Optional,
    /// It may be absent and is then this JSON value.
    Default(&'static str),
}

impl Field {
    pub(super) const fn must(name: &'static str, kind: FieldKind, about: &'static str) -> Self {
        Self { name, kind, need: Presence::Required, about }
    }

    pub(super) const fn may(name: &'static str, kind: FieldKind, about: &'static str) -> Self {
        Self { name, kind, need: Presence::Optional, about }
    }

    pub(super) const fn or(
        name: &'static str,
        kind: FieldKind,
        default: &'static str,
        about: &'static str,
    ) -> Self {
        Self { name, kind, need: Presence::Default(default), about }
    }
}

/// `a`, `b` or `c`.
fn write_words(words: &[&str], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (number, word) in words.iter().enumerate() {
        f.write_str(match words.len() - number {
            _ if number == 0 => "",
            1 => " or ",
            _ => ", ",
        })?;
        write!(f, "'{word}'")?;
    }
    Ok(())
}

/// What the value must be.
impl fmt::Display for FieldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Any => f.write_str("any value"),
            Self::Bool => f.write_str("true or false"),
            Self::Id => f.write_str("an id, which is a string"),
            Self::Integer { min, max, strict: true } => {
                write!(f, "an integer from {min} to {max}")
            }
            Self::Integer { min, max: _, strict: false } => {
                write!(f, "an integer, at least {min}")
            }
            Self::Map(_) => f.write_str("a map"),
            Self::Matcher => f.write_str("an array of conditions, [path, operator, value] each"),
            Self::Moment => {
                f.write_str("a moment in ISO 8601, such as '2026-02-28T23:59:59.5+09:00'")
            }
            Self::Path => f.write_str(A_PATH),
            Self::Seconds => f.write_str("a number of seconds greater than 0"),
            Self::Text => f.write_str("a string"),
            Self::Texts => f.write_str("an array of at least one string"),
            Self::Url => f.write_str("a URL such as 'http://host:port'"),
            Self::Word(words) => write_words(words, f),
        }
    }
}

/// Why a body is not the expected message: a sentence without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldError {
    /// It is not a MessagePack map.
    Body(Error),
    /// It is not JSON.
    Json(JsonError),
    /// A required field is absent.
    Missing {
        /// Its name.
        field: Cow<'static, str>,
        /// What its value must be.
        wanted: FieldKind,
    },
    /// A field has a value of another type.
    Wrong {
        /// Its name.
        field: Cow<'static, str>,
        /// What its value must be.
        wanted: FieldKind,
    },
    /// A field is wrong in another way.
    Not {
        /// Its name.
        field: Cow<'static, str>,
        /// The error: a sentence that continues the name.
        what: Cow<'static, str>,
    },
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(error) => write!(f, "the body {error}"),
            Self::Json(error) => write!(f, "the body {error}"),
            Self::Missing { field, wanted } => {
                write!(f, "field '{field}' is missing: it must be {wanted}")
            }
            Self::Wrong { field, wanted } => write!(f, "field '{field}' must be {wanted}"),
            Self::Not { field, what } => write!(f, "field '{field}' {what}"),
        }
    }
}

impl std::error::Error for FieldError {}

/// A map that is read by its table, and its name if it is a field of another map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Map<'a, const N: usize> {
    fields: &'static [Field; N],
    values: [Option<Raw<'a>>; N],
    texts: Texts<'a>,
    within: Option<&'static str>,
    /// The first name that is not in the table.
    unknown: Option<&'a [u8]>,
}

/// The body of a request, in MessagePack or in JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    /// The body, or its translation.
    packed: &'a [u8],
    texts: Texts<'a>,
}

/// The JSON texts of the fields of [`WHATEVER`], if the message is JSON.
type Texts<'a> = Option<[Option<&'a str>; WHATEVER.len()]>;

impl<'a> Message<'a> {
    pub(super) fn packed(bytes: &'a [u8]) -> Self {
        Self { packed: bytes, texts: None }
    }

    /// `packed` receives the translation. O(text).
    pub(super) fn json(text: &'a [u8], packed: &'a mut Vec<u8>) -> Result<Self, FieldError> {
        let (texts, _) = json::members::<Whatever, _>(text).map_err(FieldError::Json)?;
        packed.clear();
        from_json(text, packed).map_err(FieldError::Json)?;
        Ok(Self { packed, texts: Some(texts) })
    }
}

/// The fields that hold any value: of a message in JSON they keep their text.
const WHATEVER: [&str; 3] = ["argument", "result", "error"];

struct Whatever;

impl json::Fields<{ WHATEVER.len() }> for Whatever {
    fn number(name: &[u8]) -> Option<usize> {
        WHATEVER.iter().position(|known| known.as_bytes() == name)
    }
}

impl<'a, const N: usize> Map<'a, N> {
    /// O(bytes).
    pub(super) fn read(bytes: &'a [u8], fields: &'static [Field; N]) -> Result<Self, FieldError> {
        let mut values = [None; N];
        let unknown = Cell::new(None);
        let number = |name: &'a [u8]| {
            let number = fields.iter().position(|field| field.name.as_bytes() == name);
            if number.is_none() {
                unknown.set(unknown.get().or(Some(name)));
            }
            number
        };
        read_map(bytes, number, &mut values).map_err(FieldError::Body)?;
        Ok(Self { fields, values, texts: None, within: None, unknown: unknown.get() })
    }

    /// O(bytes).
    pub(super) fn of(
        message: Message<'a>,
        fields: &'static [Field; N],
    ) -> Result<Self, FieldError> {
        Ok(Self { texts: message.texts, ..Self::read(message.packed, fields)? })
    }

    /// The same map. An unknown field is an error, as it is probably a typing mistake.
    pub(super) fn known_only(self) -> Result<Self, FieldError> {
        match self.unknown {
            None => Ok(self),
            Some(name) => Err(self.unknown(name)),
        }
    }

    #[cold]
    fn unknown(&self, name: &[u8]) -> FieldError {
        let known: Vec<&str> = self.fields.iter().map(|field| field.name).collect();
        let name: String = String::from_utf8_lossy(name).chars().take(40).collect();
        let what = names::unknown(&name, &known).into();
        let field = self.within.map_or_else(|| name.clone(), |within| format!("{within}.{name}"));
        FieldError::Not { field: field.into(), what }
    }

    /// A map that is a field of another one.
    pub(super) fn read_within(
        map: Raw<'a>,
        fields: &'static [Field; N],
        name: &'static str,
    ) -> Result<Self, FieldError> {
        match Self::read(map.bytes(), fields) {
            Ok(read) => Ok(Self { within: Some(name), ..read }),
            Err(_) => Err(FieldError::Wrong { field: name.into(), wanted: FieldKind::Map(fields) }),
        }
    }

    fn number(&self, name: &str) -> usize {
        let number = self.fields.iter().position(|field| field.name == name);
        number.expect("every field that is asked for is in the table of its message")
    }

    fn full_name(&self, name: &'static str) -> Cow<'static, str> {
        match self.within {
            None => Cow::Borrowed(name),
            Some(within) => Cow::Owned(format!("{within}.{name}")),
        }
    }

    pub(super) fn get(&self, name: &'static str) -> Option<Raw<'a>> {
        self.values[self.number(name)]
    }

    #[cold]
    pub(super) fn missing(&self, name: &'static str) -> FieldError {
        let wanted = self.fields[self.number(name)].kind;
        FieldError::Missing { field: self.full_name(name), wanted }
    }

    #[cold]
    pub(super) fn wrong(&self, name: &'static str) -> FieldError {
        let wanted = self.fields[self.number(name)].kind;
        FieldError::Wrong { field: self.full_name(name), wanted }
    }

    /// The value of a required field.
    pub(super) fn must<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(Raw<'a>, FieldKind) -> Option<T>,
    ) -> Result<T, FieldError> {
        self.may(name, read)?.ok_or_else(|| self.missing(name))
    }

    /// The value of a required field of any type.
    pub(super) fn must_any(&self, name: &'static str) -> Result<Payload<'a>, FieldError> {
        self.may_any(name).ok_or_else(|| self.missing(name))
    }

    /// The value of an optional field of any type.
    pub(super) fn may_any(&self, name: &'static str) -> Option<Payload<'a>> {
        let raw = self.get(name)?;
        let number = WHATEVER.iter().position(|known| *known == name);
        let text = self.texts.zip(number).and_then(|(texts, number)| texts[number]);
        Some(match text {
            Some(text) => Payload { encoding: Encoding::Json, bytes: text.as_bytes() },
            None => Payload { encoding: Encoding::MsgPack, bytes: raw.bytes() },
        })
    }

    /// The value of an optional field.
    pub(super) fn may<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(Raw<'a>, FieldKind) -> Option<T>,
    ) -> Result<Option<T>, FieldError> {
        let number = self.number(name);
        match self.values[number] {
            None => Ok(None),
            Some(value) => match read(value, self.fields[number].kind) {
                None => Err(self.wrong(name)),
                found => Ok(found),
            },
        }
    }
}

pub(super) fn text(value: Raw<'_>, _: FieldKind) -> Option<&str> {
    value.text()
}

pub(super) fn word(value: Raw<'_>, kind: FieldKind) -> Option<&str> {
    let text = value.text()?;
    matches!(kind, FieldKind::Word(words) if words.contains(&text)).then_some(text)
}

pub(super) fn flag(value: Raw<'_>, _: FieldKind) -> Option<bool> {
    match value.token() {
        Token::Bool(value) => Some(value),
        _ => None,
    }
}

/// An integer of a kind whose bounds fit into `T`.
pub(super) fn integer<T: TryFrom<i64>>(value: Raw<'_>, kind: FieldKind) -> Option<T> {
    let (Token::Integer(number), FieldKind::Integer { min, max, strict }) = (value.token(), kind)
    else {
        return None;
    };
    let number = match i64::try_from(number) {
        Ok(number) if number <= max => number,
        _ if number < 0 || strict => return None,
        _ => max,
    };
    if number < min { None } else { T::try_from(number).ok() }
}

/// Milliseconds, at least one; beyond 64 bits: the maximum.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is above 0")]
pub(super) fn seconds(value: Raw<'_>, _: FieldKind) -> Option<u64> {
    match value.token() {
        Token::Integer(number) if number > 0 => {
            Some(u64::try_from(number * 1_000).unwrap_or(u64::MAX))
        }
        Token::Float(number) if number > 0.0 && number.is_finite() => {
            Some(((number * 1_000.0).round() as u64).max(1))
        }
        _ => None,
    }
}

pub(super) fn at(value: Raw<'_>, _: FieldKind) -> Option<i64> {
    timestamp::parse(value.text()?)
}

/// Writes milliseconds as seconds, with a fraction if there is one.
#[allow(clippy::cast_precision_loss, reason = "exact for 60,000 years")]
pub(super) fn push_seconds(out: &mut Vec<u8>, ms: u64) {
    if ms.is_multiple_of(1_000) {
        push_integer(out, ms / 1_000);
    } else {
        push_float(out, ms as f64 / 1_000.0);
    }
}

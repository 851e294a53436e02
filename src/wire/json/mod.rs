//! JSON objects of which a few fields are wanted.
//!
//! Two parsers with one result. The tape parser (simd-json) is fast and rejects some valid texts:
//! numbers beyond 64 bits, half surrogate pairs, deep nesting. Whatever it rejects is parsed again
//! by the exact parser (`serde_json`), which decides. Both use the last one of fields with the same
//! name, compare names after unescaping, and return an object as its original text.
//!
//! Invariants: neither parser recurses, so depth is limited by the length of the text alone; where
//! both accept a text they give the same values (`tests/it/parsers.rs`).

mod canonical;
mod exact;
mod lexer;
mod tape;
mod write;

pub use canonical::canonical;
pub use exact::{Members, elements, members, object_members, value};
pub(in crate::wire) use lexer::{Lexer, Number, Token, number, unescape};
pub use lexer::{at, check, find};
pub use write::{push_bytes, push_number, push_packet, push_string};

use crate::base::strings::{StringList, Strings};
use simd_json::{Buffers, Tape};
use std::fmt;

/// Which fields of an object are wanted. `N` is their number.
pub trait Fields<const N: usize> {
    /// The number of the field with this name, if it is wanted.
    fn number(name: &[u8]) -> Option<usize>;
}

/// The value of a wanted field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Value<'a> {
    /// There is no such field.
    #[default]
    Absent,
    /// An array that holds something else than strings, or half a surrogate pair.
    Array,
    /// A boolean.
    Bool(bool),
    /// A string with half a surrogate pair in it: JSON, but no text.
    BrokenString,
    /// A number written as an integer.
    Integer(Integer<'a>),
    /// `null`.
    Null,
    /// A number written with a fraction or an exponent.
    Number,
    /// An object, as its text.
    Object(&'a [u8]),
    /// A string, unescaped.
    String(&'a str),
    /// An array of strings: see [`Arrays::strings`].
    Strings(StringsAt),
}

/// A number written as an integer, exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integer<'a> {
    /// The digits of a number from `i64::MAX` on.
    Large(&'a str),
    /// A negative number, `-0` included.
    Negative,
    /// A number from 0 up to but not including `i64::MAX`.
    Small(i64),
}

/// Where the strings of an array are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringsAt {
    first: u32,
    end: u32,
}

/// What is known of a parsed object beside its values: the strings of its arrays, and its size.
#[derive(Clone, Copy, Debug)]
pub struct Arrays<'a> {
    strings: &'a StringList,
    members: Option<usize>,
}

impl<'a> Arrays<'a> {
    /// The strings of a [`Value::Strings`] of this object, unescaped.
    #[must_use]
    pub fn strings(self, at: StringsAt) -> Strings<'a> {
        self.strings.range(at.first as usize..at.end as usize)
    }

    /// How many members the object has, those that are not wanted and those of the same name
    /// included; `None` if they were not counted.
    #[must_use]
    pub fn members(self) -> Option<usize> {
        self.members
    }
}

/// Why a text is no JSON object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonError {
    /// It begins with a byte order mark.
    ByteOrderMark,
    /// There is nothing in it.
    Empty,
    /// It is JSON, but this instead of an object.
    NotObject(&'static str),
    /// It is not UTF-8 from this byte on, counted from 1.
    NotUtf8(usize),
    /// It is not JSON.
    Syntax {
        /// What is wrong.
        what: String,
        /// Where, counted in bytes from 1.
        column: usize,
    },
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByteOrderMark => f.write_str("begins with a byte order mark: leave it out"),
            Self::Empty => f.write_str("is empty"),
            Self::NotObject(kind) => write!(f, "is {kind}, not a JSON object"),
            Self::NotUtf8(at) => write!(f, "is not UTF-8 from byte {at} on"),
            Self::Syntax { what, column } => write!(f, "is not JSON: {what} at byte {column}"),
        }
    }
}

/// Both parsers with their reused memory.
pub struct Parser {
    /// The copy of the text that the tape parser works in, and its padding.
    text: Vec<u8>,
    buffers: Buffers,
    tape: Tape<'static>,
    strings: StringList,
}

impl Default for Parser {
    fn default() -> Self {
        Self {
            text: Vec::new(),
            buffers: Buffers::new(1024),
            tape: Tape(Vec::new()),
            strings: StringList::default(),
        }
    }
}

impl fmt::Debug for Parser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parser").finish_non_exhaustive()
    }
}

/// Bytes of memory above which it is freed once a text needs less.
const KEPT: usize = 128 * 1024;

impl Parser {
    /// Parses `text` as one object and puts the wanted fields into `values` by their numbers, where
    /// all were [`Value::Absent`]. O(text).
    ///
    /// # Errors
    /// Says why `text` is no JSON object.
    #[inline]
    pub fn parse<'a, F: Fields<N>, const N: usize>(
        &'a mut self,
        text: &'a [u8],
        values: &mut [Value<'a>; N],
    ) -> Result<Arrays<'a>, JsonError> {
        if self.text.capacity() > KEPT && text.len() < KEPT {
            *self = Self::default();
        }
        self.strings.clear();
        let mut tape = std::mem::replace(&mut self.tape, Tape(Vec::new())).reset();
        let parsed = tape::parse::<F, N>(
            text,
            &mut self.text,
            &mut self.buffers,
            &mut tape,
            &mut self.strings,
            values,
        );
        self.tape = tape.reset();
        match parsed {
            Some(members) => Ok(Arrays { strings: &self.strings, members: Some(members) }),
            None => exact::parse::<F, N>(text, &mut self.strings, values),
        }
    }

    /// Parses `text` by the exact parser alone: for tests and benches that compare the two.
    ///
    /// # Errors
    /// Says why `text` is no JSON object.
    pub fn parse_exactly<'a, F: Fields<N>, const N: usize>(
        &'a mut self,
        text: &'a [u8],
        values: &mut [Value<'a>; N],
    ) -> Result<Arrays<'a>, JsonError> {
        exact::parse::<F, N>(text, &mut self.strings, values)
    }
}

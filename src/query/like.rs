//! `LIKE` and `GLOB`, reimplemented against denial of service: SQLite's own take time exponential
//! in the number of `%` or `*`.
//!
//! A pattern is split at its `%` or `*`, and each piece is searched behind the previous one; the
//! first occurrence suffices, because an earlier one leaves more text for the rest. A piece of
//! plain characters is found in O(text); one with `_`, `?` or `[..]` in O(text * piece), with stop
//! checks.

use super::StopCheck;
use super::set::{Set, read_char};
use super::sqlite::{PURE, stopped};
use super::text_functions::{HelperConnection, char_len, continues};
use memchr::memmem::Finder;
use rusqlite::functions::Context;
use rusqlite::{Connection, Error, Result};
use std::cell::RefCell;
use std::sync::Arc;

/// Comparisons between two stop checks.
const STEPS_PER_CHECK: usize = 1 << 16;

/// One element of a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    /// This byte; for `LIKE` in lower case, as is the text.
    Byte(u8),
    /// Any character.
    Any,
    Set(Box<Set>),
}

/// The part of a pattern between two `%` or `*`.
#[derive(Debug, Default)]
struct Piece {
    items: Vec<Item>,
    /// The search for the bytes, if all items are bytes.
    plain: Option<Finder<'static>>,
}

/// A parsed pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    pieces: Vec<Piece>,
    /// It matches nothing: it ends with its escape character, or in the middle of a set.
    never: bool,
    /// ASCII letters match in either case.
    folds: bool,
}

/// State that one call of the function keeps for the next.
#[derive(Debug, Default)]
struct Kept {
    /// The last pattern, its escape character, and its parsed form.
    last: Option<(Vec<u8>, Option<Vec<u8>>, Pattern)>,
    /// Buffer for a text in lower case.
    folded: Vec<u8>,
}

/// Replaces SQLite's functions of these names.
pub(super) fn register(connection: &Connection, stop: &StopCheck) -> Result<()> {
    let writer = HelperConnection::new()?;
    for (name, arguments) in [("like", 2), ("like", 3), ("glob", 2)] {
        let (writer, stop) = (writer.clone(), Arc::clone(stop));
        // A function is not re-entered, so the borrow succeeds.
        let kept = RefCell::new(Kept::default());
        let read = if name == "glob" { Pattern::read_glob } else { Pattern::read };
        connection.create_scalar_function(name, arguments, PURE, move |context| {
            like(context, read, &writer, &stop, &mut kept.borrow_mut())
        })?;
    }
    Ok(())
}

fn like(
    context: &Context<'_>,
    read: fn(&[u8], Option<&[u8]>) -> Pattern,
    writer: &HelperConnection,
    stop: &StopCheck,
    kept: &mut Kept,
) -> Result<Option<bool>> {
    let text = |number| writer.text(context.get_raw(number));
    let Some(pattern) = text(0)? else { return Ok(None) };
    let escape = match context.len() {
        3 => match text(2)? {
            Some(escape) => Some(escape),
            None => return Ok(None),
        },
        _ => None,
    };
    let escape = escape.as_deref().map(up_to_nul);
    if escape.is_some_and(|escape| escape.is_empty() || char_len(escape) != escape.len()) {
        let why = "ESCAPE expression must be a single character";
        return Err(Error::UserFunctionError(why.into()));
    }
    let Some(text) = text(1)? else { return Ok(None) };
    let same = |(last, its, _): &&(Vec<u8>, Option<Vec<u8>>, Pattern)| {
        **last == *pattern && its.as_deref() == escape
    };
    if let Some((_, _, read)) = kept.last.as_ref().filter(same) {
        return read.is_like(&text, &mut kept.folded, stop).map(Some);
    }
    let read = read(up_to_nul(&pattern), escape);
    let result = read.is_like(&text, &mut kept.folded, stop).map(Some);
    kept.last = Some((pattern.into_owned(), escape.map(<[u8]>::to_vec), read));
    result
}

/// SQLite compares texts up to the first NUL.
fn up_to_nul(text: &[u8]) -> &[u8] {
    &text[..memchr::memchr(0, text).unwrap_or(text.len())]
}

impl Pattern {
    /// A pattern of `LIKE` without an escape character.
    pub(super) fn like(pattern: &[u8]) -> Self {
        Self::read(up_to_nul(pattern), None)
    }

    /// A pattern of `GLOB`.
    pub(super) fn glob(pattern: &[u8]) -> Self {
        Self::read_glob(up_to_nul(pattern), None)
    }

    /// Whether `text` matches; `folded` is a buffer for its lower case. O(text), or with `_`, `?`
    /// or sets O(text * longest piece).
    pub(super) fn is_like(
        &self,
        text: &[u8],
        folded: &mut Vec<u8>,
        stop: &StopCheck,
    ) -> Result<bool> {
        if !self.folds {
            return self.matches(up_to_nul(text), stop);
        }
        folded.clear();
        folded.extend_from_slice(up_to_nul(text));
        folded.make_ascii_lowercase();
        self.matches(folded, stop)
    }

    fn read(pattern: &[u8], escape: Option<&[u8]>) -> Self {
        let (mut pieces, mut piece) = (Vec::new(), Piece::default());
        let mut rest = pattern;
        while let Some(&byte) = rest.first() {
            if let Some(behind) = escape.and_then(|escape| rest.strip_prefix(escape)) {
                if behind.is_empty() {
                    return Self { pieces: Vec::new(), never: true, folds: true };
                }
                let (char, more) = behind.split_at(char_len(behind));
                piece.items.extend(char.iter().map(|byte| Item::Byte(byte.to_ascii_lowercase())));
                rest = more;
                continue;
            }
            match byte {
                b'%' => pieces.push(std::mem::take(&mut piece).finish()),
                b'_' => piece.items.push(Item::Any),
                byte => piece.items.push(Item::Byte(byte.to_ascii_lowercase())),
            }
            rest = &rest[1..];
        }
        pieces.push(piece.finish());
        Self { pieces, never: false, folds: true }
    }

    /// Parses a pattern of `GLOB`, which has no escape character.
    fn read_glob(pattern: &[u8], _: Option<&[u8]>) -> Self {
        let (mut pieces, mut piece) = (Vec::new(), Piece::default());
        let mut rest = pattern;
        while let Some((&byte, behind)) = rest.split_first() {
            rest = behind;
            match byte {
                b'*' => pieces.push(std::mem::take(&mut piece).finish()),
                b'?' => piece.items.push(Item::Any),
                b'[' => {
                    let Some((set, behind)) = Set::read(rest) else {
                        return Self { pieces: Vec::new(), never: true, folds: false };
                    };
                    piece.items.push(Item::Set(Box::new(set)));
                    rest = behind;
                }
                byte => piece.items.push(Item::Byte(byte)),
            }
        }
        pieces.push(piece.finish());
        Self { pieces, never: false, folds: false }
    }

    /// Whether `text` matches. It must be in lower case if the pattern folds.
    fn matches(&self, text: &[u8], stop: &StopCheck) -> Result<bool> {
        let Some((first, rest)) = self.pieces.split_first().filter(|_| !self.never) else {
            return Ok(false);
        };
        let Some(mut at) = first.end_at(text, 0) else { return Ok(false) };
        let Some((last, middle)) = rest.split_last() else { return Ok(at == text.len()) };
        for piece in middle {
            match piece.find(text, at, stop)? {
                Some(end) => at = end,
                None => return Ok(false),
            }
        }
        Ok(last.ends(&text[at..]))
    }
}

impl Piece {
    fn finish(mut self) -> Self {
        let byte = |item: &Item| match item {
            Item::Byte(byte) => Some(*byte),
            Item::Any | Item::Set(_) => None,
        };
        let plain: Option<Vec<u8>> = self.items.iter().map(byte).collect();
        self.plain = plain.map(|plain| Finder::new(&plain).into_owned());
        self
    }

    /// The end of the piece if the text has it at `at`.
    fn end_at(&self, text: &[u8], mut at: usize) -> Option<usize> {
        for item in &self.items {
            let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
            at += match item {
                Item::Byte(byte) if *byte == rest[0] => 1,
                Item::Any => char_len(rest),
                Item::Set(set) if set.has(read_char(rest)) => char_len(rest),
                Item::Byte(_) | Item::Set(_) => return None,
            };
        }
        Some(at)
    }

    /// The end of its first occurrence from `at` on.
    fn find(&self, text: &[u8], mut at: usize, stop: &StopCheck) -> Result<Option<usize>> {
        if let Some(plain) = &self.plain {
            let found = plain.find(&text[at..]);
            return Ok(found.map(|found| at + found + plain.needle().len()));
        }
        let mut steps = 0;
        while at < text.len() {
            if let Some(end) = self.end_at(text, at) {
                return Ok(Some(end));
            }
            at += char_len(&text[at..]);
            steps += self.items.len();
            if steps > STEPS_PER_CHECK {
                steps = 0;
                if stop() {
                    return Err(stopped());
                }
            }
        }
        Ok(None)
    }

    /// Whether `text` ends with it.
    fn ends(&self, text: &[u8]) -> bool {
        if let Some(plain) = &self.plain {
            return text.ends_with(plain.needle());
        }
        let begins = |item: &&Item| !matches!(item, Item::Byte(byte) if continues(*byte));
        let mut left = self.items.iter().filter(begins).count();
        let mut at = text.len();
        while left > 0 && at > 0 {
            at -= 1;
            if !continues(text[at]) {
                left -= 1;
            }
        }
        left == 0 && self.end_at(text, at) == Some(text.len())
    }
}

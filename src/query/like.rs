//! `LIKE`, made anew: SQLite's own takes time exponential in the number of `%` before it gives up.
//!
//! A pattern is cut at its `%`, and each piece is looked for behind the one before it: the first
//! place will do, because nothing is lost by an early one. A piece without `_` is found in O(text);
//! one with `_` in O(text * piece), and that asks now and then whether to stop.

use super::Stop;
use super::rows::stopped;
use super::texts::{PURE, Writer, char_len, continues};
use memchr::memmem;
use rusqlite::functions::Context;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Result};
use std::sync::Arc;

/// Comparisons between two questions whether to stop.
const STEPS: usize = 1 << 16;

/// What one place of a piece stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    /// This byte, a letter in either case.
    Byte(u8),
    /// Any character.
    Any,
}

/// What stands between two `%`.
#[derive(Debug, Default)]
struct Piece {
    items: Vec<Item>,
    /// The bytes, if there is nothing else.
    plain: Option<Vec<u8>>,
}

/// A pattern, read.
#[derive(Debug)]
struct Pattern {
    pieces: Vec<Piece>,
    /// Nothing is like it: it ends with its escape character.
    never: bool,
}

/// Puts the function in the place of SQLite's own.
pub(super) fn register(connection: &Connection, stop: &Stop) -> Result<()> {
    let writer = Writer::new()?;
    let (own, asked) = (writer.clone(), Arc::clone(stop));
    connection.create_scalar_function("like", 2, PURE, move |context| {
        if context.get_raw(0) == ValueRef::Null {
            return Ok(None);
        }
        // Read once, if it is the same for all rows.
        let read = |value: ValueRef<'_>| -> Result<Pattern> {
            Ok(Pattern::read(up_to_nul(&own.text(value)?.unwrap_or_default()), None))
        };
        let pattern = context.get_or_create_aux(0, read)?;
        compare(context, &pattern, &own, &asked)
    })?;
    let asked = Arc::clone(stop);
    connection.create_scalar_function("like", 3, PURE, move |context| {
        let text = |number| writer.text(context.get_raw(number));
        let (Some(pattern), Some(escape)) = (text(0)?, text(2)?) else { return Ok(None) };
        let escape = up_to_nul(&escape);
        if escape.is_empty() || char_len(escape) != escape.len() {
            let why = "ESCAPE expression must be a single character";
            return Err(Error::UserFunctionError(why.into()));
        }
        let pattern = Pattern::read(up_to_nul(&pattern), Some(escape));
        compare(context, &pattern, &writer, &asked)
    })
}

fn compare(
    context: &Context<'_>,
    pattern: &Pattern,
    writer: &Writer,
    stop: &Stop,
) -> Result<Option<bool>> {
    let Some(text) = writer.text(context.get_raw(1))? else { return Ok(None) };
    let text = up_to_nul(&text).to_ascii_lowercase();
    pattern.matches(&text, stop).map(Some)
}

/// SQLite ends texts there when it compares them.
fn up_to_nul(text: &[u8]) -> &[u8] {
    &text[..memchr::memchr(0, text).unwrap_or(text.len())]
}

impl Pattern {
    fn read(pattern: &[u8], escape: Option<&[u8]>) -> Self {
        let (mut pieces, mut piece) = (Vec::new(), Piece::default());
        let mut rest = pattern;
        while let Some(&byte) = rest.first() {
            if let Some(behind) = escape.and_then(|escape| rest.strip_prefix(escape)) {
                if behind.is_empty() {
                    return Self { pieces: Vec::new(), never: true };
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
        Self { pieces, never: false }
    }

    /// Whether `text`, in lower case, is like this.
    fn matches(&self, text: &[u8], stop: &Stop) -> Result<bool> {
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
            Item::Any => None,
        };
        self.plain = self.items.iter().map(byte).collect();
        self
    }

    /// Where the piece ends if it begins at this place.
    fn end_at(&self, text: &[u8], mut at: usize) -> Option<usize> {
        for item in &self.items {
            let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
            at += match *item {
                Item::Byte(byte) if byte == rest[0] => 1,
                Item::Byte(_) => return None,
                Item::Any => char_len(rest),
            };
        }
        Some(at)
    }

    /// Where its first occurrence from this place on ends.
    fn find(&self, text: &[u8], mut at: usize, stop: &Stop) -> Result<Option<usize>> {
        if let Some(plain) = &self.plain {
            return Ok(memmem::find(&text[at..], plain).map(|found| at + found + plain.len()));
        }
        let mut steps = 0;
        while at < text.len() {
            if let Some(end) = self.end_at(text, at) {
                return Ok(Some(end));
            }
            at += char_len(&text[at..]);
            steps += self.items.len();
            if steps > STEPS {
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
            return text.ends_with(plain);
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

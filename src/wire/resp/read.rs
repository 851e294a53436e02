//! RESP token by token.

use super::LINE_MAX;
use super::error::Error;
use memchr::memchr2;

/// A scalar, or the head of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token<'a> {
    /// Null, in any of its forms.
    Null,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// A float; infinite or no number, too.
    Double(f64),
    /// An integer of any length: its digits, perhaps behind a minus.
    BigNumber(&'a [u8]),
    /// A text of one line.
    Simple(&'a [u8]),
    /// Any bytes.
    Bulk(&'a [u8]),
    /// A text in a format that three letters say.
    Verbatim([u8; 3], &'a [u8]),
    /// An error of the server: a code in capital letters, mostly, and a sentence.
    Error(&'a [u8]),
    /// This many values follow.
    Array(u32),
    /// This many values follow, each of them once.
    Set(u32),
    /// This many values follow, and they answer no command.
    Push(u32),
    /// This many pairs of values follow.
    Map(u32),
}

impl Token<'_> {
    /// How many values follow that belong to it.
    #[must_use]
    #[inline]
    pub fn values(self) -> u64 {
        match self {
            Self::Array(count) | Self::Set(count) | Self::Push(count) => count.into(),
            Self::Map(count) => u64::from(count) * 2,
            _ => 0,
        }
    }
}

/// What stands at a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Item<'a> {
    Value(Token<'a>),
    /// This many pairs of values follow, and then the value that they are about.
    Attribute(u32),
}

/// Bytes of the shortest value.
pub(super) const VALUE_MIN: u64 = 3;

/// What is at a place: an item and the place behind it, or as yet nothing whole.
pub(super) enum Found<'a> {
    Item(Item<'a>, usize),
    /// The rest of the line is to come, and it was searched up to this many bytes.
    Line(usize),
    /// The data are to come, up to this place.
    Data(usize),
}

/// The bytes of a value, with their bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) max: usize,
}

impl<'a> Bytes<'a> {
    /// Reads the item at `at`, whose line has no end in its first `searched` bytes. O(line).
    #[inline]
    pub(super) fn item(&self, at: usize, searched: usize) -> Result<Found<'a>, Error> {
        let Some(&first) = self.bytes.get(at) else { return Ok(Found::Line(0)) };
        if !b"+-:,(#_$!=*~>%|".contains(&first) {
            return Err(Error::Unknown { byte: first, at: at + 1 });
        }
        let (line, next) = match self.line(at, searched)? {
            Ok(found) => found,
            Err(searched) => return Ok(Found::Line(searched)),
        };
        if next > self.max {
            return Err(Error::TooLong { at: at + 1, max: self.max });
        }
        let malformed = |what| Error::Malformed { what, at: at + 1 };
        let token = match first {
            b'+' => Token::Simple(line),
            b'-' => Token::Error(line),
            b':' => Token::Integer(integer(line).ok_or_else(|| malformed("integer"))?),
            b',' => Token::Double(double(line).ok_or_else(|| malformed("float"))?),
            b'(' if is_number(line) => Token::BigNumber(line),
            b'(' => return Err(malformed("integer")),
            b'#' if line == b"t" => Token::Bool(true),
            b'#' if line == b"f" => Token::Bool(false),
            b'#' => return Err(malformed("truth value")),
            b'_' if line.is_empty() => Token::Null,
            b'_' => return Err(malformed("null")),
            b'$' | b'*' if line == b"-1" => Token::Null,
            b'$' | b'!' | b'=' => {
                let length = length(line).ok_or_else(|| malformed("length"))?;
                return self.data(at, next, length, first);
            }
            _ => {
                let count = length(line).ok_or_else(|| malformed("number of values"))?;
                return self.aggregate(at, next, count, first);
            }
        };
        Ok(Found::Item(Item::Value(token), next))
    }

    /// The line at `at` without its first byte and its end, and the place behind it; or how many
    /// of its bytes need not be searched again.
    #[inline]
    fn line(&self, at: usize, searched: usize) -> Result<Result<(&'a [u8], usize), usize>, Error> {
        let start = at + 1;
        let end = self.bytes.len().min(start + LINE_MAX + 1);
        let Some(length) = memchr2(b'\r', b'\n', &self.bytes[start + searched..end]) else {
            let searched = end - start;
            if searched > LINE_MAX {
                return Err(Error::LineTooLong { at: at + 1 });
            }
            return Ok(Err(searched));
        };
        let stop = start + searched + length;
        match (self.bytes[stop], self.bytes.get(stop + 1)) {
            (b'\r', None) => Ok(Err(searched + length)),
            (b'\r', Some(b'\n')) => Ok(Ok((&self.bytes[start..stop], stop + 2))),
            _ => Err(Error::LineEnd { at: at + 1 }),
        }
    }

    fn data(&self, at: usize, start: usize, length: u32, kind: u8) -> Result<Found<'a>, Error> {
        let whole = (start + 2).checked_add(length as usize);
        let Some(whole) = whole.filter(|whole| *whole <= self.max) else {
            return Err(Error::TooLong { at: at + 1, max: self.max });
        };
        let Some(data) = self.bytes.get(start..whole) else { return Ok(Found::Data(whole)) };
        let Some(data) = data.strip_suffix(b"\r\n") else {
            return Err(Error::DataEnd { at: at + 1 });
        };
        let token = match kind {
            b'$' => Token::Bulk(data),
            b'!' => Token::Error(data),
            _ => match data {
                [a, b, c, b':', text @ ..] => Token::Verbatim([*a, *b, *c], text),
                _ => return Err(Error::Malformed { what: "format and text", at: at + 1 }),
            },
        };
        Ok(Found::Item(Item::Value(token), whole))
    }

    fn aggregate(&self, at: usize, next: usize, count: u32, kind: u8) -> Result<Found<'a>, Error> {
        let item = match kind {
            b'*' => Item::Value(Token::Array(count)),
            b'~' => Item::Value(Token::Set(count)),
            b'>' => Item::Value(Token::Push(count)),
            b'%' => Item::Value(Token::Map(count)),
            _ => Item::Attribute(count),
        };
        let values = match item {
            Item::Value(token) => token.values(),
            Item::Attribute(pairs) => u64::from(pairs) * 2 + 1,
        };
        if values * VALUE_MIN > (self.max - next) as u64 {
            return Err(Error::TooLong { at: at + 1, max: self.max });
        }
        Ok(Found::Item(item, next))
    }
}

/// A decimal number, at most with one sign in front.
fn is_number(line: &[u8]) -> bool {
    let digits = line.strip_prefix(b"-").or_else(|| line.strip_prefix(b"+")).unwrap_or(line);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

pub(super) fn integer(line: &[u8]) -> Option<i64> {
    // A fast way for the short ones, which are nearly all.
    if let Some(number) = length(line) {
        return Some(number.into());
    }
    std::str::from_utf8(line).ok().filter(|_| is_number(line))?.parse().ok()
}

fn double(line: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(line).ok()?;
    let known = matches!(text, "inf" | "-inf" | "nan" | "-nan");
    let decimal = line.iter().all(|byte| b"0123456789+-.eE".contains(byte));
    if known || decimal { text.parse().ok() } else { None }
}

/// A number of up to nine digits: no value that is taken has more bytes or values.
#[inline]
fn length(line: &[u8]) -> Option<u32> {
    if line.is_empty() || line.len() > 9 {
        return None;
    }
    let mut number = 0;
    for byte in line {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u32::from(digit);
    }
    Some(number)
}

/// Reads one whole value from its front, token by token.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Begins with the first token of a whole value.
    #[inline]
    pub(super) fn new(whole: &'a [u8]) -> Self {
        Self { bytes: whole, at: 0 }
    }

    /// How many bytes have been read.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// What has been read since `start`.
    pub(super) fn since(&self, start: usize) -> &'a [u8] {
        &self.bytes[start..self.at]
    }

    #[inline]
    fn item(&mut self) -> Option<Item<'a>> {
        match (Bytes { bytes: self.bytes, max: self.bytes.len() }).item(self.at, 0) {
            Ok(Found::Item(item, next)) => {
                self.at = next;
                Some(item)
            }
            // It was whole when it was found, so this is its end.
            Ok(Found::Line(_) | Found::Data(_)) | Err(_) => None,
        }
    }

    /// Takes the next token; `None`: there is none. O(line), plus attributes in front of it.
    #[inline]
    pub fn token(&mut self) -> Option<Token<'a>> {
        loop {
            match self.item()? {
                Item::Value(token) => return Some(token),
                Item::Attribute(pairs) => self.skip_values(u64::from(pairs) * 2),
            }
        }
    }

    /// Passes over the next value. O(its lines).
    #[inline]
    pub fn skip(&mut self) {
        self.skip_values(1);
    }

    /// Passes over what is still to come of a value whose head was this token. O(its lines).
    #[inline]
    pub fn skip_rest(&mut self, head: Token<'a>) {
        self.skip_values(head.values());
    }

    /// All bounds were checked when the value was found: the sum of what is to come is one number.
    fn skip_values(&mut self, mut left: u64) {
        while left > 0 {
            match self.item() {
                Some(Item::Value(token)) => left += token.values(),
                Some(Item::Attribute(pairs)) => left += u64::from(pairs) * 2 + 1,
                None => return,
            }
            left -= 1;
        }
    }
}

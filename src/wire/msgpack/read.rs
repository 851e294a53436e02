//! MessagePack token by token.

use super::{DEPTH_MAX, Error};
use rmp::Marker;

/// A scalar, or the head of an array or a map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token<'a> {
    /// Nil.
    Nil,
    /// A truth value.
    Bool(bool),
    /// An integer of 64 bits, with a sign or without.
    Integer(i128),
    /// A float of either length.
    Float(f64),
    /// A text, unless it is not UTF-8.
    String(&'a [u8]),
    /// Bytes.
    Binary(&'a [u8]),
    /// An extension: its type and its data.
    Ext(i8, &'a [u8]),
    /// This many values follow.
    Array(u32),
    /// This many pairs of values follow.
    Map(u32),
}

impl Token<'_> {
    /// How many values follow that belong to it.
    pub(super) fn values(self) -> Option<u64> {
        match self {
            Self::Array(count) => Some(count.into()),
            Self::Map(count) => Some(u64::from(count) * 2),
            _ => None,
        }
    }
}

/// A place in bytes that are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How many bytes have been read.
    #[inline]
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// What has been read since `start`.
    pub(super) fn since(&self, start: usize) -> &'a [u8] {
        &self.bytes[start..self.at]
    }

    /// There must be nothing more.
    pub(super) fn end(&self) -> Result<(), Error> {
        if self.at < self.bytes.len() {
            return Err(Error::Trailing { at: self.at + 1 });
        }
        Ok(())
    }

    /// Takes the next token. O(1).
    #[inline]
    pub(super) fn token(&mut self) -> Result<Token<'a>, Error> {
        let Some(&first) = self.bytes.get(self.at) else {
            return Err(self.ends());
        };
        let marker = Marker::from_u8(first);
        let mut head = Head { start: self.at, what: what(marker), reader: self };
        head.reader.at += 1;
        match marker {
            Marker::Null => Ok(Token::Nil),
            Marker::True => Ok(Token::Bool(true)),
            Marker::False => Ok(Token::Bool(false)),
            Marker::FixPos(number) => Ok(Token::Integer(number.into())),
            Marker::FixNeg(number) => Ok(Token::Integer(number.into())),
            Marker::U8 => Ok(Token::Integer(head.array().map(u8::from_be_bytes)?.into())),
            Marker::U16 => Ok(Token::Integer(head.array().map(u16::from_be_bytes)?.into())),
            Marker::U32 => Ok(Token::Integer(head.array().map(u32::from_be_bytes)?.into())),
            Marker::U64 => Ok(Token::Integer(head.array().map(u64::from_be_bytes)?.into())),
            Marker::I8 => Ok(Token::Integer(head.array().map(i8::from_be_bytes)?.into())),
            Marker::I16 => Ok(Token::Integer(head.array().map(i16::from_be_bytes)?.into())),
            Marker::I32 => Ok(Token::Integer(head.array().map(i32::from_be_bytes)?.into())),
            Marker::I64 => Ok(Token::Integer(head.array().map(i64::from_be_bytes)?.into())),
            Marker::F32 => Ok(Token::Float(head.array().map(f32::from_be_bytes)?.into())),
            Marker::F64 => Ok(Token::Float(head.array().map(f64::from_be_bytes)?)),
            Marker::FixStr(length) => head.take(length.into()).map(Token::String),
            Marker::Str8 => head.bytes(1).map(Token::String),
            Marker::Str16 => head.bytes(2).map(Token::String),
            Marker::Str32 => head.bytes(4).map(Token::String),
            Marker::Bin8 => head.bytes(1).map(Token::Binary),
            Marker::Bin16 => head.bytes(2).map(Token::Binary),
            Marker::Bin32 => head.bytes(4).map(Token::Binary),
            Marker::FixExt1 => head.ext(1),
            Marker::FixExt2 => head.ext(2),
            Marker::FixExt4 => head.ext(4),
            Marker::FixExt8 => head.ext(8),
            Marker::FixExt16 => head.ext(16),
            Marker::Ext8 => head.length(1).and_then(|length| head.ext(length)),
            Marker::Ext16 => head.length(2).and_then(|length| head.ext(length)),
            Marker::Ext32 => head.length(4).and_then(|length| head.ext(length)),
            Marker::FixArray(count) => head.array_of(count.into()),
            Marker::Array16 => head.length(2).and_then(|count| head.array_of(count)),
            Marker::Array32 => head.length(4).and_then(|count| head.array_of(count)),
            Marker::FixMap(count) => head.map_of(count.into()),
            Marker::Map16 => head.length(2).and_then(|count| head.map_of(count)),
            Marker::Map32 => head.length(4).and_then(|count| head.map_of(count)),
            Marker::Reserved => Err(Error::Reserved { at: self.at }),
        }
    }

    #[cold]
    fn ends(&self) -> Error {
        match self.at {
            0 => Error::Empty,
            length => Error::Missing { length },
        }
    }

    /// Passes over one value that stands within `depth` arrays and maps. O(value).
    #[inline]
    pub(super) fn skip(&mut self, depth: usize) -> Result<(), Error> {
        let start = self.at;
        let token = self.token()?;
        self.skip_rest(token, start, depth)
    }

    /// Passes over what is still to come of a value whose head was this one, at `start`. O(value).
    #[inline]
    pub(super) fn skip_rest(
        &mut self,
        head: Token<'_>,
        start: usize,
        depth: usize,
    ) -> Result<(), Error> {
        match head.values() {
            Some(values) => self.skip_values(values, start, depth + 1),
            None => Ok(()),
        }
    }

    fn skip_values(&mut self, values: u64, start: usize, depth: usize) -> Result<(), Error> {
        check_depth(depth, start)?;
        // How many values are to come in the innermost array or map, and in those around it.
        let mut left = values;
        let mut around: Vec<u64> = Vec::new();
        loop {
            if left == 0 {
                match around.pop() {
                    None => return Ok(()),
                    Some(outer) => left = outer,
                }
                continue;
            }
            left -= 1;
            let start = self.at;
            if let Some(values) = self.token()?.values() {
                around.push(left);
                check_depth(depth + around.len(), start)?;
                left = values;
            }
        }
    }
}

/// Whether something at `start` may stand at this level.
#[inline]
pub(super) fn check_depth(depth: usize, start: usize) -> Result<(), Error> {
    if depth > DEPTH_MAX {
        return Err(Error::TooDeep { at: start + 1 });
    }
    Ok(())
}

/// A value whose marker has been read, for reading on.
struct Head<'r, 'a> {
    reader: &'r mut Reader<'a>,
    start: usize,
    what: &'static str,
}

impl<'a> Head<'_, 'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let rest = &self.reader.bytes[self.reader.at..];
        let Some(bytes) = rest.first_chunk::<N>() else { return Err(self.cut()) };
        self.reader.at += N;
        Ok(*bytes)
    }

    #[cold]
    fn cut(&self) -> Error {
        let length = self.reader.bytes.len();
        Error::Cut { what: self.what, at: self.start + 1, length }
    }

    #[cold]
    fn promise(&self, promised: u32) -> Error {
        let left = self.reader.bytes.len() - self.reader.at;
        Error::Promise { what: self.what, at: self.start + 1, promised, left }
    }

    /// A length in this many bytes.
    fn length(&mut self, width: usize) -> Result<u32, Error> {
        match width {
            1 => Ok(self.array().map(u8::from_be_bytes)?.into()),
            2 => Ok(self.array().map(u16::from_be_bytes)?.into()),
            _ => self.array().map(u32::from_be_bytes),
        }
    }

    fn take(&mut self, length: u32) -> Result<&'a [u8], Error> {
        let bytes: &'a [u8] = &self.reader.bytes[self.reader.at..];
        match bytes.get(..length as usize) {
            None => Err(self.promise(length)),
            Some(taken) => {
                self.reader.at += taken.len();
                Ok(taken)
            }
        }
    }

    fn bytes(&mut self, width: usize) -> Result<&'a [u8], Error> {
        let length = self.length(width)?;
        self.take(length)
    }

    fn ext(&mut self, length: u32) -> Result<Token<'a>, Error> {
        let kind = self.array().map(i8::from_be_bytes)?;
        Ok(Token::Ext(kind, self.take(length)?))
    }

    fn array_of(&self, count: u32) -> Result<Token<'a>, Error> {
        self.check_room(count, count.into())?;
        Ok(Token::Array(count))
    }

    fn map_of(&self, count: u32) -> Result<Token<'a>, Error> {
        self.check_room(count, u64::from(count) * 2)?;
        Ok(Token::Map(count))
    }

    /// A value takes a byte at least.
    fn check_room(&self, promised: u32, values: u64) -> Result<(), Error> {
        let left = self.reader.bytes.len() - self.reader.at;
        if values > left as u64 {
            return Err(self.promise(promised));
        }
        Ok(())
    }
}

/// What begins with a marker.
fn what(marker: Marker) -> &'static str {
    match marker {
        Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => "string",
        Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => "binary",
        Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => "array",
        Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => "map",
        Marker::FixExt1
        | Marker::FixExt2
        | Marker::FixExt4
        | Marker::FixExt8
        | Marker::FixExt16
        | Marker::Ext8
        | Marker::Ext16
        | Marker::Ext32 => "extension",
        _ => "number",
    }
}

//! Values as bytes: the trait, the macros of the tables, and what is common to all of them.
//!
//! Numbers are LEB128, signed ones zigzag; texts and lists stand behind their lengths; a moment of
//! the monotonic clock is the time from now on.

use super::error::WordsError;
use super::scratch::Scratch;
use crate::base::time::Mono;
use std::cmp::Reverse;
use std::sync::Arc;

pub(super) type Read<T> = Result<T, WordsError>;

/// Where values are written.
pub(super) struct Writer<'o> {
    pub(super) out: &'o mut Vec<u8>,
    pub(super) now: Mono,
}

impl Writer<'_> {
    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.out.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.out.push(number.to_le_bytes()[0]);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }
}

/// What is left of the bytes, and where that is kept which they cannot lend.
pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
    pub(super) scratch: &'a Scratch,
    pub(super) now: Mono,
}

impl<'a> Reader<'a> {
    pub(super) fn byte(&mut self) -> Read<u8> {
        let (&byte, rest) = self.rest.split_first().ok_or(WordsError::Malformed)?;
        self.rest = rest;
        Ok(byte)
    }

    pub(super) fn number(&mut self) -> Read<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(WordsError::Malformed);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(WordsError::Malformed)
    }

    pub(super) fn bytes(&mut self) -> Read<&'a [u8]> {
        let length = usize::try_from(self.number()?).map_err(|_| WordsError::Malformed)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(WordsError::Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(super) fn text(&mut self) -> Read<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| WordsError::Malformed)
    }

    /// The length of a list. An element takes a byte at least, so that this bounds the memory.
    pub(super) fn count(&mut self) -> Read<usize> {
        let count = usize::try_from(self.number()?).map_err(|_| WordsError::Malformed)?;
        if count > self.rest.len() { Err(WordsError::Malformed) } else { Ok(count) }
    }
}

/// A value that is written and read.
pub(super) trait Word<'a>: Sized {
    fn put(&self, w: &mut Writer<'_>);
    fn get(r: &mut Reader<'a>) -> Read<Self>;
}

/// A structure: all of its fields, in this order. One that is missing does not compile.
macro_rules! record {
    ($($type:ty { $($field:ident),* $(,)? })*) => { $(
        impl<'a> Word<'a> for $type {
            fn put(&self, w: &mut Writer<'_>) {
                let Self { $($field),* } = self;
                $($field.put(w);)*
            }
            fn get(r: &mut Reader<'a>) -> Read<Self> {
                Ok(Self { $($field: Word::get(r)?),* })
            }
        }
    )* };
}

/// An enum: a byte for each variant, and its fields. A variant that is missing does not compile.
macro_rules! union {
    ($($type:ty { $(
        $tag:literal $name:ident $(($($at:ident),*))? $({$($field:ident),*})?
    ),* $(,)? })*) => { $(
        impl<'a> Word<'a> for $type {
            fn put(&self, w: &mut Writer<'_>) {
                match self { $(
                    Self::$name $(($($at),*))? $({$($field),*})? => {
                        w.out.push($tag);
                        $($($at.put(w);)*)? $($($field.put(w);)*)?
                    }
                )* }
            }
            fn get(r: &mut Reader<'a>) -> Read<Self> {
                Ok(match r.byte()? {
                    $($tag => {
                        $($(let $at = Word::get(r)?;)*)? $($(let $field = Word::get(r)?;)*)?
                        Self::$name $(($($at),*))? $({$($field),*})?
                    })*
                    tag => return Err(WordsError::UnknownTag(tag)),
                })
            }
        }
    )* };
}

macro_rules! newtype {
    ($($type:ty),* $(,)?) => { $(
        impl<'a> Word<'a> for $type {
            fn put(&self, w: &mut Writer<'_>) {
                self.0.put(w);
            }
            fn get(r: &mut Reader<'a>) -> Read<Self> {
                Word::get(r).map(Self)
            }
        }
    )* };
}

pub(super) use {newtype, record, union};

macro_rules! numbers {
    ($($type:ty),*) => { $(
        impl<'a> Word<'a> for $type {
            fn put(&self, w: &mut Writer<'_>) {
                w.number(u64::try_from(*self).unwrap_or(u64::MAX));
            }
            fn get(r: &mut Reader<'a>) -> Read<Self> {
                Self::try_from(r.number()?).map_err(|_| WordsError::Malformed)
            }
        }
    )* };
}
numbers!(u16, u32, u64, usize);

impl<'a> Word<'a> for i64 {
    fn put(&self, w: &mut Writer<'_>) {
        w.number((self << 1 ^ (self >> 63)).cast_unsigned());
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        let number = r.number()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }
}

impl<'a> Word<'a> for i128 {
    fn put(&self, w: &mut Writer<'_>) {
        w.out.extend_from_slice(&self.to_le_bytes());
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        let (bytes, rest) = r.rest.split_first_chunk().ok_or(WordsError::Malformed)?;
        r.rest = rest;
        Ok(Self::from_le_bytes(*bytes))
    }
}

impl<'a> Word<'a> for bool {
    fn put(&self, w: &mut Writer<'_>) {
        w.out.push(u8::from(*self));
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        match r.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            tag => Err(WordsError::UnknownTag(tag)),
        }
    }
}

impl<'a> Word<'a> for Mono {
    fn put(&self, w: &mut Writer<'_>) {
        self.0.wrapping_sub(w.now.0).cast_signed().put(w);
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        let ahead = i64::get(r)?;
        Ok(Self(r.now.0.saturating_add_signed(ahead)))
    }
}

/// Texts and bytes of all kinds: how they are seen, and how they are made.
macro_rules! strings {
    ($($type:ty, $read:ident, $put:expr;)*) => { $(
        impl<'a> Word<'a> for $type {
            fn put(&self, w: &mut Writer<'_>) {
                let as_bytes: fn(&Self) -> &[u8] = $put;
                w.bytes(as_bytes(self));
            }
            fn get(r: &mut Reader<'a>) -> Read<Self> {
                r.$read().map(Into::into)
            }
        }
    )* };
}
strings! {
    &'a [u8], bytes, |bytes| bytes;
    Box<[u8]>, bytes, |bytes| bytes;
    Arc<[u8]>, bytes, |bytes| bytes;
    Vec<u8>, bytes, |bytes| bytes;
    &'a str, text, |text| text.as_bytes();
    Box<str>, text, |text| text.as_bytes();
    String, text, |text| text.as_bytes();
}

impl<'a, T: Word<'a>> Word<'a> for Option<T> {
    fn put(&self, w: &mut Writer<'_>) {
        w.out.push(u8::from(self.is_some()));
        if let Some(value) = self {
            value.put(w);
        }
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        if bool::get(r)? { T::get(r).map(Some) } else { Ok(None) }
    }
}

pub(super) fn put_list<'a, T: Word<'a>>(list: &[T], w: &mut Writer<'_>) {
    w.number(list.len() as u64);
    for value in list {
        value.put(w);
    }
}

impl<'a, T: Word<'a>> Word<'a> for Vec<T> {
    fn put(&self, w: &mut Writer<'_>) {
        put_list(self, w);
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        let count = r.count()?;
        (0..count).map(|_| T::get(r)).collect()
    }
}

macro_rules! wrapped {
    ($($type:ty, $inner:ty, [$($put:tt)*], $make:expr;)*) => { $(
        impl<'a, T: Word<'a>> Word<'a> for $type {
            fn put(&self, w: &mut Writer<'_>) {
                let it = self;
                $($put)*(it, w);
            }
            fn get(r: &mut Reader<'a>) -> Read<Self> {
                <$inner>::get(r).map($make)
            }
        }
    )* };
}
wrapped! {
    Box<[T]>, Vec<T>, [put_list], Vec::into_boxed_slice;
    Arc<[T]>, Vec<T>, [put_list], Arc::from;
    Box<T>, T, [T::put], Box::new;
    Arc<T>, T, [T::put], Arc::new;
}

impl<'a, T: Word<'a>> Word<'a> for Reverse<T> {
    fn put(&self, w: &mut Writer<'_>) {
        self.0.put(w);
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        T::get(r).map(Reverse)
    }
}

impl<'a, A: Word<'a>, B: Word<'a>> Word<'a> for (A, B) {
    fn put(&self, w: &mut Writer<'_>) {
        self.0.put(w);
        self.1.put(w);
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        Ok((A::get(r)?, B::get(r)?))
    }
}

impl<'a, T: Word<'a> + Copy + Default, const N: usize> Word<'a> for [T; N] {
    fn put(&self, w: &mut Writer<'_>) {
        for value in self {
            value.put(w);
        }
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        let mut values = [T::default(); N];
        for value in &mut values {
            *value = T::get(r)?;
        }
        Ok(values)
    }
}

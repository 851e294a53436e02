//! Parts that are made when they are read and kept in a [`Scratch`](super::Scratch).

use super::error::WordsError;
use super::scratch::with_kept_types;
use super::value::{Read, Reader, Word, Writer, put_list};
use crate::base::strings::{StringList, Strings};
use std::cell::OnceCell;

macro_rules! kept {
    ($($one:ident: $type:ty,)* ; $($many:ident: $element:ty,)*) => {
        $(impl<'a> Word<'a> for &'a $type {
            fn put(&self, w: &mut Writer<'_>) {
                <$type>::put(self, w);
            }
            fn get(r: &mut Reader<'a>) -> Read<Self> {
                let value = Word::get(r)?;
                keep(&r.scratch.$one, value)
            }
        })*
        $(impl<'a> Word<'a> for &'a [$element] {
            fn put(&self, w: &mut Writer<'_>) {
                put_list(self, w);
            }
            fn get(r: &mut Reader<'a>) -> Read<Self> {
                let values = Word::get(r)?;
                keep(&r.scratch.$many, values)
            }
        })*
    };
}

with_kept_types! { kept }

/// Nothing is kept twice: no command and no reply has two parts of a kind.
fn keep<T: ?Sized>(place: &OnceCell<Box<T>>, value: Box<T>) -> Read<&T> {
    place.set(value).map_err(|_| WordsError::Malformed)?;
    place.get().map(|value| &**value).ok_or(WordsError::Malformed)
}

impl<'a> Word<'a> for StringList {
    fn put(&self, w: &mut Writer<'_>) {
        self.from(0).put(w);
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        let mut list = Self::default();
        for _ in 0..r.count()? {
            list.push(r.bytes()?);
        }
        Ok(list)
    }
}

impl<'a> Word<'a> for &'a StringList {
    fn put(&self, w: &mut Writer<'_>) {
        self.from(0).put(w);
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        let list = Word::get(r)?;
        keep(&r.scratch.names, list)
    }
}

impl<'a> Word<'a> for Strings<'a> {
    fn put(&self, w: &mut Writer<'_>) {
        w.number(self.len() as u64);
        self.into_iter().for_each(|string| w.bytes(string));
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        let list = Word::get(r)?;
        keep(&r.scratch.strings, list).map(|list| list.from(0))
    }
}

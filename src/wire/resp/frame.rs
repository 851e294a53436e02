//! Finding whole values in a stream.

use super::read::{Bytes, Found, Item};
use super::{DEPTH_MAX, Error, Raw};
use crate::base::buf::Input;

/// Where in an unfinished value the search is: a few numbers, no bytes.
#[derive(Clone, Debug)]
pub struct Framer {
    /// Bytes of the longest value.
    max: usize,
    /// Where the next item begins.
    at: usize,
    /// How many bytes of its line need not be searched again.
    searched: usize,
    /// How many bytes there must be before it is worth while to look again.
    wanted: usize,
    /// How many values are to come in the innermost aggregate; at the begin the value itself.
    left: u64,
    /// The same of those around it.
    around: [u64; DEPTH_MAX],
    depth: usize,
}

impl Framer {
    /// Takes values of at most `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { max, at: 0, searched: 0, wanted: 1, left: 1, around: [0; DEPTH_MAX], depth: 0 }
    }

    /// Forgets the unfinished value: another connection begins.
    pub fn clear(&mut self) {
        *self = Self::new(self.max);
    }

    /// How many unread bytes there must be at least before [`Self::next`] can find a value.
    #[must_use]
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// Takes the next value, if it is there whole; else nothing is consumed, and the same bytes are
    /// to be offered again, with later ones behind them. O(lines of the value) in all.
    ///
    /// # Errors
    /// Says what is wrong. Nothing can be told of what follows, and the error stays.
    #[inline]
    pub fn next<'a>(&mut self, input: &mut Input<'a>) -> Result<Option<Raw<'a>>, Error> {
        let unread = input.unread();
        if unread.len() < self.wanted {
            return Ok(None);
        }
        let bytes = Bytes { bytes: unread, max: self.max };
        while self.left > 0 {
            match bytes.item(self.at, self.searched)? {
                Found::Item(item, next) => self.pass(item, next)?,
                Found::Line(searched) => {
                    self.searched = searched;
                    self.wanted = unread.len() + 1;
                    return Ok(None);
                }
                Found::Data(end) => {
                    self.wanted = end;
                    return Ok(None);
                }
            }
        }
        let length = self.at;
        self.clear();
        input.consume(length);
        Ok(Some(Raw::whole(&unread[..length])))
    }

    #[inline]
    fn pass(&mut self, item: Item<'_>, next: usize) -> Result<(), Error> {
        let inner = match item {
            Item::Value(token) => token.values(),
            // The value behind it is still to come.
            Item::Attribute(pairs) => {
                self.left += 1;
                u64::from(pairs) * 2
            }
        };
        if inner > 0 {
            if self.depth == DEPTH_MAX {
                return Err(Error::TooDeep { at: self.at + 1 });
            }
            self.around[self.depth] = self.left - 1;
            self.depth += 1;
            self.left = inner;
        } else {
            self.left -= 1;
        }
        while self.left == 0 && self.depth > 0 {
            self.depth -= 1;
            self.left = self.around[self.depth];
        }
        self.at = next;
        self.searched = 0;
        Ok(())
    }
}

//! Values as their bytes, parsed only where needed.

use super::read::{Reader, Token, integer};

/// One whole value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw<'a>(&'a [u8]);

impl<'a> Raw<'a> {
    /// What a framer, or a reader of such a value, has found.
    pub(super) fn whole(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Its bytes, attributes in front included.
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// What it is, or what it begins with. O(line).
    #[must_use]
    #[inline]
    pub fn token(self) -> Token<'a> {
        // It was whole when it was made: it has a first token.
        self.reader().token().unwrap_or(Token::Null)
    }

    /// For reading it token by token.
    #[must_use]
    #[inline]
    pub fn reader(self) -> Reader<'a> {
        Reader::new(self.0)
    }

    /// Whether it answers no command.
    #[must_use]
    pub fn is_push(self) -> bool {
        matches!(self.token(), Token::Push(_))
    }

    /// Whether it is null.
    #[must_use]
    pub fn is_null(self) -> bool {
        matches!(self.token(), Token::Null)
    }

    /// Its bytes, if it is a string of any kind.
    #[must_use]
    pub fn data(self) -> Option<&'a [u8]> {
        match self.token() {
            Token::Simple(data) | Token::Bulk(data) | Token::Verbatim(_, data) => Some(data),
            _ => None,
        }
    }

    /// The number, if it is an integer or a string that is one.
    #[must_use]
    pub fn integer(self) -> Option<i64> {
        match self.token() {
            Token::Integer(number) => Some(number),
            Token::Simple(text) | Token::Bulk(text) | Token::BigNumber(text) => integer(text),
            _ => None,
        }
    }

    /// If it is an error: its code, the first word, and the whole text.
    #[must_use]
    pub fn error(self) -> Option<(&'a [u8], &'a [u8])> {
        match self.token() {
            Token::Error(text) => {
                let end = memchr::memchr(b' ', text).unwrap_or(text.len());
                Some((&text[..end], text))
            }
            _ => None,
        }
    }

    /// The values of an array, a set or a push, keys and values of a map by turns; none of anything
    /// else.
    #[must_use]
    pub fn elements(self) -> Elements<'a> {
        let mut reader = self.reader();
        let left = reader.token().map_or(0, Token::values);
        Elements { reader, left }
    }

    /// The pairs of a map, or of an array, which is what a map is in RESP2; none of anything else.
    #[must_use]
    pub fn entries(self) -> Entries<'a> {
        Entries(self.elements())
    }
}

/// Values of an aggregate: each O(its lines).
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    reader: Reader<'a>,
    left: u64,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Raw<'a>;

    #[inline]
    fn next(&mut self) -> Option<Raw<'a>> {
        self.left = self.left.checked_sub(1)?;
        let start = self.reader.at();
        self.reader.skip();
        Some(Raw(self.reader.since(start)))
    }
}

/// Pairs of an aggregate: each O(its lines).
#[derive(Clone, Debug)]
pub struct Entries<'a>(Elements<'a>);

impl<'a> Iterator for Entries<'a> {
    type Item = (Raw<'a>, Raw<'a>);

    #[inline]
    fn next(&mut self) -> Option<(Raw<'a>, Raw<'a>)> {
        Some((self.0.next()?, self.0.next()?))
    }
}

//! Values as their bytes, parsed only where needed.

use super::Error;
use super::read::{Reader, Token};
use crate::wire::{Found, Leaf, Paths};
use std::borrow::Cow;

/// One whole value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw<'a>(&'a [u8]);

impl<'a> Raw<'a> {
    /// Nil.
    pub const NIL: Raw<'static> = Raw(&[0xc0]);

    /// Checks that `bytes` are one whole value and nothing else. O(bytes).
    ///
    /// # Errors
    /// Says why not, and where.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes);
        reader.skip(0)?;
        reader.end()?;
        Ok(Self(bytes))
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// What it is, or what it begins with. O(1).
    #[must_use]
    pub fn token(self) -> Token<'a> {
        // It was whole when it was made: no error can come of it.
        Reader::new(self.0).token().unwrap_or(Token::Nil)
    }

    /// Its text, if it is a string of UTF-8. O(bytes).
    #[must_use]
    pub fn text(self) -> Option<&'a str> {
        match self.token() {
            Token::String(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The values of an array; none of anything else.
    #[must_use]
    pub fn elements(self) -> Elements<'a> {
        let mut reader = Reader::new(self.0);
        match reader.token() {
            Ok(Token::Array(left)) => Elements { reader, left: left.into() },
            _ => Elements { reader, left: 0 },
        }
    }

    /// The keys and values of a map, in their order; none of anything else.
    #[must_use]
    pub fn entries(self) -> Entries<'a> {
        let mut reader = Reader::new(self.0);
        match reader.token() {
            Ok(head @ Token::Map(_)) => {
                Entries(Elements { reader, left: head.values().unwrap_or(0) })
            }
            _ => Entries(Elements { reader, left: 0 }),
        }
    }

    /// As a value that can be compared. O(bytes).
    #[must_use]
    pub fn leaf(self) -> Leaf<'a> {
        match self.token() {
            Token::Nil => Leaf::Nil,
            Token::Bool(value) => Leaf::Bool(value),
            Token::Integer(number) => Leaf::Integer(number),
            Token::Float(number) => Leaf::Float(number),
            Token::String(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Leaf::Text(Cow::Borrowed(text)),
                Err(_) => Leaf::Other(self.0),
            },
            Token::Binary(_) | Token::Ext(..) | Token::Array(_) | Token::Map(_) => {
                Leaf::Other(self.0)
            }
        }
    }
}

/// The values of an array: each O(its bytes).
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    reader: Reader<'a>,
    left: u64,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Raw<'a>;

    fn next(&mut self) -> Option<Raw<'a>> {
        self.left = self.left.checked_sub(1)?;
        let start = self.reader.at();
        self.reader.skip(0).ok()?;
        Some(Raw(self.reader.since(start)))
    }
}

/// The pairs of a map: each O(its bytes).
#[derive(Clone, Debug)]
pub struct Entries<'a>(Elements<'a>);

impl<'a> Iterator for Entries<'a> {
    type Item = (Raw<'a>, Raw<'a>);

    fn next(&mut self) -> Option<(Raw<'a>, Raw<'a>)> {
        Some((self.0.next()?, self.0.next()?))
    }
}

/// Reads `bytes` as one map and nothing else, and puts the values of wanted keys into `values` by
/// their numbers, where all were `None`; of a key that is there twice the last one counts. Only
/// strings are wanted keys. O(bytes).
///
/// # Errors
/// Says why `bytes` are no map, and where.
pub fn read_map<'a, const N: usize>(
    bytes: &'a [u8],
    number: impl Fn(&'a [u8]) -> Option<usize>,
    values: &mut [Option<Raw<'a>>; N],
) -> Result<(), Error> {
    let mut reader = Reader::new(bytes);
    let head = reader.token()?;
    let Token::Map(pairs) = head else {
        reader.skip_rest(head, 0, 0)?;
        reader.end()?;
        return Err(Error::NotMap { what: kind(head) });
    };
    for _ in 0..pairs {
        let start = reader.at();
        let key = reader.token()?;
        reader.skip_rest(key, start, 1)?;
        let wanted = if let Token::String(name) = key { number(name) } else { None };
        let start = reader.at();
        reader.skip(1)?;
        if let Some(number) = wanted {
            values[number] = Some(Raw(reader.since(start)));
        }
    }
    reader.end()
}

fn kind(token: Token<'_>) -> &'static str {
    match token {
        Token::Nil => "nil",
        Token::Bool(_) => "a boolean",
        Token::Integer(_) => "an integer",
        Token::Float(_) => "a float",
        Token::String(_) => "a string",
        Token::Binary(_) => "binary",
        Token::Ext(..) => "an extension",
        Token::Array(_) => "an array",
        Token::Map(_) => "a map",
    }
}

/// What stands at the end of a path of keys, from the outside in; of a key that is there twice the
/// last one counts, and only strings are keys. Nothing in bytes that are not MessagePack up to
/// there. O(bytes).
#[must_use]
pub fn at<'a, K: AsRef<str>>(bytes: &'a [u8], path: &[K]) -> Option<Leaf<'a>> {
    let mut paths = Paths::default();
    paths.add(path);
    find(bytes, &paths).at(&paths, path).cloned()
}

/// What stands at many places, as [`at`] finds it at each; nothing in bytes that are not
/// MessagePack. O(bytes * log of the keys that are neighbours, and all keys of paths).
#[must_use]
pub fn find<'a>(bytes: &'a [u8], paths: &Paths) -> Found<'a> {
    let mut found = Found::nothing(paths);
    match walk(bytes, paths, &mut found) {
        Some(()) => found,
        None => Found::nothing(paths),
    }
}

fn walk<'a>(bytes: &'a [u8], paths: &Paths, found: &mut Found<'a>) -> Option<()> {
    let mut reader = Reader::new(bytes);
    // The maps of paths that we are in, where they began, and how many pairs are to come.
    let mut open = Vec::new();
    let mut node = Paths::ROOT;
    loop {
        let start = reader.at();
        found.begin(node, start);
        let head = reader.token().ok()?;
        match head {
            Token::Map(pairs) if paths.leads_on(node) => open.push((node, start, pairs)),
            _ => {
                reader.skip_rest(head, start, open.len()).ok()?;
                found.set(paths, node, || Raw(reader.since(start)).leaf());
            }
        }
        node = loop {
            let depth = open.len();
            let Some((around, start, pairs)) = open.last_mut() else { return Some(()) };
            if *pairs == 0 {
                found.set(paths, *around, || Raw(reader.since(*start)).leaf());
                open.pop();
                continue;
            }
            *pairs -= 1;
            let start = reader.at();
            let key = reader.token().ok()?;
            reader.skip_rest(key, start, depth).ok()?;
            let Token::String(name) = key else {
                reader.skip(depth).ok()?;
                continue;
            };
            match paths.child(*around, name) {
                Some(child) => break child,
                None => reader.skip(depth).ok()?,
            }
        };
    }
}

//! Lists of byte strings packed into two reused arrays: a request that names a hundred queues
//! allocates nothing.

/// Concatenated byte strings, reusable after a clear.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StringList {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl StringList {
    /// Forgets all strings and keeps the memory, unless one huge request made it huge.
    pub fn clear(&mut self) {
        const KEPT: usize = 64 * 1024;
        if self.bytes.capacity() > KEPT || self.ends.capacity() > KEPT {
            *self = Self::default();
        }
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds a string at the end.
    ///
    /// # Panics
    /// If all strings together exceed 4 GiB: they come from one request, which is far shorter.
    pub fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        let end = u32::try_from(self.bytes.len()).expect("one request is shorter than 4 GiB");
        self.ends.push(end);
    }

    /// How many strings there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The number of the first string that equals `string`. O(strings).
    #[must_use]
    pub fn position(&self, string: &[u8]) -> Option<usize> {
        self.iter().position(|known| known == string)
    }

    /// Takes one string out; those behind it move up. O(bytes).
    ///
    /// # Panics
    /// If there are fewer.
    pub fn remove(&mut self, number: usize) {
        let start = match number.checked_sub(1) {
            Some(before) => self.ends[before],
            None => 0,
        };
        let end = self.ends.remove(number);
        self.bytes.drain(start as usize..end as usize);
        for behind in &mut self.ends[number..] {
            *behind -= end - start;
        }
    }

    /// How many bytes all strings have together.
    #[must_use]
    pub fn total(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets all strings from number `count` on.
    pub fn truncate(&mut self, count: usize) {
        self.ends.truncate(count);
        let end = self.ends.last().map_or(0, |&end| end as usize);
        self.bytes.truncate(end);
    }

    /// All strings.
    #[must_use]
    pub fn iter(&self) -> StringsIter<'_> {
        self.from(0).into_iter()
    }

    /// The strings from number `first` on.
    ///
    /// # Panics
    /// If there are fewer than `first` strings.
    #[must_use]
    pub fn from(&self, first: usize) -> Strings<'_> {
        self.range(first..self.ends.len())
    }

    /// The strings with these numbers.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn range(&self, numbers: std::ops::Range<usize>) -> Strings<'_> {
        let start = match numbers.start.checked_sub(1) {
            Some(before) => self.ends[before],
            None => 0,
        };
        Strings { bytes: &self.bytes, ends: &self.ends[numbers], start }
    }
}

impl<'a> IntoIterator for &'a StringList {
    type Item = &'a [u8];
    type IntoIter = StringsIter<'a>;

    fn into_iter(self) -> StringsIter<'a> {
        self.iter()
    }
}

/// A run of byte strings, borrowed from a [`StringList`].
#[derive(Clone, Copy, Debug)]
pub struct Strings<'a> {
    bytes: &'a [u8],
    ends: &'a [u32],
    start: u32,
}

impl Strings<'_> {
    /// How many strings there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

impl<'a> IntoIterator for Strings<'a> {
    type Item = &'a [u8];
    type IntoIter = StringsIter<'a>;

    #[inline]
    fn into_iter(self) -> StringsIter<'a> {
        StringsIter(self)
    }
}

/// Iterator over a run of byte strings.
#[derive(Debug)]
pub struct StringsIter<'a>(Strings<'a>);

impl<'a> Iterator for StringsIter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let strings = &mut self.0;
        let (&end, rest) = strings.ends.split_first()?;
        let string = &strings.bytes[strings.start as usize..end as usize];
        (strings.start, strings.ends) = (end, rest);
        Some(string)
    }
}

#[cfg(test)]
mod tests {
    use super::{StringList, Strings};

    fn all(strings: Strings<'_>) -> Vec<&[u8]> {
        strings.into_iter().collect()
    }

    #[test]
    fn strings_come_back_in_order_and_by_range() {
        let mut list = StringList::default();
        for string in ["a", "", "queue"] {
            list.push(string.as_bytes());
        }
        assert_eq!(all(list.from(0)), [&b"a"[..], b"", b"queue"]);
        assert_eq!(all(list.range(1..3)), [&b""[..], b"queue"]);
        list.truncate(1);
        list.push(b"b");
        assert_eq!(all(list.from(1)), [&b"b"[..]]);
        assert_eq!(list.from(0).len(), 2);
        list.clear();
        assert!(list.is_empty() && list.from(0).is_empty());
    }

    #[test]
    fn a_string_is_found_and_taken_out() {
        let filled = || {
            let mut list = StringList::default();
            for string in ["one", "", "three", "one"] {
                list.push(string.as_bytes());
            }
            list
        };
        assert_eq!(filled().position(b"one"), Some(0));
        assert_eq!(filled().position(b""), Some(1));
        assert_eq!(filled().position(b"thre"), None);
        let rest: [&[&[u8]]; 4] = [
            &[b"", b"three", b"one"],
            &[b"one", b"three", b"one"],
            &[b"one", b"", b"one"],
            &[b"one", b"", b"three"],
        ];
        for (number, rest) in rest.into_iter().enumerate() {
            let mut list = filled();
            list.remove(number);
            assert_eq!(all(list.from(0)), rest);
            assert_eq!(list.total(), rest.concat().len());
            list.push(b"new");
            assert_eq!(all(list.from(3)), [b"new"]);
        }
    }
}

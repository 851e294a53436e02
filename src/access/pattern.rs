//! Patterns of queue names: `*` is any text, everything else stands for itself.

use memchr::memmem;
use std::fmt;

/// A compiled pattern. Matching is O(name), nearly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The texts between the asterisks: one more than there are of those.
    pieces: Box<[Box<[u8]>]>,
}

impl Pattern {
    /// Compiles a pattern: any text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { pieces: text.split('*').map(|piece| piece.as_bytes().into()).collect() }
    }

    /// Whether it matches every name.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.pieces.len() > 1 && self.pieces.iter().all(|piece| piece.is_empty())
    }

    /// Whether it matches this whole name.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        let [first, between @ .., last] = &*self.pieces else {
            return self.pieces.first().is_some_and(|only| **only == *name);
        };
        let Some(rest) = name.strip_prefix(&**first) else { return false };
        let Some(mut rest) = rest.strip_suffix(&**last) else { return false };
        for piece in between {
            let Some(at) = memmem::find(rest, piece) else { return false };
            rest = &rest[at + piece.len()..];
        }
        true
    }
}

/// As it was given.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, piece) in self.pieces.iter().enumerate() {
            f.write_str(if number > 0 { "*" } else { "" })?;
            f.write_str(&String::from_utf8_lossy(piece))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by definition.
    fn expected(pattern: &[u8], name: &[u8]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some((b'*', rest)) => (0..=name.len()).any(|at| expected(rest, &name[at..])),
            Some((first, rest)) => name.first() == Some(first) && expected(rest, &name[1..]),
        }
    }

    /// All texts of up to `length` letters.
    fn texts(letters: &str, length: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut from = 0;
        for _ in 0..length {
            let to = all.len();
            for at in from..to {
                all.extend(
                    letters
                        .chars()
                        .map(|letter| format!("{}{letter}", all[at]))
                        .collect::<Vec<_>>(),
                );
            }
            from = to;
        }
        all
    }

    #[test]
    fn pattern_matches_what_its_definition_says() {
        let names = texts("ab", 5);
        for pattern in texts("ab*", 5) {
            let compiled = Pattern::new(&pattern);
            for name in &names {
                let expected = expected(pattern.as_bytes(), name.as_bytes());
                assert_eq!(compiled.matches(name.as_bytes()), expected, "{pattern} {name}");
            }
            let everything = !pattern.is_empty() && pattern.chars().all(|letter| letter == '*');
            assert_eq!(compiled.is_everything(), everything, "{pattern}");
        }
    }
}

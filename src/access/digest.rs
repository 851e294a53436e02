//! Digests of tokens. A token is 160 random bits, so one SHA-256 is enough: there is nothing to
//! guess that a slower hash would make dearer.

use ring::digest::{SHA256, digest};
use std::fmt;
use subtle::ConstantTimeEq;

/// What a token begins with, so that people and scanners of secrets recognise one.
pub const TOKEN_PREFIX: &str = "jc_";

/// How a digest begins in the settings.
const SCHEME: &str = "sha256:";

/// The SHA-256 of a token. Compared in constant time; `Debug` does not show it.
#[derive(Clone, Copy)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of a token, as bytes without line end. O(bytes).
    #[must_use]
    pub fn of(token: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, token).as_ref());
        Self(bytes)
    }

    /// Reads `sha256:` and 64 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(SCHEME)?.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: u8| char::from(at).to_digit(16);
            *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
        }
        Some(Self(bytes))
    }

    /// The order of tables of digests: its first bytes, which say nothing about the token.
    pub(super) fn key(&self) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.0[..8]);
        u64::from_be_bytes(first)
    }

    /// Whether both are the same, in constant time.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

/// As in the settings.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_that_of_sha256_and_is_read_as_it_is_written() {
        let digest = Digest::of(b"abc");
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), text);
        assert!(Digest::parse(text).is_some_and(|read| read.is(&digest)));
        assert!(!Digest::of(b"abd").is(&digest));
        assert_eq!(format!("{digest:?}"), "Digest");
        for wrong in ["", "sha256:", &text[1..], &text[..70], "sha256:zz", &text.replace('b', "é")]
        {
            assert!(Digest::parse(wrong).is_none(), "{wrong}");
        }
    }
}

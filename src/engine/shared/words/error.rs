//! The version of the tables, and why something of another server cannot be read.

use std::fmt;

/// The version of the tables.
pub const VERSION: u8 = 1;

/// Why bytes of another server cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordsError {
    /// The other server writes another version.
    Version(u8),
    /// The other server uses something that this one does not know.
    UnknownTag(u8),
    /// The bytes say nothing that could be.
    Malformed,
}

impl fmt::Display for WordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(
                f,
                "another server writes version {version}, this one reads version {VERSION}: run \
                 the same release on both"
            ),
            Self::UnknownTag(tag) => write!(
                f,
                "another server uses something that this one does not know (tag {tag}): run the \
                 same release on both"
            ),
            Self::Malformed => f.write_str("bytes of another server are damaged"),
        }
    }
}

impl std::error::Error for WordsError {}

//! Errors of RESP.

use super::{DEPTH_MAX, LINE_MAX};
use std::fmt;

/// Why bytes are not RESP, or more of it than is taken. Places are counted in bytes from 1, from
/// the begin of the value that the server sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// No value begins with this byte.
    Unknown {
        /// The byte.
        byte: u8,
        /// Where it stands.
        at: usize,
    },
    /// A line does not end with CR and LF, or has one of them within.
    LineEnd {
        /// Where the line begins.
        at: usize,
    },
    /// A line is longer than `LINE_MAX`.
    LineTooLong {
        /// Where the line begins.
        at: usize,
    },
    /// A line does not say what its first byte promises.
    Malformed {
        /// What it should be.
        what: &'static str,
        /// Where the line begins.
        at: usize,
    },
    /// The data of a string are not followed by CR and LF.
    DataEnd {
        /// Where its line begins.
        at: usize,
    },
    /// Aggregates are nested too deep.
    TooDeep {
        /// Where the first one too many begins.
        at: usize,
    },
    /// A value is longer than the reader takes, or promises to be.
    TooLong {
        /// Where the part begins that passes the bound.
        at: usize,
        /// The bound, in bytes.
        max: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unknown { byte, at } => {
                write!(f, "is not RESP: no value begins with byte 0x{byte:02x}, which is byte {at}")
            }
            Self::LineEnd { at } => {
                write!(f, "is not RESP: the line at byte {at} does not end with CR LF")
            }
            Self::LineTooLong { at } => {
                write!(f, "is not taken: the line at byte {at} is longer than {LINE_MAX} bytes")
            }
            Self::Malformed { what, at } => {
                write!(f, "is not RESP: the line at byte {at} is no {what}")
            }
            Self::DataEnd { at } => write!(
                f,
                "is not RESP: the data of the string at byte {at} do not end with CR LF where its \
                 length says"
            ),
            Self::TooDeep { at } => write!(
                f,
                "is nested too deep: at byte {at} begins more than level {DEPTH_MAX} of arrays \
                 and maps"
            ),
            Self::TooLong { at, max } => {
                write!(f, "is not taken: with the part at byte {at} it is longer than {max} bytes")
            }
        }
    }
}

impl std::error::Error for Error {}

//! Errors of MessagePack.

use super::DEPTH_MAX;
use std::fmt;

/// Why bytes are not one MessagePack value. Places are counted in bytes from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is nothing.
    Empty,
    /// The bytes end within a value.
    Cut {
        /// Within what.
        what: &'static str,
        /// Where that begins.
        at: usize,
        /// How many bytes there are.
        length: usize,
    },
    /// The bytes end where another value of an array or a map should begin.
    Missing {
        /// How many bytes there are.
        length: usize,
    },
    /// A length promises more than there is.
    Promise {
        /// Of what.
        what: &'static str,
        /// Where that begins.
        at: usize,
        /// How much it promises: bytes, or elements, or pairs.
        promised: u32,
        /// How many bytes are left for them.
        left: usize,
    },
    /// The one byte that begins no value.
    Reserved {
        /// Where it stands.
        at: usize,
    },
    /// Arrays and maps are nested too deep.
    TooDeep {
        /// Where the first one too many begins.
        at: usize,
    },
    /// There is something behind the value.
    Trailing {
        /// Where that begins.
        at: usize,
    },
    /// It is something else than a map.
    NotMap {
        /// What it is.
        what: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Empty => f.write_str("is empty"),
            Self::Cut { what, at, length } => write!(
                f,
                "is not MessagePack: it ends after {length} bytes, within the {what} that begins \
                 at byte {at}"
            ),
            Self::Missing { length } => write!(
                f,
                "is not MessagePack: it ends after {length} bytes, where another value of an \
                 array or a map should begin"
            ),
            Self::Promise { what, at, promised, left } => {
                let of = match what {
                    "array" => "elements",
                    "map" => "pairs",
                    _ => "bytes",
                };
                write!(
                    f,
                    "is not MessagePack: the {what} at byte {at} promises {promised} {of}, but \
                     only {left} bytes follow"
                )
            }
            Self::Reserved { at } => {
                write!(f, "is not MessagePack: byte {at} is 0xc1, which begins no value")
            }
            Self::TooDeep { at } => write!(
                f,
                "is nested too deep: at byte {at} begins more than level {DEPTH_MAX} of arrays \
                 and maps"
            ),
            Self::Trailing { at } => {
                write!(f, "is not one MessagePack value: a second one begins at byte {at}")
            }
            Self::NotMap { what } => write!(f, "is {what}, not a MessagePack map"),
        }
    }
}

impl std::error::Error for Error {}

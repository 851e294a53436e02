//! The value at one path of a payload, whatever its encoding.

use std::borrow::Cow;

/// A value that can be compared, or the bytes of one that cannot.
#[derive(Clone, Debug, PartialEq)]
pub enum Leaf<'a> {
    /// Nil, or `null`.
    Nil,
    /// A truth value.
    Bool(bool),
    /// A number without a fraction, as it was written; JSON's beyond 64 bits are floats.
    Integer(i128),
    /// Any other number.
    Float(f64),
    /// A text.
    Text(Cow<'a, str>),
    /// An array, a map, binary, or what else is no text: its own bytes, encoded.
    Other(&'a [u8]),
}

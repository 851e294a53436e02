//! What a job carries: how urgent it is, and its payload.

/// How urgent a job is: bigger is more urgent, whatever the protocol's own scale says
/// (`protocols/README.md`, "Priorities, on one scale"). Compared exactly however many digits it
/// has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency<'a> {
    /// A number below `i64::MAX`.
    Number(i64),
    /// The decimal digits, without leading zeros, of a number from `i64::MAX` on.
    Beyond(&'a str),
}

impl<'a> Urgency<'a> {
    /// The first number that is written out in digits.
    pub const BEYOND: u64 = i64::MAX.unsigned_abs();

    /// A non-negative number given as its decimal digits without leading zeros.
    #[must_use]
    pub fn from_digits(digits: &'a str) -> Self {
        match digits.parse::<i64>() {
            Ok(number) if number < i64::MAX => Self::Number(number),
            _ => Self::Beyond(digits),
        }
    }
}

/// Where a job stands among jobs of the same urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Oldest id first.
    OldestFirst,
    /// Behind all that go oldest first, and newest id first (networked priority queue).
    NewestFirst,
}

/// How a payload's bytes are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// JSON text, checked, in UTF-8.
    Json,
    /// The same, and there is surely no line end in it.
    JsonLine,
}

/// A payload as its protocol received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload<'a> {
    /// How to read the bytes.
    pub encoding: Encoding,
    /// The bytes, never changed by the server.
    pub bytes: &'a [u8],
}

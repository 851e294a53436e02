//! MessagePack: checked as a whole, read by wanted fields, written, translated to and from JSON.
//!
//! How the two encodings say the same ([`to_json()`], [`from_json()`]):
//!
//! | MessagePack | JSON |
//! |---|---|
//! | nil, true, false, integer | the same |
//! | float of 32 bits | the number that it is, as one of 64 bits |
//! | float that is infinite or no number | `null` |
//! | str that is not UTF-8, bin | a string: base64, with padding |
//! | ext | `{"ext":type,"data":base64}` |
//! | map key | itself if it becomes a string, otherwise its JSON text |
//! | array or map that is a key, within another one that is a key | base64 of its bytes |
//!
//! | JSON | MessagePack |
//! |---|---|
//! | integer that fits 64 bits, with a sign or without | the shortest form |
//! | any other number | float of 64 bits, the nearest; infinite beyond them |
//! | half a surrogate pair in a string | U+FFFD |
//!
//! Invariants: nothing recurses. Memory is taken for what is there, never by what a length
//! promises: a promise that the bytes behind it cannot keep ends the reading. Where this module
//! decides what is well-formed, `rmp` knows the markers and `rmpv` is the reference in the tests.

mod error;
mod from_json;
mod raw;
mod read;
#[cfg(test)]
mod tests;
mod to_json;
mod write;

pub use error::Error;
pub use from_json::{from_json, push_from_json};
pub use raw::{Elements, Entries, Raw, at, find, read_map};
pub use read::Token;
pub use to_json::{push_json, to_json};
pub use write::{
    push_array, push_binary, push_bool, push_float, push_integer, push_map, push_nil, push_text,
};

/// How deep arrays and maps may be nested. Readers of other languages stop at a thousand or
/// recurse; half of that leaves them room for what a value is wrapped in.
pub const DEPTH_MAX: usize = 512;

/// Checks that `bytes` are one whole value and nothing else. O(bytes).
///
/// # Errors
/// Says why not, and where.
pub fn validate(bytes: &[u8]) -> Result<(), Error> {
    Raw::new(bytes).map(|_| ())
}

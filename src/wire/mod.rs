//! F1: codecs without meaning. Bytes to values and back; what the values are for is `protocol`'s
//! affair.

pub mod host;
pub mod http;
pub mod json;
mod leaf;
pub mod lines;
pub mod msgpack;
pub mod packets;
mod paths;
pub mod url;

pub use leaf::Leaf;
pub use paths::{Found, Paths};

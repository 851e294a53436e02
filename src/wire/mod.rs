//! Codecs without meaning: bytes to values and back. What the values are for is decided in
//! `protocol`.

pub mod binlog;
pub mod host;
pub mod http;
pub mod json;
mod leaf;
pub mod lines;
pub mod msgpack;
pub mod packets;
mod paths;
pub mod resp;
pub mod tar;
pub mod url;

pub use leaf::Leaf;
pub use paths::{Found, Paths};

//! F1: codecs without meaning. Bytes to values and back; what the values are for is `protocol`'s
//! affair.

pub mod http;
pub mod json;
pub mod lines;
pub mod packets;
pub mod url;

//! Media types: what bodies are said to be, and what is wanted.

use super::answer::{JSON, MSGPACK};

/// Media types of MessagePack: it has been called by all these names.
const PACKED: [&str; 3] = [MSGPACK, "application/x-msgpack", "application/vnd.msgpack"];

/// What clients say of any body that were not told what to say.
const VAGUE: [&str; 2] = ["application/octet-stream", "application/x-www-form-urlencoded"];

/// What a body is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// JSON.
    Json,
    /// MessagePack.
    Packed,
    /// Nothing, or what is as good as nothing.
    Nothing,
    /// Something else.
    Other,
}

/// What a `Content-Type` says.
pub(super) fn said(content_type: Option<&[u8]>) -> Said {
    let essence = content_type.map_or(&b""[..], essence);
    let is_one_of = |known: &[&str]| known.iter().any(|name| is(essence, name));
    if is_json(essence) {
        Said::Json
    } else if is_one_of(&PACKED) {
        Said::Packed
    } else if essence.is_empty() || is_one_of(&VAGUE) {
        Said::Nothing
    } else {
        Said::Other
    }
}

/// A media type without its parameters.
pub(super) fn essence(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii()
}

pub(super) fn is_json(essence: &[u8]) -> bool {
    let suffix = essence.len().checked_sub(5).map_or(essence, |start| &essence[start..]);
    is(essence, JSON) || is(suffix, "+json")
}

pub(super) fn is_packed(essence: &[u8]) -> bool {
    PACKED.iter().chain(&VAGUE).any(|known| is(essence, known))
}

fn is(essence: &[u8], name: &str) -> bool {
    essence.eq_ignore_ascii_case(name.as_bytes())
}

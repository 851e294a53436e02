//! Media types of bodies (`Content-Type`) and of responses (`Accept`).

use super::response::{JSON, MSGPACK};
use crate::protocol::operations::NDJSON;
use crate::wire::http::{self, Wanted};

/// The media types of MessagePack that are in use.
const PACKED: [&str; 3] = [MSGPACK, "application/x-msgpack", "application/vnd.msgpack"];

/// Types that clients send by default, whatever the body.
const VAGUE: [&str; 2] = ["application/octet-stream", "application/x-www-form-urlencoded"];

/// The declared type of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Json,
    /// MessagePack.
    Packed,
    /// None, or a default type.
    Nothing,
    Other,
}

pub(super) fn said(content_type: Option<&[u8]>) -> Said {
    let essence = content_type.map_or(&b""[..], media_type);
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

/// Whether the type is that of JSON objects, one a line.
pub(super) fn is_lines(content_type: Option<&[u8]>) -> bool {
    is(content_type.map_or(&b""[..], media_type), NDJSON)
}

/// The preferred of JSON and MessagePack in an `Accept`; of equal ones the first. `None`: it names
/// neither.
pub(super) fn wanted(accept: &[u8]) -> Option<&'static str> {
    let mut best: Option<(u16, &'static str)> = None;
    for Wanted { essence, quality, .. } in http::wanted(accept) {
        let kind = match said(Some(essence)) {
            Said::Json => JSON,
            Said::Packed => MSGPACK,
            Said::Nothing | Said::Other => continue,
        };
        if quality > 0 && best.is_none_or(|(other, _)| quality > other) {
            best = Some((quality, kind));
        }
    }
    best.map(|(_, kind)| kind)
}

/// A media type without its parameters.
fn media_type(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii()
}

fn is_json(essence: &[u8]) -> bool {
    let suffix = essence.len().checked_sub(5).map_or(essence, |start| &essence[start..]);
    is(essence, JSON) || is(suffix, "+json")
}

fn is(essence: &[u8], name: &str) -> bool {
    essence.eq_ignore_ascii_case(name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_type_declares_the_body() {
        for (text, expected) in [
            ("application/json", Said::Json),
            ("Application/JSON ; charset=utf-8", Said::Json),
            ("application/problem+json", Said::Json),
            ("application/msgpack", Said::Packed),
            ("application/x-msgpack;v=5", Said::Packed),
            ("application/vnd.msgpack", Said::Packed),
            ("application/x-www-form-urlencoded", Said::Nothing),
            ("application/octet-stream", Said::Nothing),
            ("", Said::Nothing),
            ("text/plain", Said::Other),
            ("json", Said::Other),
        ] {
            assert_eq!(said(Some(text.as_bytes())), expected, "{text}");
        }
        assert_eq!(said(None), Said::Nothing);
    }

    #[test]
    fn accept_selects_the_media_type() {
        for (text, expected) in [
            ("application/json", Some(JSON)),
            ("application/msgpack", Some(MSGPACK)),
            ("application/msgpack, application/json", Some(MSGPACK)),
            ("application/msgpack;q=0.5, application/json", Some(JSON)),
            ("application/json; q=0.9, application/x-msgpack;q=0.91", Some(MSGPACK)),
            ("application/json;q=0, */*", None),
            ("application/json;q=0.000", None),
            ("application/json;q=x", Some(JSON)),
            ("text/html, application/json;q=0.1, */*;q=0.9", Some(JSON)),
            ("*/*", None),
            ("application/*", None),
            ("", None),
        ] {
            assert_eq!(wanted(text.as_bytes()), expected, "{text}");
        }
    }
}

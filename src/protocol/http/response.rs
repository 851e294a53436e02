//! Writing answers: heads with what every answer has, and errors.

use super::Date;
use super::index::{FIELDS, HTML};
use super::lightjq::messages;
use crate::base::time::Wall;
use crate::wire::http::{push_field, push_field_number, push_status_line};
use crate::wire::json::push_string;
use std::borrow::Cow;

/// The media type of nearly all answers.
pub(super) const JSON: &str = "application/json";

/// The media type of the answers of LightJQ.
pub(super) const MSGPACK: &str = "application/msgpack";

/// How long the body of an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyLength {
    /// There is none, and there never is with this status.
    None,
    /// So many bytes.
    Bytes(usize),
    /// That will turn out: it comes in chunks.
    Chunks,
    /// That will turn out: it ends with the connection.
    Close,
}

/// What the head of an answer says.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseHead<'a> {
    pub(super) status: u16,
    pub(super) extent: BodyLength,
    /// The media type of the body.
    pub(super) kind: &'static str,
    pub(super) allow: Option<&'a str>,
    /// Whether the connection ends with the answer.
    pub(super) close: bool,
    /// Whether a client of HTTP/1.0 is to be told that it does not.
    pub(super) say_kept: bool,
}

/// An error: its status, and a sentence for whoever made the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HttpError {
    pub(super) status: u16,
    pub(super) why: Cow<'static, str>,
    /// The value of the `Allow` field that goes with it.
    pub(super) allow: Option<String>,
}

impl HttpError {
    pub(super) fn new(status: u16, why: impl Into<Cow<'static, str>>) -> Self {
        Self { status, why: why.into(), allow: None }
    }
}

/// Writes the head of an answer.
pub(super) fn write_head(head: ResponseHead<'_>, date: &mut Date, wall: Wall, out: &mut Vec<u8>) {
    push_status_line(out, head.status);
    push_field(out, "Date", date.at(wall).as_bytes());
    if let Some(allow) = head.allow {
        push_field(out, "Allow", allow.as_bytes());
    }
    if head.close {
        push_field(out, "Connection", b"close");
    } else if head.say_kept {
        push_field(out, "Connection", b"keep-alive");
    }
    if head.extent != BodyLength::None {
        push_field(out, "Content-Type", head.kind.as_bytes());
    }
    if head.kind == HTML {
        for (name, value) in FIELDS {
            push_field(out, name, value.as_bytes());
        }
    }
    match head.extent {
        BodyLength::None | BodyLength::Close => {}
        BodyLength::Bytes(count) => push_field_number(out, "Content-Length", count as u64),
        BodyLength::Chunks => push_field(out, "Transfer-Encoding", b"chunked"),
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes `{"error":..}`, in MessagePack if that is the media type of the answer, else in JSON.
#[cold]
pub(super) fn write_error(why: &str, kind: &str, out: &mut Vec<u8>) {
    if kind == MSGPACK {
        return messages::write_error(&why, out);
    }
    out.extend_from_slice(b"{\"error\":");
    push_string(out, why.as_bytes());
    out.push(b'}');
}

/// Writes the answer to a client that there is no place for, whatever it is going to ask.
pub(in crate::protocol) fn write_full(max_clients: usize, out: &mut Vec<u8>) {
    let mut body = Vec::new();
    let why =
        format!("the server already serves {max_clients} clients (--max-clients): try again later");
    write_error(&why, JSON, &mut body);
    body.push(b'\n');
    push_status_line(out, 503);
    push_field(out, "Connection", b"close");
    push_field(out, "Content-Type", JSON.as_bytes());
    push_field_number(out, "Content-Length", body.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&body);
}

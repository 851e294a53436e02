//! Response heads with the fields of every response, and error bodies.

use super::Date;
use super::lightjq::messages;
use crate::access::Denial;
use crate::base::time::Wall;
use crate::protocol::Closing;
use crate::wire::http::{push_field, push_field_number, push_status_line};
use crate::wire::json::push_string;
use std::borrow::Cow;

pub(super) const JSON: &str = "application/json";

pub(super) const MSGPACK: &str = "application/msgpack";

pub(super) const HTML: &str = "text/html; charset=utf-8";

/// A field of a response that few have.
pub(super) type ExtraField = (&'static str, Cow<'static, str>);

/// Fields that restrict a page: text and links, no scripts, no frames.
pub(super) const PAGE_FIELDS: [ExtraField; 3] = [
    (
        "Content-Security-Policy",
        Cow::Borrowed(
            "default-src 'none'; style-src 'none'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'",
        ),
    ),
    ("X-Content-Type-Options", Cow::Borrowed("nosniff")),
    ("Referrer-Policy", Cow::Borrowed("no-referrer")),
];

/// How the end of a response body is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyLength {
    /// No body: the status never has one.
    None,
    /// `Content-Length`.
    Bytes(usize),
    /// Chunked transfer coding.
    Chunks,
    /// The end of the connection (HTTP/1.0).
    Close,
}

/// Seconds after which a client may ask once more, of a server that takes no jobs now.
const RETRY_AFTER: &[u8] = b"10";

/// How a client can say who it is.
const CHALLENGE: &[u8] = b"Bearer realm=\"jobcentre\", Basic realm=\"jobcentre\"";

/// The same of the native API: browsers ask for a name and a password when they see `Basic`, over
/// the dashboard that made the request.
const NATIVE_CHALLENGE: &[u8] = b"Bearer realm=\"jobcentre\"";

#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseHead<'a> {
    pub(super) status: u16,
    pub(super) length: BodyLength,
    pub(super) media_type: &'static str,
    pub(super) allow: Option<&'a str>,
    /// Such as the path of what was made.
    pub(super) extra: &'a [ExtraField],
    /// No cache may keep it: it is of the native API.
    pub(super) no_store: bool,
    /// The connection ends with the response.
    pub(super) close: bool,
    /// Say that the connection stays open: HTTP/1.0 closes it by default.
    pub(super) keep_alive: bool,
}

/// An error response. `why` is a sentence for the author of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HttpError {
    pub(super) status: u16,
    pub(super) why: Cow<'static, str>,
    /// The value of the `Allow` field.
    pub(super) allow: Option<String>,
}

impl HttpError {
    pub(super) fn new(status: u16, why: impl Into<Cow<'static, str>>) -> Self {
        Self { status, why: why.into(), allow: None }
    }
}

pub(super) fn write_head(head: ResponseHead<'_>, date: &mut Date, wall: Wall, out: &mut Vec<u8>) {
    push_status_line(out, head.status);
    push_field(out, "Date", date.at(wall).as_bytes());
    if let Some(allow) = head.allow {
        push_field(out, "Allow", allow.as_bytes());
    }
    for (name, value) in head.extra {
        push_field(out, name, value.as_bytes());
    }
    if head.no_store {
        push_field(out, "Cache-Control", b"no-store");
    }
    if head.status == 401 {
        let challenge = if head.no_store { NATIVE_CHALLENGE } else { CHALLENGE };
        push_field(out, "WWW-Authenticate", challenge);
    }
    push_retry_after(out, head.status);
    if head.close {
        push_field(out, "Connection", b"close");
    } else if head.keep_alive {
        push_field(out, "Connection", b"keep-alive");
    }
    if head.length != BodyLength::None {
        push_field(out, "Content-Type", head.media_type.as_bytes());
    }
    match head.length {
        BodyLength::None | BodyLength::Close => {}
        BodyLength::Bytes(count) => push_field_number(out, "Content-Length", count as u64),
        BodyLength::Chunks => push_field(out, "Transfer-Encoding", b"chunked"),
    }
    out.extend_from_slice(b"\r\n");
}

/// Says when to try again, if the server does not serve now.
fn push_retry_after(out: &mut Vec<u8>, status: u16) {
    if status == 503 {
        push_field(out, "Retry-After", RETRY_AFTER);
    }
}

/// Writes `{"error":..}`, in MessagePack if that is the media type, else in JSON.
#[cold]
pub(super) fn write_error(why: &str, media_type: &str, out: &mut Vec<u8>) {
    if media_type == MSGPACK {
        return messages::write_error(&why, out);
    }
    out.extend_from_slice(b"{\"error\":");
    push_string(out, why.as_bytes());
    out.push(b'}');
}

/// Writes the response to a connection beyond `--max-clients`, whatever its request.
pub(in crate::protocol) fn write_full(max_clients: usize, out: &mut Vec<u8>) {
    let why =
        format!("the server already serves {max_clients} clients (--max-clients): try again later");
    write_last(503, &why, out);
}

/// Writes the response before a connection is closed, whatever its request.
pub(in crate::protocol) fn write_closing(why: Closing<'_>, out: &mut Vec<u8>) {
    match why {
        Closing::Memory(why) => write_last(503, why, out),
        Closing::Denied(Denial::Unavailable(why)) => write_last(503, why, out),
        Closing::Denied(denial) => write_last(401, &denial.to_string(), out),
    }
}

fn write_last(status: u16, why: &str, out: &mut Vec<u8>) {
    let mut body = Vec::new();
    write_error(why, JSON, &mut body);
    body.push(b'\n');
    push_status_line(out, status);
    push_field(out, "Connection", b"close");
    push_retry_after(out, status);
    push_field(out, "Content-Type", JSON.as_bytes());
    push_field_number(out, "Content-Length", body.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&body);
}

//! Parsing of message heads.

use super::ParseError;
use super::fields::Fields;
use super::terms::{Expect, Framing, Version, is_token};
use crate::base::buf::Input;
use crate::base::limits::{HTTP_FIELDS_MAX, HTTP_HEAD_MAX_BYTES, HTTP_TARGET_MAX_BYTES};
use httparse::{EMPTY_HEADER, Error, Request, Response, Status};
use memchr::memchr;

/// The head of a request: what of it matters to a server without virtual hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHead<'a> {
    /// As it was written: methods are case-sensitive.
    pub method: &'a str,
    /// As it was written: printable ASCII without blanks.
    pub target: &'a str,
    /// Which HTTP it is.
    pub version: Version,
    /// How the body is framed; `None` is no body.
    pub framing: Option<Framing>,
    /// Whether the connection may carry another request.
    pub keep_alive: bool,
    /// What the client waits for.
    pub expect: Expect,
    /// Which server the client means, as it was written: printable ASCII.
    pub host: Option<&'a [u8]>,
    /// On whose behalf a browser asks.
    pub origin: Option<&'a [u8]>,
    /// How a browser says that the one who asks is related to this server.
    pub fetch_site: Option<&'a [u8]>,
    /// What the body is said to be.
    pub content_type: Option<&'a [u8]>,
    /// What the client would like to get.
    pub accept: Option<&'a [u8]>,
    /// Which codings of the answer the client takes.
    pub accept_encoding: Option<&'a [u8]>,
    /// Which worker of the server's list the client is, or says to be.
    pub worker_id: Option<&'a [u8]>,
    /// As whom the client asks: a scheme and what it takes.
    pub authorization: Option<&'a [u8]>,
    /// What the server has given a browser to say in each request.
    pub cookie: Option<&'a [u8]>,
    /// Which versions of the answer the client has.
    pub if_none_match: Option<&'a [u8]>,
    /// Whether the body has a content coding (gzip and the like).
    pub coded: bool,
}

/// The head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead<'a> {
    /// The status.
    pub status: u16,
    /// Which HTTP it is.
    pub version: Version,
    /// How the body is framed.
    pub framing: Framing,
    /// Whether the connection may carry another request.
    pub keep_alive: bool,
    /// What the body is said to be.
    pub content_type: Option<&'a [u8]>,
    /// Whether the body has a content coding.
    pub coded: bool,
}

/// Takes the head of a request out of the input; `None` if it is not all there. Empty lines before
/// it are passed over. O(bytes not searched before) until it is there, then O(head).
///
/// # Errors
/// Says what is wrong, and nothing can be told of what follows.
pub fn next_request<'a>(input: &mut Input<'a>) -> Result<Option<RequestHead<'a>>, ParseError> {
    let Some(head) = next_head(input)? else { return Ok(None) };
    let mut headers = [EMPTY_HEADER; HTTP_FIELDS_MAX];
    let mut request = Request::new(&mut headers);
    match request.parse(head) {
        Ok(Status::Complete(length)) if length == head.len() => {}
        Ok(_) => return Err(ParseError::bad("the head of the request ends too early")),
        Err(error) => return Err(explain(error, head)),
    }
    let (Some(method), Some(target)) = (request.method, request.path) else {
        return Err(ParseError::bad("the request has no method and target"));
    };
    if target.len() > HTTP_TARGET_MAX_BYTES {
        return Err(TARGET_TOO_LONG);
    }
    if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(ParseError::bad("the target of the request is not ASCII: percent-encode it"));
    }
    let version = version(request.version);
    let fields = Fields::read(request.headers)?;
    if version == Version::Http11 && fields.host.is_none() {
        return Err(ParseError::bad("there is no Host field"));
    }
    if version == Version::Http10 && fields.chunked {
        return Err(ParseError::bad("HTTP/1.0 knows no Transfer-Encoding"));
    }
    Ok(Some(RequestHead {
        method,
        target,
        version,
        framing: fields.framing(),
        keep_alive: stays(version, &fields),
        expect: if version == Version::Http11 { fields.expect } else { Expect::Nothing },
        host: fields.host,
        origin: fields.origin,
        fetch_site: fields.fetch_site,
        content_type: fields.content_type,
        accept: fields.accept,
        accept_encoding: fields.accept_encoding,
        worker_id: fields.worker_id,
        authorization: fields.authorization,
        cookie: fields.cookie,
        if_none_match: fields.if_none_match,
        coded: fields.coded,
    }))
}

/// Takes the head of a response out of the input; `None` if it is not all there. `to_head` says
/// that it answers a HEAD request and so has no body. O(bytes), as for requests.
///
/// # Errors
/// Says what is wrong, and nothing can be told of what follows.
pub fn next_response<'a>(
    input: &mut Input<'a>,
    to_head: bool,
) -> Result<Option<ResponseHead<'a>>, ParseError> {
    let Some(head) = next_head(input)? else { return Ok(None) };
    let mut headers = [EMPTY_HEADER; HTTP_FIELDS_MAX];
    let mut response = Response::new(&mut headers);
    match response.parse(head) {
        Ok(Status::Complete(length)) if length == head.len() => {}
        Ok(_) => return Err(ParseError::bad("the head of the response ends too early")),
        Err(error) => return Err(explain(error, head)),
    }
    let Some(status) = response.code else {
        return Err(ParseError::bad("the response has no status"));
    };
    let version = version(response.version);
    let fields = Fields::read(response.headers)?;
    if version == Version::Http10 && fields.chunked {
        return Err(ParseError::bad("HTTP/1.0 knows no Transfer-Encoding"));
    }
    let bodiless = to_head || status < 200 || status == 204 || status == 304;
    let framing = if bodiless { Some(Framing::Length(0)) } else { fields.framing() };
    Ok(Some(ResponseHead {
        status,
        version,
        framing: framing.unwrap_or(Framing::UntilEnd),
        keep_alive: stays(version, &fields) && framing.is_some(),
        content_type: fields.content_type,
        coded: fields.coded,
    }))
}

const TARGET_TOO_LONG: ParseError =
    ParseError { status: 414, why: "the target of the request is longer than 8 KiB" };

const HEAD_TOO_LONG: ParseError = ParseError { status: 431, why: "the head is longer than 16 KiB" };

/// Takes the bytes of a head, its empty line included.
fn next_head<'a>(input: &mut Input<'a>) -> Result<Option<&'a [u8]>, ParseError> {
    while let [b'\r', b'\n', ..] = input.unread() {
        input.consume(2);
    }
    let unread = input.unread();
    match unread {
        [] | [b'\r'] => return Ok(None),
        [first, ..] if !is_token(*first) => {
            return Err(ParseError::bad("this is no HTTP"));
        }
        _ => {}
    }
    let mut from = input.scanned();
    while let Some(found) = memchr(b'\n', &unread[from..]) {
        let at = from + found;
        if at >= HTTP_HEAD_MAX_BYTES {
            return Err(too_long(unread));
        }
        if unread[at - 1] != b'\r' {
            return Err(ParseError::bad("a line of the head does not end with CR LF"));
        }
        if unread[..at].ends_with(b"\r\n\r") {
            input.consume(at + 1);
            return Ok(Some(&unread[..=at]));
        }
        from = at + 1;
    }
    if unread.len() > HTTP_HEAD_MAX_BYTES {
        return Err(too_long(unread));
    }
    input.set_scanned(unread.len());
    Ok(None)
}

/// What is too long about a head that does not end where it has to, however it came.
#[cold]
fn too_long(unread: &[u8]) -> ParseError {
    let begun = memchr(b'\n', &unread[..HTTP_HEAD_MAX_BYTES]).is_some();
    if begun { HEAD_TOO_LONG } else { TARGET_TOO_LONG }
}

/// The target of a request whose head has an error, as far as its first line tells: the word after
/// the method, up to what is not ASCII in it; empty if there is none. O(a head).
#[must_use]
#[cold]
pub fn target_of_faulty(unread: &[u8]) -> &str {
    let head = &unread[..unread.len().min(HTTP_HEAD_MAX_BYTES)];
    let start = head.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(head.len());
    let line = head[start..].split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let word = line.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
    let word = word.split(|byte| !byte.is_ascii()).next().unwrap_or_default();
    std::str::from_utf8(word).unwrap_or_default()
}

fn version(minor: Option<u8>) -> Version {
    if minor == Some(0) { Version::Http10 } else { Version::Http11 }
}

fn stays(version: Version, fields: &Fields<'_>) -> bool {
    !fields.close && (version == Version::Http11 || fields.keep_alive)
}

#[cold]
fn explain(error: Error, head: &[u8]) -> ParseError {
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let known = |word: &[u8]| word.starts_with(b"HTTP/") && word.len() == "HTTP/1.1".len();
    let well_formed = matches!(words[..], [_, _, last] if known(last));
    match error {
        Error::TooManyHeaders => ParseError { status: 431, why: "there are more than 64 fields" },
        Error::Version if well_formed => {
            ParseError { status: 505, why: "only HTTP/1.1 and HTTP/1.0 are spoken here" }
        }
        Error::Version | Error::Status | Error::Token => {
            ParseError::bad("the first line is none of HTTP")
        }
        Error::HeaderName => ParseError::bad("the name of a field is none, or a blank follows it"),
        Error::HeaderValue => ParseError::bad("the value of a field has a control character in it"),
        Error::NewLine => ParseError::bad("a line of the head does not end with CR LF"),
    }
}

//! HTTP responses as a client parses them.

use super::types::{Body, HttpOptions, Page};
use serde_json::Value;

/// The interim response to `Expect: 100-continue`.
pub(crate) const GO_ON: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What was read.
struct Got<'a> {
    status: u16,
    fields: Vec<(&'a str, &'a str)>,
    body: Vec<u8>,
    in_chunks: bool,
    length: usize,
}

impl Got<'_> {
    fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        let value = found.next().map(|&(_, value)| value);
        assert!(found.next().is_none(), "{name} comes twice");
        value
    }
}

/// A line without its end, and the rest.
fn line(text: &str) -> Option<(&str, &str)> {
    text.split_once("\r\n")
}

fn chunks(mut rest: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (whole, mut body) = (rest.len(), Vec::new());
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        rest = &rest[end + 2..];
        let chunk = rest.get(..size + 2)?;
        assert!(chunk.ends_with(b"\r\n"), "a chunk does not end where it should");
        body.extend_from_slice(&chunk[..size]);
        rest = &rest[size + 2..];
        if size == 0 {
            return Some((body, whole - rest.len()));
        }
    }
}

/// Reads an answer from the beginning of `bytes`, if it is there whole.
fn read(bytes: &[u8], to_head: bool) -> Option<Got<'_>> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..end]).expect("the head is text");
    let (first, mut rest) = line(head)?;
    let status = first.strip_prefix("HTTP/1.1 ").and_then(|it| it.get(..3)?.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no answer begins with {first:?}"));
    let mut fields = Vec::new();
    while let Some((field, others)) = line(rest).filter(|(field, _)| !field.is_empty()) {
        fields.push(field.split_once(": ").expect("a field"));
        rest = others;
    }
    let mut got = Got { status, fields, body: Vec::new(), in_chunks: false, length: end };
    got.in_chunks = got.field("Transfer-Encoding").is_some_and(|it| it == "chunked");
    let length = got.field("Content-Length").map(|length| length.parse::<usize>().unwrap());
    assert!(!(got.in_chunks && length.is_some()), "two lengths");
    let stands = got.in_chunks || length.is_some();
    assert_eq!(stands, status != 204, "the length of a body is said if there is one");
    if to_head || status == 204 {
        return Some(got);
    }
    let (body, length) = match length {
        Some(length) => (bytes.get(end..end + length)?.to_vec(), length),
        None => chunks(&bytes[end..])?,
    };
    (got.body, got.length) = (body, end + length);
    Some(got)
}

fn sorted(mut body: Value) -> Value {
    if let Some(Value::Array(queues)) = body.get_mut("queues") {
        queues.sort_by_key(|queue| queue["id"].as_str().unwrap().to_owned());
    }
    body
}

/// Asserts that `bytes` begin with this answer, and tells where it ends.
pub(crate) fn check(bytes: &[u8], page: &Page, manner: HttpOptions) -> usize {
    let skipped = if manner.expects && bytes.starts_with(GO_ON) { GO_ON.len() } else { 0 };
    let bytes = &bytes[skipped..];
    let show = || String::from_utf8_lossy(&bytes[..bytes.len().min(2_000)]).into_owned();
    let Some(got) = read(bytes, manner.to_head) else {
        panic!("not answered whole: {page:?}\nsent: {}", show())
    };
    assert_eq!(got.status, page.status, "{page:?}\nsent: {}", show());
    assert_eq!(got.field("Allow"), page.allow, "{}", show());
    let close = manner.close.then_some("close");
    assert_eq!(got.field("Connection"), close, "{}", show());
    let date = got.field("Date").expect("a date");
    assert!(date.len() == 29 && date.ends_with(" GMT"), "{date}");
    let kind = (page.body != Body::None).then_some("application/json");
    assert_eq!(got.field("Content-Type"), kind, "{}", show());
    assert_eq!(got.in_chunks, page.turns > 1, "chunked if and only if it takes several turns");
    if manner.to_head {
        return skipped + got.length;
    }
    let body = (!got.body.is_empty()).then(|| serde_json::from_slice::<Value>(&got.body));
    let body = body.transpose().unwrap_or_else(|error| panic!("{error}: {}", show()));
    match &page.body {
        Body::None => assert_eq!(body, None),
        Body::Json(text) => {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(body.map(sorted), Some(expected), "{page:?}");
        }
        Body::Error(state) => {
            let body = body.expect("an error is told");
            assert!(body["error"].as_str().is_some_and(|why| why.len() > 9), "{body}");
            let expected = state.as_ref().map(|text| serde_json::from_str(text).unwrap());
            assert_eq!(body.get("state"), expected.as_ref(), "{body}");
        }
    }
    skipped + got.length
}

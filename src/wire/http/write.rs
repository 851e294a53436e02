//! Writing of HTTP messages: first lines, fields, chunks.

use itoa::Buffer;

/// Writes the first line of a response: HTTP/1.1, whatever version was requested.
pub fn push_status_line(out: &mut Vec<u8>, status: u16) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(Buffer::new().format(status).as_bytes());
    out.push(b' ');
    out.extend_from_slice(reason(status).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Writes the first line of a request. Method and target hold no blank and no control character.
pub fn push_request_line(out: &mut Vec<u8>, method: &str, target: &str) {
    let fits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    assert!(fits(method) && fits(target), "a request line of three words");
    for piece in [method, " ", target, " HTTP/1.1\r\n"] {
        out.extend_from_slice(piece.as_bytes());
    }
}

/// Writes a field. Neither part holds a line end.
pub fn push_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    debug_assert!(!value.contains(&b'\n') && !value.contains(&b'\r'), "a field is a line");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Writes a field whose value is a number.
pub fn push_field_number(out: &mut Vec<u8>, name: &str, value: u64) {
    push_field(out, name, Buffer::new().format(value).as_bytes());
}

/// Writes a chunk; nothing if `bytes` is empty, because an empty chunk ends the body.
pub fn push_chunk(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Writes the end of a body in chunks.
pub fn push_last_chunk(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n\r\n");
}

/// What a status is called.
#[must_use]
pub fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        302 => "Found",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        // A status may go without.
        _ => "",
    }
}

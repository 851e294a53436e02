//! Messages whole and cut at every byte, and all that is refused.

use super::*;
use crate::base::buf::{InBuf, Input, progress};
use crate::base::limits::{HTTP_CHUNK_LINE_MAX_BYTES, HTTP_HEAD_MAX_BYTES, HTTP_TARGET_MAX_BYTES};

/// What a stream of requests comes to: each as text, and what ended it.
fn requests(stream: &[u8], piece: usize, max: u64) -> (Vec<String>, Option<u16>) {
    let (mut buffer, mut found) = (InBuf::default(), Vec::new());
    let mut body: Option<(String, Body)> = None;
    for bytes in stream.chunks(piece) {
        buffer.append(bytes);
        let mut input = buffer.peek();
        let ended = loop {
            match step(&mut input, &mut body, max) {
                Ok(Some(request)) => found.push(request),
                Ok(None) => break None,
                Err(error) => break Some(error.status),
            }
        };
        if ended.is_some() {
            return (found, ended);
        }
        let (used, scanned) = progress(&input);
        buffer.commit(used, scanned);
        assert!(buffer.len() <= HTTP_HEAD_MAX_BYTES + 1, "no more than a head is kept");
    }
    (found, None)
}

fn step(
    input: &mut Input<'_>,
    under_way: &mut Option<(String, Body)>,
    max: u64,
) -> Result<Option<String>, ParseError> {
    if under_way.is_none() {
        let Some(head) = next_request(input)? else { return Ok(None) };
        let text = format!("{} {} {}", head.method, head.target, head.keep_alive);
        *under_way = Some((text, Body::new(head.framing.unwrap_or(Framing::Length(0)), max)?));
    }
    let Some((text, body)) = under_way else { unreachable!("it has just begun") };
    loop {
        match body.next(input)? {
            Piece::Data(bytes) => text.push_str(&bytes.escape_ascii().to_string()),
            Piece::Incomplete => return Ok(None),
            Piece::End => return Ok(under_way.take().map(|(text, _)| text)),
        }
    }
}

fn in_all_pieces(stream: &[u8], expected: &[&str], status: Option<u16>) {
    for piece in [stream.len().max(1), 1, 2, 3, 7] {
        let (found, ended) = requests(stream, piece, 1000);
        assert_eq!(
            (&found[..], ended),
            (&expected.iter().map(|&s| s.to_owned()).collect::<Vec<_>>()[..], status),
            "{} in pieces of {piece}",
            stream.escape_ascii()
        );
    }
}

#[test]
fn requests_are_the_same_however_they_arrive() {
    in_all_pieces(
        b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n\
          POST /x?y HTTP/1.1\r\nhost:a\r\nCONTENT-LENGTH:\t005 \r\n\
          Connection: x , Close\r\n\r\nab\r\nc\
          PUT * HTTP/1.1\r\nHost:\r\nTransfer-Encoding: Chunked\r\n\r\n\
          3\r\nabc\r\n00A \t;x=\"y\"\r\n0123456789\r\n0\r\nTrailer: 1\r\nLast:\r\n\r\n\
          GET / HTTP/1.0\r\n\r\n\
          GET / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n\
          GET / HTTP/1.1\r\nHost: a\r\n",
        &[
            "GET / true",
            "POST /x?y falseab\\r\\nc",
            "PUT * trueabc0123456789",
            "GET / false",
            "GET / true",
        ],
        None,
    );
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    let get = |fields: &str| format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
    let post =
        |fields: &str, body: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{body}");
    for (status, request) in [
        (400, post("Content-Length: 5\r\nContent-Length: 5", "abcde")),
        (400, post("Content-Length: 5\r\nContent-Length: 6", "abcde")),
        (400, post("Content-Length: 5, 5", "abcde")),
        (400, post("Content-Length: +5", "abcde")),
        (400, post("Content-Length: -5", "abcde")),
        (400, post("Content-Length: 0x5", "abcde")),
        (400, post("Content-Length: 5 5", "abcde")),
        (400, post("Content-Length:", "abcde")),
        (413, post("Content-Length: 1001", "")),
        (413, post("Content-Length: 99999999999999999999999", "")),
        (400, post("Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n")),
        (400, post("Transfer-Encoding: chunked\r\nContent-Length: 5", "0\r\n\r\n")),
        (400, post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "0\r\n\r\n")),
        (501, post("Transfer-Encoding: gzip, chunked", "0\r\n\r\n")),
        (501, post("Transfer-Encoding: chunked, chunked", "0\r\n\r\n")),
        (501, post("Transfer-Encoding: identity", "")),
        (501, post("Transfer-Encoding: xchunked", "")),
        (501, post("Transfer-Encoding: \"chunked\"", "")),
        (400, post("Transfer-Encoding: \u{b}chunked", "")),
        (400, post("Transfer-Encoding : chunked", "0\r\n\r\n")),
        (400, post("Transfer-Encoding\t: chunked", "0\r\n\r\n")),
        (400, post("X: y\r\n folded: z", "")),
        (400, post("X: y\r\n\tz", "")),
        (400, post(" X: y", "")),
        (400, post("X", "")),
        (400, post(": x", "")),
        (400, post("X\u{e9}: y", "")),
        (400, post("X: a\0b", "")),
        (400, post("X: a\rb", "")),
        (400, post("X: y\nContent-Length: 3", "abc")),
        (400, get("Host: b")),
        (400, "GET / HTTP/1.1\r\n\r\n".to_owned()),
        (400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n".to_owned()),
        (400, "GET / HTTP/1.1\nHost: a\n\n".to_owned()),
        (400, "GET / HTTP/1.1\r\nHost: a\r\n\n".to_owned()),
        (400, "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET  / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /  HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET / HTTP/1.1 \r\nHost: a\r\n\r\n".to_owned()),
        (400, " GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /\r\n\r\n".to_owned()),
        (400, "GET / http/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "G(T / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "\u{16}\u{3}\u{1}\r\n\r\n".to_owned()),
        (400, "{\"request\":\"get\"}\n".to_owned()),
        (505, "GET / HTTP/2.0\r\nHost: a\r\n\r\n".to_owned()),
        (505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
        (505, "GET / HTTP/1.2\r\nHost: a\r\n\r\n".to_owned()),
        (400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned()),
    ] {
        in_all_pieces(request.as_bytes(), &[], Some(status));
    }
}

#[test]
fn chunks_that_are_not_plain_are_refused() {
    let chunked = |body: &str| {
        format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}")
    };
    for (status, request) in [
        (400, chunked("0x3\r\nabc\r\n0\r\n\r\n")),
        (400, chunked("+3\r\nabc\r\n0\r\n\r\n")),
        (400, chunked("-1\r\n")),
        (400, chunked(" 3\r\nabc\r\n0\r\n\r\n")),
        (400, chunked("3 \r\nabc\r\n0\r\n\r\n")),
        (400, chunked("\r\n")),
        (400, chunked(";x\r\n")),
        (400, chunked("3\nabc\r\n0\r\n\r\n")),
        (400, chunked("3;a\nb\r\nabc\r\n0\r\n\r\n")),
        (400, chunked("3;a\rb\r\nabc\r\n0\r\n\r\n")),
        (400, chunked("3\r\nabcd\r\n0\r\n\r\n")),
        (400, chunked("3\r\nabc\n0\r\n\r\n")),
        (400, chunked("3\r\nabc0\r\n\r\n")),
        (400, chunked("00000000000000003\r\nabc\r\n0\r\n\r\n")),
        (413, chunked("3e9\r\n")),
        (413, chunked("ffffffffffffffff\r\n")),
        (413, chunked(&format!("3e8\r\n{}\r\n1\r\n", "x".repeat(1000)))),
        (400, chunked("0\r\nno field\r\n\r\n")),
        (400, chunked("0\r\n folded: x\r\n\r\n")),
        (400, chunked("0\r\nContent-Length : 5\r\n\r\n")),
        (400, chunked("0\r\nx: y\n\r\n")),
    ] {
        in_all_pieces(request.as_bytes(), &[], Some(status));
    }
}

#[test]
fn everything_has_a_limit() {
    let with = |target: usize, field: usize| {
        let (target, field) = ("x".repeat(target), "y".repeat(field));
        format!("GET /{target} HTTP/1.1\r\nHost: a\r\nX: {field}\r\n\r\n").into_bytes()
    };
    let ended = |stream: &[u8]| [1000, stream.len()].map(|piece| requests(stream, piece, 10).1);
    let fixed = with(0, 0).len();
    assert_eq!(ended(&with(HTTP_TARGET_MAX_BYTES - 1, 0)), [None; 2]);
    assert_eq!(ended(&with(HTTP_TARGET_MAX_BYTES, 0)), [Some(414); 2]);
    assert_eq!(ended(&with(HTTP_HEAD_MAX_BYTES, 0)), [Some(414); 2]);
    assert_eq!(ended(&with(0, HTTP_HEAD_MAX_BYTES - fixed)), [None; 2]);
    assert_eq!(ended(&with(0, HTTP_HEAD_MAX_BYTES - fixed + 1)), [Some(431); 2]);
    assert_eq!(ended(&b"x".repeat(HTTP_HEAD_MAX_BYTES + 1)), [Some(414); 2]);
    let fields =
        |count: usize| format!("GET / HTTP/1.0\r\n{}\r\n", "a: b\r\n".repeat(count)).into_bytes();
    assert_eq!(ended(&fields(64)), [None; 2]);
    assert_eq!(ended(&fields(65)), [Some(431); 2]);

    let start = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let line = |length: usize| format!("{start}1;{}", "e".repeat(length - 2));
    let whole = |length: usize| (line(length) + "\r\nx\r\n0\r\n\r\n").into_bytes();
    assert_eq!(ended(&whole(HTTP_CHUNK_LINE_MAX_BYTES)), [None; 2]);
    assert_eq!(ended(&whole(HTTP_CHUNK_LINE_MAX_BYTES + 1)), [Some(400); 2]);
    assert_eq!(ended(line(HTTP_CHUNK_LINE_MAX_BYTES + 2).as_bytes()), [Some(400); 2]);
    let extension = format!("1;{}\r\nx\r\n", "e".repeat(200));
    let many = format!("{start}{}", extension.repeat(100)).into_bytes();
    assert_eq!(requests(&many, 1000, 1000).1, Some(400), "all extensions together");
    let trailers = format!("{start}0\r\n{}", format!("a: {}\r\n", "b".repeat(1000)).repeat(17));
    assert_eq!(ended(trailers.as_bytes()), [Some(431); 2]);
}

#[test]
fn responses_end_where_they_say() {
    let read = |text: &str, to_head: bool| {
        let mut input = Input::new(text.as_bytes());
        let head = next_response(&mut input, to_head)?.expect("the head is whole");
        let mut body = Body::new(head.framing, 100)?;
        let mut bytes = Vec::new();
        while let Piece::Data(piece) = body.next(&mut input)? {
            bytes.extend_from_slice(piece);
        }
        let left = input.unread().len();
        Ok::<_, ParseError>((head.status, head.keep_alive, bytes.len(), body.ends_well(), left))
    };
    let ok = "HTTP/1.1 200 OK\r\n";
    let length = format!("{ok}Content-Length: 3\r\n\r\nabcd");
    assert_eq!(read(&length, false), Ok((200, true, 3, true, 1)));
    assert_eq!(read(&length, true), Ok((200, true, 0, true, 4)));
    let chunked = format!("{ok}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\nx");
    assert_eq!(read(&chunked, false), Ok((200, true, 2, true, 1)));
    let cut = format!("{ok}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n");
    assert_eq!(read(&cut, false), Ok((200, true, 2, false, 0)));
    assert_eq!(read(&format!("{ok}\r\nabc"), false), Ok((200, false, 3, true, 0)));
    assert_eq!(read("HTTP/1.1 204\r\n\r\nabc", false), Ok((204, true, 0, true, 3)));
    assert_eq!(read("HTTP/1.1 100 Continue\r\n\r\n", false), Ok((100, true, 0, true, 0)));
    let closes = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(read(closes, false), Ok((200, false, 0, true, 0)));
    let status = |text: &str| read(text, false).unwrap_err().status;
    assert_eq!(status(&format!("{ok}Content-Length: 3\r\nContent-Length: 3\r\n\r\n")), 400);
    assert_eq!(status(&format!("{ok}\r\n{}", "x".repeat(101))), 413);
    assert_eq!(status("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
    assert_eq!(status("HTTP/2.0 200 OK\r\n\r\n"), 400);
}

#[test]
fn what_is_written_can_be_read() {
    let mut out = Vec::new();
    push_request_line(&mut out, "POST", "/x");
    push_field(&mut out, "Host", b"a");
    push_field(&mut out, "Transfer-Encoding", b"chunked");
    out.extend_from_slice(b"\r\n");
    push_chunk(&mut out, b"");
    push_chunk(&mut out, &b"y".repeat(300));
    push_chunk(&mut out, b"z");
    push_last_chunk(&mut out);
    let expected = format!("POST /x true{}z", "y".repeat(300));
    in_all_pieces(&out, &[&expected], None);

    let mut out = Vec::new();
    push_status_line(&mut out, 404);
    push_field_number(&mut out, "Content-Length", 12);
    out.extend_from_slice(b"\r\n");
    assert_eq!(out, b"HTTP/1.1 404 Not Found\r\nContent-Length: 12\r\n\r\n");
    let mut input = Input::new(&out);
    let head = next_response(&mut input, false).unwrap().unwrap();
    assert_eq!((head.status, head.framing), (404, Framing::Length(12)));
}

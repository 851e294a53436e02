//! HTTP responses as a client parses them: by length, or in chunks; and placeholders.

use super::{Target, show};
use jobcentre::wire::msgpack::to_json;

/// The same for an answer whose body is MessagePack.
pub(super) fn check_packed(
    status: u16,
    json: &str,
    simulation: &mut dyn Target,
    client: char,
    tokens: &mut Tokens,
) -> Result<(), String> {
    let (received, bytes) = receive(simulation, client)?;
    let mut text = Vec::new();
    let readable = bytes.is_empty() || to_json(&bytes, &mut text).is_ok();
    let text = String::from_utf8_lossy(&text);
    if readable && received == status && tokens.fits(json, &text) {
        return Ok(());
    }
    Err(format!("expected {status} {json}\n    received {received} {text} = {}", show(&bytes)))
}

/// Receives an answer and compares it with what is expected: JSON, and a line end behind it.
pub(super) fn check(
    status: u16,
    body: &str,
    simulation: &mut dyn Target,
    client: char,
    tokens: &mut Tokens,
) -> Result<(), String> {
    let (received, bytes) = receive(simulation, client)?;
    let text = String::from_utf8_lossy(&bytes);
    let line = if body.is_empty() { String::new() } else { format!("{body}\n") };
    if received == status && tokens.fits(&line, &text) {
        return Ok(());
    }
    Err(format!("expected {status} {line:?}\n    received {received} {}", show(&bytes)))
}

fn line(simulation: &mut dyn Target, client: char) -> Result<String, String> {
    let line = simulation.receive(client)?;
    let text = String::from_utf8(line).map_err(|error| error.to_string())?;
    let text = text.strip_suffix('\r').map(str::to_owned);
    text.ok_or_else(|| "a line of the head ends without CR".to_owned())
}

fn receive(simulation: &mut dyn Target, client: char) -> Result<(u16, Vec<u8>), String> {
    let first = line(simulation, client)?;
    let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let status: u16 = status.ok_or_else(|| format!("this is no status line: {first}"))?;
    let (mut length, mut chunked) = (0, false);
    loop {
        let field = line(simulation, client)?;
        match field.split_once(": ") {
            Some(("Content-Length", value)) => {
                length = value.parse().map_err(|_| format!("a wrong length: {value}"))?;
            }
            Some(("Transfer-Encoding", "chunked")) => chunked = true,
            Some(_) => {}
            None if field.is_empty() => break,
            None => return Err(format!("this is no field: {field}")),
        }
    }
    if !chunked {
        return Ok((status, simulation.receive_count(client, length)?));
    }
    let mut body = Vec::new();
    loop {
        let size = line(simulation, client)?;
        let size = usize::from_str_radix(&size, 16).map_err(|_| format!("a wrong size: {size}"))?;
        body.extend(simulation.receive_count(client, size)?);
        if !line(simulation, client)?.is_empty() {
            return Err("a chunk does not end with its size".to_owned());
        }
        if size == 0 {
            return Ok((status, body));
        }
    }
}

/// The tokens that clients have received, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Tokens(Vec<String>);

impl Tokens {
    /// Whether `text` is as expected, where `%d` stands for digits, `%n` for a number with or
    /// without a fraction, `%m` for a moment, `%s` for a text up to a quote, and `%t` for a token,
    /// which is remembered.
    pub(super) fn fits(&mut self, expected: &str, text: &str) -> bool {
        let (mut expected, mut text) = (expected, text);
        while let Some(at) = expected.find('%') {
            let (before, mark) = expected.split_at(at);
            let Some(rest) = text.strip_prefix(before) else { return false };
            let length = match mark.get(..2) {
                Some("%n") => {
                    rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count()
                }
                Some("%d") => rest.bytes().take_while(u8::is_ascii_digit).count(),
                Some("%m") => moment(rest),
                Some("%s") => rest.find('"').unwrap_or(0),
                Some("%t") => token(rest),
                _ if rest.starts_with('%') => {
                    (expected, text) = (&mark[1..], &rest[1..]);
                    continue;
                }
                _ => return false,
            };
            if length == 0 {
                return false;
            }
            if mark.starts_with("%t") {
                self.0.push(rest[..length].to_owned());
            }
            (expected, text) = (&mark[2..], &rest[length..]);
        }
        expected == text
    }

    /// What a client sends: `%t` is the last token, `%u` the one before it. The length of a token
    /// is counted by who has written the request.
    pub(super) fn fill_in(&self, bytes: &[u8]) -> Vec<u8> {
        let mut filled = bytes.to_vec();
        for (mark, token) in ["%t", "%u"].into_iter().zip(self.0.iter().rev()) {
            while let Some(at) = filled.windows(2).position(|two| two == mark.as_bytes()) {
                filled.splice(at..at + 2, token.bytes());
            }
        }
        filled
    }
}

/// The length of a moment at the begin of a text: `"2026-11-22T06:31:00.000Z"`.
fn moment(text: &str) -> usize {
    const SHAPE: &str = "\"0000-00-00T00:00:00.000Z\"";
    let same = |(shape, byte): (u8, u8)| match shape {
        b'0' => byte.is_ascii_digit(),
        _ => shape == byte,
    };
    let fits = text.len() >= SHAPE.len() && SHAPE.bytes().zip(text.bytes()).all(same);
    if fits { SHAPE.len() } else { 0 }
}

/// The length of a token at the begin of a text.
fn token(text: &str) -> usize {
    let digits = text.bytes().take_while(u8::is_ascii_hexdigit).count();
    if digits == TOKEN_DIGITS { digits } else { 0 }
}

/// The length of a token.
pub(super) const TOKEN_DIGITS: usize = 16;

#[test]
fn placeholders_match_what_they_stand_for() {
    let mut tokens = Tokens::default();
    for (expected, text) in [
        ("a", "a"),
        ("%d", "7"),
        ("a%db%d", "a12b3"),
        ("%n,%n", "0.05,3"),
        ("100%", "100%"),
        ("\"%s\"", "\"a, b\""),
        ("a%2fb", "a%2fb"),
        ("{%m}", "{\"2026-11-22T06:31:00.000Z\"}"),
        ("\"%t\"", "\"0123456789abcdef\""),
        ("\"%t\"", "\"0000000000000000\""),
    ] {
        assert!(tokens.fits(expected, text), "{expected} {text}");
    }
    for (expected, text) in
        [("a", "b"), ("%d", ""), ("%d", "x"), ("a%d", "a1b"), ("%t", "1"), ("%m", "\"\"")]
    {
        assert!(!tokens.fits(expected, text), "{expected} {text}");
    }
    assert_eq!(tokens.fill_in(b"%t-%u"), b"0000000000000000-0123456789abcdef");
}

//! HTTP responses as a client parses them: by length, or in chunks.

use super::{Target, show};
use jobcentre::wire::msgpack::to_json;

/// The same for an answer whose body is MessagePack.
pub(super) fn check_packed(
    status: u16,
    json: &str,
    simulation: &mut dyn Target,
    client: char,
) -> Result<(), String> {
    let (received, bytes) = receive(simulation, client)?;
    let mut text = Vec::new();
    let readable = bytes.is_empty() || to_json(&bytes, &mut text).is_ok();
    let text = String::from_utf8_lossy(&text);
    if readable && received == status && fits(json, &text) {
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
) -> Result<(), String> {
    let (received, bytes) = receive(simulation, client)?;
    let text = String::from_utf8_lossy(&bytes);
    let line = if body.is_empty() { String::new() } else { format!("{body}\n") };
    if received == status && fits(&line, &text) {
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

/// Whether `text` is as expected, where `%d` stands for digits.
fn fits(expected: &str, text: &str) -> bool {
    let Some((before, after)) = expected.split_once("%d") else { return expected == text };
    let Some(rest) = text.strip_prefix(before) else { return false };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && fits(after, &rest[digits..])
}

#[test]
fn digit_placeholder_matches_digits() {
    assert!(fits("a", "a") && fits("%d", "7") && fits("a%db%d", "a12b3"));
    assert!(!fits("a", "b") && !fits("%d", "") && !fits("%d", "x") && !fits("a%d", "a1b"));
}

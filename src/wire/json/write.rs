//! Writing JSON: numbers, strings, packets. Everything else is fixed text of the protocols.

use base64::prelude::{BASE64_STANDARD, Engine as _};

/// Writes a number in decimal. O(digits).
#[inline]
pub fn push_number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// The bytes that stand for themselves in a string and are whole characters.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0x20;
    while byte < 0x7f {
        plain[byte] = byte != b'"' as usize && byte != b'\\' as usize;
        byte += 1;
    }
    plain
};

/// Writes `text` as a JSON string, quotes included. What is not UTF-8 in it is shown as U+FFFD.
/// O(text).
#[inline]
pub fn push_string(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    if text.iter().all(|&byte| PLAIN[usize::from(byte)]) {
        out.extend_from_slice(text);
    } else {
        for chunk in text.utf8_chunks() {
            push_escaped(out, chunk.valid());
            if !chunk.invalid().is_empty() {
                out.extend_from_slice("\u{fffd}".as_bytes());
            }
        }
    }
    out.push(b'"');
}

fn push_escaped(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for &byte in text.as_bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => {
                let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&digits);
            }
            _ => out.push(byte),
        }
    }
}

/// Writes a packet of the networked priority queue as JSON, `{"key": base64, "payload": base64}`;
/// its first `key_len` bytes are the key. O(bytes).
///
/// # Panics
/// If the packet is shorter than its key.
#[cold]
pub fn push_packet(out: &mut Vec<u8>, key_len: u16, packet: &[u8]) {
    let (key, payload) = packet.split_at(usize::from(key_len));
    out.extend_from_slice(b"{\"key\":\"");
    out.extend_from_slice(BASE64_STANDARD.encode(key).as_bytes());
    out.extend_from_slice(b"\",\"payload\":\"");
    out.extend_from_slice(BASE64_STANDARD.encode(payload).as_bytes());
    out.extend_from_slice(b"\"}");
}

/// Writes a payload of any bytes as JSON on one line: itself if it is a JSON text, with spaces for
/// line ends, or else `{"base64":BASE64}`. O(bytes).
pub fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    if let Ok(text) = super::value(bytes) {
        return out.extend(text.bytes().map(|byte| if byte == b'\n' { b' ' } else { byte }));
    }
    out.extend_from_slice(b"{\"base64\":\"");
    out.extend_from_slice(BASE64_STANDARD.encode(bytes).as_bytes());
    out.extend_from_slice(b"\"}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_a_json_text_are_written_as_it() {
        let written = |bytes: &[u8]| {
            let mut out = Vec::new();
            push_bytes(&mut out, bytes);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(b"{\"a\":\n[1, 2]}"), "{\"a\": [1, 2]}");
        assert_eq!(written(b"7"), "7");
        assert_eq!(written(b""), "{\"base64\":\"\"}");
        assert_eq!(written(b"hello"), "{\"base64\":\"aGVsbG8=\"}");
        assert_eq!(written(b"\"\xff\""), "{\"base64\":\"Iv8i\"}");
        assert_eq!(written(b"1 2"), "{\"base64\":\"MSAy\"}");
    }

    #[test]
    fn any_text_comes_back_through_a_reader() {
        let all: String = (0..0x300).filter_map(char::from_u32).chain(['\u{10ffff}']).collect();
        for text in ["", "plain", "\"\\/", &all] {
            let mut out = Vec::new();
            push_string(&mut out, text.as_bytes());
            let back: String = serde_json::from_slice(&out).unwrap();
            assert_eq!(back, text);
            assert!(!out.iter().any(|&byte| byte < 0x20), "a line stays a line");
        }
    }

    #[test]
    fn what_is_not_utf8_is_shown_as_such() {
        let mut out = Vec::new();
        push_string(&mut out, b"a\xff\"b");
        assert_eq!(out, "\"a\u{fffd}\\\"b\"".as_bytes());
    }
}

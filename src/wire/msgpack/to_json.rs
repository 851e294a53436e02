//! From MessagePack to JSON.

use super::Error;
use super::read::{Reader, Token, check_depth};
use crate::wire::json::{push_number, push_string};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use std::io::Write as _;

/// Appends one whole value, and nothing else in `bytes`, as JSON on one line. O(bytes); what is
/// written is at most some fifteen times as long.
///
/// # Errors
/// Says why `bytes` are not one value, and where; then nothing has been appended.
pub fn to_json(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let before = out.len();
    let mut reader = Reader::new(bytes);
    let written = write(&mut reader, out).and_then(|()| reader.end());
    if written.is_err() {
        out.truncate(before);
    }
    written
}

/// Appends what was checked when it came in, as JSON on one line; what was not checked and is
/// not one value after all is shown as the bytes that it is, a string of base64. O(bytes).
pub fn push_json(out: &mut Vec<u8>, bytes: &[u8]) {
    if to_json(bytes, out).is_err() {
        push_base64(bytes, out);
    }
}

/// An array or a map that is being written.
struct Frame {
    map: bool,
    /// How many values are to come; in a map an even number means that the next one is a key.
    left: u64,
    first: bool,
}

impl Frame {
    /// Takes one of its values; whether that is a key.
    fn step(&mut self, out: &mut Vec<u8>) -> bool {
        let key = self.map && self.left.is_multiple_of(2);
        if self.map && !key {
            out.push(b':');
        } else if !self.first {
            out.push(b',');
        }
        self.first = false;
        self.left -= 1;
        key
    }
}

/// An array or a map that is a key and is being written as JSON text.
struct Key {
    /// How many frames there are when it is whole.
    frames: usize,
    /// Where its text begins.
    text: usize,
}

fn write(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut frames: Vec<Frame> = Vec::new();
    let mut within: Option<Key> = None;
    loop {
        let is_key = frames.last_mut().is_some_and(|frame| frame.step(out));
        let start = reader.at();
        let token = reader.token()?;
        match token.values() {
            None if is_key => push_key(token, out),
            None => push_scalar(token, out),
            Some(_) if is_key && within.is_some() => {
                // Text of a key within text of a key would double at every level.
                reader.skip_rest(token, start, frames.len())?;
                push_base64(reader.since(start), out);
            }
            Some(left) => {
                check_depth(frames.len() + 1, start)?;
                if is_key {
                    within = Some(Key { frames: frames.len(), text: out.len() });
                }
                let map = matches!(token, Token::Map(_));
                out.push(if map { b'{' } else { b'[' });
                frames.push(Frame { map, left, first: true });
            }
        }
        while let Some(done) = frames.pop_if(|frame| frame.left == 0) {
            out.push(if done.map { b'}' } else { b']' });
            if let Some(key) = within.take_if(|key| key.frames == frames.len()) {
                let text = out.split_off(key.text);
                push_string(out, &text);
            }
        }
        if frames.is_empty() {
            return Ok(());
        }
    }
}

/// Writes a scalar as a key: a string is one, of anything else its text becomes one.
fn push_key(token: Token<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    push_scalar(token, out);
    if out.get(start) != Some(&b'"') {
        let text = out.split_off(start);
        push_string(out, &text);
    }
}

fn push_scalar(token: Token<'_>, out: &mut Vec<u8>) {
    match token {
        Token::Bool(true) => out.extend_from_slice(b"true"),
        Token::Bool(false) => out.extend_from_slice(b"false"),
        Token::Integer(number) => push_number(out, number),
        Token::Float(number) if number.is_finite() => {
            write!(out, "{number:?}").expect("memory takes everything");
        }
        Token::String(bytes) if std::str::from_utf8(bytes).is_ok() => push_string(out, bytes),
        Token::String(bytes) | Token::Binary(bytes) => push_base64(bytes, out),
        Token::Ext(kind, data) => {
            out.extend_from_slice(b"{\"ext\":");
            push_number(out, kind);
            out.extend_from_slice(b",\"data\":");
            push_base64(data, out);
            out.push(b'}');
        }
        Token::Nil | Token::Float(_) | Token::Array(_) | Token::Map(_) => {
            out.extend_from_slice(b"null");
        }
    }
}

fn push_base64(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = BASE64_STANDARD.encode_slice(bytes, &mut out[start..]);
    out.truncate(start + written.expect("three bytes make four characters"));
    out.push(b'"');
}

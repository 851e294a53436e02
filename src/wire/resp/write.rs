//! Writing commands: arrays of bulk strings.

use itoa::Buffer;

fn push_head(out: &mut Vec<u8>, first: u8, number: usize) {
    out.push(first);
    out.extend_from_slice(Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Writes the head of an array of this many values, which are to follow. A command is an array of
/// its name and its arguments, all bulk strings.
#[inline]
pub fn push_array(out: &mut Vec<u8>, values: usize) {
    push_head(out, b'*', values);
}

/// Writes a bulk string. O(bytes).
#[inline]
pub fn push_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len() + 16);
    push_head(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Writes a number as a bulk string.
#[inline]
pub fn push_bulk_unsigned(out: &mut Vec<u8>, number: u64) {
    push_bulk(out, Buffer::new().format(number).as_bytes());
}

/// Writes a number as a bulk string.
#[inline]
pub fn push_bulk_signed(out: &mut Vec<u8>, number: i64) {
    push_bulk(out, Buffer::new().format(number).as_bytes());
}

/// Writes a bulk string of whatever `write` appends. O(bytes): they are moved once, because their
/// length stands before them and has no fixed width.
pub fn push_bulk_of(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    /// `$`, the digits of a length of eight digits, CR, LF: longer heads move the data again.
    const HEAD: usize = 11;
    let start = out.len();
    out.extend_from_slice(&[0; HEAD]);
    write(out);
    let length = out.len() - start - HEAD;
    let mut digits = Buffer::new();
    let digits = digits.format(length).as_bytes();
    let head = [b"$", digits, b"\r\n"].concat();
    out.splice(start..start + HEAD, head);
    out.extend_from_slice(b"\r\n");
}

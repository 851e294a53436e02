//! Writing MessagePack, always in the shortest form.

use rmp::encode;
use std::fmt::Debug;

/// What is written to memory is written.
fn sure<T, E: Debug>(written: Result<T, E>) {
    written.expect("memory takes everything");
}

fn narrow(length: usize) -> u32 {
    u32::try_from(length).expect("what a request holds is shorter than 4 GiB")
}

/// Writes nil.
pub fn push_nil(out: &mut Vec<u8>) {
    sure(encode::write_nil(out));
}

/// Writes a truth value.
pub fn push_bool(out: &mut Vec<u8>, value: bool) {
    sure(encode::write_bool(out, value));
}

/// Writes an integer of 64 bits, with a sign or without; one beyond them as a float.
#[allow(clippy::cast_precision_loss, reason = "the nearest one is what is wanted")]
pub fn push_integer(out: &mut Vec<u8>, number: impl Into<i128>) {
    let number = number.into();
    if let Ok(number) = u64::try_from(number) {
        sure(encode::write_uint(out, number));
    } else if let Ok(number) = i64::try_from(number) {
        sure(encode::write_sint(out, number));
    } else {
        push_float(out, number as f64);
    }
}

/// Writes a float of 64 bits.
pub fn push_float(out: &mut Vec<u8>, number: f64) {
    sure(encode::write_f64(out, number));
}

/// Writes a string. O(text).
///
/// # Panics
/// If it is of 4 GiB or more.
pub fn push_text(out: &mut Vec<u8>, text: &str) {
    sure(encode::write_str_len(out, narrow(text.len())));
    out.extend_from_slice(text.as_bytes());
}

/// Writes binary. O(bytes).
///
/// # Panics
/// If it is of 4 GiB or more.
pub fn push_binary(out: &mut Vec<u8>, bytes: &[u8]) {
    sure(encode::write_bin_len(out, narrow(bytes.len())));
    out.extend_from_slice(bytes);
}

/// Writes the head of an array of this many values, which are to follow.
pub fn push_array(out: &mut Vec<u8>, values: u32) {
    sure(encode::write_array_len(out, values));
}

/// Writes the head of a map of this many pairs, which are to follow.
pub fn push_map(out: &mut Vec<u8>, pairs: u32) {
    sure(encode::write_map_len(out, pairs));
}

//! From JSON to MessagePack.

use super::write::{
    push_array, push_binary, push_bool, push_float, push_integer, push_map, push_nil, push_text,
};
use crate::wire::json::{JsonError, Lexer, Number, Token, check, number, unescape};

/// Appends one JSON value, and nothing else in `text`, as MessagePack. O(text); what is written is
/// at most three times as long. Depth is limited by the length of the text alone: what is deeper
/// than `DEPTH_MAX` is translated as well, and it is for the reader to refuse it.
///
/// # Errors
/// Says why `text` is not JSON, and where; then nothing has been appended.
pub fn from_json(text: &[u8], out: &mut Vec<u8>) -> Result<(), JsonError> {
    check(text)?;
    let mut lengths = lengths(text).into_iter();
    for token in Lexer::new(text) {
        match token {
            // Each array and object was counted, in this order.
            Token::Array => push_array(out, lengths.next().unwrap_or(0)),
            Token::Object => push_map(out, lengths.next().unwrap_or(0) / 2),
            Token::Close => {}
            Token::String(inner) => push_text(out, &unescape(inner)),
            Token::Number(digits) => match number(digits) {
                Number::Integer(number) => push_integer(out, number),
                Number::Float(number) => push_float(out, number),
            },
            Token::Bool(value) => push_bool(out, value),
            Token::Null => push_nil(out),
        }
    }
    Ok(())
}

/// Appends what was checked when it came in; what was not checked and is not JSON after all is
/// binary. O(text).
pub fn push_from_json(out: &mut Vec<u8>, text: &[u8]) {
    if from_json(text, out).is_err() {
        push_binary(out, text);
    }
}

/// How many values there are in each array and object, keys included, in the order in which they
/// begin: MessagePack says that first.
fn lengths(text: &[u8]) -> Vec<u32> {
    let mut lengths: Vec<u32> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for token in Lexer::new(text) {
        if token == Token::Close {
            open.pop();
            continue;
        }
        if let Some(&parent) = open.last() {
            lengths[parent] += 1;
        }
        if matches!(token, Token::Array | Token::Object) {
            open.push(lengths.len());
            lengths.push(0);
        }
    }
    lengths
}

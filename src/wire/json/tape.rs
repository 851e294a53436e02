//! The fast parser: simd-json's tape over a copy of the text.
//!
//! The text itself stays untouched, because simd-json unescapes in place. Strings on the tape point
//! into the copy, so a key's address tells where it stands in the text, and the text of an object
//! lies between its own key and the next one: no scan for its end.

use super::{Fields, Integer, StringsAt, Value};
use crate::base::strings::StringList;
use simd_json::{Buffers, INPUT_PADDING, Node, StaticNode, Tape};

/// Parses `text` into `values` and returns the number of its members; `None` means that this parser
/// cannot tell and the exact one must.
#[inline]
pub(super) fn parse<'a, F: Fields<N>, const N: usize>(
    text: &'a [u8],
    copy: &'a mut Vec<u8>,
    buffers: &mut Buffers,
    tape: &mut Tape<'a>,
    strings: &mut StringList,
    values: &mut [Value<'a>; N],
) -> Option<usize> {
    // The padding may hold anything, so what an earlier text left there can stay.
    let padded = text.len() + INPUT_PADDING;
    if copy.len() < padded {
        copy.resize(padded, b' ');
    }
    copy[..text.len()].copy_from_slice(text);
    let copy = &mut copy[..padded];
    let base = copy.as_ptr().addr();
    simd_json::fill_tape_padded(copy, text.len(), buffers, tape).ok()?;

    let [Node::Object { len, .. }, members @ ..] = &tape.0[..] else { return None };
    let (len, mut members) = (*len, members);
    while let [Node::String(key), rest @ ..] = members {
        let value = *rest.first()?;
        members = rest.get(nodes_of(value)..)?;
        if let Some(number) = F::number(key.as_bytes()) {
            values[number] = match value {
                Node::String(string) => Value::String(string),
                Node::Static(fixed) => scalar(fixed)?,
                Node::Array { len, .. } => array(rest.get(1..=len), strings),
                Node::Object { .. } => {
                    let start = value_start(text, key.as_ptr().addr().checked_sub(base)?, key)?;
                    let end = match members {
                        [Node::String(next), ..] => {
                            let key = next.as_ptr().addr().checked_sub(base)?;
                            before(text, key.checked_sub(1)?, b',')?
                        }
                        _ => before(text, text.len(), b'}')?,
                    };
                    let object = text.get(start..end)?;
                    let whole = object.first() == Some(&b'{') && object.last() == Some(&b'}');
                    if !whole {
                        return None;
                    }
                    Value::Object(object)
                }
            };
        }
    }
    Some(len)
}

/// How many nodes a value takes on the tape.
#[inline]
fn nodes_of(value: Node<'_>) -> usize {
    match value {
        Node::Object { count, .. } | Node::Array { count, .. } => count + 1,
        Node::String(_) | Node::Static(_) => 1,
    }
}

#[inline]
fn scalar(value: StaticNode) -> Option<Value<'static>> {
    Some(match value {
        StaticNode::Null => Value::Null,
        StaticNode::Bool(value) => Value::Bool(value),
        StaticNode::F64(_) => Value::Number,
        StaticNode::U64(number) => match i64::try_from(number) {
            Ok(small) if small < i64::MAX => Value::Integer(Integer::Small(small)),
            // The exact parser has the digits.
            _ => return None,
        },
        // Only what is written with a minus sign comes as a signed number.
        StaticNode::I64(number) if number <= 0 => Value::Integer(Integer::Negative),
        StaticNode::I64(_) => return None,
    })
}

/// `elements` are the nodes of the array if all its elements are scalars, which is all that counts.
fn array(elements: Option<&[Node<'_>]>, strings: &mut StringList) -> Value<'static> {
    let Some(elements) = elements else { return Value::Array };
    let first = strings.len();
    for element in elements {
        let Node::String(string) = element else {
            strings.truncate(first);
            return Value::Array;
        };
        strings.push(string.as_bytes());
    }
    Value::Strings(StringsAt { first: narrow(first), end: narrow(strings.len()) })
}

pub(super) fn narrow(count: usize) -> u32 {
    u32::try_from(count).expect("a text of less than 4 GiB holds fewer than 2^32 strings")
}

/// Where the value begins whose key's first character stands at `key`; `name`: the key, unescaped.
#[inline]
fn value_start(text: &[u8], key: usize, name: &str) -> Option<usize> {
    let mut at = key + name.len();
    // A name without quotation marks ends at the first one that is not escaped, and an escape is
    // longer than its character: if there is one here, the key has no escapes.
    if text.get(at) != Some(&b'"') {
        at = key;
        loop {
            match text.get(at)? {
                b'"' => break,
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
    }
    at = skip_blanks(text, at + 1);
    if text.get(at) != Some(&b':') {
        return None;
    }
    Some(skip_blanks(text, at + 1))
}

#[inline]
fn skip_blanks(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        at += 1;
    }
    at
}

/// Where the value ends that stands before `mark`, which is the last token before `end`.
#[inline]
fn before(text: &[u8], end: usize, mark: u8) -> Option<usize> {
    let end = skip_blanks_back(text, end);
    if text.get(end.checked_sub(1)?) != Some(&mark) {
        return None;
    }
    Some(skip_blanks_back(text, end - 1))
}

#[inline]
fn skip_blanks_back(text: &[u8], mut end: usize) -> usize {
    while end > 0 && matches!(text.get(end - 1), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        end -= 1;
    }
    end
}

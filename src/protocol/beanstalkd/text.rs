//! Texts of statistics and lists.

use crate::wire::json::push_number;

/// Bytes beside the text, at most.
const FIXED_PART: usize = 32;

/// A text with its length before it.
pub(super) fn text_reply(text: &[u8]) -> Vec<u8> {
    let mut reply = Vec::with_capacity(FIXED_PART + text.len());
    reply.extend_from_slice(b"OK ");
    push_number(&mut reply, text.len());
    reply.extend_from_slice(b"\r\n");
    reply.extend_from_slice(text);
    reply.extend_from_slice(b"\r\n");
    reply
}

//! HTTP/1.1 messages in both directions: heads of requests and responses, bodies by length and in
//! chunks.
//!
//! What two readers could take for different messages is rejected, not interpreted: line ends
//! without CR, folded fields, blanks before a colon, a length twice or beside chunks, unknown
//! transfer codings, chunk sizes that are no plain numbers.
//!
//! Invariants: a byte is searched for a line end once; nothing is copied; what is kept in the input
//! is bounded by [`HTTP_HEAD_MAX_BYTES`](crate::base::limits::HTTP_HEAD_MAX_BYTES).

mod accept;
mod body;
mod fields;
mod head;
mod signs;
mod terms;
#[cfg(test)]
mod tests;
mod write;

pub use accept::{Wanted, wanted};
pub use body::{Body, Piece};
pub use head::{RequestHead, ResponseHead, next_request, next_response, target_of_faulty};
pub use signs::{is_request_line, may_begin_request};
pub use terms::{Expect, Framing, Version};
pub use write::{
    push_chunk, push_field, push_field_number, push_last_chunk, push_request_line,
    push_status_line, reason,
};

/// What is wrong with a message: nothing behind it makes sense either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The status that says so.
    pub status: u16,
    /// What it is, as a sentence.
    pub why: &'static str,
}

impl ParseError {
    /// A message that breaks the rules.
    const fn bad(why: &'static str) -> Self {
        Self { status: 400, why }
    }
}

//! RESP, the protocol of Redis and Valkey, versions 2 and 3, as their client speaks it: whole
//! values are found in a stream, read without a tree, and arrays of bulk strings are written.
//!
//! ```text
//! +text  -error  :integer  ,double  (digits  #t  #f  _        up to the end of the line
//! $length data   !length error   =length format:text          data and another line end behind it
//! *count  ~count  >count values   %count  |count pairs        -1 as length or count: null
//! ```
//!
//! Attributes (`|`) are passed over wherever they stand. Streamed lengths (`$?`, `*?`) are refused:
//! no server sends them.
//!
//! Invariants: nothing recurses, and no memory is taken by what a length or a count promises. A
//! [`Framer`] looks at each byte of a line once and never into the data of a bulk string, however
//! the bytes are split. A value ends within the bound that it was given; a promise that cannot be
//! kept within it ends the reading at once.

mod error;
mod frame;
mod raw;
mod read;
mod slot;
#[cfg(test)]
mod tests;
mod write;

pub use error::Error;
pub use frame::Framer;
pub use raw::{Elements, Entries, Raw};
pub use read::{Reader, Token};
pub use slot::{SLOTS, slot, tag_of_slot, tagged};
pub use write::{push_array, push_bulk, push_bulk_of, push_bulk_signed, push_bulk_unsigned};

/// How deep aggregates may be nested. The replies of Redis are nested some five levels deep.
pub const DEPTH_MAX: usize = 32;

/// Bytes of a line, its first byte and its end not counted. Redis cuts errors far below.
pub const LINE_MAX: usize = 64 * 1024;

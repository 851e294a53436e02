//! Ids of jobs, clients, and requests under way.

use crate::base::slab::SlabKey;

/// A job id: unique for the life of the data, rising, below 2^53.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

impl JobId {
    /// An id that no job gets.
    pub const NEVER: Self = Self(0);
}

/// A client: one connection, from its first byte to its end, or one dispatcher. The index is small
/// and dense.
pub type ClientId = SlabKey;

/// Connection and serial of a request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// The client that submitted it.
    pub client: ClientId,
    /// Number of the client's request, from 0, wrapping.
    pub serial: u32,
}

//! Who is who: jobs, clients, and requests under way.

use crate::base::slab::SlabKey;

/// A job's id: unique for the life of the data, rising, below 2^53.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

impl JobId {
    /// An id that is never given out.
    pub const NEVER: Self = Self(0);
}

/// A client: one connection, from its first byte to its end. The index is small and dense.
pub type ClientId = SlabKey;

/// One request under way: which client asked, and which of its requests it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// Who asked.
    pub client: ClientId,
    /// Which of the client's requests, counted from 0, wrapping.
    pub serial: u32,
}

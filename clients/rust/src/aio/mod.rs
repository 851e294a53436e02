//! The client on tokio.

pub(crate) mod builders;
pub(crate) mod client;
pub(crate) mod job;
pub(crate) mod link;
pub(crate) mod puts;
pub(crate) mod stream;

//! Redis or Valkey as the sink of a shared engine: one node at a time.
//!
//! What is written there, and under which conditions, is said by the functions in
//! `lua/jobcentre.lua`; this module calls them. `docs/redis.md` is for operators.

mod admin;
mod answer;
mod follow;
mod load;
mod locate;
mod request;
mod start;
mod start_error;

pub use admin::{Adopted, Paused, Scanned, adopt, drop_all, pause, scan};
pub use answer::{Answer, Offer, is_passing};
pub(in crate::engine) use follow::{FollowAnswer, FollowStage};
pub use load::{Loaded, load};
pub(in crate::engine) use load::{PARTS_PER_RENEWAL, PartSize, load_into, read_part};
pub use locate::{Address, Hop, Locator, Primary, Role};
pub(in crate::engine::shared) use request::Term;
pub use request::{Requests, library};
pub use start::{
    Calls, Lead, Offered, Status, Warnings, check_node, init, lead, leave, moved, primary,
    register, status,
};
pub use start_error::{CallError, StartError};

/// The version of the library of functions.
pub const LIBRARY_VERSION: i64 = 6;

/// The version of what the records and keys mean.
pub const SCHEMA: u64 = 1;

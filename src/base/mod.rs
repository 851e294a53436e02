//! Mechanisms without domain terms.
//!
//! This layer depends on std and small crates alone, and can be understood and tested without
//! knowing what a job is. Nothing here does I/O, reads a clock or draws a random number.

pub mod address_set;
pub mod api_limits;
pub mod buf;
pub mod hash_index;
pub mod heap;
pub mod histogram;
pub mod limits;
pub mod names;
pub mod paged;
mod pass_limits;
pub mod prefetch;
pub mod rate_limited_counter;
pub mod rng;
pub mod sharded_table;
pub mod slab;
pub mod slab_index;
pub mod strings;
pub mod thin;
pub mod time;
pub mod timer_queue;
mod timer_runs;

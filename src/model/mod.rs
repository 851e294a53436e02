//! F1: the vocabulary that protocols, engines and stores share. Plain data, no behaviour.
//!
//! Commands borrow from the request that they came in, replies from the store: a job's bytes are
//! copied once on their way in and once on their way out. Wire words live in `protocol`, never
//! here.

pub mod command;
pub mod driver;
pub mod event;
pub mod external_id;
pub mod id;
pub mod indexed_queue;
pub mod job;
pub mod owned;
pub mod query;
pub mod reply;
pub mod row;
pub mod snapshot;
pub mod stats;
pub mod worker;

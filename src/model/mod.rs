//! The types that protocols, engine and store share: plain data without behaviour.
//!
//! Commands borrow from the request buffer, replies from the store: a job's bytes are copied once
//! on the way in and once on the way out. Wire words belong to `protocol`.

pub mod action;
pub mod backup;
pub mod command;
pub mod consumer;
pub mod driver;
pub mod event;
pub mod external_id;
pub mod flow;
pub mod forward;
pub mod id;
pub mod indexed_queue;
pub mod job;
pub mod job_details;
pub mod job_state;
pub mod manage;
pub mod new_job;
pub mod owned;
pub mod peer;
pub mod query;
pub mod rejection;
pub mod reload;
pub mod reply;
pub mod row;
pub mod schedule;
pub mod show;
pub mod snapshot;
pub mod stats;
pub mod transfer;
pub mod wait;
pub mod worker;

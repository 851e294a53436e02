//! One binary for all integration tests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests talk to real servers in real time")]

mod bench;
mod changed_users;
mod cli_client;
mod dispatcher_sim;
mod documents;
mod durable_sim;
mod engine_sim;
mod heap;
mod http;
mod indexed_queues;
mod job_centre_sim;
mod journal;
mod late_engine;
mod metrics;
mod multi_protocol_sim;
mod oracle;
mod outbound;
mod packages;
mod paging;
mod parsers;
mod process;
mod processor;
mod query;
mod rng;
mod schedule_sim;
mod seeds;
mod server_oracle;
mod sockets;
mod support;
mod tidy;
mod timer_queue;
mod tracked_jobs;
mod transcripts;
mod unauthenticated;
mod unauthenticated_streams;
mod worker_cli;

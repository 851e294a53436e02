//! One binary for all integration tests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agents;
mod bench;
mod deadlines;
mod dice;
mod documents;
mod doors_sim;
mod durable_sim;
mod engine_sim;
mod figures;
mod heap;
mod http;
mod journal;
mod kit;
mod outgoing;
mod parsers;
mod process;
mod processor;
mod query;
mod seeds;
mod sim;
mod sockets;
mod support;
mod tidy;
mod transcripts;
mod watched;
mod work;

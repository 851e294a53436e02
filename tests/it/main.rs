//! One binary for all integration tests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod process;
mod support;
mod transcripts;

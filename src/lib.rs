#![doc = include_str!("../docs/internals/overview.md")]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

// In the order of the layers, L0 first: each uses only what stands above it here.
pub mod access;
pub mod base;
pub mod model;
pub mod wire;

pub mod schedule;

pub mod store;

pub mod journal;

pub mod query;

pub mod engine;
pub mod protocol;

pub mod server;

pub mod reactor;

pub mod cli;

//! Servers that share a real Redis (`--engine`). Without a `redis-server` on this machine these
//! tests are passed over, and say so.

mod admin;
mod cluster;
mod forwards;
mod functions;
mod kills;
mod leaders;
mod redis;
mod sentinels;
mod tls;

pub(crate) use redis::{Redis, redis_program};

//! Servers that share a real Redis (`--engine`). Without a `redis-server` on this machine these
//! tests are passed over, and say so.

mod admin;
mod changes;
mod cluster;
mod forwards;
mod functions;
mod hand_over;
mod kills;
mod leaders;
mod redis;
mod sentinels;
mod tls;

pub(crate) use redis::{Redis, redis_program};

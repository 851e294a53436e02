//! Workers that the server calls: the real process with workers in threads, and a simulated world.

mod durable;
mod law;
pub(crate) mod master;
mod peer;
mod real;
mod sim;
mod worker;
mod world;

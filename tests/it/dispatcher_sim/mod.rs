//! Dispatchers: the real process with workers in threads, and simulations.

mod constraint_model;
mod durable;
mod real;
pub(crate) mod server_client;
mod sim;
mod sim_worker;
mod simulation;
mod worker;

//! Workers that the server calls: the real process with workers in threads, and a simulated
//! simulation.

mod constraint_model;
mod durable;
mod real;
pub(crate) mod server_client;
mod sim;
mod sim_worker;
mod simulation;
mod worker;

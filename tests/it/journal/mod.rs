//! The journal: on a simulated disk, on damaged ones, and on the real one.

mod copies;
mod damage;
pub(crate) mod disk;
mod harness;
mod real;
mod salvage_sim;
mod salvaged;
mod sim;
mod simulation;
mod space;

//! The journal: on a simulated disk, on damaged ones, and on the real one.

pub(crate) mod disk;
mod shop;
mod sim;
mod world;

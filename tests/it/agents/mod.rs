//! Workers that the server calls: the real process with workers in threads, and a simulated world.

mod peer;
mod real;
mod roster;
mod sim;
mod worker;
mod world;

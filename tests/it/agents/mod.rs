//! Workers that the server calls: the real process with workers in threads, and a simulated world.

mod real;
mod roster;
mod worker;

//! The journal: on a simulated disk, on damaged ones, and on the real one.

mod damage;
mod disk;
mod real;
mod salvage;
mod shop;
mod sim;
mod space;
mod world;

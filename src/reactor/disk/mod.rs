//! The disk of the operating system under a journal: the one place of the server that touches files
//! and waits on threads.
//!
//! [`Directory`] is what recovery, checks and salvage read through, [`RealDisk`] what a running
//! journal writes through.

mod direct;
mod directory;
mod real;
mod segments;

pub use directory::{Access, Directory};
pub use real::{Notify, RealDisk};

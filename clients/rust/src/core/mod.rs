//! The line protocol without I/O, clocks and runtimes: requests become bytes, bytes become answers.
//! Both clients are made of it.

pub(crate) mod address;
pub(crate) mod held;
pub(crate) mod put;
pub(crate) mod repeat;
pub(crate) mod requests;
pub(crate) mod wire;

//! The processor (`docs/protocols/processor.md`): what its messages lead to, in virtual time.

mod lists;
mod model;
mod moments;
mod restart;
mod sim;
mod simulation;
mod spec_table;

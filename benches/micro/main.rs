//! Micro benches: each mechanism by itself.
//!
//! `cargo bench --bench micro` runs all, `cargo bench --bench micro -- heap` those with `heap` in
//! their names; under `cargo test --benches` everything runs once at a tiny size. The modules say
//! what each group is to tell.
//!
//! Unless its module says otherwise, one iteration does [`ROUND`] operations on different data: a
//! repeated input flatters branchy code, and **a time in µs reads as ns for one operation**.

mod completions;
mod connection_close;
mod constraints;
mod heap;
mod journal;
mod json;
mod queries;
#[path = "../common/query_rows.rs"]
mod query_rows;
mod timer_queue;
mod waiters;

use jobcentre::base::time::{Mono, Now, Wall};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Operations in one iteration.
const ROUND: usize = 1000;

const NOW: Now = Now { mono: Mono(1), wall: Wall(1) };

fn main() {
    divan::main();
}

/// `full` when measuring; under `cargo test` at most 50.
fn sized(full: usize) -> usize {
    if std::env::args().any(|arg| arg == "--bench") { full } else { full.min(50) }
}

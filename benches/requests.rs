//! Whole requests through the pure server, without a socket: the cost of the code below the
//! reactor.
//!
//! `cargo bench --bench requests` prints nanoseconds per request (medians of passes) for cycles
//! (put, get, delete) at several depths and backlogs, and a hash of all replies. Three numbers as
//! arguments (backlog, depth, rounds) run that one scenario, for a profiler. Under `cargo test
//! --benches` it runs a tiny size. Behind them come requests of the native API.

#![allow(clippy::disallowed_methods, reason = "it measures time")]

mod common;
#[path = "common/native.rs"]
mod native;

use common::{Bench, get_lines, put_lines};
use std::hash::{DefaultHasher, Hasher};
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let arguments: Vec<u64> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    if let [backlog, depth, rounds] = arguments[..] {
        return measure(backlog, depth, rounds);
    }
    let tiny = !std::env::args().any(|arg| arg == "--bench");
    for backlog in [0_u64, 1_000, 1_000_000] {
        for depth in [1_u64, 16] {
            let backlog = if tiny { backlog / 10_000 } else { backlog };
            let rounds = if tiny { 10 } else { 300_000 / depth };
            measure(backlog, depth, rounds);
        }
    }
    native::measure(tiny);
}

fn measure(backlog: u64, depth: u64, rounds: u64) {
    let mut bench = Bench::with_backlog(backlog);
    let mut spent = [const { Vec::new() }; 3];
    // Replies must be the same in every version of the server.
    let mut hash = DefaultHasher::new();
    let mut timed = |bench: &mut Bench, kind: usize, lines: &str| {
        let start = Instant::now();
        let answer = bench.pass(lines.as_bytes());
        spent[kind].push(start.elapsed().as_nanos());
        hash.write(answer);
    };
    let gets = get_lines(depth);
    for round in 0..rounds {
        timed(&mut bench, 0, &put_lines(backlog + round * depth, depth));
        timed(&mut bench, 1, &gets);
        let deletes = bench.delete_lines();
        timed(&mut bench, 2, &deletes);
    }
    // Medians: another process on the core makes a few passes last very long.
    let [put, get, delete] = spent.map(|mut passes| {
        passes.sort_unstable();
        passes[passes.len() / 2] / u128::from(depth)
    });
    println!(
        "backlog {backlog:>8}, depth {depth:>3}: put {put:>5} ns, get {get:>5} ns, delete \
         {delete:>5} ns, mean {:>5} ns; answers {:016x}",
        (put + get + delete) / 3,
        hash.finish()
    );
}

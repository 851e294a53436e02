//! Whole requests through the pure server, without a socket: what the code below the reactor costs.
//!
//! `cargo bench --bench requests` prints nanoseconds per request for cycles (put, get, delete) at
//! several depths and backlogs, and a hash of all answers, so that nobody makes the server fast by
//! changing what it says. Under `cargo test --benches` it runs a tiny size. Three numbers as
//! arguments (backlog, depth, rounds) run that one cell, for a profiler.

use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::engine::Engine;
use jobcentre::model::core::{Core, Door};
use jobcentre::model::id::ClientId;
use jobcentre::server::{Server, Settings};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher};
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NOW: Now = Now { mono: Mono(1), wall: Wall(1) };

/// A server with one client, and the bytes that it answered.
struct Bench {
    server: Server,
    client: ClientId,
    hash: DefaultHasher,
    answer: Vec<u8>,
}

impl Bench {
    fn new() -> Self {
        let settings = Settings { max_request: 1 << 20, max_clients: 10 };
        let mut server = Server::new(settings, Engine::in_memory(1));
        let client = server.handle_open(Door::JobCentre, NOW).expect("there is room");
        Self { server, client, hash: DefaultHasher::new(), answer: Vec::new() }
    }

    /// One pass: hands the bytes over and takes all answers.
    fn pass(&mut self, bytes: &[u8]) {
        self.server.handle_input(self.client, bytes, NOW);
        self.server.finish_pass(NOW);
        while let Some(client) = self.server.poll_touched() {
            let output = self.server.output(client);
            if !output.is_empty() {
                self.answer.clear();
                self.answer.extend_from_slice(output);
                self.hash.write(output);
                let count = output.len();
                self.server.handle_sent(client, count, NOW);
            }
        }
    }
}

/// The put of job number `number`: 100 bytes of job, varied in content and priority.
fn push_put(line: &mut String, number: u64) {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let head = format!("{{\"n\":{number},\"data\":\"");
    let fill: String =
        (0..98 - head.len()).map(|i| char::from(b'a' + ((mixed >> (i % 60)) % 26) as u8)).collect();
    let pri = mixed >> 44;
    writeln!(
        line,
        "{{\"request\":\"put\",\"queue\":\"queue0\",\"job\":{head}{fill}\"}},\"pri\":{pri}}}",
    )
    .expect("a string takes everything");
}

fn ids(answer: &[u8]) -> Vec<u64> {
    std::str::from_utf8(answer)
        .expect("answers are text")
        .lines()
        .filter_map(|line| line.split("\"id\":").nth(1))
        .map(|rest| rest.split([',', '}']).next().expect("a number").parse().expect("a number"))
        .collect()
}

fn main() {
    let arguments: Vec<u64> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    if let [backlog, depth, rounds] = arguments[..] {
        return measure(backlog, depth, rounds);
    }
    let tiny = !std::env::args().any(|arg| arg == "--bench");
    for backlog in [0_u64, 1_000_000] {
        for depth in [1_u64, 16] {
            let backlog = if tiny { backlog / 10_000 } else { backlog };
            let rounds = if tiny { 10 } else { 300_000 / depth };
            measure(backlog, depth, rounds);
        }
    }
}

fn measure(backlog: u64, depth: u64, rounds: u64) {
    let mut bench = Bench::new();
    let mut lines = String::new();
    for number in 0..backlog {
        lines.clear();
        push_put(&mut lines, number);
        bench.pass(lines.as_bytes());
    }
    let gets = "{\"request\":\"get\",\"queues\":[\"queue0\"]}\n"
        .repeat(usize::try_from(depth).expect("small"));
    let mut spent = [0_u128; 3];
    let mut number = backlog;
    for _ in 0..rounds {
        lines.clear();
        for _ in 0..depth {
            push_put(&mut lines, number);
            number += 1;
        }
        let start = Instant::now();
        bench.pass(lines.as_bytes());
        spent[0] += start.elapsed().as_nanos();
        let start = Instant::now();
        bench.pass(gets.as_bytes());
        spent[1] += start.elapsed().as_nanos();
        lines.clear();
        for id in ids(&bench.answer) {
            writeln!(lines, "{{\"request\":\"delete\",\"id\":{id}}}")
                .expect("a string takes everything");
        }
        let start = Instant::now();
        bench.pass(lines.as_bytes());
        spent[2] += start.elapsed().as_nanos();
    }
    let each = u128::from(rounds * depth);
    println!(
        "backlog {backlog:>8} depth {depth:>3}: put {:>5} ns, get {:>5} ns, delete {:>5} ns, mean {:>5} ns  answers {:016x}",
        spent[0] / each,
        spent[1] / each,
        spent[2] / each,
        spent.iter().sum::<u128>() / each / 3,
        bench.hash.finish()
    );
}

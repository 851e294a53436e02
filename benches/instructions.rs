//! Instructions per request, counted by callgrind: figures that no other program on the machine
//! disturbs. `benches/instruction_counts.py` runs this bench, divides by the number of requests, and
//! compares with what is recorded.
//!
//! Every benchmark handles [`COUNT`] requests that arrive 16 at a time. What comes before (the
//! server, its backlog, warm buffers, the text of the requests) is prepared and not counted.

#![allow(
    missing_docs,
    unused_qualifications,
    reason = "the macros of the bench harness write them"
)]

mod common;

use common::{Bench, get_lines, put_lines};
use gungraun::prelude::*;
use jobcentre::base::rng::Rng;
use jobcentre::base::strings::StringList;
use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{Encoding, Payload, Turn, Urgency};
use jobcentre::store::{Effects, Store};
use jobcentre::wire::json::{Fields, Parser, Value};
use std::hint::black_box;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Requests in one benchmark: `benches/instruction_counts.py` knows it too.
const COUNT: u64 = 480;
const DEPTH: usize = 16;

/// A server and the bytes of the passes to come.
struct Prepared {
    bench: Bench,
    passes: Vec<String>,
}

fn in_passes(lines: &str) -> Vec<String> {
    let lines: Vec<&str> = lines.split_inclusive('\n').collect();
    lines.chunks(DEPTH).map(<[&str]>::concat).collect()
}

/// A server that has served everything once, with `backlog` jobs waiting.
fn warm(backlog: u64) -> Bench {
    let mut bench = Bench::with_backlog(backlog);
    for pass in in_passes(&put_lines(backlog, 64)) {
        bench.pass(pass.as_bytes());
    }
    for pass in in_passes(&get_lines(64)) {
        bench.pass(pass.as_bytes());
        let deletes = bench.delete_lines();
        bench.pass(deletes.as_bytes());
    }
    bench
}

fn puts(backlog: u64) -> Prepared {
    Prepared { bench: warm(backlog), passes: in_passes(&put_lines(1_000_000, COUNT)) }
}

fn gets(backlog: u64) -> Prepared {
    let mut prepared = puts(backlog);
    run_passes(&mut prepared);
    prepared.passes = in_passes(&get_lines(COUNT));
    prepared
}

fn deletes(backlog: u64) -> Prepared {
    let mut prepared = gets(backlog);
    let mut deletes = String::new();
    for pass in &prepared.passes {
        prepared.bench.pass(pass.as_bytes());
        deletes.push_str(&prepared.bench.delete_lines());
    }
    prepared.passes = in_passes(&deletes);
    prepared
}

/// Thirds of puts, gets and deletes in turn: 16 of each, again and again.
fn cycles(backlog: u64) -> Prepared {
    let rounds = COUNT / 3 / DEPTH as u64;
    let mut rehearsal = warm(backlog);
    let mut passes = Vec::new();
    for round in 0..rounds {
        let puts = put_lines(1_000_000 + round * DEPTH as u64, DEPTH as u64);
        rehearsal.pass(puts.as_bytes());
        rehearsal.pass(get_lines(DEPTH as u64).as_bytes());
        let deletes = rehearsal.delete_lines();
        rehearsal.pass(deletes.as_bytes());
        passes.extend([puts, get_lines(DEPTH as u64), deletes]);
    }
    Prepared { bench: warm(backlog), passes }
}

fn run_passes(prepared: &mut Prepared) {
    for pass in &prepared.passes {
        prepared.bench.pass(pass.as_bytes());
    }
}

#[library_benchmark]
#[bench::put(args = (1_000), setup = puts)]
#[bench::get(args = (1_000), setup = gets)]
#[bench::delete(args = (1_000), setup = deletes)]
#[bench::cycle(args = (1_000), setup = cycles)]
#[bench::cycle_100k(args = (100_000), setup = cycles)]
fn request(mut prepared: Prepared) -> Prepared {
    run_passes(&mut prepared);
    black_box(prepared)
}

struct Wanted;

impl Fields<4> for Wanted {
    fn number(name: &[u8]) -> Option<usize> {
        [&b"request"[..], b"queue", b"job", b"pri"].iter().position(|&wanted| wanted == name)
    }
}

fn lines_of_puts() -> (Parser, Vec<String>) {
    let lines: Vec<String> = put_lines(1_000_000, COUNT).lines().map(str::to_owned).collect();
    let mut parser = Parser::default();
    let first = lines[0].clone();
    let mut values = [Value::Absent; 4];
    parser.parse::<Wanted, 4>(first.as_bytes(), &mut values).expect("a good line");
    (parser, lines)
}

#[library_benchmark]
#[bench::tape(setup = lines_of_puts)]
fn parse_put((mut parser, lines): (Parser, Vec<String>)) -> (Parser, Vec<String>) {
    for line in &lines {
        let mut values = [Value::Absent; 4];
        black_box(parser.parse::<Wanted, 4>(line.as_bytes(), &mut values).is_ok());
    }
    (parser, lines)
}

#[library_benchmark]
#[bench::exact(setup = lines_of_puts)]
fn parse_put_exactly((mut parser, lines): (Parser, Vec<String>)) -> (Parser, Vec<String>) {
    for line in &lines {
        let mut values = [Value::Absent; 4];
        black_box(parser.parse_exactly::<Wanted, 4>(line.as_bytes(), &mut values).is_ok());
    }
    (parser, lines)
}

/// A store with [`BACKLOG`] jobs of distinct priorities in one queue, without protocol or server.
struct Shelf {
    store: Store,
    effects: Effects,
    queues: StringList,
    serial: u32,
    jobs: u64,
    rng: Rng,
}

const BACKLOG: u64 = 1_000;
const CLIENT: ClientId = ClientId { index: 0, generation: 1 };
const NOW: Now = Now { mono: Mono(0), wall: Wall(0) };

impl Shelf {
    fn new(queue: &[u8]) -> Self {
        let mut queues = StringList::default();
        queues.push(queue);
        let mut shelf = Self {
            store: Store::new(1),
            effects: Effects::default(),
            queues,
            serial: 0,
            jobs: 0,
            rng: Rng::new(5),
        };
        (0..BACKLOG).for_each(|_| shelf.put());
        shelf
    }

    fn apply(&mut self, command: &Command<'_>) {
        self.serial += 1;
        let ticket = Ticket { client: CLIENT, serial: self.serial };
        self.store.apply(ticket, command, NOW, &mut self.effects);
        self.effects.outcomes.clear();
    }

    fn put(&mut self) {
        self.jobs += 1;
        let payload = Payload { encoding: Encoding::JsonLine, bytes: &[b'x'; 100] };
        let urgency = Urgency::Number(self.rng.below(1 << 40).cast_signed());
        let turn = Turn::OldestFirst;
        self.apply(&Command::Put { queue: b"bench", urgency, turn, payload, terms: None });
    }

    fn take(&mut self, wait: Wait) {
        let queues = std::mem::take(&mut self.queues);
        self.apply(&Command::Take { queues: queues.from(0), wait });
        self.queues = queues;
    }
}

fn stocked() -> Shelf {
    Shelf::new(b"bench")
}

/// Every job is held.
fn handed_out() -> Shelf {
    let mut shelf = stocked();
    (0..BACKLOG).for_each(|_| shelf.take(Wait::No));
    shelf
}

/// [`COUNT`] takes wait for a job.
fn awaited() -> Shelf {
    let mut shelf = handed_out();
    (0..COUNT).for_each(|_| shelf.take(Wait::Forever));
    shelf
}

#[library_benchmark(setup = stocked)]
fn store_put(mut shelf: Shelf) -> Shelf {
    (0..COUNT).for_each(|_| shelf.put());
    shelf
}

#[library_benchmark(setup = stocked)]
fn store_take(mut shelf: Shelf) -> Shelf {
    (0..COUNT).for_each(|_| shelf.take(Wait::No));
    shelf
}

#[library_benchmark(setup = handed_out)]
fn store_wait(mut shelf: Shelf) -> Shelf {
    (0..COUNT).for_each(|_| shelf.take(Wait::Forever));
    shelf
}

#[library_benchmark(setup = awaited)]
fn store_put_to_waiter(mut shelf: Shelf) -> Shelf {
    (0..COUNT).for_each(|_| shelf.put());
    shelf
}

#[library_benchmark(setup = handed_out)]
fn store_release(mut shelf: Shelf) -> Shelf {
    (1..=COUNT).for_each(|id| shelf.apply(&Command::Release { id: JobId(id), lease: None }));
    shelf
}

#[library_benchmark]
#[bench::held(setup = handed_out)]
#[bench::ready(setup = stocked)]
fn store_delete(mut shelf: Shelf) -> Shelf {
    (1..=COUNT).for_each(|id| shelf.apply(&Command::Delete { id: JobId(id) }));
    shelf
}

library_benchmark_group!(
    name = requests,
    benchmarks = [
        request,
        parse_put,
        parse_put_exactly,
        store_put,
        store_take,
        store_wait,
        store_put_to_waiter,
        store_release,
        store_delete
    ]
);

main!(library_benchmark_groups = requests);

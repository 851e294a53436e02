//! Instructions per request, counted by callgrind, so that other programs on the machine do not
//! disturb the figures. `benches/instruction_counts.py` runs this bench, divides by the number of
//! requests, and compares with the recorded counts.
//!
//! Every benchmark handles [`COUNT`] requests that arrive 16 at a time. Setup (the server, its
//! backlog, warm buffers, the text of the requests) is not counted. One whose name ends with
//! `_without` does the same without what the name says: one run shows what that saves.

#![allow(
    clippy::disallowed_methods,
    missing_docs,
    unused_qualifications,
    reason = "the macros of the bench harness write them"
)]

#[path = "common/beanstalkd.rs"]
mod beanstalkd;
mod common;
#[path = "common/native_lines.rs"]
mod native_lines;
#[path = "common/packets.rs"]
mod packets;
#[path = "common/query_rows.rs"]
mod query_rows;

use common::{Bench, get_lines, put_lines};
use gungraun::prelude::*;
use jobcentre::base::rng::Rng;
use jobcentre::base::strings::StringList;
use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{Encoding, JobOptions, Payload, Priority, TieBreak};
use jobcentre::query::{Evaluator, QueryTask, RowSkips};
use jobcentre::store::{Effects, Store};
use jobcentre::wire::json::{Fields, Parser, Value};
use std::hint::black_box;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Requests in one benchmark: `benches/instruction_counts.py` knows it too.
const COUNT: u64 = 480;
const DEPTH: usize = 16;

/// A server and the bytes of the passes to come.
struct Prepared {
    bench: Bench,
    passes: Vec<Vec<u8>>,
}

fn in_passes(lines: &str) -> Vec<Vec<u8>> {
    let lines: Vec<&str> = lines.split_inclusive('\n').collect();
    lines.chunks(DEPTH).map(|lines| lines.concat().into_bytes()).collect()
}

/// A server that has served everything once, with `backlog` jobs waiting.
fn warm(backlog: u64) -> Bench {
    let mut bench = Bench::with_backlog(backlog);
    for pass in in_passes(&put_lines(backlog, 64)) {
        bench.pass(&pass);
    }
    for pass in in_passes(&get_lines(64)) {
        bench.pass(&pass);
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
        prepared.bench.pass(pass);
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
        passes.extend([puts, get_lines(DEPTH as u64), deletes].map(String::into_bytes));
    }
    Prepared { bench: warm(backlog), passes }
}

fn run_passes(prepared: &mut Prepared) {
    for pass in &prepared.passes {
        prepared.bench.pass(pass);
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

#[library_benchmark]
#[bench::push(args = (1_000), setup = packets::prepared_pushes)]
#[bench::pop(args = (1_000), setup = packets::prepared_pops)]
#[bench::delivery(args = (0), setup = packets::prepared_deliveries)]
fn packet(mut prepared: Prepared) -> Prepared {
    run_passes(&mut prepared);
    black_box(prepared)
}

#[library_benchmark]
#[bench::put(args = (1_000), setup = beanstalkd::prepared_puts)]
#[bench::reserve(args = (1_000), setup = beanstalkd::prepared_reserves)]
#[bench::delete(args = (1_000), setup = beanstalkd::prepared_deletes)]
#[bench::cycle(args = (1_000), setup = beanstalkd::prepared_cycles)]
fn beanstalkd_request(mut prepared: Prepared) -> Prepared {
    run_passes(&mut prepared);
    black_box(prepared)
}

#[library_benchmark]
#[bench::put(args = (native_lines::Kind::Terms), setup = native_lines::prepared_puts)]
#[bench::put_keyed(args = (native_lines::Kind::Keyed), setup = native_lines::prepared_puts)]
#[bench::reserve(args = (native_lines::Kind::Terms), setup = native_lines::prepared_reserves)]
#[bench::done(setup = native_lines::prepared_dones)]
#[bench::fail(setup = native_lines::prepared_fails)]
#[bench::cycle(setup = native_lines::prepared_cycles)]
fn native_request(mut prepared: Prepared) -> Prepared {
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
struct Fixture {
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

impl Fixture {
    fn new(queue: &[u8]) -> Self {
        let mut fixture = Self::empty(queue);
        (0..BACKLOG).for_each(|_| fixture.put());
        fixture
    }

    fn empty(queue: &[u8]) -> Self {
        let mut queues = StringList::default();
        queues.push(queue);
        Self {
            store: Store::new(1),
            effects: Effects::default(),
            queues,
            serial: 0,
            jobs: 0,
            rng: Rng::new(5),
        }
    }

    fn apply(&mut self, command: &Command<'_>) {
        self.serial += 1;
        let ticket = Ticket { client: CLIENT, serial: self.serial };
        self.store.apply(ticket, command, NOW, &mut self.effects);
        self.effects.outcomes.clear();
    }

    #[inline]
    fn put(&mut self) {
        self.put_on(None);
    }

    #[inline]
    fn put_on(&mut self, options: Option<&JobOptions>) {
        self.jobs += 1;
        let payload = Payload { encoding: Encoding::JsonLine, bytes: &[b'x'; 100] };
        let priority = Priority::Small(self.rng.below(1 << 40).cast_signed());
        let tie_break = TieBreak::Fifo;
        self.apply(&Command::Put { queue: b"bench", priority, tie_break, payload, options });
    }

    fn take(&mut self, wait: Wait) {
        let queues = std::mem::take(&mut self.queues);
        self.apply(&Command::Reserve { queues: queues.from(0), wait });
        self.queues = queues;
    }
}

fn stocked() -> Fixture {
    Fixture::new(b"bench")
}

/// Every job is held.
fn handed_out() -> Fixture {
    let mut fixture = stocked();
    (0..BACKLOG).for_each(|_| fixture.take(Wait::No));
    fixture
}

/// [`COUNT`] takes wait for a job.
fn awaited() -> Fixture {
    let mut fixture = handed_out();
    (0..COUNT).for_each(|_| fixture.take(Wait::Forever));
    fixture
}

#[library_benchmark(setup = stocked)]
fn store_put(mut fixture: Fixture) -> Fixture {
    (0..COUNT).for_each(|_| fixture.put());
    fixture
}

#[library_benchmark(setup = stocked)]
fn store_take(mut fixture: Fixture) -> Fixture {
    (0..COUNT).for_each(|_| fixture.take(Wait::No));
    fixture
}

#[library_benchmark(setup = handed_out)]
fn store_wait(mut fixture: Fixture) -> Fixture {
    (0..COUNT).for_each(|_| fixture.take(Wait::Forever));
    fixture
}

#[library_benchmark(setup = awaited)]
fn store_put_to_waiter(mut fixture: Fixture) -> Fixture {
    (0..COUNT).for_each(|_| fixture.put());
    fixture
}

#[library_benchmark(setup = handed_out)]
fn store_release(mut fixture: Fixture) -> Fixture {
    (1..=COUNT).for_each(|id| fixture.apply(&Command::Release { id: JobId(id), lease: None }));
    fixture
}

#[library_benchmark]
#[bench::held(setup = handed_out)]
#[bench::ready(setup = stocked)]
fn store_delete(mut fixture: Fixture) -> Fixture {
    (1..=COUNT).for_each(|id| fixture.apply(&Command::Delete { id: JobId(id) }));
    fixture
}

/// Some time up to 17 minutes, for what `give` makes of it.
fn some_time(fixture: &mut Fixture, give: fn(u64) -> JobOptions) -> JobOptions {
    give(1 + fixture.rng.below(1 << 20))
}

fn with_delay(delay_ms: u64) -> JobOptions {
    JobOptions { delay_ms, ..JobOptions::default() }
}

fn with_ttl(ttl_ms: u64) -> JobOptions {
    JobOptions { ttl_ms, ..JobOptions::default() }
}

fn with_lease(lease_ms: u64) -> JobOptions {
    JobOptions { lease_ms, ..JobOptions::default() }
}

/// All jobs have a deadline, and [`COUNT`] are to be put on the same options.
fn stocked_on(give: fn(u64) -> JobOptions) -> (Fixture, Vec<JobOptions>) {
    let mut fixture = Fixture::empty(b"bench");
    for _ in 0..BACKLOG {
        let options = some_time(&mut fixture, give);
        fixture.put_on(Some(&options));
    }
    let options = (0..COUNT).map(|_| some_time(&mut fixture, give)).collect();
    (fixture, options)
}

/// Every job is held for some time.
fn lent() -> Fixture {
    let mut fixture = stocked_on(with_lease).0;
    (0..BACKLOG).for_each(|_| fixture.take(Wait::No));
    assert_eq!(fixture.store.counts().deadlines as u64, BACKLOG);
    fixture
}

fn waiting_on(give: fn(u64) -> JobOptions) -> Fixture {
    let fixture = stocked_on(give).0;
    assert_eq!(fixture.store.counts().deadlines as u64, BACKLOG);
    fixture
}

#[library_benchmark]
#[bench::delay(args = (with_delay), setup = stocked_on)]
#[bench::ttl(args = (with_ttl), setup = stocked_on)]
fn store_put_on((mut fixture, options): (Fixture, Vec<JobOptions>)) -> (Fixture, Vec<JobOptions>) {
    for options in &options {
        fixture.put_on(Some(options));
    }
    (fixture, options)
}

#[library_benchmark(setup = lent)]
fn store_touch(mut fixture: Fixture) -> Fixture {
    (1..=COUNT).for_each(|id| fixture.apply(&Command::Touch { id: JobId(id), lease: None }));
    fixture
}

// One thing that is due at a time.
#[library_benchmark]
#[bench::delay(args = (with_delay), setup = waiting_on)]
#[bench::ttl(args = (with_ttl), setup = waiting_on)]
#[bench::lease(setup = lent)]
fn store_expire(mut fixture: Fixture) -> Fixture {
    let late = Now { mono: Mono(u64::MAX), ..NOW };
    for _ in 0..COUNT {
        fixture.store.expire(1, late, &mut fixture.effects);
    }
    fixture
}

/// Rows that a query looks at: `benches/instruction_counts.py` knows it too.
const ROWS: u64 = 4_800;

const ALL: RowSkips = RowSkips::ALL;
const NO_COMPARISONS: RowSkips = RowSkips { comparisons: false, ..ALL };
const NO_PATHS: RowSkips = RowSkips { paths: false, ..ALL };
const NO_REJECTED_ROWS: RowSkips = RowSkips { rejected_rows: false, ..ALL };

/// A query that was run once, so that it is compiled.
fn compiled_query(name: &str, skips: RowSkips) -> (Evaluator, QueryTask) {
    let mut evaluator =
        Evaluator::with_skips(Arc::new(|| false), skips).expect("SQLite can be set up");
    let task = query_rows::task(name, ROWS);
    let found = evaluator.run(&task).expect("it is a query").len() as u64;
    assert!(found < ROWS / 10, "{name} finds {found} rows");
    (evaluator, task)
}

// `comparison`: src/query/prefilter.rs; `path`: path_predicate.rs and json_path.rs; `rejected`:
// rejected_rows.rs.
#[library_benchmark(setup = compiled_query)]
#[bench::comparison_null(args = ("states apart", ALL))]
#[bench::comparison_null_without(args = ("states apart", NO_COMPARISONS))]
#[bench::comparison_like(args = ("LIKE", ALL))]
#[bench::comparison_like_without(args = ("LIKE", NO_COMPARISONS))]
#[bench::path_in_payload(args = ("payload path", ALL))]
#[bench::path_in_payload_without(args = ("payload path", NO_PATHS))]
#[bench::path_in_events(args = ("events apart", ALL))]
#[bench::path_in_events_without(args = ("events apart", NO_PATHS))]
#[bench::rejected_path(args = ("state path", ALL))]
#[bench::rejected_path_without(args = ("state path", NO_REJECTED_ROWS))]
#[bench::rejected_function(args = ("state function", ALL))]
#[bench::rejected_function_without(args = ("state function", NO_REJECTED_ROWS))]
#[bench::rejected_events(args = ("events length", ALL))]
#[bench::rejected_events_without(args = ("events length", NO_REJECTED_ROWS))]
fn query((mut evaluator, task): (Evaluator, QueryTask)) -> (Evaluator, QueryTask) {
    black_box(evaluator.run(&task).is_ok());
    (evaluator, task)
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
        store_delete,
        packet,
        beanstalkd_request,
        native_request,
        store_put_on,
        store_touch,
        store_expire,
        query
    ]
);

main!(library_benchmark_groups = requests);

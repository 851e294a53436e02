//! Line requests of the native API, in passes of so many, as the client libraries write them.

use crate::common::{Bench, put_lines};
use crate::{COUNT, DEPTH, Prepared, in_passes, run_passes};

/// Which members a put has beside those of a plain one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// The terms of its runs.
    Terms,
    /// These, and a key.
    Keyed,
}

/// Puts of `count` jobs, numbered from `first`.
fn puts(kind: Kind, first: u64, count: u64) -> String {
    let with_members = |(number, line): (u64, &str)| {
        let line = line.strip_suffix('}').expect("a line is an object");
        let terms = "\"ttr\":60000,\"max_attempts\":10";
        match kind {
            Kind::Terms => format!("{line},{terms}}}\n"),
            Kind::Keyed => {
                format!("{line},{terms},\"key_ttl\":60000,\"key\":\"put:{number:024x}\"}}\n")
            }
        }
    };
    (first..).zip(put_lines(first, count).lines()).map(with_members).collect()
}

fn gets(count: u64) -> String {
    let get = "{\"request\":\"get\",\"queues\":[\"queue0\"],\"limit\":1,\"attempts\":true}\n";
    get.repeat(usize::try_from(count).expect("a small number"))
}

/// Requests about the jobs that these answers to gets hand out.
fn reports(answer: &[u8], request: &str) -> String {
    let answer = std::str::from_utf8(answer).expect("answers are text");
    let report = |line: &str| {
        let id = line.strip_prefix("{\"status\":\"ok\",\"jobs\":[{\"id\":");
        let id = id.and_then(|rest| rest.split(',').next()).expect("a job was handed out");
        request.replace("ID", id) + "\n"
    };
    answer.lines().map(report).collect()
}

const DONE: &str = "{\"request\":\"done\",\"id\":ID}";
const FAIL: &str =
    "{\"request\":\"fail\",\"id\":ID,\"error\":\"Timeout\",\"message\":\"no answer\"}";

/// Puts `DEPTH` jobs, reserves and completes them, in three passes, which are returned.
fn cycle(bench: &mut Bench, first: u64) -> [Vec<u8>; 3] {
    let put = puts(Kind::Keyed, first, DEPTH as u64);
    bench.pass(put.as_bytes());
    let get = gets(DEPTH as u64);
    let done = reports(bench.pass(get.as_bytes()), DONE);
    assert_eq!(bench.pass(done.as_bytes()), b"{\"status\":\"ok\"}\n".repeat(DEPTH));
    [put, get, done].map(String::into_bytes)
}

/// A server that has served everything once, with `backlog` jobs waiting.
fn warm(kind: Kind, backlog: u64) -> Bench {
    let mut bench = Bench::with_backlog(0);
    for pass in in_passes(&puts(kind, 0, backlog)) {
        bench.pass(&pass);
    }
    for round in 0..4 {
        cycle(&mut bench, backlog + round * DEPTH as u64);
    }
    bench
}

pub(crate) fn prepared_puts(kind: Kind) -> Prepared {
    Prepared { bench: warm(kind, 1_000), passes: in_passes(&puts(kind, 1_000_000, COUNT)) }
}

pub(crate) fn prepared_reserves(kind: Kind) -> Prepared {
    let mut prepared = prepared_puts(kind);
    run_passes(&mut prepared);
    prepared.passes = in_passes(&gets(COUNT));
    prepared
}

fn prepared_reports(request: &str) -> Prepared {
    let mut prepared = prepared_reserves(Kind::Terms);
    let report = |pass: &Vec<u8>| reports(prepared.bench.pass(pass), request).into_bytes();
    prepared.passes = prepared.passes.iter().map(report).collect();
    prepared
}

pub(crate) fn prepared_dones() -> Prepared {
    prepared_reports(DONE)
}

pub(crate) fn prepared_fails() -> Prepared {
    prepared_reports(FAIL)
}

/// Thirds of puts with keys, reserves and completions in turn.
pub(crate) fn prepared_cycles() -> Prepared {
    let mut rehearsal = warm(Kind::Keyed, 1_000);
    let rounds = COUNT / 3 / DEPTH as u64;
    let round = |round| cycle(&mut rehearsal, 1_000_000 + round * DEPTH as u64);
    let passes = (0..rounds).flat_map(round).collect();
    Prepared { bench: warm(Kind::Keyed, 1_000), passes }
}

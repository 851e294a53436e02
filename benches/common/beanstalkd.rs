//! Requests of beanstalkd's protocol, in passes of so many, and a server that has served some.

use crate::common::{Bench, text_of};
use crate::{COUNT, DEPTH, Prepared, run_passes};
use jobcentre::model::driver::Protocol;

/// Bytes of a body.
const BODY: usize = 100;

fn put(number: u64) -> String {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (priority, body) = (u64::from(u32::MAX) - (mixed >> 44), text_of(number, BODY));
    format!("put {priority} 0 3600 {BODY}\r\n{body}\r\n")
}

/// Passes of `depth` requests.
fn in_passes(requests: &[String], depth: usize) -> Vec<Vec<u8>> {
    requests.chunks(depth).map(|requests| requests.concat().into_bytes()).collect()
}

/// Puts of `count` jobs, numbered from `first`.
pub(crate) fn puts(first: u64, count: u64, depth: usize) -> Vec<Vec<u8>> {
    in_passes(&(first..first + count).map(put).collect::<Vec<_>>(), depth)
}

/// Reserves of `count` jobs, none of which waits.
pub(crate) fn reserves(count: u64, depth: usize) -> Vec<Vec<u8>> {
    let reserve = |_| "reserve-with-timeout 0\r\n".to_owned();
    in_passes(&(0..count).map(reserve).collect::<Vec<_>>(), depth)
}

/// Deletes of the jobs that these answers to reserves hand out.
pub(crate) fn deletes(answer: &[u8]) -> Vec<u8> {
    let answer = std::str::from_utf8(answer).expect("answers are text");
    let heads = answer.split("\r\n").step_by(2).filter(|head| !head.is_empty());
    let delete = |head: &str| {
        let id = head.strip_prefix("RESERVED ").and_then(|rest| rest.split(' ').next());
        format!("delete {}\r\n", id.expect("a job was handed out"))
    };
    heads.map(delete).collect::<String>().into_bytes()
}

/// Puts `depth` jobs, reserves and deletes them, in three passes, which are returned.
pub(crate) fn cycle(bench: &mut Bench, first: u64, depth: usize) -> [Vec<u8>; 3] {
    let put = puts(first, depth as u64, depth).concat();
    let answer = bench.pass(&put);
    assert_eq!(answer.split(|&byte| byte == b'\n').count(), depth + 1, "{}", answer.escape_ascii());
    let reserve = reserves(depth as u64, depth).concat();
    let delete = deletes(bench.pass(&reserve));
    assert_eq!(bench.pass(&delete), b"DELETED\r\n".repeat(depth));
    [put, reserve, delete]
}

/// A server that has served everything once, with `backlog` jobs waiting.
pub(crate) fn warm(backlog: u64, depth: usize) -> Bench {
    let mut bench = Bench::new(Protocol::Beanstalkd);
    for pass in puts(0, backlog, depth) {
        bench.pass(&pass);
    }
    for round in 0..4 {
        cycle(&mut bench, backlog + round * depth as u64, depth);
    }
    bench
}

/// A server with `backlog` jobs, whose client speaks the protocol of beanstalkd.
pub(crate) fn prepared_puts(backlog: u64) -> Prepared {
    let bench = warm(backlog, DEPTH);
    Prepared { bench, passes: puts(1_000_000, COUNT, DEPTH) }
}

pub(crate) fn prepared_reserves(backlog: u64) -> Prepared {
    let mut prepared = prepared_puts(backlog);
    run_passes(&mut prepared);
    prepared.passes = reserves(COUNT, DEPTH);
    prepared
}

pub(crate) fn prepared_deletes(backlog: u64) -> Prepared {
    let mut prepared = prepared_reserves(backlog);
    let reserve = |pass: &Vec<u8>| deletes(prepared.bench.pass(pass));
    prepared.passes = prepared.passes.iter().map(reserve).collect();
    prepared
}

/// Thirds of puts, reserves and deletes in turn.
pub(crate) fn prepared_cycles(backlog: u64) -> Prepared {
    let mut rehearsal = warm(backlog, DEPTH);
    let rounds = COUNT / 3 / DEPTH as u64;
    let round = |round| cycle(&mut rehearsal, 1_000_000 + round * DEPTH as u64, DEPTH);
    let passes = (0..rounds).flat_map(round).collect();
    Prepared { bench: warm(backlog, DEPTH), passes }
}

//! JSON: what the tape parser saves against the exact one, and the cost of a line that only the
//! exact one accepts.
//!
//! A pool holds [`ROUND`] different lines, puts, gets and deletes in equal parts and mixed order;
//! the job of a put has the size that the pool is named after. `tape` is what the server calls: its
//! time for `refused` jobs (a number beyond 64 bits in each) is that of both parsers.

use crate::{ROUND, sized};
use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use jobcentre::base::rng::Rng;
use jobcentre::wire::json::{Fields, Parser, Value};
use std::fmt::Write as _;

/// The fields that requests use.
struct Wanted;

impl Fields<7> for Wanted {
    #[inline]
    fn number(name: &[u8]) -> Option<usize> {
        Some(match name {
            b"request" => 0,
            b"queue" => 1,
            b"job" => 2,
            b"pri" => 3,
            b"queues" => 4,
            b"wait" => 5,
            b"id" => 6,
            _ => return None,
        })
    }
}

const POOLS: [&str; 4] = ["100 B", "1000 B", "16000 B", "100 B refused"];

#[divan::bench(args = POOLS)]
fn tape(bencher: Bencher, pool: &str) {
    let (lines, mut parser) = (lines(pool), Parser::default());
    bencher.counter(bytes_of(&lines)).bench_local(|| {
        for line in &lines {
            let mut values = [Value::Absent; 7];
            let parsed = parser.parse::<Wanted, 7>(black_box(line), &mut values);
            assert!(parsed.is_ok());
            black_box(&values);
        }
    });
}

#[divan::bench(args = POOLS)]
fn exact(bencher: Bencher, pool: &str) {
    let (lines, mut parser) = (lines(pool), Parser::default());
    bencher.counter(bytes_of(&lines)).bench_local(|| {
        for line in &lines {
            let mut values = [Value::Absent; 7];
            let parsed = parser.parse_exactly::<Wanted, 7>(black_box(line), &mut values);
            assert!(parsed.is_ok());
            black_box(&values);
        }
    });
}

fn bytes_of(lines: &[Vec<u8>]) -> BytesCount {
    BytesCount::new(lines.iter().map(Vec::len).sum::<usize>())
}

fn lines(pool: &str) -> Vec<Vec<u8>> {
    let size = match pool {
        "1000 B" => 1_000,
        "16000 B" => 16_000,
        _ => 100,
    };
    let refused = pool.ends_with("refused");
    let mut rng = Rng::new(7);
    let mut lines: Vec<Vec<u8>> = (0..sized(ROUND))
        .map(|number| match number % 3 {
            0 => put(size, refused, &mut rng),
            1 => get(&mut rng),
            _ => format!("{{\"request\":\"delete\",\"id\":{}}}", rng.below(1 << 32)),
        })
        .map(String::into_bytes)
        .collect();
    for place in (1..lines.len()).rev() {
        let other = usize::try_from(rng.below(place as u64 + 1)).expect("a place in the pool");
        lines.swap(place, other);
    }
    lines
}

fn get(rng: &mut Rng) -> String {
    let names: Vec<String> =
        (0..=rng.below(3)).map(|_| format!("\"queue{}\"", rng.below(1000))).collect();
    let wait = ["", ",\"wait\":true", ",\"wait\":false"][rng.below(3).to_le_bytes()[0] as usize];
    format!("{{\"request\":\"get\",\"queues\":[{}]{wait}}}", names.join(","))
}

/// A put of a job of about `size` bytes that is made like jobs are: some fields of all kinds.
fn put(size: usize, refused: bool, rng: &mut Rng) -> String {
    let mut job = format!("{{\"n\":{}", 1 + (rng.next_u64() >> (1 + rng.below(63))));
    if refused {
        job.push_str("000000000000000000000");
    }
    while job.len() < size - 1 {
        let left = size - 1 - job.len();
        let letter = char::from(b'a' + rng.below(26).to_le_bytes()[0]);
        // Bounded by what is left, so that sizes are kept.
        let text = text(usize::try_from(rng.below(60)).expect("small").min(left), rng);
        let piece = match rng.below(5) {
            0 => format!(",\"{letter}\":{}", rng.next_u64() >> rng.below(64)),
            1 => format!(",\"{letter}\":[true,null,{}.5,{{\"x\":-{}}}]", left, rng.below(99)),
            2 => format!(",\"{letter}{letter}\":\"{text}\\n\\u00e9\""),
            _ => format!(",\"{letter}\":\"{text}\""),
        };
        job.push_str(if piece.len() <= left.max(20) { &piece } else { ",\"z\":\"zzzz\"" });
    }
    job.push('}');
    let mut line = String::new();
    let (queue, pri) = (rng.below(1000), rng.below(1_000_000));
    // Clients write fields in any order.
    let written = if rng.one_in(2) {
        write!(
            line,
            "{{\"request\":\"put\",\"queue\":\"queue{queue}\",\"job\":{job},\"pri\":{pri}}}"
        )
    } else {
        write!(
            line,
            "{{\"job\":{job},\"pri\":{pri},\"queue\":\"queue{queue}\",\"request\":\"put\"}}"
        )
    };
    written.expect("strings grow");
    line
}

fn text(length: usize, rng: &mut Rng) -> String {
    (0..length)
        .map(|_| char::from(b"etaoinshrdlu cmf"[rng.below(16).to_le_bytes()[0] as usize]))
        .collect()
}

//! Requests of the networked priority queue, in passes, and a server that has served some.

use crate::common::Bench;
use crate::{COUNT, DEPTH, Prepared, run_passes};
use jobcentre::model::driver::Protocol;
use jobcentre::wire::packets::{Request, push_request};

/// Requests of the networked priority queue, a pass each.
fn passes(count: u64, request: impl Fn(u64, &mut Vec<u8>)) -> Vec<Vec<u8>> {
    let numbers: Vec<u64> = (0..count).collect();
    let pass = |numbers: &[u64]| {
        let mut bytes = Vec::new();
        for &number in numbers {
            request(number, &mut bytes);
        }
        bytes
    };
    numbers.chunks(DEPTH).map(pass).collect()
}

/// Pushes `count` packets of 100 bytes, numbered from `first`, each with a key of its own.
fn pushes(first: u64, count: u64) -> Vec<Vec<u8>> {
    passes(count, |number, bytes| {
        let key = (first + number).to_be_bytes();
        let mixed = (first + number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let priority = mixed.to_be_bytes()[0].max(1);
        let (queue, packet) = (&b"queue0"[..], [&key[..], &[b'x'; 100]].concat());
        let push = Request::Push { queue, ttl_ms: 0, priority, key_len: 8, packet: &packet };
        push_request(bytes, &push);
    })
}

fn pops(count: u64) -> Vec<Vec<u8>> {
    passes(count, |_, bytes| push_request(bytes, &Request::Pop { queue: b"queue0" }))
}

/// Bytes of the answer to a pop, and of a delivery: one packet.
const ANSWER: usize = 2 + 4 + 8 + 100;

/// A server that has served everything once, with `backlog` packets waiting.
fn warm(backlog: u64) -> Bench {
    let mut bench = Bench::new(Protocol::Pinpriq);
    for pass in pushes(0, backlog + 64) {
        assert_eq!(bench.pass(&pass), b"", "a push has no answer");
    }
    for pass in pops(64) {
        assert_eq!(bench.pass(&pass).len(), DEPTH * ANSWER);
    }
    bench
}

pub(crate) fn prepared_pushes(backlog: u64) -> Prepared {
    Prepared { bench: warm(backlog), passes: pushes(1_000_000, COUNT) }
}

pub(crate) fn prepared_pops(backlog: u64) -> Prepared {
    let mut prepared = prepared_pushes(backlog);
    run_passes(&mut prepared);
    prepared.passes = pops(COUNT);
    prepared
}

/// Pushes to a client that waits for all of them: each is answered by a delivery.
pub(crate) fn prepared_deliveries(backlog: u64) -> Prepared {
    assert!(backlog == 0, "what waits would be delivered first");
    let mut prepared = prepared_pushes(backlog);
    let mut ready = Vec::new();
    push_request(&mut ready, &Request::Subscribe { queue: b"queue0" });
    (0..COUNT + 64).for_each(|_| push_request(&mut ready, &Request::Ready));
    prepared.bench.pass(&ready);
    for pass in pushes(0, 64) {
        assert_eq!(prepared.bench.pass(&pass).len(), DEPTH * ANSWER);
    }
    prepared
}

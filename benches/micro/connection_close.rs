//! Disconnect of a client with 10,000 reserved jobs: how long the loop is blocked while they are
//! requeued, with and without waiters in that queue.
//!
//! One iteration is one disconnect, so times are not scaled.

use crate::{NOW, sized};
use divan::Bencher;
use jobcentre::base::rng::Rng;
use jobcentre::engine::Engine;
use jobcentre::model::driver::{Core, Protocol};
use jobcentre::model::id::ClientId;
use jobcentre::server::{Server, Settings};
use std::fmt::Write as _;

const JOBS: usize = 10_000;

/// Lets the server handle input, and takes its answers.
fn pass(server: &mut Server, client: ClientId, lines: &str) {
    for line in lines.split_inclusive('\n') {
        server.handle_input(client, line.as_bytes(), NOW);
        flush(server);
    }
}

fn flush(server: &mut Server) {
    server.finish_pass(NOW);
    while let Some(client) = server.poll_touched() {
        let count = server.output(client).len();
        server.handle_sent(client, count, NOW);
    }
}

fn open(server: &mut Server) -> ClientId {
    server.handle_open(Protocol::JobCentre, NOW).expect("there is room")
}

/// A server, the client that is to end, and how many jobs will be ready then.
fn holding(waiters: usize) -> (Server, ClientId, usize) {
    let settings = Settings { max_request: 1 << 20, max_clients: 100_000, max_memory: None };
    let mut server = Server::new(settings, Engine::in_memory(1));
    let mut rng = Rng::new(4);
    let (jobs, waiters) = (sized(JOBS), sized(waiters).min(sized(JOBS) / 2));
    let mut puts = String::new();
    for _ in 0..jobs {
        let (pri, data) = (rng.below(1_000_000), rng.next_u64());
        let put = writeln!(
            puts,
            "{{\"request\":\"put\",\"queue\":\"queue0\",\"job\":{{\"data\":{data}}},\"pri\":{pri}}}"
        );
        put.expect("strings grow");
    }
    let client = open(&mut server);
    pass(&mut server, client, &puts);
    pass(&mut server, client, &"{\"request\":\"get\",\"queues\":[\"queue0\"]}\n".repeat(jobs));
    for _ in 0..waiters {
        let waiter = open(&mut server);
        pass(&mut server, waiter, "{\"request\":\"get\",\"queues\":[\"queue0\"],\"wait\":true}\n");
    }
    assert_eq!(server.counts().waiters, waiters);
    (server, client, jobs)
}

#[divan::bench(args = [0, 1, 1_000], sample_size = 1, sample_count = 20)]
fn reset_with_waiters(bencher: Bencher, waiters: usize) {
    bencher.with_inputs(|| holding(waiters)).bench_local_refs(|(server, client, jobs)| {
        server.handle_reset(*client, NOW);
        assert_eq!(server.counts().waiters, 0);
        assert_eq!(server.counts().jobs, *jobs);
    });
}

//! kill -9 of the server and of its workers (`jobcentre work`) under load; then every acknowledged
//! job has ended once, and has the right result.
//!
//! `CRASH_SEED=n` repeats the random choices, but not the timing of the system.

use super::crash::seed;
use crate::dispatcher_sim::server_client::{ask, protocol, try_ask};
use crate::rng::TestRng;
use crate::support::{Program, Server, TIMEOUT, TempDir, plain_command};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const ROUNDS: usize = 4;
const MANY_ROUNDS: usize = 40;
const WORKERS: usize = 2;
const PUSHERS: usize = 2;

/// Jobs that a pusher is promised in a round: each is a process.
const JOBS: usize = 60;

#[test]
fn few_kills_of_server_and_workers_lose_no_job() {
    crash(ROUNDS);
}

#[test]
#[ignore = "slow: run by .ci/run"]
fn many_kills_of_server_and_workers_lose_no_job() {
    crash(MANY_ROUNDS);
}

/// A free address, for a listener that is started repeatedly. No other test connects from its
/// host, so that none of their connections is given its port between two starts.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap()
}

fn start_server(dir: &TempDir, at: SocketAddr) -> Server {
    let server = Server::start(&["--http", &at.to_string(), "--data", dir.text()]);
    // The start waits for the first listener, which is another one.
    assert_eq!(protocol(&server), at);
    server
}

/// Runs `cat`: the result is the argument.
fn start_worker(server: SocketAddr, at: SocketAddr) -> Server {
    let mut command = plain_command(Program::PATH);
    command.args(["work", "--url", &format!("http://{server}"), "--name", "w", "--max-jobs", "3"]);
    command.args(["--listen", &at.to_string(), "--log-format", "json", "--", "cat"]);
    Server::spawn(command)
}

fn crash(rounds: usize) {
    let seed = seed();
    eprintln!("CRASH_SEED={seed}");
    let (dir, mut rng) = (TempDir::new(), TestRng::new(seed));
    let at = free_address();
    let places: Vec<SocketAddr> = (0..WORKERS).map(|_| free_address()).collect();
    let mut server = Some(start_server(&dir, at));
    let start = |&place: &SocketAddr| Some(start_worker(at, place));
    let mut workers: Vec<Option<Server>> = places.iter().map(start).collect();
    let (mut promised, tokens) = (BTreeMap::new(), AtomicU64::new(1));
    for _ in 0..rounds {
        thread::scope(|scope| {
            let pushers: Vec<_> = (0..PUSHERS).map(|_| scope.spawn(|| push(at, &tokens))).collect();
            thread::sleep(Duration::from_millis(rng.between(5, 300) as u64));
            let worker = rng.below(WORKERS);
            let (kills_master, kills_worker) =
                *rng.pick(&[(true, false), (false, true), (true, true)]);
            if kills_master {
                server = None;
            }
            if kills_worker {
                // It never reports the jobs that it runs; its replacement takes them over.
                workers[worker] = None;
                workers[worker] = start(&places[worker]);
            }
            if kills_master {
                server = Some(start_server(&dir, at));
            }
            for pusher in pushers {
                promised.extend(pusher.join().unwrap());
            }
        });
    }
    assert_eq!(promised.len(), rounds * PUSHERS * JOBS);
    oracle(at, &promised);
    // What was fetched is gone for good.
    drop(server);
    let server = start_server(&dir, at);
    assert_eq!(protocol(&server), at);
    for &id in promised.keys() {
        let (status, body) = ask(at, &format!("GET /job/{id}"), None, &Value::Null);
        assert_eq!((status, body), (200, Value::Null), "job {id} is there again");
    }
}

/// Pushes jobs until `JOBS` puts were acknowledged. Returns their ids and tokens.
fn push(server: SocketAddr, tokens: &AtomicU64) -> Vec<(u64, u64)> {
    let (mut promised, mut last) = (Vec::new(), Instant::now());
    while promised.len() < JOBS {
        assert!(last.elapsed() < TIMEOUT, "no job is put: {} were", promised.len());
        let token = tokens.fetch_add(1, Ordering::Relaxed);
        let job = json!({"name": "echo", "argument": {"token": token}, "keep_result": true,
            "max_retry": 1_000, "timeout": 3});
        match try_ask(server, "POST /job", None, &job) {
            Ok((status, body)) => {
                assert_eq!(status, 201, "{body}");
                last = Instant::now();
                promised.push((body["job_id"].as_str().unwrap().parse().unwrap(), token));
            }
            // It is dead: what it was asked last it has done or not.
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
    promised
}

/// All jobs end, acknowledged or not; every acknowledged job has its result, once.
fn oracle(server: SocketAddr, promised: &BTreeMap<u64, u64>) {
    let last = *promised.keys().next_back().unwrap();
    for id in 1..=last + PUSHERS as u64 {
        let (status, body) = poll(server, id);
        let Some(token) = promised.get(&id) else {
            // The id of a worker, a skipped id, or that of an unacknowledged job.
            let ended = status == 404 || body.is_null() || body["status"] == "done";
            assert!(ended, "job {id}: {status} {body}");
            continue;
        };
        assert_eq!(status, 200, "job {id} is lost: {body}");
        assert_eq!(body["status"], "done", "job {id}: {body}");
        assert_eq!(body["result"], json!({"token": token}), "job {id}");
        let (status, body) = ask(server, &format!("GET /job/{id}"), None, &Value::Null);
        assert_eq!((status, body), (200, Value::Null), "job {id} has two results");
    }
}

fn poll(server: SocketAddr, id: u64) -> (u16, Value) {
    ask(server, &format!("GET /job/{id}/polling?timeout=55"), None, &Value::Null)
}

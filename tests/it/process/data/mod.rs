//! A server with a data directory: recovery, and its error messages.

mod commands;
mod constraints;
mod damage;
mod faults;
mod memory;
mod releases;

use crate::support::{Client, NO_JOB, Server, TempDir, delete, get, number, put, wait};
use jobcentre::wire::packets::{Request, push_request};
use std::thread::sleep;
use std::time::Duration;

const OK: &str = r#"{"status":"ok"}"#;

/// Starts a server on this directory. Dropping it is `kill -9`.
fn serve(dir: &TempDir, flags: &[&str]) -> Server {
    Server::start(&[&["--data", dir.text()], flags].concat())
}

fn ask(client: &mut Client, request: Request<'_>) {
    let mut bytes = Vec::new();
    push_request(&mut bytes, &request);
    client.send_bytes(&bytes);
}

#[track_caller]
fn expect(client: &mut Client, bytes: &[u8]) {
    assert_eq!(client.receive_like(bytes), bytes);
}

#[test]
fn jobs_survive_a_kill() {
    let dir = TempDir::new();
    let server = serve(&dir, &["--pinpriq", ":0"]);
    let mut client = server.connect();
    let huge = "123456789012345678901234567890";
    let job = r#"{"n": 0.10, "m":1e400, "s":"\u0000ü"}"#;
    let huge_put = format!(r#"{{"request":"put","queue":"\u0000é","pri":{huge},"job":{job}}}"#);
    assert_eq!(number(&client.ask(&huge_put), "id"), 1);
    client.ask(&put("q", 3, "{}"));
    client.ask(&put("q", 9, r#"{"held":1}"#));
    client.ask(&put("q", 3, r#"{"second":1}"#));
    client.ask(r#"{"request":"put","queue":"q","pri":99,"job":{},"delay":3600000}"#);
    client.ask(&put("q", 100, r#"{"deleted":1}"#));
    assert_eq!(client.ask(&delete(6)), OK);
    assert_eq!(number(&client.ask(&get("q")), "id"), 3);
    let mut packets = Client::connect(server.address_of("pinpriq"));
    for (priority, key_and_payload) in [(2, b"k1"), (1, b"x2"), (0, b"k3")] {
        let (queue, packet) = (&b"p"[..], &key_and_payload[..]);
        ask(&mut packets, Request::Push { queue, ttl_ms: 0, priority, key_len: 1, packet });
    }
    // The packets are there once one of them is visible.
    ask(&mut packets, Request::Pop { queue: b"p" });
    expect(&mut packets, b"\0\x01\0\x01\0\x01x2");
    drop(server);

    let server = serve(&dir, &["--pinpriq", ":0"]);
    server.wait_for_log(r#""jobs":7"#);
    let mut client = server.connect();
    let there = format!(r#""id":1,"job":{job},"pri":{huge},"queue":"\u0000é"}}"#);
    assert_eq!(client.ask(&get(r"\u0000é")), format!(r#"{{"status":"ok",{there}"#));
    let ids = [3, 2, 4].map(|_| number(&client.ask(&get("q")), "id"));
    assert_eq!(ids, [3, 2, 4], "the one that was held is back, and the order is as it was");
    assert_eq!(client.ask(&get("q")), NO_JOB, "the delay goes on");
    assert_eq!(client.ask(&delete(6)), NO_JOB);
    assert_eq!(client.ask(&delete(5)), OK);
    let mut packets = Client::connect(server.address_of("pinpriq"));
    ask(&mut packets, Request::Pop { queue: b"p" });
    expect(&mut packets, b"\0\x02\0\x01\0\x01k1\0\x01\0\x01k3");
    assert_eq!(number(&client.ask(&put("q", 1, "{}")), "id"), 10, "no id comes twice");
}

#[test]
fn delays_and_ttls_elapse_while_no_server_runs() {
    let dir = TempDir::new();
    let server = serve(&dir, &[]);
    let mut client = server.connect();
    for (queue, time) in [("late", r#""delay":300"#), ("gone", r#""ttl":300"#)] {
        client.ask(&format!(r#"{{"request":"put","queue":"{queue}","pri":1,"job":{{}},{time}}}"#));
    }
    client.ask(r#"{"request":"put","queue":"stays","pri":1,"job":{},"ttl":3600000,"ttr":60000}"#);
    drop(server);
    sleep(Duration::from_millis(320));
    let server = serve(&dir, &[]);
    let mut client = server.connect();
    assert_eq!(number(&client.ask(&wait("late")), "id"), 1);
    assert_eq!(client.ask(&get("gone")), NO_JOB);
    assert_eq!(number(&client.ask(&get("stays")), "id"), 3);
    assert_eq!(client.ask(r#"{"request":"touch","id":3}"#), OK);
}

#[test]
fn kill_loses_no_acknowledged_put_in_any_fsync_mode() {
    let dir = TempDir::new();
    let mut known = Vec::new();
    for mode in ["never", "1h", "10ms", "always", "always"] {
        let server = serve(&dir, &["--fsync", mode]);
        let mut client = server.connect();
        for &id in &known {
            assert_eq!(number(&client.ask(&get("q")), "id"), id, "before {mode}");
        }
        assert_eq!(client.ask(&get("q")), NO_JOB);
        let id = number(&client.ask(&put("q", 1, "{}")), "id");
        // The highest id is that of a job that is gone.
        let deleted = number(&client.ask(&put("q", 1, "{}")), "id");
        assert_eq!(client.ask(&delete(deleted)), OK);
        assert_eq!((id, deleted), (known.len() as u64 * 2 + 1, id + 1));
        known.push(id);
    }
}

#[test]
fn long_pipeline_of_durable_puts_is_answered() {
    const JOBS: usize = 20_000;
    let dir = TempDir::new();
    let server = serve(&dir, &[]);
    let puts = format!("{}\n", put("q", 1, "{}")).repeat(JOBS);
    let replies = server.connect().exchange(puts.as_bytes(), JOBS);
    assert_eq!(number(&replies[JOBS - 1], "id"), JOBS as u64);
}

#[test]
fn shutdown_keeps_every_acknowledged_put() {
    const JOBS: usize = 500;
    let dir = TempDir::new();
    let mut server = serve(&dir, &["--fsync", "1h"]);
    let mut client = server.connect();
    client.settle();
    // The server finds the requests and the signal at the same time.
    server.signal("STOP");
    client.send_bytes(format!("{}\n", put("q", 1, "{}")).repeat(JOBS).as_bytes());
    server.signal("TERM");
    server.signal("CONT");
    for id in 1..=JOBS as u64 {
        assert_eq!(number(&client.receive(), "id"), id);
    }
    assert_eq!(client.receive_all(), "");
    assert_eq!(server.wait().code(), Some(0));
    server.wait_for_log("stopped: everything received was answered");
    let server = serve(&dir, &[]);
    server.wait_for_log(&format!(r#""jobs":{JOBS}"#));
    assert!(!server.log_lines().iter().any(|line| line.contains("WARN")), "{:?}", {
        server.log_lines()
    });
}

#[test]
fn graceful_shutdown_logs_a_summary_of_the_journal() {
    let dir = TempDir::new();
    let mut server = serve(&dir, &[]);
    let mut client = server.connect();
    for priority in 0..5 {
        client.ask(&put("q", priority, "{}"));
    }
    assert_eq!(client.ask(&delete(1)), OK);
    drop(client);
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    server.wait_for_log("stopped");
    let lines = server.log_lines();
    let sums: Vec<serde_json::Value> = lines
        .iter()
        .filter(|line| line.contains("closed the data directory"))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(sums.len(), 1, "{lines:?}");
    let field = |name: &str| sums[0][name].as_u64().unwrap_or_else(|| panic!("{name}: {lines:?}"));
    assert_eq!((field("records"), field("moved_bytes")), (6, 0));
    // One for each answer, and the last one says that all is synced.
    assert_eq!(field("syncs"), 7);
    assert!(field("live_bytes") > 0 && field("dead_bytes") > field("live_bytes"));
    assert!(field("written_bytes") > field("live_bytes") && field("segments") >= 1);
    let (mean, p50, p99) = (field("sync_mean_us"), field("sync_p50_us"), field("sync_p99_us"));
    assert!(mean > 0 && p50 <= p99 && p99 <= field("sync_max_us") && mean <= field("sync_max_us"));
    assert!((sums[0]["records_per_sync"].as_f64().unwrap() - 0.8).abs() < 0.01);
}

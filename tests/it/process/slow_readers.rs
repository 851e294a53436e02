//! Clients that read too little or pipeline too much cost the others nothing.

use crate::support::{Client, NO_JOB, Server, get, number, put, wait};

const JOB_BYTES: usize = 1_000_000;
const ROUNDS: usize = 150;

/// A client that asks for far more than any buffer takes and reads nothing; its last request is a
/// put into queue `last`.
pub(super) fn slow_reader(server: &Server) -> Client {
    let mut slow = server.connect();
    slow.ask(&put("q", 1, &format!(r#"{{"a":"{}"}}"#, "x".repeat(JOB_BYTES))));
    let requests = format!("{}\n{}\n", get("q"), r#"{"request":"abort","id":1}"#);
    slow.send_bytes(requests.repeat(ROUNDS).as_bytes());
    slow.send(&put("last", 1, "{}"));
    slow
}

/// Resident memory of the server in bytes, where the system tells it.
fn memory(server: &Server) -> Option<usize> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<usize>().ok()? * 1024)
}

#[test]
fn client_that_never_reads_blocks_only_itself() {
    let server = Server::start(&[]);
    let mut other = server.connect();
    let before = memory(&server);
    let mut slow = slow_reader(&server);
    for _ in 0..1_000 {
        assert_eq!(other.ask(&get("last")), NO_JOB);
    }
    if let (Some(before), Some(after)) = (before, memory(&server)) {
        let grown = after.saturating_sub(before);
        assert!(grown < ROUNDS * JOB_BYTES / 3, "{grown} bytes for unread replies");
    }
    for _ in 0..ROUNDS {
        assert_eq!(number(&slow.receive(), "id"), 1);
        assert_eq!(slow.receive(), r#"{"status":"ok"}"#);
    }
    assert_eq!(number(&slow.receive(), "id"), 2);
    assert_eq!(number(&other.ask(&get("last")), "id"), 2);
}

#[test]
fn reset_of_a_client_that_never_reads_releases_its_job() {
    let server = Server::start(&[]);
    let mut other = server.connect();
    let slow = slow_reader(&server);
    other.settle();
    slow.reset();
    assert_eq!(number(&other.ask(&wait("q")), "id"), 1);
    assert_eq!(other.ask(&get("q")), NO_JOB);
}

/// Several in one moment. The server does not read the ends of their input before that: their
/// replies are longer than what may be unsent.
#[test]
fn resets_of_clients_that_have_ended_their_input_release_their_jobs() {
    const CLIENTS: usize = 5;
    let server = Server::start(&["--max-request", "16MiB"]);
    let mut other = server.connect();
    let job = format!(r#"{{"a":"{}"}}"#, "x".repeat(8 * JOB_BYTES));
    let mut holders = Vec::new();
    for id in 1..=CLIENTS as u64 {
        assert_eq!(number(&other.ask(&put("q", 1, &job)), "id"), id);
        let mut holder = server.connect();
        holder.send(&get("q"));
        holder.half_close();
        holder.arrived();
        holders.push(holder);
    }
    assert_eq!(other.ask(&get("q")), NO_JOB);
    server.signal("STOP");
    holders.into_iter().for_each(Client::reset);
    server.signal("CONT");
    let mut ids: Vec<u64> = (0..CLIENTS).map(|_| number(&other.ask(&wait("q")), "id")).collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(1..=CLIENTS as u64));
}

#[test]
fn heavy_pipelining_starves_no_other_client() {
    let server = Server::start(&[]);
    let (mut heavy, mut other) = (server.connect(), server.connect());
    assert_eq!(heavy.ask(&get("none")), NO_JOB);
    assert_eq!(other.ask(&get("none")), NO_JOB);
    // Several passes' worth of requests, and fewer answers than the server keeps unsent; all of it
    // fits into the buffers of the system. The server finds the requests of both clients at the
    // same time: when it comes to the last one of these, it must have served the other client long
    // ago.
    let count = 7_000;
    let requests = format!("{}\n", get("none")).repeat(count) + &get("q") + "\n";
    server.signal("STOP");
    heavy.send_bytes(requests.as_bytes());
    other.send(&put("q", 1, "{}"));
    server.signal("CONT");
    let replies: Vec<String> = (0..=count).map(|_| heavy.receive()).collect();
    assert_eq!(number(&replies[count], "id"), 1);
    assert!(replies[..count].iter().all(|reply| reply == NO_JOB));
    assert_eq!(number(&other.receive(), "id"), 1);
}

#[test]
fn oversized_line_is_not_buffered() {
    let server = Server::start(&["--max-request", "64KiB"]);
    let mut client = server.connect();
    let before = memory(&server);
    let piece = vec![b'x'; 1_000_000];
    // As requests begin: what could be a line of HTTP ends the connection.
    client.send_bytes(b"{");
    for _ in 0..100 {
        client.send_bytes(&piece);
    }
    assert!(client.receive().contains("65536"));
    client.send("");
    assert_eq!(client.ask(&get("q")), NO_JOB);
    if let (Some(before), Some(after)) = (before, memory(&server)) {
        let grown = after.saturating_sub(before);
        assert!(grown < 30_000_000, "{grown} bytes for a line that is skipped");
    }
}

//! Ten thousand clients and a million jobs.

use crate::support::{Client, NO_JOB, Server, delete, get, number, put, raise_file_limit};
use crate::support::{until, wait};
use std::thread;

const CLIENTS: usize = 10_000;
const JOBS: usize = 1_000_000;
const THREADS: usize = 10;
/// Jobs that one client takes before it deletes them.
const BATCH: usize = 500;

#[test]
#[ignore = "slow: run by .ci/run"]
fn ten_thousand_clients_and_a_million_jobs() {
    raise_file_limit();
    let server = Server::start(&["--max-clients", &CLIENTS.to_string()]);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
    fill(&mut clients);

    // Everyone takes a job: the most urgent ones, each once.
    for client in &mut clients {
        client.send(&get("q"));
    }
    let mut taken = vec![false; JOBS + 1];
    for client in &mut clients {
        let reply = client.receive();
        assert!(number(&reply, "pri") >= 990, "{reply}");
        assert!(!std::mem::replace(&mut taken[id(&reply)], true), "handed out twice: {reply}");
    }
    // Half of them die; the others take what these held, the first for a second time.
    for client in clients.split_off(CLIENTS / 2) {
        client.reset();
    }
    await_reserved(&server, CLIENTS / 2);
    for client in &mut clients {
        client.send(&wait("q"));
    }
    for client in &mut clients {
        let reply = client.receive();
        assert!(taken[id(&reply)], "a less urgent job came before one that had come back: {reply}");
    }
    // All die, and not one job is lost.
    drop(clients);
    await_reserved(&server, 0);
    drain(&server);
    assert_eq!(server.connect().ask(&get("q")), NO_JOB);
}

fn id(reply: &str) -> usize {
    usize::try_from(number(reply, "id")).unwrap()
}

/// Waits until clients hold this many jobs: ends of thousands of them take more than one pass.
fn await_reserved(server: &Server, count: usize) {
    let mut observer = server.connect();
    until("the jobs of clients that have ended are back", || {
        let stats = observer.ask(r#"{"request":"stats","queue":"q"}"#);
        stats.contains(&format!("\"reserved\":{count},"))
    });
}

/// Puts all jobs, a thousand priorities evenly.
fn fill(clients: &mut [Client]) {
    thread::scope(|scope| {
        for client in &mut clients[..THREADS] {
            scope.spawn(|| {
                let lines = |from: usize| {
                    (from..from + 1_000).map(|n| put("q", n as u64 % 1_000, "{}") + "\n")
                };
                for from in (0..JOBS / THREADS).step_by(1_000) {
                    let puts: String = lines(from).collect();
                    client.exchange(puts.as_bytes(), 1_000);
                }
            });
        }
    });
}

/// Takes and deletes until nothing is left: every job must be there once.
fn drain(server: &Server) {
    let mut found = vec![false; JOBS + 1];
    thread::scope(|scope| {
        let drainers: Vec<_> =
            (0..THREADS).map(|_| scope.spawn(|| drain_by(server.connect()))).collect();
        for drainer in drainers {
            for id in drainer.join().unwrap() {
                assert!(!std::mem::replace(&mut found[id], true), "job {id} came twice");
            }
        }
    });
    assert_eq!(found[1..].iter().filter(|&&found| !found).count(), 0, "jobs were lost");
}

/// The jobs that one client takes and deletes until there are none left.
fn drain_by(mut client: Client) -> Vec<usize> {
    let gets = format!("{}\n", get("q")).repeat(BATCH);
    let mut all = Vec::new();
    loop {
        let mut replies = client.exchange(gets.as_bytes(), BATCH);
        replies.retain(|reply| reply != NO_JOB);
        if replies.is_empty() {
            return all;
        }
        let deletes: String =
            replies.iter().map(|reply| delete(number(reply, "id")) + "\n").collect();
        for reply in client.exchange(deletes.as_bytes(), replies.len()) {
            assert_eq!(reply, r#"{"status":"ok"}"#);
        }
        all.extend(replies.iter().map(|reply| id(reply)));
    }
}

//! Clients that disconnect in every possible way: their jobs are released, and no other client is
//! affected.

use crate::support::{Client, NO_JOB, Server, get, number, put, until, wait};
use jobcentre::base::limits::STALLED_INPUT_MAX_BYTES;
use std::io::{BufRead, BufReader};
use std::net::Shutdown;
use std::process::{Command, Stdio};
use std::time::Duration;

const JOBS: usize = 10_000;

/// Puts jobs and lets `hold` take them all and end; then they must all be back together.
fn all_jobs_come_back(hold: impl FnOnce(&Server, &str)) {
    let server = Server::start(&[]);
    let mut other = server.connect();
    let puts: String = (0..JOBS).map(|number| put("q", number as u64 % 10, "{}") + "\n").collect();
    other.exchange(puts.as_bytes(), JOBS);
    hold(&server, &format!("{}\n", get("q")).repeat(JOBS));

    // The first one tells that the connection has ended; then none may be missing.
    let mut replies = vec![other.ask(&wait("q"))];
    let gets = format!("{}\n", get("q")).repeat(JOBS);
    replies.extend(other.exchange(gets.as_bytes(), JOBS));
    assert_eq!(replies.pop().unwrap(), NO_JOB);
    let mut found: Vec<(u64, u64)> =
        replies.iter().map(|reply| (9 - number(reply, "pri"), number(reply, "id"))).collect();
    assert!(found.is_sorted(), "jobs came back in the wrong order");
    found.sort_by_key(|&(_, id)| id);
    assert!(found.iter().map(|&(_, id)| id).eq(1..=JOBS as u64));
}

fn take_all(server: &Server, gets: &str) -> Client {
    let mut holder = server.connect();
    let last = holder.exchange(gets.as_bytes(), JOBS).pop().unwrap();
    assert_ne!(last, NO_JOB);
    holder
}

#[test]
fn jobs_come_back_when_a_client_closes() {
    all_jobs_come_back(|server, gets| drop(take_all(server, gets)));
}

#[test]
fn jobs_come_back_when_a_connection_is_reset() {
    all_jobs_come_back(|server, gets| take_all(server, gets).reset());
}

#[test]
fn jobs_come_back_when_a_client_shuts_down_its_sending_side() {
    all_jobs_come_back(|server, gets| {
        let holder = take_all(server, gets);
        holder.half_close();
        assert_eq!(holder.receive_all(), "");
    });
}

#[test]
fn jobs_come_back_when_a_client_shuts_down_both_sides() {
    all_jobs_come_back(|server, gets| {
        take_all(server, gets).stream().shutdown(Shutdown::Both).unwrap();
    });
}

#[test]
fn jobs_come_back_when_a_client_process_is_killed() {
    const HOLDER: &str = "
import socket, sys, time
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
lines = connection.makefile('rwb')
request = b'{\"request\":\"get\",\"queues\":[\"q\"]}\\n'
for _ in range(int(sys.argv[3]) // 100):
    lines.write(request * 100)
    lines.flush()
    for _ in range(100):
        assert b'\"ok\"' in lines.readline()
print('holding', flush=True)
time.sleep(3600)
";
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: there is no python3 to be killed");
        return;
    }
    all_jobs_come_back(|server, _| {
        let (host, port) = (server.address.ip().to_string(), server.address.port().to_string());
        let mut child = Command::new("python3")
            .args(["-c", HOLDER, &host, &port, &JOBS.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        // On Unix this is SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(line, "holding\n");
    });
}

#[test]
fn clients_that_never_read_are_closed() {
    let mut server = Server::start(&[]);
    let mut other = server.connect();
    other.ask(&put("q", 1, &format!(r#"{{"a":"{}"}}"#, "x".repeat(10_000))));
    let requests = format!("{}\n{}\n", get("q"), r#"{"request":"abort","id":1}"#).repeat(500);
    for round in 0..40 {
        let mut client = server.connect();
        client.send_bytes(requests.as_bytes());
        match round % 3 {
            0 => drop(client),
            1 => client.reset(),
            _ => {
                client.stream().shutdown(Shutdown::Read).unwrap();
                drop(client);
            }
        }
        assert!(other.ask(&get("none")).contains("no-job"));
    }
    assert_eq!(number(&other.ask(&wait("q")), "id"), 1);
    assert!(server.is_alive());
}

#[test]
fn disconnect_of_a_waiting_client_with_pipelined_requests_is_noticed() {
    // As much as the server buffers behind a waiting get, and a little that stays in the socket:
    // not so much that the system of the client could not send the end of the connection after it.
    let buffered = "nonsense\n".repeat(STALLED_INPUT_MAX_BYTES / 9 + 1);
    for reset in [false, true] {
        let server = Server::start(&[]);
        let (mut leaving, mut staying) = (server.connect(), server.connect());
        let mut producer = server.connect();
        leaving.send(&wait("q"));
        leaving.send_bytes(buffered.as_bytes());
        for _ in 0..20 {
            producer.settle();
        }
        leaving.send_bytes(&buffered.as_bytes()[..5_000]);
        staying.send(&wait("q"));
        producer.settle();
        if reset {
            leaving.reset();
        } else {
            drop(leaving);
        }
        producer.settle();
        producer.ask(&put("q", 1, "{}"));
        assert_eq!(number(&staying.receive(), "id"), 1);
    }
}

#[test]
fn rejected_connections_are_counted_and_logged_at_intervals() {
    const REJECTED: u64 = 60;
    let server = Server::start(&["--max-clients", "1"]);
    let mut first = server.connect();
    first.settle();
    for _ in 0..REJECTED {
        assert!(server.connect().receive().contains("error"));
    }
    let counts = || -> Vec<u64> {
        let lines = server.log_lines();
        let logged = lines.iter().filter(|line| line.contains("--max-clients allows"));
        logged.map(|line| number(line, "rejected")).collect()
    };
    // The last of them are logged although nothing more happens.
    until("all of them", || counts().iter().sum::<u64>() == REJECTED);
    assert!(counts().len() < 60, "one line for each client: {:?}", counts());
    first.settle();
}

/// Goes on sending for longer than the server waits for those that it has sent away, and reads only
/// then.
fn send_slowly(client: &mut Client) -> String {
    for _ in 0..20 {
        client.send_bytes(&[b'x'; 1_000]);
        std::thread::sleep(Duration::from_millis(80));
    }
    client.receive()
}

#[test]
fn rejected_client_that_is_sending_gets_the_reason() {
    let server = Server::start(&["--max-clients", "1", "--http", ":0", "--max-request", "1KiB"]);
    let http = server.address_of("http");
    let mut upload = Client::connect(http);
    // It has its place before the others come.
    upload.send_bytes(b"HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    while upload.receive() != "\r" {}
    upload.send_bytes(b"POST /job HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30000000\r\n\r\n");
    let (other, line) = (Client::connect(http), server.connect());
    let senders = [(upload, "413"), (other, "503"), (line, "error")].map(|(mut client, word)| {
        std::thread::spawn(move || {
            let reply = send_slowly(&mut client);
            assert!(reply.contains(word), "{reply}");
        })
    });
    for sender in senders {
        sender.join().unwrap();
    }
}

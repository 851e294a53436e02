//! Many clients and many jobs: the minimum that the protocol's specification demands.

use crate::support::{Client, NO_JOB, Server, get, number, put, raise_file_limit, wait};
use std::fmt::Write as _;

const CLIENTS: usize = 1_000;
const JOBS: usize = 50_000;

fn connect_all(server: &Server) -> Vec<Client> {
    raise_file_limit();
    (0..CLIENTS).map(|_| server.connect()).collect()
}

#[test]
fn thousand_concurrent_clients_are_answered() {
    let server = Server::start(&[]);
    let mut clients = connect_all(&server);
    for round in 0..3 {
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(&put(&format!("q{number}"), 1, &format!(r#"{{"round":{round}}}"#)));
            client.send(&get(&format!("q{number}")));
        }
        for (place, client) in clients.iter_mut().enumerate() {
            let id = number(&client.receive(), "id");
            let job = format!(r#"{{"round":{round}}},"pri":1,"queue":"q{place}"}}"#);
            let job = format!(r#"{{"status":"ok","id":{id},"job":{job}"#);
            assert_eq!(client.receive(), job);
        }
    }
}

#[test]
fn thousand_waiters_are_matched_once_in_order_of_arrival() {
    let server = Server::start(&[]);
    let mut clients = connect_all(&server);
    let mut producer = server.connect();
    for client in &mut clients {
        client.send(&wait("q"));
        producer.settle();
    }
    let puts: String = (0..CLIENTS).map(|_| put("q", 1, "{}") + "\n").collect();
    let replies = producer.exchange(puts.as_bytes(), CLIENTS);
    for (client, reply) in clients.iter_mut().zip(&replies) {
        assert_eq!(number(&client.receive(), "id"), number(reply, "id"));
    }
    assert_eq!(producer.ask(&get("q")), NO_JOB);
    for client in &mut clients {
        assert!(client.pending().is_empty(), "a client was served twice");
    }
}

#[test]
fn fifty_thousand_jobs_are_reserved_by_priority() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    // Each priority comes about fifty times, in no order.
    let pri = |number: u64| number * 7_919 % 1_009;
    let mut puts = String::new();
    for number in 1..=JOBS as u64 {
        writeln!(puts, "{}", put(if number % 2 == 0 { "a" } else { "b" }, pri(number), "{}"))
            .unwrap();
    }
    client.exchange(puts.as_bytes(), JOBS);

    let request = r#"{"request":"get","queues":["a","b"]}"#;
    let gets = format!("{request}\n").repeat(JOBS + 1);
    let mut replies = server.connect().exchange(gets.as_bytes(), JOBS + 1);
    assert_eq!(replies.pop().unwrap(), NO_JOB);
    let mut expected: Vec<(u64, u64)> = (1..=JOBS as u64).map(|id| (pri(id), id)).collect();
    expected.sort_by_key(|&(pri, id)| (std::cmp::Reverse(pri), id));
    for (reply, (pri, id)) in replies.iter().zip(expected) {
        assert_eq!((number(reply, "pri"), number(reply, "id")), (pri, id));
    }
}

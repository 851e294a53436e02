//! The client against the real server.
#![allow(clippy::unwrap_used, clippy::unit_arg, reason = "a test may panic")]

mod support;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use jobcentre_client::test::Server;
use jobcentre_client::{Client, Failure, NewJob};
use serde_json::{Value, json};

const WAIT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn put_reserve_complete() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let placed = client.put("q", &json!({"n": 1})).keep_result(WAIT).await.unwrap();
    let job = client.reserve(["q"]).wait(WAIT).await.unwrap().expect("a job");
    assert_eq!((job.id(), job.payload::<Value>().unwrap()), (placed.id, json!({"n": 1})));
    assert_eq!(job.attempt(), 1);
    job.complete_with(&7).await.unwrap();
    assert_eq!(client.result::<u8>(placed.id, WAIT).await.unwrap(), 7);
    assert!(client.reserve(["q"]).await.unwrap().is_none());
    let id = client.put("q", &json!({})).await.unwrap().id;
    let job = client.reserve(["q"]).await.unwrap().expect("a job");
    job.fail(Failure::new("Broken", "no").no_retry()).await.unwrap();
    let error = client.result::<()>(id, WAIT).await.unwrap_err();
    assert_eq!(error.to_string(), "the job has failed: Broken: no");
    assert_eq!(client.put("q", &[1]).await.unwrap_err().kind(), "bad-request");
}

fn jobs(count: u64) -> impl Iterator<Item = NewJob> {
    (0..count).map(|n| NewJob::new("q", &json!({ "n": n })).unwrap())
}

/// Reads as many puts, answers the first of them, and ends the connection. The numbers it has read.
fn answer_some(listener: &TcpListener, puts: u64, answers: u64, first_id: u64) -> Vec<u64> {
    let (mut client, _) = listener.accept().unwrap();
    let lines = BufReader::new(client.try_clone().unwrap()).lines();
    let number = |line: std::io::Result<String>| {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        line["job"]["n"].as_u64().unwrap()
    };
    let read = lines.take(usize::try_from(puts).unwrap()).map(number).collect();
    let mut text = String::new();
    for id in first_id..first_id + answers {
        writeln!(text, "{{\"status\":\"ok\",\"id\":{id}}}").unwrap();
    }
    client.write_all(text.as_bytes()).unwrap();
    read
}

#[tokio::test]
async fn of_many_puts_those_without_an_answer_are_repeated() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("jobcentre://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let all = answer_some(&listener, 1_000, 300, 1);
        assert_eq!(all, (0..1_000).collect::<Vec<_>>());
        let rest = answer_some(&listener, 700, 700, 301);
        assert_eq!(rest, (300..1_000).collect::<Vec<_>>());
    });
    let client = Client::builder(url).timeout(WAIT).build().unwrap();
    let placed = client.put_many(jobs(1_000)).await.unwrap();
    let ids: Vec<u64> = placed.into_iter().map(|placed| placed.unwrap().id).collect();
    assert_eq!(ids, (1..=1_000).collect::<Vec<_>>());
    server.join().unwrap();

    let server = Server::start().unwrap();
    let proxy = support::LossyProxy::start(server.address().to_owned());
    let url = format!("jobcentre://{}", proxy.address);
    let client = Client::builder(url).timeout(WAIT).build().unwrap();
    proxy.lose_answer();
    let placed = client.put_many(jobs(3_000)).await.unwrap();
    let mut ids: Vec<u64> = placed.into_iter().map(|placed| placed.unwrap().id).collect();
    ids.dedup();
    assert_eq!(ids.len(), 3_000);
    assert!(proxy.has_lost());
    assert_eq!(client.queue("q").await.unwrap().unwrap().counts.ready, 3_000);
    proxy.lose_answer();
    let error = client.put_many(jobs(10).map(|job| job.safe(false))).await.unwrap_err();
    assert_eq!(error.kind(), "answer-lost");
}

//! The native API of the real process, through restarts.

use super::real::answer;
use crate::support::{Client, Server, TempDir};
use serde_json::Value;

/// The status code and the body of a request; a method and a path, and a body if it is not empty.
fn ask(client: &mut Client, request: &str, body: &str) -> (String, Value) {
    let length = body.len();
    client.send_bytes(
        format!(
            "{request} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )
        .as_bytes(),
    );
    let (status, body) = answer(client);
    let code = status.split(' ').nth(1).unwrap_or_default().to_owned();
    (code, serde_json::from_str(&body).unwrap_or(Value::Null))
}

#[test]
fn completion_is_answered_once_more_after_a_kill() {
    let dir = TempDir::new();
    let start = || Server::start(&["--http", ":0", "--data", dir.text()]);
    let mut server = start();
    let mut client = Client::connect(server.address_of("http"));
    assert_eq!(ask(&mut client, "POST /api/v1/queues/q/jobs", r#"{"payload":1}"#).0, "201");
    let (_, jobs) = ask(&mut client, "POST /api/v1/reserve", r#"{"queues":["q"]}"#);
    let done = format!("{{\"token\":{}}}", jobs["jobs"][0]["token"]);
    assert_eq!(ask(&mut client, "POST /api/v1/jobs/1/complete", &done).0, "204");
    for _ in 0..2 {
        server.signal("KILL");
        server.wait();
        server = start();
        client = Client::connect(server.address_of("http"));
        assert_eq!(ask(&mut client, "POST /api/v1/jobs/1/complete", &done).0, "204");
    }
    let (status, problem) = ask(&mut client, "POST /api/v1/jobs/1/fail", &done);
    assert_eq!((status.as_str(), &problem["type"]), ("409", &"/problems/stale-token".into()));
    let other = r#"{"token":"0123456789abcdef"}"#;
    assert_eq!(ask(&mut client, "POST /api/v1/jobs/1/complete", other).0, "409");
}

#[test]
fn job_is_available_when_its_put_says() {
    let server = Server::start(&["--http", ":0"]);
    let mut client = Client::connect(server.address_of("http"));
    for number in 0..20 {
        let moment = format!("2099-12-31T12:00:00.{number:03}Z");
        let body = format!("{{\"payload\":1,\"run_at\":\"{moment}\"}}");
        let (_, put) = ask(&mut client, "POST /api/v1/queues/q/jobs", &body);
        for _ in 0..5 {
            let (_, job) = ask(&mut client, &format!("GET /api/v1/jobs/{}", put["id"]), "");
            assert_eq!(job["available_at"], moment.as_str());
        }
    }
}

#[test]
fn job_is_available_when_its_put_says_after_a_restart() {
    let dir = TempDir::new();
    let start = || Server::start(&["--http", ":0", "--data", dir.text()]);
    let mut server = start();
    let mut client = Client::connect(server.address_of("http"));
    let moment = |number: u64| format!("2099-12-31T12:00:00.{number:03}Z");
    for number in 1..=20 {
        let body = format!("{{\"payload\":1,\"run_at\":\"{}\"}}", moment(number));
        assert_eq!(ask(&mut client, "POST /api/v1/queues/q/jobs", &body).0, "201");
    }
    // The jobs are written anew, in later passes.
    for number in 1..=20 {
        let change = format!("PATCH /api/v1/jobs/{number}");
        assert_eq!(ask(&mut client, &change, "{\"pri\":3}").0, "200");
    }
    server.signal("KILL");
    server.wait();
    server = start();
    client = Client::connect(server.address_of("http"));
    for number in 1..=20 {
        let (_, job) = ask(&mut client, &format!("GET /api/v1/jobs/{number}"), "");
        assert_eq!(job["available_at"], moment(number).as_str());
    }
}

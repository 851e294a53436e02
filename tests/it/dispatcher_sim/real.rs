//! The real process and workers in threads.

use super::server_client::{ask, end_of, protocol, push, register, report};
use super::worker::{ACCEPTED, Got, HttpWorker};
use crate::outbound::peers::{Authority, closed_port};
use crate::support::{Server, TempDir, delete, number, put, until};
use serde_json::{Value, json};
use std::sync::Arc;

fn accepting() -> HttpWorker {
    HttpWorker::start(None, Arc::new(|_| Some(ACCEPTED)))
}

fn about(worker: &HttpWorker, max_jobs: u32, jobs: &[&str]) -> Value {
    let url = format!("http://{}/base/", worker.address);
    if jobs.is_empty() {
        return json!({"name": "test", "url": url, "max_jobs": max_jobs});
    }
    json!({"name": "test", "url": url, "max_jobs": max_jobs, "jobs": jobs})
}

fn success(id: u64, result: &Value) -> Value {
    json!({"job_id": id.to_string(), "type": "success", "result": result})
}

#[test]
fn job_of_another_protocol_is_delivered_to_the_worker_that_accepts_its_queue() {
    let worker = accepting();
    let server = Server::start(&["--http", ":0"]);
    register(protocol(&server), &about(&worker, 2, &["mail", "post"]));
    let mut client = server.connect();
    let argument = r#"{"to":"you","n":[1,2.5,null]}"#;
    client.ask(&put("other", 1, "{}"));
    let id = number(&client.ask(&put("mail", 1, argument)), "id");
    let expected = Got {
        id,
        name: "mail".into(),
        argument: argument.into(),
        timeout_ms: None,
        line: 0,
        number: 0,
    };
    assert_eq!(worker.next(), expected);
    let second = number(&client.ask(&put("post", 1, "{}")), "id");
    assert_eq!(worker.next().id, second);
    // A job that is gone leaves its place to the next.
    let third = number(&client.ask(&put("mail", 1, "{}")), "id");
    client.ask(&delete(id));
    assert_eq!(worker.next().id, third);
    // A connection is used again once its answer has come.
    until("a connection to be used again", || {
        client.ask(&delete(second));
        let next = number(&client.ask(&put("mail", 1, "{}")), "id");
        let got = worker.next();
        client.ask(&delete(next));
        assert_eq!(got.id, next);
        got.number > 0
    });
}

#[test]
fn job_is_delivered_over_tls() {
    let dir = TempDir::new();
    std::fs::create_dir(dir.path()).unwrap();
    let authority = Authority::new();
    let identity = authority.identity("127.0.0.1", 3000);
    let worker = HttpWorker::start(Some(identity), Arc::new(|_| Some(ACCEPTED)));
    let pem = dir.path().join("ca.pem");
    std::fs::write(&pem, authority.pem()).unwrap();
    let server = Server::start(&["--http", ":0", "--worker-ca", pem.to_str().unwrap()]);
    let url = format!("https://{}/base", worker.address);
    register(protocol(&server), &json!({"name": "test", "url": url, "max_jobs": 1}));
    let id = push(protocol(&server), &json!({"name": "mail", "argument": 7, "timeout": 2.5}));
    let got = worker.next();
    assert_eq!((got.id, got.timeout_ms, got.argument.as_str()), (id, Some(2_500), "7"));
}

#[test]
fn reported_outcome_ends_the_job_and_frees_capacity_of_the_worker() {
    let worker = accepting();
    let server = Server::start(&["--http", ":0"]);
    let protocol = protocol(&server);
    let me = register(protocol, &about(&worker, 1, &[]));
    let job = json!({"name": "sum", "argument": [1, 2], "keep_result": true, "max_retry": 1});
    let first = push(protocol, &job);
    let second = push(protocol, &job);
    assert_eq!(worker.next().id, first);
    assert_eq!(report(protocol, me, &success(second, &json!(3))), 404, "it does not have it yet");
    assert_eq!(report(protocol, me, &success(first, &json!({"sum": 3}))), 204);
    assert_eq!(report(protocol, me, &success(first, &json!(4))), 404, "a result counts once");
    let end = end_of(protocol, first);
    assert_eq!((&end["status"], &end["result"]), (&json!("done"), &json!({"sum": 3})));
    for _ in 0..2 {
        assert_eq!(worker.next().id, second);
        let failure = json!({"job_id": second.to_string(), "type": "failure", "reason": "other",
            "should_retry": true, "error": [1], "message": "no luck"});
        assert_eq!(report(protocol, me, &failure), 204);
    }
    let end = end_of(protocol, second);
    assert_eq!((&end["status"], &end["message"]), (&json!("error"), &json!("no luck")));
    assert_eq!(end["retry_count"], 1);
    // Nothing more comes for a worker that has gone.
    assert_eq!(ask(protocol, "DELETE /worker", Some(me), &Value::Null).0, 204);
    let other = accepting();
    register(protocol, &about(&other, 1, &["sum"]));
    let third = push(protocol, &job);
    assert_eq!(other.next().id, third);
}

#[test]
fn rejecting_or_unreachable_worker_is_skipped() {
    let refusing = HttpWorker::start(
        None,
        Arc::new(|_| Some("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")),
    );
    let server = Server::start(&["--http", ":0"]);
    let protocol = protocol(&server);
    register(protocol, &about(&refusing, 1, &[]));
    let id = push(protocol, &json!({"name": "sum", "argument": 1, "max_retry": 3}));
    assert_eq!(refusing.next().id, id);
    let (_socket, unused) = closed_port();
    let url = format!("http://{unused}");
    register(protocol, &json!({"name": "dead", "url": url, "max_jobs": 9}));
    let worker = accepting();
    let me = register(protocol, &about(&worker, 1, &[]));
    // Refused once, given back as often as it may be, and done.
    assert_eq!(worker.next().id, id);
    let (_, state) = ask(protocol, &format!("GET /job/{id}"), None, &Value::Null);
    assert_eq!((&state["status"], &state["retry_count"]), (&json!("running"), &json!(1)));
    assert_eq!(state["worker_id"], me.to_string());
    assert_eq!(report(protocol, me, &success(id, &Value::Null)), 204);
}

#[test]
fn outcome_reported_after_a_server_kill_counts_once() {
    let dir = TempDir::new();
    let flags = ["--http", ":0", "--data", dir.text()];
    let worker = accepting();
    let server = Server::start(&flags);
    let me = register(protocol(&server), &about(&worker, 2, &[]));
    let job = json!({"name": "sum", "argument": 1, "keep_result": true, "timeout": 3600});
    let ids = [(); 3].map(|()| push(protocol(&server), &job));
    // Over two connections, in whatever order.
    let mut sent = [worker.next().id, worker.next().id];
    sent.sort_unstable();
    assert_eq!(sent, ids[..2]);
    server.signal("KILL");
    drop(server);
    let server = Server::start(&flags);
    let protocol = protocol(&server);
    let (_, state) = ask(protocol, &format!("GET /job/{}", ids[0]), None, &Value::Null);
    assert_eq!((&state["status"], &state["worker_id"]), (&json!("running"), &json!("1")));
    assert_eq!(state["retry_count"], 0);
    assert_eq!(report(protocol, me, &success(ids[0], &json!("late"))), 204);
    assert_eq!(report(protocol, me, &success(ids[0], &json!("again"))), 404);
    assert_eq!(end_of(protocol, ids[0])["result"], json!("late"));
    // Its place is free, and only its place: the second job is not sent again.
    assert_eq!(worker.next().id, ids[2]);
    assert_eq!(report(protocol, me, &success(ids[1], &json!("second"))), 204);
    assert_eq!(end_of(protocol, ids[1])["result"], json!("second"));
}

#[test]
fn shutdown_keeps_reservations_of_workers() {
    let dir = TempDir::new();
    let flags = ["--http", ":0", "--data", dir.text()];
    let worker = accepting();
    let mut server = Server::start(&flags);
    let me = register(protocol(&server), &about(&worker, 1, &[]));
    let id = push(protocol(&server), &json!({"name": "sum", "argument": 1, "timeout": 3600}));
    assert_eq!(worker.next().id, id);
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    let server = Server::start(&flags);
    assert_eq!(report(protocol(&server), me, &success(id, &json!(1))), 204);
}

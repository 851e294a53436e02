//! Rejected reports, and the shutdown of a worker.

use super::server_client::{FakeServer, Worker};
use crate::support::{TempDir, until};
use serde_json::json;
use std::net::TcpListener;

#[test]
fn failed_outcome_report_is_retried() {
    let server = FakeServer::start();
    let worker = server.worker(&[], "cat");
    server.receive("POST /worker");
    for status in [500, 503, 408] {
        server.answer("POST /done", status);
    }
    worker.begin(1, "1");
    for _ in 0..4 {
        let report = server.report();
        assert_eq!((report.job, report.value, report.failure), (1, json!(1), None));
    }
    worker.begin(2, "2");
    assert_eq!(server.report().job, 2, "the first one is reported once");
}

#[test]
fn rejected_result_is_reported_as_a_failure() {
    let server = FakeServer::start();
    let worker = server.worker(&[], "cat");
    server.receive("POST /worker");
    for status in [413, 400] {
        server.answer("POST /done", status);
        worker.begin(1, "1");
        assert!(server.report().failure.is_none());
        let (reason, should_retry, message) = server.report().failure.unwrap();
        assert_eq!((&*reason, should_retry), ("Other", false));
        assert_eq!(message, format!("the server does not take the result: {status}: because"));
    }
    // A failure that is not taken is the end of it.
    server.answer("POST /done", 400);
    server.answer("POST /done", 400);
    worker.begin(2, "1");
    server.report();
    server.report();
    worker.process.wait_for_log("does not take this report");
    worker.begin(3, "1");
    assert_eq!(server.report().job, 3);
}

#[test]
fn worker_in_shutdown_finishes_running_commands() {
    let dir = TempDir::new();
    std::fs::create_dir(dir.path()).unwrap();
    let path = dir.text();
    let line = format!("touch {path}/on; until [ -e {path}/go ]; do sleep 0.02; done; echo 1");
    for signal in ["TERM", "INT"] {
        let _ = std::fs::remove_file(dir.path().join("on"));
        let _ = std::fs::remove_file(dir.path().join("go"));
        let server = FakeServer::start();
        let mut worker = server.worker(&["--patience", "1min"], &line);
        server.receive("POST /worker");
        worker.begin(1, "1");
        until("the command", || dir.path().join("on").exists());
        worker.process.signal(signal);
        worker.process.wait_for_log("stopping");
        assert_eq!(worker.hand(2, "1", None).0, 503);
        assert!(worker.process.is_alive());
        assert!(server.is_silent());
        drop(std::fs::File::create(dir.path().join("go")).unwrap());
        assert_eq!(server.report().value, json!(1));
        assert_eq!(server.receive("DELETE /worker").worker, Some(1));
        assert_eq!(worker.process.wait().code(), Some(0));
        worker.process.wait_for_log("\"stopped\"");
    }
}

#[test]
fn idle_worker_stops_at_once() {
    let server = FakeServer::start();
    let mut worker = server.worker(&[], "true");
    server.receive("POST /worker");
    worker.process.wait_for_log("\"registered\"");
    worker.process.signal("TERM");
    server.receive("DELETE /worker");
    assert_eq!(worker.process.wait().code(), Some(0));
}

#[test]
fn command_beyond_the_shutdown_timeout_is_returned() {
    // By the patience, or by a second signal.
    for (patience, signals) in [("10ms", 1), ("1h", 2)] {
        let server = FakeServer::start();
        let mut worker = server.worker(&["--patience", patience], "sleep 1000");
        server.receive("POST /worker");
        worker.begin(1, "1");
        for _ in 0..signals {
            worker.process.signal("TERM");
            worker.process.wait_for_log("stopping");
        }
        server.receive("DELETE /worker");
        assert_eq!(worker.process.wait().code(), Some(0));
        worker.process.wait_for_log("the job goes back");
        assert!(server.is_silent(), "no report");
    }
}

#[test]
fn worker_without_a_server_can_be_stopped() {
    let server = FakeServer::start();
    for _ in 0..100 {
        server.answer("POST /worker", 503);
    }
    let mut worker = server.worker(&[], "true");
    worker.process.wait_for_log("not registered");
    worker.process.signal("TERM");
    assert_eq!(worker.process.wait().code(), Some(0));
}

#[test]
fn silent_server_delays_worker_exit_for_a_bounded_time() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut worker = Worker::start(silent.local_addr().unwrap(), &[], &["true"]);
    let _line = silent.accept().unwrap();
    // Signals that come too quickly are one.
    until("the second signal", || {
        worker.process.signal("TERM");
        worker.process.log_lines().iter().any(|line| line.contains("second signal"))
    });
    assert_eq!(worker.process.wait().code(), Some(1));
}

//! The commands of a worker: their input, limits and outcomes.

use super::server_client::{FakeServer, Report};
use crate::support::{TempDir, until};
use serde_json::{Value, json};

/// A failure of a command, not of its time.
fn failure(report: &Report) -> (bool, &str) {
    let (reason, should_retry, message) = report.failure.as_ref().unwrap();
    assert_eq!(reason, "Other");
    (*should_retry, message)
}

#[test]
fn command_gets_the_job_on_stdin_and_in_variables() {
    let server = FakeServer::start();
    let line = r#"printf '["%s","%s","%s",' "$JOB_ID" "$JOB_NAME" "$JOB_TIMEOUT"; cat; echo ]"#;
    let worker = server.worker(&[], line);
    server.receive("POST /worker");
    let mut caller = worker.connect();
    let argument = r#"{"a":[1,-2.5,null,"ä"]}"#;
    assert_eq!(caller.hand(7, "näme", argument, Some(1_500)), (202, String::new()));
    let report = server.report();
    assert_eq!((report.job, &report.failure), (7, &None));
    let argument: Value = serde_json::from_str(argument).unwrap();
    assert_eq!(report.value, json!(["7", "näme", "1.5", argument]));

    // The same connection, and a job that may take any time.
    assert_eq!(caller.hand(8, "b", "0", None), (202, String::new()));
    assert_eq!(server.report().value, json!(["8", "b", "", 0]));
}

#[test]
fn large_arguments_and_results_pass() {
    let server = FakeServer::start();
    let text = format!("\"{}\"", "x".repeat(3_000_000));
    let worker = server.worker(&[], "cat");
    server.receive("POST /worker");
    worker.begin(1, &text);
    assert_eq!(server.report().value, serde_json::from_str::<Value>(&text).unwrap());

    // A command need not read what it gets, nor print anything.
    let worker = server.worker(&[], "exit 0");
    server.receive("POST /worker");
    worker.begin(2, &text);
    let report = server.report();
    assert_eq!((report.value, report.failure), (Value::Null, None));
}

#[test]
fn exit_code_other_than_zero_is_a_failure() {
    let server = FakeServer::start();
    let worker = server.worker(&[], "read status; echo first >&2; echo last >&2; exit $status");
    server.receive("POST /worker");
    for (status, again) in [(1, true), (3, true), (100, true), (64, false), (65, false)] {
        worker.begin(1, &status.to_string());
        let report = server.report();
        assert_eq!(failure(&report), (again, "first\nlast"));
        assert_eq!(report.value, json!({ "exit_status": status }));
    }

    let worker = server.worker(&[], "exit 1");
    server.receive("POST /worker");
    worker.begin(1, "1");
    assert_eq!(failure(&server.report()), (true, "exit status 1"));

    let worker = server.worker(&[], "kill -9 $$");
    server.receive("POST /worker");
    worker.begin(1, "1");
    let report = server.report();
    assert_eq!(failure(&report), (true, "ended by signal 9"));
    assert_eq!(report.value, json!({ "signal": 9 }));

    // Only the last of its output is reported, by whole lines.
    let line =
        "for i in 1 2 3; do head -c 3000 /dev/zero | tr '\\0' $i >&2; echo >&2; done; exit 1";
    let worker = server.worker(&[], line);
    server.receive("POST /worker");
    worker.begin(1, "1");
    assert_eq!(failure(&server.report()), (true, &*"3".repeat(3_000)));
}

#[test]
fn output_that_is_not_json_is_a_failure() {
    let server = FakeServer::start();
    let worker = server.worker(&[], "echo some words");
    server.receive("POST /worker");
    worker.begin(1, "1");
    let report = server.report();
    let (again, message) = failure(&report);
    assert!(!again && message.contains("no JSON") && message.contains("some words"), "{message}");

    let worker = server.worker(&["--text"], "echo some words; echo 12");
    server.receive("POST /worker");
    worker.begin(2, "1");
    assert_eq!(server.report().value, json!("some words\n12"));

    let worker = server.worker(&["--text"], "printf '\\377'");
    server.receive("POST /worker");
    worker.begin(3, "1");
    assert!(failure(&server.report()).1.contains("UTF-8"));

    // Without end: the command is killed.
    let worker = server.worker(&[], "yes");
    server.receive("POST /worker");
    worker.begin(4, "1");
    let report = server.report();
    assert_eq!(failure(&report), (false, "the command printed more than 67108864 bytes"));
}

/// Whether this process, whose number is in a file, has ended; the process that reaps it may not
/// have looked yet.
pub(super) fn is_gone(file: &std::path::Path) -> bool {
    let pid = std::fs::read_to_string(file).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.map_or(true, |stat| stat.rsplit(')').next().unwrap().starts_with(" Z"))
}

#[test]
fn command_beyond_its_timeout_is_killed_with_its_children() {
    let dir = TempDir::new();
    std::fs::create_dir(dir.path()).unwrap();
    let (child, own) = (dir.path().join("child"), dir.path().join("own"));
    let line = format!(
        "echo working >&2; sleep 1000 & echo $! > {}; echo $$ > {}; wait",
        child.display(),
        own.display()
    );
    // By the job's timeout, then by the worker's own.
    for (flags, ms) in [(&[][..], Some(1_000)), (&["--timeout", "1s"][..], Some(60_000))] {
        let server = FakeServer::start();
        let worker = server.worker(&[&["--max-jobs", "1"], flags].concat(), &line);
        server.receive("POST /worker");
        assert_eq!(worker.hand(1, "1", ms).0, 202);
        let report = server.report();
        let (reason, should_retry, message) = report.failure.unwrap();
        assert_eq!((&*reason, should_retry), ("Timeout", true));
        assert_eq!(message, "timeout after 1s: working");
        until("the end of the child", || is_gone(&child));
        until("the end of the command", || is_gone(&own));
        // Its place is free.
        worker.begin(2, "1");
    }
}

#[test]
fn processes_left_by_a_command_are_killed() {
    let dir = TempDir::new();
    std::fs::create_dir(dir.path()).unwrap();
    let child = dir.path().join("child");
    let line = format!("sleep 1000 & echo $! > {}; echo 5", child.display());
    let server = FakeServer::start();
    let worker = server.worker(&[], &line);
    server.receive("POST /worker");
    worker.begin(1, "1");
    assert_eq!(server.report().value, json!(5));
    until("the end of the child", || is_gone(&child));

    // What it prints just after its parent is received.
    let worker = server.worker(&[], "(sleep 0.05; echo 6) & exit 0");
    server.receive("POST /worker");
    worker.begin(2, "1");
    assert_eq!(server.report().value, json!(6));
}

#[test]
fn concurrent_commands_are_limited_by_max_jobs() {
    let dir = TempDir::new();
    std::fs::create_dir(dir.path()).unwrap();
    let path = dir.text();
    let line = format!("read n; touch {path}/on$n; until [ -e {path}/go$n ]; do sleep 0.02; done");
    let server = FakeServer::start();
    let worker = server.worker(&["--max-jobs", "2"], &line);
    server.receive("POST /worker");
    let there = |name: &str| dir.path().join(name).exists();
    let go = |name: &str| drop(std::fs::File::create(dir.path().join(name)).unwrap());
    worker.begin(1, "1");
    worker.begin(2, "2");
    until("two runs", || there("on1") && there("on2"));
    let (status, why) = worker.hand(3, "3", None);
    assert_eq!((status, &*why), (503, "there is no free place"));
    assert!(server.is_silent());
    go("go1");
    assert_eq!(server.report().job, 1);
    worker.begin(4, "4");
    go("go4");
    assert_eq!(server.report().job, 4);
    go("go2");
    assert_eq!(server.report().job, 2);
    assert!(!there("on3"));
}

//! The guard between a worker and a command: no process of a command outlives its worker, and the
//! command's exit status is reported unchanged.

use super::commands::is_gone;
use super::server_client::{FakeServer, Worker};
use crate::support::{TempDir, until};
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn kill_of_a_worker_kills_its_commands_and_their_children() {
    for signal in ["KILL", "ABRT"] {
        let dir = TempDir::new();
        std::fs::create_dir(dir.path()).unwrap();
        let there = |name: &str| dir.path().join(name);
        let path = dir.text();
        // A child, and an orphan.
        let line = format!(
            "(sleep 1000 & echo $! > {path}/orphan); sleep 1000 & echo $! > {path}/child; \
             echo $PPID > {path}/guard; echo $$ > {path}/own; wait"
        );
        let server = FakeServer::start();
        let mut worker = server.worker(&[], &line);
        server.receive("POST /worker");
        worker.begin(1, "1");
        until("the command", || {
            std::fs::read_to_string(there("own")).is_ok_and(|text| text.ends_with('\n'))
        });
        let all = ["own", "child", "orphan", "guard"];
        for name in all {
            assert!(!is_gone(&there(name)), "{name} runs");
        }
        worker.process.signal(signal);
        worker.process.wait();
        for name in all {
            until(name, || is_gone(&there(name)));
        }
    }
}

#[test]
fn signal_of_a_command_to_its_group_does_not_reach_the_guard() {
    let server = FakeServer::start();
    let line = "trap '' TERM HUP INT USR1; for s in TERM HUP INT USR1; do kill -$s 0; done; echo 7";
    let worker = server.worker(&[], line);
    server.receive("POST /worker");
    worker.begin(1, "1");
    let report = server.report();
    assert_eq!((report.value, report.failure), (json!(7), None));

    // What is ignored by the guard is not ignored by the command.
    let worker = server.worker(&[], "kill -TERM $$; sleep 1000");
    server.receive("POST /worker");
    worker.begin(2, "1");
    let report = server.report();
    assert_eq!(report.failure.unwrap().2, "ended by signal 15");
    assert_eq!(report.value, json!({ "signal": 15 }));
}

#[test]
fn command_that_cannot_be_started_is_retried() {
    let dir = TempDir::new();
    std::fs::create_dir(dir.path()).unwrap();
    let script = dir.path().join("script");
    std::fs::write(&script, "#!/no/such/shell\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let server = FakeServer::start();
    let worker = Worker::start(server.address, &[], &[script.to_str().unwrap()]);
    server.receive("POST /worker");
    worker.begin(1, "1");
    let (_, should_retry, message) = server.report().failure.unwrap();
    assert!(should_retry && message.starts_with("the command cannot be run: "), "{message}");
}

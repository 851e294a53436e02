//! The worker's log of its commands: one line for each failure, whatever they print.

use super::server_client::FakeServer;
use serde_json::Value;

/// The line about the failure of a job.
fn failed(lines: &[String]) -> Vec<String> {
    lines.iter().filter(|line| line.contains("failed")).cloned().collect()
}

/// Prints a forged line, what turns the direction of writing, colours, and much more besides.
const CONTROL_CHARS: &str = r#"
    for i in $(seq 2000); do echo "line $i"; done >&2
    printf '2026-01-01T00:00:00.000Z  WARN forged\n' >&2
    printf '\033[31mred\342\200\256turned\302\233\r\a' >&2
    exit 1"#;

fn lines_of_a_failure(format: &str) -> Vec<String> {
    let server = FakeServer::start();
    let worker = server.worker(&["--log-format", format], CONTROL_CHARS);
    server.receive("POST /worker");
    worker.begin(1, "1");
    let (_, _, message) = server.report().failure.unwrap();
    assert!(message.contains("forged\n\u{1b}[31mred"), "the server gets it as it was: {message}");
    worker.process.wait_for_log("failed");
    worker.process.log_lines()
}

#[test]
fn command_failure_is_one_line_of_the_text_log() {
    let lines = lines_of_a_failure("human");
    let failed = failed(&lines);
    assert_eq!(failed.len(), 1, "{lines:?}");
    let line = &failed[0];
    assert!(lines.len() < 10, "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("forged") && !line.contains("failed")));
    assert!(!line.chars().any(|c| c.is_control() || c == '\u{202e}'), "{line:?}");
    assert!(line.contains(r"forged\n\u{1b}[31mred\u{202e}turned\u{9b}"), "{line}");
    assert!(line.contains("exit status 1: (") && line.contains(" bytes before) "), "{line}");
    assert!(line.len() < 1_000, "{line}");
    assert!(line.contains("tried again after 1, 2, 4, ... s"), "{line}");
}

#[test]
fn command_failure_is_one_object_of_the_json_log() {
    let lines = lines_of_a_failure("json");
    for line in &lines {
        assert!(serde_json::from_str::<Value>(line).unwrap().is_object());
        assert!(!line.chars().any(|c| c.is_control() || c == '\u{202e}'), "{line:?}");
    }
    let failed = failed(&lines);
    assert_eq!(failed.len(), 1, "{lines:?}");
    let line: Value = serde_json::from_str(&failed[0]).unwrap();
    assert!(line["why"].as_str().unwrap().len() < 500);
}

#[test]
fn final_failure_is_logged_as_final() {
    let server = FakeServer::start();
    let worker = server.worker(&[], "exit 65");
    server.receive("POST /worker");
    worker.begin(1, "1");
    assert!(!server.report().failure.unwrap().1);
    worker.process.wait_for_log("failed for good: it is not tried again");
}

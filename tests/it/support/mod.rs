//! The real server as a child process, and a blocking client.

mod client;
mod dir;
mod server;

pub(crate) use client::Client;
pub(crate) use dir::TempDir;
pub(crate) use server::{Program, Server, plain_command};

use std::time::{Duration, Instant};

/// How long a test waits before it fails: generous, machines are shared.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// Polls `done` until it is true.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < TIMEOUT, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Lets this process open as many files as the system allows.
pub(crate) fn raise_file_limit() {
    let (soft, hard) = rlimit::Resource::NOFILE.get().unwrap();
    if soft < hard {
        rlimit::Resource::NOFILE.set(hard, hard).unwrap();
    }
}

/// A put request.
pub(crate) fn put(queue: &str, pri: u64, job: &str) -> String {
    format!(r#"{{"request":"put","queue":"{queue}","pri":{pri},"job":{job}}}"#)
}

/// A get request for one queue.
pub(crate) fn get(queue: &str) -> String {
    format!(r#"{{"request":"get","queues":["{queue}"]}}"#)
}

/// A get request for one queue that waits.
pub(crate) fn wait(queue: &str) -> String {
    format!(r#"{{"request":"get","queues":["{queue}"],"wait":true}}"#)
}

/// A delete request.
pub(crate) fn delete(id: u64) -> String {
    format!(r#"{{"request":"delete","id":{id}}}"#)
}

/// The reply to a get that found nothing.
pub(crate) const NO_JOB: &str = r#"{"status":"no-job"}"#;

/// A number in a reply.
pub(crate) fn number(reply: &str, field: &str) -> u64 {
    let json: serde_json::Value = serde_json::from_str(reply).unwrap();
    json[field].as_u64().unwrap_or_else(|| panic!("no number '{field}' in {reply}"))
}

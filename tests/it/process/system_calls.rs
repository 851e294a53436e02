//! The system calls of a server, which the filter of its unit (`docs/operations.md`) has to permit.
//!
//! They are listed by strace. Where it is missing, or may not trace, the test says so and ends.

use crate::dispatcher_sim::server_client::{ask, protocol};
use crate::support::{Program, Server, TempDir, get, plain_command, put, until};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// What the unit permits.
const PERMITTED: &str = include_str!("../../texts/system-calls.txt");

fn can_trace() -> bool {
    let mut command = Command::new("strace");
    command.args(["-f", "-o", "/dev/null", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A server under strace, which is not its parent: signals go to the server.
fn start(calls: &Path, dir: &TempDir) -> Server {
    let socket = format!("unix:{}/socket,mode=0600", dir.text());
    let data = format!("{}/data", dir.text());
    let mut command = plain_command("strace");
    command.args(["-D", "-f", "-q", "-o"]).arg(calls).arg(Program::PATH);
    command.args(["serve", "--log-format", "json", "--listen", ":0", "--http", ":0"]);
    command.args(["--pinpriq", ":0", "--beanstalkd", &socket, "--data", &data]);
    Server::spawn(command)
}

/// A worker that accepts every job, with its URL by a name that has to be looked up.
fn worker() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://localhost:{}/", listener.local_addr().unwrap().port());
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            drop(stream.read(&mut [0; 10_000]));
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
        }
    });
    url
}

/// Lines, HTTP, a query, a call of a worker, a backup, a reload.
fn use_it(server: &Server) {
    let mut lines = server.connect();
    lines.ask(&put("q", 1, "{\"a\":1}"));
    lines.ask(&get("q"));
    let http = protocol(server);
    let worker = json!({"name": "w", "url": worker(), "max_jobs": 1, "jobs": ["mail"]});
    assert_eq!(ask(http, "POST /worker", None, &worker).0, 201);
    lines.ask(&put("mail", 1, "{}"));
    let query = "{\"query\":[[\"=\",\"payload->>'a'\",1]]}";
    let requests = [
        ("GET /api/v0/queue/q/job", ""),
        ("POST /api/v0/queue/q/query_jobs", query),
        ("GET /metrics", ""),
        ("POST /api/v1/backup", ""),
    ];
    for (what, body) in requests {
        let length = body.len();
        let mut stream = TcpStream::connect(http).unwrap();
        write!(
            stream,
            "{what} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 200"), "{what}: {answer}");
    }
    server.signal("HUP");
    lines.ask(&put("q", 1, "{}"));
}

#[test]
fn system_calls_of_a_server_are_permitted_by_its_unit() {
    if !can_trace() {
        return eprintln!("SKIPPED: strace is missing, or may not trace");
    }
    let dir = TempDir::new();
    fs::create_dir(dir.path()).unwrap();
    let calls = dir.path().join("calls");
    let mut server = start(&calls, &dir);
    use_it(&server);
    server.signal("TERM");
    assert!(server.wait().success());
    let pid = server.pid().to_string();
    until("the end of the trace", || {
        let text = fs::read_to_string(&calls).unwrap();
        text.lines().any(|line| is_end_of(&pid, line))
    });

    let permitted: BTreeSet<&str> =
        PERMITTED.lines().filter(|line| !line.starts_with('#')).collect();
    let text = fs::read_to_string(&calls).unwrap();
    let made: BTreeSet<&str> = text.lines().filter_map(name_of_call).collect();
    assert!(made.contains("epoll_wait") && made.contains("sched_setscheduler"), "{made:?}");
    let missing: Vec<&&str> = made.difference(&permitted).collect();
    assert!(missing.is_empty(), "not permitted by the filter of the unit: {missing:?}");
}

/// `1234  +++ exited with 0 +++`: numbers are padded.
fn is_end_of(pid: &str, line: &str) -> bool {
    let rest = line.strip_prefix(pid).filter(|rest| rest.starts_with(' '));
    rest.is_some_and(|rest| rest.trim_start() == "+++ exited with 0 +++")
}

/// `1234 name(...) = 0`; nothing for the end of a call that was begun in another line.
fn name_of_call(line: &str) -> Option<&str> {
    let call = line.split_once(' ')?.1.trim_start();
    let name = call.split_once('(')?.0;
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_').then_some(name)
}

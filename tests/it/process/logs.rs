//! The server's log: its listeners, its start and its end, and nothing for a request.

use crate::support::{Program, Server, get, plain_command, put, until};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// Starts a server, bothers it, stops it, and returns its log.
fn log_of_a_run(format: &str) -> Vec<String> {
    let mut command = plain_command(Program::PATH);
    command.args(["serve", "--listen", ":0", "--log-format", format]);
    let mut server = Server::spawn(command);
    server.wait_for_log("serving");
    let started = server.log_lines();
    assert_eq!(started.len(), 4, "{started:?}");
    assert!(started[0].contains("jobs live in memory"), "{started:?}");
    assert!(started[2].contains("limit on memory"), "{started:?}");
    let address = server.address.to_string();
    assert_ne!(server.address.port(), 0);
    let protocols: Vec<&String> = started.iter().filter(|line| line.contains(&address)).collect();
    assert_eq!(protocols.len(), 1, "one line for each protocol: {started:?}");
    assert!(protocols[0].contains("job-centre"), "{protocols:?}");

    for _ in 0..20 {
        let mut client = server.connect();
        client.ask(&put("q", 1, "{}"));
        client.ask(&get("q"));
        client.ask("nonsense");
        client.send(&get("q"));
        client.reset();
    }
    server.connect().settle();
    assert_eq!(server.log_lines(), started, "no line for requests and clients");
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    server.wait_for_log("stopped");
    server.log_lines()
}

#[test]
fn json_log_has_one_object_on_each_line() {
    for line in log_of_a_run("json") {
        let json: serde_json::Value = serde_json::from_str(&line).unwrap();
        for field in ["timestamp", "level", "message"] {
            assert!(json[field].is_string(), "{line}");
        }
    }
}

#[test]
fn text_log_has_no_json() {
    for line in log_of_a_run("human") {
        assert!(line.contains(" INFO ") && !line.starts_with('{'), "{line}");
        assert!(!line.contains('\x1b'), "colours in a file: {line}");
    }
}

#[test]
fn server_survives_a_blocked_log() {
    let mut command = plain_command(Program::PATH);
    command.args(["serve", "--listen", ":0", "--log-format", "json"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("serving") {
        line.clear();
        assert_ne!(log.read_line(&mut line).unwrap(), 0, "the server ended");
    }
    drop(log);
    let pid = child.id().to_string();
    plain_command("kill").args(["-s", "TERM", &pid]).status().unwrap();
    until("the end of the server", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(0), "logging is no reason to fail");
}

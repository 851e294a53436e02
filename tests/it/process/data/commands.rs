//! `jobcentre journal`: its output and its exit status.

use super::{OK, serve};
use crate::support::{Client, Program, TempDir, delete, plain_command, put};
use jobcentre::wire::packets::{Request, push_request};
use std::process::Stdio;

/// Runs `journal`, which must end with this status; returns what it prints, or says.
fn journal(arguments: &[&str], status: i32) -> String {
    let output = Program::output(&[&["journal"], arguments].concat(), &[]);
    let (text, complaint) = [output.stdout, output.stderr].map(String::from_utf8).into();
    let (text, complaint) = (text.unwrap(), complaint.unwrap());
    assert_eq!(output.status.code(), Some(status), "{text}{complaint}");
    assert_eq!(complaint.is_empty(), status == 0, "{complaint}");
    text + &complaint
}

#[test]
fn journal_check_and_dump_print_the_directory() {
    let dir = TempDir::new();
    let server = serve(&dir, &["--pinpriq", ":0"]);
    let mut client = server.connect();
    client.ask(&put("mail", 5, r#"{"to": "ann"}"#));
    client.ask(r#"{"request":"put","queue":"mail","pri":6,"job":{},"delay":3600000,"ttr":1000}"#);
    assert_eq!(client.ask(&delete(1)), OK);
    let mut packets = Client::connect(server.address_of("pinpriq"));
    let mut push = Vec::new();
    let (queue, packet) = (&b"p"[..], &b"k\xff"[..]);
    let request = Request::Push { queue, ttl_ms: 60_000, priority: 7, key_len: 1, packet };
    push_request(&mut push, &request);
    packets.send_bytes(&push);
    // A job of another queue is answered only when it is durable, and so is all before it.
    packets.send_bytes(b"P\0\x04none");
    assert_eq!(packets.receive_like(b"\0\0"), b"\0\0");
    client.ask(&put("mail", 4, "{}"));
    for command in ["check", "dump"] {
        let text = journal(&[command, dir.text()], 1);
        assert!(text.contains("another process uses this directory"), "{text}");
    }
    drop(server);

    let text = journal(&["check", dir.text()], 0);
    assert!(text.contains("jobs       3\n") && text.contains("records    5\n"), "{text}");
    assert!(text.contains("next id    5"), "{text}");
    let text = journal(&["dump", dir.text()], 0);
    let records: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |field: &str| records.iter().map(|record| &record[field]).collect::<Vec<_>>();
    assert_eq!(of("record"), ["job", "job", "gone", "job", "job"]);
    assert_eq!(of("id"), [1, 2, 1, 3, 4]);
    assert!(text.lines().next().unwrap().contains(r#""job":{"to": "ann"},"state":"waiting"}"#));
    assert_eq!((&records[1]["state"], &records[1]["ttr_ms"]), (&"delayed".into(), &1000.into()));
    assert!(records[1]["until"].as_str().unwrap().ends_with('Z'));
    assert_eq!(records[3]["job"], serde_json::json!({"key": "aw==", "payload": "/w=="}));
    assert_eq!((&records[3]["pri"], &records[3]["turn"]), (&(-7).into(), &"newest-first".into()));
    assert!(records[3]["expires"].is_string());
}

#[test]
fn path_without_a_journal_is_named_in_the_error() {
    let dir = TempDir::new();
    for command in ["check", "dump"] {
        let text = journal(&[command, dir.text()], 1);
        assert!(text.contains(dir.text()), "{text}");
    }
    std::fs::create_dir(dir.path()).unwrap();
    for arguments in [&["check", dir.text()][..], &["dump", dir.text()]] {
        let text = journal(arguments, 1);
        assert!(text.contains("holds no journal"), "{text}");
    }
    let out = format!("{}-out", dir.text());
    let text = journal(&["salvage", dir.text(), &out], 1);
    assert!(text.contains("holds nothing"), "{text}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
    // The new directory was made, to be locked, before that was known.
    std::fs::remove_dir_all(out).unwrap();
}

#[test]
fn journal_dump_into_a_closed_pipe_is_no_error() {
    let dir = TempDir::new();
    let server = serve(&dir, &[]);
    let puts = format!("{}\n", put("q", 1, "{}")).repeat(5_000);
    server.connect().exchange(puts.as_bytes(), 5_000);
    drop(server);
    let mut command = plain_command(Program::PATH);
    command.args(["journal", "dump", dir.text()]).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

//! What a run of the generator prints, and how it is interrupted.

use super::{Process, bench, failure, serve, server};
use crate::support::until;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_jobcentre");

/// Starts a run, interrupts it as soon as `when` says so, and gives what came of it.
fn interrupted(lines: SocketAddr, arguments: &str, when: &mut dyn FnMut() -> bool) -> Output {
    let mut child = start(lines, arguments);
    until("a run under way", when);
    signal(&child, "INT");
    let mut said = String::new();
    until("the end of the run", || child.try_wait().unwrap().is_some());
    let status = child.wait().unwrap();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let mut stdout = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
    Output { status, stdout, stderr: said.into_bytes() }
}

fn start(lines: SocketAddr, arguments: &str) -> Child {
    let mut command = Command::new(PROGRAM);
    command.args(["bench", "--address", &lines.to_string()]);
    command.args(arguments.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
}

/// A server with both protocols, and a question about how many jobs it has.
fn both() -> (Process, SocketAddr, impl Fn() -> u64) {
    let (process, lines, http) = super::serve_both();
    let jobs = move || {
        let mut stream = TcpStream::connect(http).unwrap();
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("jobcentre_jobs "));
        line.unwrap_or_else(|| panic!("{text}")).trim().parse().unwrap()
    };
    (process, lines, jobs)
}

#[test]
fn interrupted_run_prints_its_results_and_leaves_no_jobs() {
    let (_server, lines, jobs) = both();
    for arguments in ["put -n 100000000 -c 4 -d 16", "cycle --duration 600 -c 4 -d 16"] {
        let output = interrupted(lines, arguments, &mut || jobs() > 20);
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        let table = String::from_utf8(output.stdout).unwrap();
        assert!(table.contains("note       interrupted"), "{table}");
        assert!(table.contains(" requests in "), "{table}");
        assert!(!table.contains(" stay in "), "{table}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("are taken away"), "{said}");
        assert_eq!(jobs(), 0, "{arguments}");
    }
}

#[test]
fn interrupted_run_that_keeps_its_jobs_names_them() {
    let (_server, lines, jobs) = both();
    let arguments = "put -n 100000000 -c 2 -d 8 --queues 3 --keep --json - --queue-prefix mine-";
    let output = interrupted(lines, arguments, &mut || jobs() > 20);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let notes = report["notes"].to_string();
    assert!(notes.contains("stay in the queues mine-0 to mine-2"), "{notes}");
    assert!(jobs() > 20);
}

#[test]
fn second_signal_leaves_the_jobs_and_names_them() {
    let (server, lines, jobs) = both();
    let mut child = start(lines, "put -n 100000000 -c 4 -d 16 --queue-prefix mine-");
    until("a run under way", || jobs() > 1000);
    let pid = server.0.id().to_string();
    let send =
        |name| assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    send("STOP");
    signal(&child, "INT");
    // It says so, and waits for answers that do not come.
    let mut errors = child.stderr.take().unwrap();
    let mut said = Vec::new();
    while !String::from_utf8_lossy(&said).contains("taken away") {
        let mut piece = [0; 1000];
        let count = errors.read(&mut piece).unwrap();
        assert_ne!(count, 0, "{}", String::from_utf8_lossy(&said));
        said.extend_from_slice(&piece[..count]);
    }
    signal(&child, "TERM");
    until("the end of the run", || child.try_wait().unwrap().is_some());
    send("CONT");
    assert_eq!(child.wait().unwrap().code(), Some(143));
    let mut table = String::new();
    child.stdout.take().unwrap().read_to_string(&mut table).unwrap();
    let words = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("stay in the queue mine-0"), "{table}");
    assert!(table.contains(" requests in "), "{table}");
}

#[test]
fn unwritable_output_file_fails_before_the_measurement() {
    let (_server, lines, jobs) = both();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.to_str().unwrap();
    for (arguments, word) in [
        ("--plot x.png", "give a name that ends in .svg"),
        ("--plot x.PDF", "give a name that ends in .svg"),
        ("--plot /no/such/folder/x.svg", "there is no such directory"),
        ("--json /no/such/folder/x.json", "there is no such directory"),
        (&format!("--json {folder}"), "this is a directory"),
        ("--json /proc/x.json", "it cannot be written"),
    ] {
        let error = failure(lines, &format!("put --keep -n 10 -c 1 {arguments}"));
        assert!(error.contains(word), "{arguments}: {error}");
        assert_eq!(jobs(), 0, "{arguments}");
    }
}

#[test]
fn result_table_fits_eighty_columns() {
    let (process, address) = server();
    let long = "q".repeat(90);
    for arguments in [
        format!("cycle -n 3000 -c 4 --rate 1e6 --queues 5 --server-pid {}", process.0.id()),
        format!("mixed --backlog 5000 -n 300 -c 4 --queue-prefix {long} --server-pid 1234567"),
        "wait --waiters 3 -n 60 --payload 64KiB".to_owned(),
    ] {
        let output = bench(address, &arguments);
        assert!(output.status.success(), "{output:?}");
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

#[test]
fn port_of_another_protocol_is_named_in_the_error() {
    let (_http, http) = serve("--listen off --http 127.0.0.1:0");
    let error = failure(http, "put -n 10 -c 1");
    assert!(error.contains("this port speaks HTTP"), "{error}");
    let (_lines, lines) = server();
    for protocol in ["jobq", "health"] {
        let error = failure(lines, &format!("put -n 10 -c 1 --protocol {protocol}"));
        assert!(error.contains("this port speaks JSON lines"), "{error}");
    }
}

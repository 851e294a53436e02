//! SIGINT while the server does something to many jobs: the command cancels the action. Servers
//! here have no HTTP listener.

use crate::support::{Program, Server, plain_command, until};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A listener for lines that answers as it is told, and notes what it was asked.
struct FakeServer {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

/// An action that goes on.
const RUNNING: &str =
    r#"{"status":"ok","id":7,"matched":9,"done":4,"state":"running","ended_at":null}"#;

impl FakeServer {
    /// `answer`: what it says to a request with this name and action; nothing: it does not answer.
    fn start(answer: fn(&str) -> Option<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                serve(&stream, answer, &noted);
            }
        });
        Self { address, asked }
    }

    fn wait_for(&self, request: &str) {
        until(request, || self.asked.lock().unwrap().iter().any(|asked| asked == request));
    }
}

/// Answers the requests of one connection until it ends.
fn serve(stream: &TcpStream, answer: fn(&str) -> Option<String>, noted: &Mutex<Vec<String>>) {
    let mut output = stream;
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let request: Value = serde_json::from_str(&line).unwrap();
        let name = request["request"].as_str().unwrap();
        let action = request["action"].as_u64().map_or_else(String::new, |it| format!(" {it}"));
        let asked = format!("{name}{action}");
        let answer = answer(&asked);
        noted.lock().unwrap().push(asked);
        if let Some(answer) = answer {
            // A client that was killed takes none.
            let _ = output.write_all((answer + "\n").as_bytes());
        }
    }
}

/// Starts a verb about all jobs of a queue.
fn start(server: SocketAddr, verb: &[&str]) -> Child {
    let mut command = plain_command(Program::PATH);
    command.args(verb).args(["--queue", "mail", "--all"]);
    command.env("JOBCENTRE_URL", server.to_string());
    let pipes = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    pipes.spawn().unwrap()
}

fn interrupt(child: &Child) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
}

/// Exit status and stderr.
fn end(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn signal_cancels_the_action_and_says_how_far_it_was() {
    let server = FakeServer::start(|request| {
        let cancelled = RUNNING.replace("running", "cancelled").replace("null", "\"2026\"");
        Some(if request == "cancel 7" { cancelled } else { RUNNING.to_owned() })
    });
    let child = start(server.address, &["bury"]);
    server.wait_for("actions 7");
    interrupt(&child);
    let (status, errors) = end(child);
    assert_eq!(status, Some(130), "{errors}");
    let note = "action 7 is being cancelled, as does: jobcentre actions cancel 7\n";
    let said = "error: interrupted: action 7 was cancelled; it is done for 4 jobs, and stays so\n";
    assert_eq!(errors, format!("{note}{said}"));
    let asked = server.asked.lock().unwrap();
    assert_eq!(asked.last().map(String::as_str), Some("cancel 7"), "{asked:?}");
}

#[test]
fn second_signal_ends_the_command_while_the_server_does_not_answer() {
    let deaf = FakeServer::start(|request| (!request.ends_with('7')).then(|| RUNNING.to_owned()));
    let slow = FakeServer::start(|request| (request != "cancel 7").then(|| RUNNING.to_owned()));
    for server in [deaf, slow] {
        let child = start(server.address, &["bury"]);
        server.wait_for("actions 7");
        interrupt(&child);
        server.wait_for("cancel 7");
        interrupt(&child);
        let (_, errors) = end(child);
        assert!(errors.contains("jobcentre actions cancel 7"), "{errors}");
    }
}

#[test]
fn what_is_done_when_a_signal_comes_is_what_is_said() {
    for (verb, number) in [(&["bury"][..], "buried"), (&["delete", "--yes"], "ready")] {
        let server = Server::start(&[]);
        let mut client = server.connect();
        for _ in 0..400 {
            let jobs =
                "{\"request\":\"put\",\"queue\":\"mail\",\"job\":{},\"pri\":0}\n".repeat(250);
            client.send(jobs.trim_end());
            (0..250).for_each(|_| drop(client.receive()));
        }
        let child = start(server.address, verb);
        // How many it is done for: those that are buried, or those that are ready no more.
        let mut done = || {
            client.send("{\"request\":\"stats\",\"queue\":\"mail\"}");
            let answer: Value = serde_json::from_str(&client.receive()).unwrap();
            let count = answer["counts"][number].as_u64().unwrap();
            if number == "ready" { 100_000 - count } else { count }
        };
        until("the first jobs", || done() > 0);
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        // The action may have been faster than the signal.
        let state = if output.status.code() == Some(130) {
            let said = errors.split("it is done for ").nth(1);
            let said = said.and_then(|text| text.split(' ').next());
            let said = said.unwrap_or_else(|| panic!("no number: {errors}")).replace(',', "");
            assert_eq!(done(), said.parse::<u64>().unwrap(), "{errors}");
            if errors.contains("was cancelled") { "cancelled" } else { "finished" }
        } else {
            assert_eq!((output.status.code(), done()), (Some(0), 100_000), "{errors}");
            "finished"
        };
        let url = [("JOBCENTRE_URL", &*server.address.to_string())];
        let list = Program::output(&["actions", "--columns", "id,state"], &url);
        assert_eq!(String::from_utf8_lossy(&list.stdout), format!("1\t{state}\n"));
        let cancel = Program::output(&["actions", "cancel", "1", "2", "--ignore-missing"], &url);
        assert_eq!(cancel.status.code(), Some(0), "{cancel:?}");
        let missing = Program::output(&["actions", "cancel", "2"], &url);
        assert_eq!(missing.status.code(), Some(4), "{missing:?}");
    }
}

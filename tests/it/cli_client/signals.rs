//! SIGINT and a server that goes away while lines are put: no line is lost, and the command says
//! what has become of them.

use crate::support::{Program, Server, plain_command, until};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};

/// A command that puts lines, with its stdin.
struct Putter {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Putter {
    fn start(server: &Server, flags: &[&str]) -> Self {
        let mut command = plain_command(Program::PATH);
        command.args(["put", "mail", "--lines"]).args(flags);
        command.env("JOBCENTRE_URL", server.address.to_string());
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        let stdin = child.stdin.take();
        Self { child, stdin }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// The first lines of stdout.
    fn lines(&mut self, count: usize) -> Vec<String> {
        let mut stdout = BufReader::new(self.child.stdout.as_mut().unwrap());
        let mut next = || {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        };
        (0..count).map(|_| next()).collect()
    }

    /// Exit status, the count of further lines of stdout, and stderr.
    fn end(mut self) -> (Option<i32>, usize, String) {
        let (mut out, mut errors) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        drop(self.stdin.take());
        (self.child.wait().unwrap().code(), out.lines().count(), errors)
    }
}

fn ready(server: &Server) -> u64 {
    let mut client = server.connect();
    client.send("{\"request\":\"stats\",\"queue\":\"mail\"}");
    let answer: serde_json::Value = serde_json::from_str(&client.receive()).unwrap();
    answer["counts"]["ready"].as_u64().unwrap()
}

#[test]
fn signal_ends_the_reading_and_every_line_that_was_sent_is_acknowledged() {
    let server = Server::start(&[]);
    for signal in ["INT", "TERM"] {
        let mut putter = Putter::start(&server, &[]);
        // A pipe that stays open.
        putter.stdin.as_mut().unwrap().write_all(b"1\n2\n{}\nnot whole").unwrap();
        let ids = putter.lines(3);
        assert!(ids.iter().all(|id| id.parse::<u64>().is_ok()), "{ids:?}");
        putter.signal(signal);
        let (status, more, errors) = putter.end();
        assert_eq!((status, more), (Some(130), 0), "{errors}");
        let said = "interrupted: 3 lines were acknowledged, 0 refused, up to line 3";
        assert!(errors.contains(said), "{errors}");
    }
    assert_eq!(ready(&server), 6);
}

#[test]
fn signal_in_the_middle_of_many_lines_loses_none() {
    let server = Server::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines");
    std::fs::write(&path, "{\"a\":1}\n".repeat(2_000_000)).unwrap();
    let mut command = plain_command(Program::PATH);
    command.args(["put", "mail", "--lines"]).env("JOBCENTRE_URL", server.address.to_string());
    command.stdin(File::open(&path).unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut putter = Putter { child: command.spawn().unwrap(), stdin: None };
    let first = putter.lines(5_000).len();
    putter.signal("INT");
    // What the reader of the first lines has buffered is gone: the command says how many it were.
    let (status, _, errors) = putter.end();
    let said = errors.split("interrupted: ").nth(1).and_then(|text| text.split(' ').next());
    let acknowledged: u64 = said.unwrap().parse().unwrap();
    assert!(status == Some(130) && acknowledged >= first as u64, "{errors}");
    assert!(errors.contains(&format!("up to line {acknowledged}")), "{errors}");
    assert_eq!(ready(&server), acknowledged);
}

#[test]
fn lines_without_an_answer_are_named_when_the_server_goes_away() {
    let server = Server::start(&[]);
    let mut putter = Putter::start(&server, &[]);
    putter.stdin.as_mut().unwrap().write_all(b"1\n2\n").unwrap();
    putter.lines(2);
    drop(server);
    // It notices the end of the connection, or that it cannot send.
    let mut left = putter.stdin.take().unwrap();
    until("the end of the command", || {
        let _ = left.write_all(b"3\n");
        putter.child.try_wait().unwrap().is_some()
    });
    let (status, _, errors) = putter.end();
    assert!(status == Some(3) && errors.contains("2 lines were acknowledged"), "{errors}");
}

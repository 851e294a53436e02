//! SIGINT while the server does something to many jobs: the command cancels the action.

use crate::support::{Program, Server, plain_command, until};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// An HTTP listener that answers as it is told, and notes what it was asked.
struct FakeHttp {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

/// An action that goes on.
const RUNNING: &str = r#"{"id":7,"matched":9,"done":4,"state":"running","ended_at":null}"#;

impl FakeHttp {
    /// `answer`: what it says to a request line; nothing: it does not answer.
    fn start(answer: fn(&str) -> Option<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                let request = request_of(&stream);
                let body = answer(&request);
                noted.lock().unwrap().push(request);
                let Some(body) = body else {
                    silent.push(stream);
                    continue;
                };
                let length = body.len();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                let _ = (&stream).write_all((head + &body).as_bytes());
            }
        });
        Self { address, asked }
    }

    fn wait_for(&self, request: &str) {
        until(request, || self.asked.lock().unwrap().iter().any(|asked| asked == request));
    }
}

/// The method and the path of a request whose body is read as well.
fn request_of(stream: &TcpStream) -> String {
    let mut input = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    input.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        input.read_line(&mut line).unwrap();
        if let Some(count) = line.strip_prefix("Content-Length: ") {
            length = count.trim_end().parse().unwrap();
        }
        if line.trim_end().is_empty() {
            break;
        }
    }
    input.take(length).read_to_end(&mut Vec::new()).unwrap();
    first.trim_end().trim_end_matches(" HTTP/1.1").replace("/api/v1", "")
}

/// Starts a verb that buries all jobs of a queue.
fn start(server: &Server, http: SocketAddr) -> Child {
    let mut command = plain_command(Program::PATH);
    command.args(["bury", "--queue", "mail", "--all"]);
    command.env("JOBCENTRE_URL", server.address.to_string());
    command.env("JOBCENTRE_HTTP_URL", http.to_string());
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
    let server = Server::start(&[]);
    let http = FakeHttp::start(|request| {
        let cancelled = RUNNING.replace("running", "cancelled").replace("null", "\"2026\"");
        Some(if request.starts_with("DELETE") { cancelled } else { RUNNING.to_owned() })
    });
    let child = start(&server, http.address);
    http.wait_for("GET /actions/7");
    interrupt(&child);
    let (status, errors) = end(child);
    assert_eq!(status, Some(130), "{errors}");
    let note = "action 7 is being cancelled, as does: jobcentre actions cancel 7\n";
    let said = "error: interrupted: action 7 was cancelled; it is done for 4 jobs, and stays so\n";
    assert_eq!(errors, format!("{note}{said}"));
    let asked = http.asked.lock().unwrap();
    assert_eq!(asked.last().map(String::as_str), Some("DELETE /actions/7"), "{asked:?}");
}

#[test]
fn second_signal_ends_the_command_while_the_server_does_not_answer() {
    let server = Server::start(&[]);
    let http = FakeHttp::start(|request| {
        (!request.starts_with("GET /actions/7")).then(|| RUNNING.to_owned())
    });
    let silent = FakeHttp::start(|request| request.starts_with("POST").then(|| RUNNING.to_owned()));
    for (http, until) in [(&http, "DELETE /actions/7"), (&silent, "DELETE /actions/7")] {
        let child = start(&server, http.address);
        http.wait_for("GET /actions/7");
        interrupt(&child);
        http.wait_for(until);
        interrupt(&child);
        let (_, errors) = end(child);
        assert!(errors.contains("jobcentre actions cancel 7"), "{errors}");
    }
}

#[test]
fn what_is_done_when_a_signal_comes_is_what_is_said() {
    let server = Server::start(&["--http", "127.0.0.1:0"]);
    let http = server.address_of("http");
    let mut client = server.connect();
    for _ in 0..400 {
        let jobs = "{\"request\":\"put\",\"queue\":\"mail\",\"job\":{},\"pri\":0}\n".repeat(250);
        client.send(jobs.trim_end());
        (0..250).for_each(|_| drop(client.receive()));
    }
    let child = start(&server, http);
    let mut stats = server.connect();
    let mut buried = || {
        stats.send("{\"request\":\"stats\",\"queue\":\"mail\"}");
        let answer: serde_json::Value = serde_json::from_str(&stats.receive()).unwrap();
        answer["counts"]["buried"].as_u64().unwrap()
    };
    until("the first jobs", || buried() > 0);
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    // The action may have been faster than the signal.
    if output.status.code() == Some(130) {
        let said = errors.split("it is done for ").nth(1).and_then(|text| text.split(' ').next());
        let said = said.unwrap_or_else(|| panic!("no number: {errors}")).replace(',', "");
        let said: u64 = said.parse().unwrap();
        assert_eq!(buried(), said, "{errors}");
    } else {
        assert_eq!((output.status.code(), buried()), (Some(0), 100_000), "{errors}");
    }
}

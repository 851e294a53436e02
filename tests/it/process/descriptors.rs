//! Servers with too few file descriptors: no request is lost, and no process ends.

use crate::dispatcher_sim::server_client::ask;
use crate::support::{
    Client, Program, Server, TIMEOUT, TempDir, number, plain_command, put, until,
};
use serde_json::json;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

/// More bytes than two segments have.
const PUTS: usize = 90;

/// A put that fills a segment with a few dozen like it.
fn large_put() -> String {
    put("q", 1, &format!(r#"{{"x":"{}"}}"#, "x".repeat(900_000)))
}

/// Starts a server with this limit on open files.
fn serve(dir: &TempDir, files: usize, flags: &[&str]) -> Server {
    let mut command = plain_command("sh");
    let script = format!("ulimit -n {files} && exec \"$@\"");
    command.args(["-c", &script, "sh", Program::PATH, "serve", "--listen", ":0", "--http", ":0"]);
    command.args(["--log-format", "json", "--data", dir.text()]).args(flags);
    Server::spawn(command)
}

/// A worker that accepts every connection and says nothing.
fn silent_worker() -> (SocketAddr, Arc<Mutex<Vec<TcpStream>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let held: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
    let holds = Arc::clone(&held);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            holds.lock().unwrap().push(stream);
        }
    });
    (address, held)
}

/// The number of descriptors of a process.
fn open_files(server: &Server) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count()
}

/// Registers a worker, and puts this many jobs for it.
fn call_out(server: &Server, worker: SocketAddr, jobs: usize) {
    let http = server.address_of("http");
    let url = format!("http://{worker}");
    let worker = json!({ "name": "w", "url": url, "max_jobs": 2000 });
    assert_eq!(ask(http, "POST /worker", None, &worker).0, 201);
    for number in 0..jobs {
        let job = json!({ "name": "a", "argument": number });
        assert_eq!(ask(http, "POST /job", None, &job).0, 201);
    }
}

fn put_all(client: &mut Client) {
    let put = large_put();
    for _ in 0..PUTS {
        assert!(client.ask(&put).contains("ok"));
    }
}

#[test]
fn deliveries_leave_descriptors_for_clients_and_the_journal() {
    for fsync in ["10ms", "always"] {
        let dir = TempDir::new();
        let mut server = serve(&dir, 256, &["--max-clients", "40", "--fsync", fsync]);
        server.wait_for_log("the system allows few open files");
        let (worker, held) = silent_worker();
        call_out(&server, worker, 250);
        until("many calls", || held.lock().unwrap().len() > 30);
        // Clients are served while the calls are under way (those that have put the jobs may not be
        // quite gone), ..
        let mut clients: Vec<Client> = (0..30).map(|_| server.connect()).collect();
        for client in &mut clients {
            assert!(client.ask(&put("q", 1, "{}")).contains("ok"));
        }
        assert!(open_files(&server) < 256);
        // .. and the journal goes on to other segments.
        put_all(&mut clients[0]);
        assert!(dir.segments().len() > 1);
        assert!(server.is_alive());
        let lines = server.log_lines();
        let short =
            |line: &&String| line.contains("open files (os error") || line.contains("ERROR");
        assert_eq!(lines.iter().find(short), None);
    }
}

#[test]
fn advice_about_few_descriptors_names_their_limit() {
    let dir = TempDir::new();
    let server = serve(&dir, 100, &[]);
    let clients: Vec<Client> = (0..60).map(|_| server.connect()).collect();
    server.wait_for_log("clients were rejected");
    drop(clients);
    let lines = server.log_lines();
    let advice = lines.iter().find(|line| line.contains("clients were rejected")).unwrap();
    assert!(advice.contains("ulimit -n") && !advice.contains("--max-clients"), "{advice}");
}

#[test]
fn start_without_descriptors_names_their_limit() {
    let dir = TempDir::new();
    let mut command = plain_command("sh");
    command.args(["-c", "ulimit -n 8 && exec \"$@\"", "sh", Program::PATH, "serve"]);
    command.args(["--listen", ":0", "--http", "off", "--data", dir.text()]);
    let output = command.output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{log}");
    assert!(log.contains("the limit on open files is 8") && log.contains("ulimit -n"), "{log}");
}

/// Sets the limit of a running server.
fn set_limit(server: &Server, files: usize) -> bool {
    let limit = format!("--nofile={files}:20000");
    let status =
        Command::new("prlimit").args([&limit, "--pid", &server.pid().to_string()]).status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn journal_without_descriptors_waits_and_continues() {
    for fsync in ["10ms", "always"] {
        let dir = TempDir::new();
        let mut server = Server::start(&["--data", dir.text(), "--fsync", fsync, "--http", ":0"]);
        let mut client = server.connect();
        client.ask(&put("q", 1, "{}"));
        // Nothing that is open is closed by that, and nothing more can be opened.
        if !set_limit(&server, 3) {
            eprintln!("skipped: there is no prlimit to take descriptors away with");
            return;
        }
        let mut sending = client.stream().try_clone().unwrap();
        let sender = thread::spawn(move || {
            let line = large_put() + "\n";
            for _ in 0..PUTS {
                std::io::Write::write_all(&mut sending, line.as_bytes()).unwrap();
            }
        });
        server.wait_for_log("there is no file descriptor for the journal");
        // A client that connects now waits, and costs nothing.
        let waiting = TcpStream::connect_timeout(&server.address, TIMEOUT).unwrap();
        server.wait_for_log("cannot accept a connection");
        assert!(server.is_alive());
        assert!(set_limit(&server, 1_000));
        for id in 2..=PUTS as u64 + 1 {
            assert_eq!(number(&client.receive(), "id"), id);
        }
        sender.join().unwrap();
        server.wait_for_log("there are file descriptors for the journal again");
        let mut waiting = Client::new(waiting);
        assert!(waiting.ask(&put("q", 1, "{}")).contains("ok"));
        server.signal("TERM");
        assert_eq!(server.wait().code(), Some(0));
    }
}

#[test]
fn lack_of_descriptors_does_not_deregister_a_worker() {
    let server = Server::start(&["--http", ":0", "--log-level", "debug"]);
    let (worker, held) = silent_worker();
    let http = server.address_of("http");
    // A connection that is there already is served on.
    let mut client = server.connect();
    client.settle();
    call_out(&server, worker, 0);
    let mut http = Client::connect(http);
    http.send_bytes(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(http.receive().contains("200"));
    if !set_limit(&server, 3) {
        eprintln!("skipped: there is no prlimit to take descriptors away with");
        return;
    }
    let body = b"\x82\xa4name\xa1a\xa8argument\x01";
    let first =
        format!("POST /job HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    http.send_bytes(&[first.as_bytes(), body].concat());
    let tries = || {
        let lines = server.log_lines();
        lines.iter().filter(|line| line.contains("no room here for another connection")).count()
    };
    until("two tries", || tries() > 1);
    assert!(held.lock().unwrap().is_empty(), "it was called without a descriptor");
    assert!(set_limit(&server, 1_000));
    until("the call", || !held.lock().unwrap().is_empty());
    assert!(!server.log_lines().iter().any(|line| line.contains("it was dropped")));
}

//! Sockets that systemd passes on. A shell plays systemd: it has the sockets as stdin and stdout,
//! gives them the numbers from 3 on, and becomes the server.

use super::unix_sockets::socket_path;
use crate::support::{Program, Server, TIMEOUT, plain_command, put};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};

const SCRIPT: &str = "exec 3<&0 4>&1 </dev/null >/dev/null; LISTEN_PID=${PID-$$} exec \"$@\"";

/// A server that is passed these sockets, and the pid is its own unless the variable `PID` says
/// otherwise.
fn command(first: OwnedFd, second: OwnedFd, flags: &[&str]) -> Command {
    let mut command = plain_command("sh");
    command.args(["-c", SCRIPT, "sh", Program::PATH, "serve", "--log-format", "json"]);
    command.args(flags).env("LISTEN_FDS", "2").stdin(Stdio::from(first));
    command.stdout(Stdio::from(second));
    command
}

fn ask<S: Write>(stream: &mut BufReader<S>, text: &str) -> String
where
    BufReader<S>: BufRead,
{
    stream.get_mut().write_all(text.as_bytes()).unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    line
}

fn tcp() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

#[test]
fn server_listens_on_the_sockets_of_systemd_by_their_names() {
    let (_dir, path) = socket_path();
    let (lines, tubes) = (UnixListener::bind(&path).unwrap(), tcp());
    let address = tubes.local_addr().unwrap();
    // It waits in the backlog until the server is there.
    let mut early = BufReader::new(TcpStream::connect(address).unwrap());
    let flags = ["--listen", "fd:lines", "--beanstalkd", "fd:tubes", "--pinpriq", ":0"];
    let mut command = command(lines.into(), tubes.try_clone().unwrap().into(), &flags);
    command.env("LISTEN_FDNAMES", "lines:tubes");
    let mut server = Server::spawn_with_stdin(command);
    assert_eq!(ask(&mut early, "put 0 0 9 1\r\na\r\n"), "INSERTED 1\r\n");
    assert_eq!(server.address_of("beanstalkd"), address);
    let stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut client = BufReader::new(stream);
    assert!(ask(&mut client, &format!("{}\n", put("q", 1, "{}"))).contains("\"id\":2"));
    assert!(ask(&mut client, "{\"request\":\"clients\"}\n").contains("unix, user"));
    server.wait_for_log(&format!("unix:{}", path.display()));
    server.signal("TERM");
    assert!(server.wait().success());
    assert!(path.exists(), "the file is that of systemd");
}

#[test]
fn socket_that_no_listener_uses_is_logged() {
    let flags = ["--listen", "fd:a"];
    let mut command = command(tcp().into(), tcp().into(), &flags);
    command.env("LISTEN_FDNAMES", "a:b");
    let server = Server::spawn_with_stdin(command);
    server.wait_for_log("a socket that no listener uses");
    assert!(server.log_lines().concat().contains("\"name\":\"b\""));
}

#[test]
fn socket_that_cannot_be_used_is_a_sentence() {
    let (_dir, path) = socket_path();
    let refused = |names: &str, pid: Option<&str>, listen: &str, said: &str| {
        let listener = tcp();
        let connected = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _ = std::fs::remove_file(&path);
        let first = UnixListener::bind(&path).unwrap();
        let mut command = command(first.into(), connected.into(), &["--listen", listen]);
        command.env("LISTEN_FDNAMES", names);
        pid.map(|pid| command.env("PID", pid));
        let output = command.stderr(Stdio::piped()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{listen}: {error}");
        assert!(error.contains(said), "{listen}: {error}");
    };
    refused("a:b", None, "fd:c", "the names of those that were passed on are a, b");
    refused("", None, "fd:c", "are unknown, unknown");
    refused("a:b", Some("1"), "fd:a", "LISTEN_PID names another process");
    refused("a:b", Some(""), "fd:a", "LISTEN_PID names another process");
    refused("a:a", None, "fd:a", "2 sockets are called fd:a");
    refused("a:b", None, "fd:b", "no listening socket of TCP or a file");
    refused("a:b", None, "tls:fd:a", "TLS is for TCP");
    let output = Program::output(&["serve", "--listen", "fd:a"], &[]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("no sockets were passed on"));
}

#[test]
fn open_address_of_a_passed_socket_is_refused_like_one_that_is_bound() {
    let open = TcpListener::bind("0.0.0.0:0").unwrap();
    let mut command = command(open.into(), tcp().into(), &["--listen", "fd:a"]);
    let output = command.env("LISTEN_FDNAMES", "a:b").stderr(Stdio::piped()).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("is open to other machines"), "{error}");
}

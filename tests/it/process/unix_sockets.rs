//! Listeners that are files.

use crate::support::{Program, Server, TIMEOUT, TempDir, plain_command, put, until};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A directory, and a path for a socket in it.
pub(super) fn socket_path() -> (TempDir, PathBuf) {
    let dir = TempDir::new();
    fs::create_dir(dir.path()).unwrap();
    let path = dir.path().join("s");
    (dir, path)
}

/// Starts a server that listens there, and on a free port for another protocol.
fn serve(path: &Path, options: &str) -> Server {
    let listen = format!("unix:{}{options}", path.display());
    let mut command = plain_command(Program::PATH);
    command.args(["serve", "--log-format", "json", "--listen", &listen, "--pinpriq", ":0"]);
    Server::spawn(command)
}

pub(super) fn connect(path: &Path) -> UnixStream {
    let mut stream = None;
    until("a connection to the socket", || {
        stream = UnixStream::connect(path).ok();
        stream.is_some()
    });
    let stream: UnixStream = stream.unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Sends a line and receives one.
fn ask(stream: &UnixStream, line: &str) -> String {
    let mut to = stream;
    to.write_all(format!("{line}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer
}

#[test]
fn client_is_served_over_a_file_that_goes_with_the_server() {
    let (dir, path) = socket_path();
    let mut server = serve(&path, ",mode=0620,group=12");
    let client = connect(&path);
    assert!(ask(&client, &put("q", 1, "{}")).contains(r#""id":1"#));
    let is = fs::metadata(&path).unwrap();
    assert!(is.file_type().is_socket());
    assert_eq!((is.permissions().mode() & 0o777, is.gid()), (0o620, 12));
    let me = format!("unix, user {}", fs::metadata(dir.path()).unwrap().uid());
    let clients = ask(&client, r#"{"request":"clients"}"#);
    assert!(clients.contains(&me), "{clients}");
    server.signal("TERM");
    assert!(server.wait().success());
    assert!(!path.exists());
    assert!(
        server.log_lines().iter().any(|line| line.contains(&format!("unix:{}", path.display())))
    );
}

/// Requests are sent without reading until neither side takes more, then all is read.
#[test]
fn pipelined_requests_are_all_answered_over_a_file() {
    let (_dir, path) = socket_path();
    let _server = serve(&path, "");
    let client = connect(&path);
    let count = 20_000;
    let job = format!(r#"{{"x":"{}"}}"#, "x".repeat(100));
    let requests = format!("{}\n", put("q", 1, &job)).repeat(count);
    let mut writer = client.try_clone().unwrap();
    let sent = std::thread::spawn(move || {
        writer.write_all(requests.as_bytes()).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut answers = String::new();
    BufReader::new(&client).read_to_string(&mut answers).unwrap();
    sent.join().unwrap();
    assert_eq!(answers.lines().count(), count);
    let last = answers.lines().last().unwrap();
    assert!(last.contains(&format!("\"id\":{count}")), "{last}");
}

#[test]
fn file_of_a_killed_server_is_replaced() {
    let (_dir, path) = socket_path();
    drop(serve(&path, ""));
    assert!(path.exists(), "the server was killed");
    let mut server = serve(&path, "");
    assert!(ask(&connect(&path), &put("q", 1, "{}")).contains("ok"));
    // The file of another program stays.
    fs::remove_file(&path).unwrap();
    let other = UnixListener::bind(&path).unwrap();
    server.signal("TERM");
    assert!(server.wait().success());
    assert!(path.exists());
    drop(other);
}

#[test]
fn file_that_is_in_use_or_no_socket_stays() {
    let (_dir, path) = socket_path();
    let _server = serve(&path, "");
    let listen = format!("unix:{}", path.display());
    let refused = |said: &str| {
        let output = Program::output(&["serve", "--listen", &listen], &[]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(said) && text.contains(&listen), "{text}");
    };
    refused("Another program listens there");
    assert!(ask(&connect(&path), &put("q", 1, "{}")).contains("ok"));
    fs::remove_file(&path).unwrap();
    fs::write(&path, "mine").unwrap();
    refused("is no socket");
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    let long = path.with_file_name("x".repeat(200));
    let listen = format!("unix:{}", long.display());
    let output = Program::output(&["serve", "--listen", &listen], &[]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && text.contains("107 bytes"), "{text}");
}

/// A group that stands in no file of this machine: a program in place of `getent` knows it.
#[test]
fn group_of_a_directory_is_found() {
    let (dir, path) = socket_path();
    let gid = fs::metadata(dir.path()).unwrap().gid();
    let getent = dir.path().join("getent");
    let script = format!("#!/bin/sh\n[ \"$*\" = 'group staff-of-ldap' ] && echo $2:x:{gid}:\n");
    fs::write(&getent, script).unwrap();
    fs::set_permissions(&getent, fs::Permissions::from_mode(0o755)).unwrap();
    let listen = format!("unix:{},group=staff-of-ldap", path.display());
    let mut command = plain_command(Program::PATH);
    let places = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{places}", dir.path().display()));
    command.args(["serve", "--log-format", "json", "--listen", &listen, "--pinpriq", ":0"]);
    let _server = Server::spawn(command);
    assert!(ask(&connect(&path), &put("q", 1, "{}")).contains(r#""id":1"#));
    assert_eq!(fs::metadata(&path).unwrap().gid(), gid);
}

//! The program in place of beanstalkd: flags, exit statuses, what it opens.

use super::unix_sockets::{connect, socket_path};
use crate::support::{Program, Server, TIMEOUT, TempDir, plain_command, until};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixStream;
use std::process::Command;

/// A directory with a link to the program by the name of beanstalkd.
struct Link(TempDir);

impl Link {
    fn new() -> Self {
        let dir = TempDir::new();
        fs::create_dir(dir.path()).unwrap();
        symlink(Program::PATH, dir.path().join("beanstalkd")).unwrap();
        Self(dir)
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut command = plain_command(&format!("{}/beanstalkd", self.0.text()));
        command.args(flags);
        command
    }

    /// Runs it to its end, which comes by itself; returns status and what it says.
    fn run(&self, flags: &[&str]) -> (Option<i32>, String, String) {
        let output = self.command(flags).output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        (output.status.code(), out, err)
    }

    /// Starts it on a free port.
    fn start(&self, flags: &[&str]) -> Server {
        let flags = [&["-V", "-l", "127.0.0.1", "-p", "0"], flags].concat();
        Server::spawn(self.command(&flags))
    }
}

/// Sends a line and receives one.
fn ask(server: &Server, line: &str) -> String {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer
}

#[test]
fn link_by_the_name_of_beanstalkd_serves_its_protocol_alone() {
    let (link, data) = (Link::new(), TempDir::new());
    let mut server = link.start(&["-b", data.text(), "-f0", "-z", "70000", "-s", "10", "-cn"]);
    assert_eq!(ask(&server, "put 1 0 60 3\r\nabc"), "INSERTED 1\r\n");
    let body = "x".repeat(70_000);
    assert_eq!(ask(&server, &format!("put 1 0 60 70000\r\n{body}")), "INSERTED 2\r\n");
    assert_eq!(ask(&server, &format!("put 1 0 60 70001\r\n{body}x")), "JOB_TOO_BIG\r\n");
    let log = server.log_lines();
    assert_eq!(log.iter().filter(|line| line.contains("address=")).count(), 1, "{log:?}");
    for flag in ["-s", "-c", "-n"] {
        let said = format!("{flag} is accepted, and without effect");
        assert!(log.iter().any(|line| line.contains(&said)), "{log:?}");
    }
    assert!(!log.iter().any(|line| line.contains("no authentication")), "{log:?}");
    let (status, _, text) = link.run(&["-b", data.text(), "-p", "0"]);
    assert_eq!(status, Some(10), "{text}");
    assert!(text.contains("another process uses this directory"), "{text}");
    let address = server.address.port().to_string();
    let (status, _, text) = link.run(&["-l", "127.0.0.1", "-p", &address]);
    assert_eq!(status, Some(111), "{text}");
    server.signal("TERM");
    assert!(server.wait().success());

    // The same as a command, and the jobs are there.
    let mut command = plain_command(Program::PATH);
    command.args(["beanstalkd", "-Vb", data.text(), "-p0", "-l127.0.0.1"]);
    let server = Server::spawn(command);
    assert_eq!(ask(&server, "put 1 0 60 0\r\n"), "INSERTED 3\r\n");
    assert_eq!(ask(&server, "delete 2"), "DELETED\r\n");
}

#[test]
fn signal_usr1_begins_drain_mode() {
    let link = Link::new();
    let server = link.start(&[]);
    assert_eq!(ask(&server, "put 1 0 60 3\r\nabc"), "INSERTED 1\r\n");
    server.signal("USR1");
    until("drain mode", || ask(&server, "put 1 0 60 3\r\nabc") == "DRAINING\r\n");
    assert_eq!(ask(&server, "delete 1"), "DELETED\r\n");
}

#[test]
fn other_uses_of_the_link_end_as_those_of_beanstalkd() {
    let link = Link::new();
    let (status, out, _) = link.run(&["-h"]);
    assert!(status == Some(0) && out.contains("-z BYTES"), "{out}");
    assert_eq!(link.run(&["-v"]).0, Some(0));
    assert_eq!(link.run(&["-v"]).1, format!("jobcentre {}\n", env!("CARGO_PKG_VERSION")));
    for (flags, status, said) in [
        (&["-x"][..], 5, "unknown flag: -x"),
        (&["-p"], 5, "requires an argument"),
        (&["-p", "abc"], 111, "'abc' is no port"),
        (&["-u", "no such user"], 33, "no such user"),
    ] {
        let (code, _, text) = link.run(flags);
        assert_eq!(code, Some(status), "{flags:?}: {text}");
        assert!(text.contains(said), "{text}");
    }
    let output = Program::output(&["beanstalkd", "-h"], &[]);
    assert!(output.status.success() && String::from_utf8(output.stdout).unwrap().contains("-z B"));
}

#[test]
fn directory_of_a_real_beanstalkd_is_not_taken() {
    let (link, data) = (Link::new(), TempDir::new());
    fs::create_dir(data.path()).unwrap();
    fs::write(data.path().join("binlog.3"), [7, 0, 0, 0]).unwrap();
    let (status, _, text) = link.run(&["-p", "0", "-b", data.text()]);
    assert_eq!(status, Some(10), "{text}");
    assert!(text.contains("jobcentre import-binlog"), "{text}");
    assert_eq!(fs::read_dir(data.path()).unwrap().count(), 1);
}

#[test]
fn link_listens_on_a_file() {
    let (program, (_dir, path)) = (Link::new(), socket_path());
    let listen = format!("unix:{}", path.display());
    let mut child = program.command(&["-l", &listen]).spawn().unwrap();
    let stream = connect(&path);
    (&stream).write_all(b"put 1 0 60 3\r\nabc\r\nreserve\r\n").unwrap();
    let mut lines = BufReader::new(&stream).lines();
    let mut line = || lines.next().unwrap().unwrap();
    assert_eq!([line(), line(), line()], ["INSERTED 1", "RESERVED 1 3", "abc"]);
    // With it goes the reservation.
    drop(stream);
    let other: UnixStream = connect(&path);
    (&other).write_all(b"reserve\r\n").unwrap();
    let mut answer = String::new();
    BufReader::new(&other).read_line(&mut answer).unwrap();
    assert_eq!(answer, "RESERVED 1 3\r\n");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Only where the tests run as root.
#[test]
fn link_becomes_another_user() {
    let (program, (dir, path)) = (Link::new(), socket_path());
    if fs::metadata(dir.path()).unwrap().uid() != 0 {
        return;
    }
    let output = Command::new("chmod").args(["0777", dir.text()]).status();
    assert!(output.unwrap().success());
    let listen = format!("unix:{}", path.display());
    let mut child = program.command(&["-u", "daemon", "-l", &listen]).spawn().unwrap();
    drop(connect(&path));
    let is = fs::metadata(&path).unwrap();
    assert_eq!((is.uid(), is.gid()), (1, 1));
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert_eq!(line("Uid:"), "Uid:\t1\t1\t1\t1");
    assert_eq!(line("Groups:").trim(), "Groups:");
    child.kill().unwrap();
    child.wait().unwrap();
}

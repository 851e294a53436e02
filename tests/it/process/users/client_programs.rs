//! `jobcentre bench` and `jobcentre work` against a server with users.

use super::{Setup, bearer, connect, http};
use crate::support::{Program, Server, plain_command};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::process::Output;

impl Setup {
    /// Writes a token into a file, and returns its path.
    pub(super) fn token_file(&self, token: &str) -> String {
        let path = self.dir.path().join("token");
        fs::write(&path, format!("{token}\n")).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// The whole answer to an HTTP request.
fn text_of(address: SocketAddr, line: &str, fields: &str) -> String {
    let mut connection = connect(address);
    let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n");
    connection.get_mut().write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).unwrap();
    text
}

fn bench(address: SocketAddr, arguments: &str, token: &[&str], variable: &str) -> Output {
    let address = address.to_string();
    let mut words = vec!["bench", "--address", &address, "--json", "-"];
    words.extend(arguments.split_whitespace());
    words.extend(token);
    let variables = [("JOBCENTRE_TOKEN", variable)];
    Program::output(&words, if variable.is_empty() { &[] } else { &variables })
}

#[test]
fn bench_authenticates_every_connection_by_a_token_of_a_file_or_a_variable() {
    let setup = Setup::new();
    let token = setup.add("bench", "put:bench-*,take:bench-*,peek:bench-*");
    let server = setup.serve(&["--http", ":0", "--beanstalkd", ":0"]);
    let file = setup.token_file(&token);
    let flags: &[&str] = &["--token-file", &file];
    let http = server.address_of("http");
    let tubes = server.address_of("beanstalkd");
    for (address, arguments) in [
        (server.address, "cycle -n 300 -c 3"),
        (server.address, "idle -n 300 --idle 5"),
        (server.address, "wait -n 100 --waiters 3"),
        (tubes, "cycle --protocol beanstalkd -n 300 -c 3"),
        (tubes, "idle --protocol beanstalkd -n 300 --idle 5"),
        (http, "put --protocol jobq -n 100 -c 3"),
        (http, "cycle --protocol health -n 100 -c 3"),
    ] {
        for (flags, variable) in [(flags, ""), (&[][..], &*token), (flags, "jc_wrong")] {
            let output = bench(address, arguments, flags, variable);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{arguments}: {errors}");
        }
        if arguments.contains("health") {
            continue;
        }
        let output = bench(address, arguments, &[], "");
        assert_eq!(output.status.code(), Some(1), "{arguments}: without a token");
    }
    // The job-centre lines, whose answer names the reason, and a connection that does nothing.
    for arguments in ["cycle -n 1 -c 1", "idle -n 1 --idle 1"] {
        let output = bench(server.address, arguments, &[], "jc_wrong");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("does not take the token"), "{error}");
        assert!(error.contains("no user of this server") && !error.contains("wrong"), "{error}");
    }
    let log = server.log_lines().concat();
    assert!(!log.contains(&token), "{log}");
}

#[test]
fn worker_says_by_a_token_which_user_it_is_and_keeps_it_from_its_commands() {
    let setup = Setup::new();
    let token = setup.add("workers", "admin,take:*");
    let clients = bearer(&setup.add("clients", "put:*,take:*,peek:*"));
    let server = setup.serve(&["--http", ":0"]);
    let address = server.address_of("http");
    let worker = |variable: &str, flags: &[&str]| {
        let mut command = plain_command(Program::PATH);
        command.args(["work", "--url", &format!("http://{address}"), "--log-format", "json"]);
        command.args(flags).args(["--", "sh", "-c", "echo \"\\\"${JOBCENTRE_TOKEN-none}\\\"\""]);
        Server::spawn({
            command.env("JOBCENTRE_TOKEN", variable);
            command
        })
    };
    let file = setup.token_file(&token);
    for (variable, flags) in [(&*token, &[][..]), ("jc_wrong", &["--token-file", &file])] {
        let mut running = worker(variable, flags);
        running.wait_for_log("\"registered\"");
        let fields = format!("{clients}Content-Type: application/json\r\n");
        let job = "{\"name\":\"q\",\"argument\":1,\"keep_result\":true}";
        let (status, answer) = http(address, "POST /job", &fields, job);
        assert_eq!(status, 201, "{answer}");
        let id: String = answer.rsplit("job_id").next().unwrap().chars().collect();
        let id: String = id.chars().filter(char::is_ascii_digit).collect();
        let line = format!("GET /job/{id}/polling?timeout=60");
        assert!(text_of(address, &line, &fields).contains("\"none\""), "{id}");
        running.signal("TERM");
        assert!(running.wait().success());
        let log = running.log_lines().concat();
        assert!(!log.contains(&token) && !log.contains("did not deregister"), "{log}");
    }
    for variable in ["jc_wrong", clients.trim().rsplit(' ').next().unwrap()] {
        let mut refused = worker(variable, &[]);
        assert_eq!(refused.wait().code(), Some(1));
        refused.wait_for_log("give it the token of a user with the rights 'admin' and 'take'");
    }
}

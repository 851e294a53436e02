//! Users over real sockets: who is entered how, who may do what, and what a reload changes.

mod client_programs;
mod client_verbs;
mod matrix;
mod reload;

use super::unix_sockets;
use crate::support::{Program, Server, TIMEOUT, TempDir, get, plain_command, put, wait};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Output;

/// A settings file with users.
pub(super) struct Setup {
    dir: TempDir,
}

impl Setup {
    pub(super) fn new() -> Self {
        let dir = TempDir::new();
        fs::create_dir(dir.path()).unwrap();
        Self { dir }
    }

    fn file(&self) -> String {
        self.dir.path().join("settings.toml").to_str().unwrap().to_owned()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Program::output(arguments, &[("JOBCENTRE_CONFIG", &self.file())])
    }

    /// Adds a user with these rights, and returns its token.
    pub(super) fn add(&self, name: &str, allow: &str) -> String {
        let output = self.run(&["user", "add", name, "--allow", allow]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub(super) fn serve(&self, flags: &[&str]) -> Server {
        let mut command = plain_command(Program::PATH);
        command.args(["serve", "--listen", ":0", "--log-format", "json", "--config", &self.file()]);
        Server::spawn({
            command.args(flags);
            command
        })
    }
}

/// A connection for lines.
fn connect(address: SocketAddr) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    BufReader::new(stream)
}

/// Sends a text, and receives a line; an empty one is the end.
fn ask(connection: &mut BufReader<TcpStream>, text: &str) -> String {
    connection.get_mut().write_all(text.as_bytes()).unwrap();
    let mut line = String::new();
    // A reset is an end as well.
    let _ = connection.read_line(&mut line);
    line.trim_end().to_owned()
}

fn auth(token: &str) -> String {
    format!("{{\"request\":\"auth\",\"token\":\"{token}\"}}\n")
}

/// The status of an HTTP request, and what follows its first line as far as it has come.
fn http(address: SocketAddr, line: &str, fields: &str, body: &str) -> (u16, String) {
    let mut connection = connect(address);
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\
         {fields}\r\n{body}"
    );
    let first = ask(&mut connection, &request);
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("{line}: {first}"));
    let mut rest = String::new();
    if status >= 201 {
        connection.read_to_string(&mut rest).unwrap();
    }
    (status, rest)
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn line_client_is_served_after_it_has_said_who_it_is() {
    let setup = Setup::new();
    let token = setup.add("web", "put:mail-*");
    let server = setup.serve(&["--http", "off"]);
    let mut client = connect(server.address);
    let put_it = |queue: &str| format!("{}\n", put(queue, 1, "{}"));
    let refused = ask(&mut client, &put_it("mail-1"));
    assert!(refused.contains("authenticate first"), "{refused}");
    assert!(ask(&mut client, &auth("jc_wrong")).contains("no user of this server"));
    assert!(ask(&mut client, "{\"request\":\"auth\"}\n").contains("field 'token' is missing"));
    assert_eq!(ask(&mut client, &auth(&token)), r#"{"status":"ok","user":"web"}"#);
    assert_eq!(ask(&mut client, &put_it("mail-1")), r#"{"status":"ok","id":1}"#);
    let denied = ask(&mut client, &put_it("post"));
    assert!(denied.contains("'web' lacks the right 'put:post'"), "{denied}");
    assert!(ask(&mut client, &format!("{}\n", get("mail-1"))).contains("'take:mail-1'"));
    assert!(ask(&mut client, &format!("{}\n", wait("mail-1"))).contains("'take:mail-1'"));
    assert_eq!(ask(&mut client, &put_it("mail-2")), r#"{"status":"ok","id":2}"#);
    let log = server.log_lines().concat();
    assert!(!log.contains(&token) && !log.contains("jc_wrong"), "{log}");
}

#[test]
fn third_wrong_token_closes_the_connection_and_silence_does_too() {
    let setup = Setup::new();
    setup.add("web", "put:*");
    let server = setup.serve(&["--http", ":0", "--beanstalkd", ":0"]);
    let silent = connect(server.address);
    let mut client = connect(server.address);
    for _ in 0..3 {
        assert!(ask(&mut client, &auth("jc_0")).contains("no user of this server"));
    }
    assert_eq!(ask(&mut client, ""), "");
    let mut tubes = connect(server.address_of("beanstalkd"));
    for _ in 0..3 {
        assert_eq!(ask(&mut tubes, "auth jc_0\r\n"), "UNAUTHORIZED");
    }
    assert_eq!(ask(&mut tubes, ""), "");
    let mut web = connect(server.address_of("http"));
    let request = format!("GET /api/v1/me HTTP/1.1\r\nHost: localhost\r\n{}\r\n", bearer("jc_0"));
    web.get_mut().write_all(request.repeat(4).as_bytes()).unwrap();
    let mut answers = String::new();
    // The fourth request is not read, so the end may be a reset.
    let _ = web.read_to_string(&mut answers);
    assert_eq!(answers.matches("HTTP/1.1 401").count(), 3, "{answers}");
    let mut silent = silent;
    assert!(ask(&mut silent, "").contains("authenticate first"), "it is told why");
    assert_eq!(ask(&mut silent, ""), "");
}

#[test]
fn wrong_tokens_of_an_address_are_answered_later_and_others_do_not_wait() {
    let setup = Setup::new();
    let token = setup.add("web", "put:*");
    let server = setup.serve(&["--http", ":0"]);
    let http_address = server.address_of("http");
    for _ in 0..12 {
        let (status, _) = http(http_address, "GET /api/v1/me", &bearer("jc_0"), "");
        assert_eq!(status, 401);
    }
    // Two of them took a second; a right token is answered at once, on a connection of its own.
    let mut slow = connect(server.address);
    slow.get_mut().write_all(auth("jc_0").as_bytes()).unwrap();
    let mut client = connect(server.address);
    assert!(ask(&mut client, &auth(&token)).contains("\"ok\""));
    let (_, metrics) = metrics(http_address);
    assert!(metrics.contains("jobcentre_authentication_failures_total 13"), "{metrics}");
    assert!(ask(&mut slow, "").contains("no user of this server"));
}

/// The metrics, which are open on loopback.
fn metrics(address: SocketAddr) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    (0, text)
}

#[test]
fn caller_is_told_its_name_and_permissions() {
    let setup = Setup::new();
    let token = bearer(&setup.add("web", "put:mail-*"));
    let server = setup.serve(&["--http", ":0"]);
    let mut connection = connect(server.address_of("http"));
    let fields = format!("Host: localhost\r\nConnection: close\r\n{token}");
    let mut answer = ask(&mut connection, &format!("GET /api/v1/me HTTP/1.1\r\n{fields}\r\n"));
    connection.read_to_string(&mut answer).unwrap();
    let expected = r#"{"user":"web","permissions":["put:mail-*"]}"#;
    assert!(answer.trim_end().ends_with(expected), "{answer}");
}

#[test]
fn http_request_says_itself_who_asks() {
    let setup = Setup::new();
    let token = setup.add("web", "put:mail-*");
    let server = setup.serve(&["--http", ":0"]);
    let address = server.address_of("http");
    let json = "Content-Type: application/json\r\n";
    let post = |fields: &str, queue: &str| {
        let line = format!("POST /api/v1/queues/{queue}/jobs");
        http(address, &line, &format!("{json}{fields}"), "{\"payload\":1}")
    };
    let (status, answer) = post("", "mail-1");
    assert_eq!(status, 401);
    assert!(
        answer.contains("WWW-Authenticate: Bearer") && answer.contains("Unauthorized")
            || answer.contains("unauthorized"),
        "{answer}"
    );
    assert_eq!(post(&bearer(&token), "mail-1").0, 201);
    assert_eq!(post(&bearer("jc_0"), "mail-1").0, 401);
    let (status, answer) = post(&bearer(&token), "post");
    assert_eq!(status, 403);
    assert!(answer.contains("lacks the right 'put:post'"), "{answer}");
    let basic = |password: &str| {
        use base64::Engine as _;
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("any:{password}"));
        format!("Authorization: Basic {pair}\r\n")
    };
    assert_eq!(post(&basic(&token), "mail-1").0, 201);
    assert_eq!(post(&basic("x"), "mail-1").0, 401);
    for open in ["/", "/health", "/openapi.json", "/metrics"] {
        assert_eq!(http(address, &format!("GET {open}"), "", "").0, 200, "{open}");
    }
    let text = "{\"queue\":\"mail-3\",\"payload\":1}\n{\"queue\":\"post\",\"payload\":1}\n";
    let lines = "Content-Type: application/x-ndjson\r\n";
    let import = |fields: &str, text: &str| {
        http(address, "POST /api/v1/import", &format!("{lines}{fields}"), text).0
    };
    assert_eq!(import("", text), 401);
    assert_eq!(import(&bearer(&token), text), 403);
    // Requests of one connection may be of several users.
    let mut connection = connect(address);
    let me = |fields: &str| {
        format!("GET /api/v1/queues/none HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
    };
    for (fields, expected) in
        [(bearer(&token), "403"), (String::new(), "401"), (bearer(&token), "403")]
    {
        assert!(ask(&mut connection, &me(&fields)).contains(expected));
        let mut length = 0;
        loop {
            let line = ask(&mut connection, "");
            if let Some(digits) = line.strip_prefix("Content-Length: ") {
                length = digits.parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        connection.read_exact(&mut vec![0; length]).unwrap();
    }
}

#[test]
fn request_for_another_host_is_told_so_before_it_is_asked_for_a_token() {
    let setup = Setup::new();
    setup.add("web", "put:*");
    let server = setup.serve(&["--http", ":0"]);
    for (path, is_listed) in [("/health", false), ("/api/v1/queues", false), ("/health", true)] {
        let host = if is_listed { "localhost" } else { "lb.example" };
        let mut connection = connect(server.address_of("http"));
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let first = ask(&mut connection, &request);
        assert!(first.contains(if is_listed { " 200 " } else { " 421 " }), "{path}: {first}");
    }
}

#[test]
fn client_of_beanstalkd_is_known_by_its_verb_or_its_listener() {
    let setup = Setup::new();
    let token = setup.add("web", "put:*");
    setup.add("legacy", "take:default");
    let server = setup.serve(&["--http", "off", "--beanstalkd", ":0"]);
    let mut client = connect(server.address_of("beanstalkd"));
    assert_eq!(
        ask(&mut client, "put 0 0 9 30\r\n012345678901234567890123456789\r\n"),
        "UNAUTHORIZED"
    );
    assert_eq!(ask(&mut client, "reserve\r\n"), "UNAUTHORIZED");
    assert_eq!(ask(&mut client, &format!("auth {token}\r\n")), "OK");
    assert_eq!(ask(&mut client, "put 0 0 9 1\r\na\r\n"), "INSERTED 1");
    for denied in ["reserve", "delete 1", "peek 1", "kick 1", "stats", "stats-tube default"] {
        assert_eq!(ask(&mut client, &format!("{denied}\r\n")), "UNAUTHORIZED", "{denied}");
    }
    assert_eq!(ask(&mut client, "put 0 0 9 1\r\na\r\n"), "INSERTED 2");
    drop(server);
    let server = setup.serve(&["--http", "off", "--beanstalkd", ":0,user=legacy"]);
    let mut client = connect(server.address_of("beanstalkd"));
    assert_eq!(ask(&mut client, "reserve-with-timeout 0\r\n"), "TIMED_OUT");
    assert_eq!(ask(&mut client, "put 0 0 9 1\r\na\r\n"), "UNAUTHORIZED");
}

#[test]
fn pinpriq_clients_are_those_of_their_listener_and_others_are_closed() {
    let setup = Setup::new();
    setup.add("legacy", "put:q,observe");
    let server = setup.serve(&["--http", ":0", "--pinpriq", ":0"]);
    let mut client = connect(server.address_of("pinpriq"));
    let mut end = Vec::new();
    client.read_to_end(&mut end).unwrap();
    assert_eq!(end, b"");
    server.wait_for_log("has shown no token");
    drop(server);
    let server = setup.serve(&["--http", ":0", "--pinpriq", ":0,user=legacy"]);
    let push = |queue: &str| [b"p\0\x01".to_vec(), queue.into()].concat();
    let _ = push;
    let mut client = connect(server.address_of("pinpriq"));
    // A pop is answered as one of an empty queue, a subscriber is closed.
    client.get_mut().write_all(b"P\0\x01q").unwrap();
    let mut count = [7, 7];
    client.read_exact(&mut count).unwrap();
    assert_eq!(count, [0, 0]);
    server.wait_for_log("'legacy' lacks the right 'take:q'");
}

#[test]
fn process_of_this_machine_is_known_by_its_uid() {
    let setup = Setup::new();
    let uid = rustix::process::getuid().as_raw().to_string();
    let added = setup.run(&["user", "add", "me", "--uid", &uid, "--allow", "observe"]);
    assert!(added.status.success() && added.stdout.is_empty());
    setup.add("other", "put:*");
    let (_dir, path) = unix_sockets::socket_path();
    let listen = format!("unix:{}", path.display());
    let mut command = plain_command(Program::PATH);
    command.args(["serve", "--log-format", "json", "--pinpriq", ":0,user=other"]);
    command.args(["--http", "off", "--config", &setup.file(), "--listen", &listen]);
    let _server = Server::spawn(command);
    let mut stream = BufReader::new(unix_sockets::connect(&path));
    let mut talk = |text: &str| {
        stream.get_mut().write_all(text.as_bytes()).unwrap();
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        line
    };
    assert!(talk("{\"request\":\"queues\"}\n").contains("\"ok\""), "no token is needed");
    assert!(talk(&format!("{}\n", put("q", 1, "{}"))).contains("'me' lacks the right 'put:q'"));
}

#[test]
fn settings_with_users_are_checked_at_the_start() {
    let setup = Setup::new();
    let refused = |text: &str, flags: &[&str]| {
        fs::write(setup.file(), text).unwrap();
        let arguments = [&["serve", "--listen", ":0", "--http", "off"], flags].concat();
        let output = setup.run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{text}");
        String::from_utf8(output.stderr).unwrap()
    };
    for (text, expected) in [
        ("[[user]]\nname = 'a'", "missing field `allow`"),
        ("[[user]]\nname = 'a'\nallow = ['put']", "user 'a': 'put' names no queues: write put:*"),
        ("[[user]]\nname = 'a b'\nallow = []", "name of a user must be"),
        ("[[user]]\nname = 'a'\nallow = []\ntokens = ['jc_1']", "jobcentre token new"),
        ("[[user]]\nname = 'a'\nallow = []\nuntil = 'soon'", "'soon' in 'until' is no moment"),
        ("[[user]]\nname = 'a'\nallow = []\nprotocols = ['ftp']", "there are job-centre"),
        ("[[user]]\nname = 'a'\nallow = []\ncertificates = ['a']", "write CN=NAME"),
        ("[[user]]\nname = 'a'\nallow = []\ntoken = 'a'", "did you mean `tokens`?"),
        ("[[user]]\nname = 'a'\nallow = []\n[[user]]\nname = 'a'\nallow = []", "two users"),
    ] {
        let error = refused(text, &[]);
        assert!(error.contains(expected) && error.contains("line"), "{text}: {error}");
    }
    let one = "[[user]]\nname = 'a'\nallow = []";
    let error = refused(one, &["--pinpriq", ":0,user=b"]);
    assert!(error.contains("there is no user of this name"), "{error}");
    let error = refused(one, &["--pinpriq", "0.0.0.0:0,user=a"]);
    assert!(error.contains("--allow-anyone"), "anybody would be that user: {error}");
    let error = refused("", &["--pinpriq", "0.0.0.0:0"]);
    assert!(error.contains("[[user]]"), "{error}");
    fs::write(setup.file(), one).unwrap();
    let server = setup.serve(&["--http", "off", "--pinpriq", "0.0.0.0:0"]);
    server.wait_for_log("tokens travel over this listener");
}

#[test]
fn users_are_added_listed_and_removed_in_the_file() {
    let setup = Setup::new();
    fs::write(setup.file(), "# ours\nmax-clients = 7 # few").unwrap();
    let token = setup.add("web", "put:a-*,observe");
    setup.add("other", "take:*");
    let text = fs::read_to_string(setup.file()).unwrap();
    assert!(text.starts_with("# ours\nmax-clients = 7 # few\n") && !text.contains(&token));
    let list = setup.run(&["user", "list"]);
    let listed = String::from_utf8(list.stdout).unwrap();
    assert_eq!(listed, "web\ttokens: 1\tput:a-* observe\nother\ttokens: 1\ttake:*\n");
    let again = setup.run(&["user", "add", "web", "--allow", "observe"]);
    assert!(!again.status.success());
    assert!(String::from_utf8_lossy(&again.stderr).contains("has a user 'web' already"));
    let wrong = setup.run(&["user", "add", "two words", "--allow", "observe"]);
    let why = String::from_utf8(wrong.stderr).unwrap();
    assert!(why.contains("without blanks") && !why.contains("line"), "{why}");
    assert!(!setup.run(&["user", "remove", "of-no-table"]).status.success());
    assert!(setup.run(&["user", "remove", "web"]).status.success());
    let listed = setup.run(&["user", "list"]).stdout;
    assert_eq!(String::from_utf8(listed).unwrap(), "other\ttokens: 1\ttake:*\n");
    let new = setup.run(&["token", "new"]).stdout;
    let new = String::from_utf8(new).unwrap();
    let (token, line) = new.split_once('\n').unwrap();
    assert!(token.starts_with("jc_") && line.starts_with("tokens = [\"sha256:"), "{new}");
}

#[test]
fn users_that_are_added_at_the_same_time_are_all_there() {
    let setup = Setup::new();
    std::thread::scope(|scope| {
        for number in 0..6 {
            let setup = &setup;
            scope.spawn(move || setup.add(&format!("u{number}"), "observe"));
        }
    });
    let listed = String::from_utf8(setup.run(&["user", "list"]).stdout).unwrap();
    let mut names: Vec<&str> = listed.lines().map(|line| &line[..2]).collect();
    names.sort_unstable();
    assert_eq!(names, ["u0", "u1", "u2", "u3", "u4", "u5"]);
}

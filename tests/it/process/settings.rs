//! Flags, then `JOBCENTRE_*` variables, then the file; an invalid value is named with its place.

use crate::support::{Client, Program, Server, TempDir, plain_command};

/// A configuration file, removed at the end of the test.
struct ConfigFile(TempDir);

impl ConfigFile {
    fn new(text: &str) -> Self {
        let file = TempDir::new();
        std::fs::write(file.path(), text).unwrap();
        Self(file)
    }

    fn path(&self) -> &str {
        self.0.text()
    }
}

/// Starts a server with nothing but these; returns its effective `max_clients` and `max_request`.
fn effective(flags: &[&str], variables: &[(&str, &str)]) -> (u64, u64) {
    let mut command = plain_command(Program::PATH);
    command.arg("serve").args(flags).envs(variables.iter().copied());
    let server = Server::spawn(command);
    server.wait_for_log("serving");
    let lines = server.log_lines();
    let line = lines.iter().find(|line| line.contains("serving")).unwrap();
    let json: serde_json::Value = serde_json::from_str(line).unwrap();
    (json["max_clients"].as_u64().unwrap(), json["max_request"].as_u64().unwrap())
}

#[test]
fn flags_override_variables_and_these_the_file() {
    let file = "listen = ':0'\nlog-format = 'json'\nmax-clients = 11\nmax-request = '1KiB'\n";
    let file = ConfigFile::new(file);
    let from_file = ["--config", file.path()];
    assert_eq!(effective(&from_file, &[]), (11, 1024));
    assert_eq!(effective(&[], &[("JOBCENTRE_CONFIG", file.path())]), (11, 1024));

    let variables = [("JOBCENTRE_MAX_CLIENTS", "22"), ("JOBCENTRE_CONFIG", file.path())];
    assert_eq!(effective(&[], &variables), (22, 1024));
    let variables = [("JOBCENTRE_MAX_CLIENTS", "22"), ("JOBCENTRE_MAX_REQUEST", "2KiB")];
    assert_eq!(effective(&from_file, &variables), (22, 2048));

    let flags = ["--config", file.path(), "--max-clients", "33"];
    assert_eq!(effective(&flags, &[]), (33, 1024));
    assert_eq!(effective(&flags, &variables), (33, 2048));
    // What is overruled may be wrong.
    assert_eq!(effective(&flags, &[("JOBCENTRE_MAX_CLIENTS", "none")]), (33, 1024));
    // Every setting has its variable.
    let variables = [
        ("JOBCENTRE_LISTEN", ":0"),
        ("JOBCENTRE_PINPRIQ", ":0"),
        ("JOBCENTRE_LOG_FORMAT", "json"),
        ("JOBCENTRE_LOG_LEVEL", "debug"),
        ("JOBCENTRE_MAX_CLIENTS", "44"),
        ("JOBCENTRE_MAX_REQUEST", "4KiB"),
    ];
    assert_eq!(effective(&[], &variables), (44, 4096));
}

#[test]
fn address_flag_overrides_variable_and_file() {
    let file = ConfigFile::new("listen = 'off'\nlog-format = 'json'");
    let flags = ["--config", file.path(), "--listen", ":0"];
    assert_eq!(effective(&flags, &[("JOBCENTRE_LISTEN", "off")]).1, 1024 * 1024);
}

#[test]
fn every_protocol_has_its_own_setting() {
    let file = "listen = 'off'\npinpriq = 'off'\nlog-format = 'json'\n";
    let file = ConfigFile::new(file);
    let protocols = |flags: &[&str], variables: &[(&str, &str)]| {
        let mut command = plain_command(Program::PATH);
        command.args(["serve", "--config", file.path()]).args(flags);
        command.envs(variables.iter().copied());
        let server = Server::spawn(command);
        server.wait_for_log("serving");
        let lines = server.log_lines();
        let json = lines.iter().map(|line| serde_json::from_str(line).unwrap());
        json.filter_map(|line: serde_json::Value| Some(line["protocol"].as_str()?.to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(protocols(&["--pinpriq", ":0"], &[]), ["pinpriq"]);
    assert_eq!(protocols(&["--listen", ":0"], &[]), ["job-centre"]);
    assert_eq!(protocols(&["--listen", ":0", "--pinpriq", ":0"], &[]), ["job-centre", "pinpriq"]);
    let variable = [("JOBCENTRE_PINPRIQ", ":0")];
    assert_eq!(protocols(&[], &variable), ["pinpriq"]);
    assert_eq!(protocols(&["--listen", ":0", "--pinpriq", "off"], &variable), ["job-centre"]);
    assert_eq!(protocols(&["--http", ":0"], &[]), ["http"]);
    assert_eq!(protocols(&[], &[("JOBCENTRE_HTTP", ":0")]), ["http"]);
    let all_off = complaint(&["--config", file.path()], &[]);
    assert!(all_off.contains("every protocol is off"), "{all_off}");
    let file = ConfigFile::new("listen = 'off'\npinpriq = ':0'\nlog-format = 'json'\n");
    let mut command = plain_command(Program::PATH);
    command.args(["serve", "--config", file.path()]);
    let server = Server::spawn(command);
    assert_eq!(server.address, server.address_of("pinpriq"));
}

#[test]
fn http_host_names_may_come_from_every_source() {
    let file = "listen = ':0'\nlog-format = 'json'\nhttp-name = ['a.example', 'b.example']\n";
    let file = ConfigFile::new(file);
    let statuses = |flags: &[&str], variables: &[(&str, &str)]| {
        let mut command = plain_command(Program::PATH);
        command.args(["serve", "--http", ":0", "--config", file.path()]).args(flags);
        let server = Server::spawn({
            command.envs(variables.iter().copied());
            command
        });
        ["a.example:80", "B.example", "c.example", "d.example", "localhost"].map(|host| {
            let mut client = Client::connect(server.address_of("http"));
            let head = format!("GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close");
            client.send_bytes(format!("{head}\r\n\r\n").as_bytes());
            let answer = client.receive_all();
            answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
        })
    };
    assert_eq!(statuses(&[], &[]), [200, 200, 421, 421, 200]);
    let variable = [("JOBCENTRE_HTTP_NAME", "c.example,d.example")];
    assert_eq!(statuses(&[], &variable), [421, 421, 200, 200, 200]);
    let flags = ["--http-name", "a.example", "--http-name", "d.example"];
    assert_eq!(statuses(&flags, &variable), [200, 421, 421, 200, 200]);
}

/// Runs `serve`, which must fail as wrong usage; returns what it says.
fn complaint(flags: &[&str], variables: &[(&str, &str)]) -> String {
    let arguments = [&["serve"], flags].concat();
    let output = Program::output(&arguments, variables);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{flags:?} {variables:?}: {text}");
    text
}

const WRONG: [(&str, &[&str]); 11] = [
    ("listen", &["11400", "", "nowhere", "127.0.0.1:99999", ":x"]),
    ("pinpriq", &["11401", "", "on", ":70000"]),
    ("http", &["11480", "", "on", ":70000"]),
    ("http-name", &["http://h", "h:80", "[::1]", "*.h", "a,b:c", ""]),
    ("fsync", &["sometimes", "50", "", "0ms", "2h"]),
    ("max-request", &["63", "0", "-1", "1MB", "x", "", "2GiB"]),
    ("max-clients", &["0", "-1", "1.5", "many", "", "10000001"]),
    ("processor", &["maybe", "", "1"]),
    ("tick", &["0", "-1", "", "soon", "2h"]),
    ("log-format", &["xml", "", "JSON"]),
    ("log-level", &["loud", ""]),
];

#[test]
fn invalid_value_of_a_flag_names_the_flag() {
    for (name, values) in WRONG {
        for value in values {
            let text = complaint(&[&format!("--{name}={value}")], &[]);
            assert!(text.contains(&format!("--{name}")), "{name}={value}: {text}");
            assert!(!text.contains("JOBCENTRE_"), "{name}={value}: {text}");
        }
    }
    assert!(complaint(&["--colour", "blue"], &[]).contains("--colour"));
    assert!(complaint(&["extra"], &[]).contains("extra"));
    assert!(complaint(&["--max-clients"], &[]).contains("--max-clients"));
}

#[test]
fn invalid_value_of_a_variable_names_the_variable() {
    for (name, values) in WRONG {
        let variable = format!("JOBCENTRE_{}", name.replace('-', "_").to_uppercase());
        for value in values.iter().filter(|value| !value.is_empty()) {
            let text = complaint(&[], &[(&variable, value)]);
            assert!(text.contains(&variable), "{variable}={value}: {text}");
        }
    }
}

#[test]
fn invalid_value_in_the_file_names_its_line() {
    for (name, values) in WRONG {
        for value in values {
            let file = ConfigFile::new(&format!("# a comment\n{name} = '{value}'\n"));
            let text = complaint(&["--config", file.path()], &[]);
            assert!(text.contains(file.path()), "{name}={value}: {text}");
            assert!(text.contains("line 2"), "{name}={value}: {text}");
        }
    }
    for wrong in ["no-such-setting = 1", "max_clients = 1", "max-clients = ", "[section]\nx = 1"] {
        let file = ConfigFile::new(&format!("log-format = 'json'\n{wrong}\n"));
        let text = complaint(&["--config", file.path()], &[]);
        assert!(text.contains("line 2") && text.contains(file.path()), "{wrong}: {text}");
    }
    assert!(complaint(&["--config", "no-such-file.toml"], &[]).contains("no-such-file.toml"));
    let text = complaint(&[], &[("JOBCENTRE_CONFIG", "no-such-file.toml")]);
    assert!(text.contains("no-such-file.toml"), "{text}");
}

/// Words of the program's makers, which tell a user nothing.
const JARGON: [&str; 9] = [
    "usize",
    "u64",
    "i64",
    "non-zero type",
    "invalid digit",
    "expected number at",
    "boolean",
    "variant",
    "path string",
];

fn assert_plain(text: &str) {
    for word in JARGON {
        assert!(!text.contains(word), "{word}: {text}");
    }
}

#[test]
fn errors_about_values_do_not_mention_types() {
    let values = ["'x'", "-1", "0", "1.5", "true", "[]", "{}", "99999999999999999999", "'5'"];
    let more = ["data", "worker-ca", "query-timeout", "result-ttl"];
    for name in WRONG.iter().map(|(name, _)| *name).chain(more) {
        for value in values {
            let file = ConfigFile::new(&format!("listen = 'off'\n{name} = {value}\n"));
            let output = Program::output(&["serve", "--config", file.path()], &[]);
            assert_plain(&String::from_utf8(output.stderr).unwrap());
            let flag = format!("--{name}={}", value.trim_matches('\''));
            let output = Program::output(&["serve", "--listen", "off", &flag], &[]);
            assert_plain(&String::from_utf8(output.stderr).unwrap());
        }
    }
    for flag in [
        "connections",
        "depth",
        "queues",
        "priorities",
        "backlog",
        "waiters",
        "idle",
        "rate",
        "requests",
        "duration",
        "warmup",
        "patience",
        "server-pid",
        "seed",
        "payload",
    ] {
        for value in ["x", "", "-1", "1.5", "99999999999999999999999"] {
            let given = format!("--{flag}={value}");
            let output = Program::output(&["bench", &given, "--address", "127.0.0.1:1"], &[]);
            let text = String::from_utf8(output.stderr).unwrap();
            assert_plain(&text);
            assert!(!text.contains("JOBCENTRE_"), "{text}");
        }
    }
}

#[test]
fn similar_setting_is_suggested_for_a_misspelt_one() {
    for (wrong, right) in [("max_clients = 5", "`max-clients`"), ("lisen = ':0'", "`listen`")] {
        let file = ConfigFile::new(&format!("log-format = 'json'\n{wrong}\n"));
        let text = complaint(&["--config", file.path()], &[]);
        assert!(text.contains(&format!("did you mean {right}?")), "{text}");
        assert!(text.contains(wrong), "the line is shown: {text}");
    }
}

#[test]
fn unknown_variable_is_warned_about() {
    let start = |variables: &[(&str, &str)]| {
        let mut command = plain_command(Program::PATH);
        command.args(["serve", "--listen", ":0", "--log-format", "json"]);
        let server = Server::spawn({
            command.envs(variables.iter().copied());
            command
        });
        server.wait_for_log("serving");
        server.log_lines().join("\n")
    };
    let log = start(&[("JOBCENTRE_MAXCLIENTS", "5")]);
    assert!(log.contains("JOBCENTRE_MAXCLIENTS is no setting: did you mean"), "{log}");
    assert!(log.contains("JOBCENTRE_MAX_CLIENTS?"), "{log}");
    let log = start(&[("JOBCENTRE_COLOUR", "\u{1b}[31m")]);
    assert!(log.contains("JOBCENTRE_COLOUR is no setting, and is ignored"), "{log}");
    let log = start(&[("JOBCENTRE_MAX_CLIENTS", "5"), ("OTHER", "1")]);
    assert!(!log.contains("is no setting"), "{log}");
}

#[test]
fn error_about_a_flag_does_not_mention_variables() {
    for arguments in [&["bench", "foo"][..], &["bench", "-c", "x"], &["work", "--max-jobs", "x"]] {
        let variables = [("JOBCENTRE_WORKLOAD", "put"), ("JOBCENTRE_CONNECTIONS", "1")];
        let output = Program::output(arguments, &variables);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(!text.contains("JOBCENTRE_"), "{text}");
    }
}

#[test]
fn server_without_listeners_is_a_usage_error() {
    assert!(complaint(&["--listen", "off"], &[]).contains("every protocol is off"));
    assert!(complaint(&[], &[("JOBCENTRE_LISTEN", "off")]).contains("every protocol is off"));
}

#[test]
fn address_in_use_is_named() {
    let server = Server::start(&[]);
    let address = server.address.to_string();
    for format in ["human", "json"] {
        let flags = ["serve", "--listen", &address, "--log-format", format];
        let output = Program::output(&flags, &[]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(&address) && text.contains("in use"), "{text}");
        for word in ["--listen :PORT", "--listen off", "another jobcentre"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        let work = ["work", "--listen", &address, "--log-format", format, "--", "true"];
        let output = Program::output(&work, &[]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("--listen :PORT") && !text.contains("listen off"), "{text}");
    }
}

#[test]
fn port_can_be_reused_at_once() {
    // On an address of its own no other test can get the port in between.
    let host = if cfg!(target_os = "linux") { "127.0.0.77" } else { "127.0.0.1" };
    let start = |port: u16| {
        let mut command = plain_command(Program::PATH);
        let address = format!("{host}:{port}");
        command.args(["serve", "--log-format", "json", "--listen", &address]);
        Server::spawn(command)
    };
    let mut first = start(0);
    let mut client = first.connect();
    client.settle();
    first.signal("TERM");
    first.wait();
    let second = start(first.address.port());
    assert_eq!(second.address, first.address);
    second.connect().settle();
}

#[test]
fn help_and_version_are_printed() {
    let output = Program::output(&["serve", "--help"], &[]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    for (name, _) in WRONG {
        assert!(text.contains(&format!("--{name}")), "{text}");
        let variable = name.replace('-', "_").to_uppercase();
        assert!(text.contains(&format!("JOBCENTRE_{variable}")), "{text}");
    }
    assert!(text.contains("--worker-ca") && text.contains("JOBCENTRE_WORKER_CA"), "{text}");
    let output = Program::output(&["--version"], &[]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().contains(env!("CARGO_PKG_VERSION")));
    assert_eq!(Program::output(&[], &[]).status.code(), Some(2));
}

#[test]
fn listener_beyond_loopback_is_refused_unless_anyone_is_allowed() {
    for at in ["0.0.0.0:0", "[::]:0", "tls:0.0.0.0:0"] {
        let arguments = ["serve", "--listen", ":0", "--pinpriq", at];
        let tls = ["--tls-cert", "c", "--tls-key", "k"];
        let tls = if at.starts_with("tls:") { &tls[..] } else { &[] };
        let output = Program::output(&[&arguments[..], tls].concat(), &[]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("--pinpriq") && said.contains("--allow-anyone"), "{said}");
    }
}

#[test]
fn listener_beyond_loopback_is_warned_about() {
    for (at, warned) in [("0.0.0.0:0", true), ("127.0.0.1:0", false)] {
        let mut server = Server::start(&["--pinpriq", at, "--allow-anyone"]);
        server.wait_for_log("serving");
        let lines = server.log_lines();
        let warnings: Vec<_> = lines.iter().filter(|line| line.contains("WARN")).collect();
        assert_eq!(warnings.len(), usize::from(warned), "{warnings:?}");
        assert!(warnings.iter().all(|line| line.contains("no authentication")), "{warnings:?}");
        assert!(server.is_alive());
    }
}

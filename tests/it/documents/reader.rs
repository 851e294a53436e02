//! Plays a document: a directory, a server, and what was printed last.

use super::{Block, fits};
use crate::support::{Client, Program, Server, TIMEOUT, TempDir, plain_command};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;

/// The protocols with the ports that the documents use unless they say otherwise; none: it is off
/// then.
const PROTOCOLS: [(&str, &str, Option<&str>); 3] = [
    ("--listen", "job-centre", Some("11400")),
    ("--http", "http", Some("11480")),
    ("--pinpriq", "pinpriq", None),
];

/// A `cargo` that finds the program built already.
const CARGO: &str = "#!/bin/sh\n\
    [ \"$1 $2 $3\" = 'run --release --' ] || exit 1\nshift 3\nexec jobcentre \"$@\"\n";

/// `msgpack` as pip has it, where it is not installed.
const MSGPACK: &str = "from pip._vendor.msgpack import packb, unpackb\n";

/// How a request that is refused ends.
const CURLRC: &str = "silent\nshow-error\nfail-with-body\n";

/// What curl says of it then, besides the body.
const CURL_FAILED: &str = "curl: (22) ";

/// The words of a line that is nothing but one program with its arguments; of this program only
/// those behind its name.
pub(super) fn program_line(line: &str) -> Option<Vec<String>> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let starts = ["cargo run --release -- ", "target/release/jobcentre ", "jobcentre "];
    let start = starts.iter().find(|start| line.starts_with(**start));
    let program = start.map_or(0, |start| start.split_whitespace().count());
    let is_plain = !line.contains(['|', '>', '<', ';', '&', '\\']);
    (is_plain && words.len() > program).then(|| words[program..].to_vec())
}

pub(super) struct Reader {
    dir: TempDir,
    server: Option<Server>,
    /// The ports of the documents, and those that they are really.
    ports: BTreeMap<String, String>,
    /// Programs that go on beside the server.
    others: Vec<Child>,
    /// What was run last, what it printed, and whether it ended well.
    last: Option<(String, String, bool)>,
}

impl Reader {
    pub(super) fn new() -> Self {
        let dir = TempDir::new();
        let at = |path: &str| dir.path().join(path);
        for folder in ["bin", "target/release", "python"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        symlink(Program::PATH, at("bin/jobcentre")).unwrap();
        symlink(Program::PATH, at("target/release/jobcentre")).unwrap();
        fs::write(at("bin/cargo"), CARGO).unwrap();
        fs::set_permissions(at("bin/cargo"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(at(".curlrc"), CURLRC).unwrap();
        let has_msgpack = Command::new("python3").args(["-c", "import msgpack"]).output();
        if !has_msgpack.unwrap().status.success() {
            fs::write(at("python/msgpack.py"), MSGPACK).unwrap();
        }
        Self { dir, server: None, ports: BTreeMap::new(), others: Vec::new(), last: None }
    }

    pub(super) fn play(&mut self, block: &Block) {
        let has = |start: &str| block.lines().any(|line| line.starts_with(start));
        if let Some(file) = &block.file {
            let text = self.really(&block.text);
            return fs::write(self.dir.path().join(file), text).unwrap();
        }
        match &*block.kind {
            "sh" => {
                self.finish();
                self.run_shell(block);
            }
            "python" => {
                self.finish();
                let command = self.command("python3", &["-c", &self.really(&block.text)]);
                self.run(&block.place, command);
            }
            "text" if has("--> ") => self.talk(block),
            "text" if has("$ ") => self.type_commands(block),
            "text" => self.compare(block, str::to_owned),
            "json" => self.compare(block, |printed| printed.lines().take(1).collect()),
            // Shown only.
            _ => {}
        }
    }

    /// What was run last and is not shown any more must have ended well.
    pub(super) fn finish(&mut self) {
        if let Some((place, printed, went_well)) = self.last.take() {
            assert!(went_well, "{place}: this fails: {printed}");
        }
    }

    fn compare(&mut self, block: &Block, part: fn(&str) -> String) {
        let Some((_, printed, went_well)) = self.last.take() else {
            panic!("{}: nothing was run that could have printed this", block.place);
        };
        let printed = part(&self.shown(&printed));
        let is_error = ["\"error\"", "/problems/"].iter().any(|sign| block.text.contains(sign));
        assert!(
            fits(&block.text, &printed) && went_well != is_error,
            "{}: shown is\n{}\nbut this came:\n{printed}",
            block.place,
            block.text
        );
    }

    /// The text with the real ports.
    fn really(&self, text: &str) -> String {
        let replace = |text: String, (shown, real): (&String, &String)| text.replace(shown, real);
        self.ports.iter().fold(text.to_owned(), replace)
    }

    /// The text with the ports of the documents.
    fn shown(&self, text: &str) -> String {
        let replace = |text: String, (shown, real): (&String, &String)| {
            text.replace(&format!(":{real}"), &format!(":{shown}"))
        };
        self.ports.iter().fold(text.to_owned(), replace)
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let at = |path: &str| self.dir.path().join(path);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = [at("bin")].into_iter().chain(std::env::split_paths(&path));
        let mut command = plain_command(program);
        command.args(arguments).current_dir(self.dir.path());
        command.env("PATH", std::env::join_paths(path).unwrap());
        command.env("CURL_HOME", self.dir.path()).env("PYTHONPATH", at("python"));
        command.env_remove("JOBCENTRE_HTTP").stdin(Stdio::null());
        command
    }

    fn run(&mut self, place: &str, mut command: Command) {
        let output = command.output().unwrap();
        let [printed, said] =
            [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        let went_well = output.status.success();
        // A reader's curl ends well and says nothing of a status that is an error: see `CURLRC`.
        let is_said = |line: &&str| !line.starts_with(CURL_FAILED);
        let said: String = said.split_inclusive('\n').filter(is_said).collect();
        let printed = if went_well { printed } else { printed + &said };
        self.last = Some((place.to_owned(), printed, went_well));
    }

    /// Starts the programs of a block that only starts programs, or else runs it.
    fn run_shell(&mut self, block: &Block) {
        let commands: Option<Vec<_>> = block.lines().map(program_line).collect();
        let known = |words: &Vec<String>| ["serve", "work", "nc"].contains(&&*words[0]);
        let Some(commands) = commands.filter(|commands| commands.iter().all(known)) else {
            let script = format!("set -euo pipefail\n{}", self.really(&block.text));
            let mut command = self.command("bash", &["-c", &script]);
            if let Some(server) = &self.server {
                // What the client verbs take for 127.0.0.1:11400, which another server may have.
                command.env("JOBCENTRE_URL", server.address.to_string());
            }
            return self.run(&block.place, command);
        };
        for words in commands {
            match &*words[0] {
                "serve" => self.serve(&words[1..]),
                "work" => self.start(&words.join(" ")),
                // The session is in the next block.
                _ => {}
            }
        }
    }

    /// Starts a worker, which goes on, and waits until the server knows it.
    fn start(&mut self, words: &str) {
        let script = format!("exec jobcentre {}", self.really(words));
        let mut command = self.command("bash", &["-c", &script]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let (tell, told) = channel();
        std::thread::spawn(move || {
            // Its log is read to the end, even without a receiver.
            log.lines().map_while(Result::ok).for_each(|line| drop(tell.send(line)));
        });
        self.others.push(child);
        while let Ok(line) = told.recv_timeout(TIMEOUT) {
            if line.contains("registered") {
                return;
            }
        }
        panic!("{words}: it does not register");
    }

    /// Starts a server in place of the one before, which has to end first.
    fn serve(&mut self, flags: &[String]) {
        self.stop();
        let mut command = self.command(Program::PATH, &["serve", "--log-format", "json"]);
        let mut ports = Vec::new();
        let mut flags = flags.iter();
        let mut open: BTreeMap<_, _> = PROTOCOLS
            .iter()
            .filter_map(|(flag, _, port)| Some((*flag, (*port)?.to_owned())))
            .collect();
        while let Some(flag) = flags.next() {
            match PROTOCOLS.iter().find(|(known, ..)| known == flag) {
                Some((flag, ..)) => {
                    let address = flags.next().unwrap();
                    let port = address.rsplit(':').next().unwrap();
                    open.insert(flag, port.to_owned());
                }
                None => drop(command.arg(flag)),
            }
        }
        for (flag, protocol, _) in PROTOCOLS {
            if let Some(port) = open.remove(flag) {
                command.args([flag, ":0"]);
                ports.push((protocol, port));
            }
        }
        let server = Server::spawn(command);
        let real = |protocol: &str| server.address_of(protocol).port().to_string();
        self.ports = ports.into_iter().map(|(protocol, shown)| (shown, real(protocol))).collect();
        self.server = Some(server);
    }

    /// Ctrl-C in all windows.
    fn stop(&mut self) {
        for mut child in self.others.drain(..) {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        if let Some(mut server) = self.server.take() {
            server.signal("INT");
            let status = server.wait();
            assert!(status.success(), "the server ends with {status}: {:?}", server.log_lines());
        }
    }

    /// Plays a session of lines over a connection of its own.
    fn talk(&mut self, block: &Block) {
        self.finish();
        let server = self.server.as_ref().expect("a session comes after the start of a server");
        let mut client = Client::connect(server.address);
        for line in block.lines() {
            match line.strip_prefix("--> ") {
                None => client.send(line),
                Some(shown) => {
                    // What is said about an answer stands far behind it.
                    let shown = shown.split("    ").next().unwrap_or_default();
                    let found = client.receive();
                    assert!(
                        fits(shown, &found),
                        "{}: {shown}\nbut this came:\n{found}",
                        block.place
                    );
                }
            }
        }
    }

    /// Runs the commands of a block one by one, without a server, whose directory they are about.
    fn type_commands(&mut self, block: &Block) {
        self.finish();
        self.stop();
        for part in format!("\n{}", block.text).split("\n$ ").skip(1) {
            let (typed, shown) = part.split_once('\n').unwrap_or((part, ""));
            let script = format!("exec 2>&1\n{}", self.really(typed));
            let output = self.command("bash", &["-c", &script]).output().unwrap();
            let found = String::from_utf8(output.stdout).unwrap();
            assert!(
                fits(shown, &found),
                "{}: {typed}: shown is\n{shown}\nbut this came:\n{found}",
                block.place
            );
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        for child in &mut self.others {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

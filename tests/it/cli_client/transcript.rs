//! Transcripts of the client verbs: a command line, and below it what it must print.
//!
//! ```text
//! # a remark
//! ! serve --data data
//! $ jobcentre get nowhere
//! a line of stdout
//! ! a line of stderr
//! [4]
//! ```
//!
//! `! serve` before the first command adds flags of the server. The exit status stands at the end,
//! if it is not 0. Moments may be others, and `…` is anything in the same line
//! ([`fits`]). `127.0.0.1:11400` in a command line is the address of the server of the test, and
//! `127.0.0.1:6379`, there and in the flags, that of a Redis of the test; where there is no
//! `redis-server` such a transcript is passed over.

use crate::documents::fits::fits;
use crate::process::engine::Redis;
use crate::support::{Program, Server, TempDir, plain_command};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Stdio;

/// The address in the examples.
const DEFAULT_ADDRESS: &str = "127.0.0.1:11400";

const DEFAULT_REDIS: &str = "127.0.0.1:6379";

/// A command line, and what it prints.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) command: String,
    /// As in the transcript, without blank lines at its end.
    expected: String,
    /// Remarks and blank lines before it.
    before: String,
}

/// A transcript.
#[derive(Debug)]
pub(super) struct Transcript {
    flags: Vec<String>,
    head: String,
    pub(super) steps: Vec<Step>,
}

impl Transcript {
    pub(super) fn parse(text: &str) -> Self {
        let (mut flags, mut head, mut before) = (Vec::new(), String::new(), String::new());
        let mut steps: Vec<Step> = Vec::new();
        for line in text.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                let before = std::mem::take(&mut before);
                steps.push(Step { command: command.to_owned(), expected: String::new(), before });
            } else if let (Some(words), true) = (line.strip_prefix("! serve "), steps.is_empty()) {
                flags.extend(words.split_whitespace().map(str::to_owned));
                head = std::mem::take(&mut before) + line + "\n";
            } else if line.is_empty() && before.is_empty() && steps.is_empty() {
                // Between the flags of the server and the first command.
            } else if line.starts_with("# ") || (line.is_empty() && !before.is_empty()) {
                before = before + line + "\n";
            } else if let (Some(step), true) = (steps.last_mut(), before.is_empty()) {
                step.expected = std::mem::take(&mut step.expected) + line + "\n";
            } else {
                panic!("this line belongs to no command: {line}");
            }
        }
        for step in &mut steps {
            let end = step.expected.trim_end_matches('\n').len();
            step.expected.truncate(end);
        }
        Self { flags, head, steps }
    }

    /// Whether its server keeps jobs in a Redis.
    fn needs_redis(&self) -> bool {
        self.flags.iter().any(|flag| flag.contains(DEFAULT_REDIS))
    }

    /// Plays it against a server of its own. Returns it with what was printed, or `None` if this
    /// system cannot play it.
    fn play(&self) -> Option<(Self, Vec<String>)> {
        let started = if self.needs_redis() { Some(Redis::start()?) } else { None };
        let redis = started.as_ref().map(|redis| format!("127.0.0.1:{}", redis.port()));
        let redis = redis.as_deref().unwrap_or(DEFAULT_REDIS);
        let dir = TempDir::new();
        fs::create_dir(dir.path()).unwrap();
        let mut command = plain_command(Program::PATH);
        command.args(["serve", "--listen", ":0", "--log-format", "json", "--http", ":0"]);
        let flags = self.flags.iter().map(|flag| flag.replace(DEFAULT_REDIS, redis));
        command.args(flags).current_dir(dir.path());
        let server = Server::spawn(command);
        let (mut steps, mut wrong) = (Vec::new(), Vec::new());
        for Step { command, expected, before } in &self.steps {
            let line = command.replace(DEFAULT_REDIS, redis);
            let printed = run(&line, dir.path(), &server.address.to_string());
            let printed = printed.replace(redis, DEFAULT_REDIS);
            assert!(!printed.contains("panicked at"), "{command}:\n{printed}");
            let is_same = fits(expected, &printed);
            if !is_same {
                wrong.push(format!("$ {command}\n{expected}\n--- printed:\n{printed}"));
            }
            let expected = if is_same { expected.clone() } else { printed };
            steps.push(Step { command: command.clone(), expected, before: before.clone() });
        }
        Some((Self { flags: self.flags.clone(), head: self.head.clone(), steps }, wrong))
    }

    fn text(&self) -> String {
        let mut text = self.head.clone();
        for step in &self.steps {
            let gap = if text.is_empty() { "" } else { "\n" };
            let end = if step.expected.is_empty() { "" } else { "\n" };
            let Step { command, expected, before } = step;
            let _ = write!(text, "{gap}{before}$ {command}\n{expected}{end}");
        }
        text
    }
}

/// Runs a command line, and returns what it prints as a transcript shows it.
fn run(line: &str, folder: &Path, address: &str) -> String {
    let program = Path::new(Program::PATH).parent().unwrap().to_str().unwrap();
    let path = format!("{program}:{}", std::env::var("PATH").unwrap_or_default());
    let line = line.replace(DEFAULT_ADDRESS, address);
    let mut command = plain_command("timeout");
    let command = command
        .args(["60", "bash", "-c", &line])
        .env_remove("JOBCENTRE_HTTP")
        .envs([("JOBCENTRE_URL", address), ("PATH", &*path), ("COLUMNS", "80"), ("LINES", "24")])
        .env("HOME", folder)
        .env_remove("XDG_CONFIG_HOME")
        .current_dir(folder)
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if !printed.is_empty() && !printed.ends_with('\n') {
        printed.push('\n');
    }
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        let _ = writeln!(printed, "! {line}");
    }
    match output.status.code() {
        Some(0) => {}
        Some(code) => drop(writeln!(printed, "[{code}]")),
        None => drop(writeln!(printed, "[killed]")),
    }
    let printed = printed.replace(address, DEFAULT_ADDRESS);
    printed.trim_end_matches('\n').to_owned()
}

/// Plays the transcript of a verb. To write what differs anew: `UPDATE_DOCS=1`; then look at it.
pub(super) fn play(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let transcript = Transcript::parse(&text);
    let Some((played, wrong)) = transcript.play() else { return };
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, played.text()).unwrap();
        return;
    }
    assert!(wrong.is_empty(), "{}:\n{}", path.display(), wrong.join("\n\n"));
    assert_eq!(transcript.text(), text, "{}: its layout is another one", path.display());
}

#[test]
fn transcript_is_read_and_written() {
    let text = "! serve --data d\n\n# why\n$ a b\nout\n\nmore\n! err\n[4]\n\n$ c\n";
    let transcript = Transcript::parse(text);
    assert_eq!(transcript.flags, ["--data", "d"]);
    let [first, second] = &transcript.steps[..] else { panic!("two steps") };
    assert_eq!((&*first.command, &*first.expected), ("a b", "out\n\nmore\n! err\n[4]"));
    assert_eq!((&*second.command, &*second.expected), ("c", ""));
    assert_eq!(transcript.text(), text);
}

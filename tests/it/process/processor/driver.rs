//! The real program as a processor: its stdin and stdout.

use crate::support::{Program, TIMEOUT, plain_command, until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// Lines of a stream, as they come, and then its end.
pub(super) type Lines = Receiver<String>;

/// Reads a stream to its end, so that its writer is never blocked.
pub(super) fn lines(stream: impl Read + Send + 'static) -> Lines {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// What is left of a stream.
pub(super) fn rest(lines: &Lines) -> Vec<String> {
    std::iter::from_fn(|| lines.recv_timeout(TIMEOUT).ok()).collect()
}

/// `serve --processor` with these flags, and time that passes slowly.
pub(super) fn command(flags: &[&str]) -> Command {
    let mut command = plain_command(Program::PATH);
    command.args(["serve", "--processor", "--tick", "3600000"]).args(flags);
    for variable in [
        "NAMESPACE_LISTENER",
        "NAMESPACE_PUBLISHER",
        "SERVICE_NAME",
        "SERVICE_UUID",
        "SERVICE_HOST",
    ] {
        command.env_remove(variable);
    }
    command
}

/// The same, begun by a shell that does something to its streams.
pub(super) fn by_shell(redirection: &str, flags: &[&str]) -> Command {
    let mut shell = plain_command("sh");
    let serve = command(flags);
    shell.args(["-c", &format!("exec \"$0\" \"$@\" {redirection}"), Program::PATH]);
    shell.args(serve.get_args());
    shell
}

/// A running processor. It is killed when it is dropped.
pub(super) struct Processor {
    pub(super) child: Child,
    log: Arc<Mutex<Vec<String>>>,
}

impl Processor {
    /// Starts it by a command whose stdin and stdout are set already.
    pub(super) fn spawn(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let (stderr, written) = (child.stderr.take().unwrap(), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                written.lock().unwrap().push(line);
            }
        });
        Self { child, log }
    }

    /// Starts it between two pipes.
    pub(super) fn start(flags: &[&str]) -> Piped {
        let mut command = command(flags);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut processor = Self::spawn(command);
        let stdin = processor.child.stdin.take().unwrap();
        let stdout = lines(processor.child.stdout.take().unwrap());
        Piped { processor, stdin, stdout }
    }

    /// The same, but its stdout is not read yet.
    pub(super) fn start_unread(flags: &[&str]) -> Unread {
        let mut command = command(flags);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut processor = Self::spawn(command);
        let stdin = processor.child.stdin.take().unwrap();
        let stdout = processor.child.stdout.take().unwrap();
        Unread { processor, stdin, stdout }
    }

    pub(super) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Waits for its end. Every line that it has logged is what the page says.
    pub(super) fn wait(&mut self) -> (ExitStatus, Vec<Value>) {
        until("the end of the processor", || self.child.try_wait().unwrap().is_some());
        let status = self.child.wait().unwrap();
        until("the last line of the log", || Arc::strong_count(&self.log) == 1);
        (status, self.logged())
    }

    /// What it has logged so far.
    pub(super) fn logged(&self) -> Vec<Value> {
        let lines = self.log.lock().unwrap();
        let parse = |line: &String| {
            let line: Value = serde_json::from_str(line).unwrap();
            let names: Vec<&String> = line.as_object().unwrap().keys().collect();
            assert_eq!(names, ["created_at", "log_level", "log_message"]);
            let at: jiff::Timestamp = line["created_at"].as_str().unwrap().parse().unwrap();
            assert!((now() - at.as_millisecond()).abs() < 3_600_000, "{line}");
            line
        };
        lines.iter().map(parse).collect()
    }

    /// Waits for a line with this text.
    pub(super) fn wait_for_log(&self, text: &str) -> String {
        let mut found = None;
        until(text, || {
            let lines = self.logged();
            let mut texts = lines.iter().filter_map(|line| line["log_message"].as_str());
            found = texts.find(|line| line.contains(text)).map(str::to_owned);
            found.is_some()
        });
        found.unwrap()
    }

    /// Its resident memory at most so far, in KiB, where the system tells it.
    pub(super) fn peak_memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A processor between two pipes; only the test reads its stdout.
pub(super) struct Unread {
    pub(super) processor: Processor,
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
}

/// A processor between two pipes.
pub(super) struct Piped {
    pub(super) processor: Processor,
    pub(super) stdin: ChildStdin,
    pub(super) stdout: Lines,
}

impl Piped {
    pub(super) fn send(&mut self, message: &str) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    /// The next message on stdout.
    pub(super) fn receive(&self) -> Value {
        let line = self.stdout.recv_timeout(TIMEOUT).expect("a message on stdout");
        serde_json::from_str(&line).unwrap()
    }

    /// What a list says.
    pub(super) fn list(&mut self, which: &str, queue: &str) -> Value {
        self.send(&list(which, queue));
        let answer = self.receive();
        assert_eq!(answer["topic"], format!("default/job_queue/{which}/result"), "{answer}");
        answer["payload"].clone()
    }

    /// Ends its input, and returns how it ended, what else it said, and its log.
    pub(super) fn finish(self) -> (ExitStatus, Vec<String>, Vec<Value>) {
        let Self { mut processor, stdin, stdout } = self;
        drop(stdin);
        let rest = rest(&stdout);
        let (status, log) = processor.wait();
        (status, rest, log)
    }
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

/// A message of the default namespace, from just now.
pub(super) fn message(topic: &str, from: &str, payload: &Value) -> String {
    let moment = jiff::Timestamp::from_millisecond(now()).unwrap().to_string();
    json!({
        "topic": format!("default/{topic}"),
        "service_name": "test",
        "service_uuid": from,
        "service_host": "here",
        "created_at": moment,
        "payload": payload,
    })
    .to_string()
}

pub(super) fn add(queue: &str, uuid: &str) -> String {
    message("job_queue/add_job", "creator", &json!({"uuid": uuid, "queue_name": queue}))
}

/// A message of a worker about a job, or about none.
pub(super) fn says(worker: &str, what: &str, queue: &str, more: &Value) -> String {
    let mut payload = json!({"queue_name": queue});
    for (name, value) in more.as_object().unwrap() {
        payload[name] = value.clone();
    }
    message(&format!("job_queue/workers/{worker}/{what}"), worker, &payload)
}

pub(super) fn idle(queue: &str, worker: &str) -> String {
    says(worker, "worker_idle", queue, &json!({}))
}

pub(super) fn list(which: &str, queue: &str) -> String {
    message(&format!("job_queue/{which}"), "lister", &json!({"queue_name": queue}))
}

/// The worker and the job of an assignment.
pub(super) fn assigned(message: &Value) -> (String, String) {
    let topic = message["topic"].as_str().unwrap();
    let worker = topic.strip_prefix("default/job_queue/workers/").unwrap();
    let worker = worker.strip_suffix("/job_assignment").unwrap();
    (worker.to_owned(), message["payload"]["uuid"].as_str().unwrap().to_owned())
}

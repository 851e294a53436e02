//! The server as a child process.

use super::{Client, TIMEOUT, until};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The program to be tested.
pub(crate) struct Program;

impl Program {
    pub(crate) const PATH: &str = env!("CARGO_BIN_EXE_jobcentre");

    /// Runs it with these arguments and variables, to its end, or kills it if that does not come.
    pub(crate) fn output(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = plain_command(Self::PATH);
        command.args(arguments).envs(variables.iter().copied());
        let pipes = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        // It prints less than a pipe takes, so it need not be read from before its end.
        let start = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if start.elapsed() > TIMEOUT {
                child.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        child.wait_with_output().unwrap()
    }
}

/// A command that inherits no settings of a server, and without a protocol that is open unless it
/// is said otherwise: its usual port can be had only once.
pub(crate) fn plain_command(program: &str) -> Command {
    let mut command = Command::new(program);
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("JOBCENTRE_") {
            command.env_remove(variable);
        }
    }
    command.env("JOBCENTRE_HTTP", "off");
    command
}

/// A running server. It is killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    log: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts a server on a free port with these flags besides.
    pub(crate) fn start(flags: &[&str]) -> Self {
        let mut command = plain_command(Program::PATH);
        command.args(["serve", "--listen", ":0", "--log-format", "json"]).args(flags);
        Self::spawn(command)
    }

    /// Starts a server by a command of one's own, which has to log JSON.
    pub(crate) fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::null());
        Self::spawn_with_stdin(command)
    }

    /// The same, with the stdin that the command has.
    pub(crate) fn spawn_with_stdin(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                lines.lock().unwrap().push(line);
            }
        });
        let mut server = Self { child, address: SocketAddr::from(([0, 0, 0, 0], 0)), log };
        let mut bound = None;
        until("the line with the address", || {
            // In this order: what it has logged before its end may be read only after it.
            let ended = server.child.try_wait().unwrap();
            let is_read = Arc::strong_count(&server.log) == 1;
            bound = server.log_lines().iter().find_map(|line| address(line));
            if let (None, Some(status), true) = (bound, ended, is_read) {
                panic!("the server ended ({status}): {:?}", server.log_lines());
            }
            bound.is_some()
        });
        server.address = bound.unwrap();
        server
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Where it listens for those that come in by this protocol.
    pub(crate) fn address_of(&self, protocol: &str) -> SocketAddr {
        let listens = |line: &String| {
            let json: serde_json::Value = serde_json::from_str(line).ok()?;
            if json["protocol"] == protocol { address(line) } else { None }
        };
        let mut found = None;
        until(&format!("the address of protocol {protocol}"), || {
            found = self.log_lines().iter().find_map(listens);
            found.is_some()
        });
        found.unwrap()
    }

    /// What it has logged so far.
    pub(crate) fn log_lines(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Waits for a line with this text. What was logged instead is shown if none comes.
    pub(crate) fn wait_for_log(&self, text: &str) {
        let start = Instant::now();
        while !self.log_lines().iter().any(|line| line.contains(text)) {
            let lines = self.log_lines();
            assert!(start.elapsed() < TIMEOUT, "timed out: {text}. Logged: {lines:#?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, by its name without SIG.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Waits for the end of the process.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        until(&format!("the end of the server, within {TIMEOUT:?}"), || {
            self.child.try_wait().unwrap().is_some()
        });
        self.child.wait().unwrap()
    }

    /// Whether the process is still there.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

/// The address in a log line that names one, in whichever format.
fn address(line: &str) -> Option<SocketAddr> {
    if let Some((_, address)) = line.split_once("address=") {
        return address.split_whitespace().next()?.parse().ok();
    }
    let json: serde_json::Value = serde_json::from_str(line).ok()?;
    let address = json["address"].as_str()?;
    address.strip_prefix("tls:").unwrap_or(address).parse().ok()
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

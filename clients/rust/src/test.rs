//! The real server as a child process, for tests.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// A loaded machine is slow; a server that hangs is for ever.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct Server {
    child: Option<Child>,
    binary: PathBuf,
    listen: String,
    http: String,
    data: Option<PathBuf>,
    arguments: Vec<String>,
}

/// The settings of a [`Server`].
#[derive(Debug)]
pub struct ServerBuilder {
    server: Server,
}

impl ServerBuilder {
    /// The program: unless set, `$JOBCENTRE_BINARY`, or `jobcentre` on the path.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.server.binary = path.into();
        self
    }

    /// The directory of `--data`, with which jobs outlive the process.
    pub fn data(mut self, directory: impl Into<PathBuf>) -> Self {
        self.server.data = Some(directory.into());
        self
    }

    /// The address of `--listen`: a free port of 127.0.0.1 unless set.
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.server.listen = address.into();
        self
    }

    /// With an HTTP listener, too, on a free port: see [`Server::http_url`].
    pub fn http(mut self) -> Self {
        self.server.http = "127.0.0.1:0".into();
        self
    }

    /// One more argument of `jobcentre serve`.
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.server.arguments.push(argument.into());
        self
    }

    /// Starts it, and returns when it serves.
    pub fn start(mut self) -> Result<Server> {
        self.server.restart()?;
        Ok(self.server)
    }
}

impl Server {
    /// Starts a server in memory on a free port.
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// A server with settings.
    pub fn builder() -> ServerBuilder {
        let binary = std::env::var_os("JOBCENTRE_BINARY").unwrap_or_else(|| "jobcentre".into());
        let listen = "127.0.0.1:0".to_owned();
        let server = Self {
            child: None,
            binary: binary.into(),
            listen,
            http: "off".into(),
            data: None,
            arguments: Vec::new(),
        };
        ServerBuilder { server }
    }

    /// Starts it again after [`kill`](Self::kill), at the same address.
    pub fn restart(&mut self) -> Result<()> {
        self.kill();
        let deadline = Instant::now() + PATIENCE;
        let mut command = Command::new(&self.binary);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("JOBCENTRE_") {
                command.env_remove(name);
            }
        }
        command.args(["serve", "--log-format", "json", "--listen", &self.listen]);
        command.args(["--http", &self.http]);
        if let Some(data) = &self.data {
            command.arg("--data").arg(data);
        }
        command
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let failed = |why: String| Error::Settings(format!("the server did not start: {why}"));
        let mut child = command.spawn().map_err(|e| {
            failed(format!("{}: {e}; set JOBCENTRE_BINARY to the program", self.binary.display()))
        })?;
        let stderr = child.stderr.take();
        self.child = Some(child);
        // It reads as long as the server writes, so that a full pipe never holds the server up.
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr
                .into_iter()
                .flat_map(|stderr| BufReader::new(stderr).lines().map_while(std::io::Result::ok))
            {
                drop(sender.send(line));
            }
        });
        let mut log = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let text = match lines.recv_timeout(left) {
                Ok(text) => text,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(failed("it was not ready in time".into()));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(failed(log.join("\n"))),
            };
            let line: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            log.push(text);
            match line["message"].as_str() {
                Some("listening") if line["protocol"] == "http" => {
                    line["address"].as_str().unwrap_or_default().clone_into(&mut self.http);
                }
                Some("listening") if !self.listen.starts_with("unix:") => {
                    self.take_address(line["address"].as_str().unwrap_or_default());
                }
                Some("serving") => return Ok(()),
                _ => {}
            }
        }
    }

    /// The port that was free, for the next start, too.
    fn take_address(&mut self, address: &str) {
        let prefix = if self.listen.starts_with("tls:") { "tls:" } else { "" };
        let options =
            self.listen.find(',').map(|at| self.listen[at..].to_owned()).unwrap_or_default();
        self.listen = format!("{prefix}{}{options}", address.trim_start_matches("tls:"));
    }

    /// Where it listens: `HOST:PORT`, or the path of the socket.
    pub fn address(&self) -> &str {
        let listen = self.listen.split(',').next().unwrap_or_default();
        listen.trim_start_matches("tls:").trim_start_matches("unix:")
    }

    /// Its address for a client; that of TLS needs `?ca=FILE` besides.
    pub fn url(&self) -> String {
        if self.listen.starts_with("unix:") {
            return format!("jobcentre+unix://{}", self.address());
        }
        let scheme = if self.listen.starts_with("tls:") { "jobcentre+tls" } else { "jobcentre" };
        format!("{scheme}://{}", self.address())
    }

    /// The address of its HTTP listener, if it has one.
    pub fn http_url(&self) -> Option<String> {
        (self.http != "off").then(|| format!("http://{}", self.http))
    }

    /// The directory of `--data`.
    pub fn data(&self) -> Option<&Path> {
        self.data.as_deref()
    }

    /// What a crash does: SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

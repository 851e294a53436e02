//! The servers under test: how each is found, started on a free port of the loopback, and ended.

use crate::machine::Cores;
use crate::tls;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// All servers that can be measured, in the order in which a round goes through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Target {
    JobCentre,
    Echo,
    TokioCurrent,
    TokioMutex,
    TokioActor,
    Uring,
    Beanstalkd,
    Redis,
    /// Another protocol of the server: the networked priority queue.
    Pinpriq,
    /// The same: that of beanstalkd.
    Tubes,
    /// The same as Job Centre, with TLS.
    Tls,
    /// The HTTP protocol of the server: whether it is there.
    Health,
    /// The same: jobs.
    Jobq,
}

impl Target {
    /// Those that are a server each.
    pub(crate) const SERVERS: [Self; 8] = [
        Self::JobCentre,
        Self::Echo,
        Self::TokioCurrent,
        Self::TokioMutex,
        Self::TokioActor,
        Self::Uring,
        Self::Beanstalkd,
        Self::Redis,
    ];

    /// Its name in tables; of a variant also that on the command line of the bench `servers`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::JobCentre => "jobcentre",
            Self::Echo => "echo",
            Self::TokioCurrent => "tokio-current",
            Self::TokioMutex => "tokio-mutex",
            Self::TokioActor => "tokio-actor",
            Self::Uring => "uring",
            Self::Beanstalkd => "beanstalkd",
            Self::Redis => "redis",
            Self::Pinpriq => "pinpriq",
            Self::Tubes => "jobcentre --beanstalkd",
            Self::Tls => "jobcentre, TLS",
            Self::Health => "health",
            Self::Jobq => "jobq",
        }
    }

    /// What `jobcentre bench --dialect` has to speak.
    pub(crate) fn dialect(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Beanstalkd | Self::Tubes => "beanstalkd",
            Self::Redis => "redis",
            Self::Pinpriq => "pinpriq",
            Self::Health => "health",
            Self::Jobq => "jobq",
            _ => "job-centre",
        }
    }

    /// The arguments that make it listen at a port, and keep nothing on a disk. The server has two
    /// protocols open whichever is measured; `other` is for the other one.
    fn arguments(self, port: u16, other: u16) -> Vec<String> {
        let own = |listen, pinpriq| {
            format!(
                "serve --listen 127.0.0.1:{listen} --pinpriq 127.0.0.1:{pinpriq} --http off \
                 --max-clients {CLIENTS_MAX}"
            )
        };
        let line = match self {
            Self::JobCentre => own(port, other),
            Self::Pinpriq => own(other, port),
            Self::Tubes => format!(
                "serve --listen 127.0.0.1:{other} --beanstalkd 127.0.0.1:{port} --http off \
                 --max-clients {CLIENTS_MAX}"
            ),
            Self::Tls => format!(
                "serve --listen tls:127.0.0.1:{port} --http off --max-clients {CLIENTS_MAX} \
                 --tls-cert {} --tls-key {}",
                tls::CERTIFICATE,
                tls::KEY
            ),
            Self::Health | Self::Jobq => format!(
                "serve --listen 127.0.0.1:{other} --http 127.0.0.1:{port} \
                 --max-clients {CLIENTS_MAX}"
            ),
            Self::Beanstalkd => format!("-l 127.0.0.1 -p {port}"),
            Self::Redis => format!(
                "--port {port} --bind 127.0.0.1 --appendonly no --maxclients {CLIENTS_MAX} \
                 --daemonize no --save"
            ),
            variant => format!("{} --listen 127.0.0.1:{port}", variant.name()),
        };
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        if self == Self::Redis {
            // An empty word: no snapshots.
            words.push(String::new());
        }
        words
    }
}

/// More clients than any scenario has.
const CLIENTS_MAX: usize = 15_000;
/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// The programs that were found, and the reasons why others were not.
#[derive(Debug)]
pub(crate) struct Programs {
    found: BTreeMap<Target, PathBuf>,
    pub(crate) absent: Vec<(Target, String)>,
    pub(crate) cores: Option<Cores>,
    /// For what servers say on stderr.
    scratch: PathBuf,
}

impl Programs {
    /// Only the server itself, by all its protocols.
    pub(crate) fn own(cores: Option<Cores>, scratch: &Path) -> Self {
        let protocols =
            [Target::JobCentre, Target::Pinpriq, Target::Tubes, Target::Health, Target::Jobq];
        let found = protocols.map(|protocol| (protocol, jobcentre())).into();
        let mut programs = Self { found, absent: Vec::new(), cores, scratch: scratch.to_owned() };
        match tls::write_certificate(scratch) {
            Ok(()) => drop(programs.found.insert(Target::Tls, jobcentre())),
            Err(why) => programs.absent.push((Target::Tls, why)),
        }
        programs
    }

    /// Finds all targets, and checks that each starts here.
    pub(crate) fn find(cores: Option<Cores>, scratch: &Path) -> Self {
        let mut programs = Self::own(cores, scratch);
        let servers = variants();
        for target in Target::SERVERS {
            let program = match target {
                Target::JobCentre => Ok(jobcentre()),
                Target::Beanstalkd => in_path("beanstalkd"),
                Target::Redis => in_path("redis-server"),
                _ => servers.clone(),
            };
            let started = program.and_then(|program| {
                programs.found.insert(target, program);
                programs.start(target).map(drop)
            });
            if let Err(why) = started {
                programs.found.remove(&target);
                programs.absent.push((target, why));
            }
        }
        programs
    }

    pub(crate) fn has(&self, target: Target) -> bool {
        self.found.contains_key(&target)
    }

    pub(crate) fn program(&self, target: Target) -> Option<&Path> {
        self.found.get(&target).map(PathBuf::as_path)
    }

    /// What the generator needs to reach a target at an address.
    pub(crate) fn address(&self, target: Target, address: SocketAddr) -> Vec<String> {
        if target != Target::Tls {
            return vec!["--address".to_owned(), address.to_string()];
        }
        let authority = self.scratch.join(tls::AUTHORITY).to_string_lossy().into_owned();
        ["--address", &format!("tls:{address}"), "--tls-ca", &authority].map(str::to_owned).into()
    }

    /// Where a server says what it says.
    pub(crate) fn log(&self, target: Target) -> PathBuf {
        self.scratch.join(format!("{}.log", target.name().replace(' ', "")))
    }

    /// Starts a fresh server, which keeps nothing on a disk, and waits until it listens.
    ///
    /// # Errors
    /// Says what it said, if it ended instead.
    pub(crate) fn start(&self, target: Target) -> Result<Server, String> {
        self.start_with(target, &[])
    }

    /// The same, with further arguments, which count more than the usual ones.
    ///
    /// # Errors
    /// Says what it said, if it ended instead.
    pub(crate) fn start_with(&self, target: Target, further: &[String]) -> Result<Server, String> {
        let program = self.program(target).ok_or("absent")?;
        let [port, other] = free_ports().map_err(|error| format!("no free ports: {error}"))?;
        let [address, other_address] =
            [port, other].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let mut command = match &self.cores {
            Some(cores) => cores.command(cores.server, program),
            None => Command::new(program),
        };
        let log = self.log(target);
        let stderr = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        command
            .args(target.arguments(port, other))
            .args(further)
            .current_dir(&self.scratch)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr);
        for (name, _) in std::env::vars_os() {
            // Settings of the user are no settings of this measurement.
            if name.to_string_lossy().starts_with("JOBCENTRE_") {
                command.env_remove(name);
            }
        }
        // A flag may say otherwise.
        command.env("JOBCENTRE_LOG_LEVEL", "warn");
        let child = command.spawn().map_err(|error| format!("does not start: {error}"))?;
        let mut server = Server { child, address, other: other_address };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            if let Ok(Some(status)) = server.child.try_wait() {
                let said = fs::read_to_string(&log).unwrap_or_default();
                let last = said.lines().last().unwrap_or("nothing");
                return Err(format!("ended at its start ({status}); it said: {last}"));
            }
            if Instant::now() > deadline {
                return Err(format!("does not listen after {PATIENCE:?}"));
            }
            sleep(Duration::from_millis(10));
        }
        Ok(server)
    }
}

/// A server that runs. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Its other protocol, if it has two: that of Job Centre beside HTTP.
    pub(crate) other: SocketAddr,
}

impl Server {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has it end in good order.
    ///
    /// # Errors
    /// Says that it does not.
    pub(crate) fn stop(mut self) -> Result<(), String> {
        let told = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status();
        told.map_err(|error| format!("cannot say that the server is to stop: {error}"))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ended = self.child.try_wait().map_err(|error| format!("no server: {error}"))?;
            match ended {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("the server ended badly ({status})")),
                None if Instant::now() > deadline => {
                    return Err(format!("the server does not stop in {PATIENCE:?}"));
                }
                None => sleep(Duration::from_millis(10)),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server and load generator of this very build.
pub(crate) fn jobcentre() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_jobcentre"))
}

fn free_ports() -> std::io::Result<[u16; 2]> {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let (one, other) = (bind()?, bind()?);
    Ok([one.local_addr()?.port(), other.local_addr()?.port()])
}

/// A program of the system.
pub(crate) fn in_path(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    // Servers often stand where the PATH of users does not look.
    folders.extend(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let mut places = folders.into_iter().map(|folder| folder.join(name));
    places.find(|place| place.is_file()).ok_or_else(|| format!("{name} is not installed"))
}

/// Builds the bench `servers` and asks cargo where it is.
fn variants() -> Result<PathBuf, String> {
    let output = Command::new(env!("CARGO"))
        .args(["bench", "--bench", "servers", "--no-run", "--message-format=json"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| format!("cargo does not start: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().find(|line| line.starts_with("error")).unwrap_or("error");
        return Err(format!("the bench `servers` does not build: {said}"));
    }
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    let executable = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_it = message.get("target")?.get("name")? == "servers";
        let path = message.get("executable")?.as_str()?;
        is_it.then(|| PathBuf::from(path))
    };
    messages
        .lines()
        .filter_map(executable)
        .next_back()
        .ok_or_else(|| "cargo does not say where the bench `servers` is".to_owned())
}

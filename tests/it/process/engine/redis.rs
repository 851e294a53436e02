//! A `redis-server` as a child process, with an append-only file, or another program that the
//! variable `REDIS_SERVER` names: `valkey-server`.

use crate::support::{TIMEOUT, TempDir, until};
use jobcentre::base::buf::Input;
use jobcentre::wire::resp::{Framer, push_array, push_bulk};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

/// The server. It is killed when it is dropped.
pub(crate) struct Redis {
    child: Child,
    dir: TempDir,
    port: u16,
    setup: Setup,
}

/// How it is started, beside its port and directory.
#[derive(Clone, Default)]
pub(crate) struct Setup {
    pub(crate) tls: Option<Tls>,
    /// The port of its primary, if it is a replica.
    pub(crate) replica_of: Option<u16>,
    /// It is a Sentinel of the service `jobs`, whose primary has this port.
    pub(crate) watches: Option<u16>,
    /// It is a node of a cluster.
    pub(crate) in_cluster: bool,
}

/// A further port, with TLS.
#[derive(Clone)]
pub(crate) struct Tls {
    /// Files: the certificate, its key, and the authority that vouches for clients.
    pub(crate) files: [String; 3],
    /// Whether clients need a certificate.
    pub(crate) asks_clients: bool,
}

/// The variable that names the program. Where it is set, tests are not passed over without one.
const VARIABLE: &str = "REDIS_SERVER";

/// The program that is started.
pub(crate) fn redis_program() -> String {
    std::env::var(VARIABLE).unwrap_or_else(|_| "redis-server".to_owned())
}

/// The client that comes with the program: `redis-cli`, `valkey-cli`.
pub(super) fn redis_client() -> String {
    let program = redis_program();
    let Some(name) = program.strip_suffix("-server") else {
        panic!("{VARIABLE} is {program}, and has to end with -server: its client ends with -cli");
    };
    format!("{name}-cli")
}

/// Attempts to get a port: another process may take it first.
const PORTS_MAX: usize = 20;

impl Redis {
    /// Starts one on a free port. `None`: there is none on this machine.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(&Setup::default())
    }

    /// The same with more than a port.
    pub(crate) fn start_with(setup: &Setup) -> Option<Self> {
        for _ in 0..PORTS_MAX {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let dir = TempDir::new();
            let child = match spawn(&dir, port, setup) {
                Ok(child) => child,
                Err(error)
                    if error.kind() == ErrorKind::NotFound && std::env::var(VARIABLE).is_err() =>
                {
                    eprintln!("SKIPPED: there is no redis-server on this machine");
                    return None;
                }
                Err(error) => panic!("{}: {error}", redis_program()),
            };
            let mut redis = Self { child, dir, port, setup: setup.clone() };
            if redis.serves() {
                return Some(redis);
            }
        }
        panic!("no free port for {}", redis_program());
    }

    /// Kills it at once.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends it a signal, by its name without SIG.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Starts it again with its files, on its port.
    pub(crate) fn restart(&mut self) {
        until("redis-server on its old port", || {
            self.child = spawn(&self.dir, self.port, &self.setup).unwrap();
            self.serves()
        });
    }

    /// Whether it answers; false: it has ended.
    fn serves(&mut self) -> bool {
        let mut is_up = false;
        until("an answer of redis-server", || {
            is_up = self.try_ask(&[b"PING"]).is_some_and(|answer| answer == b"+PONG\r\n");
            is_up || self.child.try_wait().unwrap().is_some()
        });
        is_up
    }

    /// Its address, for `--engine`.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The address of its port with TLS, under this name.
    pub(crate) fn tls_url(&self, host: &str) -> String {
        format!("rediss://{host}:{}", tls_port(self.port))
    }

    /// The whole answer to a command.
    pub(crate) fn ask(&self, words: &[&[u8]]) -> Vec<u8> {
        self.try_ask(words).expect("an answer of redis-server")
    }

    /// Whether it answers, and is a primary.
    pub(crate) fn is_primary(&self) -> bool {
        let role = self.try_ask(&[b"ROLE"]).unwrap_or_default();
        role.windows(6).any(|word| word == b"master")
    }

    /// How many bytes it has written as a primary, and how many of them its replica has. The
    /// replica is 0 without one.
    pub(crate) fn replication_offsets(&self) -> (u64, u64) {
        let info = String::from_utf8(self.ask(&[b"INFO", b"replication"])).unwrap();
        let behind = |mark: &str| {
            let (_, rest) = info.split_once(mark)?;
            rest.split(|digit: char| !digit.is_ascii_digit()).next()?.parse().ok()
        };
        (behind("master_repl_offset:").unwrap(), behind(",offset=").unwrap_or(0))
    }

    fn try_ask(&self, words: &[&[u8]]) -> Option<Vec<u8>> {
        let mut request = Vec::new();
        push_array(&mut request, words.len());
        for word in words {
            push_bulk(&mut request, word);
        }
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok()?;
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(&request).ok()?;
        let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
        while Framer::new(1 << 20).next(&mut Input::new(&answer)).unwrap().is_none() {
            let count = stream.read(&mut piece).ok().filter(|&count| count > 0)?;
            answer.extend_from_slice(&piece[..count]);
        }
        Some(answer)
    }
}

/// Near the other one: a port that is taken fails the start, and another pair is tried.
fn tls_port(port: u16) -> u16 {
    port ^ 1
}

fn spawn(dir: &TempDir, port: u16, setup: &Setup) -> std::io::Result<Child> {
    std::fs::create_dir_all(dir.path())?;
    let mut command = Command::new(redis_program());
    if let Some(primary) = setup.watches {
        let file = dir.path().join("sentinel.conf");
        if !file.exists() {
            let text = format!(
                "port {port}\nbind 127.0.0.1\ndir {}\n\
                 sentinel monitor jobs 127.0.0.1 {primary} 2\n\
                 sentinel down-after-milliseconds jobs 500\n\
                 sentinel failover-timeout jobs 3000\n",
                dir.text()
            );
            std::fs::write(&file, text)?;
        }
        command.arg(&file).arg("--sentinel");
    } else {
        let port = port.to_string();
        command.args(["--port", &port, "--bind", "127.0.0.1", "--dir", dir.text(), "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", "everysec"]);
        command.args(["--repl-diskless-sync-delay", "0"]);
    }
    if let Some(Tls { files: [certificate, key, authority], asks_clients }) = &setup.tls {
        let port = tls_port(port).to_string();
        command.args(["--tls-port", &port, "--tls-cert-file", certificate, "--tls-key-file", key]);
        let asks = if *asks_clients { "yes" } else { "no" };
        command.args(["--tls-ca-cert-file", authority, "--tls-auth-clients", asks]);
    }
    if setup.in_cluster {
        command.args(["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"]);
    }
    if let Some(primary) = setup.replica_of {
        command.args(["--replicaof", "127.0.0.1", &primary.to_string()]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

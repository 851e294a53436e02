//! Servers over one Redis: one serves, another one waits to take over at the same address.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use jobcentre_client::Result;
use jobcentre_client::test::Server;

const PATIENCE: Duration = Duration::from_secs(60);

/// What `Server` is, with jobs in a Redis of its own.
pub struct TakeoverServer {
    redis: Child,
    engine: String,
    started: u32,
    leader: Server,
    next: Option<JoinHandle<Result<Server>>>,
}

impl TakeoverServer {
    /// `None`: redis-server is not installed. The variable `REDIS_SERVER` names another program,
    /// which has to be there. `folder`: where it runs.
    pub fn start(folder: &Path) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let named = std::env::var("REDIS_SERVER");
        let redis = Command::new(named.as_deref().unwrap_or("redis-server"))
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--maxmemory-policy", "noeviction", "--dir"])
            .arg(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        assert!(redis.is_ok() || named.is_err(), "REDIS_SERVER is {named:?}: {redis:?}");
        let redis = redis.ok()?;
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "redis-server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        let engine = format!("redis://127.0.0.1:{port}");
        let leader = serve(&engine, "127.0.0.1:0", 1).unwrap();
        let mut servers = Self { redis, engine, started: 1, leader, next: None };
        servers.wait_to_lead();
        Some(servers)
    }

    /// Another server waits until the leader is gone.
    fn wait_to_lead(&mut self) {
        self.started += 1;
        let (engine, number) = (self.engine.clone(), self.started);
        let listen = self.leader.address().to_owned();
        self.next = Some(std::thread::spawn(move || serve(&engine, &listen, number)));
    }

    pub fn url(&self) -> String {
        self.leader.url()
    }

    /// SIGKILL of the leader.
    pub fn kill(&mut self) {
        self.leader.kill();
    }

    /// Returns when the server that waits has taken over; then another one waits.
    pub fn take_over(&mut self) -> Result<()> {
        let next = self.next.take().expect("a server waits");
        self.leader = next.join().expect("it does not panic")?;
        self.wait_to_lead();
        Ok(())
    }
}

/// Returns when the server leads.
fn serve(engine: &str, listen: &str, number: u32) -> Result<Server> {
    Server::builder()
        .listen(listen)
        .argument("--engine")
        .argument(engine)
        .argument("--server-name")
        .argument(format!("server-{number}"))
        .argument("--engine-lease")
        .argument("1s")
        // Both servers have one address: the one that waits listens there once it leads.
        .argument("--engine-forward")
        .argument("off")
        .start()
}

impl Drop for TakeoverServer {
    fn drop(&mut self) {
        self.leader.kill();
        if let Some(next) = self.next.take() {
            // It leads within a moment, and ends with its value.
            drop(next.join());
        }
        drop(self.redis.kill());
        drop(self.redis.wait());
    }
}

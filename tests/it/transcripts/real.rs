//! The real process as the simulation of a transcript, and whatever else listens on a socket.
//!
//! Nothing here waits for a time to pass. Whether the server has dealt with everything is found out
//! by a connection of our own, the probe: the system tells the server of events in their order, so
//! once the probe is answered all earlier input has been read, and once it is answered again the
//! pass in which that happened is over and its answers are sent. On a busy system the end of a
//! connection may come later than a message that was sent after it, so ends are looked up in the
//! system's table of connections first.

use super::Target;
use super::parse::Transcript;
use crate::support::{Client, Server, until};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// The server under test.
pub(super) trait Host {
    /// Where it listens for those that come in by this protocol.
    fn address(&self, protocol: &str) -> SocketAddr;
    /// Returns once everything so far, of which these are the latest bytes, has been dealt with.
    fn settle(&mut self, sent: usize);
}

/// A host and its clients.
pub(super) struct Real<H> {
    host: H,
    /// Bytes sent since it last settled.
    unsettled: usize,
    /// Clients whose end may not have reached the server.
    leaving: Vec<Ports>,
    clients: BTreeMap<char, (Ports, Client)>,
}

/// Both ends of a connection.
#[derive(Clone, Copy, Debug)]
struct Ports {
    server: u16,
    client: u16,
}

/// A server process, and the probe.
pub(super) struct Process {
    server: Server,
    probe: Client,
    /// What the probe sends, and how the answer to it begins.
    asks: (&'static str, &'static str),
}

/// Of an engine in memory: answered by the session, so that it leaves no trace.
const EMPTY_LINE: (&str, &str) = ("", r#"{"status":"error","error":"the line is empty"#);

/// Of an engine that keeps its jobs: answered once everything before it is kept.
pub(super) const EMPTY_GET: (&str, &str) =
    (r#"{"request":"get","queues":["none"]}"#, r#"{"status":"no-job"}"#);

impl Host for Process {
    fn address(&self, protocol: &str) -> SocketAddr {
        self.server.address_of(protocol)
    }

    fn settle(&mut self, sent: usize) {
        // Much input takes the server many passes.
        for _ in 0..2 + sent / 4096 {
            self.probe.send(self.asks.0);
            let answer = self.probe.receive();
            assert!(answer.starts_with(self.asks.1), "the probe was answered {answer}");
        }
    }
}

impl Real<Process> {
    pub(super) fn start(transcript: &Transcript) -> Self {
        Self::start_with(transcript, &[], EMPTY_LINE)
    }

    /// With these flags besides, and a probe that asks this.
    pub(super) fn start_with(
        transcript: &Transcript,
        more: &[&str],
        asks: (&'static str, &'static str),
    ) -> Self {
        let settings = transcript.settings;
        let mut flags = vec!["--max-request".to_owned(), settings.max_request.to_string()];
        flags.extend(["--max-clients".to_owned(), (settings.max_clients + 1).to_string()]);
        if let Some(bytes) = settings.max_memory {
            flags.extend(["--max-memory".to_owned(), bytes.to_string()]);
        }
        for protocol in transcript.protocols.values().collect::<BTreeSet<_>>() {
            flags.extend([format!("--{protocol}"), ":0".to_owned()]);
        }
        let flags: Vec<&str> =
            flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let server = Server::start(&flags);
        let probe = server.connect();
        Self::new(Process { server, probe, asks })
    }
}

impl<H> Real<H> {
    pub(super) fn new(host: H) -> Self {
        Self { host, unsettled: 0, leaving: Vec::new(), clients: BTreeMap::new() }
    }

    fn client(&mut self, client: char) -> Result<&mut Client, String> {
        let known = self.clients.get_mut(&client).map(|(_, client)| client);
        known.ok_or_else(|| format!("{client} has closed"))
    }

    /// Takes a client that leaves out of the list.
    fn leave(&mut self, client: char) -> Option<Client> {
        let (ports, client) = self.clients.remove(&client)?;
        self.leaving.push(ports);
        Some(client)
    }
}

impl<H: Host> Target for Real<H> {
    fn connect(&mut self, client: char, protocol: &str) -> Result<(), String> {
        let address = self.host.address(protocol);
        let connected = Client::connect(address);
        let ports = Ports { server: address.port(), client: connected.port() };
        self.clients.insert(client, (ports, connected));
        Ok(())
    }

    fn send(&mut self, client: char, bytes: &[u8], last: bool) -> Result<(), String> {
        self.unsettled += bytes.len();
        let sending = self.client(client)?;
        sending.send_bytes(bytes);
        if last {
            sending.half_close();
            self.leaving.push(self.clients[&client].0);
        }
        Ok(())
    }

    fn close(&mut self, client: char) -> Result<(), String> {
        self.leave(client);
        Ok(())
    }

    fn reset(&mut self, client: char) -> Result<(), String> {
        if let Some(client) = self.leave(client) {
            client.reset();
        }
        Ok(())
    }

    fn set_reading(&mut self, _client: char, _reads: bool) -> Result<(), String> {
        Err("a real client has the buffers of its system: mark the transcript as pure".to_owned())
    }

    fn pass_time(&mut self, _time: Duration) -> Result<(), String> {
        Err("real time is not waited for: mark the transcript as pure".to_owned())
    }

    fn settle(&mut self) -> Result<(), String> {
        for ports in std::mem::take(&mut self.leaving) {
            until("the end of a connection", || !is_established(ports));
        }
        self.host.settle(std::mem::take(&mut self.unsettled));
        Ok(())
    }

    fn receive(&mut self, client: char) -> Result<Vec<u8>, String> {
        self.client(client)?.try_receive().ok_or_else(|| format!("{client} has no line to receive"))
    }

    fn receive_bytes(&mut self, client: char, expected: &[u8]) -> Result<Vec<u8>, String> {
        Ok(self.client(client)?.receive_like(expected))
    }

    fn receive_count(&mut self, client: char, count: usize) -> Result<Vec<u8>, String> {
        Ok(self.client(client)?.receive_count(count))
    }

    fn check_silent(&mut self, client: char) -> Result<(), String> {
        self.settle()?;
        match self.client(client).map(Client::pending) {
            Ok(pending) if !pending.is_empty() => {
                Err(format!("{client} has something to receive: {}", super::show(&pending)))
            }
            _ => Ok(()),
        }
    }

    fn check_ended(&mut self, client: char) -> Result<(), String> {
        match self.client(client)?.arrived() {
            b"" => Ok(()),
            bytes => Err(format!("{client} has something to receive: {}", super::show(bytes))),
        }
    }
}

/// Whether the server's side of a connection has not heard of its end. Where there is no such table
/// this is not known, and messages are taken to arrive in their order.
fn is_established(ports: Ports) -> bool {
    const ESTABLISHED: &str = "01";
    let Ok(table) = std::fs::read_to_string("/proc/net/tcp") else { return false };
    let port = |address: &str| u16::from_str_radix(address.rsplit(':').next()?, 16).ok();
    table.lines().any(|line| {
        let mut columns = line.split_whitespace().skip(1);
        let (local, remote, state) = (columns.next(), columns.next(), columns.next());
        local.and_then(port) == Some(ports.server)
            && remote.and_then(port) == Some(ports.client)
            && state == Some(ESTABLISHED)
    })
}

#[test]
#[cfg(target_os = "linux")]
fn connection_table_lists_connected_clients() {
    let server = Server::start(&[]);
    let client = server.connect();
    let ports = Ports { server: server.address.port(), client: client.port() };
    assert!(is_established(ports) && !is_established(Ports { client: ports.server, ..ports }));
    drop(client);
    until("the end of the connection", || !is_established(ports));
}

//! The real process as the world of a transcript, and whatever else listens on a socket.
//!
//! Nothing here waits for a time to pass. Whether the server has dealt with everything is found out
//! by a connection of our own, the probe: the system tells the server of events in their order, so
//! once the probe is answered all earlier input has been read, and once it is answered again the
//! pass in which that happened is over and its answers are sent. On a busy system the end of a
//! connection may come later than a message that was sent after it, so ends are looked up in the
//! system's table of connections first.

use super::World;
use crate::support::{Client, Server, until};
use jobcentre::server::Settings;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Who serves the clients.
pub(super) trait Host {
    /// Returns once everything so far, of which these are the latest bytes, has been dealt with.
    fn settle(&mut self, sent: usize);
}

/// A host, where it listens, and its clients.
pub(super) struct Real<H> {
    host: H,
    address: SocketAddr,
    /// Bytes sent since it last settled.
    unsettled: usize,
    /// Ports of clients whose end may not have reached the server.
    leaving: Vec<u16>,
    clients: BTreeMap<char, Client>,
}

/// A server process, and the probe.
pub(super) struct Process {
    _server: Server,
    probe: Client,
}

impl Host for Process {
    fn settle(&mut self, sent: usize) {
        // Much input takes the server many passes.
        for _ in 0..2 + sent / 4096 {
            self.probe.send("");
            let answer = self.probe.receive();
            assert!(answer.contains("is empty"), "the probe was answered {answer}");
        }
    }
}

impl Real<Process> {
    pub(super) fn start(settings: Settings) -> Self {
        let max_request = settings.max_request.to_string();
        let max_clients = (settings.max_clients + 1).to_string();
        let flags = ["--max-request", &max_request, "--max-clients", &max_clients];
        let server = Server::start(&flags);
        let (address, probe) = (server.address, server.connect());
        Self::new(address, Process { _server: server, probe })
    }
}

impl<H> Real<H> {
    pub(super) fn new(address: SocketAddr, host: H) -> Self {
        Self { host, address, unsettled: 0, leaving: Vec::new(), clients: BTreeMap::new() }
    }

    fn client(&mut self, client: char) -> Result<&mut Client, String> {
        self.clients.get_mut(&client).ok_or_else(|| format!("{client} has closed"))
    }
}

impl<H: Host> World for Real<H> {
    fn connect(&mut self, client: char) -> Result<(), String> {
        self.clients.insert(client, Client::connect(self.address));
        Ok(())
    }

    fn send(&mut self, client: char, bytes: &[u8], last: bool) -> Result<(), String> {
        self.unsettled += bytes.len();
        let client = self.client(client)?;
        client.send_bytes(bytes);
        if last {
            client.half_close();
            let port = client.port();
            self.leaving.push(port);
        }
        Ok(())
    }

    fn close(&mut self, client: char) -> Result<(), String> {
        self.leaving.extend(self.clients.remove(&client).map(|client| client.port()));
        Ok(())
    }

    fn reset(&mut self, client: char) -> Result<(), String> {
        if let Some(client) = self.clients.remove(&client) {
            self.leaving.push(client.port());
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
        let server = self.address.port();
        for client in std::mem::take(&mut self.leaving) {
            until("the end of a connection", || !is_established(server, client));
        }
        self.host.settle(std::mem::take(&mut self.unsettled));
        Ok(())
    }

    fn receive(&mut self, client: char) -> Result<Vec<u8>, String> {
        self.client(client)?.try_receive().ok_or_else(|| format!("{client} has no line to receive"))
    }

    fn check_silent(&mut self, client: char) -> Result<(), String> {
        self.settle()?;
        match self.clients.get_mut(&client).map(Client::pending) {
            Some(pending) if !pending.is_empty() => {
                Err(format!("{client} has something to receive: {}", super::show(&pending)))
            }
            _ => Ok(()),
        }
    }

    fn check_ended(&mut self, client: char) -> Result<(), String> {
        match self.client(client)?.try_receive() {
            None => Ok(()),
            Some(line) => Err(format!("{client} has something to receive: {}", super::show(&line))),
        }
    }
}

/// Whether the server's side of a connection has not heard of its end. Where there is no such table
/// this is not known, and messages are taken to arrive in their order.
fn is_established(server: u16, client: u16) -> bool {
    const ESTABLISHED: &str = "01";
    let Ok(table) = std::fs::read_to_string("/proc/net/tcp") else { return false };
    let port = |address: &str| u16::from_str_radix(address.rsplit(':').next()?, 16).ok();
    table.lines().any(|line| {
        let mut columns = line.split_whitespace().skip(1);
        let (local, remote, state) = (columns.next(), columns.next(), columns.next());
        local.and_then(port) == Some(server)
            && remote.and_then(port) == Some(client)
            && state == Some(ESTABLISHED)
    })
}

#[test]
#[cfg(target_os = "linux")]
fn the_table_of_connections_knows_who_is_connected() {
    let server = Server::start(&[]);
    let client = server.connect();
    let (server, port) = (server.address.port(), client.port());
    assert!(is_established(server, port) && !is_established(server, server));
    drop(client);
    until("the end of the connection", || !is_established(server, port));
}

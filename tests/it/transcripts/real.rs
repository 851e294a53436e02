//! The real process as the world of a transcript.
//!
//! Nothing here waits for a time to pass. Whether the server has dealt with everything is found out
//! by a connection of our own, the probe: the system tells the server of events in their order, so
//! once the probe is answered all earlier input has been read, and once it is answered again the
//! pass in which that happened is over and its answers are sent.

use super::World;
use crate::support::{Client, Server};
use jobcentre::server::Settings;
use std::collections::BTreeMap;
use std::time::Duration;

/// A server process, its clients, and the probe.
pub(super) struct Real {
    server: Server,
    probe: Client,
    /// Bytes sent since the probe was last answered.
    unsettled: usize,
    clients: BTreeMap<char, Client>,
}

impl Real {
    pub(super) fn start(settings: Settings) -> Self {
        let max_request = settings.max_request.to_string();
        let max_clients = (settings.max_clients + 1).to_string();
        let flags = ["--max-request", &max_request, "--max-clients", &max_clients];
        let server = Server::start(&flags);
        let probe = server.connect();
        Self { server, probe, unsettled: 0, clients: BTreeMap::new() }
    }

    fn client(&mut self, client: char) -> Result<&mut Client, String> {
        self.clients.get_mut(&client).ok_or_else(|| format!("{client} has closed"))
    }
}

impl World for Real {
    fn connect(&mut self, client: char) -> Result<(), String> {
        self.clients.insert(client, self.server.connect());
        Ok(())
    }

    fn send(&mut self, client: char, bytes: &[u8], last: bool) -> Result<(), String> {
        self.unsettled += bytes.len();
        let client = self.client(client)?;
        client.send_bytes(bytes);
        if last {
            client.half_close();
        }
        Ok(())
    }

    fn close(&mut self, client: char) -> Result<(), String> {
        self.clients.remove(&client);
        Ok(())
    }

    fn reset(&mut self, client: char) -> Result<(), String> {
        if let Some(client) = self.clients.remove(&client) {
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
        // Much input takes the server many passes.
        for _ in 0..2 + std::mem::take(&mut self.unsettled) / 4096 {
            self.probe.send("");
            let answer = self.probe.receive();
            assert!(answer.contains("is empty"), "the probe was answered {answer}");
        }
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
        self.check_silent(client)?;
        let ended = self.client(client)?.is_ended();
        if ended { Ok(()) } else { Err(format!("{client} is still connected")) }
    }
}

//! A server without sockets, each pass of which takes a millisecond.

use jobcentre::base::time::{Mono, Now};
use jobcentre::engine::Engine;
use jobcentre::model::driver::{Core, Protocol};
use jobcentre::model::id::ClientId;
use jobcentre::server::{Server, Settings};
use std::collections::HashMap;
use std::time::Duration;

pub(super) struct SimDriver {
    server: Server,
    now: Now,
    received: HashMap<ClientId, Vec<u8>>,
    /// How many passes there were, and the most bytes that one of them wrote for one client.
    pub(super) passes: usize,
    pub(super) most: usize,
}

impl SimDriver {
    pub(super) fn new() -> Self {
        let settings = Settings { max_request: 1_000, max_clients: 10, max_memory: None };
        let server = Server::new(settings, Engine::in_memory(1));
        Self { server, now: Now::default(), received: HashMap::new(), passes: 0, most: 0 }
    }

    pub(super) fn open(&mut self, protocol: Protocol) -> ClientId {
        self.server.handle_open(protocol, self.now).unwrap()
    }

    pub(super) fn close(&mut self, client: ClientId) {
        self.server.handle_reset(client, self.now);
    }

    pub(super) fn sleep(&mut self, time: Duration) {
        self.now.mono = self.now.mono.after(time);
    }

    pub(super) fn send(&mut self, client: ClientId, bytes: &[u8]) {
        assert!(self.server.wants_input(client));
        self.server.handle_input(client, bytes, self.now);
    }

    /// Ends a pass; gives what `client` has received since it was last asked for.
    pub(super) fn pass(&mut self, client: ClientId) -> Vec<u8> {
        self.passes += 1;
        self.server.finish_pass(self.now);
        while let Some(touched) = self.server.poll_touched() {
            let output = self.server.output(touched).to_vec();
            self.most = self.most.max(output.len());
            self.server.handle_sent(touched, output.len(), self.now);
            self.received.entry(touched).or_default().extend(output);
        }
        while self.server.poll_action().is_some() {}
        let end = Mono(self.now.mono.0 + 1_000_000);
        self.server.record_pass(self.now.mono, end, Some(500_000));
        self.received.remove(&client).unwrap_or_default()
    }

    pub(super) fn scrape(&mut self) -> String {
        self.scrape_with(|_| {})
    }

    /// The metrics, with something to be done between the passes.
    pub(super) fn scrape_with(&mut self, mut each: impl FnMut(&mut Self)) -> String {
        let client = self.open(Protocol::Http);
        self.send(client, b"GET /metrics HTTP/1.0\r\nAccept: application/openmetrics-text\r\n\r\n");
        let mut answer = Vec::new();
        while !answer.ends_with(b"# EOF\n") {
            answer.extend_from_slice(&self.pass(client));
            each(self);
        }
        let text = String::from_utf8(answer).unwrap();
        text.split_once("\r\n\r\n").unwrap().1.to_owned()
    }
}

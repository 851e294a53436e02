//! Any bytes, in any pieces, as commands of a beanstalkd client, while time passes: the pure server
//! never panics, its invariants hold, and what it replies does not depend on the pieces.

#![no_main]

use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::engine::Engine;
use jobcentre::model::driver::{Core, Protocol};
use jobcentre::model::id::ClientId;
use jobcentre::server::{Server, Settings};
use libfuzzer_sys::fuzz_target;
use std::time::Duration;

struct Harness {
    server: Server,
    client: ClientId,
    now: Now,
    replies: Vec<u8>,
    has_ended: bool,
}

impl Harness {
    fn new() -> Self {
        let settings = Settings { max_request: 512, max_clients: 10, max_memory: None };
        let mut server = Server::new(settings, Engine::in_memory(7)).with_body_limit(100);
        let now = Now { mono: Mono(1_000_000), wall: Wall(1_700_000_000_000) };
        let client = server.handle_open(Protocol::Beanstalkd, now).expect("there is room");
        Self { server, client, now, replies: Vec::new(), has_ended: false }
    }

    fn hand_over(&mut self, bytes: &[u8]) {
        if !self.has_ended && self.server.wants_input(self.client) {
            self.server.handle_input(self.client, bytes, self.now);
        }
        self.pass();
    }

    /// Passes until nothing is to be done now.
    fn pass(&mut self) {
        loop {
            self.server.finish_pass(self.now);
            while self.server.poll_touched().is_some() {}
            let output = self.server.output(self.client).to_vec();
            self.replies.extend_from_slice(&output);
            self.server.handle_sent(self.client, output.len(), self.now);
            while self.server.poll_notice().is_some() {}
            while self.server.poll_action().is_some() {
                self.has_ended = true;
            }
            self.server.check_invariants();
            let due = self.server.poll_timeout(self.now).is_some_and(|at| at <= self.now.mono);
            if !due && output.is_empty() {
                return;
            }
        }
    }

    /// The whole stream in pieces, and the end of it.
    fn play(stream: &[u8], piece: usize) -> Vec<u8> {
        let mut harness = Self::new();
        for bytes in stream.chunks(piece) {
            harness.hand_over(bytes);
        }
        let length = harness.replies.len();
        harness.now.mono = harness.now.mono.after(Duration::from_secs(100));
        harness.pass();
        harness.replies.truncate(length);
        if !harness.has_ended {
            harness.server.handle_reset(harness.client, harness.now);
            harness.pass();
        }
        harness.replies
    }
}

// The first byte says how long the pieces are at most, the rest is the stream.
fuzz_target!(|data: &[u8]| {
    let Some((&head, stream)) = data.split_first() else { return };
    let stream = &stream[..stream.len().min(16 * 1024)];
    let whole = Harness::play(stream, stream.len().max(1));
    let pieces = Harness::play(stream, usize::from(head) + 1);
    assert_eq!(whole, pieces, "the replies depend on the pieces");
});

//! Any bytes, in any pieces, as messages of the processor, while time passes: the pure server never
//! panics, its invariants hold, each output line is one JSON object, there are no more log lines
//! than input lines and workers, and the end of the input ends the connection.

#![no_main]

use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::engine::Engine;
use jobcentre::model::driver::{Core, Protocol};
use jobcentre::model::id::ClientId;
use jobcentre::server::{Server, Settings};
use libfuzzer_sys::fuzz_target;
use serde_json::Value as Json;
use std::time::Duration;

const MAX_REQUEST: usize = 512;

struct Harness {
    server: Server,
    client: ClientId,
    now: Now,
    lines: usize,
    remarks: usize,
}

impl Harness {
    fn new() -> Self {
        let settings = Settings { max_request: MAX_REQUEST, max_clients: 10, max_memory: None };
        let mut server = Server::new(settings, Engine::in_memory(7));
        let now = Now { mono: Mono(1_000_000), wall: Wall(1_700_000_000_000) };
        let client = server.handle_open(Protocol::Processor, now).expect("there is room");
        let mut harness = Self { server, client, now, lines: 0, remarks: 0 };
        harness.pass();
        harness
    }

    fn hand_over(&mut self, bytes: &[u8]) {
        self.lines += bytes.iter().filter(|&&byte| byte == b'\n').count();
        self.server.handle_input(self.client, bytes, self.now);
        self.pass();
    }

    fn sleep(&mut self, ms: u64) {
        self.now.mono = self.now.mono.after(Duration::from_millis(ms));
        self.now.wall.0 += ms;
        self.pass();
    }

    /// Passes until nothing is to be done now.
    fn pass(&mut self) {
        loop {
            self.server.finish_pass(self.now);
            while self.server.poll_touched().is_some() {}
            let output = self.server.output(self.client).to_vec();
            assert!(output.is_empty() || output.ends_with(b"\n"), "half a message");
            for line in output.split_inclusive(|&byte| byte == b'\n') {
                let message: Json = serde_json::from_slice(line).expect("a message is JSON");
                assert!(message["topic"].is_string(), "a message without a topic");
            }
            self.server.handle_sent(self.client, output.len(), self.now);
            while self.server.poll_notice().is_some() {
                self.remarks += 1;
            }
            self.server.check_invariants();
            let due = self.server.poll_timeout(self.now).is_some_and(|at| at <= self.now.mono);
            if !due && output.is_empty() {
                return;
            }
        }
    }

    fn end(mut self) {
        self.server.handle_eof(self.client, self.now);
        self.pass();
        assert_eq!(self.server.connections(), 0, "a connection outlives its end");
        assert_eq!(self.server.counts().waiters, 0, "a take outlives its client");
        // A line may be refused and its worker be forgotten; the last one has no end.
        assert!(self.remarks <= 3 * (self.lines + 1), "more is said than there was to say");
    }
}

// The input is a list of pieces: one byte says how long a piece is at most, or how much time
// passes.
fuzz_target!(|data: &[u8]| {
    let mut harness = Harness::new();
    let mut rest = data;
    while let Some((&head, more)) = rest.split_first() {
        if head & 3 == 3 {
            harness.sleep(u64::from(head >> 2) * 500);
            rest = more;
            continue;
        }
        let wanted = match head >> 2 {
            63 => more.len(),
            short => usize::from(short) * usize::from(short),
        };
        let (piece, left) = more.split_at(wanted.min(more.len()));
        harness.hand_over(piece);
        rest = left;
    }
    harness.end();
});

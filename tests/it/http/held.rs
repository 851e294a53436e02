//! Gated replies while the client has stopped sending.

use crate::journal::disk::SimDisk;
use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::journal::{JournalOptions, SyncMode};
use jobcentre::model::driver::{Action, Core, Protocol};
use jobcentre::model::id::ClientId;
use jobcentre::server::{Server, Settings};

const NOW: Now = Now { mono: Mono(1_000), wall: Wall(1_700_000_000_000) };

struct Harness {
    server: Server,
    disk: SimDisk,
}

impl Harness {
    fn new() -> Self {
        let disk = SimDisk::new(3);
        let options = JournalOptions { segment_bytes: 65_536, sync: SyncMode::Always, salt: 7 };
        let engine = disk.start_engine(&options, 1, NOW);
        let settings = Settings { max_request: 10_000, max_clients: 5, max_memory: None };
        let mut harness = Self { server: Server::new(settings, engine), disk };
        harness.pass();
        harness
    }

    /// The disk does all that it was asked.
    fn pass(&mut self) {
        for _ in 0..5 {
            self.server.finish_pass(NOW);
            self.server.check_invariants();
            self.disk.work(10);
        }
    }

    fn say(&mut self, protocol: Protocol, text: &str) -> ClientId {
        let client = self.server.handle_open(protocol, NOW).unwrap();
        self.server.handle_input(client, text.as_bytes(), NOW);
        self.server.finish_pass(NOW);
        self.server.check_invariants();
        client
    }

    fn end_of_input(&mut self, client: ClientId) {
        self.server.handle_peer_closed(client, NOW);
        self.server.check_invariants();
        self.server.handle_eof(client, NOW);
        self.server.finish_pass(NOW);
        self.server.check_invariants();
        assert_eq!(self.heard(client), "", "it was not durable yet");
    }

    fn heard(&self, client: ClientId) -> String {
        String::from_utf8_lossy(self.server.output(client)).into_owned()
    }

    /// It has got its answer, and that was the end of it.
    fn take(&mut self, client: ClientId) -> String {
        self.pass();
        let (heard, count) = (self.heard(client), self.server.output(client).len());
        self.server.handle_sent(client, count, NOW);
        self.server.finish_pass(NOW);
        self.server.check_invariants();
        let mut actions = std::iter::from_fn(|| self.server.poll_action());
        assert!(actions.any(|action| action == Action::Close(client)), "it is not let go");
        heard
    }
}

#[test]
fn long_poll_is_answered_after_a_half_close() {
    let mut harness = Harness::new();
    let job = "\u{82}\u{a4}name\u{a1}a\u{a8}argument\u{1}";
    let bytes: Vec<u8> = job.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
    let pusher = harness.server.handle_open(Protocol::Http, NOW).unwrap();
    let head =
        format!("POST /job HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", bytes.len());
    harness.server.handle_input(pusher, &[head.as_bytes(), &bytes].concat(), NOW);
    harness.pass();
    assert!(harness.heard(pusher).starts_with("HTTP/1.1 201 "), "{}", harness.heard(pusher));
    let poll = "GET /job/1/polling?timeout=5 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let poller = harness.say(Protocol::Http, poll);
    harness.say(Protocol::Http, "DELETE /job/1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    harness.end_of_input(poller);
    let answer = harness.take(poller);
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\u{fffd}"), "{answer}");
}

#[test]
fn waiting_get_is_answered_after_a_half_close() {
    let mut harness = Harness::new();
    let get = r#"{"request":"get","queues":["q"],"wait":true}"#;
    let getter = harness.say(Protocol::JobCentre, &format!("{get}\n"));
    let put = r#"{"request":"put","queue":"q","job":{},"pri":1}"#;
    harness.say(Protocol::JobCentre, &format!("{put}\n"));
    harness.end_of_input(getter);
    assert_eq!(
        harness.take(getter),
        "{\"status\":\"ok\",\"id\":1,\"job\":{},\"pri\":1,\"queue\":\"q\"}\n"
    );
}

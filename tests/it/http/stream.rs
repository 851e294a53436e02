//! Event streams: over sockets of the real process, and over virtual time.

use super::real::answer;
use crate::support::{Client, Server as Process, until};
use jobcentre::base::api_limits::{FRAMES_PER_TURN, STREAMS_MAX, TOPICS_MAX};
use jobcentre::base::limits::{FLUSH_TIMEOUT, HTTP_READER_TIMEOUT};
use jobcentre::base::time::Now;
use jobcentre::engine::Engine;
use jobcentre::model::driver::{Action, Core, Protocol};
use jobcentre::model::id::ClientId;
use jobcentre::server::{Server, Settings};
use std::time::Duration;

fn request(topics: &str, version: &str) -> Vec<u8> {
    format!("GET /api/v1/stream?topics={topics} HTTP/{version}\r\nHost: localhost\r\n\r\n")
        .into_bytes()
}

/// A stream, and the head of its answer.
fn open(server: &Process, topics: &str) -> (Client, Vec<String>) {
    let mut client = Client::connect(server.address_of("http"));
    client.send_bytes(&request(topics, "1.1"));
    let mut head = vec![client.receive().trim_end().to_owned()];
    while head.last().is_some_and(|line| !line.is_empty()) {
        head.push(client.receive().trim_end().to_owned());
    }
    (client, head)
}

/// The lines of the next chunk.
fn chunk(client: &mut Client) -> Vec<String> {
    let size = client.receive();
    let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
    let text = String::from_utf8(client.receive_count(size)).unwrap();
    assert_eq!(client.receive(), "\r");
    text.lines().map(str::to_owned).collect()
}

fn data(line: &str) -> serde_json::Value {
    serde_json::from_str(line.strip_prefix("data: ").expect("a line of data")).unwrap()
}

#[test]
fn stream_shows_the_server_and_queues_every_second() {
    let server = Process::start(&["--http", ":0"]);
    let mut worker = server.connect();
    worker.send(r#"{"request":"put","queue":"a/b","job":{},"pri":1}"#);
    worker.receive();
    let (mut client, head) = open(&server, "overview,queue:a%2Fb,queue:none");
    assert_eq!(head[0], "HTTP/1.1 200 OK");
    for field in ["Content-Type: text/event-stream", "Cache-Control: no-store"] {
        assert!(head.iter().any(|line| line == field), "{head:?}");
    }
    let first = chunk(&mut client);
    assert_eq!((&*first[0], &*first[1]), ("retry: 2000", ""));
    assert_eq!((&*first[2], &*first[5], &*first[8]), {
        ("event: overview", "event: queue", "event: queue")
    });
    let overview = data(&first[3]);
    assert_eq!((&overview["jobs"], &overview["counts"]["ready"]), (&1.into(), &1.into()));
    assert_eq!(overview["listeners"].as_array().unwrap().len(), 2);
    let queue = data(&first[6]);
    assert_eq!((&queue["name"], &queue["counts"]["ready"]), (&"a/b".into(), &1.into()));
    assert_eq!(data(&first[9]), serde_json::json!({"name": "none", "missing": true}));
    worker.send(r#"{"request":"put","queue":"a/b","job":{},"pri":1}"#);
    worker.receive();
    let second = chunk(&mut client);
    assert_eq!((&*second[0], &data(&second[1])["jobs"]), ("event: overview", &2.into()));
    assert_eq!(data(&second[4])["counts"]["ready"], 2);
}

#[test]
fn streams_have_places_and_free_them() {
    let server = Process::start(&["--http", ":0"]);
    let mut streams: Vec<Client> = (0..STREAMS_MAX).map(|_| open(&server, "overview").0).collect();
    let mut late = Client::connect(server.address_of("http"));
    late.send_bytes(&request("overview", "1.1"));
    let (status, body) = answer(&mut late);
    let problem: serde_json::Value = serde_json::from_str(&body).unwrap();
    let kind = "/problems/too-many-streams";
    assert_eq!((&*status, &problem["type"]), ("HTTP/1.1 503 Service Unavailable", &kind.into()));
    // The connection goes on, and gets the place of one that has left.
    streams.pop();
    until("a free place", || {
        late.send_bytes(b"GET /api/v1/stream?topics=overview HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let status = late.receive();
        if status.trim_end() == "HTTP/1.1 200 OK" {
            return true;
        }
        let mut length = 0;
        loop {
            let field = late.receive();
            if let Some(value) = field.strip_prefix("Content-Length: ") {
                length = value.trim_end().parse().unwrap();
            }
            if field == "\r" {
                break;
            }
        }
        late.receive_count(length);
        false
    });
}

#[test]
fn streams_end_with_the_server_and_with_the_client() {
    let mut server = Process::start(&["--http", ":0"]);
    let (mut client, _) = open(&server, "overview");
    chunk(&mut client);
    let (old, _) = {
        let mut client = Client::connect(server.address_of("http"));
        client.send_bytes(&request("queue:q", "1.0"));
        let status = client.receive();
        (client, status)
    };
    let (half, _) = open(&server, "overview");
    half.stream().shutdown(std::net::Shutdown::Write).unwrap();
    assert!(half.receive_all().ends_with("\r\n0\r\n\r\n"));
    server.signal("TERM");
    assert!(client.receive_all().ends_with("0\r\n\r\n"));
    let text = old.receive_all();
    assert!(text.contains("\r\n\r\nretry: 2000\n\nevent: queue\ndata: {\"name\":\"q\""), "{text}");
    assert!(server.wait().success());
}

struct Harness {
    server: Server,
    now: Now,
}

impl Harness {
    fn new() -> Self {
        let settings = Settings { max_request: 1_000, max_clients: 100, max_memory: None };
        Self { server: Server::new(settings, Engine::in_memory(7)), now: Now::default() }
    }

    fn open(&mut self, topics: &str) -> ClientId {
        let client = self.server.handle_open(Protocol::Http, self.now).unwrap();
        self.server.handle_input(client, &request(topics, "1.1"), self.now);
        self.pass();
        client
    }

    fn pass(&mut self) {
        self.server.begin_pass(self.now);
        self.server.finish_pass(self.now);
        while self.server.poll_touched().is_some() {}
        self.server.check_invariants();
    }

    fn wait(&mut self, time: Duration) {
        self.now.mono = self.now.mono.after(time);
        self.pass();
    }

    /// The client reads all that there is.
    fn read(&mut self, client: ClientId) -> String {
        let text = String::from_utf8(self.server.output(client).to_vec()).unwrap();
        self.server.handle_sent(client, text.len(), self.now);
        self.pass();
        text
    }
}

#[test]
fn slow_reader_misses_frames() {
    let mut harness = Harness::new();
    let (fast, slow) = (harness.open("overview"), harness.open("overview"));
    let unsent = harness.server.output(slow).len();
    let mut frames = 0;
    for second in 1..10 {
        assert!(harness.server.poll_timeout(harness.now).is_some());
        frames += harness.read(fast).matches("event: overview").count();
        harness.wait(Duration::from_secs(1));
        assert_eq!(frames, second);
        assert_eq!(harness.server.output(slow).len(), unsent, "frames are kept for a slow reader");
    }
    assert_eq!(harness.read(slow).matches("event: overview").count(), 1);
    harness.wait(Duration::from_secs(1));
    assert_eq!(harness.read(slow).matches("event: overview").count(), 1);
}

#[test]
fn reader_that_reads_nothing_is_disconnected() {
    let mut harness = Harness::new();
    let client = harness.open("queue:q");
    let mut actions = Vec::new();
    let end = harness.now.mono.after(HTTP_READER_TIMEOUT + FLUSH_TIMEOUT + Duration::from_secs(5));
    while harness.now.mono < end {
        harness.wait(Duration::from_secs(1));
        actions.extend(std::iter::from_fn(|| harness.server.poll_action()));
    }
    assert_eq!(actions, [Action::Close(client)]);
}

#[test]
fn frames_are_shared_and_stop_with_their_readers() {
    let mut harness = Harness::new();
    let clients: Vec<ClientId> = (0..8).map(|_| harness.open("overview,queue:q")).collect();
    let texts: Vec<String> = clients.iter().map(|&client| harness.read(client)).collect();
    let body = |text: &String| text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    assert!(texts.iter().all(|text| body(text) == body(&texts[0])));
    assert_eq!(texts[0].matches("\nevent: ").count(), 2);
    for &client in &clients[1..] {
        harness.server.handle_reset(client, harness.now);
    }
    harness.server.handle_peer_closed(clients[0], harness.now);
    harness.pass();
    assert!(harness.read(clients[0]).ends_with("0\r\n\r\n"));
    harness.server.handle_eof(clients[0], harness.now);
    harness.pass();
    assert_eq!(harness.server.poll_timeout(harness.now), None, "frames are made for no stream");
}

#[test]
fn frames_of_a_pass_are_bounded() {
    let mut harness = Harness::new();
    let topics: Vec<String> = (0..TOPICS_MAX).map(|number| format!("queue:{number}")).collect();
    let client = harness.open(&topics.join(","));
    let turns = TOPICS_MAX.div_ceil(FRAMES_PER_TURN as usize);
    // The turn of the input and that of its pass are over.
    for _ in 2..turns {
        assert!(!text_of(&harness, client).contains("event: queue"), "they are made in one pass");
        harness.pass();
    }
    assert_eq!(harness.read(client).matches("event: queue").count(), TOPICS_MAX);
}

fn text_of(harness: &Harness, client: ClientId) -> String {
    String::from_utf8(harness.server.output(client).to_vec()).unwrap()
}

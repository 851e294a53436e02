//! Long replies: in pieces, from one snapshot, in bounded memory.

use jobcentre::base::buf::{Input, progress};
use jobcentre::base::limits::{
    HTTP_CHUNK_BYTES, HTTP_READER_TIMEOUT, OUTPUT_HIGH_WATER_BYTES, READ_BUDGET_BYTES,
    ROWS_PER_CHUNK,
};
use jobcentre::base::time::Now;
use jobcentre::engine::Engine;
use jobcentre::model::driver::{Action, Core, Protocol};
use jobcentre::model::id::ClientId;
use jobcentre::server::{Server, Settings};
use jobcentre::wire::http::{Body, Framing, Piece, next_response};

const JOBS: usize = 100_000;

/// What a long answer may take at one time: what is unsent when the last piece is written, and it.
const MOST: usize = OUTPUT_HIGH_WATER_BYTES + 2 * HTTP_CHUNK_BYTES;

struct Harness {
    server: Server,
    now: Now,
}

impl Harness {
    /// A server with many jobs in a queue that is not indexed.
    fn full() -> Self {
        Self::with(JOBS, 0)
    }

    /// A server with `jobs` jobs whose payloads have `bytes` bytes and a few more.
    fn with(jobs: usize, payload: usize) -> Self {
        let settings = Settings { max_request: 10_000, max_clients: 10, max_memory: None };
        let mut simulation =
            Self { server: Server::new(settings, Engine::in_memory(1)), now: Now::default() };
        let putter = simulation.open(Protocol::JobCentre);
        let payload = "x".repeat(payload);
        let put = format!(
            "{{\"request\":\"put\",\"queue\":\"q\",\"pri\":1,\"job\":{{\"a\":\"{payload}\"}}}}\n"
        );
        for bytes in put.repeat(jobs).as_bytes().chunks(READ_BUDGET_BYTES) {
            simulation.server.handle_input(putter, bytes, simulation.now);
            simulation.pass(putter, usize::MAX);
        }
        simulation.server.handle_reset(putter, simulation.now);
        simulation
    }

    fn open(&mut self, protocol: Protocol) -> ClientId {
        self.server.handle_open(protocol, self.now).unwrap()
    }

    fn ask(&mut self, client: ClientId, request: &str) {
        self.server.handle_input(client, request.as_bytes(), self.now);
    }

    /// Ends a pass, in which the client reads at most this many bytes. Returns them.
    fn pass(&mut self, client: ClientId, most: usize) -> Vec<u8> {
        self.server.finish_pass(self.now);
        while self.server.poll_touched().is_some() {}
        let unsent = self.server.output(client);
        assert!(unsent.len() <= MOST, "{} bytes are unsent", unsent.len());
        let got = unsent[..unsent.len().min(most)].to_vec();
        self.server.handle_sent(client, got.len(), self.now);
        got
    }

    fn is_busy(&self) -> bool {
        self.server.poll_timeout(self.now).is_some_and(|at| at <= self.now.mono)
    }
}

/// The body of an answer in chunks.
fn body_of(answer: &[u8]) -> Vec<u8> {
    let mut input = Input::new(answer);
    let head = next_response(&mut input, false).unwrap().unwrap();
    assert_eq!((head.status, head.framing), (200, Framing::Chunked));
    let (mut body, mut bytes) = (Body::new(head.framing, u64::MAX).unwrap(), Vec::new());
    while let Piece::Data(piece) = body.next(&mut input).unwrap() {
        bytes.extend_from_slice(piece);
    }
    assert!(body.ends_well() && progress(&input).0 == answer.len(), "one whole answer");
    bytes
}

fn ids(body: &[u8]) -> Vec<u64> {
    let json: serde_json::Value = serde_json::from_slice(body).unwrap();
    json["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect()
}

#[test]
fn slow_reader_of_a_long_list_gets_one_snapshot() {
    let mut simulation = Harness::full();
    let reader = simulation.open(Protocol::Http);
    let list = "GET /api/v0/queue/q/job HTTP/1.1\r\nHost: localhost\r\n\r\n";
    simulation.ask(reader, list);
    // Behind it another request, which waits.
    simulation.ask(reader, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut answer = Vec::new();
    while answer.is_empty() {
        answer.extend(simulation.pass(reader, 10_000));
    }
    // What happens from now on is not in it.
    let other = simulation.open(Protocol::JobCentre);
    for id in (1..=JOBS).step_by(2) {
        simulation.ask(other, &format!("{{\"request\":\"delete\",\"id\":{id}}}\n"));
        simulation.pass(other, usize::MAX);
    }
    let mut passes = 0;
    loop {
        let got = simulation.pass(reader, 10_000);
        if got.is_empty() && !simulation.is_busy() {
            break;
        }
        answer.extend(got);
        passes += 1;
    }
    assert!(passes > 100, "the reader was slow");
    let health = memchr::memmem::rfind(&answer, b"HTTP/1.1 200 OK").unwrap();
    assert!(answer.ends_with(b"{\"status\":\"ok\",\"version\":\"0.1.0\"}\n"));
    assert_eq!(ids(&body_of(&answer[..health])), (1..=JOBS as u64).collect::<Vec<_>>());
    simulation.server.check_invariants();
}

#[test]
fn details_of_many_jobs_are_sent_in_chunks() {
    let mut simulation = Harness::with(ROWS_PER_CHUNK, 1000);
    let reader = simulation.open(Protocol::Http);
    let query =
        "POST /api/v0/queue/q/query_jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n";
    simulation.ask(reader, &format!("{query}{{}}"));
    let mut answer = Vec::new();
    loop {
        answer.extend(simulation.pass(reader, usize::MAX));
        if !simulation.is_busy() {
            break;
        }
    }
    let body = body_of(&answer);
    assert_eq!(ids(&body).len(), ROWS_PER_CHUNK);
    assert!(body.len() > 5 * HTTP_CHUNK_BYTES, "it is long");
    let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(json["jobs"][ROWS_PER_CHUNK - 1]["events"][0][0], "job_created");
}

#[test]
fn client_that_reads_nothing_of_a_long_reply_is_closed() {
    let mut simulation = Harness::full();
    let reader = simulation.open(Protocol::Http);
    simulation.ask(reader, "GET /api/v0/queue/q/job HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for _ in 0..1000 {
        simulation.pass(reader, 0);
    }
    assert!(!simulation.is_busy(), "nothing can be done before it reads");
    assert!(simulation.server.output(reader).len() > OUTPUT_HIGH_WATER_BYTES);
    simulation.now.mono = simulation.now.mono.after(HTTP_READER_TIMEOUT);
    simulation.server.finish_pass(simulation.now);
    assert_eq!(simulation.server.poll_action(), Some(Action::Close(reader)));
    assert_eq!(simulation.server.connections(), 0);
    simulation.server.check_invariants();
}

#[test]
fn http_1_0_client_gets_a_long_reply_until_close() {
    let mut simulation = Harness::full();
    let reader = simulation.open(Protocol::Http);
    simulation.ask(reader, "GET /api/v0/queue/q/job HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let mut answer = Vec::new();
    let mut ended = false;
    while !ended {
        answer.extend(simulation.pass(reader, usize::MAX));
        ended = simulation.server.poll_action() == Some(Action::ShutdownWrite(reader));
    }
    let mut input = Input::new(&answer);
    let head = next_response(&mut input, false).unwrap().unwrap();
    assert_eq!((head.framing, head.keep_alive), (Framing::UntilEnd, false));
    assert_eq!(ids(input.unread()).len(), JOBS);
}

//! Any bytes, in any pieces, over a few connections: the pure server never panics, its invariants
//! hold, and every line gets one reply, which is one line of JSON with a status. A client whose
//! first line is of another protocol is rejected.

#![no_main]

use jobcentre::base::time::Now;
use jobcentre::engine::Engine;
use jobcentre::model::driver::{Core, Incident, Protocol};
use jobcentre::model::id::ClientId;
use jobcentre::server::{Server, Settings};
use jobcentre::wire::json::{Fields, Parser, Value};
use libfuzzer_sys::fuzz_target;

const MAX_REQUEST: usize = 512;

struct Status;

impl Fields<2> for Status {
    fn number(name: &[u8]) -> Option<usize> {
        [&b"status"[..], b"error"].iter().position(|wanted| *wanted == name)
    }
}

/// One connection: what was handed over, and how many replies came.
struct Client {
    id: ClientId,
    lines: usize,
    /// Bytes since the last line end, without a trailing `\r`: beyond the limit they get a reply.
    begun: Vec<u8>,
    reported: bool,
    replies: usize,
    gone: bool,
}

impl Client {
    fn count(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let whole = piece.last() == Some(&b'\n');
            self.begun.extend_from_slice(piece.strip_suffix(b"\n").unwrap_or(piece));
            let line = self.begun.strip_suffix(b"\r").unwrap_or(&self.begun);
            let too_long = line.len() > MAX_REQUEST;
            // A line counts when it ends, or as soon as it is too long.
            if (whole || too_long) && !self.reported {
                self.lines += 1;
                self.reported = true;
            }
            if whole {
                self.reported = false;
                self.begun.clear();
            }
        }
    }
}

struct Harness {
    server: Server,
    parser: Parser,
    clients: Vec<Client>,
}

impl Harness {
    fn new() -> Self {
        let settings = Settings { max_request: MAX_REQUEST, max_clients: 10, max_memory: None };
        let mut server = Server::new(settings, Engine::in_memory(7));
        let clients = (0..3).map(|_| {
            let id =
                server.handle_open(Protocol::JobCentre, Now::default()).expect("there is room");
            Client { id, lines: 0, begun: Vec::new(), reported: false, replies: 0, gone: false }
        });
        let clients = clients.collect();
        Self { server, parser: Parser::default(), clients }
    }

    fn hand_over(&mut self, number: usize, bytes: &[u8]) {
        let number = number % self.clients.len();
        let client = &mut self.clients[number];
        client.count(bytes);
        self.server.handle_input(client.id, bytes, Now::default());
        self.pass();
        let now = Now::default();
        while self.server.poll_timeout(now).is_some_and(|at| at <= now.mono) {
            self.pass();
        }
    }

    /// Takes the output of all clients and checks every reply.
    fn pass(&mut self) {
        self.server.finish_pass(Now::default());
        while self.server.poll_touched().is_some() {}
        self.server.check_invariants();
        while let Some(notice) = self.server.poll_notice() {
            let known = |client: &&mut Client| Some(client.id) == notice.client;
            let client = self.clients.iter_mut().find(known).expect("a client is in trouble");
            assert_eq!(notice.incident, Incident::OtherProtocol);
            client.gone = true;
        }
        for client in &mut self.clients {
            let output = self.server.output(client.id).to_vec();
            assert!(output.is_empty() || output.ends_with(b"\n"), "half a reply");
            for reply in output.split_inclusive(|&byte| byte == b'\n') {
                let mut values = [Value::Absent; 2];
                let parsed = self.parser.parse_exactly::<Status, 2>(reply, &mut values);
                parsed.expect("a reply is a JSON object");
                let [status, error] = values;
                let fits = match status {
                    Value::String("error") => matches!(error, Value::String(_)),
                    Value::String("ok" | "no-job") => error == Value::Absent,
                    _ => false,
                };
                assert!(fits, "a reply without a fitting status");
                client.replies += 1;
            }
            self.server.handle_sent(client.id, output.len(), Now::default());
        }
    }

    /// Exactly the clients without a reply are waiters, and all connections end.
    fn end(mut self) {
        let served = || self.clients.iter().filter(|client| !client.gone);
        for client in served() {
            assert!(client.replies <= client.lines, "a reply without a request");
        }
        let waiters = self.server.counts().waiters;
        let missing = served().filter(|client| client.replies < client.lines).count();
        assert_eq!(waiters, missing, "exactly the clients without a reply wait");
        for client in &self.clients {
            self.server.handle_eof(client.id, Now::default());
        }
        self.server.finish_pass(Now::default());
        self.server.check_invariants();
        assert_eq!(self.server.connections(), 0, "a connection outlives its end");
        assert_eq!(self.server.counts().waiters, 0, "a take outlives its client");
    }
}

// The input is a list of pieces: one byte says for whom the piece is and how long it is at most.
fuzz_target!(|data: &[u8]| {
    let mut harness = Harness::new();
    let mut rest = data;
    while let Some((&head, more)) = rest.split_first() {
        let wanted = match head >> 2 {
            63 => more.len(),
            short => usize::from(short) * usize::from(short),
        };
        let (piece, left) = more.split_at(wanted.min(more.len()));
        harness.hand_over(usize::from(head & 3), piece);
        rest = left;
    }
    harness.end();
});

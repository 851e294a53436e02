//! What a client sends before it has said who it is: none of it reaches the store, and nothing of
//! the store reaches the client. The fuzz target `unauthenticated` plays the same.

use jobcentre::access::{Digest, Permission, UserSpec, Users};
use jobcentre::base::limits::{UNAUTHENTICATED_MAX, UNAUTHENTICATED_PER_ADDRESS_MAX};
use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::journal::LogStats;
use jobcentre::model::command::Command;
use jobcentre::model::consumer::ConsumerCommand;
use jobcentre::model::driver::{Action, Core, LogLine, Protocol};
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::peer::{Peer, PeerAddress};
use jobcentre::model::reply::Completion;
use jobcentre::model::stats::ServerStats;
use jobcentre::server::{Server, Settings};
use jobcentre::store::Counts;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// The protocols in which a client can say who it is, or has to be known by its connection.
pub(crate) const PROTOCOLS: [Protocol; 4] =
    [Protocol::JobCentre, Protocol::Beanstalkd, Protocol::Http, Protocol::Pinpriq];

/// What only the owner may see: a payload, and the name of a queue.
const SECRETS: [&str; 2] = ["Xq7-payload", "Xq7-queue"];

/// An engine that permits no command while it is closed to all.
#[derive(Debug)]
struct ClosedEngine {
    engine: Engine,
    is_closed_to_all: Rc<Cell<bool>>,
}

impl CommandExecutor for ClosedEngine {
    fn submit(&mut self, ticket: Ticket, command: &Command<'_>, now: Now) {
        // The server says this for each client of beanstalkd that ends.
        let is_leave = matches!(command, Command::Consumer(ConsumerCommand::Leave { .. }));
        assert!(is_leave || !self.is_closed_to_all.get(), "{command:?} has reached the store");
        self.engine.submit(ticket, command, now);
    }

    fn set_draining(&mut self, draining: bool) {
        assert!(!self.is_closed_to_all.get(), "a client has drained the server");
        self.engine.set_draining(draining);
    }

    fn take_work(&mut self) -> usize {
        self.engine.take_work()
    }

    fn noted_work(&self) -> usize {
        self.engine.noted_work()
    }

    fn is_deferred(&self, ticket: Ticket) -> bool {
        self.engine.is_deferred(ticket)
    }

    fn cancel(&mut self, ticket: Ticket, now: Now) {
        self.engine.cancel(ticket, now);
    }

    fn disconnect_client(&mut self, client: ClientId, now: Now) {
        self.engine.disconnect_client(client, now);
    }

    fn poll_disconnected(&mut self) -> Option<ClientId> {
        self.engine.poll_disconnected()
    }

    fn half_close_client(&mut self, client: ClientId) {
        self.engine.half_close_client(client);
    }

    fn sample(&mut self, now: Now) {
        self.engine.sample(now);
    }

    fn expire(&mut self, now: Now) {
        self.engine.expire(now);
    }

    fn commit(&mut self, now: Now) {
        self.engine.commit(now);
    }

    fn set_buffer_bytes(&mut self, bytes: u64) {
        self.engine.set_buffer_bytes(bytes);
    }

    fn poll_completion(&mut self) -> Option<Completion<'_>> {
        self.engine.poll_completion()
    }

    fn poll_timeout(&self) -> Option<Mono> {
        self.engine.poll_timeout()
    }

    fn poll_log_line(&mut self) -> Option<LogLine> {
        self.engine.poll_log_line()
    }

    fn fatal_error(&self) -> Option<String> {
        self.engine.fatal_error()
    }

    fn awaits_disk(&self) -> bool {
        self.engine.awaits_disk()
    }

    fn close(&mut self, now: Now) {
        self.engine.close(now);
    }

    fn is_closed(&self) -> bool {
        self.engine.is_closed()
    }

    fn stats(&self, stats: &mut ServerStats) {
        self.engine.stats(stats);
    }

    fn journal_stats(&self) -> Option<LogStats> {
        self.engine.journal_stats()
    }

    fn counts(&self) -> Counts {
        self.engine.counts()
    }

    fn reserved_by(&self, client: ClientId, most: usize) -> usize {
        self.engine.reserved_by(client, most)
    }

    fn job_queue(&self, id: JobId, client: ClientId) -> Option<(&[u8], bool)> {
        self.engine.job_queue(id, client)
    }

    fn check_invariants(&self) {
        self.engine.check_invariants();
    }

    fn is_waiting(&self, ticket: Ticket) -> bool {
        self.engine.is_waiting(ticket)
    }
}

struct Harness {
    server: Server<ClosedEngine>,
    is_closed_to_all: Rc<Cell<bool>>,
    now: Now,
    ended: Vec<ClientId>,
}

impl Harness {
    /// A server with one user, of the token `token`.
    fn new(token: &[u8]) -> Self {
        let settings = Settings { max_request: 8192, max_clients: 2_000, max_memory: None };
        let is_closed_to_all = Rc::new(Cell::new(false));
        let engine = Engine::in_memory(7);
        let engine = ClosedEngine { engine, is_closed_to_all: Rc::clone(&is_closed_to_all) };
        let mut server = Server::new(settings, engine);
        let now = Now { mono: Mono(1_000_000), wall: Wall(1_700_000_000_000) };
        let allow = ["put:*", "take:*", "peek:*", "manage:*", "observe", "admin"];
        let users = Users::new(vec![UserSpec {
            name: "owner".into(),
            tokens: vec![Digest::of(token)],
            certificates: Vec::new(),
            uids: Vec::new(),
            allow: allow.map(|text| Permission::parse(text).expect("a right")).into(),
            protocols: None,
            until: None,
        }]);
        server.set_users(users.expect("one user"), now);
        Self { server, is_closed_to_all, now, ended: Vec::new() }
    }

    fn connect(&mut self, protocol: Protocol) -> ClientId {
        self.connect_from(protocol, 0x20)
    }

    /// A client of one of the networks.
    fn connect_from(&mut self, protocol: Protocol, network: u8) -> ClientId {
        let client = self.server.handle_open(protocol, self.now).expect("there is room");
        let address = Some(PeerAddress([network; 16]));
        let peer = Peer { address, port: 9, ..Peer::default() };
        self.server.handle_peer(client, peer, self.now);
        self.pass();
        client
    }

    /// Hands bytes over, and returns what the client is sent.
    fn ask(&mut self, client: ClientId, bytes: &[u8]) -> Vec<u8> {
        if !self.ended.contains(&client) && self.server.wants_input(client) {
            self.server.handle_input(client, bytes, self.now);
        }
        let mut answers = Vec::new();
        loop {
            self.pass();
            if self.ended.contains(&client) {
                return answers;
            }
            let output = self.server.output(client).to_vec();
            self.server.handle_sent(client, output.len(), self.now);
            if output.is_empty() {
                return answers;
            }
            answers.extend_from_slice(&output);
        }
    }

    /// Passes until nothing is to be done now.
    fn pass(&mut self) {
        for _ in 0..1000 {
            self.server.finish_pass(self.now);
            while self.server.poll_touched().is_some() {}
            while self.server.poll_notice().is_some() {}
            while let Some(action) = self.server.poll_action() {
                if let Action::Close(client) = action {
                    self.ended.push(client);
                }
            }
            self.server.check_invariants();
            if self.server.poll_timeout(self.now).is_none_or(|at| at > self.now.mono) {
                return;
            }
        }
        panic!("there is always something to do");
    }

    fn owner(&mut self, token: &str) -> ClientId {
        let owner = self.connect(Protocol::JobCentre);
        let auth = format!("{{\"request\":\"auth\",\"token\":\"{token}\"}}\n");
        assert!(self.ask(owner, auth.as_bytes()).starts_with(b"{\"status\":\"ok\""));
        owner
    }
}

/// Plays a stream of a client that is no user, in pieces of at most this length. Returns what it
/// was sent.
pub(crate) fn play(protocol: Protocol, stream: &[u8], piece: usize) -> Vec<u8> {
    // A token that the stream does not have.
    let token = format!("jc_{}", stream.len());
    let token = if stream.windows(token.len()).any(|it| it == token.as_bytes()) {
        "jc_another_one_altogether".to_owned()
    } else {
        token
    };
    let mut harness = Harness::new(token.as_bytes());
    let owner = harness.owner(&token);
    let [payload, queue] = SECRETS;
    let put = format!(
        "{{\"request\":\"put\",\"queue\":\"{queue}\",\"job\":\"{payload}\",\"pri\":1}}\n\
         {{\"request\":\"put\",\"queue\":\"{queue}\",\"job\":{{\"a\":\"{payload}\"}},\"pri\":1}}\n"
    );
    harness.ask(owner, put.as_bytes());
    let before = harness.server.counts();
    assert!(before.jobs > 0, "the owner may put");
    let client = harness.connect(protocol);
    harness.is_closed_to_all.set(true);
    let mut answers = Vec::new();
    for bytes in stream.chunks(piece.max(1)) {
        answers.extend(harness.ask(client, bytes));
        harness.now.mono = harness.now.mono.after(Duration::from_millis(1));
    }
    harness.now.mono = harness.now.mono.after(Duration::from_mins(1));
    answers.extend(harness.ask(client, b""));
    if !harness.ended.contains(&client) {
        harness.server.handle_reset(client, harness.now);
        harness.pass();
    }
    harness.is_closed_to_all.set(false);
    assert_eq!(harness.server.counts(), before);
    for secret in SECRETS.map(str::as_bytes) {
        let has = |bytes: &[u8]| bytes.windows(secret.len()).any(|it| it == secret);
        assert!(!has(&answers) || has(stream), "{}", String::from_utf8_lossy(&answers));
    }
    let get = format!("{{\"request\":\"get\",\"queues\":[\"{queue}\"]}}\n");
    let answer = harness.ask(owner, get.as_bytes());
    assert!(answer.starts_with(b"{\"status\":\"ok\""), "the owner has the jobs");
    answers
}

/// More connections of one address than may wait close the oldest of them, and no others.
#[test]
fn clients_of_one_address_do_not_close_those_of_others() {
    let mut harness = Harness::new(b"token");
    let other = harness.connect_from(Protocol::JobCentre, 0x30);
    let mut own = Vec::new();
    for _ in 0..UNAUTHENTICATED_MAX + 10 {
        own.push(harness.connect_from(Protocol::JobCentre, 0x20));
    }
    // One that is closed is told why.
    let mut is_told = |client: ClientId| !harness.ask(client, b"").is_empty();
    assert!(!is_told(other), "the one of another address is there");
    let last = own.pop().expect("there are some");
    assert!(!is_told(last), "the last one stays");
    let left = own.iter().filter(|&&client| !is_told(client)).count();
    assert_eq!(left + 1, UNAUTHENTICATED_PER_ADDRESS_MAX);
}

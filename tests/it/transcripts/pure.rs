//! Plays a transcript on the pure server: no socket, and time passes only where the transcript says
//! so.

use super::Target;
use super::shared::BlockingLink;
use crate::late_engine::LateEngine;
use crate::query::ImmediateExecutor;
use jobcentre::base::limits::READ_BUDGET_BYTES;
use jobcentre::base::time::{Mono, Now};
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::model::driver::{Action, Core, Protocol};
use jobcentre::model::id::ClientId;
use jobcentre::server::Server;
use jobcentre::server::Settings;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// More than this is not handed over byte by byte, for it would take seconds, but in odd pieces.
const LONG: usize = 5_000;
const PIECE_OF_LONG: usize = 997;

/// Number of idle passes that end a step: in the first one a query may have ended,
/// as the thread of queries would wake the reactor for.
const IDLE_PASSES: usize = 3;

/// One client and the wire between it and the server.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, none excludes another"
)]
#[derive(Debug, Default)]
struct Peer {
    /// Its key, while the server knows it.
    client: Option<ClientId>,
    /// Sent and not yet taken by the server.
    sent: VecDeque<u8>,
    /// It sends nothing more.
    half_closed: bool,
    /// It takes nothing at the moment.
    deaf: bool,
    /// It has closed: what is sent to it fails.
    gone: bool,
    /// The server will send nothing more.
    ended: bool,
    /// Received and not yet looked at.
    received: VecDeque<u8>,
}

/// A server without sockets, and its clients.
pub(super) struct Pure<E = Engine> {
    server: Server<E>,
    now: Now,
    /// The most bytes that one pass reads of one client.
    piece: usize,
    peers: BTreeMap<char, Peer>,
    /// The connection of an engine that has one.
    link: Option<BlockingLink>,
}

fn engine(settings: Settings) -> Engine {
    Engine::in_memory(1)
        .with_queries(Box::new(ImmediateExecutor::new()), Duration::MAX)
        .with_memory_limit(settings.max_memory)
}

impl Pure {
    pub(super) fn new(settings: Settings, byte_by_byte: bool) -> Self {
        Self::over(engine(settings), settings, byte_by_byte)
    }
}

impl Pure<LateEngine> {
    /// A server whose engine completes late and out of order.
    pub(super) fn late(settings: Settings, seed: u64) -> Self {
        Self::over(LateEngine::late(engine(settings), seed), settings, false)
    }
}

impl Pure {
    /// A server over an engine that keeps its jobs behind this connection.
    pub(super) fn over_link(engine: Engine, link: BlockingLink, settings: Settings) -> Self {
        let queries = Box::new(ImmediateExecutor::new());
        let engine = engine.with_queries(queries, Duration::MAX);
        let engine = engine.with_memory_limit(settings.max_memory);
        Self { link: Some(link), ..Self::over(engine, settings, false) }
    }
}

impl<E: CommandExecutor> Pure<E> {
    fn over(engine: E, settings: Settings, byte_by_byte: bool) -> Self {
        Self {
            server: Server::new(settings, engine),
            now: Now::default(),
            piece: if byte_by_byte { 1 } else { READ_BUDGET_BYTES },
            peers: BTreeMap::new(),
            link: None,
        }
    }

    /// The protocol with this name.
    fn protocol(name: &str) -> Result<Protocol, String> {
        let others = [Protocol::Http, Protocol::Beanstalkd];
        let mut protocols = [Protocol::JobCentre, Protocol::Pinpriq].into_iter().chain(others);
        protocols
            .find(|protocol| protocol.name() == name)
            .ok_or_else(|| format!("there is no protocol {name}"))
    }

    fn peer(&mut self, client: char) -> &mut Peer {
        self.peers.get_mut(&client).expect("the client is connected")
    }

    /// Passes of the loop until nothing is left to be done now.
    fn run(&mut self) {
        let mut idle = 0;
        while idle < IDLE_PASSES {
            let mut busy = false;
            self.server.begin_pass(self.now);
            for peer in self.peers.values_mut() {
                busy |= read(&mut self.server, peer, self.piece, self.now);
            }
            self.server.finish_pass(self.now);
            while let Some(client) = self.server.poll_touched() {
                write(&mut self.server, &mut self.peers, client, self.now);
            }
            while let Some(action) = self.server.poll_action() {
                let (Action::Close(client) | Action::ShutdownWrite(client)) = action else {
                    panic!("there are no outbound connections: {action:?}");
                };
                let peer = named(&mut self.peers, client).expect("the server knows its clients");
                peer.ended = true;
                if action == Action::Close(client) {
                    peer.client = None;
                }
            }
            if let (Some(connection), Some(link)) = (&mut self.link, self.server.link()) {
                busy |= connection.drive(link, self.now);
            }
            let due = self.server.poll_timeout(self.now).is_some_and(|at| at <= self.now.mono);
            idle = if busy || due { 0 } else { idle + 1 };
        }
        self.server.check_invariants();
    }
}

fn named(peers: &mut BTreeMap<char, Peer>, client: ClientId) -> Option<&mut Peer> {
    peers.values_mut().find(|peer| peer.client == Some(client))
}

/// One read, as the reactor does it. Whether there was anything to do.
fn read<E: CommandExecutor>(
    server: &mut Server<E>,
    peer: &mut Peer,
    piece: usize,
    now: Now,
) -> bool {
    let Some(client) = peer.client else { return false };
    if !server.wants_input(client) {
        return false;
    }
    let waiting = peer.sent.len();
    let piece = if piece == 1 && waiting > LONG { PIECE_OF_LONG } else { piece };
    let count = waiting.min(piece);
    if count > 0 {
        let bytes: Vec<u8> = peer.sent.drain(..count).collect();
        server.handle_input(client, &bytes, now);
    } else if peer.half_closed {
        server.handle_eof(client, now);
    }
    count > 0 || peer.half_closed
}

/// One write, as the reactor does it.
fn write<E: CommandExecutor>(
    server: &mut Server<E>,
    peers: &mut BTreeMap<char, Peer>,
    client: ClientId,
    now: Now,
) {
    let Some(peer) = named(peers, client) else { return };
    let output = server.output(client);
    if output.is_empty() || peer.deaf {
        return;
    }
    if peer.gone {
        return server.handle_broken_output(client, now);
    }
    peer.received.extend(output);
    let count = output.len();
    server.handle_sent(client, count, now);
}

impl<E: CommandExecutor> Target for Pure<E> {
    fn connect(&mut self, client: char, protocol: &str) -> Result<(), String> {
        let id = self.server.handle_open(Self::protocol(protocol)?, self.now);
        let ended = id.is_none();
        self.peers.insert(client, Peer { client: id, ended, ..Peer::default() });
        self.run();
        Ok(())
    }

    fn send(&mut self, client: char, bytes: &[u8], last: bool) -> Result<(), String> {
        let now = self.now;
        let peer = self.peer(client);
        peer.sent.extend(bytes);
        peer.half_closed |= last;
        if let (true, Some(id)) = (last, peer.client) {
            self.server.handle_peer_closed(id, now);
        }
        self.run();
        Ok(())
    }

    fn close(&mut self, client: char) -> Result<(), String> {
        let peer = self.peer(client);
        peer.gone = true;
        peer.ended = true;
        peer.received.clear();
        self.send(client, b"", true)
    }

    fn reset(&mut self, client: char) -> Result<(), String> {
        let now = self.now;
        let peer = self.peer(client);
        peer.sent.clear();
        peer.received.clear();
        peer.ended = true;
        if let Some(id) = peer.client.take() {
            self.server.handle_peer_closed(id, now);
            self.server.handle_reset(id, now);
        }
        self.run();
        Ok(())
    }

    fn set_reading(&mut self, client: char, reads: bool) -> Result<(), String> {
        let peer = self.peer(client);
        peer.deaf = !reads;
        if let (true, Some(id)) = (reads, peer.client) {
            write(&mut self.server, &mut self.peers, id, self.now);
        }
        self.run();
        Ok(())
    }

    fn pass_time(&mut self, time: Duration) -> Result<(), String> {
        let wall = u64::try_from(time.as_millis()).map_err(|error| error.to_string())?;
        self.now.mono = Mono(self.now.mono.after(time).0);
        self.now.wall.0 += wall;
        self.run();
        Ok(())
    }

    fn settle(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn receive(&mut self, client: char) -> Result<Vec<u8>, String> {
        let received = &mut self.peer(client).received;
        let Some(end) = received.iter().position(|&byte| byte == b'\n') else {
            return Err(format!("{client} has no line to receive"));
        };
        let mut line: Vec<u8> = received.drain(..=end).collect();
        line.pop();
        Ok(line)
    }

    fn receive_bytes(&mut self, client: char, expected: &[u8]) -> Result<Vec<u8>, String> {
        let received = &mut self.peer(client).received;
        Ok(received.drain(..received.len().min(expected.len())).collect())
    }

    fn receive_count(&mut self, client: char, count: usize) -> Result<Vec<u8>, String> {
        let received = &mut self.peer(client).received;
        Ok(received.drain(..received.len().min(count)).collect())
    }

    fn check_silent(&mut self, client: char) -> Result<(), String> {
        let left = self.peer(client).received.make_contiguous();
        if left.is_empty() {
            return Ok(());
        }
        Err(format!("{client} has something to receive: {}", super::show(left)))
    }

    fn check_ended(&mut self, client: char) -> Result<(), String> {
        self.check_silent(client)?;
        let ended = self.peer(client).ended;
        if ended { Ok(()) } else { Err(format!("{client} is still connected")) }
    }
}

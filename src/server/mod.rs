//! F5: the server. Connections, each a session with its buffers, over one engine; still pure.
//!
//! Invariants:
//! - a connection's jobs go back when it ends, however it ends, and never before its last answer is
//!   flushed or given up ([`FLUSH_TIMEOUT`]);
//! - above [`OUTPUT_HIGH_WATER_BYTES`] unsent bytes a connection is neither read nor served, and
//!   nothing of it is dropped;
//! - work in one pass is bounded for each connection by what was read of it and what may be unsent
//!   of it, or less if a session says so ([`SessionAction::Yield`]), for resumed ones by
//!   [`RESUMED_CONNECTIONS_PER_PASS`], for deadlines by [`SESSION_DEADLINES_PER_PASS`].

mod connection;
mod dispatchers;
mod driver_api;
mod notices;
mod outbound;
mod run_queues;
mod session_timeouts;
mod stats;
mod worker_connections;

use crate::base::buf::{Input, progress};
use crate::base::limits::{
    FLUSH_TIMEOUT, OUTPUT_HIGH_WATER_BYTES, REJECTED_LINGER_TIMEOUT, RESUMED_CONNECTIONS_PER_PASS,
    SESSION_DEADLINES_PER_PASS,
};
use crate::base::slab::Slab;
use crate::base::time::Now;
use crate::base::timer_queue::{TimerId, TimerQueue};
use crate::engine::Engine;
use crate::journal;
use crate::model::command::Command;
use crate::model::driver::{Action, Incident, Protocol};
use crate::model::id::{ClientId, Ticket};
use crate::model::reply::Completion;
use crate::model::worker::WorkerCommand;
use crate::protocol::{Session, SessionAction, SessionContext, processor};
use crate::store::Counts;
use connection::{Connection, Origin};
use dispatchers::Dispatchers;
use notices::Notices;
pub use outbound::Room;
use run_queues::RunQueues;
use stats::Counters;
use std::time::Duration;

/// What the operator decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The longest request, in bytes (`--max-request`).
    pub max_request: usize,
    /// How many clients are served at a time (`--max-clients`).
    pub max_clients: usize,
}

/// The server.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    engine: Engine,
    shared: SessionContext,
    connections: Slab<Connection>,
    refused: usize,
    /// Connections to other servers, answered or not.
    outgoing: usize,
    /// How many of these, and of clients that are refused politely, there may be.
    room: Room,
    agents: Dispatchers,
    stopping: bool,
    /// The connection of the processor.
    processor: Option<ClientId>,
    deadlines: TimerQueue<ClientId>,
    lists: RunQueues,
    notices: Notices,
    counters: Counters,
}

/// Hands a completion to a client that is not being served at the moment.
fn deliver_to(
    connections: &mut Slab<Connection>,
    lists: &mut RunQueues,
    completion: &Completion<'_>,
    now: Now,
) -> Option<Incident> {
    let client = completion.ticket.client;
    // A late reply may find nobody any more.
    let connection = connections.get_mut(client)?;
    match connection.way {
        Origin::Inbound | Origin::Dialing => {}
        Origin::Outbound => lists.ready_deliveries.push(client),
        Origin::Internal => {
            lists.ready_dispatchers.push_back(client);
            return connection.handle_reply(completion, now);
        }
    }
    connection.output.prepare(&mut lists.pool);
    let trouble = connection.handle_reply(completion, now);
    if connection.session.has_pending_submit() {
        lists.pending_submits.push_back(client);
    }
    if connection.session.wants_poll() {
        lists.go_on(client, connection);
    }
    lists.resume(client, connection);
    lists.touch(client, connection);
    if connection.peer_closed || connection.over {
        lists.closing.push(client);
    }
    trouble
}

impl Server {
    /// A server without connections over `engine`.
    #[must_use]
    pub fn new(settings: Settings, engine: Engine) -> Self {
        Self {
            settings,
            engine,
            shared: SessionContext::new(settings.max_request),
            connections: Slab::default(),
            refused: 0,
            outgoing: 0,
            room: Room::default(),
            agents: Dispatchers::default(),
            stopping: false,
            processor: None,
            deadlines: TimerQueue::default(),
            lists: RunQueues::default(),
            notices: Notices::default(),
            counters: Counters::default(),
        }
    }

    /// The same server, which keeps the results of jobs so long for whoever follows them.
    #[must_use]
    pub fn with_result_ttl(mut self, ttl: Duration) -> Self {
        self.shared.result_ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// The same server, known to its HTTP clients by these names as well.
    #[must_use]
    pub fn with_http_names(mut self, names: Vec<Box<str>>) -> Self {
        self.shared.http_names = names;
        self
    }

    /// The same server, whose processor speaks like this.
    #[must_use]
    pub fn with_processor(mut self, settings: processor::Settings) -> Self {
        self.shared.processor = settings;
        self
    }

    /// How much there is in the store.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.engine.counts()
    }

    /// Figures of the journal, if there is one. O(segments).
    #[must_use]
    pub fn journal_status(&self) -> Option<journal::LogStats> {
        self.engine.journal_stats()
    }

    /// Asserts every invariant. O(everything): for tests and the simulator.
    pub fn check_invariants(&self) {
        self.engine.check_invariants();
        assert!(self.lists.pending_submits.is_empty(), "a command was put off");
        for (client, connection) in self.connections.iter() {
            connection.check_invariants();
            // Its answer may be on the way: it waits for the disk.
            let ends = connection.peer_closed || connection.over;
            let waits = connection.session.pending_serial().filter(|_| ends);
            let waits =
                waits.is_some_and(|serial| self.engine.is_waiting(Ticket { client, serial }));
            assert!(!waits, "a take waits for a peer that has closed or is sent away");
            connection.session.check_invariants();
            assert_eq!(connection.touched, self.lists.dirty.contains(&client));
            assert_eq!(connection.resumed, self.lists.resumable.contains(&client));
        }
        let open = |connection: &Connection| {
            connection.way == Origin::Inbound && !matches!(connection.session, Session::Rejected)
        };
        let served = self.connections.iter().filter(|(_, connection)| open(connection)).count();
        let counted: u64 = self.counters.protocols.iter().map(|protocol| protocol.open).sum();
        assert_eq!(counted, served as u64, "connections are counted wrongly");
        let called = |(_, connection): &(ClientId, &Connection)| {
            matches!(connection.way, Origin::Dialing | Origin::Outbound)
        };
        assert_eq!(self.outgoing, self.connections.iter().filter(called).count());
        self.check_dispatchers();
        let armed = |(_, connection): &(ClientId, &Connection)| !connection.deadline.is_none();
        assert_eq!(self.deadlines.len(), self.connections.iter().filter(armed).count());
        self.deadlines.check_invariants(|timer, _, client| {
            let connection = self.connections.get(client);
            assert_eq!(connection.map(|connection| connection.deadline), Some(timer));
        });
    }

    /// Hands every completion to the session that waits for it, and submits what sessions owe then.
    /// `running` is the connection that is being served at the moment, if any: it is touched once,
    /// after its turn, and asked for what it owes by its turn.
    #[inline]
    fn deliver(&mut self, running: Option<ClientId>, now: Now) {
        self.forward_reply(running, now);
        if !self.lists.pending_submits.is_empty() {
            self.run_pending_submits(running, now);
        }
    }

    fn forward_reply(&mut self, running: Option<ClientId>, now: Now) {
        while let Some(completion) = self.engine.poll_completion() {
            let client = completion.ticket.client;
            let trouble = if Some(client) == running
                && let Some(connection) = self.connections.get_mut(client)
            {
                self.counters.answered += 1;
                connection.handle_reply(&completion, now)
            } else {
                deliver_to(&mut self.connections, &mut self.lists, &completion, now)
            };
            if let Some(trouble) = trouble {
                self.notices.note(client, trouble, now);
            }
        }
    }

    /// Submits one command of each session that owes one, in the order in which they came to owe
    /// it, and again of those that owe another after its completion, until nobody does. What makes
    /// a session owe again is a delivery, which has taken something out of the store and adds to
    /// the output of a connection that is not yet above [`OUTPUT_HIGH_WATER_BYTES`]: so this ends.
    #[cold]
    fn run_pending_submits(&mut self, running: Option<ClientId>, now: Now) {
        while let Some(client) = self.lists.pending_submits.pop_front() {
            let Some(connection) = self.connections.get_mut(client) else { continue };
            if !connection.is_kept_waiting() || connection.output.len() > OUTPUT_HIGH_WATER_BYTES {
                continue;
            }
            let output = &mut connection.output;
            match connection.session.poll_pending_submit(&mut self.shared, output) {
                Some((serial, command)) => {
                    self.engine.submit(Ticket { client, serial }, &command, now);
                    self.forward_reply(running, now);
                }
                None => self.lists.go_on(client, connection),
            }
        }
    }

    /// Calls a take off that still waits.
    fn cancel_wait(&mut self, client: ClientId, serial: u32, running: Option<ClientId>, now: Now) {
        self.engine.cancel(Ticket { client, serial }, now);
        self.deliver(running, now);
    }

    /// Hands over what came of a request of `client`: mostly its own reply and nothing else.
    #[inline(always)]
    fn answer(&mut self, client: ClientId, now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        while let Some(completion) = self.engine.poll_completion() {
            if completion.ticket.client == client {
                self.counters.answered += 1;
                if let Some(trouble) = connection.handle_reply(&completion, now) {
                    self.notices.note(client, trouble, now);
                }
                continue;
            }
            let other = completion.ticket.client;
            let trouble = deliver_to(&mut self.connections, &mut self.lists, &completion, now);
            if let Some(trouble) = trouble {
                self.notices.note(other, trouble, now);
            }
            return self.deliver(Some(client), now);
        }
    }

    /// Lets the session of `client` take requests from `input` until it has had enough.
    fn run(&mut self, client: ClientId, input: &mut Input<'_>, now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        connection.output.prepare(&mut self.lists.pool);
        self.shared.begin_turn(now);
        let stalled = loop {
            let Some(connection) = self.connections.get_mut(client) else { return };
            if connection.output.len() > OUTPUT_HIGH_WATER_BYTES {
                if !connection.broken {
                    if let Some(serial) = connection.session.open_subscription() {
                        self.cancel_wait(client, serial, Some(client), now);
                    }
                    break true;
                }
                // What can never be sent holds nothing up: it is dropped here.
                self.lists.touch(client, connection);
            }
            let output = &mut connection.output;
            match connection.session.poll_command(input, &mut self.shared, output) {
                SessionAction::NeedInput => break false,
                SessionAction::Stalled => break true,
                SessionAction::Continue => {}
                SessionAction::Yield => {
                    self.lists.go_on(client, connection);
                    break true;
                }
                SessionAction::Submit(serial, command) => {
                    self.engine.submit(Ticket { client, serial }, &command, now);
                    self.answer(client, now);
                }
                SessionAction::FetchStats => self.shared.stats = Some(self.stats()),
                SessionAction::Cancel(serial) => {
                    self.cancel_wait(client, serial, Some(client), now);
                }
                SessionAction::FetchWorkers(queue, from) => {
                    let processor = self.processor.and_then(|client| self.connections.get(client));
                    let members = processor.map(|other| other.session.worker_page(queue, from));
                    self.shared.workers = Some(members.unwrap_or_default());
                }
                SessionAction::Log(trouble) => self.notices.note(client, trouble, now),
                SessionAction::Close => connection.over = true,
                SessionAction::ProtocolError(trouble) => {
                    connection.over = true;
                    self.notices.note(client, trouble, now);
                }
            }
        };
        if let Some(connection) = self.connections.get_mut(client) {
            connection.stalled = stalled && !input.unread().is_empty();
            self.lists.touch(client, connection);
            if connection.session.is_timed() {
                if connection.way == Origin::Outbound {
                    self.lists.ready_deliveries.push(client);
                }
                self.watch_session(client);
            }
        }
    }

    /// Lets the session of `client` take requests from what is buffered for it and `more`.
    fn run_buffered(&mut self, client: ClientId, more: &[u8], now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        connection.stalled = false;
        let mut buffered = std::mem::take(&mut connection.input);
        buffered.append(more);
        let mut input = buffered.peek();
        self.run(client, &mut input, now);
        let (used, scanned) = progress(&input);
        buffered.commit(used, scanned);
        if let Some(connection) = self.connections.get_mut(client) {
            connection.input = buffered;
        }
    }

    /// Does what follows from the state that a connection is in after something has happened to it.
    fn update_connection(&mut self, client: ClientId, now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        if (connection.peer_closed || connection.over)
            && let Some(serial) = connection.session.pending_serial()
        {
            self.cancel_wait(client, serial, None, now);
            if self.lists.closing.last() == Some(&client) {
                // That is being done right here.
                self.lists.closing.pop();
            }
        }
        let Some(connection) = self.connections.get_mut(client) else { return };
        // In a stop it is the server that closes.
        if connection.peer_closed && connection.protocol == Protocol::Http && !self.stopping {
            self.engine.half_close_client(client);
        }
        if connection.timed && connection.is_leaving() {
            self.disarm(client);
        }
        let Some(connection) = self.connections.get_mut(client) else { return };
        if connection.eof && !connection.stalled {
            connection.input.clear();
        }
        if connection.is_finished() {
            return self.end(client, now, true);
        }
        self.begin_linger(client, now);
        self.arm_flush_timeout(client, now);
    }

    /// A client that is sent away and has got all that it will get is let go.
    fn begin_linger(&mut self, client: ClientId, now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        let told = connection.session.is_settled() && connection.output.is_empty();
        if connection.over && told && connection.deadline.is_none() {
            self.lists.actions.push_back(Action::ShutdownWrite(client));
            connection.deadline =
                self.deadlines.arm(now.mono.after(REJECTED_LINGER_TIMEOUT), client);
        }
    }

    /// Starts the clock for a peer that ends, or is sent away, and does not take its answers.
    fn arm_flush_timeout(&mut self, client: ClientId, now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        let ends = connection.peer_closed || connection.over;
        // What was assigned is never dropped while there is time.
        let patient = self.processor == Some(client) && !self.stopping;
        let waits = ends && !connection.output.is_empty() && !patient;
        if waits && connection.deadline.is_none() {
            connection.deadline = self.deadlines.arm(now.mono.after(FLUSH_TIMEOUT), client);
        }
    }

    fn disarm(&mut self, client: ClientId) {
        if let Some(connection) = self.connections.get_mut(client)
            && !connection.deadline.is_none()
        {
            connection.timed = false;
            self.deadlines.cancel(std::mem::take(&mut connection.deadline));
        }
    }

    /// Ends a connection: what its client holds goes back, and the shell is told to close it.
    fn end(&mut self, client: ClientId, now: Now, close: bool) {
        self.disarm(client);
        let Some(mut connection) = self.connections.remove(client) else { return };
        if matches!(connection.session, Session::Rejected) {
            self.refused -= 1;
        } else if connection.way == Origin::Inbound {
            self.counters.protocols[connection.protocol.number()].open -= 1;
        } else {
            self.outgoing -= 1;
            self.on_delivery_end(client, &mut connection, now);
        }
        if close {
            self.lists.actions.push_back(Action::Close(client));
        }
        if self.processor == Some(client) {
            self.processor = None;
            // What it holds is still being worked on: it goes on to be held.
            let ticket = Ticket { client, serial: 0 };
            self.engine.submit(ticket, &Command::Work(WorkerCommand::Detach), now);
            self.deliver(None, now);
        }
        self.engine.disconnect_client(client, now);
        self.deliver(None, now);
    }

    fn expire(&mut self, now: Now) {
        for _ in 0..SESSION_DEADLINES_PER_PASS {
            let Some((_, client)) = self.deadlines.pop_due(now.mono) else { return };
            let Some(connection) = self.connections.get_mut(client) else {
                unreachable!("a connection that ends takes its deadline along");
            };
            connection.deadline = TimerId::NONE;
            if std::mem::take(&mut connection.timed) {
                self.on_session_timeout(client, now);
            } else {
                self.end(client, now, true);
            }
        }
    }

    fn run_resumed(&mut self, now: Now) {
        for _ in 0..RESUMED_CONNECTIONS_PER_PASS.min(self.lists.resumable.len()) {
            let Some(client) = self.lists.resumable.pop_front() else { return };
            let Some(connection) = self.connections.get_mut(client) else { continue };
            connection.resumed = false;
            self.run_buffered(client, b"", now);
            self.update_connection(client, now);
        }
    }
}

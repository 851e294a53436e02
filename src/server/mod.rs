//! F5: the server. Connections, each a session with its buffers, over one engine; still pure.
//!
//! Invariants:
//! - a connection's jobs go back when it ends, however it ends, and never before its last answer is
//!   flushed or given up ([`FLUSH_PATIENCE`]);
//! - above [`OUTPUT_HIGH_WATER`] unsent bytes a connection is neither read nor served, and nothing
//!   of it is dropped;
//! - work in one pass is bounded for each connection by what was read of it and what may be unsent
//!   of it, or less if a session says so ([`Step::Enough`]), for resumed ones by
//!   [`RESUMED_PER_PASS`], for deadlines by [`TIMEOUTS_PER_PASS`].

mod agents;
mod calls;
mod connection;
mod figures;
mod lists;
mod notices;
mod outgoing;
mod patience;
mod shell;

use crate::base::buf::{Input, progress};
use crate::base::deadlines::{Deadlines, Timer};
use crate::base::limits::{
    FAREWELL_LINGER, FLUSH_PATIENCE, OUTPUT_HIGH_WATER, RESUMED_PER_PASS, TIMEOUTS_PER_PASS,
};
use crate::base::slab::Slab;
use crate::base::time::Now;
use crate::engine::Engine;
use crate::journal;
use crate::model::command::Command;
use crate::model::core::{Action, Door, Trouble};
use crate::model::id::{ClientId, Ticket};
use crate::model::reply::Completion;
use crate::model::watch::Watch;
use crate::model::work::Work;
use crate::protocol::{Session, Shared, Step, processor};
use crate::store::Counts;
use agents::Agents;
use connection::{Connection, Way};
use figures::Counters;
use lists::Lists;
use notices::Notices;
pub use outgoing::Room;
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
    shared: Shared,
    connections: Slab<Connection>,
    refused: usize,
    /// Connections to other servers, answered or not.
    outgoing: usize,
    /// How many of these, and of clients that are refused politely, there may be.
    room: Room,
    agents: Agents,
    stopping: bool,
    /// The connection of the processor.
    processor: Option<ClientId>,
    deadlines: Deadlines<ClientId>,
    lists: Lists,
    notices: Notices,
    counters: Counters,
}

/// Hands a completion to a client that is not being served at the moment.
fn hand_to_other(
    connections: &mut Slab<Connection>,
    lists: &mut Lists,
    completion: &Completion<'_>,
    now: Now,
) -> Option<Trouble> {
    let client = completion.ticket.client;
    // A late reply may find nobody any more.
    let connection = connections.get_mut(client)?;
    match connection.way {
        Way::Accepted | Way::Connecting => {}
        Way::Called => lists.called.push(client),
        Way::Agent => {
            lists.awake.push_back(client);
            return connection.handle_reply(completion, now);
        }
    }
    connection.output.prepare(&mut lists.pool);
    let trouble = connection.handle_reply(completion, now);
    if connection.session.owes_command() {
        lists.owing.push_back(client);
    }
    if connection.session.wants_turn() {
        lists.go_on(client, connection);
    }
    lists.resume(client, connection);
    lists.touch(client, connection);
    if connection.peer_closed || connection.over {
        lists.unsettled.push(client);
    }
    trouble
}

/// Out of the way of those who ask often.
#[cold]
fn submit_watch(engine: &mut Engine, ticket: Ticket, watch: &Watch<'_>, now: Now) {
    engine.submit(ticket, &Command::Watch(watch), now);
}

impl Server {
    /// A server without connections over `engine`.
    #[must_use]
    pub fn new(settings: Settings, engine: Engine) -> Self {
        Self {
            settings,
            engine,
            shared: Shared::new(settings.max_request),
            connections: Slab::default(),
            refused: 0,
            outgoing: 0,
            room: Room::default(),
            agents: Agents::default(),
            stopping: false,
            processor: None,
            deadlines: Deadlines::default(),
            lists: Lists::default(),
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
    pub fn journal_status(&self) -> Option<journal::Status> {
        self.engine.journal_status()
    }

    /// Asserts every invariant. O(everything): for tests and the simulator.
    pub fn check_invariants(&self) {
        self.engine.check_invariants();
        assert!(self.lists.owing.is_empty(), "a command was put off");
        for (client, connection) in self.connections.iter() {
            connection.check_invariants();
            // Its answer may be on the way: it waits for the disk.
            let ends = connection.peer_closed || connection.over;
            let waits = connection.session.waits_for().filter(|_| ends);
            let waits =
                waits.is_some_and(|serial| self.engine.is_waiting(Ticket { client, serial }));
            assert!(!waits, "a take waits for a peer that has closed or is sent away");
            connection.session.check_invariants();
            assert_eq!(connection.touched, self.lists.touched.contains(&client));
            assert_eq!(connection.resumed, self.lists.resumed.contains(&client));
        }
        let open = |connection: &Connection| {
            connection.way == Way::Accepted && !matches!(connection.session, Session::Refused)
        };
        let served = self.connections.iter().filter(|(_, connection)| open(connection)).count();
        let counted: u64 = self.counters.doors.iter().map(|door| door.open).sum();
        assert_eq!(counted, served as u64, "connections are counted wrongly");
        let called = |(_, connection): &(ClientId, &Connection)| {
            matches!(connection.way, Way::Connecting | Way::Called)
        };
        assert_eq!(self.outgoing, self.connections.iter().filter(called).count());
        self.check_agents();
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
        self.hand_over(running, now);
        if !self.lists.owing.is_empty() {
            self.serve_owing(running, now);
        }
    }

    fn hand_over(&mut self, running: Option<ClientId>, now: Now) {
        while let Some(completion) = self.engine.poll_completion() {
            let client = completion.ticket.client;
            let trouble = if Some(client) == running
                && let Some(connection) = self.connections.get_mut(client)
            {
                self.counters.answered += 1;
                connection.handle_reply(&completion, now)
            } else {
                hand_to_other(&mut self.connections, &mut self.lists, &completion, now)
            };
            if let Some(trouble) = trouble {
                self.notices.note(client, trouble, now);
            }
        }
    }

    /// Submits one command of each session that owes one, in the order in which they came to owe
    /// it, and again of those that owe another after its completion, until nobody does. What makes
    /// a session owe again is a delivery, which has taken something out of the store and adds to
    /// the output of a connection that is not yet above [`OUTPUT_HIGH_WATER`]: so this ends.
    #[cold]
    fn serve_owing(&mut self, running: Option<ClientId>, now: Now) {
        while let Some(client) = self.lists.owing.pop_front() {
            let Some(connection) = self.connections.get_mut(client) else { continue };
            if !connection.is_kept_waiting() || connection.output.len() > OUTPUT_HIGH_WATER {
                continue;
            }
            let (mut nothing, output) = (Input::new(b""), &mut connection.output);
            match connection.session.poll_owed(&mut nothing, &mut self.shared, output) {
                Step::Submit(serial, command) => {
                    self.engine.submit(Ticket { client, serial }, &command, now);
                    self.hand_over(running, now);
                }
                Step::Enough => self.lists.go_on(client, connection),
                Step::Hungry
                | Step::Blocked
                | Step::Answered
                | Step::CallOff(_)
                | Step::Members(..)
                | Step::Tell(_)
                | Step::Watch(..)
                | Step::Work(..)
                | Step::Figures
                | Step::Finished
                | Step::Failed(_) => unreachable!("what is owed comes first"),
            }
        }
    }

    /// Calls a take off that still waits.
    fn call_off(&mut self, client: ClientId, serial: u32, running: Option<ClientId>, now: Now) {
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
            let trouble = hand_to_other(&mut self.connections, &mut self.lists, &completion, now);
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
            if connection.output.len() > OUTPUT_HIGH_WATER {
                if !connection.broken {
                    if let Some(serial) = connection.session.standing_take() {
                        self.call_off(client, serial, Some(client), now);
                    }
                    break true;
                }
                // What can never be sent holds nothing up: it is dropped here.
                self.lists.touch(client, connection);
            }
            let output = &mut connection.output;
            match connection.session.poll_command(input, &mut self.shared, output) {
                Step::Hungry => break false,
                Step::Blocked => break true,
                Step::Answered => {}
                Step::Enough => {
                    self.lists.go_on(client, connection);
                    break true;
                }
                Step::Submit(serial, command) => {
                    self.engine.submit(Ticket { client, serial }, &command, now);
                    self.answer(client, now);
                }
                Step::Watch(serial, watch) => {
                    submit_watch(&mut self.engine, Ticket { client, serial }, &watch, now);
                    self.deliver(Some(client), now);
                }
                Step::Work(serial, work) => {
                    self.engine.submit(Ticket { client, serial }, &Command::Work(&work), now);
                    self.deliver(Some(client), now);
                }
                Step::Figures => self.shared.figures = Some(self.figures()),
                Step::CallOff(serial) => self.call_off(client, serial, Some(client), now),
                Step::Members(queue, from) => {
                    let processor = self.processor.and_then(|client| self.connections.get(client));
                    let members = processor.map(|other| other.session.members(queue, from));
                    self.shared.members = Some(members.unwrap_or_default());
                }
                Step::Tell(trouble) => self.notices.note(client, trouble, now),
                Step::Finished => connection.over = true,
                Step::Failed(trouble) => {
                    connection.over = true;
                    self.notices.note(client, trouble, now);
                }
            }
        };
        if let Some(connection) = self.connections.get_mut(client) {
            connection.stalled = stalled && !input.unread().is_empty();
            self.lists.touch(client, connection);
            if connection.session.is_timed() {
                if connection.way == Way::Called {
                    self.lists.called.push(client);
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
        let mut input = buffered.offer();
        self.run(client, &mut input, now);
        let (used, scanned) = progress(&input);
        buffered.settle(used, scanned);
        if let Some(connection) = self.connections.get_mut(client) {
            connection.input = buffered;
        }
    }

    /// Does what follows from the state that a connection is in after something has happened to it.
    fn settle(&mut self, client: ClientId, now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        if (connection.peer_closed || connection.over)
            && let Some(serial) = connection.session.waits_for()
        {
            self.call_off(client, serial, None, now);
            if self.lists.unsettled.last() == Some(&client) {
                // That is being done right here.
                self.lists.unsettled.pop();
            }
        }
        let Some(connection) = self.connections.get_mut(client) else { return };
        // In a stop it is the server that closes.
        if connection.peer_closed && connection.door == Door::Http && !self.stopping {
            self.engine.leave(client);
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
        self.say_farewell(client, now);
        self.watch_flush(client, now);
    }

    /// A client that is sent away and has got all that it will get is let go.
    fn say_farewell(&mut self, client: ClientId, now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        let told = connection.session.is_settled() && connection.output.is_empty();
        if connection.over && told && connection.deadline.is_none() {
            self.lists.actions.push_back(Action::ShutdownWrite(client));
            connection.deadline = self.deadlines.arm(now.mono.after(FAREWELL_LINGER), client);
        }
    }

    /// Starts the clock for a peer that ends, or is sent away, and does not take its answers.
    fn watch_flush(&mut self, client: ClientId, now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        let ends = connection.peer_closed || connection.over;
        // What was assigned is never dropped while there is time.
        let patient = self.processor == Some(client) && !self.stopping;
        let waits = ends && !connection.output.is_empty() && !patient;
        if waits && connection.deadline.is_none() {
            connection.deadline = self.deadlines.arm(now.mono.after(FLUSH_PATIENCE), client);
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
        if matches!(connection.session, Session::Refused) {
            self.refused -= 1;
        } else if connection.way == Way::Accepted {
            self.counters.doors[connection.door.number()].open -= 1;
        } else {
            self.outgoing -= 1;
            self.note_end_of_call(client, &mut connection, now);
        }
        if close {
            self.lists.actions.push_back(Action::Close(client));
        }
        if self.processor == Some(client) {
            self.processor = None;
            // What it holds is still being worked on: it goes on to be held.
            let ticket = Ticket { client, serial: 0 };
            self.engine.submit(ticket, &Command::Work(&Work::Resign), now);
            self.deliver(None, now);
        }
        self.engine.forget(client, now);
        self.deliver(None, now);
    }

    fn expire(&mut self, now: Now) {
        for _ in 0..TIMEOUTS_PER_PASS {
            let Some((_, client)) = self.deadlines.pop_due(now.mono) else { return };
            let Some(connection) = self.connections.get_mut(client) else {
                unreachable!("a connection that ends takes its deadline along");
            };
            connection.deadline = Timer::NONE;
            if std::mem::take(&mut connection.timed) {
                self.lose_patience(client, now);
            } else {
                self.end(client, now, true);
            }
        }
    }

    fn run_resumed(&mut self, now: Now) {
        for _ in 0..RESUMED_PER_PASS.min(self.lists.resumed.len()) {
            let Some(client) = self.lists.resumed.pop_front() else { return };
            let Some(connection) = self.connections.get_mut(client) else { continue };
            connection.resumed = false;
            self.run_buffered(client, b"", now);
            self.settle(client, now);
        }
    }
}

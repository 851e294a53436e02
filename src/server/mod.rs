//! L5: the server: connections, each a session with its buffers, over one engine. No I/O.
//!
//! Invariants:
//! - a connection's jobs are released when it ends, however it ends, and not before its last reply
//!   is flushed or [`FLUSH_TIMEOUT`](crate::base::limits::FLUSH_TIMEOUT) has passed;
//! - above `OUTPUT_HIGH_WATER_BYTES` unsent bytes a connection is neither read nor served, and
//!   nothing of it is dropped;
//! - the work of one pass is bounded: per connection by the bytes read and by the high-water
//!   mark, or earlier by [`SessionAction::Yield`]; for all together as `pass_work` says.

mod admin_requests;
mod auth_failures;
mod authentication;
mod backpressure;
mod buffers;
mod check;
mod connection;
mod connection_list;
mod dispatchers;
mod driver_api;
mod notices;
mod outbound;
mod pass_work;
mod peers;
mod pending_submits;
mod permission_check;
#[cfg(test)]
mod permission_matrix;
mod rejected;
mod run_queues;
mod session_timeouts;
mod stats;
mod unavailable;
mod worker_connections;

use crate::access::BrowserSessions;
use crate::base::address_set::AddressSet;
use crate::base::buf::{Input, progress};
use crate::base::limits::{DELIVERY_WORK, TURN_WORK};
use crate::base::slab::Slab;
use crate::base::time::Now;
use crate::base::timer_queue::TimerQueue;
use crate::engine::{CommandExecutor, Engine};
use crate::journal;
use crate::model::command::Command;
use crate::model::consumer::ConsumerCommand;
use crate::model::driver::{Action, Incident, Protocol};
use crate::model::id::{ClientId, Ticket};
use crate::model::reply::{Completion, Reply};
use crate::model::worker::WorkerCommand;
use crate::protocol::http::UiSettings;
use crate::protocol::{Session, SessionAction, SessionContext, beanstalkd, processor};
use crate::store::Counts;
use admin_requests::Reloads;
use connection::{Connection, Deadline, Direction};
use dispatchers::Dispatchers;
use notices::Notices;
pub use outbound::ConnectionLimits;
use peers::Peers;
use permission_check::AccessControl;
use run_queues::RunQueues;
use stats::Counters;
use std::time::Duration;

/// Limits from the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The longest request, in bytes (`--max-request`).
    pub max_request: usize,
    /// Clients served at a time (`--max-clients`).
    pub max_clients: usize,
    /// `--max-memory`, or else the machine's memory, in bytes: buffers may take a quarter.
    pub max_memory: Option<u64>,
}

/// Connections over one engine, driven through [`Core`](crate::model::driver::Core). Generic over
/// the engine, so that tests can serve over one that completes late.
#[derive(Debug)]
pub struct Server<E = Engine> {
    settings: Settings,
    engine: E,
    access: AccessControl,
    context: SessionContext,
    /// Keys of dispatchers are reserved here: both index the store's tables of clients.
    connections: Slab<Connection>,
    /// Connections of clients above `max_clients` that are being sent an error.
    rejected: usize,
    /// Connections to other servers, established or not.
    outbound: usize,
    limits: ConnectionLimits,
    dispatchers: Dispatchers,
    stopping: bool,
    /// The connection of the processor protocol, if it is open.
    processor: Option<ClientId>,
    deadlines: TimerQueue<ClientId>,
    run_queues: RunQueues,
    peers: Peers,
    reloads: Reloads,
    notices: Notices,
    counters: Counters,
    /// Bytes of unfinished requests and unsent replies of all connections.
    buffer_bytes: usize,
    /// Buffers are beyond their bound, and no client that may be closed for it has any.
    buffers_exempt: bool,
}

/// Hands a completion to a client whose session is not running now.
fn deliver_to(
    connections: &mut Slab<Connection>,
    dispatchers: &mut Dispatchers,
    queues: &mut RunQueues,
    completion: &mut Completion<'_>,
    now: Now,
) -> Option<Incident> {
    let client = completion.ticket.client;
    queues.work += DELIVERY_WORK;
    // The client of a late reply may have ended.
    let Some(connection) = connections.get_mut(client) else {
        if let Reply::KeyGroup(packets) = &mut completion.reply {
            queues.discarded.push_back(std::mem::take(packets).into_iter());
        } else {
            dispatchers.handle_reply(completion);
        }
        return None;
    };
    if connection.direction == Direction::Outbound {
        queues.ready_deliveries.push(client);
    }
    connection.output.prepare(&mut queues.pool);
    let incident = connection.handle_reply(completion, now);
    if connection.session.has_pending_submit() {
        queues.pending_submits.push_back(client);
    }
    if connection.session.wants_poll() {
        queues.schedule(client, connection);
    }
    queues.resume_stalled(client, connection);
    queues.mark_dirty(client, connection);
    if connection.is_ending() {
        queues.closing.push(client);
    }
    incident
}

/// [`deliver_to`], with the incident noted.
fn deliver_noted(
    (connections, dispatchers, queues): (&mut Slab<Connection>, &mut Dispatchers, &mut RunQueues),
    notices: &mut Notices,
    completion: &mut Completion<'_>,
    now: Now,
) {
    if let Some(incident) = deliver_to(connections, dispatchers, queues, completion, now) {
        notices.note(completion.ticket.client, incident, now);
    }
}

impl<E: CommandExecutor> Server<E> {
    /// A server without connections over `engine`.
    #[must_use]
    pub fn new(settings: Settings, engine: E) -> Self {
        let mut server = Self {
            settings,
            engine,
            access: AccessControl::default(),
            context: SessionContext::new(settings.max_request),
            connections: Slab::default(),
            rejected: 0,
            outbound: 0,
            limits: ConnectionLimits::default(),
            dispatchers: Dispatchers::default(),
            stopping: false,
            processor: None,
            deadlines: TimerQueue::default(),
            run_queues: RunQueues::default(),
            peers: Peers::default(),
            reloads: Reloads::default(),
            notices: Notices::default(),
            counters: Counters::default(),
            buffer_bytes: 0,
            buffers_exempt: false,
        };
        server.context.settings.max_clients = settings.max_clients;
        server.follow_registry(Now::default());
        server
    }

    /// The same server, which retains the results of tracked jobs for `ttl`, in whole milliseconds.
    #[must_use]
    pub fn with_result_ttl(mut self, ttl: Duration) -> Self {
        self.context.settings.result_ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// The same server, which accepts these host names in HTTP requests too.
    #[must_use]
    pub fn with_http_names(mut self, names: Vec<Box<str>>) -> Self {
        self.context.settings.http_names = names;
        self
    }

    /// The same server, with these settings of its dashboard.
    #[must_use]
    pub fn with_ui(mut self, settings: UiSettings) -> Self {
        self.context.settings.ui = settings;
        self
    }

    /// The same server, which makes the cookies of browsers that sign in from these random bits.
    #[must_use]
    pub fn with_secret(mut self, secret: [u8; 32]) -> Self {
        self.access.browsers = BrowserSessions::new(secret);
        let run = self.access.browsers.name();
        self.context.settings.cookie = format!("jobcentre-{run}").into();
        self
    }

    /// The same server, which refuses workers whose URLs have other addresses.
    #[must_use]
    pub fn with_worker_net(mut self, net: AddressSet) -> Self {
        self.context.settings.worker_net = net;
        self
    }

    /// The same server, whose beanstalkd clients put bodies of at most this many bytes.
    #[must_use]
    pub fn with_body_limit(mut self, bytes: usize) -> Self {
        self.context.settings.max_body = bytes;
        self
    }

    /// The same server, which says this of its process.
    #[must_use]
    pub fn with_identity(mut self, identity: beanstalkd::Identity) -> Self {
        self.context.settings.identity = identity;
        self
    }

    /// The same server, with these settings of the processor protocol.
    #[must_use]
    pub fn with_processor(mut self, settings: processor::Settings) -> Self {
        self.context.settings.processor = settings;
        self
    }

    /// Counts of what the store holds. O(1).
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.engine.counts()
    }

    /// Statistics of the journal, if there is one. O(segments).
    #[must_use]
    pub fn journal_status(&self) -> Option<journal::LogStats> {
        self.engine.journal_stats()
    }

    /// Hands every completion to the session that waits for it, then runs the pending submits that
    /// result. `running` is the connection whose session runs now, if any: its turn marks it dirty
    /// once, at the end, and polls its pending submit.
    #[inline]
    fn deliver(&mut self, running: Option<ClientId>, now: Now) {
        self.forward_reply(running, now);
        if !self.run_queues.pending_submits.is_empty() {
            self.run_pending_submits(running, now);
        }
    }

    fn forward_reply(&mut self, running: Option<ClientId>, now: Now) {
        while let Some(mut completion) = self.engine.poll_completion() {
            let client = completion.ticket.client;
            let incident = if Some(client) == running
                && let Some(connection) = self.connections.get_mut(client)
            {
                self.counters.answered += 1;
                connection.handle_reply(&mut completion, now)
            } else {
                let (dispatchers, queues) = (&mut self.dispatchers, &mut self.run_queues);
                deliver_to(&mut self.connections, dispatchers, queues, &mut completion, now)
            };
            if let Some(incident) = incident {
                self.notices.note(client, incident, now);
            }
        }
    }

    /// Lets the session of `client` consume requests from `input` until it needs more input,
    /// stalls or yields.
    fn run(&mut self, client: ClientId, input: &mut Input<'_>, now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        debug_assert!(
            connection.direction != Direction::Dialing,
            "nothing is read before the connect"
        );
        connection.output.prepare(&mut self.run_queues.pool);
        let Some(stalled) = self.serve_input(client, input, now) else { return };
        self.end_turn(now, progress(input).0);
        let Some(connection) = self.connections.get_mut(client) else { return };
        connection.stalled = stalled && !input.unread().is_empty();
        self.run_queues.mark_dirty(client, connection);
        if connection.session.is_timed() {
            if connection.direction == Direction::Outbound {
                self.run_queues.ready_deliveries.push(client);
            }
            self.arm_session_timeout(client);
        }
    }

    /// Begins a turn and submits its commands. Returns whether the session takes no more of its
    /// input for now; `None`: its connection has ended. In most cases a command completes at once,
    /// and nothing else with it.
    #[inline(always)]
    fn serve_input(&mut self, client: ClientId, input: &mut Input<'_>, now: Now) -> Option<bool> {
        let (begun, running) = (self.begin_turn(now), Some(client));
        loop {
            let mut connection = self.connections.get_mut(client)?;
            if connection.is_above_high_water() {
                if self.stalls_on_output(client, now) {
                    break Some(true);
                }
                connection = self.connections.get_mut(client)?;
            }
            match connection.poll_command(input, &mut self.context) {
                SessionAction::NeedInput => break Some(false),
                SessionAction::Stalled => break Some(true),
                SessionAction::Continue => {}
                SessionAction::Yield => {
                    self.run_queues.schedule(client, connection);
                    break Some(true);
                }
                SessionAction::Submit(serial, ref command) => {
                    let (ticket, mut has_others) = (Ticket { client, serial }, false);
                    if self.access.is_checking() {
                        let who = (&mut connection.access, ticket, connection.protocol);
                        let known = (&self.engine, &self.peers);
                        if let Some(denial) = self.access.denies(who, command, known, now) {
                            self.deny(client, Some(serial), &denial, now);
                            continue;
                        }
                    }
                    self.engine.submit(ticket, command, now);
                    while let Some(completion) = &mut self.engine.poll_completion() {
                        if completion.ticket.client != client {
                            let (others, queues) = (&mut self.connections, &mut self.run_queues);
                            let parts = (others, &mut self.dispatchers, queues);
                            deliver_noted(parts, &mut self.notices, completion, now);
                            has_others = true;
                            break;
                        }
                        self.counters.answered += 1;
                        if let Some(incident) = connection.handle_reply(completion, now) {
                            self.notices.note(client, incident, now);
                        }
                    }
                    if has_others {
                        self.deliver(running, now);
                    }
                    if self.take_extra_work(begun) {
                        break Some(self.yield_turn(ticket));
                    }
                }
                SessionAction::SubmitPending => {
                    if self.submit_pending(client, now) {
                        break Some(true);
                    }
                }
                SessionAction::FetchCaller => self.fetch_caller(client, now),
                SessionAction::Browser(request) => self.browser_session(client, request, now),
                SessionAction::FetchStats(kind) => self.fetch_stats(client, kind, now),
                SessionAction::Administer(request) => self.administer(request, client, now),
                SessionAction::Authenticate(ref who) => self.authenticate(client, who, now),
                SessionAction::Cancel(serial) => self.cancel_wait(client, serial, running, now),
                SessionAction::Observe => self.observe(client, now),
                SessionAction::FetchWorkers(name, from) => self.workers(client, name, from, now),
                SessionAction::Connections(request) => self.answer_about(request, client, now),
                SessionAction::Log(incident) => self.notices.note(client, incident, now),
                SessionAction::Close => connection.closing = true,
                SessionAction::End => connection.end_input(),
                SessionAction::ProtocolError(incident) => self.close_for(client, incident, now),
            }
        }
    }

    /// Closes a client after input that cannot be parsed.
    #[cold]
    fn close_for(&mut self, client: ClientId, incident: Incident, now: Now) {
        if let Some(connection) = self.connections.get_mut(client) {
            connection.closing = true;
        }
        self.notices.note(client, incident, now);
    }

    /// Lets the session of `client` consume requests from its input buffer followed by `more`.
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
            debug_assert!(connection.input.is_empty(), "input was buffered while it was consumed");
            connection.input = buffered;
        }
    }

    /// Advances the end of a connection after an event: cancels its waiting reserve, releases its
    /// jobs, arms the flush or linger timeout, or ends it.
    fn update_connection(&mut self, client: ClientId, now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        if (connection.is_ending())
            && let Some(serial) = connection.session.pending_serial()
        {
            self.cancel_wait(client, serial, None, now);
            self.run_queues.work += self.engine.take_work();
            if self.run_queues.closing.last() == Some(&client) {
                // That is being done right here.
                self.run_queues.closing.pop();
            }
        }
        let Some(connection) = self.connections.get_mut(client) else { return };
        if connection.is_ending() && connection.session.end_stream() {
            self.run_queues.schedule(client, connection);
        }
        // In a shutdown the server closes, not the client.
        if connection.is_peer_closed() && connection.protocol == Protocol::Http && !self.stopping {
            self.engine.half_close_client(client);
        }
        if matches!(connection.deadline, Some(Deadline::Session(_))) && connection.is_leaving() {
            self.disarm(client);
        }
        let Some(connection) = self.connections.get_mut(client) else { return };
        if connection.is_eof() && !connection.stalled {
            connection.input.clear();
            connection.count_buffers(&mut self.buffer_bytes);
        }
        if connection.is_finished() {
            return self.end(client, now, true);
        }
        self.begin_linger(client, now);
        self.arm_flush_timeout(client, now);
    }

    /// Ends a connection and releases the jobs of its client; if `close`, the driver closes it too.
    fn end(&mut self, client: ClientId, now: Now, close: bool) {
        self.disarm(client);
        let Some(mut connection) = self.connections.vacate(client) else { return };
        self.buffer_bytes -= connection.counted_bytes;
        self.run_queues.discarded.extend(connection.session.take_packets());
        if matches!(connection.session, Session::Rejected) {
            assert!(self.rejected > 0, "a rejected connection was not counted");
            self.rejected -= 1;
        } else if connection.direction == Direction::Inbound {
            let open = &mut self.counters.protocols[connection.protocol.number()].open;
            assert!(*open > 0, "an open connection was not counted");
            *open -= 1;
        } else {
            assert!(self.outbound > 0, "an outbound connection was not counted");
            self.outbound -= 1;
            self.on_delivery_end(client, &mut connection, now);
        }
        self.run_queues.work += TURN_WORK;
        if close {
            self.run_queues.actions.push_back(Action::Close(client));
        }
        if self.processor == Some(client) {
            self.processor = None;
            // Its workers still run its jobs, so the reservations stay.
            let ticket = Ticket { client, serial: 0 };
            self.engine.submit(ticket, &Command::Work(WorkerCommand::Detach), now);
            self.deliver(None, now);
        }
        self.leave_queues(client, &connection.session, now);
        self.engine.disconnect_client(client, now);
        self.run_queues.work += self.engine.take_work();
        self.release_disconnected();
        self.deliver(None, now);
    }

    /// The client of a session that ends uses and watches no queue any more.
    fn leave_queues(&mut self, client: ClientId, session: &Session, now: Now) {
        let Some((used, watched)) = session.interest() else { return };
        if used.is_empty() && watched.is_empty() {
            return;
        }
        let leave = ConsumerCommand::Leave { used: &used, watched: watched.from(0) };
        self.engine.submit(Ticket { client, serial: 0 }, &Command::Consumer(leave), now);
        self.deliver(None, now);
    }

    /// Keys of ended clients may be used again once the engine has requeued their jobs.
    fn release_disconnected(&mut self) {
        while let Some(client) = self.engine.poll_disconnected() {
            self.connections.release_key(client);
        }
    }
}

//! Dispatchers: one internal client per registered worker with a URL. They have no connection, and
//! a table of their own; their client ids are reserved keys of the slab of connections.
//!
//! The server follows the worker registry by a long poll: each worker that registers, and after a
//! restart each that is registered, gets a dispatcher. A dispatcher waits for the end of its
//! attachment, and ends with it. All that they learn of the engine are completions of their
//! commands, at once or later.
//!
//! Invariants:
//! - each worker with a URL that the server has learned of has at most one dispatcher;
//! - a dispatcher that ends because the server stops leaves the reservations to its worker.

use super::{Server, deliver_to};
use crate::base::limits::{WORKER_STEPS_PER_TURN, WORKERS_PER_PASS};
use crate::base::time::Now;
use crate::base::timer_queue::{TimerId, TimerQueue};
use crate::engine::CommandExecutor;
use crate::model::command::Command;
use crate::model::driver::Incident;
use crate::model::id::{ClientId, Ticket};
use crate::model::reply::{Completion, Reply};
use crate::model::worker::{OwnedWorker, WorkerCommand, WorkerId, WorkerKind};
use crate::protocol::http::dispatch::{Address, DispatchAction, StoreRequest, WorkerDispatcher};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The client that follows the worker registry. It reserves nothing, and no connection has its id.
const REGISTRY_CLIENT: ClientId = ClientId { index: u32::MAX, generation: 0 };

/// A dispatcher as a client of the engine.
#[derive(Debug)]
struct DispatcherEntry {
    dispatcher: WorkerDispatcher,
    /// Armed at or before the end of its backoff.
    timer: Option<TimerId>,
}

/// The dispatchers, and what is known of the worker registry.
#[derive(Debug, Default)]
pub(super) struct Dispatchers {
    table: BTreeMap<ClientId, DispatcherEntry>,
    /// Those that may have an action. Ids of dispatchers that have ended are skipped.
    pub(super) ready: VecDeque<ClientId>,
    /// Those that may have an idle connection, and maybe some that have ended.
    pub(super) with_idle: BTreeSet<ClientId>,
    /// Serial of the long poll.
    serial: u32,
    /// The server has learned of all workers with smaller ids.
    next: WorkerId,
    /// The latest page of the registry, until its workers have dispatchers.
    page: Vec<OwnedWorker>,
}

impl Dispatchers {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// O(client ids).
    pub(super) fn clients(&self) -> Vec<ClientId> {
        self.table.keys().copied().collect()
    }

    /// The number of armed timers. For checks.
    pub(super) fn timers(&self) -> usize {
        self.table.values().filter(|entry| entry.timer.is_some()).count()
    }

    /// The timer of a dispatcher, if it is armed.
    pub(super) fn timer(&self, client: ClientId) -> Option<TimerId> {
        self.table.get(&client)?.timer
    }

    /// Takes the reply to a command of a dispatcher, or to the long poll. Others are late.
    #[cold]
    pub(super) fn handle_reply(&mut self, completion: &Completion<'_>) {
        let Ticket { client, serial } = completion.ticket;
        if let Some(entry) = self.table.get_mut(&client) {
            entry.dispatcher.handle_reply(serial, &completion.reply);
            self.ready.push_back(client);
        } else if client == REGISTRY_CLIENT
            && serial == self.serial
            && let Reply::Workers(page) = completion.reply
        {
            assert!(self.page.is_empty(), "a page of the registry is replaced before its use");
            self.page = page.to_vec();
        }
    }

    /// Arms a timer for the end of a backoff. O(log n).
    fn arm(&mut self, client: ClientId, deadlines: &mut TimerQueue<ClientId>) {
        let Some(entry) = self.table.get_mut(&client) else { return };
        let Some(at) = entry.dispatcher.deadline() else { return };
        if let Some(timer) = entry.timer {
            if deadlines.moment(timer) <= at {
                return;
            }
            deadlines.cancel(timer);
        }
        entry.timer = Some(deadlines.arm(at, client));
    }

    /// Called when the timer of a dispatcher has fired.
    pub(super) fn handle_timeout(
        &mut self,
        client: ClientId,
        now: Now,
        deadlines: &mut TimerQueue<ClientId>,
    ) {
        // Proof: the end of a connection and of a dispatcher cancels its timer.
        let entry = self.table.get_mut(&client).expect("the client of a timer has not ended");
        assert!(entry.timer.take().is_some(), "a timer fires that the dispatcher has not armed");
        if entry.dispatcher.deadline().is_none_or(|at| at > now.mono) {
            return self.arm(client, deadlines);
        }
        entry.dispatcher.handle_timeout();
        self.ready.push_back(client);
    }
}

impl<E: CommandExecutor> Server<E> {
    pub(super) fn dispatcher_mut(&mut self, client: ClientId) -> Option<&mut WorkerDispatcher> {
        self.dispatchers.table.get_mut(&client).map(|entry| &mut entry.dispatcher)
    }

    /// Whether dispatchers have work that needs no further event.
    pub(super) fn are_dispatchers_due(&self) -> bool {
        let registered = !self.dispatchers.page.is_empty() && !self.stopping;
        registered
            || !self.dispatchers.ready.is_empty()
            || !self.run_queues.ready_deliveries.is_empty()
    }

    /// Runs dispatchers, [`WORKERS_PER_PASS`] steps at most.
    pub(super) fn run_dispatchers(&mut self, now: Now) {
        if !self.are_dispatchers_due() {
            return;
        }
        self.poll_deliveries(now);
        let mut left = WORKERS_PER_PASS;
        while left > 0 && !self.dispatchers.page.is_empty() && !self.stopping {
            left = left.saturating_sub(self.add_dispatchers(now));
        }
        while left > 0
            && let Some(client) = self.dispatchers.ready.pop_front()
        {
            let done = self.run_dispatcher(client, left.min(WORKER_STEPS_PER_TURN), now);
            left -= done.min(left);
            self.poll_deliveries(now);
        }
    }

    /// Waits for the next registered workers.
    pub(super) fn follow_registry(&mut self, now: Now) {
        assert!(self.dispatchers.page.is_empty(), "workers of the last page have no dispatcher");
        self.dispatchers.serial = self.dispatchers.serial.wrapping_add(1);
        let ticket = Ticket { client: REGISTRY_CLIENT, serial: self.dispatchers.serial };
        let from = self.dispatchers.next;
        self.engine.submit(ticket, &Command::Work(WorkerCommand::AwaitWorkers { from }), now);
        self.deliver(None, now);
    }

    /// Adds the dispatchers of a page of the registry, and asks for the next page. Returns the
    /// number of workers. O(page).
    fn add_dispatchers(&mut self, now: Now) -> usize {
        let page = std::mem::take(&mut self.dispatchers.page);
        for known in &page {
            assert!(known.id >= self.dispatchers.next, "the registry names a worker twice");
            self.dispatchers.next = WorkerId(known.id.0 + 1);
            let worker = known.view();
            let WorkerKind::Http(url) = worker.kind() else { continue };
            match Address::parse(url) {
                Ok(address) => {
                    let dispatcher = WorkerDispatcher::new(known.id, &worker, address);
                    self.add_dispatcher(dispatcher);
                }
                Err(_) => self.drop_worker(known.id, now),
            }
        }
        self.follow_registry(now);
        page.len()
    }

    fn add_dispatcher(&mut self, dispatcher: WorkerDispatcher) {
        let client = self.connections.reserve_key();
        let entry = DispatcherEntry { dispatcher, timer: None };
        let former = self.dispatchers.table.insert(client, entry);
        assert!(former.is_none(), "two dispatchers have the same id");
        self.dispatchers.ready.push_back(client);
    }

    /// Deregisters a worker whose URL is unusable.
    fn drop_worker(&mut self, worker: WorkerId, now: Now) {
        let ticket = Ticket { client: REGISTRY_CLIENT, serial: 0 };
        self.engine.submit(ticket, &Command::Work(WorkerCommand::Deregister { worker }), now);
        self.deliver(None, now);
        self.notices.note(REGISTRY_CLIENT, Incident::WorkerDropped(worker), now);
    }

    /// Carries out up to `most` actions of a dispatcher. Returns how many it were.
    fn run_dispatcher(&mut self, client: ClientId, most: usize, now: Now) -> usize {
        for done in 0..most {
            let Some(dispatcher) = self.dispatcher_mut(client) else { return done };
            let Some(action) = dispatcher.poll() else {
                self.dispatchers.arm(client, &mut self.deadlines);
                return done;
            };
            match action {
                DispatchAction::Reserve(serial) => self.submit_reserve(client, serial, now),
                DispatchAction::Request(serial, request) => {
                    self.submit_request(client, serial, request, now);
                }
                DispatchAction::Cancel(serial) => self.cancel_wait(client, serial, None, now),
                DispatchAction::Deliver(delivery) => self.deliver_to_worker(client, delivery, now),
                DispatchAction::Close { dropped } => {
                    self.end_dispatcher(client, dropped, now);
                    return done + 1;
                }
            }
        }
        self.dispatchers.ready.push_back(client);
        most
    }

    fn submit_reserve(&mut self, client: ClientId, serial: u32, now: Now) {
        let Some(entry) = self.dispatchers.table.get(&client) else { return };
        let ticket = Ticket { client, serial };
        self.engine.submit(ticket, &entry.dispatcher.reserve(), now);
        self.deliver(None, now);
    }

    fn submit_request(&mut self, client: ClientId, serial: u32, request: StoreRequest, now: Now) {
        let Some(dispatcher) = self.dispatcher_mut(client) else { return };
        let command = Command::Work(request.work(dispatcher.worker()));
        self.engine.submit(Ticket { client, serial }, &command, now);
        self.deliver(None, now);
    }

    /// The server stops: the dispatchers reserve no further jobs.
    pub(super) fn stop_dispatchers(&mut self) {
        for client in self.dispatchers.clients() {
            if let Some(dispatcher) = self.dispatcher_mut(client) {
                dispatcher.stop();
                self.dispatchers.ready.push_back(client);
            }
        }
    }

    fn end_dispatcher(&mut self, client: ClientId, dropped: bool, now: Now) {
        let Some(dispatcher) = self.dispatcher_mut(client) else { return };
        let (worker, connections) = (dispatcher.worker(), dispatcher.take_connections());
        for connection_id in connections {
            self.end(connection_id, now, true);
        }
        if dropped {
            self.notices.note(client, Incident::WorkerDropped(worker), now);
        }
        self.dispatchers.with_idle.remove(&client);
        let ended = self.dispatchers.table.remove(&client);
        assert!(ended.is_some(), "the end of its connections has ended a dispatcher");
        if let Some(timer) = ended.and_then(|entry| entry.timer) {
            self.deadlines.cancel(timer);
        }
        if !self.stopping {
            self.engine.disconnect_client(client, now);
            self.release_disconnected();
            self.deliver(None, now);
        }
    }

    /// Submits a command under a client id that no connection has, and passes immediate replies to
    /// `see`. For tests.
    #[doc(hidden)]
    pub fn submit_for_test(
        &mut self,
        command: &Command<'_>,
        now: Now,
        mut see: impl FnMut(&Reply<'_>),
    ) {
        let unknown = ClientId { index: u32::MAX - 1, generation: 0 };
        self.engine.submit(Ticket { client: unknown, serial: 0 }, command, now);
        while let Some(mut completion) = self.engine.poll_completion() {
            if completion.ticket.client == unknown {
                see(&completion.reply);
            } else {
                let dispatchers = &mut self.dispatchers;
                let queues = &mut self.run_queues;
                deliver_to(&mut self.connections, dispatchers, queues, &mut completion, now);
            }
        }
        self.deliver(None, now);
    }

    /// For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn engine_for_test(&self) -> &E {
        &self.engine
    }

    pub(super) fn check_dispatchers(&self) {
        let mut workers = BTreeSet::new();
        for (&client, entry) in &self.dispatchers.table {
            entry.dispatcher.check_invariants();
            assert!(workers.insert(entry.dispatcher.worker()), "a worker has two dispatchers");
            assert!(self.connections.get(client).is_none(), "a connection has the same id");
        }
    }
}

//! Dispatchers: one internal client per registered worker with a URL.
//!
//! The engine holds the worker registry, and its version says when to compare. So dispatchers are
//! added and removed with their workers, whatever registered or removed these, and after a restart
//! all exist after the first pass.
//!
//! Invariants:
//! - between two passes each registered worker with a URL has exactly one dispatcher, and there are
//!   no others, unless the server stops;
//! - a dispatcher that ends because the server stops leaves the reservations to its worker.

use super::connection::{Connection, Origin};
use super::{Server, deliver_to};
use crate::base::limits::{WORKER_STEPS_PER_TURN, WORKERS_PER_PASS};
use crate::base::time::Now;
use crate::engine::Engine;
use crate::model::command::{Command, Wait};
use crate::model::driver::{Incident, Protocol};
use crate::model::id::{ClientId, Ticket};
use crate::model::reply::Reply;
use crate::model::worker::{WorkerCommand, WorkerId, WorkerKind};
use crate::protocol::Session;
use crate::protocol::http::dispatch::{Address, DispatchAction, StoreRequest, WorkerDispatcher};
use std::collections::BTreeMap;

/// The dispatchers, by worker.
#[derive(Debug, Default)]
pub(super) struct Dispatchers {
    by_worker: BTreeMap<WorkerId, ClientId>,
    /// Version of the registry at the last comparison.
    seen: u64,
    /// All workers registered up to then have smaller ids.
    next: u64,
    /// How many of those have no URL, and so no dispatcher: the bus worker, which stays registered.
    without_url: usize,
}

impl Dispatchers {
    pub(super) fn len(&self) -> usize {
        self.by_worker.len()
    }

    pub(super) fn clients(&self) -> Vec<ClientId> {
        self.by_worker.values().copied().collect()
    }
}

impl Server {
    pub(super) fn dispatcher_mut(&mut self, client: ClientId) -> Option<&mut WorkerDispatcher> {
        match &mut self.connections.get_mut(client)?.session {
            Session::Agent(dispatcher) => Some(dispatcher),
            _ => None,
        }
    }

    /// Whether dispatchers have work that needs no further event.
    pub(super) fn are_dispatchers_due(&self) -> bool {
        let list = self.engine.registry_version() != self.dispatchers.seen && !self.stopping;
        list || !self.run_queues.ready_dispatchers.is_empty()
            || !self.run_queues.ready_deliveries.is_empty()
    }

    /// Runs dispatchers, [`WORKERS_PER_PASS`] steps at most.
    pub(super) fn run_dispatchers(&mut self, now: Now) {
        if !self.are_dispatchers_due() {
            return;
        }
        self.poll_deliveries(now);
        if self.engine.registry_version() != self.dispatchers.seen && !self.stopping {
            self.sync_with_registry(now);
        }
        let mut left = WORKERS_PER_PASS;
        while left > 0
            && let Some(client) = self.run_queues.ready_dispatchers.pop_front()
        {
            let done = self.run_dispatcher(client, left.min(WORKER_STEPS_PER_TURN), now);
            left -= done.min(left);
            self.poll_deliveries(now);
        }
    }

    /// Adds and deregisters dispatchers. O(new workers), and O(dispatchers) if workers were
    /// removed.
    fn sync_with_registry(&mut self, now: Now) {
        self.dispatchers.seen = self.engine.registry_version();
        let mut new = Vec::new();
        for (id, worker) in self.engine.workers(WorkerId(self.dispatchers.next)) {
            let WorkerKind::Http(url) = worker.kind() else {
                self.dispatchers.without_url += 1;
                self.dispatchers.next = id.0 + 1;
                continue;
            };
            let address = Address::parse(url);
            new.push((id, address.ok().map(|address| WorkerDispatcher::new(id, &worker, address))));
        }
        for (id, dispatcher) in new {
            self.dispatchers.next = id.0 + 1;
            match dispatcher {
                Some(dispatcher) => self.add_dispatcher(id, dispatcher),
                None => self.drop_worker(id, now),
            }
        }
        if self.dispatchers.len() > self.engine.counts().workers - self.dispatchers.without_url {
            for (&worker, &client) in &self.dispatchers.by_worker {
                if !self.engine.is_registered(worker)
                    && let Some(connection) = self.connections.get_mut(client)
                    && let Session::Agent(dispatcher) = &mut connection.session
                {
                    dispatcher.deregister();
                    self.run_queues.ready_dispatchers.push_back(client);
                }
            }
        }
    }

    fn add_dispatcher(&mut self, worker: WorkerId, dispatcher: WorkerDispatcher) {
        let session = Session::Agent(Box::new(dispatcher));
        let connection =
            Connection { origin: Origin::Internal, ..Connection::new(Protocol::Http, session) };
        let client = self.connections.insert(connection);
        self.dispatchers.by_worker.insert(worker, client);
        self.run_queues.ready_dispatchers.push_back(client);
    }

    /// Deregisters a worker whose URL is unusable.
    fn drop_worker(&mut self, worker: WorkerId, now: Now) {
        let unknown = ClientId { index: u32::MAX, generation: 0 };
        let ticket = Ticket { client: unknown, serial: 0 };
        self.engine.submit(ticket, &Command::Work(WorkerCommand::Deregister { worker }), now);
        self.deliver(None, now);
        self.notices.note(unknown, Incident::WorkerDropped(worker), now);
    }

    /// Carries out up to `most` actions of a dispatcher. Returns how many it were.
    fn run_dispatcher(&mut self, client: ClientId, most: usize, now: Now) -> usize {
        for done in 0..most {
            let Some(dispatcher) = self.dispatcher_mut(client) else { return done };
            let Some(action) = dispatcher.poll() else {
                self.arm_session_timeout(client);
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
        self.run_queues.ready_dispatchers.push_back(client);
        most
    }

    fn submit_reserve(&mut self, client: ClientId, serial: u32, now: Now) {
        let Some(connection) = self.connections.get(client) else { return };
        let Session::Agent(dispatcher) = &connection.session else { return };
        let command = match dispatcher.queues() {
            Some(queues) => Command::Reserve { queues, wait: Wait::Forever },
            None => Command::Work(WorkerCommand::ReserveAny),
        };
        self.engine.submit(Ticket { client, serial }, &command, now);
        self.deliver(None, now);
    }

    fn submit_request(&mut self, client: ClientId, serial: u32, request: StoreRequest, now: Now) {
        let Some(dispatcher) = self.dispatcher_mut(client) else { return };
        let worker = dispatcher.worker();
        let command = request.work(worker);
        self.engine.submit(Ticket { client, serial }, &Command::Work(command), now);
        if request == StoreRequest::Attach {
            let held = self.engine.reserved_by(worker);
            if let Some(dispatcher) = self.dispatcher_mut(client) {
                dispatcher.resume(held);
            }
        }
        self.deliver(None, now);
    }

    /// The server stops: the dispatcher reserves no further jobs.
    pub(super) fn drain_dispatcher(&mut self, client: ClientId) {
        if let Some(dispatcher) = self.dispatcher_mut(client) {
            dispatcher.stop();
            self.run_queues.ready_dispatchers.push_back(client);
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
        self.disarm(client);
        self.dispatchers.by_worker.remove(&worker);
        self.connections.remove(client);
        if !self.stopping {
            self.engine.disconnect_client(client, now);
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
        while let Some(completion) = self.engine.poll_completion() {
            if completion.ticket.client == unknown {
                see(&completion.reply);
            } else {
                deliver_to(&mut self.connections, &mut self.run_queues, &completion, now);
            }
        }
        self.deliver(None, now);
    }

    /// For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn engine_for_test(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn check_dispatchers(&self) {
        for (&worker, &client) in &self.dispatchers.by_worker {
            let connection = self.connections.get(client).expect("a dispatcher is a client");
            let Session::Agent(dispatcher) = &connection.session else {
                panic!("not a dispatcher")
            };
            assert_eq!((dispatcher.worker(), connection.origin), (worker, Origin::Internal));
            assert!(!connection.dirty && connection.output.is_empty(), "a dispatcher has output");
            dispatcher.check_invariants();
            let held = self.engine.reserved_by(worker).len();
            assert!(held <= dispatcher.max_jobs(), "worker {worker:?} has {held} jobs");
        }
        let internal = self.connections.iter().filter(|(_, each)| each.origin == Origin::Internal);
        assert_eq!(internal.count(), self.dispatchers.len(), "a dispatcher without a worker");
    }
}

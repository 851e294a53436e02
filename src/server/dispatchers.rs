//! Agents: for each worker of the list a client without a connection, which acts for it.
//!
//! Who is on the list the engine knows: its number of changes says when to look. So agents come
//! and go with their workers, however these came and went, and after a restart all are there with
//! the first pass.
//!
//! Invariants:
//! - between two passes each worker of the list has one agent and no other worker has any, unless
//!   the server stops;
//! - an agent that ends because the server stops leaves its worker the jobs that it holds.

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

/// Who acts for whom.
#[derive(Debug, Default)]
pub(super) struct Dispatchers {
    by_worker: BTreeMap<WorkerId, ClientId>,
    /// How often the list had been changed when it was looked at.
    seen: u64,
    /// No worker that came up to then has a later number.
    next: u64,
    /// How many of those have no URL, and so no agent: the processor, which stays on the list.
    silent: usize,
}

impl Dispatchers {
    pub(super) fn len(&self) -> usize {
        self.by_worker.len()
    }

    /// All of them.
    pub(super) fn clients(&self) -> Vec<ClientId> {
        self.by_worker.values().copied().collect()
    }
}

impl Server {
    pub(super) fn dispatcher_mut(&mut self, client: ClientId) -> Option<&mut WorkerDispatcher> {
        match &mut self.connections.get_mut(client)?.session {
            Session::Agent(agent) => Some(agent),
            _ => None,
        }
    }

    /// Whether agents have something to do before anything happens.
    pub(super) fn are_dispatchers_due(&self) -> bool {
        let list = self.engine.registry_version() != self.agents.seen && !self.stopping;
        list || !self.lists.ready_dispatchers.is_empty() || !self.lists.ready_deliveries.is_empty()
    }

    /// Lets agents act, as far as a pass allows.
    pub(super) fn run_dispatchers(&mut self, now: Now) {
        if !self.are_dispatchers_due() {
            return;
        }
        self.poll_deliveries(now);
        if self.engine.registry_version() != self.agents.seen && !self.stopping {
            self.sync_with_registry(now);
        }
        let mut left = WORKERS_PER_PASS;
        while left > 0
            && let Some(client) = self.lists.ready_dispatchers.pop_front()
        {
            let done = self.run_dispatcher(client, left.min(WORKER_STEPS_PER_TURN), now);
            left -= done.min(left);
            self.poll_deliveries(now);
        }
    }

    /// O(workers that are new), and O(agents) if workers have gone.
    fn sync_with_registry(&mut self, now: Now) {
        self.agents.seen = self.engine.registry_version();
        let mut new = Vec::new();
        for (id, worker) in self.engine.workers(WorkerId(self.agents.next)) {
            let WorkerKind::Http(url) = worker.kind() else {
                self.agents.silent += 1;
                self.agents.next = id.0 + 1;
                continue;
            };
            let address = Address::parse(url);
            new.push((id, address.ok().map(|address| WorkerDispatcher::new(id, &worker, address))));
        }
        for (id, agent) in new {
            self.agents.next = id.0 + 1;
            match agent {
                Some(agent) => self.add_dispatcher(id, agent),
                None => self.drop_worker(id, now),
            }
        }
        if self.agents.len() > self.engine.counts().workers - self.agents.silent {
            for (&worker, &client) in &self.agents.by_worker {
                if !self.engine.is_registered(worker)
                    && let Some(connection) = self.connections.get_mut(client)
                    && let Session::Agent(agent) = &mut connection.session
                {
                    agent.deregister();
                    self.lists.ready_dispatchers.push_back(client);
                }
            }
        }
    }

    fn add_dispatcher(&mut self, worker: WorkerId, agent: WorkerDispatcher) {
        let session = Session::Agent(Box::new(agent));
        let connection =
            Connection { way: Origin::Internal, ..Connection::new(Protocol::Http, session) };
        let client = self.connections.insert(connection);
        self.agents.by_worker.insert(worker, client);
        self.lists.ready_dispatchers.push_back(client);
    }

    /// A worker that cannot be called is not kept on the list.
    fn drop_worker(&mut self, worker: WorkerId, now: Now) {
        let nobody = ClientId { index: u32::MAX, generation: 0 };
        let ticket = Ticket { client: nobody, serial: 0 };
        self.engine.submit(ticket, &Command::Work(WorkerCommand::Deregister { worker }), now);
        self.deliver(None, now);
        self.notices.note(nobody, Incident::WorkerDropped(worker), now);
    }

    /// Does up to `most` things for an agent; how many it did.
    fn run_dispatcher(&mut self, client: ClientId, most: usize, now: Now) -> usize {
        for done in 0..most {
            let Some(agent) = self.dispatcher_mut(client) else { return done };
            let Some(wish) = agent.poll() else {
                self.watch_session(client);
                return done;
            };
            match wish {
                DispatchAction::Reserve(serial) => self.submit_reserve(client, serial, now),
                DispatchAction::Request(serial, order) => {
                    self.submit_request(client, serial, order, now);
                }
                DispatchAction::Cancel(serial) => self.cancel_wait(client, serial, None, now),
                DispatchAction::Deliver(errand) => self.deliver_to_worker(client, errand, now),
                DispatchAction::Close { dropped } => {
                    self.end_dispatcher(client, dropped, now);
                    return done + 1;
                }
            }
        }
        self.lists.ready_dispatchers.push_back(client);
        most
    }

    fn submit_reserve(&mut self, client: ClientId, serial: u32, now: Now) {
        let Some(connection) = self.connections.get(client) else { return };
        let Session::Agent(agent) = &connection.session else { return };
        let command = match agent.queues() {
            Some(queues) => Command::Reserve { queues, wait: Wait::Forever },
            None => Command::Work(WorkerCommand::ReserveAny),
        };
        self.engine.submit(Ticket { client, serial }, &command, now);
        self.deliver(None, now);
    }

    fn submit_request(&mut self, client: ClientId, serial: u32, order: StoreRequest, now: Now) {
        let Some(agent) = self.dispatcher_mut(client) else { return };
        let worker = agent.worker();
        let command = order.work(worker);
        self.engine.submit(Ticket { client, serial }, &Command::Work(command), now);
        if order == StoreRequest::Attach {
            let held = self.engine.reserved_by(worker);
            if let Some(agent) = self.dispatcher_mut(client) {
                agent.resume(held);
            }
        }
        self.deliver(None, now);
    }

    /// The server stops: an agent takes nothing more.
    pub(super) fn drain_dispatcher(&mut self, client: ClientId) {
        if let Some(agent) = self.dispatcher_mut(client) {
            agent.stop();
            self.lists.ready_dispatchers.push_back(client);
        }
    }

    fn end_dispatcher(&mut self, client: ClientId, dropped: bool, now: Now) {
        let Some(agent) = self.dispatcher_mut(client) else { return };
        let (worker, lines) = (agent.worker(), agent.take_connections());
        for line in lines {
            self.end(line, now, true);
        }
        if dropped {
            self.notices.note(client, Incident::WorkerDropped(worker), now);
        }
        self.disarm(client);
        self.agents.by_worker.remove(&worker);
        self.connections.remove(client);
        if !self.stopping {
            self.engine.disconnect_client(client, now);
            self.deliver(None, now);
        }
    }

    /// Carries out a command of somebody who is no client of this server; answers that come at once
    /// are shown. For tests.
    #[doc(hidden)]
    pub fn submit_for_test(
        &mut self,
        command: &Command<'_>,
        now: Now,
        mut see: impl FnMut(&Reply<'_>),
    ) {
        let nobody = ClientId { index: u32::MAX - 1, generation: 0 };
        self.engine.submit(Ticket { client: nobody, serial: 0 }, command, now);
        while let Some(completion) = self.engine.poll_completion() {
            if completion.ticket.client == nobody {
                see(&completion.reply);
            } else {
                deliver_to(&mut self.connections, &mut self.lists, &completion, now);
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
        for (&worker, &client) in &self.agents.by_worker {
            let connection = self.connections.get(client).expect("an agent is a client");
            let Session::Agent(agent) = &connection.session else { panic!("no agent") };
            assert_eq!((agent.worker(), connection.way), (worker, Origin::Internal));
            assert!(!connection.touched && connection.output.is_empty(), "an agent says something");
            agent.check_invariants();
            let held = self.engine.reserved_by(worker).len();
            assert!(held <= agent.max_jobs(), "worker {worker:?} has {held} jobs");
        }
        let agents = self.connections.iter().filter(|(_, each)| each.way == Origin::Internal);
        assert_eq!(agents.count(), self.agents.len(), "an agent without a worker");
    }
}

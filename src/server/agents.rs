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

use super::connection::{Connection, Way};
use super::{Server, hand_to_other};
use crate::base::limits::{WORKER_TURN, WORKERS_PER_PASS};
use crate::base::time::Now;
use crate::model::command::{Command, Wait};
use crate::model::core::{Door, Trouble};
use crate::model::id::{ClientId, Ticket};
use crate::model::reply::Reply;
use crate::model::work::{Work, WorkerId};
use crate::protocol::Session;
use crate::protocol::http::agent::{Address, Agent, Order, Wish};
use std::collections::BTreeMap;

/// Who acts for whom.
#[derive(Debug, Default)]
pub(super) struct Agents {
    by_worker: BTreeMap<WorkerId, ClientId>,
    /// How often the list had been changed when it was looked at.
    seen: u64,
    /// No worker that came up to then has a later number.
    next: u64,
    /// How many of those have no URL, and so no agent: the processor, which stays on the list.
    silent: usize,
}

impl Agents {
    pub(super) fn len(&self) -> usize {
        self.by_worker.len()
    }

    /// All of them.
    pub(super) fn clients(&self) -> Vec<ClientId> {
        self.by_worker.values().copied().collect()
    }
}

impl Server {
    pub(super) fn agent_mut(&mut self, client: ClientId) -> Option<&mut Agent> {
        match &mut self.connections.get_mut(client)?.session {
            Session::Agent(agent) => Some(agent),
            _ => None,
        }
    }

    /// Whether agents have something to do before anything happens.
    pub(super) fn are_agents_due(&self) -> bool {
        let list = self.engine.list_changes() != self.agents.seen && !self.stopping;
        list || !self.lists.awake.is_empty() || !self.lists.called.is_empty()
    }

    /// Lets agents act, as far as a pass allows.
    pub(super) fn run_agents(&mut self, now: Now) {
        if !self.are_agents_due() {
            return;
        }
        self.hear_calls(now);
        if self.engine.list_changes() != self.agents.seen && !self.stopping {
            self.meet_workers(now);
        }
        let mut left = WORKERS_PER_PASS;
        while left > 0
            && let Some(client) = self.lists.awake.pop_front()
        {
            let done = self.run_agent(client, left.min(WORKER_TURN), now);
            left -= done.min(left);
            self.hear_calls(now);
        }
    }

    /// O(workers that are new), and O(agents) if workers have gone.
    fn meet_workers(&mut self, now: Now) {
        self.agents.seen = self.engine.list_changes();
        let mut new = Vec::new();
        for (id, worker) in self.engine.workers(WorkerId(self.agents.next)) {
            if worker.url.is_empty() {
                self.agents.silent += 1;
                self.agents.next = id.0 + 1;
                continue;
            }
            let address = Address::parse(worker.url);
            new.push((id, address.ok().map(|address| Agent::new(id, &worker, address))));
        }
        for (id, agent) in new {
            self.agents.next = id.0 + 1;
            match agent {
                Some(agent) => self.add_agent(id, agent),
                None => self.drop_worker(id, now),
            }
        }
        if self.agents.len() > self.engine.counts().workers - self.agents.silent {
            for (&worker, &client) in &self.agents.by_worker {
                if !self.engine.is_on_list(worker)
                    && let Some(connection) = self.connections.get_mut(client)
                    && let Session::Agent(agent) = &mut connection.session
                {
                    agent.dismiss();
                    self.lists.awake.push_back(client);
                }
            }
        }
    }

    fn add_agent(&mut self, worker: WorkerId, agent: Agent) {
        let session = Session::Agent(Box::new(agent));
        let connection = Connection { way: Way::Agent, ..Connection::new(Door::Http, session) };
        let client = self.connections.insert(connection);
        self.agents.by_worker.insert(worker, client);
        self.lists.awake.push_back(client);
    }

    /// A worker that cannot be called is not kept on the list.
    fn drop_worker(&mut self, worker: WorkerId, now: Now) {
        let nobody = ClientId { index: u32::MAX, generation: 0 };
        let ticket = Ticket { client: nobody, serial: 0 };
        self.engine.submit(ticket, &Command::Work(&Work::Dismiss { worker }), now);
        self.deliver(None, now);
        self.notices.note(nobody, Trouble::WorkerDropped(worker), now);
    }

    /// Does up to `most` things for an agent; how many it did.
    fn run_agent(&mut self, client: ClientId, most: usize, now: Now) -> usize {
        for done in 0..most {
            let Some(agent) = self.agent_mut(client) else { return done };
            let Some(wish) = agent.poll() else {
                self.watch_session(client);
                return done;
            };
            match wish {
                Wish::Take(serial) => self.submit_take(client, serial, now),
                Wish::Ask(serial, order) => self.submit_order(client, serial, order, now),
                Wish::CallOff(serial) => self.call_off(client, serial, None, now),
                Wish::Call(errand) => self.call_worker(client, errand, now),
                Wish::End { dropped } => {
                    self.end_agent(client, dropped, now);
                    return done + 1;
                }
            }
        }
        self.lists.awake.push_back(client);
        most
    }

    fn submit_take(&mut self, client: ClientId, serial: u32, now: Now) {
        let Some(connection) = self.connections.get(client) else { return };
        let Session::Agent(agent) = &connection.session else { return };
        let command = match agent.queues() {
            Some(queues) => Command::Take { queues, wait: Wait::Forever },
            None => Command::Work(&Work::TakeAny),
        };
        self.engine.submit(Ticket { client, serial }, &command, now);
        self.deliver(None, now);
    }

    fn submit_order(&mut self, client: ClientId, serial: u32, order: Order, now: Now) {
        let Some(agent) = self.agent_mut(client) else { return };
        let worker = agent.worker();
        let command = order.work(worker);
        self.engine.submit(Ticket { client, serial }, &Command::Work(&command), now);
        if order == Order::Serve {
            let held = self.engine.held_by(worker);
            if let Some(agent) = self.agent_mut(client) {
                agent.resume(held);
            }
        }
        self.deliver(None, now);
    }

    /// The server stops: an agent takes nothing more.
    pub(super) fn stop_agent(&mut self, client: ClientId) {
        if let Some(agent) = self.agent_mut(client) {
            agent.stop();
            self.lists.awake.push_back(client);
        }
    }

    fn end_agent(&mut self, client: ClientId, dropped: bool, now: Now) {
        let Some(agent) = self.agent_mut(client) else { return };
        let (worker, lines) = (agent.worker(), agent.take_lines());
        for line in lines {
            self.end(line, now, true);
        }
        if dropped {
            self.notices.note(client, Trouble::WorkerDropped(worker), now);
        }
        self.disarm(client);
        self.agents.by_worker.remove(&worker);
        self.connections.remove(client);
        if !self.stopping {
            self.engine.forget(client, now);
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
                hand_to_other(&mut self.connections, &mut self.lists, &completion, now);
            }
        }
        self.deliver(None, now);
    }

    pub(super) fn check_agents(&self) {
        for (&worker, &client) in &self.agents.by_worker {
            let connection = self.connections.get(client).expect("an agent is a client");
            let Session::Agent(agent) = &connection.session else { panic!("no agent") };
            assert_eq!((agent.worker(), connection.way), (worker, Way::Agent));
            assert!(!connection.touched && connection.output.is_empty(), "an agent says something");
            agent.check_invariants();
            let held = self.engine.held_by(worker).len();
            assert!(held <= agent.max_jobs(), "worker {worker:?} has {held} jobs");
        }
        let agents = self.connections.iter().filter(|(_, each)| each.way == Way::Agent);
        assert_eq!(agents.count(), self.agents.len(), "an agent without a worker");
    }
}

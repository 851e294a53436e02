//! Calls to workers: connections that agents ask for, use again, and hear of.

use super::Server;
use super::connection::{Connection, Origin};
use crate::base::time::Now;
use crate::model::id::{ClientId, Ticket};
use crate::protocol::Session;
use crate::protocol::http::dispatch::{
    Delivery, DeliveryOutcome, WorkerConnection, WorkerDispatcher,
};
use std::sync::Arc;

impl Server {
    fn call_mut(&mut self, client: ClientId) -> Option<&mut WorkerConnection> {
        match &mut self.connections.get_mut(client)?.session {
            Session::Call(call) => Some(call),
            _ => None,
        }
    }

    /// There is no room here for the connection of a call.
    pub(super) fn hinder_call(&mut self, line: ClientId) {
        if let Some(call) = self.call_mut(line) {
            call.hinder();
        }
    }

    /// Sends a worker's agent on an errand, by a connection that is there or a new one.
    pub(super) fn deliver_to_worker(&mut self, client: ClientId, errand: Delivery, now: Now) {
        if !errand.fresh
            && let Some(line) = self.idle_connection(client)
            && let Some(call) = self.call_mut(line)
        {
            call.start_delivery(errand);
            return self.start_delivery(line, now);
        }
        let Some(agent) = self.dispatcher_mut(client) else { return };
        let address = agent.address().clone();
        let target = Arc::clone(&address.target);
        self.evict_idle_connection(now);
        let session = Session::Call(Box::new(WorkerConnection::new(client, address, errand)));
        let line = self.connect(target, session, now);
        let Some(agent) = self.dispatcher_mut(client) else { return };
        match line {
            Some(line) => agent.add_connection(line),
            None => agent.handle_outcome(errand, DeliveryOutcome::Busy, b"", now),
        }
    }

    /// A connection that its worker has not closed yet, as far as is known.
    fn idle_connection(&mut self, client: ClientId) -> Option<ClientId> {
        loop {
            let line = self.dispatcher_mut(client)?.take_idle_connection()?;
            let Some(connection) = self.connections.get(line) else { continue };
            let Session::Call(call) = &connection.session else { continue };
            if call.is_idle() && !connection.peer_closed && connection.output.is_empty() {
                return Some(line);
            }
        }
    }

    /// Closes a connection that is not in use if there is no room for another. O(agents) then.
    fn evict_idle_connection(&mut self, now: Now) {
        if self.has_room_outside() {
            return;
        }
        for agent in self.agents.clients() {
            let line = self.dispatcher_mut(agent).and_then(WorkerDispatcher::take_idle_connection);
            if let Some(line) = line {
                return self.end(line, now, true);
            }
        }
    }

    /// A connection to a worker is there, or is used again.
    pub(super) fn start_delivery(&mut self, line: ClientId, now: Now) {
        let Some(call) = self.call_mut(line) else { return };
        let (serial, command) = call.begin(now);
        self.engine.submit(Ticket { client: line, serial }, &command, now);
        self.deliver(None, now);
        self.watch_session(line);
    }

    /// Tells agents what has become of their calls.
    pub(super) fn poll_deliveries(&mut self, now: Now) {
        while let Some(line) = self.lists.ready_deliveries.pop() {
            let Some(call) = self.call_mut(line) else { continue };
            let (client, verdict) = (call.agent(), call.take_outcome());
            let (idle, over) = (call.take_idle(), call.is_over());
            let queue = match verdict {
                Some((_, DeliveryOutcome::Rejected(_))) => call.queue().to_vec(),
                _ => Vec::new(),
            };
            let (busy, mut useless) = (call.is_busy(), over);
            if let Some(agent) = self.dispatcher_mut(client) {
                if let Some((errand, verdict)) = verdict {
                    agent.handle_outcome(errand, verdict, &queue, now);
                }
                if idle {
                    useless |= !agent.keep_connection(line);
                }
                self.lists.ready_dispatchers.push_back(client);
            }
            if useless || (self.stopping && !busy) {
                self.end(line, now, true);
            }
        }
    }

    /// A connection to a worker has ended.
    pub(super) fn on_delivery_end(
        &mut self,
        line: ClientId,
        connection: &mut Connection,
        now: Now,
    ) {
        let told = connection.way == Origin::Outbound && connection.output.is_empty();
        let Session::Call(call) = &mut connection.session else { return };
        let (client, ended) = (call.agent(), call.handle_end(told));
        let Some(agent) = self.dispatcher_mut(client) else { return };
        agent.drop_connection(line);
        match ended {
            None => {}
            Some((errand, None)) => agent.retry(errand),
            Some((errand, Some(verdict))) => {
                agent.handle_outcome(errand, verdict, call.queue(), now);
            }
        }
        self.lists.ready_dispatchers.push_back(client);
    }
}

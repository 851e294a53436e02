//! Connections to workers: opened for dispatchers, reused for further deliveries, and their
//! outcomes reported back.

use super::Server;
use super::connection::{Connection, Direction};
use crate::base::time::Now;
use crate::engine::CommandExecutor;
use crate::model::id::{ClientId, Ticket};
use crate::protocol::Session;
use crate::protocol::http::dispatch::{
    Delivery, DeliveryOutcome, WorkerConnection, WorkerDispatcher,
};
use std::sync::Arc;

impl<E: CommandExecutor> Server<E> {
    fn worker_connection_mut(&mut self, client: ClientId) -> Option<&mut WorkerConnection> {
        match &mut self.connections.get_mut(client)?.session {
            Session::Call(call) => Some(call),
            _ => None,
        }
    }

    /// The connection failed for lack of local resources, which is not the worker's fault.
    pub(super) fn mark_connection_busy(&mut self, connection_id: ClientId) {
        if let Some(call) = self.worker_connection_mut(connection_id) {
            call.fail_busy();
        }
    }

    /// Makes a delivery for a dispatcher, by an idle connection or a new one.
    pub(super) fn deliver_to_worker(&mut self, client: ClientId, delivery: Delivery, now: Now) {
        if !delivery.fresh
            && let Some(connection_id) = self.idle_connection(client)
            && let Some(call) = self.worker_connection_mut(connection_id)
        {
            assert!(call.is_idle(), "a delivery would follow another on its connection");
            call.start_delivery(delivery);
            return self.start_delivery(connection_id, now);
        }
        let Some(dispatcher) = self.dispatcher_mut(client) else { return };
        let address = dispatcher.address().clone();
        let target = Arc::clone(&address.target);
        self.evict_idle_connection(now);
        let session = Session::Call(Box::new(WorkerConnection::new(client, address, delivery)));
        let connection_id = self.connect(target, session, now);
        assert!(connection_id != Some(client), "a connection has the id of its dispatcher");
        let Some(dispatcher) = self.dispatcher_mut(client) else { return };
        match connection_id {
            Some(connection_id) => dispatcher.add_connection(connection_id),
            None => dispatcher.handle_outcome(delivery, DeliveryOutcome::Busy, b"", now),
        }
    }

    /// An idle connection that its worker is not known to have closed.
    fn idle_connection(&mut self, client: ClientId) -> Option<ClientId> {
        loop {
            let connection_id = self.dispatcher_mut(client)?.take_idle_connection()?;
            let Some(connection) = self.connections.get(connection_id) else { continue };
            let Session::Call(call) = &connection.session else { continue };
            if call.is_idle() && !connection.is_peer_closed() && connection.output.is_empty() {
                return Some(connection_id);
            }
        }
    }

    /// If the limit of outbound connections is reached, closes an idle one. O(log dispatchers),
    /// amortised: a dispatcher without one is not asked again before it has one.
    fn evict_idle_connection(&mut self, now: Now) {
        if self.can_connect() {
            return;
        }
        while let Some(&client) = self.dispatchers.with_idle.first() {
            let dispatcher = self.dispatcher_mut(client);
            if let Some(idle) = dispatcher.and_then(WorkerDispatcher::take_idle_connection) {
                return self.end(idle, now, true);
            }
            self.dispatchers.with_idle.remove(&client);
        }
    }

    /// Begins a delivery on a connection that was established or is reused.
    pub(super) fn start_delivery(&mut self, connection_id: ClientId, now: Now) {
        let connection = self.connections.get(connection_id);
        debug_assert!(
            connection.is_none_or(|connection| connection.direction == Direction::Outbound),
            "a delivery begins before its connection is established"
        );
        let Some(call) = self.worker_connection_mut(connection_id) else { return };
        let (serial, command) = call.begin(now);
        self.engine.submit(Ticket { client: connection_id, serial }, &command, now);
        self.deliver(None, now);
        self.arm_session_timeout(connection_id);
    }

    /// Reports the outcomes of deliveries to their dispatchers.
    pub(super) fn poll_deliveries(&mut self, now: Now) {
        while let Some(connection_id) = self.run_queues.ready_deliveries.pop() {
            let Some(call) = self.worker_connection_mut(connection_id) else { continue };
            let (client, outcome) = (call.agent(), call.take_outcome());
            let (idle, mut useless) = (call.take_idle(), call.is_over());
            let queue = match outcome {
                Some((_, DeliveryOutcome::Rejected(_))) => call.queue().to_vec(),
                _ => Vec::new(),
            };
            let busy = call.is_busy();
            if let Some(dispatcher) = self.dispatcher_mut(client) {
                if let Some((delivery, outcome)) = outcome {
                    dispatcher.handle_outcome(delivery, outcome, &queue, now);
                }
                if idle {
                    useless |= !dispatcher.keep_connection(connection_id);
                    self.dispatchers.with_idle.insert(client);
                }
                self.dispatchers.ready.push_back(client);
            }
            if useless || (self.stopping && !busy) {
                self.end(connection_id, now, true);
            }
        }
    }

    /// Reports to its dispatcher that a connection to a worker has ended.
    pub(super) fn on_delivery_end(
        &mut self,
        connection_id: ClientId,
        connection: &mut Connection,
        now: Now,
    ) {
        let sent = connection.direction == Direction::Outbound && connection.output.is_empty();
        let Session::Call(call) = &mut connection.session else { return };
        let (client, ended) = (call.agent(), call.handle_end(sent));
        let Some(dispatcher) = self.dispatcher_mut(client) else { return };
        dispatcher.drop_connection(connection_id);
        match ended {
            None => {}
            Some((delivery, None)) => dispatcher.retry(delivery),
            Some((delivery, Some(outcome))) => {
                dispatcher.handle_outcome(delivery, outcome, call.queue(), now);
            }
        }
        self.dispatchers.ready.push_back(client);
    }
}

//! The invariants of the server, for tests.

use super::Server;
use super::connection::{Connection, Deadline, Direction};
use crate::engine::CommandExecutor;
use crate::model::id::{ClientId, Ticket};
use crate::protocol::Session;

impl<E: CommandExecutor> Server<E> {
    /// Asserts every invariant. O(everything): for tests and the simulator.
    pub fn check_invariants(&self) {
        self.engine.check_invariants();
        assert!(self.run_queues.pending_submits.is_empty(), "a pending submit was not run");
        for (client, connection) in self.connections.iter() {
            connection.check_invariants();
            // Its reply may be gated.
            let waits = connection.session.pending_serial().filter(|_| connection.is_ending());
            let waits =
                waits.is_some_and(|serial| self.engine.is_waiting(Ticket { client, serial }));
            assert!(!waits, "a reserve waits on a connection that ends");
            connection.session.check_invariants();
            assert_eq!(connection.dirty, self.run_queues.dirty.contains(&client));
            let counted = connection.counted_bytes == connection.buffer_bytes();
            assert!(counted || connection.dirty, "buffers are counted wrongly");
            assert_eq!(connection.resumable, self.run_queues.resumable.contains(&client));
        }
        let open = |connection: &Connection| {
            connection.direction == Direction::Inbound
                && !matches!(connection.session, Session::Rejected)
        };
        let served = self.connections.iter().filter(|(_, connection)| open(connection)).count();
        let counted: u64 = self.counters.protocols.iter().map(|protocol| protocol.open).sum();
        assert_eq!(counted, served as u64, "connections are counted wrongly");
        let outbound = |(_, connection): &(ClientId, &Connection)| {
            matches!(connection.direction, Direction::Dialing | Direction::Outbound)
        };
        assert_eq!(self.outbound, self.connections.iter().filter(outbound).count());
        self.check_dispatchers();
        let armed = |(_, connection): &(ClientId, &Connection)| connection.deadline.is_some();
        let armed = self.connections.iter().filter(armed).count() + self.dispatchers.timers();
        assert_eq!(self.deadlines.len(), armed);
        self.deadlines.check_invariants(|timer, _, client| {
            let connection = self.connections.get(client);
            let armed = connection.and_then(|connection| connection.deadline).map(Deadline::timer);
            assert_eq!(armed.or_else(|| self.dispatchers.timer(client)), Some(timer));
        });
    }
}

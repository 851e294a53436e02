//! Outbound connections: begun here, established by the driver, then served like any other. They
//! do not count as clients.

use super::Server;
use super::connection::{Connection, Deadline, Direction};
use crate::base::limits::{CONNECT_TIMEOUT, OUTBOUND_CONNECTIONS_MAX, REJECTED_CONNECTIONS_MAX};
use crate::base::time::Now;
use crate::engine::CommandExecutor;
use crate::model::driver::{Action, Protocol, Target};
use crate::model::id::ClientId;
use crate::protocol::Session;
use std::sync::Arc;

/// Upper bounds of connections that are not clients. Derived from the limit of file descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections to other servers.
    pub outbound: usize,
    /// Connections of rejected clients whose error reply is being sent.
    pub rejected: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { outbound: OUTBOUND_CONNECTIONS_MAX, rejected: REJECTED_CONNECTIONS_MAX }
    }
}

impl<E: CommandExecutor> Server<E> {
    /// The same server, with these limits.
    #[must_use]
    pub fn with_connection_limits(mut self, limits: ConnectionLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Connects to another server for `session`, which may write output before the connection is
    /// established. If it is not established within [`CONNECT_TIMEOUT`], it ends. `None`: the
    /// server stops, or the limit of outbound connections is reached.
    pub fn connect(&mut self, target: Arc<Target>, session: Session, now: Now) -> Option<ClientId> {
        if self.stopping || self.outbound >= self.limits.outbound {
            return None;
        }
        let connection = Connection {
            direction: Direction::Dialing,
            ..Connection::new(Protocol::Http, session)
        };
        let client = self.connections.insert(connection);
        let timer = self.deadlines.arm(now.mono.after(CONNECT_TIMEOUT), client);
        if let Some(connection) = self.connections.get_mut(client) {
            connection.deadline = Some(Deadline::Close(timer));
        }
        self.outbound += 1;
        debug_assert!(
            self.outbound <= self.connections.len(),
            "outbound connections are miscounted"
        );
        self.run_queues.actions.push_back(Action::Connect(client, target));
        Some(client)
    }

    /// Whether the limit permits another outbound connection.
    pub(super) fn can_connect(&self) -> bool {
        self.outbound < self.limits.outbound
    }

    /// The connection to the other server is established.
    pub(super) fn connected(&mut self, client: ClientId) {
        self.disarm(client);
        if let Some(connection) = self.connections.get_mut(client) {
            assert!(
                connection.direction == Direction::Dialing && !connection.is_ending(),
                "a connection is established that was not dialing, or that ends"
            );
            connection.direction = Direction::Outbound;
            self.run_queues.mark_dirty(client, connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Mono;
    use crate::engine::Engine;
    use crate::model::driver::{ConnectError, Core};
    use crate::server::Settings;

    const PUT: &[u8] = b"{\"request\":\"put\",\"queue\":\"q\",\"job\":{},\"pri\":1}\n";

    fn server() -> Server {
        Server::new(
            Settings { max_request: 1000, max_clients: 1, max_memory: None },
            Engine::in_memory(7),
        )
    }

    fn target() -> Arc<Target> {
        Arc::new(Target { host: "worker".into(), port: 80, tls: false })
    }

    fn session() -> Session {
        Session::new(Protocol::JobCentre, Now::default())
    }

    fn begin(server: &mut Server, now: Now) -> ClientId {
        let client = server.connect(target(), session(), now).unwrap();
        assert_eq!(server.poll_action(), Some(Action::Connect(client, target())));
        assert_eq!(server.poll_action(), None);
        server.check_invariants();
        client
    }

    #[test]
    fn established_outbound_connection_is_served_like_an_accepted_one() {
        let (mut server, now) = (server(), Now::default());
        let client = begin(&mut server, now);
        server.handle_connected(client, now);
        assert_eq!(server.poll_touched(), Some(client));
        assert_eq!(server.poll_timeout(now), None, "the connect timeout is disarmed");
        assert!(server.wants_input(client));
        server.handle_input(client, PUT, now);
        server.finish_pass(now);
        assert!(server.output(client).starts_with(b"{\"status\":\"ok\""));
        let sent = server.output(client).len();
        server.handle_sent(client, sent, now);
        server.handle_eof(client, now);
        assert_eq!(server.poll_action(), Some(Action::Close(client)));
        assert_eq!(server.connections(), 0);
        server.check_invariants();
    }

    #[test]
    fn failed_connect_ends_the_connection() {
        let (mut server, now) = (server(), Now::default());
        let client = begin(&mut server, now);
        server.handle_connect_failed(client, &ConnectError::Busy, now);
        assert_eq!(server.connections(), 0);
        assert_eq!(server.poll_action(), None, "the driver has closed it already");
        assert_eq!(server.poll_timeout(now), None);
        server.check_invariants();
        // Too late: ignored.
        server.handle_connected(client, now);
        server.check_invariants();
    }

    #[test]
    fn connect_timeout_ends_the_connection() {
        let (mut server, now) = (server(), Now::default());
        let client = begin(&mut server, now);
        let end = now.mono.after(CONNECT_TIMEOUT);
        assert_eq!(server.poll_timeout(now), Some(end));
        server.finish_pass(Now { mono: Mono(end.0 - 1), ..now });
        assert_eq!(server.poll_action(), None);
        server.finish_pass(Now { mono: end, ..now });
        assert_eq!(server.poll_action(), Some(Action::Close(client)));
        assert_eq!(server.connections(), 0);
        server.check_invariants();
    }

    #[test]
    fn shutdown_ends_dialing_connections_and_permits_no_new_ones() {
        let (mut server, now) = (server(), Now::default());
        let dialing = begin(&mut server, now);
        let connected = begin(&mut server, now);
        server.handle_connected(connected, now);
        server.handle_shutdown(now);
        assert_eq!(server.poll_action(), Some(Action::Close(dialing)));
        assert_eq!(server.connections(), 1, "an established connection is read to its end");
        assert_eq!(server.connect(target(), session(), now), None);
        server.check_invariants();
        server.handle_eof(connected, now);
        assert_eq!(server.connections(), 0);
    }

    #[test]
    fn outbound_connections_are_bounded_apart_from_clients() {
        let (mut server, now) = (server(), Now::default());
        let mut outbound = Vec::new();
        while let Some(client) = server.connect(target(), session(), now) {
            outbound.push(client);
        }
        assert_eq!(outbound.len(), OUTBOUND_CONNECTIONS_MAX);
        let client = server.handle_open(Protocol::JobCentre, now).unwrap();
        assert!(server.output(client).is_empty(), "one client is accepted");
        let refused = server.handle_open(Protocol::JobCentre, now).unwrap();
        assert!(!server.output(refused).is_empty(), "the second client is rejected");
        server.handle_connect_failed(outbound[0], &ConnectError::Busy, now);
        assert!(server.connect(target(), session(), now).is_some());
        server.check_invariants();
    }

    #[test]
    fn connection_limits_bound_outbound_and_rejected_connections() {
        let limits = ConnectionLimits { outbound: 2, rejected: 1 };
        let (mut server, now) = (server().with_connection_limits(limits), Now::default());
        for _ in 0..2 {
            assert!(server.can_connect());
            assert!(server.connect(target(), session(), now).is_some());
        }
        assert!(!server.can_connect());
        assert_eq!(server.connect(target(), session(), now), None);
        // One is accepted, one is rejected with an error, and further ones are closed.
        let open: Vec<bool> =
            (0..3).map(|_| server.handle_open(Protocol::JobCentre, now).is_some()).collect();
        assert_eq!(open, [true, true, false]);
        server.check_invariants();
    }
}

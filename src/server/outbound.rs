//! Connections to other servers: made here, told to the shell, and from its answer on like any
//! other. They do not count as clients.

use super::Server;
use super::connection::{Connection, Origin};
use crate::base::limits::{CONNECT_TIMEOUT, OUTBOUND_CONNECTIONS_MAX, REJECTED_CONNECTIONS_MAX};
use crate::base::time::Now;
use crate::model::driver::{Action, Protocol, Target};
use crate::model::id::ClientId;
use crate::protocol::Session;
use std::sync::Arc;

/// How many connections there may be besides those of clients: as many as the system has
/// descriptors for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// To other servers.
    pub calls: usize,
    /// Of clients that are being told that there is no place for them.
    pub refused: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { calls: OUTBOUND_CONNECTIONS_MAX, refused: REJECTED_CONNECTIONS_MAX }
    }
}

impl Server {
    /// The same server, with as much room for what is no client.
    #[must_use]
    pub fn with_room(mut self, room: Room) -> Self {
        self.room = room;
        self
    }

    /// Calls another server for `session`, which may have output before there is an answer. Without
    /// an answer within [`CONNECT_TIMEOUT`] the connection ends. `None`: the server stops, or has
    /// as many such connections as it may.
    pub fn connect(&mut self, target: Arc<Target>, session: Session, now: Now) -> Option<ClientId> {
        if self.stopping || self.outgoing >= self.room.calls {
            return None;
        }
        let connection =
            Connection { way: Origin::Dialing, ..Connection::new(Protocol::Http, session) };
        let client = self.connections.insert(connection);
        let deadline = self.deadlines.arm(now.mono.after(CONNECT_TIMEOUT), client);
        if let Some(connection) = self.connections.get_mut(client) {
            connection.deadline = deadline;
        }
        self.outgoing += 1;
        self.lists.actions.push_back(Action::Connect(client, target));
        Some(client)
    }

    /// Whether another server can be called.
    pub(super) fn has_room_outside(&self) -> bool {
        self.outgoing < self.room.calls
    }

    /// The other server has answered.
    pub(super) fn connected(&mut self, client: ClientId) {
        self.disarm(client);
        if let Some(connection) = self.connections.get_mut(client) {
            connection.way = Origin::Outbound;
            self.lists.touch(client, connection);
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
        Server::new(Settings { max_request: 1000, max_clients: 1 }, Engine::in_memory(7))
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
    fn once_connected_it_is_served_like_any_other() {
        let (mut server, now) = (server(), Now::default());
        let client = begin(&mut server, now);
        server.handle_connected(client, now);
        assert_eq!(server.poll_touched(), Some(client));
        assert_eq!(server.poll_timeout(now), None, "nobody loses patience any more");
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
    fn a_failure_ends_it() {
        let (mut server, now) = (server(), Now::default());
        let client = begin(&mut server, now);
        server.handle_connect_failed(client, &ConnectError::Busy, now);
        assert_eq!(server.connections(), 0);
        assert_eq!(server.poll_action(), None, "the shell has forgotten it already");
        assert_eq!(server.poll_timeout(now), None);
        server.check_invariants();
        // Late, and so for nobody.
        server.handle_connected(client, now);
        server.check_invariants();
    }

    #[test]
    fn without_an_answer_it_is_called_off() {
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
    fn a_stop_calls_it_off_and_lets_none_begin() {
        let (mut server, now) = (server(), Now::default());
        let waiting = begin(&mut server, now);
        let called = begin(&mut server, now);
        server.handle_connected(called, now);
        server.handle_shutdown(now);
        assert_eq!(server.poll_action(), Some(Action::Close(waiting)));
        assert_eq!(server.connections(), 1, "what is connected is heard to its end");
        assert_eq!(server.connect(target(), session(), now), None);
        server.check_invariants();
        server.handle_eof(called, now);
        assert_eq!(server.connections(), 0);
    }

    #[test]
    fn they_are_no_clients_and_have_a_bound_of_their_own() {
        let (mut server, now) = (server(), Now::default());
        let mut called = Vec::new();
        while let Some(client) = server.connect(target(), session(), now) {
            called.push(client);
        }
        assert_eq!(called.len(), OUTBOUND_CONNECTIONS_MAX);
        let client = server.handle_open(Protocol::JobCentre, now).unwrap();
        assert!(server.output(client).is_empty(), "there is a place for one client");
        let refused = server.handle_open(Protocol::JobCentre, now).unwrap();
        assert!(!server.output(refused).is_empty(), "there is a place for one client only");
        server.handle_connect_failed(called[0], &ConnectError::Busy, now);
        assert!(server.connect(target(), session(), now).is_some());
        server.check_invariants();
    }

    #[test]
    fn with_less_room_there_are_fewer_of_them() {
        let room = Room { calls: 2, refused: 1 };
        let (mut server, now) = (server().with_room(room), Now::default());
        for _ in 0..2 {
            assert!(server.has_room_outside());
            assert!(server.connect(target(), session(), now).is_some());
        }
        assert!(!server.has_room_outside());
        assert_eq!(server.connect(target(), session(), now), None);
        // One is served, one is told that there is no place, and no more.
        let open: Vec<bool> =
            (0..3).map(|_| server.handle_open(Protocol::JobCentre, now).is_some()).collect();
        assert_eq!(open, [true, true, false]);
        server.check_invariants();
    }
}

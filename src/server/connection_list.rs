//! Connections of clients, as the native API lists and closes them.

use super::Server;
use super::connection::{Connection, Direction};
use crate::access::{Need, Right};
use crate::base::api_limits::{CONNECTIONS_PER_STEP, RESERVED_JOBS_COUNTED, SCANNED_PER_PAGE};
use crate::base::time::Now;
use crate::engine::CommandExecutor;
use crate::model::id::ClientId;
use crate::model::show::{CloseOutcome, ConnectionDetails, ConnectionPage, ConnectionRequest};
use crate::protocol::Session;

/// Whether it is one of a client that is served.
fn is_served(connection: &Connection) -> bool {
    connection.direction == Direction::Inbound && !matches!(connection.session, Session::Rejected)
}

impl<E: CommandExecutor> Server<E> {
    /// Answers the session of this client.
    #[cold]
    pub(super) fn answer_about(&mut self, request: ConnectionRequest, by: ClientId, now: Now) {
        if !self.permits(by, Need::Global(Right::Admin), now) {
            return;
        }
        match request {
            ConnectionRequest::List(from, limit) => {
                let page = self.connection_page(from, limit, now);
                self.context.turn.connections = Some(Box::new(page));
            }
            ConnectionRequest::Close(other) => {
                self.context.turn.closed = Some(self.close_other(other, by));
            }
        }
    }

    /// Connections from a place on. O(`CONNECTIONS_PER_STEP` + `SCANNED_PER_PAGE`).
    fn connection_page(&self, from: u32, limit: usize, now: Now) -> ConnectionPage {
        let mut page = ConnectionPage::default();
        let mut looked = 0;
        let end = from.saturating_add(CONNECTIONS_PER_STEP).min(self.connections.end());
        page.next = (end < self.connections.end()).then_some(end);
        for (client, connection) in self.connections.range(from, CONNECTIONS_PER_STEP) {
            if !is_served(connection) {
                continue;
            }
            if page.connections.len() >= limit || looked >= SCANNED_PER_PAGE {
                page.next = Some(client.index);
                break;
            }
            let reserved = self.engine.reserved_by(client, RESERVED_JOBS_COUNTED);
            looked += reserved;
            let since = self.peers.since(client);
            let peer = self.peers.peer(client).map(|peer| peer.to_string().into());
            let access = connection.access.as_deref();
            let user =
                access.and_then(|access| self.access.name_of(access, connection.protocol, now));
            page.connections.push(ConnectionDetails {
                client,
                protocol: connection.protocol,
                peer,
                user: user.map(Into::into),
                since,
                waits: connection.session.pending_serial().is_some(),
                reserved,
                unsent_bytes: connection.output.len(),
            });
        }
        page
    }

    /// Closes a connection at the end of the pass, for the client of another one. What it has to
    /// read yet is dropped, and its jobs go back. O(1).
    fn close_other(&mut self, client: ClientId, by: ClientId) -> CloseOutcome {
        match self.connections.get(client) {
            Some(_) if client == by || self.processor == Some(client) => CloseOutcome::Kept,
            Some(connection) if is_served(connection) => {
                self.run_queues.to_close.push(client);
                CloseOutcome::Closed
            }
            _ if self.connections.was_given_out(client) => CloseOutcome::Gone,
            _ => CloseOutcome::NeverAccepted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Wall;
    use crate::engine::Engine;
    use crate::model::driver::{Action, Core, Protocol};
    use crate::model::peer::{Peer, PeerAddress};
    use crate::server::Settings;

    const NOW: Now = Now { mono: crate::base::time::Mono(7), wall: Wall(5_000) };

    fn server(clients: usize) -> (Server, Vec<ClientId>) {
        let settings = Settings { max_request: 1_000, max_clients: clients, max_memory: None };
        let mut server = Server::new(settings, Engine::in_memory(7));
        let open = |_| server.handle_open(Protocol::JobCentre, NOW).unwrap();
        let clients = (0..clients).map(open).collect();
        (server, clients)
    }

    #[test]
    fn each_connection_is_on_one_page() {
        let places = CONNECTIONS_PER_STEP as usize;
        let (mut server, clients) = server(2 * places + 3);
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1];
        let peer = Peer { address: Some(PeerAddress(mapped)), port: 9, ..Peer::default() };
        server.handle_peer(clients[1], peer, NOW);
        server.handle_reset(clients[0], NOW);
        server.finish_pass(NOW);
        let rejected = server.handle_open(Protocol::JobCentre, NOW).unwrap();
        assert_eq!(rejected.index, 0, "its place is free again");
        server.handle_open(Protocol::JobCentre, NOW).unwrap();
        let (mut from, mut shown) = (Some(0), Vec::new());
        while let Some(place) = from {
            let page = server.connection_page(place, places - 1, NOW);
            assert!(page.connections.len() < places);
            shown.extend(page.connections);
            from = page.next;
        }
        let ids: Vec<ClientId> = shown.iter().map(|shown| shown.client).collect();
        assert_eq!(ids[0], rejected);
        assert_eq!(ids[1..], clients[1..], "those beyond the limit are not shown");
        assert_eq!((shown[1].peer.as_deref(), shown[1].since), (Some("127.0.0.1:9"), NOW.wall));
        assert_eq!(shown[2].peer, None);
    }

    #[test]
    fn connection_is_closed_at_the_end_of_the_pass() {
        let (mut server, clients) = server(2);
        let put = b"{\"request\":\"put\",\"queue\":\"q\",\"job\":{},\"pri\":1}\n";
        server.handle_input(clients[0], put, NOW);
        server.handle_input(clients[0], b"{\"request\":\"get\",\"queues\":[\"q\"]}\n", NOW);
        assert_eq!(server.connection_page(0, 9, NOW).connections[0].reserved, 1);
        assert_eq!(server.close_other(clients[0], clients[0]), CloseOutcome::Kept);
        assert_eq!(server.close_other(clients[0], clients[1]), CloseOutcome::Closed);
        assert_eq!(server.close_other(clients[0], clients[1]), CloseOutcome::Closed);
        server.finish_pass(NOW);
        assert_eq!(server.poll_action(), Some(Action::Close(clients[0])));
        assert_eq!(server.poll_action(), None);
        server.finish_pass(NOW);
        server.check_invariants();
        assert_eq!(server.close_other(clients[0], clients[1]), CloseOutcome::Gone);
        server.handle_input(clients[1], b"{\"request\":\"get\",\"queues\":[\"q\"]}\n", NOW);
        assert_eq!(server.connection_page(0, 9, NOW).connections[0].reserved, 1);
        let never = ClientId { index: 0, generation: 9 };
        assert_eq!(server.close_other(never, clients[1]), CloseOutcome::NeverAccepted);
    }
}

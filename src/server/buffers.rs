//! The bound of all buffers together: a quarter of `--max-memory`, or without it of the machine's
//! memory. Beyond it the clients with the largest unfinished requests and unsent replies are closed
//! first.

use super::Server;
use super::connection::Direction;
use crate::base::time::Now;
use crate::engine::CommandExecutor;
use crate::model::driver::Incident;
use crate::model::id::ClientId;
use crate::protocol::{Closing, Session};
use std::cmp::Reverse;

/// Buffers may take one part in this many of the memory.
const SHARE: u64 = 4;

impl<E: CommandExecutor> Server<E> {
    /// Whether all buffers together are beyond their bound. O(1).
    #[inline]
    pub(super) fn exceeds_buffers(&self) -> bool {
        self.settings.max_memory.is_some_and(|limit| self.buffer_bytes as u64 > limit / SHARE)
    }

    /// Closes clients until the rest is within the bound, those with the largest buffers first.
    /// O(c log c) for c clients.
    #[cold]
    pub(super) fn close_largest(&mut self, now: Now) {
        let mut holders: Vec<(usize, ClientId)> = self
            .connections
            .iter()
            .filter(|(client, connection)| {
                connection.direction == Direction::Inbound
                    && connection.counted_bytes > 0
                    && self.processor != Some(*client)
            })
            .map(|(client, connection)| (connection.counted_bytes, client))
            .collect();
        holders.sort_unstable_by_key(|&(bytes, _)| Reverse(bytes));
        for (bytes, client) in holders {
            if !self.exceeds_buffers() {
                return;
            }
            self.notices.note(client, Incident::BuffersFull(bytes), now);
            self.close_full(client, now);
        }
    }

    /// Closes a client. If it has only an unfinished request, it is told why.
    fn close_full(&mut self, client: ClientId, now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        let idle = connection.session.is_settled() && connection.output.is_empty();
        if !idle || connection.is_ending() || matches!(connection.session, Session::Rejected) {
            return self.end(client, now, true);
        }
        let why = "the server has too little memory for the unfinished requests of all clients, \
                   and this one is among the largest: try again later";
        self.close_with(client, Closing::Memory(why), now);
    }

    /// Closes a client that has no request under way, and tells it why.
    pub(super) fn close_with(&mut self, client: ClientId, why: Closing<'_>, now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        connection.output.prepare(&mut self.run_queues.pool);
        let rejected = Session::close_with(connection.protocol, why, &mut connection.output);
        let session = std::mem::replace(&mut connection.session, rejected);
        connection.input.clear();
        (connection.closing, connection.stalled) = (true, false);
        connection.count_buffers(&mut self.buffer_bytes);
        self.run_queues.mark_dirty(client, connection);
        // From here on it counts as a rejected one.
        self.counters.protocols[connection.protocol.number()].open -= 1;
        self.rejected += 1;
        self.leave_queues(client, &session, now);
        self.update_connection(client, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::model::driver::{Core, Protocol};
    use crate::server::Settings;

    #[test]
    fn clients_with_the_largest_unfinished_requests_are_closed_first() {
        let limit = Some(100_000);
        let settings = Settings { max_request: 50_000, max_clients: 9, max_memory: limit };
        let mut server = Server::new(settings, Engine::in_memory(1).with_memory_limit(limit));
        let now = Now::default();
        let head = "POST /job HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30000\r\n\r\n";
        let parts = [
            (Protocol::JobCentre, "x".repeat(9_000)),
            (Protocol::JobCentre, "x".repeat(20_000)),
            (Protocol::Http, head.to_owned() + &"x".repeat(15_000)),
        ];
        let clients = parts.map(|(protocol, part)| {
            let client = server.handle_open(protocol, now).unwrap();
            server.handle_input(client, part.as_bytes(), now);
            client
        });
        while server.poll_touched().is_some() {}
        server.finish_pass(now);
        server.check_invariants();
        let outputs =
            clients.map(|client| String::from_utf8_lossy(server.output(client)).into_owned());
        assert_eq!(outputs[0], "", "the smallest one stays");
        assert!(outputs[1].contains("the server has too little memory"), "{outputs:?}");
        assert_eq!(outputs[2], "", "what is left is within the bound");
        let notice = server.poll_notice().unwrap();
        assert_eq!(notice.incident, Incident::BuffersFull(20_000));
        server.handle_input(clients[0], "x".repeat(5_000).as_bytes(), now);
        while server.poll_touched().is_some() {}
        server.finish_pass(now);
        server.check_invariants();
        let answer = String::from_utf8_lossy(server.output(clients[2])).into_owned();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert_eq!(server.output(clients[0]), b"");
    }

    #[test]
    fn client_that_uses_queues_can_be_closed() {
        let limit = Some(100_000);
        let settings = Settings { max_request: 90_000, max_clients: 9, max_memory: limit };
        let mut server = Server::new(settings, Engine::in_memory(1).with_memory_limit(limit));
        let now = Now::default();
        let client = server.handle_open(Protocol::Beanstalkd, now).unwrap();
        server.handle_input(client, b"use mail\r\nwatch mail\r\n", now);
        while server.poll_touched().is_some() {}
        server.finish_pass(now);
        let answered = server.output(client).len();
        server.handle_sent(client, answered, now);
        let part = [b"put 1 0 9 60000\r\n", "x".repeat(50_000).as_bytes()].concat();
        server.handle_input(client, &part, now);
        while server.poll_touched().is_some() {}
        server.finish_pass(now);
        assert_eq!(server.output(client), b"OUT_OF_MEMORY\r\n");
        server.check_invariants();
    }
}

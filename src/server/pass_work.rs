//! Bounds of the work of a pass.
//!
//! Each turn of a session adds its work to that of the pass: what it consumed, the names that it
//! checked, the replies to other clients. The unit is what a byte of a short request costs, about
//! 10 ns. When it has come to [`INPUT_WORK_PER_PASS`](crate::base::limits::INPUT_WORK_PER_PASS),
//! the driver reads no more in this pass. Connections that are resumed have
//! [`RESUMED_WORK_PER_PASS`] of their own, so that neither kind starves.

use super::Server;
use super::connection::Deadline;
use crate::base::limits::{
    EXTRA_WORK_OF_TURN_MAX, EXTRA_WORK_PER_TURN, RESUMED_CONNECTIONS_PER_PASS,
    RESUMED_WORK_PER_PASS, SESSION_DEADLINES_PER_PASS, SUBSCRIPTION_NAME_WORK, TURN_WORK,
};
use crate::base::time::Now;
use crate::engine::CommandExecutor;
use crate::model::id::Ticket;

impl<E: CommandExecutor> Server<E> {
    /// Begins the turn of a session, or of the server itself. What was done since the last turn
    /// counts for the pass, whose work so far is returned.
    pub(super) fn begin_turn(&mut self, now: Now) -> usize {
        self.run_queues.work += self.context.begin_turn(now) * SUBSCRIPTION_NAME_WORK;
        self.run_queues.work
    }

    /// Ends the turn of a session that has consumed this number of bytes.
    pub(super) fn end_turn(&mut self, now: Now, consumed: usize) {
        self.run_queues.work += TURN_WORK + consumed;
        self.begin_turn(now);
    }

    /// Counts the work of a command beside its bytes. Returns whether the turn ends, before which
    /// the work of the pass was `begun`.
    #[inline(always)]
    pub(super) fn take_extra_work(&mut self, begun: usize) -> bool {
        let work = self.engine.take_work();
        self.run_queues.work += work;
        work > EXTRA_WORK_PER_TURN || self.run_queues.work > begun + EXTRA_WORK_OF_TURN_MAX
    }

    /// Ends the turn of a session after a command with much extra work: it runs again in the next
    /// pass, or when the command is answered if that takes several passes. Returns that the session
    /// takes no more of its input for now.
    #[cold]
    pub(super) fn yield_turn(&mut self, ticket: Ticket) -> bool {
        let client = ticket.client;
        if let Some(connection) = self.connections.get_mut(client) {
            if self.engine.is_deferred(ticket) {
                connection.session.handle_deferral(ticket.serial);
            }
            self.run_queues.schedule(client, connection);
        }
        true
    }

    /// Fires deadlines of sessions, up to [`SESSION_DEADLINES_PER_PASS`].
    pub(super) fn expire(&mut self, now: Now) {
        for _ in 0..SESSION_DEADLINES_PER_PASS {
            let Some((_, client)) = self.deadlines.pop_due(now.mono) else { return };
            let Some(connection) = self.connections.get_mut(client) else {
                self.dispatchers.handle_timeout(client, now, &mut self.deadlines);
                continue;
            };
            // Proof: whatever ends a deadline before it fires cancels its timer.
            match connection.deadline.take().expect("a timer that fires was armed") {
                Deadline::Session(_) => self.on_session_timeout(client, now),
                Deadline::Close(_) => self.end(client, now, true),
            }
        }
    }

    /// Resumes connections in the order in which they were scheduled, up to
    /// [`RESUMED_CONNECTIONS_PER_PASS`] and [`RESUMED_WORK_PER_PASS`], but at least one.
    pub(super) fn run_resumed(&mut self, now: Now) {
        let end = self.run_queues.work + RESUMED_WORK_PER_PASS;
        let most = RESUMED_CONNECTIONS_PER_PASS.min(self.run_queues.resumable.len());
        self.run_queues.resumed = 0;
        while self.run_queues.resumed < most && self.run_queues.work < end {
            let Some(client) = self.run_queues.resumable.pop_front() else { return };
            self.run_queues.resumed += 1;
            let Some(connection) = self.connections.get_mut(client) else { continue };
            debug_assert!(connection.resumable, "a connection is scheduled twice");
            connection.resumable = false;
            self.run_buffered(client, b"", now);
            self.update_connection(client, now);
        }
    }

    /// How many connections the last pass has resumed, those included that had ended. For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn resumed_for_test(&self) -> usize {
        self.run_queues.resumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::api_limits::DEPENDENCY_WORK;
    use crate::base::limits::{
        COMPARED_BYTES_PER_WORK, INPUT_WORK_PER_PASS, OUTPUT_HIGH_WATER_BYTES,
        PACKETS_FREED_PER_PASS, READ_BUDGET_MIN_BYTES, SUBSCRIPTION_NAMES_PER_TURN,
        SUBSCRIPTIONS_MAX, WAIT_NODE_WORK,
    };
    use crate::engine::Engine;
    use crate::model::driver::{Core, Protocol};
    use crate::model::id::ClientId;
    use crate::server::{Server, Settings};
    use crate::wire::packets::{Request, push_request};

    const PUT: &[u8] = b"{\"request\":\"put\",\"queue\":\"q\",\"job\":{},\"pri\":1}\n";

    fn server(protocol: Protocol, clients: usize) -> (Server, Vec<ClientId>) {
        let settings = Settings { max_request: 1000, max_clients: clients, max_memory: None };
        let mut server = Server::new(settings, Engine::in_memory(7));
        let clients = (0..clients).map(|_| server.handle_open(protocol, Now::default()));
        let clients = clients.collect::<Option<_>>().unwrap();
        (server, clients)
    }

    /// Passes until each client has sent its input, in reads of `most` bytes; returns the largest
    /// numbers of reads and of bytes in one pass.
    fn largest_pass(server: &mut Server, clients: &[ClientId], input: &[u8]) -> (usize, usize) {
        let (mut left, mut largest) = (clients, (0, 0));
        while !left.is_empty() {
            let mut reads = 0;
            while let Some((&client, others)) = left.split_first()
                && server.has_budget()
            {
                server.handle_input(client, input, Now::default());
                (left, reads) = (others, reads + 1);
            }
            assert!(reads > 0, "a pass reads something");
            largest = largest.max((reads, reads * input.len()));
            server.finish_pass(Now::default());
        }
        largest
    }

    #[test]
    fn input_of_a_pass_is_bounded_for_all_clients_together() {
        let (mut server, clients) = server(Protocol::JobCentre, 300);
        let input = PUT.repeat(READ_BUDGET_MIN_BYTES / PUT.len());
        let (_, bytes) = largest_pass(&mut server, &clients, &input);
        assert!(bytes < INPUT_WORK_PER_PASS + READ_BUDGET_MIN_BYTES, "{bytes}");
        let jobs = clients.len() * (input.len() / PUT.len());
        assert_eq!(server.counts().jobs, jobs, "nothing is lost");
    }

    #[test]
    fn short_requests_of_a_pass_are_bounded_by_their_turns() {
        let (mut server, clients) = server(Protocol::JobCentre, 1_000);
        let (turns, _) = largest_pass(&mut server, &clients, PUT);
        assert!(turns <= INPUT_WORK_PER_PASS / TURN_WORK, "{turns}");
        assert_eq!(server.counts().jobs, clients.len());
    }

    /// A server whose only client has pushed packets with one key.
    fn server_with_group(packets: usize, payload: usize) -> (Server, ClientId) {
        let (mut server, clients) = server(Protocol::Pinpriq, 1);
        let packet = [&b"k"[..], &vec![b'x'; payload]].concat();
        let request =
            Request::Push { queue: b"q", ttl_ms: 0, priority: 1, key_len: 1, packet: &packet };
        let mut push = Vec::new();
        push_request(&mut push, &request);
        for _ in 0..packets {
            server.handle_input(clients[0], &push, Now::default());
            server.finish_pass(Now::default());
        }
        assert_eq!(server.counts().jobs, packets);
        (server, clients[0])
    }

    /// Lets the client read all that there is; returns the number of bytes.
    fn read(server: &mut Server, client: ClientId) -> usize {
        let bytes = server.output(client).len();
        server.handle_sent(client, bytes, Now::default());
        while server.poll_touched().is_some() {}
        bytes
    }

    const POP: &[u8] = b"P\0\x01q";

    #[test]
    fn turn_ends_when_pops_have_used_up_the_steps_of_a_pass() {
        let (mut server, client) = server_with_group(0, 0);
        server.engine.set_spread_steps(10);
        for key in b'a'..b'f' {
            let request =
                Request::Push { queue: b"q", ttl_ms: 0, priority: 1, key_len: 1, packet: &[key] };
            let mut push = Vec::new();
            push_request(&mut push, &request);
            server.handle_input(client, &push.repeat(6), Now::default());
        }
        server.finish_pass(Now::default());
        server.handle_input(client, &POP.repeat(5), Now::default());
        for groups in [3, 1, 0] {
            assert_eq!(server.counts().jobs, groups * 6);
            server.finish_pass(Now::default());
        }
    }

    #[test]
    fn requests_behind_a_deferred_get_wait_for_it() {
        let (mut server, clients) = server(Protocol::JobCentre, 2);
        let (holder, client) = (clients[0], clients[1]);
        server.engine.set_spread_steps(10);
        server.handle_input(holder, &PUT.repeat(100), Now::default());
        let get: &[u8] = b"{\"request\":\"get\",\"queues\":[\"q\"]}\n";
        server.handle_input(holder, &get.repeat(100), Now::default());
        read(&mut server, holder);
        server.handle_reset(holder, Now::default());
        server.finish_pass(Now::default());
        let urgent: &[u8] = b"{\"request\":\"put\",\"queue\":\"q\",\"job\":{},\"pri\":9}\n";
        server.handle_input(client, &[get, urgent, get].concat(), Now::default());
        server.handle_peer_closed(client, Now::default());
        server.handle_eof(client, Now::default());
        // The hold lasts longer than a scan is given.
        let (mut now, mut passes) = (Now::default(), 0);
        while server.output(client).is_empty() {
            now.mono = now.mono.after(std::time::Duration::from_millis(400));
            server.finish_pass(now);
            server.check_invariants();
            passes += 1;
            assert!(passes < 100, "it never ends");
        }
        assert!(passes >= 9, "{passes} passes");
        server.finish_pass(now);
        let answers = String::from_utf8_lossy(server.output(client)).into_owned();
        let ids: Vec<Option<&str>> = answers
            .lines()
            .map(|line| line.split_once("\"id\":").map(|(_, rest)| &rest[..rest.len().min(3)]))
            .collect();
        assert_eq!(ids.len(), 3, "{answers}");
        assert!(ids[0].is_some_and(|id| id != "101"), "{answers}");
        assert_eq!(ids[1..], [Some("101"); 2], "{answers}");
    }

    #[test]
    fn long_answer_is_written_as_the_client_reads() {
        let (mut server, client) = server_with_group(40, 60_000);
        server.handle_input(client, POP, Now::default());
        let (mut bytes, mut passes) = (0, 0);
        while bytes < 2 + 40 * 60_005 {
            server.finish_pass(Now::default());
            server.check_invariants();
            let unsent = server.output(client).len();
            assert!(unsent <= OUTPUT_HIGH_WATER_BYTES + 60_005, "{unsent} bytes at once");
            bytes += read(&mut server, client);
            passes += 1;
            assert!(passes < 100, "it never ends");
        }
        assert!((8..=12).contains(&passes), "{passes} passes");
        server.finish_pass(Now::default());
        server.check_invariants();
        assert_eq!(server.poll_timeout(Now::default()), None, "nothing is left to do");
    }

    #[test]
    fn packets_of_a_client_that_leaves_are_freed_over_several_passes() {
        // A third of them is in the output when the client leaves.
        let packets = 3 * PACKETS_FREED_PER_PASS;
        let (mut server, client) = server_with_group(packets, 120);
        server.handle_input(client, POP, Now::default());
        while server.output(client).is_empty() {
            server.finish_pass(Now::default());
        }
        assert_eq!(server.counts().jobs, 0);
        server.handle_reset(client, Now::default());
        let mut passes = 0;
        while server.poll_timeout(Now::default()).is_some() {
            server.finish_pass(Now::default());
            passes += 1;
        }
        assert_eq!(passes, 2);
        server.check_invariants();
    }

    #[test]
    fn hang_ups_of_waits_on_many_queues_are_bounded() {
        let settings = Settings { max_request: 1_000_000, max_clients: 40, max_memory: None };
        let mut server = Server::new(settings, Engine::in_memory(7));
        let names: Vec<String> = (0..1_000).map(|number| format!("\"q{number}\"")).collect();
        let names = names.join(",");
        let get = format!("{{\"request\":\"get\",\"queues\":[{names}],\"wait\":true}}\n");
        let clients: Vec<_> = (0..40)
            .map(|_| server.handle_open(Protocol::JobCentre, Now::default()).unwrap())
            .collect();
        for &client in &clients {
            server.handle_input(client, get.as_bytes(), Now::default());
            server.finish_pass(Now::default());
        }
        assert_eq!(server.counts().waiters, clients.len());
        let mut ended = 0;
        while server.has_budget() {
            server.handle_reset(clients[ended], Now::default());
            ended += 1;
        }
        assert_eq!(
            ended,
            (INPUT_WORK_PER_PASS / (names.matches(',').count() * WAIT_NODE_WORK)) + 1
        );
    }

    #[test]
    fn requests_with_long_priorities_end_the_turn() {
        // One comparison is more than a turn may take.
        let digits = "7".repeat(2 * EXTRA_WORK_PER_TURN * COMPARED_BYTES_PER_WORK);
        let max_request = 2 * digits.len();
        let settings = Settings { max_request, max_clients: 1, max_memory: None };
        let mut server = Server::new(settings, Engine::in_memory(7));
        let client = server.handle_open(Protocol::JobCentre, Now::default()).unwrap();
        for number in 10..20 {
            let pri = format!("{digits}{number}");
            let put =
                format!("{{\"request\":\"put\",\"queue\":\"q\",\"job\":{{}},\"pri\":{pri}}}\n");
            server.handle_input(client, put.as_bytes(), Now::default());
            server.finish_pass(Now::default());
        }
        assert_eq!(server.counts().jobs, 10);
        let delete = |id| format!("{{\"request\":\"delete\",\"id\":{id}}}\n");
        let deletes = (1..=10).map(delete).collect::<Vec<_>>().concat();
        server.handle_input(client, deletes.as_bytes(), Now::default());
        assert!(server.counts().jobs >= 8, "all were carried out in one turn");
        let mut passes = 0;
        while server.counts().jobs > 0 {
            server.finish_pass(Now::default());
            passes += 1;
            assert!(passes < 20, "it never ends");
        }
        assert!(passes >= 3, "{passes} passes");
    }

    #[test]
    fn puts_with_dependencies_end_the_turn() {
        let (mut server, clients) = server(Protocol::JobCentre, 1);
        server.handle_input(clients[0], PUT, Now::default());
        server.finish_pass(Now::default());
        let behind = b"{\"request\":\"put\",\"queue\":\"q\",\"job\":{},\"pri\":0,\"after\":[1]}\n";
        server.handle_input(clients[0], &behind.repeat(1_000), Now::default());
        let most = EXTRA_WORK_OF_TURN_MAX / DEPENDENCY_WORK + 1;
        assert!((2..=1 + most).contains(&server.counts().jobs), "{} jobs", server.counts().jobs);
        let mut passes = 0;
        while server.counts().jobs < 1_001 {
            server.finish_pass(Now::default());
            passes += 1;
            assert!(passes < 100, "it never ends");
        }
        assert!(passes >= 4, "{passes} passes");
    }

    #[test]
    fn names_that_subscribers_check_count_for_the_pass() {
        let (mut server, clients) = server(Protocol::Pinpriq, 40);
        let mut subscribe = Vec::new();
        for number in 0..SUBSCRIPTIONS_MAX / 8 {
            let queue = format!("q{number}");
            push_request(&mut subscribe, &Request::Subscribe { queue: queue.as_bytes() });
        }
        // Each name is compared with those before it: more than is permitted in one turn.
        assert!((SUBSCRIPTIONS_MAX / 8).pow(2) / 2 > SUBSCRIPTION_NAMES_PER_TURN);
        let (turns, _) = largest_pass(&mut server, &clients, &subscribe);
        let work = SUBSCRIPTION_NAMES_PER_TURN * SUBSCRIPTION_NAME_WORK;
        assert_eq!(turns, INPUT_WORK_PER_PASS / work);
    }

    #[test]
    fn resumed_connections_of_a_pass_are_bounded() {
        let (mut server, clients) = server(Protocol::JobCentre, 60);
        let wait: &[u8] = b"{\"request\":\"get\",\"queues\":[\"w\"],\"wait\":true,\"timeout\":1}\n";
        let behind = PUT.repeat(READ_BUDGET_MIN_BYTES / PUT.len());
        let input = [wait, &behind].concat();
        largest_pass(&mut server, &clients, &input);
        assert_eq!(server.counts().jobs, 0, "all are behind the waits");
        let later = Now { mono: crate::base::time::Mono(5_000_000), ..Now::default() };
        let mut resumed = Vec::new();
        while server.poll_timeout(later).is_some_and(|at| at <= later.mono) {
            server.finish_pass(later);
            resumed.push(server.resumed_for_test());
        }
        let most = 1 + RESUMED_WORK_PER_PASS / behind.len();
        assert!(resumed.iter().all(|&count| count <= most), "{resumed:?}");
        assert_eq!(server.counts().jobs, clients.len() * (behind.len() / PUT.len()));
    }
}

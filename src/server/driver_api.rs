//! The driver's interface: connections open, receive, send, close and end; passes finish.

use super::Server;
use super::connection::{Connection, Direction, ReadSide};
use crate::base::buf::{Input, progress};
use crate::base::limits::INPUT_WORK_PER_PASS;
use crate::base::time::{Mono, Now, Wall};
use crate::engine::CommandExecutor;
use crate::model::driver::{Action, ConnectError, Core, Incident, Link, Notice, Protocol};
use crate::model::forward::ForwardStats;
use crate::model::id::ClientId;
use crate::model::peer::Peer;
use crate::model::reload::ReloadReport;
use crate::protocol::Session;

impl<E: CommandExecutor> Core for Server<E> {
    fn begin_pass(&mut self, now: Now) {
        self.engine.sample(now);
    }

    fn handle_listening(&mut self, protocol: Protocol, address: &str) {
        self.context.settings.listeners.push((protocol, address.into()));
    }

    fn handle_open(&mut self, protocol: Protocol, now: Now) -> Option<ClientId> {
        let others = self.rejected + self.outbound;
        assert!(
            others <= self.connections.len(),
            "more rejected and outbound connections are counted than there are connections"
        );
        let clients = self.connections.len() - others;
        let full = clients >= self.settings.max_clients;
        let is_second = protocol == Protocol::Processor && (full || self.processor.is_some());
        if full && !is_second {
            self.notices.record_rejection();
        }
        if self.stopping || full || is_second {
            return self.count_rejected(protocol).then(|| self.reject(protocol, now));
        }
        let counters = &mut self.counters.protocols[protocol.number()];
        counters.accepted += 1;
        counters.open += 1;
        let session = match protocol {
            Protocol::Processor => Session::processor(&self.context.settings.processor, now),
            Protocol::Beanstalkd => Session::beanstalkd(&self.context),
            _ => Session::new(protocol, now),
        };
        let timed = session.is_timed();
        let client = self.connections.insert(Connection::new(protocol, session));
        self.peers.note(client, now.wall);
        self.begin_access(client);
        if timed {
            self.arm_session_timeout(client);
        }
        if protocol == Protocol::Processor {
            assert!(self.processor.is_none(), "the processor protocol has two connections");
            self.processor = Some(client);
            if let Some(connection) = self.connections.get_mut(client) {
                self.run_queues.schedule(client, connection);
            }
        }
        Some(client)
    }

    fn handle_refused(&mut self, protocol: Protocol, why: &str, now: Now) -> Option<ClientId> {
        self.count_rejected(protocol).then(|| self.refuse(protocol, why, now))
    }

    fn handle_peer(&mut self, client: ClientId, peer: Peer, now: Now) {
        self.peers.note_peer(client, peer);
        self.identify(client, now);
    }

    fn handle_input(&mut self, client: ClientId, bytes: &[u8], now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        debug_assert!(!connection.is_eof(), "input comes after its end");
        self.counters.protocols[connection.protocol.number()].bytes_in += bytes.len() as u64;
        if connection.stalled {
            connection.input.append(bytes);
            self.run_queues.mark_dirty(client, connection);
        } else if connection.input.is_empty() {
            let mut input = Input::new(bytes);
            self.run(client, &mut input, now);
            let (used, scanned) = progress(&input);
            if used < bytes.len()
                && let Some(connection) = self.connections.get_mut(client)
            {
                connection.input.append(&bytes[used..]);
                connection.input.commit(0, scanned);
            }
        } else {
            self.run_buffered(client, bytes, now);
        }
        if self.connections.get(client).is_some_and(Connection::is_ending) {
            self.update_connection(client, now);
        }
    }

    fn handle_peer_closed(&mut self, client: ClientId, now: Now) {
        if let Some(connection) = self.connections.get_mut(client)
            && !connection.is_peer_closed()
        {
            connection.read_side = ReadSide::PeerClosed;
            self.run_queues.mark_dirty(client, connection);
            self.update_connection(client, now);
        }
    }

    fn handle_eof(&mut self, client: ClientId, now: Now) {
        if let Some(connection) = self.connections.get_mut(client) {
            connection.read_side = ReadSide::Eof;
            if let Session::Processor(_) = connection.session {
                connection.session.handle_eof();
                self.run_buffered(client, b"", now);
            }
            self.update_connection(client, now);
        }
    }

    fn handle_sent(&mut self, client: ClientId, count: usize, now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        self.counters.protocols[connection.protocol.number()].bytes_out += count as u64;
        let was_above = connection.is_above_high_water();
        connection.output.sent(count, &mut self.run_queues.pool);
        connection.count_buffers(&mut self.buffer_bytes);
        if was_above && !connection.is_above_high_water() {
            let wants = connection.may_submit_pending() || connection.session.wants_poll();
            if connection.stalled || wants {
                self.run_queues.schedule(client, connection);
            }
            self.run_queues.mark_dirty(client, connection);
        }
        if connection.is_ending() {
            if count > 0 {
                self.disarm(client);
            }
            self.update_connection(client, now);
        }
    }

    fn handle_broken_output(&mut self, client: ClientId, now: Now) {
        if let Some(connection) = self.connections.get_mut(client) {
            connection.broken = true;
            connection.read_side = connection.read_side.max(ReadSide::PeerClosed);
            connection.session.handle_broken_output();
            self.run_queues.resume_stalled(client, connection);
            if connection.session.wants_poll() {
                self.run_queues.schedule(client, connection);
            }
            self.run_queues.mark_dirty(client, connection);
            self.update_connection(client, now);
        }
    }

    fn handle_reset(&mut self, client: ClientId, now: Now) {
        self.end(client, now, false);
    }

    fn handle_connected(&mut self, client: ClientId, now: Now) {
        self.connected(client);
        self.start_delivery(client, now);
    }

    fn handle_connect_failed(&mut self, client: ClientId, why: &ConnectError, now: Now) {
        assert!(
            self.connections
                .get(client)
                .is_none_or(|failed| failed.direction == Direction::Dialing),
            "a connection that was not dialing has failed to connect"
        );
        if why.is_ours() {
            self.mark_connection_busy(client);
        }
        self.end(client, now, false);
    }

    fn handle_shutdown(&mut self, now: Now) {
        self.stopping = true;
        self.stop_dispatchers();
        let directions =
            |(client, connection): (ClientId, &Connection)| (client, connection.direction);
        let clients: Vec<(ClientId, Direction)> = self.connections.iter().map(directions).collect();
        for (client, direction) in clients {
            match direction {
                // The driver has no output of it to flush.
                Direction::Dialing => self.end(client, now, true),
                Direction::Outbound if self.survives_shutdown(client) => {
                    self.run_queues.ready_deliveries.push(client);
                }
                Direction::Inbound | Direction::Outbound => self.handle_peer_closed(client, now),
            }
        }
        debug_assert!(
            self.connections
                .iter()
                .all(|(_, connection)| connection.direction != Direction::Dialing),
            "a connection is being established while the server stops"
        );
        if let Some(client) = self.processor {
            // Until now it had no flush timeout.
            self.arm_flush_timeout(client, now);
        }
    }

    fn finish_pass(&mut self, now: Now) {
        self.buffers_exempt = self.exceeds_buffers() && {
            self.close_largest(now);
            self.exceeds_buffers()
        };
        self.engine.set_buffer_bytes(self.buffer_bytes as u64);
        self.begin_turn(now);
        self.expire(now);
        self.engine.expire(now);
        self.release_disconnected();
        self.deliver(None, now);
        self.run_dispatchers(now);
        self.engine.commit(now);
        self.deliver(None, now);
        self.follow_engine(now);
        self.run_dispatchers(now);
        self.run_access(now);
        self.run_resumed(now);
        self.notices.log_rejections(now);
        while let Some(client) = self.run_queues.closing.pop() {
            self.update_connection(client, now);
        }
        while let Some(client) = self.run_queues.to_close.pop() {
            self.end(client, now, true);
        }
        if !self.run_queues.discarded.is_empty() {
            self.run_queues.free_discarded();
        }
        self.run_queues.work = 0;
        assert!(self.run_queues.pending_submits.is_empty(), "a command of a session is left over");
    }

    fn wants_input(&self, client: ClientId) -> bool {
        self.connections.get(client).is_some_and(Connection::takes_input)
    }

    fn unconsumed_input(&self, client: ClientId) -> usize {
        self.connections.get(client).map_or(0, |connection| connection.input.len())
    }

    fn has_budget(&self) -> bool {
        self.run_queues.work < INPUT_WORK_PER_PASS
    }

    fn pass_work(&self) -> usize {
        self.run_queues.work
    }

    fn output(&self, client: ClientId) -> &[u8] {
        self.connections.get(client).map_or(&[], |connection| connection.output.unsent())
    }

    fn poll_touched(&mut self) -> Option<ClientId> {
        let client = self.run_queues.dirty.pop_front()?;
        if let Some(connection) = self.connections.get_mut(client) {
            debug_assert!(connection.dirty, "a connection is reported as touched twice");
            connection.dirty = false;
            connection.count_buffers(&mut self.buffer_bytes);
        }
        Some(client)
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.run_queues.actions.pop_front()
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.poll().or_else(|| {
            let incident = Incident::LogLine(Box::new(self.engine.poll_log_line()?));
            Some(Notice { client: None, incident, total: 1 })
        })
    }

    fn poll_timeout(&self, now: Now) -> Option<Mono> {
        // Keys of connections that have ended do not cause a pass.
        let lives = |&client: &ClientId| self.connections.get(client).is_some();
        let due = (self.exceeds_buffers() && !self.buffers_exempt)
            || !self.run_queues.closing.is_empty()
            || !self.run_queues.discarded.is_empty()
            || self.are_dispatchers_due();
        if due || self.run_queues.resumable.iter().any(lives) {
            return Some(now.mono);
        }
        let rejections = self.notices.next_rejections();
        let access = self.access.next(now);
        let next = [self.deadlines.next(), self.engine.poll_timeout(), rejections, access];
        next.into_iter().flatten().min()
    }

    fn record_pass(&mut self, from: Mono, to: Mono, cpu_ns: Option<u64>) {
        self.counters.record_pass(from, to, cpu_ns);
    }

    fn record_memory(&mut self, resident: u64) {
        self.counters.record_memory(resident);
    }

    fn record_processor(&mut self, user_us: u64, system_us: u64) {
        self.counters.record_processor(user_us, system_us);
    }

    fn record_certificate(&mut self, expires: Wall) {
        self.counters.tls.certificate_expires = Some(expires);
    }

    fn record_handshakes(&mut self, complete: u64, failed: u64) {
        self.counters.tls.handshakes += complete;
        self.counters.tls.failures += failed;
    }

    fn record_forwards(&mut self, stats: ForwardStats) {
        self.counters.forwards = stats;
    }

    fn handle_reload(&mut self, report: ReloadReport) {
        self.end_reload(report);
    }

    fn handle_drain(&mut self) -> bool {
        self.engine.set_draining(true);
        self.context.standby.is_none()
    }

    fn failure(&self) -> Option<String> {
        self.engine.fatal_error()
    }

    fn link(&mut self) -> Option<&mut dyn Link> {
        self.engine.link()
    }

    fn awaits_disk(&self) -> bool {
        self.engine.awaits_disk()
    }

    fn handle_close(&mut self, now: Now) {
        self.engine.close(now);
    }

    fn is_closed(&self) -> bool {
        self.engine.is_closed()
    }

    fn connections(&self) -> usize {
        // A shutdown waits for the dispatchers too, which still report to the store.
        self.connections.len() + if self.stopping { self.dispatchers.len() } else { 0 }
    }

    fn calls(&self) -> usize {
        self.outbound + if self.stopping { self.dispatchers.len() } else { 0 }
    }

    fn survives_shutdown(&self, client: ClientId) -> bool {
        let connection = self.connections.get(client);
        connection.is_some_and(|connection| matches!(connection.session, Session::Call(_)))
    }
}

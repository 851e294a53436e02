//! What a shell calls: connections come, speak, close and go, and passes end.

use super::Server;
use super::connection::{Connection, Origin};
use crate::base::buf::{Input, OutBuf, progress};
use crate::base::limits::{OUTPUT_HIGH_WATER_BYTES, STALLED_INPUT_MAX_BYTES};
use crate::base::time::{Mono, Now};
use crate::model::driver::{Action, ConnectError, Core, Incident, Notice, Protocol};
use crate::model::id::ClientId;
use crate::protocol::Session;

impl Core for Server {
    fn handle_open(&mut self, protocol: Protocol, now: Now) -> Option<ClientId> {
        let others = self.refused + self.outgoing + self.agents.len();
        let clients = self.connections.len() - others;
        let full = clients >= self.settings.max_clients;
        let counters = &mut self.counters.protocols[protocol.number()];
        let second = protocol == Protocol::Processor && (full || self.processor.is_some());
        if full && !second {
            self.notices.note_refusal();
        }
        if self.stopping || second || (full && self.refused >= self.room.refused) {
            counters.refused += 1;
            return None;
        }
        if !full {
            counters.accepted += 1;
            counters.open += 1;
            let session = match protocol {
                Protocol::Processor => Session::processor(&self.shared.processor, now),
                _ => Session::new(protocol, now),
            };
            let timed = session.is_timed();
            let client = self.connections.insert(Connection::new(protocol, session));
            if timed {
                self.watch_session(client);
            }
            if protocol == Protocol::Processor {
                self.processor = Some(client);
                if let Some(connection) = self.connections.get_mut(client) {
                    self.lists.go_on(client, connection);
                }
            }
            return Some(client);
        }
        counters.refused += 1;
        let mut output = OutBuf::default();
        let session = Session::reject(protocol, self.settings.max_clients, &mut output);
        self.refused += 1;
        let refused = Connection { output, over: true, ..Connection::new(protocol, session) };
        let client = self.connections.insert(refused);
        if let Some(connection) = self.connections.get_mut(client) {
            self.lists.touch(client, connection);
        }
        self.update_connection(client, now);
        Some(client)
    }

    fn handle_input(&mut self, client: ClientId, bytes: &[u8], now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        self.counters.protocols[connection.protocol.number()].bytes_in += bytes.len() as u64;
        if connection.stalled {
            connection.input.append(bytes);
            self.lists.touch(client, connection);
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
        let ends = |connection: &Connection| connection.peer_closed || connection.over;
        if self.connections.get(client).is_some_and(ends) {
            self.update_connection(client, now);
        }
    }

    fn handle_peer_closed(&mut self, client: ClientId, now: Now) {
        if let Some(connection) = self.connections.get_mut(client)
            && !connection.peer_closed
        {
            connection.peer_closed = true;
            self.lists.touch(client, connection);
            self.update_connection(client, now);
        }
    }

    fn handle_eof(&mut self, client: ClientId, now: Now) {
        if let Some(connection) = self.connections.get_mut(client) {
            connection.peer_closed = true;
            connection.eof = true;
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
        let was_above = connection.output.len() > OUTPUT_HIGH_WATER_BYTES;
        connection.output.sent(count, &mut self.lists.pool);
        if was_above && connection.output.len() <= OUTPUT_HIGH_WATER_BYTES {
            let wants = connection.is_kept_waiting() || connection.session.wants_poll();
            if connection.stalled || wants {
                self.lists.go_on(client, connection);
            }
            self.lists.touch(client, connection);
        }
        if connection.peer_closed || connection.over {
            if count > 0 {
                self.disarm(client);
            }
            self.update_connection(client, now);
        }
    }

    fn handle_broken_output(&mut self, client: ClientId, now: Now) {
        if let Some(connection) = self.connections.get_mut(client) {
            connection.broken = true;
            connection.peer_closed = true;
            connection.session.handle_broken_output();
            self.lists.resume(client, connection);
            self.lists.touch(client, connection);
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
        if why.is_ours() {
            self.hinder_call(client);
        }
        self.end(client, now, false);
    }

    fn handle_shutdown(&mut self, now: Now) {
        self.stopping = true;
        let ways = |(client, connection): (ClientId, &Connection)| (client, connection.way);
        let clients: Vec<(ClientId, Origin)> = self.connections.iter().map(ways).collect();
        for (client, way) in clients {
            match way {
                // There is nothing that the shell could hand over before the end.
                Origin::Dialing => self.end(client, now, true),
                Origin::Outbound if self.survives_shutdown(client) => {
                    self.lists.ready_deliveries.push(client);
                }
                Origin::Inbound | Origin::Outbound => self.handle_peer_closed(client, now),
                Origin::Internal => self.drain_dispatcher(client),
            }
        }
        if let Some(client) = self.processor {
            // Until now it was given all the time that it took.
            self.arm_flush_timeout(client, now);
        }
    }

    fn finish_pass(&mut self, now: Now) {
        self.shared.begin_turn(now);
        self.expire(now);
        self.engine.expire(now);
        self.deliver(None, now);
        self.run_dispatchers(now);
        self.engine.commit(now);
        self.deliver(None, now);
        self.run_dispatchers(now);
        self.run_resumed(now);
        self.notices.tell_refusals(now);
        while let Some(client) = self.lists.closing.pop() {
            self.update_connection(client, now);
        }
    }

    fn wants_input(&self, client: ClientId) -> bool {
        let Some(connection) = self.connections.get(client) else { return false };
        if connection.eof || connection.output.len() > OUTPUT_HIGH_WATER_BYTES {
            return false;
        }
        let served = connection.session.wants_input() && !connection.stalled;
        served || connection.input.len() < STALLED_INPUT_MAX_BYTES
    }

    fn output(&self, client: ClientId) -> &[u8] {
        self.connections.get(client).map_or(&[], |connection| connection.output.unsent())
    }

    fn poll_touched(&mut self) -> Option<ClientId> {
        let client = self.lists.dirty.pop()?;
        if let Some(connection) = self.connections.get_mut(client) {
            connection.touched = false;
        }
        Some(client)
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.lists.actions.pop_front()
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.poll().or_else(|| {
            let trouble = Incident::LogLine(Box::new(self.engine.poll_log_line()?));
            Some(Notice { client: None, incident: trouble, total: 1 })
        })
    }

    fn poll_timeout(&self, now: Now) -> Option<Mono> {
        // Those that have ended meanwhile want nothing: no pass is made for them.
        let lives = |&client: &ClientId| self.connections.get(client).is_some();
        let due = !self.lists.closing.is_empty() || self.are_dispatchers_due();
        if due || self.lists.resumable.iter().any(lives) {
            return Some(now.mono);
        }
        let refusals = self.notices.next_refusals();
        [self.deadlines.next(), self.engine.poll_timeout(), refusals].into_iter().flatten().min()
    }

    fn record_pass(&mut self, from: Mono, to: Mono) {
        self.counters.record_pass(from, to);
    }

    fn record_memory(&mut self, resident: u64) {
        self.counters.note_memory(resident);
    }

    fn failure(&self) -> Option<String> {
        self.engine.fatal_error()
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
        // The shell waits for those that have to say something before the end.
        self.connections.len() - if self.stopping { 0 } else { self.agents.len() }
    }

    fn calls(&self) -> usize {
        self.outgoing + if self.stopping { self.agents.len() } else { 0 }
    }

    fn survives_shutdown(&self, client: ClientId) -> bool {
        let connection = self.connections.get(client);
        connection.is_some_and(|connection| matches!(connection.session, Session::Call(_)))
    }
}

//! Calls to workers: connections that agents ask for, use again, and hear of.

use super::Server;
use super::connection::{Connection, Way};
use crate::base::time::Now;
use crate::model::id::{ClientId, Ticket};
use crate::protocol::Session;
use crate::protocol::http::agent::{Agent, Call, Errand, Verdict};
use std::sync::Arc;

impl Server {
    fn call_mut(&mut self, client: ClientId) -> Option<&mut Call> {
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
    pub(super) fn call_worker(&mut self, client: ClientId, errand: Errand, now: Now) {
        if !errand.fresh
            && let Some(line) = self.free_line(client)
            && let Some(call) = self.call_mut(line)
        {
            call.take_on(errand);
            return self.begin_call(line, now);
        }
        let Some(agent) = self.agent_mut(client) else { return };
        let address = agent.address().clone();
        let target = Arc::clone(&address.target);
        self.make_room(now);
        let session = Session::Call(Box::new(Call::new(client, address, errand)));
        let line = self.connect(target, session, now);
        let Some(agent) = self.agent_mut(client) else { return };
        match line {
            Some(line) => agent.add_line(line),
            None => agent.handle_verdict(errand, Verdict::NoRoom, b"", now),
        }
    }

    /// A connection that its worker has not closed yet, as far as is known.
    fn free_line(&mut self, client: ClientId) -> Option<ClientId> {
        loop {
            let line = self.agent_mut(client)?.take_idle_line()?;
            let Some(connection) = self.connections.get(line) else { continue };
            let Session::Call(call) = &connection.session else { continue };
            if call.is_idle() && !connection.peer_closed && connection.output.is_empty() {
                return Some(line);
            }
        }
    }

    /// Closes a connection that is not in use if there is no room for another. O(agents) then.
    fn make_room(&mut self, now: Now) {
        if self.has_room_outside() {
            return;
        }
        for agent in self.agents.clients() {
            let line = self.agent_mut(agent).and_then(Agent::take_idle_line);
            if let Some(line) = line {
                return self.end(line, now, true);
            }
        }
    }

    /// A connection to a worker is there, or is used again.
    pub(super) fn begin_call(&mut self, line: ClientId, now: Now) {
        let Some(call) = self.call_mut(line) else { return };
        let (serial, command) = call.begin(now);
        self.engine.submit(Ticket { client: line, serial }, &command, now);
        self.deliver(None, now);
        self.watch_session(line);
    }

    /// Tells agents what has become of their calls.
    pub(super) fn hear_calls(&mut self, now: Now) {
        while let Some(line) = self.lists.called.pop() {
            let Some(call) = self.call_mut(line) else { continue };
            let (client, verdict) = (call.agent(), call.take_verdict());
            let (idle, over) = (call.take_idle(), call.is_over());
            let queue = match verdict {
                Some((_, Verdict::Refused(_))) => call.queue().to_vec(),
                _ => Vec::new(),
            };
            let (busy, mut useless) = (call.is_busy(), over);
            if let Some(agent) = self.agent_mut(client) {
                if let Some((errand, verdict)) = verdict {
                    agent.handle_verdict(errand, verdict, &queue, now);
                }
                if idle {
                    useless |= !agent.keep_line(line);
                }
                self.lists.awake.push_back(client);
            }
            if useless || (self.stopping && !busy) {
                self.end(line, now, true);
            }
        }
    }

    /// A connection to a worker has ended.
    pub(super) fn note_end_of_call(
        &mut self,
        line: ClientId,
        connection: &mut Connection,
        now: Now,
    ) {
        let told = connection.way == Way::Called && connection.output.is_empty();
        let Session::Call(call) = &mut connection.session else { return };
        let (client, ended) = (call.agent(), call.handle_end(told));
        let Some(agent) = self.agent_mut(client) else { return };
        agent.lose_line(line);
        match ended {
            None => {}
            Some((errand, None)) => agent.retry(errand),
            Some((errand, Some(verdict))) => {
                agent.handle_verdict(errand, verdict, call.queue(), now);
            }
        }
        self.lists.awake.push_back(client);
    }
}

//! Sessions that count how long their clients take.
//!
//! Invariant: a connection whose session has a deadline has a timer at or before it, unless its end
//! is waited for already. The timer is not moved when the session's deadline moves on, as it does
//! with each request: it fires, finds that it is too early, and is armed again.

use super::Server;
use crate::base::time::Now;
use crate::model::id::ClientId;
use crate::protocol::{Session, TimeoutAction};

impl Server {
    /// Sees to it that the deadline of a session is not missed. O(log n) if it comes before what
    /// is armed, else O(1).
    #[inline(never)]
    pub(super) fn watch_session(&mut self, client: ClientId) {
        let Some(connection) = self.connections.get(client) else { return };
        if connection.is_leaving() {
            return;
        }
        let Some(at) = connection.session.deadline() else { return };
        if !connection.deadline.is_none() {
            if self.deadlines.moment(connection.deadline) <= at {
                return;
            }
            self.disarm(client);
        }
        let timer = self.deadlines.arm(at, client);
        if let Some(connection) = self.connections.get_mut(client) {
            connection.deadline = timer;
            connection.timed = true;
        }
    }

    /// The timer of a session has fired.
    pub(super) fn on_session_timeout(&mut self, client: ClientId, now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        if connection.session.deadline().is_none_or(|at| at > now.mono) {
            return self.watch_session(client);
        }
        if let Session::Agent(agent) = &mut connection.session {
            agent.handle_timeout();
            return self.lists.ready_dispatchers.push_back(client);
        }
        connection.output.prepare(&mut self.lists.pool);
        let late = connection.session.handle_timeout(&mut self.shared, &mut connection.output);
        self.lists.touch(client, connection);
        while let Some(connection) = self.connections.get_mut(client)
            && let Some(serial) = connection.session.poll_called_off()
        {
            self.cancel_wait(client, serial, None, now);
        }
        let Some(connection) = self.connections.get_mut(client) else { return };
        match late {
            TimeoutAction::Rearm => {
                if connection.session.wants_poll() {
                    self.lists.go_on(client, connection);
                }
                self.watch_session(client);
            }
            TimeoutAction::Close => {
                connection.over = true;
                self.lists.go_on(client, connection);
            }
            TimeoutAction::Abort => self.end(client, now, true),
        }
    }
}

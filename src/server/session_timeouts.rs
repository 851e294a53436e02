//! Deadlines of sessions, and those of connections that end.
//!
//! Invariant: a connection whose session has a deadline has a timer at or before it, unless the
//! connection is already leaving. The timer is not moved when the deadline moves later, as it does
//! with each request: it fires early and is armed again.

use super::Server;
use super::connection::{Deadline, Direction};
use crate::base::limits::{FLUSH_TIMEOUT, REJECTED_LINGER_TIMEOUT};
use crate::base::time::Now;
use crate::engine::CommandExecutor;
use crate::model::driver::Action;
use crate::model::id::ClientId;
use crate::protocol::TimeoutAction;

impl<E: CommandExecutor> Server<E> {
    /// Arms a timer for the deadline of a session. O(log n) if the deadline is before the armed
    /// timer, else O(1).
    #[inline(never)]
    pub(super) fn arm_session_timeout(&mut self, client: ClientId) {
        let Some(connection) = self.connections.get(client) else { return };
        if connection.is_leaving() {
            return;
        }
        let Some(at) = connection.session.deadline() else { return };
        assert!(
            connection.direction != Direction::Dialing,
            "the deadline of a session would replace the connect timeout"
        );
        if let Some(timer) = connection.deadline.map(Deadline::timer) {
            if self.deadlines.moment(timer) <= at {
                return;
            }
            self.disarm(client);
        }
        let timer = self.deadlines.arm(at, client);
        if let Some(connection) = self.connections.get_mut(client) {
            connection.deadline = Some(Deadline::Session(timer));
        }
    }

    /// Called when the timer of a session has fired.
    pub(super) fn on_session_timeout(&mut self, client: ClientId, now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        assert!(connection.deadline.is_none(), "a timer that has fired counts as armed");
        if connection.session.deadline().is_none_or(|at| at > now.mono) {
            return self.arm_session_timeout(client);
        }
        connection.output.prepare(&mut self.run_queues.pool);
        let late = connection.session.handle_timeout(&mut self.context, &mut connection.output);
        self.run_queues.mark_dirty(client, connection);
        while let Some(connection) = self.connections.get_mut(client)
            && let Some(serial) = connection.session.poll_called_off()
        {
            self.cancel_wait(client, serial, None, now);
        }
        let Some(connection) = self.connections.get_mut(client) else { return };
        match late {
            TimeoutAction::Rearm => {
                if connection.session.wants_poll() {
                    self.run_queues.schedule(client, connection);
                }
                self.arm_session_timeout(client);
            }
            TimeoutAction::Close => {
                connection.closing = true;
                self.run_queues.schedule(client, connection);
            }
            TimeoutAction::Abort => self.end(client, now, true),
        }
    }

    /// Shuts down the sending side of a closing connection once everything is flushed.
    pub(super) fn begin_linger(&mut self, client: ClientId, now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        let flushed = connection.session.is_settled() && connection.output.is_empty();
        assert!(!connection.is_finished(), "a finished connection is to linger");
        if connection.closing && flushed && connection.deadline.is_none() {
            self.run_queues.actions.push_back(Action::ShutdownWrite(client));
            let timer = self.deadlines.arm(now.mono.after(REJECTED_LINGER_TIMEOUT), client);
            connection.deadline = Some(Deadline::Close(timer));
        }
    }

    /// Arms the flush timeout of a connection that ends and has unsent output.
    pub(super) fn arm_flush_timeout(&mut self, client: ClientId, now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        // Assignments of the processor have no flush timeout before the shutdown.
        let exempt = self.processor == Some(client) && !self.stopping;
        let waits = connection.is_ending() && !connection.output.is_empty() && !exempt;
        if waits && connection.deadline.is_none() {
            let timer = self.deadlines.arm(now.mono.after(FLUSH_TIMEOUT), client);
            connection.deadline = Some(Deadline::Close(timer));
        }
    }

    pub(super) fn disarm(&mut self, client: ClientId) {
        if let Some(connection) = self.connections.get_mut(client)
            && let Some(deadline) = connection.deadline.take()
        {
            self.deadlines.cancel(deadline.timer());
        }
    }
}

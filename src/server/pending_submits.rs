//! Commands that sessions have of themselves, without further input: the open pops of subscribers.
//! And the end of waits.

use super::Server;
use crate::base::limits::{EXTRA_WORK_PER_TURN, RESUMED_WORK_PER_PASS};
use crate::base::time::Now;
use crate::engine::CommandExecutor;
use crate::model::id::{ClientId, Ticket};

impl<E: CommandExecutor> Server<E> {
    /// Submits pending commands in FIFO order until no session has one. It terminates: a session
    /// has another one only after a delivery, which has removed a job from the store and added to
    /// the output of a connection that is not yet above the high-water mark. Beyond the
    /// work of a turn, or noted work of [`RESUMED_WORK_PER_PASS`], sessions wait for the next pass.
    #[cold]
    pub(super) fn run_pending_submits(&mut self, running: Option<ClientId>, now: Now) {
        while let Some(client) = self.run_queues.pending_submits.pop_front() {
            let Some(connection) = self.connections.get_mut(client) else { continue };
            if !connection.may_submit_pending() || connection.is_above_high_water() {
                continue;
            }
            if self.engine.noted_work() > RESUMED_WORK_PER_PASS {
                self.run_queues.schedule(client, connection);
                continue;
            }
            let output = &mut connection.output;
            match connection.session.poll_pending_submit(&mut self.context, output) {
                Some((serial, command)) => {
                    let ticket = Ticket { client, serial };
                    let who = (&mut connection.access, ticket, connection.protocol);
                    let known = (&self.engine, &self.peers);
                    if self.access.is_checking()
                        && let Some(denial) = self.access.denies(who, &command, known, now)
                    {
                        self.deny(client, Some(serial), &denial, now);
                        continue;
                    }
                    self.engine.submit(ticket, &command, now);
                    self.forward_reply(running, now);
                }
                None => self.run_queues.schedule(client, connection),
            }
        }
    }

    /// Submits the pending command of the session that runs. Returns whether its turn ends.
    #[cold]
    pub(super) fn submit_pending(&mut self, client: ClientId, now: Now) -> bool {
        let Some(connection) = self.connections.get_mut(client) else { return true };
        let output = &mut connection.output;
        let Some((serial, command)) =
            connection.session.poll_pending_submit(&mut self.context, output)
        else {
            self.run_queues.schedule(client, connection);
            return true;
        };
        let ticket = Ticket { client, serial };
        let who = (&mut connection.access, ticket, connection.protocol);
        let known = (&self.engine, &self.peers);
        if self.access.is_checking()
            && let Some(denial) = self.access.denies(who, &command, known, now)
        {
            self.deny(client, Some(serial), &denial, now);
            return false;
        }
        self.engine.submit(ticket, &command, now);
        self.deliver(Some(client), now);
        let work = self.engine.take_work();
        self.run_queues.work += work;
        if work > EXTRA_WORK_PER_TURN {
            self.yield_turn(ticket);
        }
        work > EXTRA_WORK_PER_TURN
    }

    /// Cancels a reserve or pop that still waits.
    pub(super) fn cancel_wait(
        &mut self,
        client: ClientId,
        serial: u32,
        running: Option<ClientId>,
        now: Now,
    ) {
        self.engine.cancel(Ticket { client, serial }, now);
        self.deliver(running, now);
    }
}

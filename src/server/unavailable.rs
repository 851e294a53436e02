//! The engine is away for longer than it is waited for: requests are refused, and clients whose
//! requests are under way hear that it is not known whether they are carried out.

use super::Server;
use super::connection::Direction;
use crate::access::Denial;
use crate::base::time::Now;
use crate::engine::CommandExecutor;
use crate::model::id::ClientId;
use crate::protocol::{Closing, Session};

impl<E: CommandExecutor> Server<E> {
    /// Makes it a server that waits to lead, and answers HTTP requests so. `leader`: the name of
    /// the one that leads, or an empty text.
    pub fn set_standby(&mut self, leader: &str) {
        self.context.standby = Some(leader.into());
    }

    /// Whether the fatal error is that another server leads.
    #[must_use]
    pub fn has_lost_lead(&self) -> bool {
        self.engine.has_lost_lead()
    }

    /// Refuses what comes from now on, or takes it again, as the engine says. O(1) as a rule, else
    /// O(clients that wait for replies).
    #[inline]
    pub(super) fn follow_engine(&mut self, now: Now) {
        let why = self.engine.unavailable();
        if why.is_some() || self.access.is_unavailable() {
            self.follow_unavailable(why, now);
        }
    }

    #[cold]
    fn follow_unavailable(&mut self, why: Option<String>, now: Now) {
        let refusal = |why: &String| format!("{why}: nothing was carried out, try again later");
        self.access.set_unavailable(why.as_ref().map(|why| refusal(why).into()));
        let Some(why) = why else { return };
        let advice = "whether this was carried out is not known, so look before you try again";
        let denial = Denial::Unavailable(format!("{why}: {advice}").into());
        while let Some(client) = self.engine.take_given_up() {
            self.give_up(client, &denial, now);
        }
    }

    /// Closes a client that waits for a reply, and tells it why.
    fn give_up(&mut self, client: ClientId, denial: &Denial, now: Now) {
        let Some(connection) = self.connections.get(client) else { return };
        let is_other = connection.direction != Direction::Inbound || self.processor == Some(client);
        if is_other || matches!(connection.session, Session::Rejected) {
            return;
        }
        if connection.output.is_empty() && !connection.is_ending() {
            self.close_with(client, Closing::Denied(denial), now);
        } else {
            self.end(client, now, true);
        }
    }
}

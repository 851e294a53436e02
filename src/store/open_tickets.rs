//! Tickets that are not answered yet.

use super::{Effects, Outcome, Store};
use crate::model::id::Ticket;

impl Store {
    /// Cancels a waiting reserve or a watcher, if it still waits, and answers it. O(queues it waits
    /// on + waiters of its client).
    pub fn cancel(&mut self, ticket: Ticket, fx: &mut Effects) {
        if let Some(waiter) = self.reservations.waiter(ticket, &self.waiters) {
            self.end_wait(waiter);
            fx.answer(ticket, Outcome::Cancelled);
        } else if let Some(watcher) = self.watchers.find(ticket) {
            let (ticket, outcome) = self.watchers.cancel(watcher, &mut self.deadlines);
            fx.answer(ticket, outcome);
        } else if self.registry_watchers.remove(ticket)
            || self.actions.stop_waiting(ticket)
            || self.index_work.stop_waiting(ticket)
            || self.rankings.stop_waiting(ticket)
        {
            fx.answer(ticket, Outcome::Cancelled);
        }
    }

    /// Whether a pop takes several passes, though it does not wait for a job: requests behind it
    /// would be executed before it. O(waiters of the client + large pops).
    #[must_use]
    pub fn is_deferred(&self, ticket: Ticket) -> bool {
        self.large_pops.contains(ticket)
            || self.actions.is_awaited(ticket)
            || self.index_work.is_awaited(ticket)
            || self.rankings.is_awaited(ticket)
            || self.reservations.waiter(ticket, &self.waiters).is_some()
    }
}

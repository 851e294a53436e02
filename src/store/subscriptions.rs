//! Open pops: the queues of a pop that waits can be changed.

use super::{Effects, Outcome, Store};
use crate::base::time::Now;
use crate::model::id::Ticket;

impl Store {
    /// Adds a queue to an open pop. O(queues of the waiter), and what matching costs.
    #[inline(never)]
    pub(super) fn subscribe(
        &mut self,
        ticket: Ticket,
        serial: u32,
        queue: &[u8],
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(waiter) = self.reservations.waiter(Ticket { serial, ..ticket }, &self.waiters)
        else {
            return fx.answer(ticket, Outcome::NoJob);
        };
        fx.answer(ticket, Outcome::Done);
        let queue = self.queues.find_or_add(queue);
        if !self.waiters.is_queued_in(waiter, queue.into()) {
            self.waiters.push_back(waiter, queue.into(), &mut self.queues[queue].waiters);
            if self.queues[queue].excluded.is_some() {
                return self.match_new_waiter(waiter, queue, now, fx);
            }
            self.match_queue(queue, now, fx);
        }
    }

    /// Removes a queue from an open pop. O(queues of the waiter).
    pub(super) fn unsubscribe(
        &mut self,
        ticket: Ticket,
        serial: u32,
        queue: &[u8],
        fx: &mut Effects,
    ) {
        let Some(waiter) = self.reservations.waiter(Ticket { serial, ..ticket }, &self.waiters)
        else {
            return fx.answer(ticket, Outcome::NoJob);
        };
        if let Some(queue) = self.queues.find(queue) {
            self.waiters.leave(waiter, queue.into(), &mut self.queues[queue].waiters);
            self.queues.list_if_idle(queue);
        }
        fx.answer(ticket, Outcome::Done);
    }
}

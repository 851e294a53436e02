//! Open pops: pops without timeout. The queues of one that waits can be changed, and one that is
//! answered is kept for the client's next pop from the same queues: see `waiters::open_pops`.

use super::idx::{QueueIdx, WaiterIdx};
use super::waiters::WaiterKind;
use super::{Effects, JobIdx, Outcome, Store};
use crate::base::heap::{HeapEntry, outranks};
use crate::base::limits::SUBSCRIPTION_NAME_WORK;
use crate::base::strings::Strings;
use crate::base::time::Now;
use crate::model::command::Wait;
use crate::model::id::{ClientId, Ticket};

impl Store {
    /// As [`Store::pop`] without timeout, while no job has limiters. With [`Wait::Again`] O(p) for
    /// the p queues that may have a job, else O(q).
    pub(super) fn pop_open(
        &mut self,
        ticket: Ticket,
        names: Strings<'_>,
        wait: Wait,
        now: Now,
        fx: &mut Effects,
    ) {
        debug_assert!(self.may_pause(ticket.client), "the caller has checked this");
        let former = self.reservations.paused_pop(ticket.client, &self.waiters);
        // While a queue is to be matched, its nodes may not be parked.
        let is_kept = wait == Wait::Again && !self.constraints.is_pending();
        let waiter = match former {
            Some(waiter) if is_kept => waiter,
            _ => {
                self.end_paused(ticket.client);
                self.begin_open_pop(ticket, names)
            }
        };
        self.waiters.arrive_again(waiter, ticket);
        self.serve_open_pop(waiter, ticket, now, fx);
    }

    /// Whether a pop of this client may be kept when it is answered: what it may get does not
    /// change but by jobs that come and go.
    pub(super) fn may_pause(&self, client: ClientId) -> bool {
        self.constraints.is_inactive()
            && self.workers.of_client(client, &self.reservations).is_none()
    }

    /// Ends the paused pop of a client, if it has one. O(queues of the pop + waiters of the
    /// client).
    pub(super) fn end_paused(&mut self, client: ClientId) {
        if self.waiters.paused() > 0
            && let Some(waiter) = self.reservations.paused_pop(client, &self.waiters)
        {
            self.end_wait(waiter);
        }
    }

    /// A pop is answered: it is kept, or it ends. O(1), or O(queues of the pop) if it ends.
    pub(super) fn pause_or_end(&mut self, waiter: WaiterIdx) {
        debug_assert_eq!(self.waiters[waiter].kind, WaiterKind::Pop, "no reserve is kept");
        let client = self.waiters[waiter].ticket.client;
        if self.waiters[waiter].timer.is_none()
            && self.may_pause(client)
            && self.reservations.paused_pop(client, &self.waiters).is_none()
        {
            self.waiters.pause(waiter);
        } else {
            self.end_wait(waiter);
        }
    }

    /// Puts the parked nodes of a pop that is to end back into their wait queues. O(parked nodes).
    #[cold]
    pub(super) fn unpark_all(&mut self, waiter: WaiterIdx) {
        let mut next = self.waiters.take_parked(waiter);
        while let Some(node) = next {
            let (queue, following) = self.waiters.parked_node(node);
            next = following;
            let record = &mut self.queues[queue];
            self.waiters.unpark(node, &mut record.waiters, &mut record.parked_pops);
        }
    }

    /// Work of waits and pops that the next [`Store::take_work`] returns. O(1).
    #[must_use]
    pub fn noted_work(&self) -> usize {
        self.waiters.noted_work()
    }

    /// Adds a paused pop, with all of its nodes parked. O(q).
    fn begin_open_pop(&mut self, ticket: Ticket, names: Strings<'_>) -> WaiterIdx {
        let waiter = self.enqueue_waiter(ticket, WaiterKind::Pop, names);
        self.waiters.pause(waiter);
        let mut next = self.waiters.last_node(waiter);
        while let Some(node) = next {
            let (queue, before) = self.waiters.node_before(node);
            next = before;
            let record = &mut self.queues[queue];
            self.waiters.park(node, &mut record.waiters, &mut record.parked_pops);
        }
        waiter
    }

    /// Hands the most urgent job to a paused pop that has arrived anew, or lets it wait. Looks at
    /// the queues of parked nodes. O(parked nodes), and what a pop costs.
    fn serve_open_pop(&mut self, waiter: WaiterIdx, ticket: Ticket, now: Now, fx: &mut Effects) {
        debug_assert!(self.waiters[waiter].is_paused(), "an open pop is served while it is paused");
        // The best job, how many nodes have one as good, and their level.
        let (mut best, mut equals, mut level) = (None::<HeapEntry<JobIdx>>, 0, 0);
        // Matching of a queue whose head has expired may park further nodes.
        while best.is_none()
            && let Some(first) = self.waiters.take_parked(waiter)
        {
            let (mut next, mut nodes) = (Some(first), 0);
            while let Some(node) = next {
                let (queue, following) = self.waiters.parked_node(node);
                (next, nodes) = (following, nodes + 1);
                let Some(entry) = self.head_for_pop(queue, ticket.client, now, fx) else {
                    let record = &mut self.queues[queue];
                    self.waiters.unpark(node, &mut record.waiters, &mut record.parked_pops);
                    continue;
                };
                let own = match best {
                    Some(best) if outranks(&best, &entry, &self.jobs) => 0,
                    Some(best) if !outranks(&entry, &best, &self.jobs) => {
                        equals += 1;
                        level
                    }
                    _ => {
                        (best, equals, level) = (Some(entry), 1, level + 1);
                        level
                    }
                };
                self.waiters.keep_parked(node, own);
            }
            self.waiters.note_work(nodes * SUBSCRIPTION_NAME_WORK);
        }
        let Some(mut best) = best else { return self.waiters.wait_again(waiter) };
        if equals > 1 {
            let queue = self.waiters.oldest_of_level(waiter, level);
            best = self.head_for_pop(queue, ticket.client, now, fx).expect("it was found before");
        }
        let queue = self.jobs[best.slot].queue;
        self.pop_out(best.slot, ticket, now, fx);
        self.rematch_queue(queue, now, fx);
    }

    /// The job of a queue that a waiting pop of this client would get.
    fn head_for_pop(
        &mut self,
        queue: QueueIdx,
        client: ClientId,
        now: Now,
        fx: &mut Effects,
    ) -> Option<HeapEntry<JobIdx>> {
        let entry = self.head_for_client(queue, (client, true), now, fx)?;
        (!self.jobs[entry.slot].is_too_large_to_pop()).then_some(entry)
    }

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
            debug_assert!(
                !self.waiters.is_queued_in(waiter, queue.into()),
                "a waiter is in the line of a queue once"
            );
            self.queues.list_if_idle(queue);
        }
        fx.answer(ticket, Outcome::Done);
    }
}

#[cfg(test)]
mod tests;

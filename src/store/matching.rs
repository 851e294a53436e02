//! Reserve, pop, and the matching of ready jobs and waiters.
//!
//! Matching is one explicit step, [`Store::match_queue`], done wherever the head of an awaited
//! queue may have changed.

use super::idx::{QueueIdx, QueueScope, WaiterIdx};
use super::waiters::WaiterKind;
use super::{Due, Effects, JobIdx, Outcome, Store};
use crate::base::heap::{HeapEntry, outranks};
use crate::base::limits::{
    EXTRA_WORK_PER_TURN, GROUP_PACKET_WORK, PACKETS_PER_POP_MAX, POP_COPIED_MAX_BYTES,
    WAIT_NODE_WORK, WRITTEN_BYTES_PER_WORK,
};
use crate::base::strings::Strings;
use crate::base::time::Now;
use crate::model::command::Wait;
use crate::model::event::EventKind;
use crate::model::flow::FlowKind;
use crate::model::id::{ClientId, JobId, Ticket};
use crate::model::job::{Packet, Status};
use crate::model::owned::OwnedReply;
use crate::model::stats::JobCounter;
use std::time::Duration;

impl Store {
    /// Reserves the most urgent job of the queues. O(q + log n); a reserve that waits O(q).
    #[inline(always)]
    pub(super) fn reserve(
        &mut self,
        ticket: Ticket,
        names: Strings<'_>,
        wait: Wait,
        now: Now,
        fx: &mut Effects,
    ) {
        let best = if names.len() == 1 {
            let name = names.into_iter().next();
            let queue = name.and_then(|name| self.queues.find_recent(name));
            queue.and_then(|queue| self.head_for_client(queue, (ticket.client, false), now, fx))
        } else {
            self.best_head(ticket.client, names, now, fx)
        };
        match best {
            Some(entry) => {
                debug_assert_eq!(self.jobs[entry.slot].status(), Status::Ready, "a head is ready");
                let queue = self.jobs[entry.slot].queue;
                self.unlink(entry.slot);
                let record = &mut self.queues[queue];
                record.flow.count(FlowKind::Reserved);
                if record.ready.is_large() {
                    // By its id the client will soon delete it.
                    self.ids.prefetch(self.jobs[entry.slot].id());
                }
                self.mark_reserved(entry.slot, ticket, now, fx);
                self.rematch_queue(queue, now, fx);
            }
            None => self.wait_or_answer(ticket, WaiterKind::Reserve, names, wait, now, fx),
        }
    }

    /// Removes the most urgent job of the queues, with its key group. O(q + k log n) for the k
    /// packets that leave.
    #[inline(never)]
    pub(super) fn pop(
        &mut self,
        ticket: Ticket,
        names: Strings<'_>,
        wait: Wait,
        now: Now,
        fx: &mut Effects,
    ) {
        if matches!(wait, Wait::Forever | Wait::Again) {
            if self.may_pause(ticket.client) {
                return self.pop_open(ticket, names, wait, now, fx);
            }
            self.end_paused(ticket.client);
            self.waiters.note_work(names.len() * WAIT_NODE_WORK);
        }
        let mut best: Option<HeapEntry<JobIdx>> = None;
        for name in names {
            let Some(queue) = self.queues.find(name) else { continue };
            let poppable_only = (ticket.client, wait != Wait::No);
            let Some(entry) = self.head_for_client(queue, poppable_only, now, fx) else { continue };
            if wait != Wait::No && self.jobs[entry.slot].is_too_large_to_pop() {
                continue;
            }
            if best.is_none_or(|best| outranks(&entry, &best, &self.jobs)) {
                best = Some(entry);
            }
        }
        match best {
            Some(entry) if self.jobs[entry.slot].is_too_large_to_pop() => {
                fx.answer(ticket, Outcome::TooLarge(JobId(self.jobs[entry.slot].id())));
            }
            Some(entry) => {
                let queue = self.jobs[entry.slot].queue;
                self.pop_out(entry.slot, ticket, now, fx);
                self.rematch_queue(queue, now, fx);
            }
            None => self.wait_or_answer(ticket, WaiterKind::Pop, names, wait, now, fx),
        }
    }

    /// Makes a waiter of a reserve or pop that found no job, or answers it if it does not wait.
    /// O(q).
    #[inline(always)]
    pub(super) fn wait_or_answer(
        &mut self,
        ticket: Ticket,
        kind: WaiterKind,
        names: Strings<'_>,
        wait: Wait,
        now: Now,
        fx: &mut Effects,
    ) {
        match wait {
            Wait::No => return self.answer_no_job(ticket, kind, names, now, fx),
            Wait::UntilLeaseEnds(wait_ms) => {
                debug_assert_eq!(kind, WaiterKind::Reserve, "a pop holds no leases");
                return self.wait_until_lease_ends(ticket, names, wait_ms, now, fx);
            }
            Wait::Forever | Wait::Again | Wait::Milliseconds(_) => {}
        }
        let waiter = self.enqueue_waiter(ticket, kind, names);
        if let Wait::Milliseconds(timeout_ms) = wait {
            let at = now.mono.after(Duration::from_millis(timeout_ms));
            self.waiters[waiter].timer = self.deadlines.arm(at, Due::Waiter(waiter));
        }
    }

    /// Adds a waiter to the wait queues of all its queues. O(q).
    #[inline(always)]
    pub(super) fn enqueue_waiter(
        &mut self,
        ticket: Ticket,
        kind: WaiterKind,
        names: Strings<'_>,
    ) -> WaiterIdx {
        let waiter = self.waiters.add(ticket, kind);
        self.reservations.add_waiter(ticket.client, waiter, &mut self.waiters);
        for name in names {
            let queue = self.queues.find_or_add_noted(name, &mut self.waiters);
            self.waiters.join(waiter, queue.into(), &mut self.queues[queue].waiters);
            if kind == WaiterKind::Pop && self.queues[queue].class_count > 0 {
                self.note_blocked_pops(queue);
            }
        }
        waiter
    }

    /// [`Store::rematch_queue`] in the middle of a reserve. With constraints, matching is only
    /// scheduled: a waiter could use up the capacity that the reserve has found.
    #[cold]
    pub(super) fn global_head_wins(&mut self, queue: QueueIdx, now: Now, fx: &mut Effects) {
        if self.constraints.is_inactive() {
            self.rematch_queue(queue, now, fx);
        } else if !self.queues[queue].waiters.is_empty() {
            self.constraints.schedule_match(queue.into());
        }
    }

    /// Matches a queue whose head has left: a waiter that is still there may not have been eligible
    /// for it.
    #[inline(always)]
    pub(super) fn rematch_queue(&mut self, queue: QueueIdx, now: Now, fx: &mut Effects) {
        if !self.queues[queue].waiters.is_empty() {
            self.match_queue(queue, now, fx);
        }
    }

    /// Hands ready jobs of a queue to its waiters until there are no more of either, or no waiter
    /// is eligible for the head.
    #[inline(never)]
    pub(super) fn match_queue(&mut self, queue: QueueIdx, now: Now, fx: &mut Effects) {
        if self.is_on_hold(queue) {
            return;
        }
        if self.constraints.is_pending() {
            return self.constraints.schedule_match(queue.into());
        }
        while self.match_one(queue, now, fx) {
            // A job that has begun to run may have made way for others in other queues.
            if self.constraints.is_pending() {
                return self.constraints.schedule_match(queue.into());
            }
            // A pop may have put the queue on hold.
            if self.is_on_hold(queue) {
                return;
            }
        }
        if self.queues[queue].class_count > 0 {
            self.note_blocked_pops(queue);
        }
        if self.queues[queue].excluded.is_some() {
            self.match_pops_excluded(queue, now, fx);
        }
    }

    /// Hands the head of a queue to the first waiter that is eligible for it. Returns false if
    /// there is no such pair. O(log n), or what a pop costs.
    pub(super) fn match_one(&mut self, queue: QueueIdx, now: Now, fx: &mut Effects) -> bool {
        let (Some(entry), _) = self.expire_heads(queue, now, fx) else { return false };
        let record = &mut self.queues[queue];
        self.waiters.settle_first_pop(&mut record.waiters, &mut record.parked_pops);
        let record = &self.queues[queue];
        let job = &self.jobs[entry.slot];
        let first = if job.is_tracked() {
            let global = self.global_ready.wait_queues;
            self.waiters.first_of(record.waiters, global, job.is_too_large_to_pop(), |_| true)
        } else {
            self.waiters.first(record.waiters, job.is_too_large_to_pop())
        };
        let Some(waiter) = first else { return false };
        self.reserve_for_waiter(entry.slot, waiter, now, fx);
        true
    }

    /// Reserves an unlinked job for the client of `ticket`; the caller counts it in the queue.
    /// O(1), or O(log d) for a job with a lease.
    #[inline(always)]
    pub(super) fn mark_reserved(
        &mut self,
        slot: JobIdx,
        ticket: Ticket,
        now: Now,
        fx: &mut Effects,
    ) {
        self.reserve_for_client(slot, ticket.client, now, fx);
        fx.answer(ticket, Outcome::Job(slot));
    }

    /// [`Store::mark_reserved`] without the answer. The caller counts it in the queue.
    #[inline(always)]
    pub(super) fn reserve_for_client(
        &mut self,
        slot: JobIdx,
        client: ClientId,
        now: Now,
        fx: &mut Effects,
    ) {
        let job = &mut self.jobs[slot];
        debug_assert!(
            !matches!(job.status(), Status::Completed | Status::Popped),
            "a job that has ended is not handed out"
        );
        job.set_status(Status::Reserved);
        self.totals.ready_ms.note(u64::from(job.ready_for(now)), 1);
        if !job.is_simple_to_reserve() || self.workers.any_attached() {
            if job.is_simple() && !self.workers.any_attached() {
                self.start_short_lease(slot, now);
            } else {
                self.mark_reserved_cold(slot, client, now, fx);
            }
        }
        self.reservations.link(client, slot, &mut self.jobs);
    }

    #[inline(never)]
    fn mark_reserved_cold(&mut self, slot: JobIdx, client: ClientId, now: Now, fx: &mut Effects) {
        debug_assert!(self.jobs[slot].timer().is_none(), "a job has the deadline of its wait");
        debug_assert!(self.jobs[slot].worker().is_none(), "a job is reserved for two workers");
        debug_assert!(
            self.jobs[slot].progress().is_none(),
            "a job has the progress of another run"
        );
        if self.jobs[slot].has_short_lease() {
            self.jobs[slot].ext_mut_or_insert().counts_leases = true;
        }
        if let Some(worker) = self.workers.note_reserved(client, &self.reservations, now) {
            self.jobs[slot].set_worker(Some(worker));
            fx.mark_state_dirty(slot, &self.jobs[slot]);
        }
        if !self.jobs[slot].is_simple() {
            self.jobs[slot].count_lease();
            if self.jobs[slot].class().is_some() {
                self.constraints.start_run(&mut self.jobs[slot], now);
            }
            self.start_lease(slot, now);
            if self.jobs[slot].has_row() {
                self.queues.record_event(
                    slot,
                    EventKind::Reserved { by: Some(client) },
                    now,
                    &mut self.jobs,
                    fx,
                );
            }
        }
    }

    /// Starts the lease of a reserved job, if it has one.
    pub(super) fn start_lease(&mut self, slot: JobIdx, now: Now) {
        debug_assert_eq!(
            self.jobs[slot].status(),
            Status::Reserved,
            "only reservations have leases"
        );
        let job = &self.jobs[slot];
        let own = job.worker().and_then(|worker| self.workers.lease_ms(worker));
        let own = own.or_else(|| job.token_lease().map(|lease| lease.lease_ms));
        let lease_ms = own.unwrap_or_else(|| job.lease_ms());
        if lease_ms > 0 {
            self.jobs.arm(
                slot,
                now.mono.after(Duration::from_millis(lease_ms)),
                &mut self.deadlines,
            );
        }
    }

    /// Removes a ready job, and if it is a packet the others of its key group, up to
    /// [`PACKETS_PER_POP_MAX`]. If these are more than what is left for this pass, it begins to:
    /// see `large_pops`. The caller rematches the queue: done here it would be a recursion, one
    /// level for each waiter. O(k log n).
    pub(super) fn pop_out(&mut self, slot: JobIdx, ticket: Ticket, now: Now, fx: &mut Effects) {
        let first = fx.popped.len();
        debug_assert_eq!(self.jobs[slot].status(), Status::Ready, "a pop selects a ready job");
        debug_assert!(!self.jobs[slot].is_expired(now), "an expired job is not handed out");
        self.unlink_cold(slot);
        let group =
            if self.jobs[slot].is_packet() { self.key_groups.of(slot, &self.jobs) } else { None };
        if self.jobs[slot].class().is_some() {
            self.constraints.spend(&self.jobs[slot], now);
        }
        if let Some(group) = group
            && self.key_groups.has_more(group, self.spread.steps_left_for_pop(), &self.jobs)
        {
            return self.begin_large_pop(slot, group, ticket, now);
        }
        self.end_popped_job(slot);
        let selected = self.remove(slot, fx);
        self.totals.ready_ms.note(u64::from(selected.ready_for(now)), 1);
        fx.popped.push(selected.into_packet());
        let mut rest = group;
        while let Some(group) = rest
            && fx.popped.len() - first < PACKETS_PER_POP_MAX
        {
            let (member, alone) = self.key_groups.newest(group, &self.jobs);
            if alone {
                rest = None;
            }
            self.unlink_cold(member);
            let over = self.jobs[member].is_expired(now);
            if !over {
                self.end_popped_job(member);
            }
            let job = self.remove(member, fx);
            if !over {
                self.totals.ready_ms.note(u64::from(job.ready_for(now)), 1);
                fx.popped.push(job.into_packet());
            }
        }
        let count = fx.popped.len() - first;
        debug_assert!((1..=PACKETS_PER_POP_MAX).contains(&count), "a pop takes {count} packets");
        self.totals.counters[JobCounter::Popped as usize] += count as u64;
        let bytes: usize = fx.popped[first..].iter().map(Packet::byte_len).sum();
        self.spread.spend(count - 1);
        let work = (count - 1) * GROUP_PACKET_WORK + bytes / WRITTEN_BYTES_PER_WORK;
        // Less than what ends a turn, also with the waits that the command ends.
        self.waiters.note_work_below(work, EXTRA_WORK_PER_TURN / 2);
        if self.spread.steps_left() == 0 {
            // The turn ends.
            self.waiters.note_work(EXTRA_WORK_PER_TURN + 1);
        }
        if bytes > POP_COPIED_MAX_BYTES {
            let packets = fx.popped.split_off(first);
            return fx.reply(ticket, OwnedReply::Packets(packets));
        }
        // Proof: one call pops no more jobs than there are slots, which 32 bits number.
        let number = |count| u32::try_from(count).expect("packets are numbered by 32 bits");
        fx.answer(ticket, Outcome::Packets { first: number(first), count: number(count) });
    }

    /// Removes a waiter from all its wait queues. O(queues of the waiter).
    pub(super) fn end_wait(&mut self, waiter: WaiterIdx) -> (WaiterKind, Ticket) {
        if self.waiters[waiter].is_paused() {
            self.unpark_all(waiter);
        }
        let (queues, global) = (&mut self.queues, &mut self.global_ready.wait_queues);
        self.reservations.remove_waiter(waiter, &mut self.waiters);
        let waiter = self.waiters.end(waiter, |queue, node, kind, nodes| {
            let QueueScope::One(queue) = queue else {
                return nodes.unlink(node, kind, global);
            };
            nodes.unlink(node, kind, &mut queues[queue].waiters);
            queues.list_if_idle(queue);
        });
        if !waiter.timer.is_none() {
            debug_assert!(!waiter.is_paused(), "a pop with a timeout is not kept");
            self.deadlines.cancel(waiter.timer);
        }
        (waiter.kind, waiter.ticket)
    }
}

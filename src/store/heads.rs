//! The heads of queues: the ready jobs that come next.

use super::idx::QueueIdx;
use super::{Effects, JobIdx, Store};
use crate::base::heap::{HeapEntry, orders_before};
use crate::base::strings::Strings;
use crate::base::time::Now;
use crate::model::id::ClientId;
use crate::model::job::Status;

impl Store {
    /// The most urgent of the heads of several queues. O(q).
    #[inline(never)]
    pub(super) fn best_head(
        &mut self,
        client: ClientId,
        names: Strings<'_>,
        now: Now,
        fx: &mut Effects,
    ) -> Option<HeapEntry<JobIdx>> {
        let mut best: Option<HeapEntry<JobIdx>> = None;
        let mut before = None;
        for name in names {
            let Some(queue) = self.queues.find_behind(before, name) else { continue };
            before = Some(queue);
            let Some(entry) = self.head_for_client(queue, (client, false), now, fx) else {
                continue;
            };
            if best.is_none_or(|best| orders_before(&entry, &best, &self.jobs)) {
                best = Some(entry);
            }
        }
        best
    }

    /// The head of a queue's ready heap. A bounded number of jobs before it are removed if they are
    /// expired, and blocked if their limiters are full, in O(log n) each. `None` if there are more
    /// of them: then the queue is scheduled.
    #[inline(always)]
    pub(super) fn ready_head(
        &mut self,
        queue: QueueIdx,
        now: Now,
        fx: &mut Effects,
    ) -> Option<HeapEntry<JobIdx>> {
        let record = &self.queues[queue];
        debug_assert!(record.ready.len() <= record.jobs as usize, "ready jobs are jobs of a queue");
        if (record.ttl_jobs | record.class_count | record.holds.bits()) > 0 {
            return self.head_not_blocked(queue, now, fx);
        }
        record.ready.peek()
    }

    #[inline(never)]
    fn head_not_blocked(
        &mut self,
        queue: QueueIdx,
        now: Now,
        fx: &mut Effects,
    ) -> Option<HeapEntry<JobIdx>> {
        if self.is_on_hold(queue) {
            return None;
        }
        let (first, dropped) = self.expire_heads(queue, now, fx);
        if dropped {
            self.global_head_wins(queue, now, fx);
        }
        if first.is_none() && self.queues[queue].class_count > 0 {
            self.constraints.note_pending_unblocks();
        }
        first.and_then(|_| self.queues[queue].ready.peek())
    }

    /// The ready job of a queue that this client would reserve next; with `true` beside it, that a
    /// waiting pop would. As [`Store::ready_head`], but considers jobs that other workers have
    /// rejected.
    #[inline(always)]
    pub(super) fn head_for_client(
        &mut self,
        queue: QueueIdx,
        client: (ClientId, bool),
        now: Now,
        fx: &mut Effects,
    ) -> Option<HeapEntry<JobIdx>> {
        let first = self.ready_head(queue, now, fx);
        if self.queues[queue].excluded.is_none() {
            return first;
        }
        self.head_with_excluded(queue, client, now, fx)
    }

    /// Removes expired jobs from the head of a queue, and blocks those whose limiters are full, up
    /// to a budget of both. Returns the head after that, or `None` if there are more of them or
    /// none is left, and whether any was removed.
    #[inline(never)]
    pub(super) fn expire_heads(
        &mut self,
        queue: QueueIdx,
        now: Now,
        fx: &mut Effects,
    ) -> (Option<HeapEntry<JobIdx>>, bool) {
        let (mut dropped, mut budget) = (false, None);
        while let Some(entry) = self.queues[queue].ready.peek() {
            debug_assert!(
                self.jobs[entry.slot].queue == queue
                    && self.jobs[entry.slot].status() == Status::Ready,
                "a heap has ready jobs of its queue"
            );
            if self.jobs[entry.slot].is_expired(now) {
                self.unlink_cold(entry.slot);
                drop(self.remove(entry.slot, fx));
                self.constraints.count_expired();
                dropped = true;
            } else if !self.is_blocked(entry.slot, now) {
                return (Some(entry), dropped);
            }
            if !self.constraints.has_scan_budget(&mut budget) {
                self.constraints.defer_scan(queue);
                break;
            }
        }
        (None, dropped)
    }
}

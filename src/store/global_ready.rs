//! Reserves without queue names, and the matching of jobs that workers have rejected.
//!
//! [`GlobalReady`](super::ready_heaps::GlobalReady) keeps the heaps.
//!
//! Invariant: between two commands no waiter is eligible for the head of a heap.

use super::idx::{JobIdx, QueueIdx, QueueScope, WaiterIdx};
use super::job::Job;
use super::jobs::Jobs;
use super::spread_work::HoldMarks;
use super::waiters::{WaitQueues, WaiterKind};
use super::{Effects, Store};
use crate::base::heap::{HeapEntry, orders_before};
use crate::base::time::Now;
use crate::model::id::{ClientId, Ticket};
use crate::model::job::Status;

/// How many expired or blocked jobs one reserve without queue names passes over.
const SKIPPED_MAX: usize = 256;

impl Store {
    /// Reserves the most urgent tracked job of all queues. O(log n + exclusion sets), and O(log n)
    /// for each of a bounded number of blocked jobs on the way; further ones are scanned later,
    /// while the reserve waits.
    pub(super) fn reserve_any(&mut self, ticket: Ticket, now: Now, fx: &mut Effects) {
        if let Some(entry) = self.global_head(ticket.client, now, fx) {
            let queue = self.jobs[entry.slot].queue;
            debug_assert!(self.jobs[entry.slot].is_tracked(), "the global heap has tracked jobs");
            self.unlink_cold(entry.slot);
            self.count_reserved(entry.slot);
            self.mark_reserved(entry.slot, ticket, now, fx);
            return self.rematch_queue(queue, now, fx);
        }
        let waiter = self.waiters.add(ticket, WaiterKind::Reserve);
        self.reservations.add_waiter(ticket.client, waiter, &mut self.waiters);
        self.waiters.join(waiter, QueueScope::Any, &mut self.global_ready.wait_queues);
    }

    /// The tracked job that this client would reserve next. Expired jobs before it are removed, and
    /// a bounded number of jobs whose limiters are full are blocked.
    fn global_head(
        &mut self,
        client: ClientId,
        now: Now,
        fx: &mut Effects,
    ) -> Option<HeapEntry<JobIdx>> {
        let worker = self.workers.of_client(client, &self.reservations);
        let mut budget = None;
        if self.disconnects.holds_global() {
            return None;
        }
        for _ in 0..SKIPPED_MAX {
            let excluded =
                self.global_ready.excluded.iter().filter(|heap| heap.is_eligible(worker));
            let heads = excluded.filter_map(|heap| heap.ready.peek());
            let entry =
                first_entry(self.global_ready.ready.peek().into_iter().chain(heads), &self.jobs)?;
            debug_assert!(
                self.jobs[entry.slot].status() == Status::Ready
                    && self.jobs[entry.slot].is_tracked(),
                "the global heaps have ready tracked jobs"
            );
            if self.withhold_if_paused(entry.slot) {
                continue;
            }
            if self.jobs[entry.slot].is_expired(now) {
                self.expire_head(entry.slot, now, fx);
            } else if !self.is_blocked(entry.slot, now) {
                return Some(entry);
            } else if !self.constraints.has_scan_budget(&mut budget) {
                break;
            }
        }
        self.constraints.schedule_match(QueueScope::Any);
        None
    }

    /// Takes the head of a global heap out of it if its queue is paused. Returns whether it is.
    /// O(1), and O(log n) if it is.
    pub(super) fn withhold_if_paused(&mut self, slot: JobIdx) -> bool {
        let is_paused = self.queues[self.jobs[slot].queue].holds.has(HoldMarks::PAUSED);
        if is_paused {
            self.global_ready.withhold(slot, &mut self.jobs);
            self.constraints.count_withheld();
        }
        is_paused
    }

    /// Removes a ready job that has expired.
    pub(super) fn expire_head(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) {
        debug_assert!(self.jobs[slot].is_expired(now), "a head is removed when its time is over");
        let queue = self.jobs[slot].queue;
        self.unlink_cold(slot);
        drop(self.remove(slot, fx));
        self.rematch_queue(queue, now, fx);
    }

    /// The ready job of a queue with exclusion sets that this client would reserve next. With
    /// `poppable_only`, heaps whose first job a pop cannot carry are skipped. O(exclusion sets),
    /// and O(exclusion sets + log n) for each of a bounded number of expired and blocked jobs on
    /// the way; `None` if there are more.
    #[cold]
    pub(super) fn head_with_excluded(
        &mut self,
        queue: QueueIdx,
        (client, poppable_only): (ClientId, bool),
        now: Now,
        fx: &mut Effects,
    ) -> Option<HeapEntry<JobIdx>> {
        let worker = self.workers.of_client(client, &self.reservations);
        let mut budget = None;
        if self.is_on_hold(queue) {
            return None;
        }
        loop {
            let fits = |entry: &HeapEntry<JobIdx>| {
                !poppable_only || !self.jobs[entry.slot].is_too_large_to_pop()
            };
            let excluded = self.queues[queue].excluded.iter().flat_map(|excluded| excluded.iter());
            let heads = excluded.filter(|heap| heap.is_eligible(worker));
            let heads = heads.filter_map(|heap| heap.ready.peek());
            let all = self.queues[queue].ready.peek().into_iter().chain(heads);
            let entry = first_entry(all.filter(fits), &self.jobs)?;
            debug_assert_eq!(self.jobs[entry.slot].queue, queue, "a heap has jobs of its queue");
            if self.jobs[entry.slot].is_expired(now) {
                self.unlink_cold(entry.slot);
                drop(self.remove(entry.slot, fx));
                self.constraints.count_expired();
                self.global_head_wins(queue, now, fx);
            } else if !self.is_blocked(entry.slot, now) {
                return Some(entry);
            }
            if !self.constraints.has_scan_budget(&mut budget) {
                self.constraints.defer_scan(queue);
                return None;
            }
        }
    }

    /// Matches a job with rare fields that may have become ready. O(log n), and for a job with an
    /// exclusion set O(wait nodes of the excluded workers).
    pub(super) fn match_job(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) {
        if self.constraints.is_pending() {
            if self.jobs[slot].status() == Status::Ready {
                self.schedule_match_for_job(slot);
            }
            return;
        }
        let queue = self.jobs[slot].queue;
        if self.jobs[slot].excluded_workers().is_empty() {
            self.match_queue(queue, now, fx);
        } else {
            self.match_excluded_job(slot, now, fx);
            self.rematch_queue(queue, now, fx);
        }
        self.match_global(now, fx);
    }

    /// Matches one of several jobs that became ready together. It is for one waiter at most: one
    /// that waits for this job, or for the head of its queue. Otherwise as [`Store::match_job`].
    pub(super) fn match_job_global(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) {
        let queue = self.jobs[slot].queue;
        if self.is_on_hold(queue) {
            return;
        }
        if !self.jobs[slot].excluded_workers().is_empty() {
            self.match_excluded_job(slot, now, fx);
            return;
        }
        self.match_one(queue, now, fx);
        // Not the head of its queue, but of the global heap: the jobs before it in the queue were
        // there already, and so were not eligible.
        if let Some(job) = self.jobs.get(slot)
            && job.status() == Status::Ready
            && job.is_tracked()
            && !self.disconnects.holds_global()
            && let Some(waiter) = self.waiters.first(self.global_ready.wait_queues, true)
            && !self.is_blocked(slot, now)
        {
            self.reserve_for_waiter(slot, waiter, now, fx);
        }
    }

    /// Hands tracked jobs to the waiters for any of them, until there are no more of either or the
    /// budget for expired and blocked jobs is used up; then the rest is scheduled. These waiters
    /// exist only while no tracked job is ready, so each job was offered to its queue before.
    pub(super) fn match_global(&mut self, now: Now, fx: &mut Effects) {
        let mut budget = None;
        if self.disconnects.holds_global() {
            return;
        }
        while let Some(waiter) = self.waiters.first(self.global_ready.wait_queues, true)
            && let Some(entry) = self.global_ready.ready.peek()
        {
            let is_withheld = self.withhold_if_paused(entry.slot);
            let is_expired = !is_withheld && self.jobs[entry.slot].is_expired(now);
            if is_expired {
                self.expire_head(entry.slot, now, fx);
                self.constraints.count_expired();
            }
            if is_withheld || is_expired || self.is_blocked(entry.slot, now) {
                if !self.constraints.has_scan_budget(&mut budget) {
                    return self.constraints.schedule_match(QueueScope::Any);
                }
                continue;
            }
            debug_assert!(self.jobs[entry.slot].is_tracked(), "the global heap has tracked jobs");
            let queue = self.jobs[entry.slot].queue;
            let (_, ticket) = self.end_wait(waiter);
            self.unlink_cold(entry.slot);
            self.count_reserved(entry.slot);
            self.mark_reserved(entry.slot, ticket, now, fx);
            self.rematch_queue(queue, now, fx);
        }
    }

    /// Hands a job with an exclusion set that has just become ready to the first eligible waiter,
    /// if the job is the first of its heap: waiters eligible for later ones do not exist. Returns
    /// whether the job has left the heap, because it was reserved, removed or blocked.
    pub(super) fn match_excluded_job(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) -> bool {
        let is_ready = |job: &&Job| job.status() == Status::Ready;
        let Some(job) = self.jobs.get(slot).filter(is_ready) else { return false };
        if job.is_expired(now) {
            self.expire_head(slot, now, fx);
            return true;
        }
        if self.is_blocked(slot, now) {
            return true;
        }
        if self.is_on_hold(self.jobs[slot].queue) || self.disconnects.holds_global() {
            return false;
        }
        debug_assert!(
            !self.jobs[slot].excluded_workers().is_empty(),
            "a job that no worker has rejected is in the heap for all"
        );
        let record = &mut self.queues[self.jobs[slot].queue];
        self.waiters.settle_pops(&mut record.waiters, &mut record.parked_pops);
        let job = &self.jobs[slot];
        let (queue, excluded_workers) = (job.queue, job.excluded_workers());
        let excluded = self.queues[queue].excluded.as_ref();
        let first = excluded.and_then(|excluded| excluded.first(excluded_workers));
        let global_first = self.global_ready.excluded.first(excluded_workers);
        let wait_queues = match first {
            Some(entry) if entry.slot == slot => self.queues[queue].waiters,
            _ => WaitQueues::default(),
        };
        let global = match global_first {
            Some(entry) if entry.slot == slot => self.global_ready.wait_queues,
            _ => WaitQueues::default(),
        };
        let eligible =
            |ticket: Ticket| match self.workers.of_client(ticket.client, &self.reservations) {
                Some(worker) => excluded_workers.binary_search(&worker).is_err(),
                None => true,
            };
        let found =
            self.waiters.first_of(wait_queues, global, job.is_too_large_to_pop(), |waiter| {
                eligible(waiter.ticket)
            });
        let Some(waiter) = found else { return false };
        self.reserve_for_waiter(slot, waiter, now, fx);
        true
    }

    /// Hands ready jobs with exclusion sets to pops, which may wait because a pop cannot carry the
    /// job before.
    #[cold]
    pub(super) fn match_pops_excluded(&mut self, queue: QueueIdx, now: Now, fx: &mut Effects) {
        let mut budget = None;
        loop {
            let record = &mut self.queues[queue];
            self.waiters.settle_pops(&mut record.waiters, &mut record.parked_pops);
            let Some((slot, waiter)) = self.next_pop_excluded(queue, now) else { return };
            if !self.is_blocked(slot, now) {
                self.reserve_for_waiter(slot, waiter, now, fx);
            } else if !self.constraints.has_scan_budget(&mut budget) {
                return self.constraints.schedule_match(queue.into());
            }
        }
    }

    fn next_pop_excluded(&self, queue: QueueIdx, now: Now) -> Option<(JobIdx, WaiterIdx)> {
        let wait_queues = self.queues[queue].waiters.pops();
        let excluded = self.queues[queue].excluded.as_ref()?;
        excluded.iter().find_map(|heap| {
            let slot = heap.ready.peek()?.slot;
            let job = &self.jobs[slot];
            debug_assert!(
                job.queue == queue && *job.excluded_workers() == *heap.excluded_workers,
                "a heap of an exclusion set has the jobs with this set"
            );
            if job.is_too_large_to_pop() || job.is_expired(now) {
                return None;
            }
            let eligible =
                |client| heap.is_eligible(self.workers.of_client(client, &self.reservations));
            let is_eligible = |waiter: &super::waiters::Waiter| eligible(waiter.ticket.client);
            let waiter =
                self.waiters.first_of(wait_queues, WaitQueues::default(), false, is_eligible)?;
            Some((slot, waiter))
        })
    }

    /// Hands a ready job to a waiter. O(log n), or what a pop costs.
    pub(super) fn reserve_for_waiter(
        &mut self,
        slot: JobIdx,
        waiter: WaiterIdx,
        now: Now,
        fx: &mut Effects,
    ) {
        let ticket = self.waiters[waiter].ticket;
        debug_assert_eq!(self.jobs[slot].status(), Status::Ready, "a waiter gets a ready job");
        debug_assert!(!self.waiters[waiter].is_paused(), "a pop that was answered gets no job");
        debug_assert!(
            self.waiters[waiter].kind == WaiterKind::Reserve
                || !self.jobs[slot].is_too_large_to_pop(),
            "a waiting pop gets no job that it cannot carry"
        );
        match self.waiters[waiter].kind {
            WaiterKind::Reserve => {
                debug_assert!(
                    self.waiters.is_queued_in(waiter, self.jobs[slot].queue.into())
                        || self.jobs[slot].is_tracked()
                            && self.waiters.is_queued_in(waiter, QueueScope::Any),
                    "a waiter gets a job of a queue in whose line it is"
                );
                self.end_wait(waiter);
                self.unlink_cold(slot);
                self.count_reserved(slot);
                self.mark_reserved(slot, ticket, now, fx);
            }
            WaiterKind::Pop => {
                self.pause_or_end(waiter);
                self.pop_out(slot, ticket, now, fx);
            }
        }
    }

    /// Matches an open pop that was subscribed to a queue with exclusion sets.
    pub(super) fn match_new_waiter(
        &mut self,
        waiter: WaiterIdx,
        queue: QueueIdx,
        now: Now,
        fx: &mut Effects,
    ) {
        debug_assert!(!self.waiters[waiter].is_paused(), "a pop that was answered is not matched");
        let (client, poppable_only) =
            (self.waiters[waiter].ticket.client, self.waiters[waiter].kind == WaiterKind::Pop);
        if let Some(entry) = self.head_with_excluded(queue, (client, poppable_only), now, fx) {
            self.reserve_for_waiter(entry.slot, waiter, now, fx);
            self.rematch_queue(queue, now, fx);
        }
        self.note_blocked_pops(queue);
    }
}

/// The most urgent of these entries.
fn first_entry(
    entries: impl Iterator<Item = HeapEntry<JobIdx>>,
    jobs: &Jobs,
) -> Option<HeapEntry<JobIdx>> {
    entries.reduce(|best, entry| if orders_before(&entry, &best, jobs) { entry } else { best })
}

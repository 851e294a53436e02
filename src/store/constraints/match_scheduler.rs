//! Matching of waiters with jobs that limiters admit.
//!
//! The order is the one that holds without constraints: of all jobs that may run and have an
//! eligible waiter, the most urgent goes to the first such waiter, and so on until there is none.
//! So while work is pending no waiter is matched on the spot: the queue is scheduled with the order
//! key of its new job, and the queue with the smallest key is matched when all unblocking is done.
//! If the best job of that queue turns out to be less urgent than its key, the queue is scheduled
//! again with the true key.
//!
//! A limiter with capacity unblocks one waitlist after the other, the most urgent first, until it
//! has unblocked a job for which there may be a waiter. Then it is *paused*: the waitlists still
//! blocked there are less urgent, and may find no capacity once that job is gone. It is rechecked
//! when the job has left the ready heap, when no waiter of its queue could be matched, or when a
//! waiter that cannot have that job (it is too large for a pop) is about to get one that is less
//! urgent than the waitlists still blocked there.

use super::Constraints;
use super::job_class::OrderKey;
use crate::base::limits::CONSTRAINT_STEPS_PER_COMMAND;
use crate::base::slab_index::SlabIndex;
use crate::base::time::Now;
use crate::model::job::Status;
use crate::store::idx::{JobIdx, LimiterIdx, QueueIdx, QueueScope, WaiterIdx, WaitlistIdx};
use crate::store::waiters::{WaitQueues, Waiter};
use crate::store::{Effects, Store};
use std::collections::{BTreeMap, BTreeSet};

/// Queues to match, or the global ready heap ([`QueueScope::Any`]), each once. `None`, an unknown
/// key, comes before all others.
#[derive(Debug, Default)]
pub(super) struct ScheduledMatches {
    by_key: BTreeSet<(Option<OrderKey>, QueueScope)>,
    keys: BTreeMap<QueueScope, Option<OrderKey>>,
}

impl ScheduledMatches {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn contains(&self, queue: QueueScope) -> bool {
        self.keys.contains_key(&queue)
    }

    /// Schedules a queue with a lower bound of its jobs' keys; of two bounds the smaller stays.
    /// O(log q).
    fn add(&mut self, queue: QueueScope, key: Option<OrderKey>) {
        if let Some(known) = self.keys.get(&queue) {
            if *known <= key {
                return;
            }
            let was_there = self.by_key.remove(&(known.clone(), queue));
            debug_assert!(was_there, "a scheduled queue is in the order of keys");
        }
        self.keys.insert(queue, key.clone());
        self.by_key.insert((key, queue));
        debug_assert_eq!(self.keys.len(), self.by_key.len(), "a queue is scheduled once");
    }

    fn pop(&mut self) -> Option<(Option<OrderKey>, QueueScope)> {
        let (key, queue) = self.by_key.pop_first()?;
        let known = self.keys.remove(&queue);
        debug_assert!(known.as_ref() == Some(&key), "a queue is scheduled once, under its key");
        debug_assert_eq!(self.keys.len(), self.by_key.len(), "a key has a scheduled queue");
        Some((key, queue))
    }

    /// Whether another scheduled queue may have a job that leaves before this key.
    fn is_before(&self, key: &OrderKey) -> bool {
        self.by_key.first().is_some_and(|(first, _)| first.as_ref() < Some(key))
    }
}

/// The next match of a queue.
enum NextMatch {
    Nothing,
    /// The budget ended before a job was found that may run.
    Unknown,
    Job {
        slot: JobIdx,
        waiter: WaiterIdx,
    },
}

impl Constraints {
    /// A scan of a queue has exhausted its budget: the queue is scheduled, and a reserve that finds
    /// nothing else is answered then.
    pub(in crate::store) fn defer_scan(&mut self, queue: QueueIdx) {
        self.scan_incomplete = true;
        self.schedule_match(queue.into());
    }

    /// Schedules a queue, or with [`QueueScope::Any`] the global ready heap, for the end of this
    /// command or a later pass.
    pub(in crate::store) fn schedule_match(&mut self, queue: QueueScope) {
        self.queues_to_match.add(queue, None);
        self.pending = true;
    }

    /// Pending work of this call is run at its end.
    pub(in crate::store) fn wake(&mut self) {
        self.pending = true;
    }

    /// A queue on hold was asked for a job: a reserve that finds nothing else is answered when the
    /// hold ends.
    pub(in crate::store) fn note_hold(&mut self) {
        self.scan_incomplete = true;
        self.pending = true;
    }

    /// These queues, and the global ready heap if `global`, are no longer on hold: they are matched
    /// once all of them are scheduled. O(1) if no earlier ones are left, else O(queues).
    pub(in crate::store) fn schedule_released(
        &mut self,
        queues: &mut BTreeSet<QueueIdx>,
        global: bool,
    ) {
        self.released.append(queues);
        if global {
            self.queues_to_match.add(QueueScope::Any, None);
        }
        self.pending = true;
    }

    /// A limiter may have gained capacity: ends its pause and lists it, once.
    pub(super) fn mark_dirty(&mut self, limiter: LimiterIdx) {
        let record = &mut self.limiters[limiter];
        if let Some(queue) = record.paused_for.take() {
            let was_there = self.paused.remove(&(queue, limiter));
            debug_assert!(was_there, "a paused limiter is listed by its queue");
            if let Some(key) = record.paused_first_key.take() {
                let was_there = self.paused_by_key.remove(&(key, limiter));
                debug_assert!(was_there, "a paused limiter is listed by its first key");
            }
        }
        if !record.dirty {
            record.dirty = true;
            self.dirty.push_back(limiter);
            self.pending = true;
        }
    }

    /// The ready job of a waitlist has left the ready heap: if its limiter is paused, it is
    /// rechecked.
    pub(super) fn resume(&mut self, waitlist: WaitlistIdx) {
        let limiter = self.waitlists[waitlist].limiter;
        if self.limiters[limiter].paused_for.is_some() {
            self.mark_dirty(limiter);
        }
    }

    /// Pauses a limiter that has unblocked a job of this queue for which there may be a waiter.
    pub(super) fn pause(&mut self, limiter: LimiterIdx, queue: QueueIdx) {
        let record = &mut self.limiters[limiter];
        debug_assert!(record.paused_for.is_none() && !record.dirty, "paused twice, or while dirty");
        record.paused_for = Some(queue);
        let is_new = self.paused.insert((queue, limiter));
        debug_assert!(is_new, "a limiter is paused once");
        record.paused_first_key = record.blocked_waitlists.first().map(|(key, _)| key.clone());
        if let Some(key) = &record.paused_first_key {
            let is_new = self.paused_by_key.insert((key.clone(), limiter));
            debug_assert!(is_new, "a paused limiter is listed once by its first key");
        }
    }

    /// A waitlist is blocked at a limiter, with this key. If the limiter is paused and all others
    /// there come later, it is rechecked.
    pub(super) fn on_waitlist_blocked(&mut self, limiter: LimiterIdx, key: &OrderKey) {
        let record = &self.limiters[limiter];
        debug_assert!(!record.blocked_waitlists.is_empty(), "a waitlist is blocked at it");
        let is_first = record.paused_first_key.as_ref().is_none_or(|first| key < first);
        if record.paused_for.is_some() && is_first {
            self.mark_dirty(limiter);
        }
    }

    /// A job with this key is about to be reserved. If a paused limiter has a blocked waitlist with
    /// a smaller key, the job that it unblocked was passed over: it is rechecked. Returns whether
    /// there was one. O(log b).
    fn resume_before(&mut self, key: &OrderKey) -> bool {
        let Some((first, limiter)) = self.paused_by_key.first() else { return false };
        let found = first < key;
        if found {
            let limiter = *limiter;
            self.steps += 1;
            self.mark_dirty(limiter);
        }
        found
    }

    /// Capacity has shrunk: the jobs in front of pops may not run any more, and the pops may be
    /// eligible for the jobs behind them.
    pub(super) fn recheck_blocked_pops(&mut self) {
        if self.queues_to_recheck.is_empty() {
            std::mem::swap(&mut self.queues_with_blocked_pops, &mut self.queues_to_recheck);
        } else {
            self.queues_to_recheck.append(&mut self.queues_with_blocked_pops);
        }
        self.pending |= !self.queues_to_recheck.is_empty();
    }

    /// Schedules the next of these queues. Returns whether there was one.
    pub(super) fn schedule_one_pop_recheck(&mut self) -> bool {
        let Some(queue) = self.queues_to_recheck.pop_first() else { return false };
        self.steps += 1;
        self.queues_to_match.add(queue.into(), None);
        true
    }

    /// No waiter of this queue could be matched: rechecks a bounded number of limiters that are
    /// paused for it. Returns whether these were all.
    fn resume_for_queue(&mut self, queue: QueueIdx) -> bool {
        for _ in 0..CONSTRAINT_STEPS_PER_COMMAND {
            let from = (queue, LimiterIdx::from_slot(0));
            let next = self.paused.range(from..).next().filter(|next| next.0 == queue);
            let Some(&(_, limiter)) = next else { return true };
            self.steps += 1;
            self.mark_dirty(limiter);
        }
        false
    }
}

impl Store {
    /// Schedules the queue of a ready job, and the global ready heap if the job is in it, if there
    /// are waiters; they are matched at the end of this command or in a later pass. Returns whether
    /// there are waiters.
    pub(in crate::store) fn schedule_match_for_job(&mut self, slot: JobIdx) -> bool {
        let job = &self.jobs[slot];
        debug_assert_eq!(job.status(), Status::Ready, "a match is scheduled for a ready job");
        let (queue, anywhere) =
            (job.queue, job.is_tracked() && !self.global_ready.wait_queues.is_empty());
        let has_waiter = anywhere || !self.queues[queue].waiters.is_empty();
        if has_waiter {
            let key = OrderKey::of(slot, &self.jobs);
            if anywhere {
                self.constraints.queues_to_match.add(QueueScope::Any, Some(key.clone()));
            }
            self.constraints.queues_to_match.add(queue.into(), Some(key));
            self.constraints.pending = true;
        }
        has_waiter
    }

    /// Records a queue where pops wait behind a job that may run and is too large for them; when it
    /// may not run any more, they need not wait for it. O(exclusion sets).
    pub(in crate::store) fn note_blocked_pops(&mut self, queue: QueueIdx) {
        let Some(record) = self.queues.get(queue) else { return };
        if record.class_count == 0 || record.waiters.pops().is_empty() {
            return;
        }
        let blocks_pops = |&slot: &JobIdx| {
            let job = &self.jobs[slot];
            job.is_too_large_to_pop() && !job.is_simple() && job.class().is_some()
        };
        let heads = self.global_ready.awaited_heads(queue.into(), &self.queues, &self.jobs);
        if heads.iter().any(blocks_pops) {
            self.constraints.queues_with_blocked_pops.insert(queue);
        }
    }

    /// Schedules the next queue that is no longer on hold. Returns whether there was one. O(log q).
    pub(super) fn schedule_one_released(&mut self) -> bool {
        let Some(queue) = self.constraints.released.pop_first() else { return false };
        self.constraints.steps += 1;
        if self.queues.get(queue).is_some_and(|queue| !queue.waiters.is_empty()) {
            self.constraints.queues_to_match.add(queue.into(), None);
        }
        true
    }

    /// Matches the first scheduled queue once, or schedules it with a better bound. Returns whether
    /// there was one. O(exclusion sets + log n), the cost of a reservation, and the steps of
    /// blocking.
    pub(super) fn run_next_match(&mut self, now: Now, fx: &mut Effects) -> bool {
        let Some((key, queue)) = self.constraints.queues_to_match.pop() else { return false };
        self.constraints.steps += 1;
        match self.next_match(queue, now, fx) {
            NextMatch::Nothing => {
                if let QueueScope::One(queue) = queue {
                    self.note_blocked_pops(queue);
                    if !self.constraints.resume_for_queue(queue) {
                        self.constraints.queues_to_match.add(queue.into(), key);
                    }
                }
            }
            NextMatch::Unknown => self.constraints.queues_to_match.add(queue, key),
            NextMatch::Job { slot, waiter } => {
                let own = OrderKey::of(slot, &self.jobs);
                let is_early = self.constraints.queues_to_match.is_before(&own);
                if is_early || self.constraints.resume_before(&own) {
                    self.constraints.queues_to_match.add(queue, Some(own));
                    return true;
                }
                let job_queue = self.jobs[slot].queue.into();
                self.reserve_for_waiter(slot, waiter, now, fx);
                // Jobs behind this one may be for other waiters.
                if job_queue != queue {
                    self.constraints.queues_to_match.add(job_queue, Some(own.clone()));
                }
                self.constraints.queues_to_match.add(queue, Some(own));
            }
        }
        true
    }

    /// The most urgent job of a queue with an eligible waiter, and that waiter. Expired heads are
    /// removed, and heads that may not run are blocked, within a budget.
    fn next_match(&mut self, queue: QueueScope, now: Now, fx: &mut Effects) -> NextMatch {
        let on_hold = match queue {
            QueueScope::One(queue) => self.queues.get(queue).is_some() && self.is_on_hold(queue),
            QueueScope::Any => self.disconnects.holds_global(),
        };
        if on_hold {
            return NextMatch::Nothing;
        }
        let mut budget = None;
        'heads: loop {
            let heads = self.global_ready.awaited_heads(queue, &self.queues, &self.jobs);
            for &slot in &heads {
                let is_withheld = queue == QueueScope::Any && self.withhold_if_paused(slot);
                let is_expired = !is_withheld && self.jobs[slot].is_expired(now);
                if is_expired {
                    self.expire_head(slot, now, fx);
                    self.constraints.count_expired();
                }
                if is_withheld || is_expired || self.is_blocked(slot, now) {
                    if !self.constraints.has_scan_budget(&mut budget) {
                        return NextMatch::Unknown;
                    }
                    continue 'heads;
                }
            }
            let with_waiter = |&slot: &JobIdx| Some((slot, self.first_waiter_for(slot, queue)?));
            return match heads.iter().find_map(with_waiter) {
                Some((slot, waiter)) => NextMatch::Job { slot, waiter },
                None => NextMatch::Nothing,
            };
        }
    }

    /// The first waiter eligible for this head of a queue or of the global ready heap. O(waiters
    /// passed over).
    fn first_waiter_for(&mut self, slot: JobIdx, queue: QueueScope) -> Option<WaiterIdx> {
        let record = &mut self.queues[self.jobs[slot].queue];
        if self.jobs[slot].excluded_workers().is_empty() {
            self.waiters.settle_first_pop(&mut record.waiters, &mut record.parked_pops);
        } else {
            self.waiters.settle_pops(&mut record.waiters, &mut record.parked_pops);
        }
        let job = &self.jobs[slot];
        let record = &self.queues[job.queue];
        let own = if queue == QueueScope::Any && !record.is_head(slot, job) {
            WaitQueues::default()
        } else {
            record.waiters
        };
        let anywhere =
            if job.is_tracked() { self.global_ready.wait_queues } else { WaitQueues::default() };
        let excluded = job.excluded_workers();
        let is_eligible = |waiter: &Waiter| {
            let worker = self.workers.of_client(waiter.ticket.client, &self.reservations);
            worker.is_none_or(|worker| excluded.binary_search(&worker).is_err())
        };
        self.waiters.first_of(own, anywhere, job.is_too_large_to_pop(), is_eligible)
    }
}

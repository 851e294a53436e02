//! Who is served because of room, or beside it.
//!
//! The rule is the one that holds without constraints: of all jobs that may run and that somebody
//! waits for the most urgent goes first, to the first in line who can have it, and so on until
//! there is none. So while anything is pending nobody is served on the spot. The queue is put on a
//! list with the key of the job that has come, and the first of that list is looked at when
//! whatever has room has woken somebody. What a queue really has to offer may be less urgent than
//! its key says: then the queue goes back to the list by its true key.
//!
//! A bucket with room wakes one group after the other, the most urgent first, until it has woken
//! one whose job somebody may be waiting for. Then it *rests*: the groups that still sleep there
//! are less urgent, and may find no room once that job is gone. It is looked at again when the job
//! is no longer shown, when nobody could be served in its queue, or when somebody who cannot have
//! that job (it is too large for a pop) is about to get one that is less urgent than those that
//! still sleep.

use super::Constraints;
use super::job_class::OrderKey;
use crate::base::limits::CONSTRAINT_STEPS_PER_COMMAND;
use crate::base::time::Now;
use crate::store::excluded::ExcludedHeaps;
use crate::store::jobs::NONE;
use crate::store::waiters::{ANY_QUEUE, WaitQueues, Waiter};
use crate::store::{Effects, Store};
use std::collections::{BTreeMap, BTreeSet};

/// Queues where somebody may be served, or all followed jobs ([`ANY_QUEUE`]), each once. A key that
/// is not known comes before all others.
#[derive(Debug, Default)]
pub(super) struct ScheduledMatches {
    by_key: BTreeSet<(Option<OrderKey>, u32)>,
    keys: BTreeMap<u32, Option<OrderKey>>,
}

impl ScheduledMatches {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn contains(&self, queue: u32) -> bool {
        self.keys.contains_key(&queue)
    }

    /// No job that somebody may get in this queue is more urgent than this key, and than those that
    /// were said before. O(log q).
    fn add(&mut self, queue: u32, key: Option<OrderKey>) {
        if let Some(known) = self.keys.get(&queue) {
            if *known <= key {
                return;
            }
            self.by_key.remove(&(known.clone(), queue));
        }
        self.keys.insert(queue, key.clone());
        self.by_key.insert((key, queue));
    }

    fn pop(&mut self) -> Option<(Option<OrderKey>, u32)> {
        let (key, queue) = self.by_key.pop_first()?;
        self.keys.remove(&queue);
        Some((key, queue))
    }

    /// Whether some other queue may have a job that leaves before this key.
    fn is_before(&self, key: &OrderKey) -> bool {
        self.by_key.first().is_some_and(|(first, _)| first.as_ref() < Some(key))
    }
}

/// What a queue has for somebody who waits.
enum NextMatch {
    Nothing,
    /// Not known yet: too much had to be put away.
    Unknown,
    Job {
        slot: u32,
        waiter: u32,
    },
}

impl Constraints {
    /// Something has changed at a bucket.
    pub(super) fn mark_dirty(&mut self, bucket: u32) {
        let record = &mut self.limiters[bucket];
        if let Some(queue) = record.paused_for.take() {
            self.paused.remove(&(queue, bucket));
            if let Some(key) = record.paused_before.take() {
                self.paused_by_key.remove(&(key, bucket));
            }
        }
        if !record.dirty {
            record.dirty = true;
            self.dirty.push_back(bucket);
            self.pending = true;
        }
    }

    /// The job that a group has shown is not shown any more: if its bucket rested for it, there may
    /// be room for others.
    pub(super) fn resume(&mut self, group: u32) {
        let bucket = self.waitlists[group].bucket;
        if self.limiters[bucket].paused_for.is_some() {
            self.mark_dirty(bucket);
        }
    }

    /// A bucket has woken a job for which somebody may be waiting in this queue.
    pub(super) fn pause(&mut self, bucket: u32, queue: u32) {
        let record = &mut self.limiters[bucket];
        record.paused_for = Some(queue);
        self.paused.insert((queue, bucket));
        record.paused_before = record.asleep.first().map(|(key, _)| key.clone());
        if let Some(key) = &record.paused_before {
            self.paused_by_key.insert((key.clone(), bucket));
        }
    }

    /// A group sleeps at a bucket by this key from now on: if the bucket rests, and all others that
    /// sleep there come later, it is looked at again.
    pub(super) fn on_group_blocked(&mut self, bucket: u32, key: &OrderKey) {
        let record = &self.limiters[bucket];
        let is_first = record.paused_before.as_ref().is_none_or(|first| key < first);
        if record.paused_for.is_some() && is_first {
            self.mark_dirty(bucket);
        }
    }

    /// A job with this key is about to be given to somebody. If a bucket rests where a group with a
    /// smaller one sleeps, the job that it woke was passed over: it is looked at again. Tells
    /// whether there was one. O(log b).
    fn resume_before(&mut self, key: &OrderKey) -> bool {
        let Some((first, bucket)) = self.paused_by_key.first() else { return false };
        let found = first < key;
        if found {
            let bucket = *bucket;
            self.steps += 1;
            self.mark_dirty(bucket);
        }
        found
    }

    /// There is less room than before: what stands in the way of pops may not run any more, and
    /// what is behind it may be free to run.
    pub(super) fn unblock(&mut self) {
        if self.unblocked.is_empty() {
            std::mem::swap(&mut self.blocked, &mut self.unblocked);
        } else {
            self.unblocked.append(&mut self.blocked);
        }
        self.pending |= !self.unblocked.is_empty();
    }

    /// The next of these queues is served. Tells whether there is one.
    pub(super) fn schedule_one_unblocked(&mut self) -> bool {
        let Some(queue) = self.unblocked.pop_first() else { return false };
        self.steps += 1;
        self.queues_to_match.add(queue, None);
        true
    }

    /// Nobody is served in this queue: a bounded number of the buckets that rest for it are looked
    /// at again. Tells whether these were all.
    fn resume_for_queue(&mut self, queue: u32) -> bool {
        for _ in 0..CONSTRAINT_STEPS_PER_COMMAND {
            let next = self.paused.range((queue, 0)..).next().filter(|next| next.0 == queue);
            let Some(&(_, bucket)) = next else { return true };
            self.steps += 1;
            self.mark_dirty(bucket);
        }
        false
    }
}

impl Store {
    /// If somebody waits for the queue of a job, or for whatever is followed as it is, he is served
    /// at the end of this command, or in the next pass. Tells whether.
    pub(in crate::store) fn schedule_match_for_job(&mut self, slot: u32) -> bool {
        let job = &self.jobs[slot];
        let (queue, anywhere) =
            (job.queue, job.is_tracked() && !self.global_ready.wait_queues.is_empty());
        let awaited = anywhere || !self.queues[queue].waiters.is_empty();
        if awaited {
            let key = OrderKey::of(slot, &self.jobs);
            if anywhere {
                self.constraints.queues_to_match.add(ANY_QUEUE, Some(key.clone()));
            }
            self.constraints.queues_to_match.add(queue, Some(key));
            self.constraints.pending = true;
        }
        awaited
    }

    /// Whoever looks through a queue stops, with more to look at: its line is served later, and a
    /// take that finds nothing else is answered then.
    pub(in crate::store) fn defer_scan(&mut self, queue: u32) {
        self.constraints.scan_incomplete = true;
        self.schedule_match(queue);
    }

    /// Serves a queue at the end of this command, or in the next pass; with [`ANY_QUEUE`] those who
    /// wait for whatever is followed.
    pub(in crate::store) fn schedule_match(&mut self, queue: u32) {
        self.constraints.queues_to_match.add(queue, None);
        self.constraints.pending = true;
    }

    /// Remembers a queue where pops wait behind a job that may run and is too large for them: when
    /// it may not run any more they need not wait for it. O(shelves).
    pub(in crate::store) fn note_blocked(&mut self, queue: u32) {
        let Some(record) = self.queues.get(queue) else { return };
        if record.strands == 0 || record.waiters.pops().is_empty() {
            return;
        }
        let stands_before = |&slot: &u32| {
            let job = &self.jobs[slot];
            job.is_too_large_to_pop() && !job.is_simple() && job.strand() != NONE
        };
        if self.awaited_heads(queue).iter().any(stands_before) {
            self.constraints.blocked.insert(queue);
        }
    }

    /// Gives the most urgent job that somebody waits for to the first who can have it, or finds out
    /// a little about where it is. Tells whether there was anything to be found out. O(shelves +
    /// log n), what it costs to hand a job out, and what has to be put away.
    pub(super) fn run_next_match(&mut self, now: Now, fx: &mut Effects) -> bool {
        let Some((key, queue)) = self.constraints.queues_to_match.pop() else { return false };
        self.constraints.steps += 1;
        match self.next_match(queue, now, fx) {
            NextMatch::Nothing => {
                self.note_blocked(queue);
                if !self.constraints.resume_for_queue(queue) {
                    self.constraints.queues_to_match.add(queue, key);
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
                let home = self.jobs[slot].queue;
                self.reserve_for_waiter(slot, waiter, now, fx);
                // There may be more for others behind it.
                if home != queue {
                    self.constraints.queues_to_match.add(home, Some(own.clone()));
                }
                self.constraints.queues_to_match.add(queue, Some(own));
            }
        }
        true
    }

    /// The job of a queue that is to be given to somebody next, and to whom. Those before it that
    /// are over go on the way, and those that may not run are put away, a bounded number.
    fn next_match(&mut self, queue: u32, now: Now, fx: &mut Effects) -> NextMatch {
        let mut stint = None;
        'tops: loop {
            let tops = self.awaited_heads(queue);
            for &slot in &tops {
                if self.jobs[slot].is_expired(now) {
                    self.expire_head(slot, now, fx);
                    continue 'tops;
                }
                if self.is_blocked(slot, now) {
                    if !self.has_scan_budget(&mut stint) {
                        return NextMatch::Unknown;
                    }
                    continue 'tops;
                }
            }
            let with_waiter = |&slot: &u32| Some((slot, self.first_waiter_for(slot, queue)?));
            return match tops.iter().find_map(with_waiter) {
                Some((slot, waiter)) => NextMatch::Job { slot, waiter },
                None => NextMatch::Nothing,
            };
        }
    }

    /// The first jobs of a queue's heap and of its shelves, the most urgent first; none if nobody
    /// waits who could have one. O(s log s) for s shelves.
    fn awaited_heads(&self, queue: u32) -> Vec<u32> {
        let (heap, shelves, lines) = if queue == ANY_QUEUE {
            (&self.global_ready.ready, Some(&self.global_ready.excluded), WaitQueues::default())
        } else {
            let Some(record) = self.queues.get(queue) else { return Vec::new() };
            (&record.ready, record.excluded.as_deref(), record.waiters)
        };
        if lines.is_empty() && self.global_ready.wait_queues.is_empty() {
            return Vec::new();
        }
        let shelves = shelves.into_iter().flat_map(ExcludedHeaps::iter);
        let tops = heap.peek().into_iter().chain(shelves.filter_map(|shelf| shelf.ready.peek()));
        let mut tops: Vec<u32> = tops.map(|entry| entry.slot).collect();
        tops.sort_unstable_by(|&one, &other| self.jobs.order(one, other));
        tops
    }

    /// Who gets this job, one of the first of a queue or of all followed ones. O(places passed
    /// over).
    fn first_waiter_for(&self, slot: u32, queue: u32) -> Option<u32> {
        let job = &self.jobs[slot];
        let own = if queue == ANY_QUEUE && !self.is_top(slot) {
            WaitQueues::default()
        } else {
            self.queues[job.queue].waiters
        };
        let anywhere =
            if job.is_tracked() { self.global_ready.wait_queues } else { WaitQueues::default() };
        let refused_by = job.excluded_workers();
        let is_meant = |waiter: &Waiter| {
            let worker = self.worker_of(waiter.ticket.client);
            worker.is_none_or(|worker| refused_by.binary_search(&worker).is_err())
        };
        self.waiters.first_of(own, anywhere, job.is_too_large_to_pop(), is_meant)
    }

    /// Whether a ready job is the first in the heap of its queue, or on the shelf. O(shelves).
    fn is_top(&self, slot: u32) -> bool {
        let job = &self.jobs[slot];
        let record = &self.queues[job.queue];
        let first = match job.excluded_workers() {
            [] => record.ready.peek(),
            refused_by => record.excluded.as_ref().and_then(|shelves| shelves.first(refused_by)),
        };
        first.is_some_and(|first| first.slot == slot)
    }
}

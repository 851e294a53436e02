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
use super::strand::Key;
use crate::base::limits::CONSTRAINT_STEPS_EACH;
use crate::base::time::Now;
use crate::store::jobs::NONE;
use crate::store::shelves::Shelves;
use crate::store::waiters::{ANYWHERE, Lines, Waiter};
use crate::store::{Effects, Store};
use std::collections::{BTreeMap, BTreeSet};

/// Queues where somebody may be served, or all followed jobs ([`ANYWHERE`]), each once. A key that
/// is not known comes before all others.
#[derive(Debug, Default)]
pub(super) struct Unserved {
    by_key: BTreeSet<(Option<Key>, u32)>,
    keys: BTreeMap<u32, Option<Key>>,
}

impl Unserved {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn contains(&self, queue: u32) -> bool {
        self.keys.contains_key(&queue)
    }

    /// No job that somebody may get in this queue is more urgent than this key, and than those that
    /// were said before. O(log q).
    fn add(&mut self, queue: u32, key: Option<Key>) {
        if let Some(known) = self.keys.get(&queue) {
            if *known <= key {
                return;
            }
            self.by_key.remove(&(known.clone(), queue));
        }
        self.keys.insert(queue, key.clone());
        self.by_key.insert((key, queue));
    }

    fn pop(&mut self) -> Option<(Option<Key>, u32)> {
        let (key, queue) = self.by_key.pop_first()?;
        self.keys.remove(&queue);
        Some((key, queue))
    }

    /// Whether some other queue may have a job that leaves before this key.
    fn is_before(&self, key: &Key) -> bool {
        self.by_key.first().is_some_and(|(first, _)| first.as_ref() < Some(key))
    }
}

/// What a queue has for somebody who waits.
enum Next {
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
    pub(super) fn mark(&mut self, bucket: u32) {
        let record = &mut self.buckets[bucket];
        if let Some(queue) = record.rests_for.take() {
            self.resting.remove(&(queue, bucket));
            if let Some(key) = record.rests_before.take() {
                self.resting_by_key.remove(&(key, bucket));
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
    pub(super) fn rouse(&mut self, group: u32) {
        let bucket = self.groups[group].bucket;
        if self.buckets[bucket].rests_for.is_some() {
            self.mark(bucket);
        }
    }

    /// A bucket has woken a job for which somebody may be waiting in this queue.
    pub(super) fn rest(&mut self, bucket: u32, queue: u32) {
        let record = &mut self.buckets[bucket];
        record.rests_for = Some(queue);
        self.resting.insert((queue, bucket));
        record.rests_before = record.asleep.first().map(|(key, _)| key.clone());
        if let Some(key) = &record.rests_before {
            self.resting_by_key.insert((key.clone(), bucket));
        }
    }

    /// A group sleeps at a bucket by this key from now on: if the bucket rests, and all others that
    /// sleep there come later, it is looked at again.
    pub(super) fn sleeps(&mut self, bucket: u32, key: &Key) {
        let record = &self.buckets[bucket];
        let is_first = record.rests_before.as_ref().is_none_or(|first| key < first);
        if record.rests_for.is_some() && is_first {
            self.mark(bucket);
        }
    }

    /// A job with this key is about to be given to somebody. If a bucket rests where a group with a
    /// smaller one sleeps, the job that it woke was passed over: it is looked at again. Tells
    /// whether there was one. O(log b).
    fn rouse_before(&mut self, key: &Key) -> bool {
        let Some((first, bucket)) = self.resting_by_key.first() else { return false };
        let found = first < key;
        if found {
            let bucket = *bucket;
            self.steps += 1;
            self.mark(bucket);
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
    pub(super) fn unblock_one(&mut self) -> bool {
        let Some(queue) = self.unblocked.pop_first() else { return false };
        self.steps += 1;
        self.unserved.add(queue, None);
        true
    }

    /// Nobody is served in this queue: a bounded number of the buckets that rest for it are looked
    /// at again. Tells whether these were all.
    fn rouse_for(&mut self, queue: u32) -> bool {
        for _ in 0..CONSTRAINT_STEPS_EACH {
            let next = self.resting.range((queue, 0)..).next().filter(|next| next.0 == queue);
            let Some(&(_, bucket)) = next else { return true };
            self.steps += 1;
            self.mark(bucket);
        }
        false
    }
}

impl Store {
    /// If somebody waits for the queue of a job, or for whatever is followed as it is, he is served
    /// at the end of this command, or in the next pass. Tells whether.
    pub(in crate::store) fn serve_later_for(&mut self, slot: u32) -> bool {
        let job = &self.jobs[slot];
        let (queue, anywhere) = (job.queue, job.is_followed() && !self.anywhere.lines.is_empty());
        let awaited = anywhere || !self.queues[queue].waiters.is_empty();
        if awaited {
            let key = Key::of(slot, &self.jobs);
            if anywhere {
                self.constraints.unserved.add(ANYWHERE, Some(key.clone()));
            }
            self.constraints.unserved.add(queue, Some(key));
            self.constraints.pending = true;
        }
        awaited
    }

    /// Whoever looks through a queue stops, with more to look at: its line is served later, and a
    /// take that finds nothing else is answered then.
    pub(in crate::store) fn leave_unseen(&mut self, queue: u32) {
        self.constraints.unseen = true;
        self.serve_later(queue);
    }

    /// Serves a queue at the end of this command, or in the next pass; with [`ANYWHERE`] those who
    /// wait for whatever is followed.
    pub(in crate::store) fn serve_later(&mut self, queue: u32) {
        self.constraints.unserved.add(queue, None);
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
            job.is_wide() && !job.is_plain() && job.strand() != NONE
        };
        if self.awaited_tops(queue).iter().any(stands_before) {
            self.constraints.blocked.insert(queue);
        }
    }

    /// Gives the most urgent job that somebody waits for to the first who can have it, or finds out
    /// a little about where it is. Tells whether there was anything to be found out. O(shelves +
    /// log n), what it costs to hand a job out, and what has to be put away.
    pub(super) fn serve_next(&mut self, now: Now, fx: &mut Effects) -> bool {
        let Some((key, queue)) = self.constraints.unserved.pop() else { return false };
        self.constraints.steps += 1;
        match self.next_service(queue, now, fx) {
            Next::Nothing => {
                self.note_blocked(queue);
                if !self.constraints.rouse_for(queue) {
                    self.constraints.unserved.add(queue, key);
                }
            }
            Next::Unknown => self.constraints.unserved.add(queue, key),
            Next::Job { slot, waiter } => {
                let own = Key::of(slot, &self.jobs);
                let is_early = self.constraints.unserved.is_before(&own);
                if is_early || self.constraints.rouse_before(&own) {
                    self.constraints.unserved.add(queue, Some(own));
                    return true;
                }
                let home = self.jobs[slot].queue;
                self.give(slot, waiter, now, fx);
                // There may be more for others behind it.
                if home != queue {
                    self.constraints.unserved.add(home, Some(own.clone()));
                }
                self.constraints.unserved.add(queue, Some(own));
            }
        }
        true
    }

    /// The job of a queue that is to be given to somebody next, and to whom. Those before it that
    /// are over go on the way, and those that may not run are put away, a bounded number.
    fn next_service(&mut self, queue: u32, now: Now, fx: &mut Effects) -> Next {
        let mut stint = None;
        'tops: loop {
            let tops = self.awaited_tops(queue);
            for &slot in &tops {
                if self.jobs[slot].is_over(now) {
                    self.drop_one(slot, now, fx);
                    continue 'tops;
                }
                if self.holds_back(slot, now) {
                    if !self.looks_on(&mut stint) {
                        return Next::Unknown;
                    }
                    continue 'tops;
                }
            }
            let with_waiter = |&slot: &u32| Some((slot, self.first_waiter_for(slot, queue)?));
            return match tops.iter().find_map(with_waiter) {
                Some((slot, waiter)) => Next::Job { slot, waiter },
                None => Next::Nothing,
            };
        }
    }

    /// The first jobs of a queue's heap and of its shelves, the most urgent first; none if nobody
    /// waits who could have one. O(s log s) for s shelves.
    fn awaited_tops(&self, queue: u32) -> Vec<u32> {
        let (heap, shelves, lines) = if queue == ANYWHERE {
            (&self.anywhere.ready, Some(&self.anywhere.shelves), Lines::default())
        } else {
            let Some(record) = self.queues.get(queue) else { return Vec::new() };
            (&record.ready, record.shelves.as_deref(), record.waiters)
        };
        if lines.is_empty() && self.anywhere.lines.is_empty() {
            return Vec::new();
        }
        let shelves = shelves.into_iter().flat_map(Shelves::iter);
        let tops = heap.peek().into_iter().chain(shelves.filter_map(|shelf| shelf.ready.peek()));
        let mut tops: Vec<u32> = tops.map(|entry| entry.slot).collect();
        tops.sort_unstable_by(|&one, &other| self.jobs.order(one, other));
        tops
    }

    /// Who gets this job, one of the first of a queue or of all followed ones. O(places passed
    /// over).
    fn first_waiter_for(&self, slot: u32, queue: u32) -> Option<u32> {
        let job = &self.jobs[slot];
        let own = if queue == ANYWHERE && !self.is_top(slot) {
            Lines::default()
        } else {
            self.queues[job.queue].waiters
        };
        let anywhere = if job.is_followed() { self.anywhere.lines } else { Lines::default() };
        let refused_by = job.refused_by();
        let is_meant = |waiter: &Waiter| {
            let worker = self.worker_of(waiter.ticket.client);
            worker.is_none_or(|worker| refused_by.binary_search(&worker).is_err())
        };
        self.waiters.first_of(own, anywhere, job.is_wide(), is_meant)
    }

    /// Whether a ready job is the first in the heap of its queue, or on the shelf. O(shelves).
    fn is_top(&self, slot: u32) -> bool {
        let job = &self.jobs[slot];
        let record = &self.queues[job.queue];
        let first = match job.refused_by() {
            [] => record.ready.peek(),
            refused_by => record.shelves.as_ref().and_then(|shelves| shelves.first(refused_by)),
        };
        first.is_some_and(|first| first.slot == slot)
    }
}

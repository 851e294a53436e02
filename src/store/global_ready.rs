//! Ready jobs whose way goes by more than the heap of their queue: followed jobs, which may be
//! taken whatever their queue, and jobs that some workers have refused.
//!
//! A followed job that is ready stands in the heap of its queue and in the one of all followed
//! jobs; one that was refused is on a shelf of both instead.
//!
//! Invariant: between two commands nobody waits for a followed job beside one that he could have.

use super::excluded::ExcludedHeaps;
use super::jobs::{Job, Jobs};
use super::waiters::{ANY_QUEUE, Kind, WaitQueues};
use super::{Effects, Store};
use crate::base::heap::{Entry, Heap, PositionMap, orders_before};
use crate::base::time::Now;
use crate::model::id::{ClientId, Ticket};
use crate::model::job::Status;
use crate::model::worker::WorkerId;
use std::cmp::Ordering;

/// How many jobs that are over or may not run now one take of a followed job passes by at most.
const SKIPPED_MAX: usize = 256;

/// All followed jobs that are ready, and who waits for one.
#[derive(Debug, Default)]
pub(super) struct GlobalReady {
    pub(super) ready: Heap,
    pub(super) shelves: ExcludedHeaps,
    pub(super) lines: WaitQueues,
}

/// Jobs as they stand in the heap of all followed ones.
pub(super) struct GlobalPositions<'a>(pub(super) &'a mut Jobs);

impl PositionMap for GlobalPositions<'_> {
    fn moved(&mut self, slot: u32, position: u32) {
        self.0[slot].work_mut().anywhere = position;
    }

    fn compare_exactly(&self, a: u32, b: u32) -> Ordering {
        self.0.compare_exactly(a, b)
    }
}

impl Store {
    /// Hands the most urgent followed job out. O(log n + shelves), and O(log n) for each of a
    /// bounded number of jobs on the way that may not run now; the others are passed over later,
    /// while the take waits.
    pub(super) fn reserve_any(&mut self, ticket: Ticket, now: Now, fx: &mut Effects) {
        if let Some(entry) = self.global_head(ticket.client, now, fx) {
            let queue = self.jobs[entry.slot].queue;
            self.unlink_waiting(entry.slot);
            self.mark_reserved(entry.slot, ticket, now, fx);
            return self.rematch_queue(queue, now, fx);
        }
        let waiter = self.waiters.add(ticket, Kind::Take);
        self.holders.add_waiter(ticket.client, waiter, &mut self.waiters);
        self.waiters.join(waiter, ANY_QUEUE, &mut self.anywhere.lines);
    }

    /// The followed job that leaves next if this client takes it. Jobs before it whose time to live
    /// is over go on the way; those that constraints hold back are put away, a bounded number.
    fn global_head(&mut self, client: ClientId, now: Now, fx: &mut Effects) -> Option<Entry> {
        let worker = self.worker_of(client);
        let mut stint = None;
        for _ in 0..SKIPPED_MAX {
            let shelves = self.anywhere.shelves.iter().filter(|shelf| shelf.is_eligible(worker));
            let tops = shelves.filter_map(|shelf| shelf.ready.peek());
            let entry =
                first_waiter(self.anywhere.ready.peek().into_iter().chain(tops), &self.jobs)?;
            if self.jobs[entry.slot].is_expired(now) {
                self.expire_head(entry.slot, now, fx);
            } else if !self.is_blocked(entry.slot, now) {
                return Some(entry);
            } else if !self.has_scan_budget(&mut stint) {
                break;
            }
        }
        self.schedule_match(ANY_QUEUE);
        None
    }

    /// Removes a ready job whose time to live is over.
    pub(super) fn expire_head(&mut self, slot: u32, now: Now, fx: &mut Effects) {
        let queue = self.jobs[slot].queue;
        self.unlink_waiting(slot);
        drop(self.remove(slot, fx));
        self.rematch_queue(queue, now, fx);
    }

    /// The worker for whom a client acts.
    pub(super) fn worker_of(&self, client: ClientId) -> Option<WorkerId> {
        self.holders.worker_of(client).map(|place| self.workers[place].id)
    }

    /// Which ready job of a queue that has shelves leaves next if this client takes it. With
    /// `narrow` a heap or shelf whose first job a pop cannot carry is passed over. O(shelves), and
    /// O(shelves + log n) for each job on the way whose time to live is over, and for a bounded
    /// number that may not run now: nothing if there are more.
    #[cold]
    pub(super) fn head_with_excluded(
        &mut self,
        queue: u32,
        (client, narrow): (ClientId, bool),
        now: Now,
        fx: &mut Effects,
    ) -> Option<Entry> {
        let worker = self.worker_of(client);
        let mut stint = None;
        loop {
            let fits = |entry: &Entry| !narrow || !self.jobs[entry.slot].is_wide();
            let shelves = self.queues[queue].shelves.iter().flat_map(|shelves| shelves.iter());
            let tops = shelves.filter(|shelf| shelf.is_eligible(worker));
            let tops = tops.filter_map(|shelf| shelf.ready.peek());
            let all = self.queues[queue].ready.peek().into_iter().chain(tops);
            let entry = first_waiter(all.filter(fits), &self.jobs)?;
            if self.jobs[entry.slot].is_expired(now) {
                self.unlink_waiting(entry.slot);
                drop(self.remove(entry.slot, fx));
                self.global_head_wins(queue, now, fx);
            } else if !self.is_blocked(entry.slot, now) {
                return Some(entry);
            } else if !self.has_scan_budget(&mut stint) {
                self.defer_scan(queue);
                return None;
            }
        }
    }

    /// A job that is nowhere becomes ready on the heaps that it belongs to. O(log n).
    pub(super) fn push_ready(&mut self, slot: u32) {
        let job = &mut self.jobs[slot];
        let (entry, queue, followed) = (job.entry(slot), job.queue, job.is_tracked());
        let refused_by = job.excluded_workers().to_vec();
        if !refused_by.is_empty() && self.has_exclusion_set(slot) {
            let shelves = self.queues[queue].shelves.get_or_insert_default();
            shelves.push(&refused_by, entry, &mut self.jobs);
            if followed {
                self.anywhere.shelves.push(
                    &refused_by,
                    entry,
                    &mut GlobalPositions(&mut self.jobs),
                );
            }
            return;
        }
        self.jobs[slot].clear_exclusions();
        self.queues[queue].ready.push(entry, &mut self.jobs);
        if followed {
            self.anywhere.ready.push(entry, &mut GlobalPositions(&mut self.jobs));
        }
    }

    /// Whether there are shelves for a job, if it was refused. O(shelves).
    pub(super) fn has_exclusion_set(&self, slot: u32) -> bool {
        let job = &self.jobs[slot];
        let refused_by = job.excluded_workers();
        let shelves = self.queues[job.queue].shelves.as_ref();
        refused_by.is_empty()
            || shelves.is_none_or(|shelves| shelves.has_room(refused_by))
                && (!job.is_tracked() || self.anywhere.shelves.has_room(refused_by))
    }

    /// The shelves of a job that constraints may hold back stay for it as long as it waits, if it
    /// was refused: whenever it is shown, there is a place. O(shelves).
    pub(super) fn pin_exclusion_set(&mut self, slot: u32) {
        let job = &self.jobs[slot];
        if !job.excluded_workers().is_empty() {
            let queue = &mut self.queues[job.queue];
            queue.shelves.get_or_insert_default().reserve(job.excluded_workers());
            if job.is_tracked() {
                self.anywhere.shelves.reserve(job.excluded_workers());
            }
        }
    }

    /// They need not stay for it any longer. O(shelves).
    pub(super) fn unpin_exclusion_set(&mut self, slot: u32) {
        let job = &self.jobs[slot];
        if job.excluded_workers().is_empty() {
            return;
        }
        let shelves = &mut self.queues[job.queue].shelves;
        let list = shelves.as_mut().expect("the shelf of a job that waits is there");
        list.release(job.excluded_workers());
        if list.is_empty() {
            *shelves = None;
        }
        if job.is_tracked() {
            self.anywhere.shelves.release(job.excluded_workers());
        }
    }

    /// Takes a ready job that is not plain from the heaps that it stands in. O(log n).
    pub(super) fn remove_ready(&mut self, slot: u32) {
        let job = &self.jobs[slot];
        let (queue, place, followed) = (job.queue, job.place, job.is_tracked());
        let anywhere = job.work().map_or(0, |work| work.anywhere);
        if job.excluded_workers().is_empty() {
            self.queues[queue].ready.remove(place, &mut self.jobs);
            if followed {
                self.anywhere.ready.remove(anywhere, &mut GlobalPositions(&mut self.jobs));
            }
            return;
        }
        let refused_by = job.excluded_workers().to_vec();
        let shelves = &mut self.queues[queue].shelves;
        let list = shelves.as_mut().expect("a refused job is on a shelf of its queue");
        list.remove(&refused_by, place, &mut self.jobs);
        if list.is_empty() {
            *shelves = None;
        }
        if followed {
            let jobs = &mut GlobalPositions(&mut self.jobs);
            self.anywhere.shelves.remove(&refused_by, anywhere, jobs);
        }
    }

    /// A job that is not plain may have become ready: whoever waits for it gets it. O(log n), and
    /// for a refused job O(places of its refusers in the lines).
    pub(super) fn match_job(&mut self, slot: u32, now: Now, fx: &mut Effects) {
        if self.constraints.is_pending() {
            if self.jobs[slot].status == Status::Ready {
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

    /// One of several jobs that have become ready together serves one waiter at most: whoever waits
    /// for it, or in its place for the first of its queue. As [`Store::match_job`] otherwise.
    pub(super) fn match_job_global(&mut self, slot: u32, now: Now, fx: &mut Effects) {
        let queue = self.jobs[slot].queue;
        if !self.jobs[slot].excluded_workers().is_empty() {
            self.match_excluded_job(slot, now, fx);
            return;
        }
        self.match_one(queue, now, fx);
        // Behind another one in its queue, and the first of all followed ones: those before it were
        // here before.
        if let Some(job) = self.jobs.get(slot)
            && job.status == Status::Ready
            && job.is_tracked()
            && let Some(waiter) = self.waiters.first(self.anywhere.lines, true)
            && !self.is_blocked(slot, now)
        {
            self.reserve_for_waiter(slot, waiter, now, fx);
        }
    }

    /// Gives followed jobs to those who wait for one until there is none of either, or too many of
    /// them that may not run now had to be put away: then it goes on later. They wait only beside
    /// none, so that each job has been offered to its queue before.
    pub(super) fn match_global(&mut self, now: Now, fx: &mut Effects) {
        let mut stint = None;
        while let Some(waiter) = self.waiters.first(self.anywhere.lines, true)
            && let Some(entry) = self.anywhere.ready.peek()
        {
            if self.jobs[entry.slot].is_expired(now) {
                self.expire_head(entry.slot, now, fx);
                continue;
            }
            if self.is_blocked(entry.slot, now) {
                if !self.has_scan_budget(&mut stint) {
                    return self.schedule_match(ANY_QUEUE);
                }
                continue;
            }
            let queue = self.jobs[entry.slot].queue;
            let (_, ticket) = self.end_wait(waiter);
            self.unlink_waiting(entry.slot);
            self.mark_reserved(entry.slot, ticket, now, fx);
            self.rematch_queue(queue, now, fx);
        }
    }

    /// Gives a refused job that has just come to its shelf to the first who may have it, if it is
    /// the first there: whoever may have one behind it does not wait. Tells whether it went there,
    /// or elsewhere because it may not run now.
    pub(super) fn match_excluded_job(&mut self, slot: u32, now: Now, fx: &mut Effects) -> bool {
        let is_ready = |job: &&Job| job.status == Status::Ready;
        let Some(job) = self.jobs.get(slot).filter(is_ready) else { return false };
        if job.is_expired(now) {
            self.expire_head(slot, now, fx);
            return true;
        }
        if self.is_blocked(slot, now) {
            return true;
        }
        let job = &self.jobs[slot];
        let (queue, refused_by) = (job.queue, job.excluded_workers());
        let shelves = self.queues[queue].shelves.as_ref();
        let first = shelves.and_then(|shelves| shelves.first(refused_by));
        let first_anywhere = self.anywhere.shelves.first(refused_by);
        let lines = match first {
            Some(entry) if entry.slot == slot => self.queues[queue].waiters,
            _ => WaitQueues::default(),
        };
        let anywhere = match first_anywhere {
            Some(entry) if entry.slot == slot => self.anywhere.lines,
            _ => WaitQueues::default(),
        };
        let meant = |ticket: Ticket| match self.worker_of(ticket.client) {
            Some(worker) => refused_by.binary_search(&worker).is_err(),
            None => true,
        };
        let found =
            self.waiters.first_of(lines, anywhere, job.is_wide(), |waiter| meant(waiter.ticket));
        let Some(waiter) = found else { return false };
        self.reserve_for_waiter(slot, waiter, now, fx);
        true
    }

    /// Gives ready jobs on the shelves of a queue to pops, which may wait there because the one
    /// before was too large for them.
    #[cold]
    pub(super) fn match_pops_excluded(&mut self, queue: u32, now: Now, fx: &mut Effects) {
        let mut stint = None;
        while let Some((slot, waiter)) = self.next_pop_excluded(queue, now) {
            if !self.is_blocked(slot, now) {
                self.reserve_for_waiter(slot, waiter, now, fx);
            } else if !self.has_scan_budget(&mut stint) {
                return self.schedule_match(queue);
            }
        }
    }

    fn next_pop_excluded(&self, queue: u32, now: Now) -> Option<(u32, u32)> {
        let lines = self.queues[queue].waiters.pops();
        let shelves = self.queues[queue].shelves.as_ref()?;
        shelves.iter().find_map(|shelf| {
            let slot = shelf.ready.peek()?.slot;
            let job = &self.jobs[slot];
            if job.is_wide() || job.is_expired(now) {
                return None;
            }
            let meant = |client| shelf.is_eligible(self.worker_of(client));
            let is_meant = |waiter: &super::waiters::Waiter| meant(waiter.ticket.client);
            let waiter = self.waiters.first_of(lines, WaitQueues::default(), false, is_meant)?;
            Some((slot, waiter))
        })
    }

    /// Gives a ready job to somebody who waits. O(log n), or what a pop costs.
    pub(super) fn reserve_for_waiter(
        &mut self,
        slot: u32,
        waiter: u32,
        now: Now,
        fx: &mut Effects,
    ) {
        let (kind, ticket) = self.end_wait(waiter);
        match kind {
            Kind::Take => {
                self.unlink_waiting(slot);
                self.mark_reserved(slot, ticket, now, fx);
            }
            Kind::Pop => self.pop_out(slot, ticket, now, fx),
        }
    }

    /// Gives a take that has begun to wait in one more queue, with shelves, what it finds there.
    pub(super) fn match_new_waiter(&mut self, waiter: u32, queue: u32, now: Now, fx: &mut Effects) {
        let (client, narrow) =
            (self.waiters[waiter].ticket.client, self.waiters[waiter].kind == Kind::Pop);
        if let Some(entry) = self.head_with_excluded(queue, (client, narrow), now, fx) {
            self.reserve_for_waiter(entry.slot, waiter, now, fx);
            self.rematch_queue(queue, now, fx);
        }
        self.note_blocked(queue);
    }
}

/// Which of these leaves first.
fn first_waiter(entries: impl Iterator<Item = Entry>, jobs: &Jobs) -> Option<Entry> {
    entries.reduce(|best, entry| if orders_before(&entry, &best, jobs) { entry } else { best })
}

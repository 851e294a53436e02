//! Ready jobs whose way goes by more than the heap of their queue: followed jobs, which may be
//! taken whatever their queue, and jobs that some workers have refused.
//!
//! A followed job that is ready stands in the heap of its queue and in the one of all followed
//! jobs; one that was refused is on a shelf of both instead.
//!
//! Invariant: between two commands nobody waits for a followed job beside one that he could have.

use super::jobs::{Job, Jobs};
use super::shelves::Shelves;
use super::waiters::{ANYWHERE, Kind, Lines};
use super::{Effects, Store};
use crate::base::heap::{Entry, Heap, Slots, leaves_before};
use crate::base::time::Now;
use crate::model::id::{ClientId, Ticket};
use crate::model::job::Status;
use crate::model::work::WorkerId;
use std::cmp::Ordering;

/// How many jobs that are over or may not run now one take of a followed job passes by at most.
const PASSED_OVER: usize = 256;

/// All followed jobs that are ready, and who waits for one.
#[derive(Debug, Default)]
pub(super) struct Anywhere {
    pub(super) ready: Heap,
    pub(super) shelves: Shelves,
    pub(super) lines: Lines,
}

/// Jobs as they stand in the heap of all followed ones.
pub(super) struct Followed<'a>(pub(super) &'a mut Jobs);

impl Slots for Followed<'_> {
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
    pub(super) fn take_any(&mut self, ticket: Ticket, now: Now, fx: &mut Effects) {
        if let Some(entry) = self.first_anywhere(ticket.client, now, fx) {
            let queue = self.jobs[entry.slot].queue;
            self.withdraw(entry.slot);
            self.hand_out(entry.slot, ticket, now, fx);
            return self.first_left(queue, now, fx);
        }
        let waiter = self.waiters.add(ticket, Kind::Take);
        self.holders.add_waiter(ticket.client, waiter, &mut self.waiters);
        self.waiters.join(waiter, ANYWHERE, &mut self.anywhere.lines);
    }

    /// The followed job that leaves next if this client takes it. Jobs before it whose time to live
    /// is over go on the way; those that constraints hold back are put away, a bounded number.
    fn first_anywhere(&mut self, client: ClientId, now: Now, fx: &mut Effects) -> Option<Entry> {
        let worker = self.worker_of(client);
        let mut stint = None;
        for _ in 0..PASSED_OVER {
            let shelves = self.anywhere.shelves.iter().filter(|shelf| shelf.is_for(worker));
            let tops = shelves.filter_map(|shelf| shelf.ready.peek());
            let entry = earliest(self.anywhere.ready.peek().into_iter().chain(tops), &self.jobs)?;
            if self.jobs[entry.slot].is_over(now) {
                self.drop_one(entry.slot, now, fx);
            } else if !self.holds_back(entry.slot, now) {
                return Some(entry);
            } else if !self.looks_on(&mut stint) {
                break;
            }
        }
        self.serve_later(ANYWHERE);
        None
    }

    /// Removes a ready job whose time to live is over.
    pub(super) fn drop_one(&mut self, slot: u32, now: Now, fx: &mut Effects) {
        let queue = self.jobs[slot].queue;
        self.withdraw(slot);
        drop(self.remove(slot, fx));
        self.first_left(queue, now, fx);
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
    pub(super) fn first_with_shelves(
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
            let tops = shelves.filter(|shelf| shelf.is_for(worker));
            let tops = tops.filter_map(|shelf| shelf.ready.peek());
            let all = self.queues[queue].ready.peek().into_iter().chain(tops);
            let entry = earliest(all.filter(fits), &self.jobs)?;
            if self.jobs[entry.slot].is_over(now) {
                self.withdraw(entry.slot);
                drop(self.remove(entry.slot, fx));
                self.others_first(queue, now, fx);
            } else if !self.holds_back(entry.slot, now) {
                return Some(entry);
            } else if !self.looks_on(&mut stint) {
                self.leave_unseen(queue);
                return None;
            }
        }
    }

    /// A job that is nowhere becomes ready on the heaps that it belongs to. O(log n).
    pub(super) fn stand_ready(&mut self, slot: u32) {
        let job = &mut self.jobs[slot];
        let (entry, queue, followed) = (job.entry(slot), job.queue, job.is_followed());
        let refused_by = job.refused_by().to_vec();
        if !refused_by.is_empty() && self.has_shelf(slot) {
            let shelves = self.queues[queue].shelves.get_or_insert_default();
            shelves.push(&refused_by, entry, &mut self.jobs);
            if followed {
                self.anywhere.shelves.push(&refused_by, entry, &mut Followed(&mut self.jobs));
            }
            return;
        }
        self.jobs[slot].forget_refusals();
        self.queues[queue].ready.push(entry, &mut self.jobs);
        if followed {
            self.anywhere.ready.push(entry, &mut Followed(&mut self.jobs));
        }
    }

    /// Whether there are shelves for a job, if it was refused. O(shelves).
    pub(super) fn has_shelf(&self, slot: u32) -> bool {
        let job = &self.jobs[slot];
        let refused_by = job.refused_by();
        let shelves = self.queues[job.queue].shelves.as_ref();
        refused_by.is_empty()
            || shelves.is_none_or(|shelves| shelves.has_room(refused_by))
                && (!job.is_followed() || self.anywhere.shelves.has_room(refused_by))
    }

    /// The shelves of a job that constraints may hold back stay for it as long as it waits, if it
    /// was refused: whenever it is shown, there is a place. O(shelves).
    pub(super) fn keep_shelf(&mut self, slot: u32) {
        let job = &self.jobs[slot];
        if !job.refused_by().is_empty() {
            let queue = &mut self.queues[job.queue];
            queue.shelves.get_or_insert_default().reserve(job.refused_by());
            if job.is_followed() {
                self.anywhere.shelves.reserve(job.refused_by());
            }
        }
    }

    /// They need not stay for it any longer. O(shelves).
    pub(super) fn free_shelf(&mut self, slot: u32) {
        let job = &self.jobs[slot];
        if job.refused_by().is_empty() {
            return;
        }
        let shelves = &mut self.queues[job.queue].shelves;
        let list = shelves.as_mut().expect("the shelf of a job that waits is there");
        list.release(job.refused_by());
        if list.is_empty() {
            *shelves = None;
        }
        if job.is_followed() {
            self.anywhere.shelves.release(job.refused_by());
        }
    }

    /// Takes a ready job that is not plain from the heaps that it stands in. O(log n).
    pub(super) fn leave_heaps(&mut self, slot: u32) {
        let job = &self.jobs[slot];
        let (queue, place, followed) = (job.queue, job.place, job.is_followed());
        let anywhere = job.work().map_or(0, |work| work.anywhere);
        if job.refused_by().is_empty() {
            self.queues[queue].ready.remove(place, &mut self.jobs);
            if followed {
                self.anywhere.ready.remove(anywhere, &mut Followed(&mut self.jobs));
            }
            return;
        }
        let refused_by = job.refused_by().to_vec();
        let shelves = &mut self.queues[queue].shelves;
        let list = shelves.as_mut().expect("a refused job is on a shelf of its queue");
        list.remove(&refused_by, place, &mut self.jobs);
        if list.is_empty() {
            *shelves = None;
        }
        if followed {
            let jobs = &mut Followed(&mut self.jobs);
            self.anywhere.shelves.remove(&refused_by, anywhere, jobs);
        }
    }

    /// A job that is not plain may have become ready: whoever waits for it gets it. O(log n), and
    /// for a refused job O(places of its refusers in the lines).
    pub(super) fn serve_with(&mut self, slot: u32, now: Now, fx: &mut Effects) {
        if self.constraints.is_pending() {
            if self.jobs[slot].status == Status::Ready {
                self.serve_later_for(slot);
            }
            return;
        }
        let queue = self.jobs[slot].queue;
        if self.jobs[slot].refused_by().is_empty() {
            self.serve(queue, now, fx);
        } else {
            self.serve_refused(slot, now, fx);
            self.first_left(queue, now, fx);
        }
        self.serve_anywhere(now, fx);
    }

    /// One of several jobs that have become ready together serves one waiter at most: whoever waits
    /// for it, or in its place for the first of its queue. As [`Store::serve_with`] otherwise.
    pub(super) fn serve_for(&mut self, slot: u32, now: Now, fx: &mut Effects) {
        let queue = self.jobs[slot].queue;
        if !self.jobs[slot].refused_by().is_empty() {
            self.serve_refused(slot, now, fx);
            return;
        }
        self.serve_one(queue, now, fx);
        // Behind another one in its queue, and the first of all followed ones: those before it were
        // here before.
        if let Some(job) = self.jobs.get(slot)
            && job.status == Status::Ready
            && job.is_followed()
            && let Some(waiter) = self.waiters.first(self.anywhere.lines, true)
            && !self.holds_back(slot, now)
        {
            self.give(slot, waiter, now, fx);
        }
    }

    /// Gives followed jobs to those who wait for one until there is none of either, or too many of
    /// them that may not run now had to be put away: then it goes on later. They wait only beside
    /// none, so that each job has been offered to its queue before.
    pub(super) fn serve_anywhere(&mut self, now: Now, fx: &mut Effects) {
        let mut stint = None;
        while let Some(waiter) = self.waiters.first(self.anywhere.lines, true)
            && let Some(entry) = self.anywhere.ready.peek()
        {
            if self.jobs[entry.slot].is_over(now) {
                self.drop_one(entry.slot, now, fx);
                continue;
            }
            if self.holds_back(entry.slot, now) {
                if !self.looks_on(&mut stint) {
                    return self.serve_later(ANYWHERE);
                }
                continue;
            }
            let queue = self.jobs[entry.slot].queue;
            let (_, ticket) = self.end_wait(waiter);
            self.withdraw(entry.slot);
            self.hand_out(entry.slot, ticket, now, fx);
            self.first_left(queue, now, fx);
        }
    }

    /// Gives a refused job that has just come to its shelf to the first who may have it, if it is
    /// the first there: whoever may have one behind it does not wait. Tells whether it went there,
    /// or elsewhere because it may not run now.
    pub(super) fn serve_refused(&mut self, slot: u32, now: Now, fx: &mut Effects) -> bool {
        let is_ready = |job: &&Job| job.status == Status::Ready;
        let Some(job) = self.jobs.get(slot).filter(is_ready) else { return false };
        if job.is_over(now) {
            self.drop_one(slot, now, fx);
            return true;
        }
        if self.holds_back(slot, now) {
            return true;
        }
        let job = &self.jobs[slot];
        let (queue, refused_by) = (job.queue, job.refused_by());
        let shelves = self.queues[queue].shelves.as_ref();
        let first = shelves.and_then(|shelves| shelves.first(refused_by));
        let first_anywhere = self.anywhere.shelves.first(refused_by);
        let lines = match first {
            Some(entry) if entry.slot == slot => self.queues[queue].waiters,
            _ => Lines::default(),
        };
        let anywhere = match first_anywhere {
            Some(entry) if entry.slot == slot => self.anywhere.lines,
            _ => Lines::default(),
        };
        let meant = |ticket: Ticket| match self.worker_of(ticket.client) {
            Some(worker) => refused_by.binary_search(&worker).is_err(),
            None => true,
        };
        let found =
            self.waiters.first_of(lines, anywhere, job.is_wide(), |waiter| meant(waiter.ticket));
        let Some(waiter) = found else { return false };
        self.give(slot, waiter, now, fx);
        true
    }

    /// Gives ready jobs on the shelves of a queue to pops, which may wait there because the one
    /// before was too large for them.
    #[cold]
    pub(super) fn serve_pops_from_shelves(&mut self, queue: u32, now: Now, fx: &mut Effects) {
        let mut stint = None;
        while let Some((slot, waiter)) = self.next_pop_from_shelves(queue, now) {
            if !self.holds_back(slot, now) {
                self.give(slot, waiter, now, fx);
            } else if !self.looks_on(&mut stint) {
                return self.serve_later(queue);
            }
        }
    }

    fn next_pop_from_shelves(&self, queue: u32, now: Now) -> Option<(u32, u32)> {
        let lines = self.queues[queue].waiters.pops();
        let shelves = self.queues[queue].shelves.as_ref()?;
        shelves.iter().find_map(|shelf| {
            let slot = shelf.ready.peek()?.slot;
            let job = &self.jobs[slot];
            if job.is_wide() || job.is_over(now) {
                return None;
            }
            let meant = |client| shelf.is_for(self.worker_of(client));
            let is_meant = |waiter: &super::waiters::Waiter| meant(waiter.ticket.client);
            let waiter = self.waiters.first_of(lines, Lines::default(), false, is_meant)?;
            Some((slot, waiter))
        })
    }

    /// Gives a ready job to somebody who waits. O(log n), or what a pop costs.
    pub(super) fn give(&mut self, slot: u32, waiter: u32, now: Now, fx: &mut Effects) {
        let (kind, ticket) = self.end_wait(waiter);
        match kind {
            Kind::Take => {
                self.withdraw(slot);
                self.hand_out(slot, ticket, now, fx);
            }
            Kind::Pop => self.pop_out(slot, ticket, now, fx),
        }
    }

    /// Gives a take that has begun to wait in one more queue, with shelves, what it finds there.
    pub(super) fn serve_joined(&mut self, waiter: u32, queue: u32, now: Now, fx: &mut Effects) {
        let (client, narrow) =
            (self.waiters[waiter].ticket.client, self.waiters[waiter].kind == Kind::Pop);
        if let Some(entry) = self.first_with_shelves(queue, (client, narrow), now, fx) {
            self.give(entry.slot, waiter, now, fx);
            self.first_left(queue, now, fx);
        }
        self.note_blocked(queue);
    }
}

/// Which of these leaves first.
fn earliest(entries: impl Iterator<Item = Entry>, jobs: &Jobs) -> Option<Entry> {
    entries.reduce(|best, entry| if leaves_before(&entry, &best, jobs) { entry } else { best })
}

//! The part of the sweep that is about workers, vigils, and ready jobs beside the heaps of queues.

use super::Store;
use super::excluded::ExcludedHeaps;
use super::job_watchers::WatchFor;
use super::reservations::Reservations;
use super::waiters::{WaitQueues, Waiter};
use crate::base::heap::Entry;
use crate::model::job::Status;
use crate::model::worker::WorkerId;
use std::collections::{BTreeMap, BTreeSet};

impl Store {
    /// What somebody holds who acts for a worker is that worker's, and only that; what is held by
    /// nobody's client is in the worker's list. Takes the latter out of `held_by`.
    pub(super) fn check_workers(&self, held_by: &mut BTreeMap<u32, BTreeSet<u32>>) {
        self.workers.check_invariants();
        let mut serving = BTreeMap::new();
        for (place, record) in self.workers.iter() {
            let away: BTreeSet<u32> =
                self.holders.jobs_detached(place, &self.jobs).into_iter().collect();
            let held = held_by.remove(&Reservations::away(place)).unwrap_or_default();
            assert_eq!(away, held, "a worker's list and its jobs differ");
            for &slot in &away {
                assert_eq!(self.jobs[slot].worker(), Some(record.id), "a worker holds another's");
            }
            if let Some(client) = record.client {
                assert!(away.is_empty(), "a job of a served worker is away");
                assert_eq!(self.holders.worker_of(client), Some(place), "it serves another one");
                assert!(serving.insert(client.index, record.id).is_none(), "it serves two");
            }
        }
        for (slot, job) in self.jobs.iter() {
            if job.status != Status::Reserved {
                assert_eq!(job.worker(), None, "a job that nobody holds has a worker");
                assert_eq!(job.progress(), None, "nobody works on a job that nobody holds");
            } else if job.holder < Reservations::away(0) {
                let worker = serving.get(&job.holder).copied();
                assert_eq!(job.worker(), worker, "job {slot} is held for a wrong worker");
            }
        }
    }

    pub(super) fn check_vigils(&self) {
        self.vigils.check_invariants();
        assert!(self.pending_outcomes.is_empty(), "an answer was forgotten");
        for (_, vigil) in self.vigils.iter() {
            let job = &self.jobs[vigil.job];
            assert!(!job.is_simple(), "somebody waits for news of a job that has none");
            match vigil.aim {
                WatchFor::Release => {
                    assert_eq!(job.status, Status::Reserved, "a place is free");
                    let holds = self.holders.holds(vigil.ticket.client, job);
                    assert!(holds && vigil.timer.is_none(), "another one holds it");
                }
                WatchFor::Completion => {
                    let ended = matches!(job.status, Status::Completed | Status::Buried);
                    assert!(!ended && !vigil.timer.is_none(), "a job has ended");
                }
            }
        }
    }

    /// A job stands where its key and its refusers say.
    pub(super) fn check_entry(&self, entry: Entry, refused_by: &[WorkerId]) {
        let job = &self.jobs[entry.slot];
        let (rank, tie, key) = (entry.rank, entry.tie, job.entry(entry.slot));
        assert_eq!((rank, tie), ({ key.rank }, { key.tie }), "a heap key is stale");
        assert_eq!(job.status, Status::Ready, "a job in a heap is not ready");
        assert_eq!(job.excluded_workers(), refused_by, "a job is on a wrong shelf");
    }

    /// Nobody waits beside a job on a shelf that he could have.
    pub(super) fn check_shelves(&self, lines: WaitQueues, shelves: Option<&ExcludedHeaps>) {
        if self.constraints.is_pending() {
            return;
        }
        for shelf in shelves.iter().flat_map(|shelves| shelves.iter()) {
            let Some(entry) = shelf.ready.peek() else { continue };
            let wide = self.jobs[entry.slot].is_wide();
            let meant = |waiter: &Waiter| shelf.is_eligible(self.worker_of(waiter.ticket.client));
            let next = self.waiters.first_of(lines, WaitQueues::default(), wide, meant);
            assert_eq!(next, None, "a waiter beside a refused job that it could have");
        }
    }

    /// The followed jobs that are ready are among all of them, and nothing else is.
    pub(super) fn check_anywhere(&self) {
        let followed =
            self.jobs.iter().filter(|(_, job)| job.status == Status::Ready && job.is_tracked());
        let mut followed: BTreeSet<u32> = followed.map(|(slot, _)| slot).collect();
        let shelves = self.anywhere.shelves.iter();
        let shelves = shelves.map(|shelf| (&*shelf.refused_by, &shelf.ready));
        for (refused_by, heap) in shelves.chain([(&[][..], &self.anywhere.ready)]) {
            let slots = &self.jobs;
            heap.check_invariants(slots, |entry, position| {
                self.check_entry(entry, refused_by);
                let place = self.jobs[entry.slot].work().map(|work| work.anywhere);
                assert_eq!(place, Some(position), "a place among all followed jobs is wrong");
                assert!(followed.remove(&entry.slot), "a job is not followed, or there twice");
            });
        }
        assert!(followed.is_empty(), "a followed job is not among all of them");
        if !self.anywhere.ready.is_empty() && !self.constraints.is_pending() {
            assert!(self.anywhere.lines.is_empty(), "a waiter beside a followed job");
        }
        // Waits of the one line are takes: they are seen as a queue's lines would be.
        self.check_shelves(self.anywhere.lines, Some(&self.anywhere.shelves));
    }
}

//! The part of the sweep that is about workers, watchers, and ready jobs beside the heaps of
//! queues.

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
                self.reservations.jobs_detached(place, &self.jobs).into_iter().collect();
            let held = held_by.remove(&Reservations::detached_holder(place)).unwrap_or_default();
            assert_eq!(away, held, "a worker's list and its jobs differ");
            for &slot in &away {
                assert_eq!(self.jobs[slot].worker(), Some(record.id), "a worker holds another's");
            }
            if let Some(client) = record.client {
                assert!(away.is_empty(), "a job of an attached worker is in its detached list");
                assert_eq!(
                    self.reservations.worker_of(client),
                    Some(place),
                    "the client is attached to another worker"
                );
                assert!(serving.insert(client.index, record.id).is_none(), "it serves two");
            }
        }
        for (slot, job) in self.jobs.iter() {
            if job.status != Status::Reserved {
                assert_eq!(job.worker(), None, "a job that nobody holds has a worker");
                assert_eq!(job.progress(), None, "nobody works on a job that nobody holds");
            } else if job.holder < Reservations::detached_holder(0) {
                let worker = serving.get(&job.holder).copied();
                assert_eq!(job.worker(), worker, "job {slot} is held for a wrong worker");
            }
        }
    }

    pub(super) fn check_watchers(&self) {
        self.watchers.check_invariants();
        assert!(self.pending_outcomes.is_empty(), "an answer was forgotten");
        for (_, watcher) in self.watchers.iter() {
            let job = &self.jobs[watcher.job];
            assert!(!job.is_simple(), "somebody waits for news of a job that has none");
            match watcher.watch_for {
                WatchFor::Release => {
                    assert_eq!(job.status, Status::Reserved, "a place is free");
                    let holds = self.reservations.holds(watcher.ticket.client, job);
                    assert!(holds && watcher.timer.is_none(), "another one holds it");
                }
                WatchFor::Completion => {
                    let ended = matches!(job.status, Status::Completed | Status::Buried);
                    assert!(!ended && !watcher.timer.is_none(), "a job has ended");
                }
            }
        }
    }

    /// A job stands where its key and its refusers say.
    pub(super) fn check_entry(&self, entry: Entry, excluded_workers: &[WorkerId]) {
        let job = &self.jobs[entry.slot];
        let (rank, tie, key) = (entry.rank, entry.tie, job.entry(entry.slot));
        assert_eq!((rank, tie), ({ key.rank }, { key.tie }), "a heap key is stale");
        assert_eq!(job.status, Status::Ready, "a job in a heap is not ready");
        assert_eq!(job.excluded_workers(), excluded_workers, "a job is on a wrong heap");
    }

    /// Nobody waits beside a job on a heap that he could have.
    pub(super) fn check_excluded(&self, wait_queues: WaitQueues, excluded: Option<&ExcludedHeaps>) {
        if self.constraints.is_pending() {
            return;
        }
        for heap in excluded.iter().flat_map(|excluded| excluded.iter()) {
            let Some(entry) = heap.ready.peek() else { continue };
            let wide = self.jobs[entry.slot].is_too_large_to_pop();
            let meant = |waiter: &Waiter| heap.is_eligible(self.worker_of(waiter.ticket.client));
            let next = self.waiters.first_of(wait_queues, WaitQueues::default(), wide, meant);
            assert_eq!(next, None, "a waiter beside a refused job that it could have");
        }
    }

    /// The tracked jobs that are ready are among all of them, and nothing else is.
    pub(super) fn check_global_ready(&self) {
        let tracked =
            self.jobs.iter().filter(|(_, job)| job.status == Status::Ready && job.is_tracked());
        let mut tracked: BTreeSet<u32> = tracked.map(|(slot, _)| slot).collect();
        let excluded = self.global_ready.excluded.iter();
        let excluded = excluded.map(|heap| (&*heap.excluded_workers, &heap.ready));
        for (excluded_workers, heap) in excluded.chain([(&[][..], &self.global_ready.ready)]) {
            let slots = &self.jobs;
            heap.check_invariants(slots, |entry, position| {
                self.check_entry(entry, excluded_workers);
                let place = self.jobs[entry.slot].work().map(|work| work.global_position);
                assert_eq!(place, Some(position), "a place among all tracked jobs is wrong");
                assert!(tracked.remove(&entry.slot), "a job is not tracked, or there twice");
            });
        }
        assert!(tracked.is_empty(), "a tracked job is not among all of them");
        if !self.global_ready.ready.is_empty() && !self.constraints.is_pending() {
            assert!(self.global_ready.wait_queues.is_empty(), "a waiter beside a tracked job");
        }
        // Waits of the one line are takes: they are seen as a queue's wait queues would be.
        self.check_excluded(self.global_ready.wait_queues, Some(&self.global_ready.excluded));
    }
}

//! Invariant checks of workers, watchers, and ready jobs beside the heaps of queues.

use super::Store;
use super::excluded::ExcludedHeaps;
use super::idx::{Holder, HolderKind, JobIdx};
use super::job_watchers::WatchFor;
use super::jobs::Jobs;
use super::spread_work::HoldMarks;
use super::waiters::{WaitQueues, Waiter};
use crate::base::heap::HeapEntry;
use crate::model::id::JobId;
use crate::model::job::Status;
use crate::model::worker::WorkerId;
use std::collections::{BTreeMap, BTreeSet};

impl Store {
    /// The reservations of an attached client are its worker's, and only those; those of a detached
    /// worker are in its list. Removes the latter from `reserved_by`. `ending`: the number of
    /// deregistered workers that have jobs.
    pub(super) fn check_workers(
        &self,
        reserved_by: &mut BTreeMap<Holder, BTreeSet<JobIdx>>,
        ending: usize,
    ) {
        self.workers.check_invariants(ending);
        let mut serving = BTreeMap::new();
        for (place, record) in self.workers.iter() {
            let detached: BTreeSet<JobIdx> =
                self.reservations.jobs_detached(place, &self.jobs).into_iter().collect();
            let reserved = reserved_by.remove(&Holder::detached(place)).unwrap_or_default();
            assert_eq!(detached, reserved, "a worker's list and its reservations differ");
            for &slot in &detached {
                assert_eq!(
                    self.jobs[slot].worker(),
                    Some(record.id),
                    "a job is in the list of another worker"
                );
            }
            if let Some(client) = record.client {
                assert!(detached.is_empty(), "a job of an attached worker is in its detached list");
                assert_eq!(
                    self.reservations.worker_of(client),
                    Some(place),
                    "the client is attached to another worker"
                );
                assert!(
                    serving.insert(client.index, record.id).is_none(),
                    "a client is attached to two workers"
                );
            }
        }
        let under_tokens: BTreeSet<JobIdx> =
            self.reservations.jobs_under_tokens(&self.jobs).into_iter().collect();
        let reserved = reserved_by.remove(&Holder::TOKEN).unwrap_or_default();
        assert_eq!(under_tokens, reserved, "the list of leases under tokens is wrong");
        for (slot, job) in self.jobs.iter() {
            let under_token = job.token_lease().is_some();
            assert_eq!(under_token, under_tokens.contains(&slot), "a lease has no token");
            if job.status() != Status::Reserved {
                assert_eq!(job.worker(), None, "a job that is not reserved has a worker");
                assert_eq!(job.progress(), None, "a job that is not reserved has a progress");
            } else if let HolderKind::Client(index) = job.holder().kind()
                && !self.disconnects.is_ending(index)
                && !self.is_abandoned(job)
            {
                let worker = serving.get(&index).copied();
                assert_eq!(job.worker(), worker, "job {slot:?} is reserved for another worker");
            }
        }
    }

    pub(super) fn check_watchers(&self) {
        self.watchers.check_invariants();
        for client in self.registry_watchers.attached() {
            assert!(self.reservations.worker_of(client).is_some(), "a detached client waits");
        }
        assert!(!self.watchers.has_ended(), "an answer of a watcher is pending");
        for (number, watcher) in self.watchers.iter() {
            let has_timeout = !self.watchers.timer(number).is_none();
            let job = &self.jobs[watcher.job];
            assert!(!job.is_simple(), "a watched job has no rare fields");
            match watcher.watch_for {
                WatchFor::Release => {
                    assert_eq!(job.status(), Status::Reserved, "the reservation has ended");
                    let holds = self.reservations.is_holder(watcher.ticket.client, job);
                    let holds = holds || self.is_abandoned(job);
                    assert!(holds && !has_timeout, "another client has reserved it");
                }
                WatchFor::Completion | WatchFor::End => {
                    let ended = matches!(job.status(), Status::Completed | Status::Buried);
                    let later = watcher.watch_for == WatchFor::End
                        && self.awaited_ends.contains(&JobId(job.id()));
                    assert!((!ended || later) && has_timeout, "a watched job has ended");
                }
            }
        }
    }

    /// No waiter is eligible for the head of a heap with an exclusion set.
    pub(super) fn check_excluded(&self, wait_queues: WaitQueues, excluded: Option<&ExcludedHeaps>) {
        if self.constraints.is_pending() {
            return;
        }
        for heap in excluded.iter().flat_map(|excluded| excluded.iter()) {
            let Some(entry) = heap.ready.peek() else { continue };
            let wide = self.jobs[entry.slot].is_too_large_to_pop();
            let meant = |waiter: &Waiter| {
                heap.is_eligible(self.workers.of_client(waiter.ticket.client, &self.reservations))
            };
            let next = self.waiters.first_of(wait_queues, WaitQueues::default(), wide, meant);
            assert_eq!(next, None, "a waiter is eligible for a job with an exclusion set");
        }
    }

    /// The ready tracked jobs are in the global heap, or beside it, and nothing else is.
    pub(super) fn check_global_ready(&self) {
        let tracked =
            self.jobs.iter().filter(|(_, job)| job.status() == Status::Ready && job.is_tracked());
        let mut tracked: BTreeSet<JobIdx> = tracked.map(|(slot, _)| slot).collect();
        let excluded = self.global_ready.excluded.iter();
        let excluded = excluded.map(|heap| (&*heap.excluded_workers, &heap.ready));
        for (excluded_workers, heap) in excluded.chain([(&[][..], &self.global_ready.ready)]) {
            let slots = &self.jobs;
            heap.check_invariants(slots, |entry, position| {
                self.jobs.check_entry(entry, excluded_workers);
                let place = self.jobs[entry.slot].work().map(|work| work.global_position);
                assert_eq!(place, Some(position), "a global heap position is wrong");
                assert!(tracked.remove(&entry.slot), "a job is not tracked, or in the heap twice");
            });
        }
        for (queue, list) in self.global_ready.all_withheld() {
            assert!(!list.is_empty(), "an empty list of withheld jobs is kept");
            let is_paused = self.queues[queue].holds.has(HoldMarks::PAUSED);
            assert!(is_paused || self.pauses.is_resuming(queue), "jobs are withheld for ever");
            for (position, &slot) in list.iter().enumerate() {
                assert_eq!(self.jobs[slot].queue, queue, "a withheld job is of another queue");
                let place = self.jobs[slot].work().map(|work| work.global_position as usize);
                assert_eq!(place, Some(position), "the place of a withheld job is wrong");
                assert!(tracked.remove(&slot), "a withheld job is not tracked, or in the heap too");
            }
        }
        assert!(tracked.is_empty(), "a ready tracked job is not in the global heap");
        if self.disconnects.holds_global() {
            return;
        }
        if !self.global_ready.ready.is_empty() && !self.constraints.is_pending() {
            assert!(
                self.global_ready.wait_queues.is_empty(),
                "a waiter of any queue and a ready tracked job"
            );
        }
        // The global wait queue has reserves only: it is checked like a queue's.
        self.check_excluded(self.global_ready.wait_queues, Some(&self.global_ready.excluded));
    }
}

impl Jobs {
    /// A heap entry has the key and the exclusion set of its job, which is ready.
    pub(super) fn check_entry(&self, entry: HeapEntry<JobIdx>, excluded_workers: &[WorkerId]) {
        let job = &self[entry.slot];
        let (rank, tie, key) = (entry.rank, entry.tie, job.entry(entry.slot));
        assert_eq!((rank, tie), ({ key.rank }, { key.tie }), "a heap key is stale");
        assert_eq!(job.status(), Status::Ready, "a job in a heap is not ready");
        assert_eq!(
            job.excluded_workers(),
            excluded_workers,
            "a job is in the heap of another exclusion set"
        );
    }
}

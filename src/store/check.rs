//! The sweep over everything that must hold between two commands: for the simulator and tests.

use super::Store;
use super::jobs::Status;
use std::collections::{BTreeMap, BTreeSet};

impl Store {
    /// Asserts every invariant of the store. O(everything).
    ///
    /// # Panics
    /// If the store is broken, naming what is wrong.
    pub fn check_invariants(&self) {
        self.queues.check_invariants();
        let mut jobs_in: BTreeMap<u32, u32> = BTreeMap::new();
        let mut held_by: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        let mut ready = 0;
        for (slot, job) in self.jobs.iter() {
            assert!(job.id < self.next_id, "a job has an id that was not given out yet");
            assert_eq!(self.ids.find(job.id), Some(slot), "a job is not found by its id");
            *jobs_in.entry(job.queue).or_default() += 1;
            match job.status {
                Status::Ready => ready += 1,
                Status::Held => {
                    held_by.entry(job.holder).or_default().insert(slot);
                }
            }
        }
        assert_eq!(self.ids.count(), self.jobs.len(), "ids and jobs differ in number");
        for index in 0..u32::try_from(self.holders.len()).unwrap_or(u32::MAX) {
            let listed: BTreeSet<u32> =
                self.holders.jobs_of(index, &self.jobs).into_iter().collect();
            let held = held_by.remove(&index).unwrap_or_default();
            assert_eq!(listed, held, "a client's list and its jobs differ");
        }
        assert!(held_by.is_empty(), "a job is held by nobody");
        self.check_queues(&jobs_in, ready);
    }

    fn check_queues(&self, jobs_in: &BTreeMap<u32, u32>, mut ready: usize) {
        let mut places: BTreeSet<(u32, u32)> = self.waiters.places().collect();
        for (slot, queue) in self.queues.iter() {
            let jobs = jobs_in.get(&slot).copied().unwrap_or_default();
            assert_eq!(queue.jobs, jobs, "a queue's count of jobs is wrong");
            queue.ready.check_invariants(&self.jobs, |entry, position| {
                let job = &self.jobs[entry.slot];
                let (rank, tie) = (entry.rank, entry.tie);
                let key = job.entry(entry.slot);
                assert_eq!((rank, tie), ({ key.rank }, { key.tie }), "a heap key is stale");
                assert_eq!((job.status, job.place), (Status::Ready, position), "a place is wrong");
                assert_eq!(job.queue, slot, "a job is in a foreign heap");
                ready -= 1;
            });
            let line = self.waiters.in_line(queue.waiters);
            assert!(line.is_empty() || queue.ready.is_empty(), "a waiter beside a ready job");
            for waiter in line {
                assert!(places.remove(&(waiter, slot)), "a waiter stands in a line twice");
            }
        }
        assert_eq!(ready, 0, "a ready job is in no heap");
        assert!(places.is_empty(), "a waiter stands in no line");
    }
}

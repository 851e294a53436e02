//! Invariant checks of the whole store, between two commands: for simulators and tests.

use super::idx::{Holder, QueueIdx, QueueScope, WaiterIdx};
use super::job::Job;
use super::jobs::Jobs;
use super::queues::{DEFAULT, Queues};
use super::{Due, JobIdx, Store};
use crate::base::slab_index::SlabIndex;
use crate::model::id::{JobId, Ticket};
use crate::model::job::Status;
use crate::model::reply::JobStatus;
use crate::model::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the job table says that other structures should contain.
#[derive(Default)]
struct Expected {
    /// Jobs of each queue, and those with a time to live.
    jobs_in: BTreeMap<QueueIdx, (u32, u32)>,
    reserved_by: BTreeMap<Holder, BTreeSet<JobIdx>>,
    buried_in: BTreeMap<QueueIdx, BTreeSet<JobIdx>>,
    /// Waiting packets.
    grouped: BTreeSet<JobIdx>,
    /// Taken by pops that are not answered yet.
    popped: BTreeSet<JobIdx>,
    ready: usize,
    armed: usize,
}

impl Expected {
    fn note(&mut self, slot: JobIdx, job: &Job) {
        let timer = job.timer();
        assert!(
            !job.is_leased() || job.status() == Status::Reserved && job.ext().is_none(),
            "a lease is in a slot beside rare fields, or its job is not reserved"
        );
        assert!(
            job.progress().is_none() || job.status() == Status::Reserved,
            "a job has the progress of a run that is over"
        );
        if job.status() == Status::Popped {
            assert!(timer.is_none() && job.class().is_none(), "a popped job is not detached");
            assert!(self.popped.insert(slot));
            return;
        }
        let (jobs, ttl_jobs) = self.jobs_in.entry(job.queue).or_default();
        *jobs += 1;
        *ttl_jobs += u32::from(job.has_ttl());
        if job.is_packet() && matches!(job.status(), Status::Ready | Status::GroupOnly) {
            assert!(self.grouped.insert(slot));
        }
        match job.status() {
            Status::Ready => self.ready += 1,
            Status::Reserved => {
                self.reserved_by.entry(job.holder()).or_default().insert(slot);
            }
            Status::Buried => {
                self.buried_in.entry(job.queue).or_default().insert(slot);
            }
            Status::Blocked | Status::Popped => {}
            Status::GroupOnly => {
                assert!(job.is_group_only(), "a job with a priority is group-only");
            }
            Status::Delayed | Status::Completed => {
                let expected = if job.is_held() { job.has_ttl() } else { true };
                assert_eq!(
                    !timer.is_none(),
                    expected,
                    "a delayed or completed job has no deadline, or a held one has another"
                );
            }
        }
        self.armed += usize::from(!timer.is_none());
        if matches!(job.status(), Status::Ready | Status::Blocked | Status::GroupOnly) {
            assert_eq!(
                !timer.is_none(),
                job.has_ttl(),
                "a waiting job has a time to live and no deadline, or the reverse"
            );
        }
    }
}

impl Store {
    /// The status of a job, read without side effects. O(log n).
    #[must_use]
    pub fn peek(&self, id: JobId) -> Option<JobStatus<'_>> {
        self.ids.find(id.0).map(|slot| self.progress(slot))
    }

    /// All jobs as their records would say it now, but for those that are popped. O(n): for tests.
    pub fn snapshots(&self) -> impl Iterator<Item = Snapshot<'_>> {
        let there = self.jobs.iter().filter(|(_, job)| job.status() != Status::Popped);
        there.map(|(slot, _)| self.snapshot(slot))
    }

    /// Changes how many steps a pass has for work that is spread over passes: for tests.
    pub fn set_spread_steps(&mut self, steps: usize) {
        self.spread.set_steps_per_pass(steps);
    }

    /// Whether the ticket has a waiter or a watcher. O(waiters of its client).
    #[must_use]
    pub fn is_waiting(&self, ticket: Ticket) -> bool {
        let takes = self.reservations.waiter(ticket, &self.waiters).is_some();
        let watches = self.watchers.find(ticket).is_some();
        let acts = self.actions.is_awaited(ticket) || self.index_work.is_awaited(ticket);
        let acts = acts || self.rankings.is_awaited(ticket);
        takes || watches || acts || self.registry_watchers.contains(ticket)
    }

    /// Asserts every invariant of the store. O(everything).
    ///
    /// # Panics
    /// If an invariant does not hold; the message names it.
    pub fn check_invariants(&self) {
        self.queues.check_invariants();
        let mut expected = Expected::default();
        for (slot, job) in self.jobs.iter() {
            assert!(self.ids.was_given_out(job.id()), "a job has an id that was not given out yet");
            let found = (job.status() != Status::Popped).then_some(slot);
            assert_eq!(self.ids.find(job.id()), found, "a job is not found by its id");
            expected.note(slot, job);
        }
        let content_bytes: usize = self.jobs.iter().map(|(_, job)| job.content_bytes()).sum();
        let counted = self.jobs.content_bytes();
        assert_eq!(counted, content_bytes, "the bytes of jobs are counted wrongly");
        let visible = self.jobs.len() - expected.popped.len();
        assert_eq!(self.ids.count(), visible, "ids and jobs differ in number");
        assert_eq!(self.large_pops.members(), expected.popped, "a popped job is of no pop");
        self.check_record_ids();
        self.queues.check_indexes(&self.jobs);
        self.check_constraints();
        self.check_disconnects();
        self.check_pauses();
        self.check_actions();
        self.check_schedules();
        self.check_dependencies_of_all();
        let ending = self.check_abandoned(&mut expected.reserved_by);
        for index in 0..u32::try_from(self.reservations.len()).unwrap_or(u32::MAX) {
            let listed: BTreeSet<JobIdx> =
                self.reservations.jobs_of(index, &self.jobs).into_iter().collect();
            let reserved = expected.reserved_by.remove(&Holder::client(index)).unwrap_or_default();
            assert_eq!(listed, reserved, "a client's list and its reservations differ");
        }
        self.check_workers(&mut expected.reserved_by, ending);
        assert!(expected.reserved_by.is_empty(), "a reserved job is in no list");
        self.check_watchers();
        self.external_ids.check_invariants(&self.jobs);
        self.check_global_ready();
        let grouped: BTreeSet<JobIdx> =
            self.key_groups.check_invariants(&self.jobs).into_iter().collect();
        assert_eq!(grouped, expected.grouped, "the groups and the waiting packets differ");
        self.unique_keys.check_invariants(&self.jobs, &self.queues);
        self.past_runs.check_invariants();
        self.check_deadlines(expected.armed);
        self.check_queues(&expected);
        self.check_counts();
        self.check_flows();
    }

    /// The ids of workers are below those that are given out next, those of declared queues,
    /// pauses, schedules and constraints above, and none is a job's.
    fn check_record_ids(&self) {
        self.queues.declared().check_invariants();
        let hidden = self.queues.declared().iter().map(|(_, record)| record.id);
        let hidden = hidden.chain(self.pauses.record_ids()).chain(self.schedules.record_ids());
        let hidden = hidden.chain(self.unique_keys.record_ids());
        let hidden = hidden.chain(self.past_runs.record_ids());
        let hidden = hidden.chain(self.dependencies.record_ids());
        for id in hidden.chain(self.constraints.record_ids()) {
            assert!(self.ids.is_hidden(id), "a record has an id that was not given out yet");
            assert_eq!(self.ids.find(id.0), None, "a record has a job's id");
        }
        for (_, worker) in self.workers.iter() {
            assert!(
                self.ids.was_given_out(worker.id.0),
                "a worker has an id that was not given out yet"
            );
            assert_eq!(self.ids.find(worker.id.0), None, "a worker has a job's id");
        }
    }

    fn check_deadlines(&self, armed_jobs: usize) {
        let waits = self.waiters.iter().filter(|(_, waiter)| !waiter.timer.is_none()).count();
        let others = waits + self.watchers.timers() + self.constraints.limiter_timers();
        let others = others + self.pauses.timers() + self.schedules.timers();
        let others = others + self.unique_keys.past_len() + self.past_runs.timers();
        assert_eq!(self.deadlines.len(), armed_jobs + others, "a deadline has no owner");
        self.deadlines.check_invariants(|timer, _, due| {
            let known = match due {
                Due::Job(slot) => Some(self.jobs[slot].timer()),
                Due::Waiter(waiter) => Some(self.waiters[waiter].timer),
                Due::Limiter(limiter) => self.constraints.limiter_timer(limiter),
                Due::Watcher(watcher) => Some(self.watchers.timer(watcher)),
                Due::Pause(queue) => self.pauses.timer(queue),
                Due::Schedules => Some(self.schedules.timer()),
                Due::PastKey(past) => Some(self.unique_keys.past(past).timer),
                Due::PastRuns => Some(self.past_runs.timer),
            };
            assert_eq!(known, Some(timer), "a deadline's owner has another one");
        });
    }

    fn check_queues(&self, expected: &Expected) {
        let mut places: BTreeSet<(WaiterIdx, QueueScope)> = self.waiters.places().collect();
        let mut parked = self.waiters.check_open_pops();
        let mut ready = 0;
        for (slot, queue) in self.queues.iter() {
            assert_eq!(queue.parked_pops, parked.remove(&slot).unwrap_or(0), "wrong parked pops");
            self.waiters.check_order(queue.waiters);
            let counted = expected.jobs_in.get(&slot).copied().unwrap_or_default();
            assert_eq!((queue.jobs, queue.ttl_jobs), counted, "a queue's count of jobs is wrong");
            let buried = queue.buried.jobs(&self.jobs);
            let in_order = buried.is_sorted_by_key(|&slot| self.jobs[slot].burial());
            assert!(in_order, "buried jobs are not in the order of burial");
            let buried: BTreeSet<JobIdx> = buried.into_iter().collect();
            let expected_buried = expected.buried_in.get(&slot).cloned().unwrap_or_default();
            assert_eq!(buried, expected_buried, "a queue's list of buried jobs is wrong");
            let excluded = queue.excluded.iter().flat_map(|excluded| excluded.iter());
            let excluded = excluded.map(|heap| (&*heap.excluded_workers, &heap.ready));
            for (excluded_workers, heap) in excluded.chain([(&[][..], &queue.ready)]) {
                heap.check_invariants(&self.jobs, |entry, position| {
                    let job = &self.jobs[entry.slot];
                    self.jobs.check_entry(entry, excluded_workers);
                    let known = self.jobs.heap_position(entry.slot);
                    assert_eq!(known, position, "a job's heap position is wrong");
                    assert_eq!(job.queue, slot, "a job is in a foreign heap");
                    ready += 1;
                });
            }
            let emptied = queue.excluded.as_ref().is_some_and(|excluded| excluded.is_empty());
            assert!(!emptied, "an empty list of excluded heaps is kept");
            if !self.may_be_unmatched(slot) {
                self.check_excluded(queue.waiters, queue.excluded.as_deref());
            }
            if let Some(entry) = queue.ready.peek()
                && !self.constraints.is_pending()
                && !self.may_be_unmatched(slot)
            {
                let wide = self.jobs[entry.slot].is_too_large_to_pop();
                let next = self.waiters.first(queue.waiters, wide);
                assert_eq!(next, None, "a waiter, or a pop to park, at the head of its queue");
            }
            for waiter in self.waiters.waiters_of(queue.waiters) {
                assert!(places.remove(&(waiter, slot.into())), "a waiter is in a wait queue twice");
            }
        }
        for waiter in self.waiters.waiters_of(self.global_ready.wait_queues) {
            assert!(places.remove(&(waiter, QueueScope::Any)), "a waiter is in a wait queue twice");
        }
        assert_eq!(ready, expected.ready, "a ready job is in no heap");
        assert!(places.is_empty(), "a waiter is in no wait queue");
        let stray = self.jobs.iter().find(|(_, job)| {
            matches!(job.status(), Status::Delayed | Status::Completed) && job.is_linked()
        });
        assert!(stray.is_none(), "a delayed or completed job is linked");
    }
}

impl Queues {
    /// Every row is in its queue's index, and nothing else is; below an index's cursor every job
    /// has a row.
    fn check_indexes(&self, jobs: &Jobs) {
        let mut rows = BTreeMap::<QueueIdx, usize>::new();
        for (slot, job) in jobs.iter().filter(|(_, job)| job.status() != Status::Popped) {
            let index = self[job.queue].index.as_ref();
            match (job.row(), index) {
                (None, None) => {}
                (None, Some(index)) => {
                    assert!(slot.slot() >= index.cursor, "backfill has passed over a job");
                }
                (Some(_), None) => panic!("a job of a queue without index has a row"),
                (Some(row), Some(index)) => {
                    let found = index.rows().get(&row.key());
                    let same = found.is_some_and(|found| Arc::ptr_eq(found, row));
                    assert!(
                        same && row.id.0 == job.id(),
                        "a job's row is not the one in the index"
                    );
                    assert!(!job.is_simple(), "a job with a row is simple");
                    *rows.entry(job.queue).or_default() += 1;
                }
            }
        }
        for (number, queue) in self.iter() {
            let Some(index) = &queue.index else { continue };
            index.check_invariants();
            let count = rows.get(&number).copied().unwrap_or_default();
            assert_eq!(index.rows().len(), count, "a row without a job");
            let exists = queue.jobs > 0 || index.declared.is_some() || *queue.name == *DEFAULT;
            assert!(exists, "a queue that does not exist is indexed");
        }
        let declared = self.iter().filter_map(|(_, queue)| queue.index.as_ref()?.declared);
        assert_eq!(declared.count(), self.declared().len(), "a declaration is of no queue");
        for (slot, record) in self.declared().iter() {
            let index = self[record.place].index.as_ref();
            let declared = index.and_then(|index| index.declared);
            assert_eq!(declared, Some(slot), "a declaration is of another queue");
        }
    }
}

//! The end of clients: their reserved jobs are requeued together, before any of them is handed
//! out.
//!
//! A client may have reserved a million jobs, more than one pass can requeue. The jobs of such a
//! client are requeued over several passes, and a queue that gets one back is *on hold* until the
//! last one is back: a reserve finds nothing there and waits, and waiters are not matched. So all
//! of them become available in one moment, and no other queue is delayed. Clients of this kind are
//! served one after the other. What a job frees elsewhere, such as capacity of a limiter, is free
//! at once. If the client waits for the ends of more jobs than one pass can handle, these waits end
//! over several passes, too.
//!
//! Jobs that many others wait for (`dependencies`) end in the same way: what they release becomes
//! available in one moment.
//!
//! So do workers that are deregistered. The end of the worker is recorded at once, and its client
//! is detached; its jobs are *abandoned* until they are requeued. They are reserved for no client:
//! a request about them is refused as if they were back, and who waits for the end of their
//! reservation is answered then. After a crash in between they are not reserved any more, because
//! their worker is not registered (`persist`).
//!
//! Invariants: a queue is marked exactly if it is in the list of marked queues; marked queues are
//! on hold while jobs of a client are being requeued, and lose their marks before the next
//! client's are. An abandoned job is in the list of its worker, whose entry stays until the list is
//! empty.

use super::idx::{Holder, HolderKind, JobIdx, QueueIdx, SourceIdx, WorkerIdx};
use super::job::Job;
use super::spread_work::HoldMarks;
use super::state_machine::Transition;
use super::{Effects, Store};
use crate::base::time::Now;
use crate::model::event::EventKind;
use crate::model::id::ClientId;
use crate::model::job::Status;
use crate::model::stats::JobCounter;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What has ended, so that many jobs become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Client(ClientId),
    Worker(WorkerIdx),
    Source(SourceIdx),
}

/// Clients that have ended. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Disconnects {
    /// Ended clients and workers with many reserved jobs or watchers, and sources of dependencies
    /// that have ended; the jobs of the first one are being requeued.
    pending: VecDeque<Ended>,
    /// How many of them are workers.
    worker_count: usize,
    /// Ended clients without reserved jobs, not reported yet.
    ended: VecDeque<ClientId>,
    /// Whether marked queues are on hold.
    holding: bool,
    /// Whether a tracked job was requeued, so that the global ready heap is on hold, too.
    holds_global: bool,
    marked: Vec<QueueIdx>,
    /// Marked queues that may have waiters.
    awaited: BTreeSet<QueueIdx>,
}

impl Disconnects {
    /// Whether some queues are on hold.
    #[inline]
    pub(super) fn is_holding(&self) -> bool {
        self.holding
    }

    /// Whether reserves without queue names find nothing.
    pub(super) fn holds_global(&self) -> bool {
        self.holds_global
    }

    /// Whether the client of this index has ended and has reserved jobs. O(ended clients): for
    /// checks.
    pub(super) fn is_ending(&self, index: u32) -> bool {
        let is_meant = |ended: &Ended| matches!(ended, Ended::Client(it) if it.index == index);
        self.pending.iter().any(is_meant)
    }

    /// A source that has ended is settled in later passes.
    pub(super) fn add_source(&mut self, source: SourceIdx) {
        self.pending.push_back(Ended::Source(source));
    }

    /// The sources that are settled in later passes. O(pending): for checks.
    pub(super) fn sources(&self) -> impl Iterator<Item = SourceIdx> {
        self.pending.iter().filter_map(|ended| match ended {
            Ended::Source(source) => Some(*source),
            Ended::Client(_) | Ended::Worker(_) => None,
        })
    }

    /// The deregistered workers whose jobs are requeued in later passes. O(pending): for checks.
    fn workers(&self) -> impl Iterator<Item = WorkerIdx> {
        self.pending.iter().filter_map(|ended| match ended {
            Ended::Worker(place) => Some(*place),
            Ended::Client(_) | Ended::Source(_) => None,
        })
    }

    /// Ended clients and marks that later passes end.
    fn unfinished(&self) -> usize {
        self.pending.len() + self.marked.len()
    }
}

impl Store {
    /// Ends a client: its waiters end unanswered, and its jobs are requeued together, before any
    /// waiter is matched. O(h log n) for the `h` jobs that it had reserved, over several passes if
    /// there are many; then [`Store::poll_disconnected`] reports the client.
    pub fn disconnect_client(&mut self, client: ClientId, now: Now, fx: &mut Effects) {
        while let Some(waiter) = self.reservations.first_waiter(client) {
            self.end_wait(waiter);
        }
        if let Some(place) = self.reservations.worker_of(client) {
            self.workers.detach(place, client, &mut self.reservations);
        }
        self.registry_watchers.disconnect_client(client);
        self.actions.remove_client(client);
        self.index_work.remove_client(client);
        self.rankings.remove_client(client);
        self.end_import(client);
        self.constraints.disconnect_client(client);
        let budget = self.spread.steps_left();
        let has_more_watchers = self.watchers.has_more_of(client, budget);
        if !has_more_watchers {
            while self.end_watcher(client) {}
        }
        if has_more_watchers || self.reservations.has_more_jobs(client, budget, &self.jobs) {
            self.disconnects.pending.push_back(Ended::Client(client));
            self.spread.begin_task();
        } else {
            let mut requeued = std::mem::take(&mut self.requeue_buf);
            while let Some(slot) = self.reservations.first_job(client) {
                if self.end_attempt_of_client(slot, now, fx) {
                    requeued.push(slot);
                }
                self.spread.spend(1);
            }
            self.end_client(client);
            self.requeue_batch(requeued, now, fx);
        }
        self.run_deferred(now, fx);
    }

    /// Ends a watcher of an ended client unanswered; whether there was one. O(log v).
    fn end_watcher(&mut self, client: ClientId) -> bool {
        let watcher = self.watchers.first_of(client);
        if let Some(watcher) = watcher {
            self.watchers.remove(watcher, &mut self.deadlines);
        }
        watcher.is_some()
    }

    /// The jobs of a deregistered worker are requeued in later passes. O(1).
    pub(super) fn begin_worker_end(&mut self, place: WorkerIdx) {
        debug_assert!(
            self.workers[place].registered.is_none() && self.workers[place].client.is_none(),
            "a worker whose jobs are taken back is not registered and has no client"
        );
        self.disconnects.pending.push_back(Ended::Worker(place));
        self.disconnects.worker_count += 1;
        self.spread.begin_task();
    }

    /// Whether the worker that has reserved this job was deregistered, and a later pass requeues
    /// the job. O(1) unless such workers are being ended, else O(log w) for a worker's job.
    #[inline]
    pub(super) fn is_abandoned(&self, job: &Job) -> bool {
        self.disconnects.worker_count > 0 && self.is_of_ended_worker(job)
    }

    #[cold]
    fn is_of_ended_worker(&self, job: &Job) -> bool {
        job.status() == Status::Reserved
            && job.worker().is_some_and(|worker| self.workers.find(worker).is_none())
    }

    /// Whether `client` has reserved `job`. O(1), or as [`Store::is_abandoned`].
    pub(super) fn has_reserved(&self, client: ClientId, job: &Job) -> bool {
        self.reservations.has_reserved(client, job) && !self.is_abandoned(job)
    }

    /// A client that has ended and has no reservations any more, each once. Only then may another
    /// client have its index. O(1).
    pub fn poll_disconnected(&mut self) -> Option<ClientId> {
        self.disconnects.ended.pop_front()
    }

    /// Requeues jobs of ended clients, up to what is left of `SPREAD_STEPS_PER_PASS`.
    /// O(log n) for each.
    pub(super) fn run_disconnects(&mut self, now: Now, fx: &mut Effects) {
        while self.disconnects.unfinished() > 0 && self.spread.steps_left() > 0 {
            self.spread.spend(1);
            if !self.disconnects.holding
                && let Some(queue) = self.disconnects.marked.pop()
            {
                debug_assert!(
                    self.queues[queue].holds.has(HoldMarks::RELEASED),
                    "a listed queue is marked"
                );
                self.queues[queue].holds.clear(HoldMarks::RELEASED);
                self.spread.end_task();
                self.queues.list_if_idle(queue);
                continue;
            }
            let Some(&ended) = self.disconnects.pending.front() else { return };
            self.disconnects.holding = true;
            match ended {
                Ended::Client(client) => {
                    if self.end_watcher(client) {
                        continue;
                    }
                    if let Some(slot) = self.reservations.first_job(client) {
                        if self.end_attempt_of_client(slot, now, fx) {
                            self.requeue_on_hold(slot, now, fx);
                        }
                        continue;
                    }
                    self.end_client(client);
                }
                Ended::Worker(place) => {
                    if let Some(slot) = self.reservations.first_detached(place) {
                        self.take_back(slot, now, fx);
                        self.requeue_on_hold(slot, now, fx);
                        continue;
                    }
                    self.workers.remove_entry(place);
                    debug_assert!(self.disconnects.worker_count > 0, "an ended worker is counted");
                    self.disconnects.worker_count -= 1;
                }
                Ended::Source(source) => {
                    if self.settle_edge(source, true, now, fx) {
                        continue;
                    }
                    self.finish_source(source, fx);
                }
            }
            self.disconnects.pending.pop_front();
            self.spread.end_task();
            self.end_hold();
        }
    }

    /// Takes a job from a client that has ended, and says whether it goes back to its queue: one
    /// whose attempts are used up is buried. O(log n).
    fn end_attempt_of_client(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) -> bool {
        self.take_back(slot, now, fx);
        self.jobs[slot].max_attempts() == 0 || self.end_attempt_by_loss(slot, now, fx)
    }

    /// Takes a job from who has reserved it and does not work on it any more; the caller requeues
    /// it. O(log n).
    pub(super) fn take_back(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) {
        debug_assert_eq!(self.jobs[slot].status(), Status::Reserved, "it takes back reserved jobs");
        fx.mark_dirty_if_worker_job(slot, &self.jobs[slot]);
        self.unlink_cold(slot);
        self.totals.count(JobCounter::Abandoned);
        if self.jobs[slot].has_row() {
            self.queues.record_event(slot, EventKind::Abandoned, now, &mut self.jobs, fx);
        }
    }

    /// Counts an attempt that ended with its connection. Returns false if that was the last one:
    /// then the job is buried.
    #[cold]
    fn end_attempt_by_loss(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) -> bool {
        debug_assert!(
            self.jobs[slot].status() == Status::Reserved && self.jobs[slot].max_attempts() > 0,
            "an attempt of a limited number ends with its reservation"
        );
        let left = self.jobs[slot].attempts_left();
        self.jobs.change(slot, |job| {
            job.count_attempt();
            job.set_run_error("LeaseExpired", "the connection of its worker was lost", now.wall);
        });
        fx.mark_state_dirty(slot, &self.jobs[slot]);
        if !left {
            if self.jobs[slot].has_row() {
                self.queues.record_transition(slot, Transition::Bury, now, &mut self.jobs, fx);
            }
            self.link_buried(slot, now);
            self.notify_end_if_watched(slot, now, fx);
        }
        left
    }

    /// Requeues an unlinked job, unless it has expired; its queue is on hold from now on. O(log n).
    fn requeue_on_hold(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) {
        debug_assert!(
            !self.jobs[slot].is_reservation_durable(),
            "a job that was taken back is no worker's"
        );
        if self.jobs[slot].is_expired(now) {
            drop(self.remove(slot, fx));
            return;
        }
        self.enqueue_on_hold(slot, now);
    }

    /// Adds an unlinked job to its queue, which is on hold from now on. O(log n).
    pub(super) fn enqueue_on_hold(&mut self, slot: JobIdx, now: Now) {
        let queue = self.jobs[slot].queue;
        debug_assert!(self.disconnects.holding, "queues are marked while jobs are requeued");
        if !self.queues[queue].holds.has(HoldMarks::RELEASED) {
            self.queues[queue].holds.set(HoldMarks::RELEASED);
            self.disconnects.marked.push(queue);
            self.spread.begin_task();
            self.disconnects.awaited.insert(queue);
        }
        self.disconnects.holds_global |= self.jobs[slot].is_tracked();
        self.enqueue(slot, now);
    }

    /// All jobs of a client are back: their queues are matched, the most urgent job first. O(1),
    /// or O(queues with waiters of an earlier client) if those are not matched yet.
    fn end_hold(&mut self) {
        debug_assert!(self.disconnects.holding, "a hold ends that has begun");
        self.disconnects.holding = false;
        let global = std::mem::take(&mut self.disconnects.holds_global);
        self.constraints.schedule_released(&mut self.disconnects.awaited, global);
    }

    fn end_client(&mut self, client: ClientId) {
        self.reservations.end(client);
        self.disconnects.ended.push_back(client);
    }

    /// Whether a queue hands out nothing now. Then it is matched when it may again. A reserve that
    /// does not wait is answered then, but of a paused queue at once. O(1), and O(log queues) if it
    /// is on hold.
    #[inline]
    pub(super) fn is_on_hold(&mut self, queue: QueueIdx) -> bool {
        self.queues[queue].holds.any() && self.note_hold(queue)
    }

    #[cold]
    fn note_hold(&mut self, queue: QueueIdx) -> bool {
        if self.is_released(queue) {
            self.disconnects.awaited.insert(queue);
        }
        if self.queues[queue].holds.has(HoldMarks::PAUSED) {
            return true;
        }
        let on_hold = self.is_hold_brief(queue);
        if on_hold {
            self.constraints.note_hold();
        }
        on_hold
    }

    /// Whether jobs of a client that has ended are being requeued, some of them to this queue.
    fn is_released(&self, queue: QueueIdx) -> bool {
        self.disconnects.holding && self.queues[queue].holds.has(HoldMarks::RELEASED)
    }

    /// Whether a queue is on hold until something ends that takes a few passes. Not if it is
    /// paused: no reserve is deferred until that ends. O(1).
    pub(super) fn is_hold_brief(&self, queue: QueueIdx) -> bool {
        let holds = self.queues[queue].holds;
        !holds.has(HoldMarks::PAUSED) && (self.is_released(queue) || holds.has(HoldMarks::GATHERED))
    }

    /// Whether waiters of this queue may be unmatched because it is on hold. For checks. O(1).
    pub(super) fn may_be_unmatched(&self, queue: QueueIdx) -> bool {
        self.is_hold_brief(queue) || self.queues[queue].holds.has(HoldMarks::PAUSED)
    }

    /// Asserts that the marks of queues and their list agree. O(queues): for checks.
    pub(super) fn check_disconnects(&self) {
        let marked: BTreeSet<QueueIdx> = self.disconnects.marked.iter().copied().collect();
        assert_eq!(marked.len(), self.disconnects.marked.len(), "a queue is marked twice");
        for (number, queue) in self.queues.iter() {
            let is_marked = queue.holds.has(HoldMarks::RELEASED);
            assert_eq!(is_marked, marked.contains(&number), "a mark is wrong");
        }
        assert!(self.disconnects.awaited.is_subset(&marked), "an awaited queue is not on hold");
        let worker_count = self.disconnects.workers().count();
        assert_eq!(worker_count, self.disconnects.worker_count, "ended workers are miscounted");
        let Disconnects { holding, holds_global, .. } = self.disconnects;
        assert!(holding || self.disconnects.awaited.is_empty(), "released queues are not matched");
        let unfinished = self.disconnects.unfinished() + self.large_pops.len();
        let unfinished = unfinished + self.pauses.unfinished() + self.actions.running();
        let unfinished = unfinished + self.index_work.running() + self.awaited_ends.len();
        let unfinished = unfinished + self.rankings.unfinished();
        let unfinished = unfinished + self.dependencies.unfinished();
        assert_eq!(self.spread.tasks(), unfinished, "work that is spread is counted wrongly");
        assert!(holding || !holds_global, "the global ready heap is on hold without reason");
        assert!(
            !holding || !self.disconnects.pending.is_empty(),
            "queues are on hold while no client ends"
        );
    }

    /// Asserts that the abandoned jobs are those in the lists of deregistered workers, and removes
    /// them from `reserved_by`. Returns the number of these workers. For checks.
    pub(super) fn check_abandoned(
        &self,
        reserved_by: &mut BTreeMap<Holder, BTreeSet<JobIdx>>,
    ) -> usize {
        for place in self.disconnects.workers() {
            assert!(self.workers[place].registered.is_none(), "a registered worker has ended");
            for (number, slot) in
                self.reservations.jobs_detached(place, &self.jobs).iter().enumerate()
            {
                let job = &self.jobs[*slot];
                assert_eq!(job.worker(), Some(self.workers[place].id), "a job of another worker");
                assert!(number > 0 || job.holder() == Holder::detached(place), "a wrong holder");
                let reserved = reserved_by.get_mut(&job.holder());
                assert!(reserved.is_some_and(|slots| slots.remove(slot)), "it is not reserved");
            }
        }
        reserved_by.retain(|_, slots| !slots.is_empty());
        for (holder, slots) in reserved_by {
            // The client of the worker may have ended before, and keeps its list.
            let is_ending =
                matches!(holder.kind(), HolderKind::Client(it) if self.disconnects.is_ending(it));
            let is_abandoned = |slot: &JobIdx| self.is_abandoned(&self.jobs[*slot]);
            assert!(
                is_ending || !slots.iter().any(is_abandoned),
                "an abandoned job is not in the list of its worker"
            );
        }
        self.disconnects.worker_count
    }
}

#[cfg(test)]
mod tests;

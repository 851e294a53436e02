//! L2: the store: a pure and total state machine over jobs, queues, waiters, reservations and
//! deadlines.
//!
//! [`Store::apply`] takes a command and the time and writes what came of it into [`Effects`]. It
//! does no I/O and reads no clock; randomness comes from a seeded generator. A rejection is a
//! value. `matching` hands jobs out, `transitions` changes them, `state_machine` says which change
//! is legal; most other files keep one structure each.
//!
//! Invariants, asserted by [`Store::check_invariants`]:
//! - a job is linked exactly where its status says: in its queue's heap at the position it knows,
//!   in the heap of its job class while blocked, in the list of its client or worker, in the buried
//!   list of its queue, or nowhere; a waiting packet is in its key group;
//! - between two commands no queue has a ready head and a waiter that is eligible for it;
//! - a job has at most one deadline, that of its status;
//! - a queue without jobs and waiters is in the idle list, or is not remembered, or is indexed.
//!
//! Costs: `n` is the number of ready jobs of the one queue concerned, `q` the number of queues that
//! a reserve names, `d` the number of deadlines. No cost depends on the number of clients or
//! queues, or on jobs of other queues. An expired job is removed when its deadline fires or when a
//! reserve meets it at the head of its queue, whichever comes first: such a reserve pays O(log n +
//! log d) for each, once. It removes a bounded number; if there are more, it is answered in a later
//! pass, and meanwhile the queue is not considered by reserves that find a job in another one.

mod buried;
mod check;
mod check_workers;
mod constraints;
mod consumers;
mod deferred_replies;
mod delays;
mod dependencies;
mod disconnects;
mod effects;
mod excluded;
mod external_id_commands;
mod external_ids;
mod flows;
mod global_ready;
mod heads;
mod history;
mod ids;
mod idx;
mod indexed_commands;
mod job;
mod job_deadlines;
mod job_ext;
mod job_watchers;
mod jobs;
mod key_groups;
mod large_pops;
mod manage;
mod matching;
mod open_tickets;
mod pass;
mod past_runs;
mod payload_head;
mod persist;
mod queue_index;
mod queue_interest;
mod queues;
mod rank;
mod rare_counts;
mod ready_heaps;
mod record_tables;
mod registry_watchers;
mod removal;
mod requeue_together;
mod reservations;
mod retry;
mod run_state;
mod short_lease;
mod spread_work;
mod state_machine;
mod stats;
mod subscriptions;
mod transitions;
mod unique_keys;
mod views;
mod waiters;
mod worker_commands;
mod worker_registry;

use crate::base::limits::{COMPARED_BYTES_PER_WORK, JOBS_MAX};
use crate::base::paged::PAGED_SLAB_MAX;
use crate::base::rng::Rng;
use crate::base::time::{Mono, Now};
use crate::base::timer_queue::TimerQueue;
use crate::model::backup::BackupStep;
use crate::model::command::Command;
use crate::model::flow::FlowKind;
use crate::model::id::{JobId, Ticket};
use crate::model::job::{JobOptions, Payload, Priority, Status, TieBreak};
use crate::model::reply::Rejection;
use crate::model::stats::{JobCounter, JobTotals};
use constraints::Constraints;
use dependencies::Dependencies;
use disconnects::Disconnects;
pub use effects::{DirtyRecord, Effects, NativeSearch, Outcome, SearchRequest};
use external_ids::ExternalIds;
use flows::Flows;
use ids::Ids;
pub use idx::{
    ConstraintIdx, ConstraintRecordIdx, DeclarationIdx, JobIdx, LossIdx, PastKeyIdx, PastRunIdx,
    PauseIdx, ScheduleIdx, WorkerIdx,
};
use idx::{LimiterIdx, QueueIdx, WaiterIdx, WatcherIdx};
use job::Job;
use job_watchers::JobWatchers;
use jobs::Jobs;
use key_groups::KeyGroups;
use large_pops::LargePops;
use manage::{Actions, IndexWork, Pauses, Rankings, Schedules};
pub use manage::{RewriteLimit, ScheduleHold};
use past_runs::PastRuns;
use queue_index::NO_STATE;
use queues::Queues;
use rare_counts::RareStatus;
use ready_heaps::GlobalReady;
pub use record_tables::RecordKey;
use registry_watchers::RegistryWatchers;
use reservations::Reservations;
use spread_work::SpreadWork;
use state_machine::JobEvent;
pub use stats::{Counts, JOB_MEMORY_BYTES};
use std::collections::VecDeque;
use transitions::TransitionRequest;
use unique_keys::UniqueKeys;
use waiters::Waiters;
use worker_registry::Workers;

/// What a deadline is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// The status of the job in this slot ends.
    Job(JobIdx),
    /// The timeout of this waiter.
    Waiter(WaiterIdx),
    /// A limiter gets its next token, or is full of tokens and can be dropped.
    Limiter(LimiterIdx),
    /// The timeout of this watcher.
    Watcher(WatcherIdx),
    /// The end of the pause of this queue.
    Pause(QueueIdx),
    /// The next moment of a schedule, or a look at the wall clock.
    Schedules,
    /// This key is free again.
    PastKey(PastKeyIdx),
    /// The first completed run is forgotten.
    PastRuns,
}

const _: () = assert!(JOBS_MAX <= PAGED_SLAB_MAX, "the job table has a slot for each job");

/// Capacity, in jobs, that `requeue_buf` keeps between two uses.
const REQUEUE_BUF_CAPACITY: usize = 4096;

/// The store. See the module documentation for invariants and costs.
#[derive(Debug)]
pub struct Store {
    jobs: Jobs,
    ids: Ids,
    queues: Queues,
    waiters: Waiters,
    reservations: Reservations,
    key_groups: KeyGroups,
    deadlines: TimerQueue<Due>,
    constraints: Constraints,
    workers: Workers,
    global_ready: GlobalReady,
    watchers: JobWatchers,
    registry_watchers: RegistryWatchers,
    external_ids: ExternalIds,
    disconnects: Disconnects,
    large_pops: LargePops,
    past_runs: PastRuns,
    /// Ended jobs that some wait for who are not answered yet.
    awaited_ends: VecDeque<JobId>,
    pauses: Pauses,
    unique_keys: UniqueKeys,
    dependencies: Dependencies,
    actions: Actions,
    index_work: IndexWork,
    /// Steps of backups for the engine.
    backup_steps: Vec<(Ticket, BackupStep)>,
    schedules: Schedules,
    flows: Flows,
    rankings: Rankings,
    spread: SpreadWork,
    rng: Rng,
    totals: JobTotals,
    /// Jobs that are requeued together. Reused.
    requeue_buf: Vec<JobIdx>,
}

impl Store {
    /// An empty store. `seed` keys the hashes of names, so that clients cannot choose names that
    /// collide, and the jitter of retries.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            jobs: Jobs::default(),
            ids: Ids::default(),
            queues: Queues::new(seed),
            waiters: Waiters::default(),
            reservations: Reservations::default(),
            key_groups: KeyGroups::new(seed),
            deadlines: TimerQueue::default(),
            constraints: Constraints::default(),
            workers: Workers::default(),
            global_ready: GlobalReady::default(),
            watchers: JobWatchers::default(),
            registry_watchers: RegistryWatchers::default(),
            external_ids: ExternalIds::new(seed),
            disconnects: Disconnects::default(),
            large_pops: LargePops::default(),
            past_runs: PastRuns::default(),
            awaited_ends: VecDeque::new(),
            pauses: Pauses::default(),
            unique_keys: UniqueKeys::new(seed),
            dependencies: Dependencies::default(),
            actions: Actions::default(),
            index_work: IndexWork::default(),
            backup_steps: Vec::new(),
            schedules: Schedules::default(),
            flows: Flows::default(),
            rankings: Rankings::default(),
            spread: SpreadWork::default(),
            rng: Rng::new(seed),
            totals: JobTotals::default(),
            requeue_buf: Vec::new(),
        }
    }

    /// Executes one command. The ticket is answered exactly once: in `effects` now, or by a later
    /// call if the command waits.
    #[inline(never)]
    pub fn apply(&mut self, ticket: Ticket, command: &Command<'_>, now: Now, fx: &mut Effects) {
        debug_assert!(!self.watchers.has_ended(), "a call answers the watchers that it ends");
        match *command {
            Command::Put { queue, priority, tie_break, payload, options } => {
                self.put(ticket, queue, (priority, tie_break, payload), options, now, fx);
            }
            Command::Reserve { queues, wait } => self.reserve(ticket, queues, wait, now, fx),
            Command::Delete { id } => self.delete(ticket, id, now, fx),
            Command::DeleteOwn { id } => self.delete_own(ticket, id, now, fx),
            Command::Release { id, lease } => {
                self.request_transition(
                    ticket,
                    &TransitionRequest::of(id, lease, JobEvent::Release),
                    now,
                    fx,
                );
            }
            _ => self.apply_cold(ticket, command, now, fx),
        }
        self.run_deferred(now, fx);
    }

    /// Ends a call: runs pending work of constraints, then answers watchers that ended meanwhile.
    #[inline(always)]
    fn run_deferred(&mut self, now: Now, fx: &mut Effects) {
        if self.constraints.is_pending() {
            self.run_pending(now, fx);
        }
        if self.watchers.has_ended() {
            self.watchers.answer_ended(fx);
        }
    }

    #[inline(never)]
    fn apply_cold(&mut self, ticket: Ticket, command: &Command<'_>, now: Now, fx: &mut Effects) {
        let request = match *command {
            Command::Pop { queues, wait } => return self.pop(ticket, queues, wait, now, fx),
            Command::Subscribe { serial: take, queue } => {
                return self.subscribe(ticket, take, queue, now, fx);
            }
            Command::Unsubscribe { serial: take, queue } => {
                return self.unsubscribe(ticket, take, queue, fx);
            }
            Command::KickQueue { queue, limit } => {
                return self.kick_queue(ticket, queue, limit, now, fx);
            }
            Command::Peek { id } => return self.peek_job(ticket, id, now, fx),
            Command::Indexed(ref watch) => return self.indexed_command(ticket, watch, now, fx),
            Command::Consumer(ref consumer) => {
                return self.consumer_command(ticket, consumer, now, fx);
            }
            Command::Manage(ref manage) => return self.manage_command(ticket, manage, now, fx),
            Command::Work(ref work) => return self.worker_command(ticket, work, now, fx),
            Command::Touch { id, lease: None } if self.ids.find(id.0).is_none() => {
                return self.touch_gone(ticket, id, now, fx);
            }
            Command::Touch { id, lease } => TransitionRequest::of(id, lease, JobEvent::Touch),
            Command::Finish { id, lease, result } => TransitionRequest {
                note: Some(result),
                ..TransitionRequest::of(id, lease, JobEvent::Finish)
            },
            Command::Fail { id, lease, retry, error } => TransitionRequest {
                note: Some(error),
                ..TransitionRequest::of(id, lease, JobEvent::Fail { retry })
            },
            Command::Bury { id, lease } => TransitionRequest::of(id, lease, JobEvent::Bury),
            Command::Kick { id } => TransitionRequest::of(id, None, JobEvent::Kick),
            Command::Put { .. }
            | Command::Reserve { .. }
            | Command::Delete { .. }
            | Command::DeleteOwn { .. }
            | Command::Release { .. } => unreachable!("handled by the caller"),
        };
        self.request_transition(ticket, &request, now, fx);
    }

    /// Adds a job. O(log n), or O(queues of the waiter) if a waiter gets it at once.
    #[inline(always)]
    fn put(
        &mut self,
        ticket: Ticket,
        queue: &[u8],
        (priority, tie_break, payload): (Priority<'_>, TieBreak, Payload<'_>),
        options: Option<&JobOptions>,
        now: Now,
        fx: &mut Effects,
    ) {
        if self.is_full() {
            return fx.answer(ticket, Outcome::Rejected(Rejection::Full));
        }
        let lease_s = options.map_or(0, |options| options.short_lease_s(payload.encoding));
        let slot =
            self.insert_job(ticket, queue, (priority, tie_break, (payload, lease_s)), now, fx);
        match options {
            Some(options) if lease_s == 0 => self.apply_options(slot, options, now, fx),
            _ => {
                if !self.constraints.is_empty() {
                    self.attach_limiters(slot, now);
                }
                self.make_ready(slot, now, fx);
            }
        }
    }

    /// Whether the ids or the slots of jobs are used up.
    #[inline(always)]
    fn is_full(&self) -> bool {
        self.ids.is_exhausted() || self.jobs.len() >= JOBS_MAX
    }

    /// Adds an unlinked job, with a short lease if it is given one, answers the put and marks it
    /// dirty. O(1).
    #[inline(always)]
    fn insert_job(
        &mut self,
        ticket: Ticket,
        queue: &[u8],
        what: (Priority<'_>, TieBreak, (Payload<'_>, u16)),
        now: Now,
        fx: &mut Effects,
    ) -> JobIdx {
        let (id, slot) = self.add_job(queue, what, now, fx);
        fx.answer(ticket, Outcome::Put(id));
        slot
    }

    /// Adds an unlinked job and marks it dirty. O(1).
    #[inline(always)]
    fn add_job(
        &mut self,
        queue: &[u8],
        (priority, tie_break, (payload, lease_s)): (Priority<'_>, TieBreak, (Payload<'_>, u16)),
        now: Now,
        fx: &mut Effects,
    ) -> (JobId, JobIdx) {
        debug_assert!(!self.is_full(), "the caller has checked that there is a slot and an id");
        let id = self.ids.take();
        self.totals.count(JobCounter::Put);
        let queue = self.queues.find_or_add_noted(queue, &mut self.waiters);
        let slot =
            self.jobs.insert(Job::new(id, queue, priority, tie_break, (payload, lease_s), now));
        self.ids.insert(id, slot);
        let record = &mut self.queues[queue];
        record.jobs += 1;
        record.flow.count(FlowKind::Put);
        if !record.takes_plain_puts {
            self.note_put(slot, payload, now);
        }
        fx.mark_dirty(DirtyRecord::Put(RecordKey::Job(slot), JobId(id)));
        (JobId(id), slot)
    }

    /// Notes a put into a queue that is not heard of yet, or is indexed. O(log q + log n).
    #[cold]
    fn note_put(&mut self, slot: JobIdx, payload: Payload<'_>, now: Now) {
        let queue = self.jobs[slot].queue;
        self.queues.list_name(queue);
        if self.queues[queue].is_indexed() {
            self.queues.record_put(slot, payload.bytes, NO_STATE, now, &mut self.jobs);
        }
        debug_assert!(self.queues[queue].is_listed(), "a queue with jobs is listed");
    }

    /// Sets the options of a new job, then delays it or makes it ready. O(log n + log d).
    #[cold]
    fn apply_options(&mut self, slot: JobIdx, options: &JobOptions, now: Now, fx: &mut Effects) {
        let job = &mut self.jobs[slot];
        job.apply_options(options, now);
        if job.has_ttl() {
            self.queues[job.queue].ttl_jobs += 1;
        }
        debug_assert!(!job.has_short_lease(), "the lease of a job with options is one of them");
        if !self.constraints.is_empty() {
            self.attach_limiters(slot, now);
        }
        self.delay(slot, options.delay_ms, now, fx);
    }

    /// Deletes a job, whatever its status and its reserver. O(log n).
    #[inline(always)]
    fn delete(&mut self, ticket: Ticket, id: JobId, now: Now, fx: &mut Effects) {
        let Some(slot) = self.ids.remove(id.0) else {
            return fx.answer(ticket, Outcome::NoJob);
        };
        self.delete_found(ticket, (id, slot), now, fx);
    }

    /// [`Store::delete`] of a job whose id is unknown already.
    #[inline(always)]
    fn delete_found(
        &mut self,
        ticket: Ticket,
        (id, slot): (JobId, JobIdx),
        now: Now,
        fx: &mut Effects,
    ) {
        let job = &self.jobs[slot];
        debug_assert_eq!(job.id(), id.0, "a job is found by the id of another one");
        let queue = job.queue;
        match job.status() {
            Status::Reserved if job.is_simple() => self.reservations.unlink(slot, &mut self.jobs),
            Status::Ready if job.is_simple() => {
                let position = self.jobs.heap_position(slot);
                let record = &mut self.queues[queue];
                debug_assert!(record.ready.at(position).slot == slot, "a job knows its heap entry");
                record.ready.remove(position, &mut self.jobs);
                // Counted below, as is one that was reserved.
                record.flow.uncount(FlowKind::Completed);
                self.totals.withdrawn += 1;
            }
            Status::Reserved if job.is_simple_but_for_lease() && self.watchers.is_empty() => {
                self.reservations.unlink(slot, &mut self.jobs);
                let timer = self.jobs[slot].timer();
                if !timer.is_none() {
                    self.deadlines.cancel(timer);
                }
            }
            _ => return self.delete_cold(ticket, slot, now, fx),
        }
        drop(self.jobs.remove(slot));
        self.totals.count(JobCounter::Deleted);
        fx.answer(ticket, Outcome::Done);
        fx.mark_dirty(DirtyRecord::Gone(RecordKey::Job(slot), id));
        let record = &mut self.queues[queue];
        debug_assert!(record.jobs > 0, "a queue counts fewer jobs than it has");
        record.jobs -= 1;
        debug_assert!(record.ready.len() <= record.jobs as usize, "a ready job is counted");
        record.flow.count(FlowKind::Completed);
        let has_waiters = !record.waiters.is_empty();
        if record.index.is_some() {
            record.stop_indexing_if_gone();
        }
        if has_waiters {
            self.match_queue(queue, now, fx);
        } else if record.jobs == 0 {
            self.queues.list_if_idle(queue);
        }
    }

    /// Work since the last call beside what the size of a command tells, in the unit of
    /// `INPUT_WORK_PER_PASS`: comparing long priorities, waits on many queues, and pops of key
    /// groups. O(1).
    #[inline]
    pub fn take_work(&mut self) -> usize {
        self.jobs.take_compared_bytes() / COMPARED_BYTES_PER_WORK + self.waiters.take_work()
    }

    /// The moment of the next deadline; 0 while work of constraints, or work that is spread over
    /// passes, is pending, or idle queues are to be dropped. O(1), exact.
    #[must_use]
    #[inline]
    pub fn next_deadline(&self) -> Option<Mono> {
        let pending = self.constraints.is_pending() || self.spread.is_pending();
        if pending || self.queues.has_idle_surplus() {
            return Some(Mono(0));
        }
        self.deadlines.next()
    }
}

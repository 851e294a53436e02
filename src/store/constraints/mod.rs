//! Constraints: limits on running jobs and on starts in a time.
//!
//! A put checks once which constraints match its job ([`matcher`]). Each matching constraint has a
//! *limiter* for the job ([`limiter`]). A job may start when each of its limiters has capacity:
//! fewer running jobs than `max_running`, and a token by `rate`. Capacity is consumed when a job is
//! reserved, not when it becomes ready: a ready job without a consumer uses none. [`capacity`]
//! keeps these counts. [`job_class`] says which jobs are in the ready heap meanwhile, [`admission`]
//! how that changes,
//! [`match_scheduler`] which waiter is matched when there is capacity, and [`lifecycle`] how
//! constraints are set, changed and removed. `docs/internals/constraints.md` draws the state
//! machine.
//!
//! Invariants, between two commands:
//!
//! - no limiter has more running jobs than its limit, or than an earlier limit had admitted, and no
//!   job was started without a token;
//! - a limiter's running count is the number of its reserved jobs;
//! - a blocked waitlist at a limiter with capacity is in a list of pending work;
//! - exactly the head of an open waitlist is in the ready heap;
//! - where no work is pending, no waiter is eligible for a job that may run.
//!
//! Costs: without constraints one test for each put. With them a put pays O(conditions + payload),
//! for the conditions of all constraints: one walk through the payload finds all that they name,
//! and none is made if the queue names decide. A job of a class pays O(log n) when it becomes
//! ready, when it enters the ready heap, and when it leaves. A reserve that meets a job which may
//! not run pays O(k + log n) for its k limiters and moves the whole class, or blocks the whole
//! waitlist, with it; no reserve meets that again before its limiter has capacity. A class starts
//! in the waitlist of its most shared limiter, so that few jobs that share a limiter are in ready
//! heaps when it becomes full.
//!
//! Blocking and unblocking are budgeted in steps: [`CONSTRAINT_STEPS_PER_COMMAND`] for each
//! command, each queue named by a reserve and each waiter matched, and
//! [`CONSTRAINT_STEPS_PER_PASS`] for a pass beside these. Unfinished work continues at the end of
//! this or a later pass; until it is done, [`super::Store::next_deadline`] is "now". A reserve that
//! exhausts its budget, because very many jobs in the ready heap may not run (a limit was lowered
//! under jobs with key values of their own), gets the best job that it has seen, or waits until the
//! scan ends, even if it is one that does not wait. It answers "no job" only after a complete scan
//! of its queues. A changed constraint is applied to existing jobs by a scan of a
//! bounded number of jobs in each pass; a change of limits alone costs one step for each limiter.
//!
//! Memory of a limiter: its key value (a hash, if longer than 256 bytes) twice, and a class and a
//! waitlist for each queue, until the last of its jobs is gone, and with a rate until its token
//! bucket is full.
//!
//! Packets and group-only jobs are never blocked: a key group leaves as one, whatever its members.
//! A pop starts and ends a job at once: it takes a token.

mod admission;
mod capacity;
mod check;
mod job_class;
mod lifecycle;
mod limiter;
mod match_scheduler;
mod matcher;
#[cfg(test)]
mod tests;

use crate::base::limits::{CONSTRAINT_STEPS_PER_COMMAND, CONSTRAINT_STEPS_PER_PASS};
use crate::base::paged::PagedSlab;
use crate::base::slab_index::PackedOption;
use crate::base::time::{Mono, Now};
use crate::model::id::{ClientId, JobId, Ticket};
use crate::model::worker::{Constraint, ConstraintReply};
use crate::store::idx::{
    ConstraintIdx, ConstraintRecordIdx, JobClassIdx, LimiterIdx, QueueIdx, WaiterIdx, WaitlistIdx,
};
use crate::store::record_tables::RecordTable;
use crate::wire::Paths;
use job_class::{Eligibility, JobClass, LimiterWaitlist, OrderKey};
use limiter::{Limiter, TokenBucket};
use match_scheduler::ScheduledMatches;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

/// Position of the scan over the job table: round, and slot.
type ScanPos = (u64, u32);

/// A constraint that is active, or was and still has limiters.
#[derive(Debug)]
struct ConstraintState {
    definition: Constraint,
    /// Its record, by which the journal knows it; `None` if inactive.
    record: Option<ConstraintRecordIdx>,
    /// Its limiters by key value.
    limiter_by_value: BTreeMap<Box<[u8]>, LimiterIdx>,
    /// The scan has evaluated this constraint for all earlier jobs when it is here.
    scanned_at: ScanPos,
    /// When the rate was set.
    rate_since: Mono,
    /// Whether the token buckets of new limiters start full.
    starts_full: bool,
    /// Inactive because another definition has its place: its jobs do not start before the scan has
    /// evaluated the new one.
    replaced: bool,
}

impl ConstraintState {
    /// Whether `running` jobs are as many as a limiter of it admits.
    fn is_at_max(&self, running: u32) -> bool {
        self.definition.max_running.is_some_and(|max| running >= max)
    }

    /// The token bucket of a new limiter.
    fn new_tokens(&self, now: Now) -> TokenBucket {
        if self.starts_full {
            TokenBucket::full(self.definition.rate, now.mono)
        } else {
            TokenBucket::empty(self.definition.rate, self.rate_since)
        }
    }

    /// Whether it applies to new jobs.
    fn is_active(&self) -> bool {
        self.record.is_some()
    }
}

/// All constraints and the jobs that they block.
#[derive(Debug, Default)]
pub(super) struct Constraints {
    states: PagedSlab<ConstraintState, ConstraintIdx>,
    by_name: BTreeMap<Box<str>, ConstraintIdx>,
    /// The payload paths of all conditions; `None` after a change, until next asked for.
    paths: Option<Paths>,
    /// Records of the active constraints.
    records: RecordTable<ConstraintIdx, ConstraintRecordIdx>,
    limiters: PagedSlab<Limiter, LimiterIdx>,
    classes: PagedSlab<JobClass, JobClassIdx>,
    /// Classes by queue, eligibility and limiters.
    class_index: BTreeMap<(QueueIdx, Eligibility, Box<[LimiterIdx]>), JobClassIdx>,
    waitlists: PagedSlab<LimiterWaitlist, WaitlistIdx>,
    /// Waitlists by limiter, queue and eligibility.
    waitlist_index: BTreeMap<(LimiterIdx, QueueIdx, Eligibility), WaitlistIdx>,
    /// Limiters that may have gained capacity; each once (`Limiter::dirty`).
    dirty: VecDeque<LimiterIdx>,
    /// Queues (or the global ready heap) with a new head for which there may be a waiter.
    queues_to_match: ScheduledMatches,
    /// Paused limiters, by the queue of the job that they have unblocked last.
    paused: BTreeSet<(QueueIdx, LimiterIdx)>,
    /// Paused limiters with blocked waitlists, by the first key there.
    paused_by_key: BTreeSet<(OrderKey, LimiterIdx)>,
    /// Queues where pops wait behind a job that is too large for them and may run.
    queues_with_blocked_pops: BTreeSet<QueueIdx>,
    /// Of these, the ones whose job may have lost its capacity.
    queues_to_recheck: BTreeSet<QueueIdx>,
    /// Queues that are no longer on hold and may have waiters: scheduled before any is matched.
    released: BTreeSet<QueueIdx>,
    /// Limiters whose constraint waits for the scan.
    limiters_awaiting_scan: VecDeque<LimiterIdx>,
    /// Of these, the ones that the scan may have settled.
    limiters_scanned: VecDeque<LimiterIdx>,
    /// Constraints whose limits have changed, and the key value of the limiter rechecked last.
    changed_limits: VecDeque<(ConstraintIdx, Option<Box<[u8]>>)>,
    /// Reserves without wait whose scan is incomplete, as waiters; "no job" is answered when the
    /// scan has ended.
    deferred_replies: VecDeque<(WaiterIdx, Ticket)>,
    /// Commands that have changed a constraint, in order: they are answered when the change is in
    /// force for all jobs.
    change_replies: VecDeque<ChangeReply>,
    /// Whether this command has skipped a job for which its reserve may be eligible.
    scan_incomplete: bool,
    /// Whether [`Store::run_pending`](super::Store) has work.
    pending: bool,
    scan_pos: ScanPos,
    /// The scan ends here.
    scan_until: ScanPos,
    /// Work of the scan in this pass.
    scanned: ScanProgress,
    /// Number of changes of constraints so far.
    revision: u64,
    /// Steps so far: jobs, classes and waitlists moved or checked, expired jobs removed by scans.
    steps: u64,
    /// Steps of this pass that count against [`BudgetLimits::per_pass`].
    steps_used: u64,
    limits: BudgetLimits,
}

/// The answer to a command that has changed a constraint.
#[derive(Clone, Copy, Debug)]
struct ChangeReply {
    ticket: Ticket,
    reply: ConstraintReply,
    /// Where the scan has applied the change to all jobs. A later change extends the scan, and not
    /// this.
    in_force_at: ScanPos,
}

/// Bounds in steps.
#[derive(Clone, Copy, Debug)]
struct BudgetLimits {
    /// For each command, each queue named by a reserve, and each waiter matched.
    per_command: u64,
    /// For a pass, beside these.
    per_pass: u64,
}

impl Default for BudgetLimits {
    fn default() -> Self {
        Self { per_command: CONSTRAINT_STEPS_PER_COMMAND, per_pass: CONSTRAINT_STEPS_PER_PASS }
    }
}

/// What the scan has covered in this pass.
#[derive(Clone, Copy, Debug, Default)]
struct ScanProgress {
    jobs: usize,
    bytes: usize,
    slots: usize,
}

/// The counters when a budgeted operation began.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepBudget {
    steps: u64,
    steps_used: u64,
}

impl Constraints {
    /// Whether the scan may go on after an expired or blocked job. The first call starts the
    /// budget.
    pub(super) fn has_scan_budget(&mut self, budget: &mut Option<StepBudget>) -> bool {
        let budget = *budget.get_or_insert_with(|| self.start_budget());
        self.is_running(budget)
    }

    /// Counts an expired job that a scan has removed: two steps, because it leaves all tables.
    pub(super) fn count_expired(&mut self) {
        self.steps += 2;
    }

    /// Counts a job of a paused queue that has left the global ready heap.
    pub(super) fn count_withheld(&mut self) {
        self.steps += 1;
    }

    /// Whether no job has limiters.
    pub(super) fn is_inactive(&self) -> bool {
        self.classes.is_empty()
    }

    /// Whether no constraint is active.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Number of active constraints.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether work is left for this or the next pass.
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        self.pending
    }

    /// Resets the budgets of a pass.
    pub(super) fn begin_pass(&mut self) {
        self.steps_used = 0;
        self.scanned = ScanProgress::default();
    }

    /// Starts a budget of [`BudgetLimits::per_command`] steps and what is left of the pass's.
    pub(super) fn start_budget(&self) -> StepBudget {
        StepBudget { steps: self.steps, steps_used: self.steps_used }
    }

    /// Whether the budget has steps left; if not, the caller defers its work. Charges the pass.
    /// O(1).
    pub(super) fn is_running(&mut self, budget: StepBudget) -> bool {
        let BudgetLimits { per_command, per_pass } = self.limits;
        let steps = self.steps - budget.steps;
        let charged = budget.steps_used + steps.saturating_sub(per_command);
        self.steps_used = charged.min(per_pass);
        steps < per_command + (per_pass - budget.steps_used)
    }

    /// Whether the pass has steps left.
    pub(super) fn has_pass_steps(&self) -> bool {
        self.steps_used < self.limits.per_pass
    }

    /// Whether a reserve that has found nothing may have missed a job.
    #[inline]
    pub(super) fn unfinished_scan(&self) -> bool {
        self.scan_incomplete
    }

    /// Called when a reserve has found nothing in a queue with classes: if jobs are about to be
    /// unblocked, it may have missed one.
    pub(super) fn note_pending_unblocks(&mut self) {
        self.scan_incomplete |= self.is_unblocking();
    }

    /// Whether jobs are left that have not been matched against the present constraints.
    pub(super) fn is_scanning(&self) -> bool {
        self.scan_pos < self.scan_until
    }

    /// Whether jobs of a queue, which may have classes, are not matched or unblocked yet. O(log q).
    pub(super) fn may_find_more(&self, queue: QueueIdx, has_classes: bool) -> bool {
        let is_scheduled =
            self.queues_to_match.contains(queue.into()) || self.released.contains(&queue);
        is_scheduled || (has_classes && self.is_unblocking())
    }

    /// Whether jobs may be about to be unblocked.
    fn is_unblocking(&self) -> bool {
        !self.dirty.is_empty()
            || !self.limiters_scanned.is_empty()
            || !self.changed_limits.is_empty()
            || !self.paused.is_empty()
            || self.is_scanning()
    }

    /// Answers a command that has changed a constraint once the change is in force for all jobs.
    fn reply_when_in_force(&mut self, ticket: Ticket, reply: ConstraintReply) {
        debug_assert!(
            self.change_replies.back().is_none_or(|last| last.in_force_at <= self.scan_until),
            "changes of constraints come in force in their order"
        );
        let reply = ChangeReply { ticket, reply, in_force_at: self.scan_until };
        self.change_replies.push_back(reply);
        self.pending = true;
    }

    /// Drops the replies to a client that has ended. O(replies).
    pub(super) fn disconnect_client(&mut self, client: ClientId) {
        self.change_replies.retain(|reply| reply.ticket.client != client);
    }

    /// Registers a waiter that stands for a reserve without wait.
    pub(super) fn defer_reply(&mut self, waiter: WaiterIdx, ticket: Ticket) {
        self.deferred_replies.push_back((waiter, ticket));
        self.pending = true;
    }

    /// The record of an active constraint. O(1).
    fn record_of(&self, constraint: ConstraintIdx) -> ConstraintRecordIdx {
        self.states[constraint].record.expect("the constraint is active")
    }

    /// The record with this id. O(log c).
    pub(super) fn find_record(&self, id: JobId) -> Option<ConstraintRecordIdx> {
        self.records.find(id)
    }

    /// The id of a record, and its constraint. O(1).
    pub(super) fn record(&self, record: ConstraintRecordIdx) -> (JobId, &Constraint) {
        let index = record;
        let record = &self.records[index];
        debug_assert_eq!(
            self.states[record.place].record,
            Some(index),
            "a constraint and its record name each other"
        );
        (record.id, &self.states[record.place].definition)
    }

    /// The ids of all records. O(c).
    pub(super) fn record_ids(&self) -> impl Iterator<Item = JobId> {
        self.records.iter().map(|(_, record)| record.id)
    }

    pub(super) fn get(&self, constraint: ConstraintIdx) -> &Constraint {
        &self.states[constraint].definition
    }

    /// Queues the limiters of a constraint with changed limits for [`Self::recheck_changed`].
    fn mark_limits_changed(&mut self, constraint: ConstraintIdx) {
        match self.changed_limits.iter_mut().find(|(changed, _)| *changed == constraint) {
            Some((_, from)) => *from = None,
            None => self.changed_limits.push_back((constraint, None)),
        }
        self.pending = true;
        self.recheck_blocked_pops();
    }

    /// Marks the next limiter of a constraint with changed limits dirty, if waitlists are blocked
    /// there. Returns whether there was such a constraint. O(log b) comparisons of key values, for
    /// b limiters.
    fn recheck_changed(&mut self) -> bool {
        let Some((constraint, from)) = self.changed_limits.front_mut() else { return false };
        self.steps += 1;
        let record = self.states.get(*constraint);
        let begin = from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let values =
            record.map(|state| state.limiter_by_value.range::<[u8], _>((begin, Bound::Unbounded)));
        let Some((value, &limiter)) = values.and_then(|mut values| values.next()) else {
            self.changed_limits.pop_front();
            return true;
        };
        debug_assert_eq!(
            self.limiters[limiter].constraint, *constraint,
            "a constraint finds its own limiters"
        );
        *from = Some(value.clone());
        if !self.limiters[limiter].blocked_waitlists.is_empty() {
            self.mark_dirty(limiter);
        }
        true
    }

    /// The class of this queue, eligibility and limiters, and whether it was created. O(k log n).
    fn job_class(
        &mut self,
        queue: QueueIdx,
        eligibility: Eligibility,
        limiters: &[LimiterIdx],
    ) -> (JobClassIdx, bool) {
        debug_assert!(!limiters.is_empty(), "a class has a limiter");
        let key = (queue, eligibility, limiters.into());
        if let Some(&class) = self.class_index.get(&key) {
            debug_assert!(self.classes[class].jobs > 0, "a class goes with its last job");
            return (class, false);
        }
        for &limiter in limiters {
            self.limiters[limiter].class_count += 1;
        }
        let class = self.classes.insert(JobClass::new(queue, key.1.clone(), limiters));
        self.class_index.insert(key, class);
        debug_assert_eq!(self.class_index.len(), self.classes.len(), "a class is found one way");
        (class, true)
    }

    /// Removes a class that has no jobs. O(k log n).
    fn remove_class(&mut self, class: JobClassIdx) {
        let class = self.classes.remove(class).expect("a class is dropped once");
        assert!(
            class.waitlist.is_none() && class.blocked_jobs.is_empty(),
            "a dropped class has waiting jobs"
        );
        debug_assert_eq!(class.jobs, 0, "a dropped class has jobs");
        debug_assert!(
            class.ready_job.is_none() && class.key.is_none(),
            "a class without jobs has no head"
        );
        let key = (class.queue, class.eligibility, class.limiters);
        let known = self.class_index.remove(&key);
        debug_assert!(known.is_some(), "a class is found by its limiters");
        debug_assert_eq!(self.class_index.len(), self.classes.len(), "a class is found one way");
        for &limiter in &key.2 {
            self.limiters[limiter].class_count -= 1;
            if self.limiters[limiter].class_count == 0 {
                self.mark_dirty(limiter);
            }
        }
    }

    /// The waitlist of this limiter for the queue and eligibility of a class, created if absent.
    /// O(log n).
    fn waitlist(&mut self, limiter: LimiterIdx, class: JobClassIdx) -> WaitlistIdx {
        debug_assert!(
            self.classes[class].limiters.contains(&limiter),
            "a class waits at one of its limiters"
        );
        let JobClass { queue, ref eligibility, .. } = self.classes[class];
        let key = (limiter, queue, eligibility.clone());
        if let Some(&waitlist) = self.waitlist_index.get(&key) {
            debug_assert!(
                self.waitlists[waitlist].limiter == limiter
                    && self.waitlists[waitlist].queue == queue
                    && !self.waitlists[waitlist].classes.is_empty(),
                "a waitlist is found by its limiter and queue, and goes with its last class"
            );
            return waitlist;
        }
        let (eligibility, classes) = (eligibility.clone(), BTreeSet::new());
        let waitlist = LimiterWaitlist {
            limiter,
            queue,
            eligibility,
            classes,
            ready_job: PackedOption::NONE,
            blocked_key: None,
        };
        let waitlist = self.waitlists.insert(waitlist);
        self.waitlist_index.insert(key, waitlist);
        waitlist
    }
}

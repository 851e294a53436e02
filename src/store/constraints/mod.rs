//! Constraints: jobs that are held back until they may run.
//!
//! A put asks once which constraints match its job ([`matcher`]); one that matches has a *bucket*
//! for the job ([`limiter`]). A job may start when each of its buckets has room: fewer jobs running
//! than `max_running`, and a token by `rate`. Nothing is reserved for jobs that might run: room is
//! taken when a job is handed out, so that a job in whose queue nobody is interested stands in
//! nobody's way. Who may be seen in its queue's heap meanwhile is said in [`job_class`], how that
//! changes in [`admission`], who is served where there is room in [`match_scheduler`], and how
//! constraints come and go in [`lifecycle`].
//!
//! Invariants, between two commands:
//! - no bucket has more running jobs than it may, or had when a job was started, and no job started
//!   without a token;
//! - a bucket's count of running jobs is that of its jobs that are held;
//! - whatever sleeps at a bucket that has room is on the list of what is to be looked at;
//! - in a group that is awake exactly its first job is shown;
//! - where nothing is left to be done, nobody waits for a job that may run.
//!
//! Costs: without constraints one test for each put. With them a put pays O(conditions + payload),
//! for the conditions of all constraints: all that they ask for is found in one walk through the
//! payload, and none is made if the names of queues decide. What is held back costs nothing: a job
//! of a strand pays O(log n) when it comes, is shown, and leaves. Whoever takes and finds a job
//! that may not run pays O(k + log n) for its k buckets, puts a whole strand or group away with it,
//! and nobody meets that again before there was room where it waits. A strand begins where most
//! strands are, so that few are shown that share a bucket which becomes full.
//!
//! What is put away by those who take, and what room brings about, is counted in steps. A command
//! has [`CONSTRAINT_STEPS_PER_COMMAND`] of its own, and so have each queue that a take names and
//! each waiter that is served; what goes beyond that comes out of the [`CONSTRAINT_STEPS_PER_PASS`]
//! of the pass. What is left is done at the end of the pass, or of the next ones;
//! [`super::Store::next_deadline`] is at once while there is some. A take that has to stop, because
//! very many are shown that may not run (a limit was lowered under jobs with values of their own),
//! leaves the rest to that: it gets the best of what it has seen, or is in line until all was
//! looked at, also if it does not wait; only then, or after [`SCAN_DEFER_MAX_MS`], it hears that
//! there is no job. What a changed constraint means for the jobs that are there is found out a
//! bounded number of jobs in each pass; other limits alone mean nothing for them, and one step for
//! each bucket.
//!
//! [`SCAN_DEFER_MAX_MS`]: crate::base::limits::SCAN_DEFER_MAX_MS
//!
//! A value that jobs have of their own, or a hash of one of more than 256 bytes, is kept twice for
//! its bucket, beside a strand and a group for each queue, until the last of its jobs is gone, and
//! with a rate until all tokens are back.
//!
//! Packets, and jobs without priority, are not held back: a key group leaves as one, whatever its
//! members. A job that is popped has started and ended: it takes a token.

mod admission;
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
use crate::base::time::{Mono, Now};
use crate::model::id::Ticket;
use crate::model::worker::Constraint;
use crate::store::jobs::NONE;
use crate::wire::Paths;
use job_class::{Eligibility, JobClass, LimiterWaitlist, OrderKey};
use limiter::{Limiter, TokenBucket};
use match_scheduler::ScheduledMatches;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

/// How far the matching of existing jobs has come: in which round, and up to which place.
type Progress = (u64, u32);

/// A constraint that is there, or was and still has jobs.
#[derive(Debug)]
struct ConstraintState {
    constraint: Constraint,
    /// Its place among the jobs, which keeps it in a journal; [`NONE`] if it no longer holds.
    slot: u32,
    /// Its buckets.
    values: BTreeMap<Box<[u8]>, u32>,
    /// All jobs that were there before it have been matched when the sweep has come this far.
    settled: Progress,
    /// Since when its rate is what it is.
    since: Mono,
    /// Whether buckets were full then.
    began_full: bool,
    /// Whether it holds no more because another one is in its place: its jobs do not start before
    /// it is known what that one says of them.
    replaced: bool,
}

impl ConstraintState {
    fn holds(&self) -> bool {
        self.slot != NONE
    }
}

/// All constraints and what they hold back.
#[derive(Debug, Default)]
pub(super) struct Constraints {
    rules: PagedSlab<ConstraintState>,
    by_name: BTreeMap<Box<str>, u32>,
    /// What they want to know of payloads, if that was found out since there were others.
    paths: Option<Paths>,
    /// Rules that hold, by the ids of their places among the jobs.
    by_id: BTreeMap<u64, u32>,
    limiters: PagedSlab<Limiter>,
    classes: PagedSlab<JobClass>,
    /// Strands by queue, who may take their jobs, and buckets.
    class_index: BTreeMap<(u32, Eligibility, Box<[u32]>), u32>,
    waitlists: PagedSlab<LimiterWaitlist>,
    /// Groups by bucket, queue, and who may take their jobs.
    waitlist_index: BTreeMap<(u32, u32, Eligibility), u32>,
    /// Buckets where something has changed.
    dirty: VecDeque<u32>,
    /// Queues with a job that somebody may wait for, where another one is first now; or all
    /// followed jobs.
    queues_to_match: ScheduledMatches,
    /// Buckets that have woken a job for which somebody may be waiting, by its queue.
    paused: BTreeSet<(u32, u32)>,
    /// Of these the ones where groups sleep, by the first key there.
    paused_by_key: BTreeSet<(OrderKey, u32)>,
    /// Queues where pops may wait behind a job that is too large for them and could run; and those
    /// where it may not be able to run any more.
    blocked: BTreeSet<u32>,
    unblocked: BTreeSet<u32>,
    /// Buckets that wait for their rule to be settled.
    limiters_waiting: VecDeque<u32>,
    /// The same whose rules may be settled by now.
    limiters_ready: VecDeque<u32>,
    /// Rules whose limits have changed, and up to which value their buckets have been looked at.
    changed_limits: VecDeque<(u32, Option<Box<[u8]>>)>,
    /// Takes that do not wait, and have not seen all that there is: the waiters that stand for
    /// them until it is known that there is nothing for them.
    deferred_replies: VecDeque<(u32, Ticket)>,
    /// Whether this command has left something unseen that could be for whoever takes.
    scan_incomplete: bool,
    /// Whether anything is to be done.
    pending: bool,
    scan_pos: Progress,
    /// How far it is to go.
    sweep_until: Progress,
    /// What it has done in this pass.
    rematched: ScanProgress,
    /// How often constraints were changed so far.
    changes: u64,
    /// How much was done so far, in jobs, strands and groups moved or looked at.
    steps: u64,
    /// How much of that counts against what is done in one pass.
    steps_used: u64,
    allowance: BudgetLimits,
}

/// How many steps are made.
#[derive(Clone, Copy, Debug)]
struct BudgetLimits {
    /// In a command, and for each queue that a take names and each waiter that is served.
    each: u64,
    /// In a pass, beside these.
    pass: u64,
}

impl Default for BudgetLimits {
    fn default() -> Self {
        Self { each: CONSTRAINT_STEPS_PER_COMMAND, pass: CONSTRAINT_STEPS_PER_PASS }
    }
}

/// What a sweep over the table of jobs has looked at.
#[derive(Clone, Copy, Debug, Default)]
struct ScanProgress {
    jobs: usize,
    bytes: usize,
    places: usize,
}

/// The begin of something that takes steps, as many as there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepBudget {
    steps: u64,
    steps_used: u64,
}

impl Constraints {
    /// Whether there is nothing that could be held back.
    pub(super) fn is_inactive(&self) -> bool {
        self.classes.is_empty()
    }

    /// Whether no job has to be asked about.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether something is left to be done at once.
    #[inline(always)]
    pub(super) fn is_pending(&self) -> bool {
        self.pending
    }

    /// A new pass has its own steps.
    pub(super) fn begin_pass(&mut self) {
        self.steps_used = 0;
        self.rematched = ScanProgress::default();
    }

    /// Something begins that takes steps.
    pub(super) fn start_budget(&self) -> StepBudget {
        StepBudget { steps: self.steps, steps_used: self.steps_used }
    }

    /// Whether it may go on: it has a few steps of its own, and what is left of the pass's. What
    /// does not go on is left to the next pass by whoever asks. O(1).
    pub(super) fn is_running(&mut self, stint: StepBudget) -> bool {
        let BudgetLimits { each, pass } = self.allowance;
        let done = self.steps - stint.steps;
        let spent = stint.steps_used + done.saturating_sub(each);
        self.steps_used = spent.min(pass);
        done < each + (pass - stint.steps_used)
    }

    /// Whether anything is left of the pass's steps.
    pub(super) fn has_steps(&self) -> bool {
        self.steps_used < self.allowance.pass
    }

    /// Whether a take that has found nothing may have missed something.
    #[inline(always)]
    pub(super) fn unfinished_scan(&self) -> bool {
        self.scan_incomplete
    }

    /// A take has found nothing in a queue with jobs that may be held back: if some of them are
    /// about to be woken, it may have missed one.
    pub(super) fn mark_blocked_missed(&mut self) {
        let asleep = [&self.dirty, &self.limiters_ready].iter().any(|list| !list.is_empty());
        self.scan_incomplete |=
            asleep || !self.changed_limits.is_empty() || !self.paused.is_empty();
    }

    /// This waiter stands for a take that does not wait.
    pub(super) fn defer_reply(&mut self, waiter: u32, ticket: Ticket) {
        self.deferred_replies.push_back((waiter, ticket));
        self.pending = true;
    }

    /// The place among the jobs of the constraint with this id.
    pub(super) fn place(&self, id: u64) -> Option<u32> {
        self.by_id.get(&id).map(|&rule| self.rules[rule].slot)
    }

    /// The constraint at this place. O(log c).
    pub(super) fn at(&self, id: u64) -> &Constraint {
        &self.rules[self.by_id[&id]].constraint
    }

    pub(super) fn get(&self, rule: u32) -> &Constraint {
        &self.rules[rule].constraint
    }

    /// The limits of a rule are others: its buckets are looked at, one after the other.
    fn mark_limits_changed(&mut self, rule: u32) {
        match self.changed_limits.iter_mut().find(|(revised, _)| *revised == rule) {
            Some((_, from)) => *from = None,
            None => self.changed_limits.push_back((rule, None)),
        }
        self.pending = true;
        self.unblock();
    }

    /// Marks the next bucket of a rule with other limits, if somebody sleeps there. O(log b)
    /// comparisons of values for its b buckets. Tells whether there was such a rule.
    fn recheck_changed(&mut self) -> bool {
        let Some((rule, from)) = self.changed_limits.front_mut() else { return false };
        self.steps += 1;
        let record = self.rules.get(*rule);
        let begin = from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let values = record.map(|rule| rule.values.range::<[u8], _>((begin, Bound::Unbounded)));
        let Some((value, &bucket)) = values.and_then(|mut values| values.next()) else {
            self.changed_limits.pop_front();
            return true;
        };
        *from = Some(value.clone());
        if !self.limiters[bucket].asleep.is_empty() {
            self.mark_dirty(bucket);
        }
        true
    }

    /// Whether a job of this bucket may start, as far as this bucket is concerned. O(1).
    fn has_room(&mut self, bucket: u32, now: Now) -> bool {
        let record = &mut self.limiters[bucket];
        let rule = &self.rules[record.rule];
        if !rule.holds() {
            return !rule.replaced;
        }
        if self.scan_pos < rule.settled {
            return false;
        }
        if rule.constraint.max_running.is_some_and(|most| record.running >= most) {
            return false;
        }
        record.tokens.change(rule.constraint.rate, rule.since);
        record.tokens.any(now)
    }

    /// The bucket of a strand where most strands are, the first of several: where all wait that it
    /// may hold back, one of them is shown. O(its buckets).
    fn most_shared_limiter(&self, strand: u32) -> u32 {
        let buckets = self.classes[strand].buckets.iter().copied();
        let broadest = buckets.rev().max_by_key(|&bucket| self.limiters[bucket].classes);
        broadest.expect("a strand has buckets")
    }

    /// The first bucket of a strand that has no room. O(its buckets).
    fn first_full_limiter(&mut self, strand: u32, now: Now) -> Option<u32> {
        (0..self.classes[strand].buckets.len()).find_map(|number| {
            let bucket = self.classes[strand].buckets[number];
            (!self.has_room(bucket, now)).then_some(bucket)
        })
    }

    /// The bucket of a rule for this value, made if need be. O(log b) comparisons of values for its
    /// b buckets.
    fn limiter(&mut self, rule: u32, value: Box<[u8]>, now: Now) -> u32 {
        let record = &mut self.rules[rule];
        if let Some(&bucket) = record.values.get(&value) {
            return bucket;
        }
        let rate = record.constraint.rate;
        let tokens = if record.began_full {
            TokenBucket::full(rate, now.mono)
        } else {
            TokenBucket::empty(rate, record.since)
        };
        let bucket = self.limiters.insert(Limiter {
            rule,
            value: value.clone(),
            classes: 0,
            running: 0,
            tokens,
            asleep: BTreeSet::new(),
            timer: crate::base::timer_queue::TimerId::NONE,
            dirty: false,
            paused_for: None,
            paused_before: None,
            limiters_waiting: false,
        });
        record.values.insert(value, bucket);
        bucket
    }

    /// The strand of a queue's jobs that these may take with these buckets, made if need be, and
    /// whether it was. O(k log).
    fn job_class(&mut self, queue: u32, takers: Eligibility, buckets: &[u32]) -> (u32, bool) {
        let seat = (queue, takers, buckets.into());
        if let Some(&strand) = self.class_index.get(&seat) {
            return (strand, false);
        }
        for &bucket in buckets {
            self.limiters[bucket].classes += 1;
        }
        let strand = self.classes.insert(JobClass::new(queue, seat.1.clone(), buckets));
        self.class_index.insert(seat, strand);
        (strand, true)
    }

    /// Forgets a strand that has no jobs. O(k log).
    fn drop_class(&mut self, number: u32) {
        let strand = self.classes.remove(number).expect("a strand was dropped twice");
        assert!(strand.group == NONE && strand.parked.is_empty(), "a dropped strand had jobs");
        let seat = (strand.queue, strand.takers, strand.buckets);
        self.class_index.remove(&seat);
        for &bucket in &seat.2 {
            self.limiters[bucket].classes -= 1;
            if self.limiters[bucket].classes == 0 {
                self.mark_dirty(bucket);
            }
        }
    }

    /// The group of a bucket that a strand belongs to if it waits there, made if need be.
    fn waitlist(&mut self, bucket: u32, strand: u32) -> u32 {
        let JobClass { queue, ref takers, .. } = self.classes[strand];
        let place = (bucket, queue, takers.clone());
        if let Some(&group) = self.waitlist_index.get(&place) {
            return group;
        }
        let (takers, strands) = (takers.clone(), BTreeSet::new());
        let group = LimiterWaitlist { bucket, queue, takers, strands, shown: NONE, asleep: None };
        let group = self.waitlists.insert(group);
        self.waitlist_index.insert(place, group);
        group
    }
}

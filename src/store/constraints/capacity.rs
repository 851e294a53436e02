//! The capacity of limiters: how many more jobs each admits, and when it admits more.
//!
//! A limiter is full while its running count is at the limit, while it has no token, or while its
//! constraint waits for the scan. A full one with blocked waitlists is marked dirty when that may
//! have changed: when a run ends, when its timer fires, or when the scan has passed.

use super::Constraints;
use super::limiter::Limiter;
use crate::base::time::Now;
use crate::base::timer_queue::{TimerId, TimerQueue};
use crate::model::job::Status;
use crate::model::show::ConstraintDetails;
use crate::store::Due;
use crate::store::idx::{ConstraintIdx, JobClassIdx, LimiterIdx};
use crate::store::job::Job;
use std::collections::BTreeSet;

impl Constraints {
    /// The constraint at whose limiter the jobs of this class wait. O(1).
    pub(in crate::store) fn constraint_of(&self, class: JobClassIdx) -> ConstraintIdx {
        let waitlist = self.classes[class].expect_waitlist();
        debug_assert!(
            self.classes[class].limiters.contains(&self.waitlists[waitlist].limiter),
            "a class waits at one of its limiters"
        );
        self.limiters[self.waitlists[waitlist].limiter].constraint
    }

    /// Whether this limiter admits one more job now. O(1).
    pub(super) fn has_capacity(&mut self, limiter: LimiterIdx, now: Now) -> bool {
        let record = &mut self.limiters[limiter];
        let state = &self.states[record.constraint];
        if !state.is_active() {
            return !state.replaced;
        }
        if self.scan_pos < state.scanned_at || state.is_at_max(record.running) {
            return false;
        }
        record.tokens.set_rate(state.definition.rate, state.rate_since);
        record.tokens.has_token(now)
    }

    /// A constraint, and how much of its limits is used; of its limiters, the first `most` count.
    /// O(bytes + `most`).
    pub(in crate::store) fn details(
        &self,
        constraint: ConstraintIdx,
        most: usize,
        now: Now,
    ) -> ConstraintDetails {
        let state = &self.states[constraint];
        let definition = &state.definition;
        let mut details = ConstraintDetails {
            constraint: definition.clone(),
            keys: state.limiter_by_value.len(),
            blocked_keys: 0,
            running: 0,
            tokens: None,
        };
        for &limiter in state.limiter_by_value.values().take(most) {
            let limiter = &self.limiters[limiter];
            details.blocked_keys += usize::from(!limiter.blocked_waitlists.is_empty());
            details.running += u64::from(limiter.running);
            let mut tokens = limiter.tokens;
            tokens.set_rate(definition.rate, state.rate_since);
            let left = tokens.whole(now);
            details.tokens = details.tokens.map_or(left, |least| Some(least.min(left?)));
        }
        if details.keys == 0 {
            details.tokens = state.new_tokens(now).whole(now);
        }
        details
    }

    /// The limiter of a class with the most classes; of equals the first. Where all of these wait
    /// in its waitlists, one head for each queue and eligibility is in a ready heap. O(k).
    pub(super) fn most_shared_limiter(&self, class: JobClassIdx) -> LimiterIdx {
        let limiters = self.classes[class].limiters.iter().copied();
        let most_shared = limiters.rev().max_by_key(|&limiter| self.limiters[limiter].class_count);
        most_shared.expect("a class has limiters")
    }

    /// The first limiter of a class without capacity. O(k).
    pub(super) fn first_full_limiter(
        &mut self,
        class: JobClassIdx,
        now: Now,
    ) -> Option<LimiterIdx> {
        (0..self.classes[class].limiters.len()).find_map(|position| {
            let limiter = self.classes[class].limiters[position];
            (!self.has_capacity(limiter, now)).then_some(limiter)
        })
    }

    /// The limiter for this key value, created if absent. O(log b) comparisons of key values, for b
    /// limiters of the constraint.
    pub(super) fn limiter(
        &mut self,
        constraint: ConstraintIdx,
        value: Box<[u8]>,
        now: Now,
    ) -> LimiterIdx {
        let record = &mut self.states[constraint];
        if let Some(&limiter) = record.limiter_by_value.get(&value) {
            debug_assert!(
                self.limiters[limiter].constraint == constraint
                    && self.limiters[limiter].value == value,
                "a limiter is found by its constraint and key value"
            );
            return limiter;
        }
        debug_assert!(record.is_active(), "only an active constraint gets new limiters");
        let tokens = record.new_tokens(now);
        let limiter = self.limiters.insert(Limiter {
            constraint,
            value: value.clone(),
            class_count: 0,
            running: 0,
            tokens,
            blocked_waitlists: BTreeSet::new(),
            timer: TimerId::NONE,
            dirty: false,
            paused_for: None,
            paused_first_key: None,
            awaits_scan: false,
        });
        record.limiter_by_value.insert(value, limiter);
        limiter
    }

    /// A job with limiters is reserved: takes tokens and counts as running. O(k).
    pub(in crate::store) fn start_run(&mut self, job: &mut Job, now: Now) {
        debug_assert_eq!(job.status(), Status::Reserved, "only reserved jobs run");
        self.spend(job, now);
        self.count_run(job.expect_class());
        if job.worker().is_some() {
            job.work_mut().charged_revision = self.revision;
        }
    }

    /// A job of this class runs: its limiters' running counts rise. O(k).
    pub(super) fn count_run(&mut self, class: JobClassIdx) {
        for &limiter in &self.classes[class].limiters {
            debug_assert!(self.limiters[limiter].class_count > 0, "a running job has a class");
            self.limiters[limiter].running += 1;
        }
    }

    /// A running job of this class has ended: its limiters may have capacity. O(k).
    pub(super) fn end_run(&mut self, class: JobClassIdx) {
        for position in 0..self.classes[class].limiters.len() {
            let limiter = self.classes[class].limiters[position];
            debug_assert!(self.limiters[limiter].running > 0, "a run ends that was not counted");
            self.limiters[limiter].running -= 1;
            self.mark_dirty(limiter);
        }
    }

    /// A job with limiters starts: takes a token from each. O(k).
    pub(in crate::store) fn spend(&mut self, job: &Job, now: Now) {
        for &limiter in &self.classes[job.expect_class()].limiters {
            self.limiters[limiter].tokens.spend(now);
        }
        self.recheck_blocked_pops();
    }

    /// A job reserved by a registered worker was returned unstarted: its tokens come back, unless
    /// constraints have changed since it took them. O(k).
    pub(in crate::store) fn refund(&mut self, job: &Job, now: Now) {
        let charged_revision = job.work().map_or(0, |work| work.charged_revision);
        debug_assert!(charged_revision <= self.revision, "no tokens are of a later revision");
        let Some(class) = job.class() else { return };
        if charged_revision != self.revision {
            return;
        }
        for &limiter in &self.classes[class].limiters {
            self.limiters[limiter].tokens.refund(now);
        }
    }

    /// For a limiter with blocked waitlists: arms its timer for the next token, or registers it for
    /// the end of the scan that its constraint waits for. O(log d).
    pub(super) fn arm_refill(
        &mut self,
        limiter: LimiterIdx,
        deadlines: &mut TimerQueue<Due>,
        now: Now,
    ) {
        let record = &mut self.limiters[limiter];
        let state = &self.states[record.constraint];
        if record.blocked_waitlists.is_empty() || !state.is_active() {
            return;
        }
        if self.scan_pos < state.scanned_at {
            if !std::mem::replace(&mut record.awaits_scan, true) {
                self.limiters_awaiting_scan.push_back(limiter);
            }
            return;
        }
        if state.is_at_max(record.running) || record.tokens.has_token(now) {
            return;
        }
        let Some(at) = record.tokens.next_token_at() else { return };
        debug_assert!(at >= now.mono, "the next token comes later");
        if !record.timer.is_none() {
            if deadlines.moment(record.timer) <= at {
                return;
            }
            // The timer was armed for the moment at which the token bucket is full.
            deadlines.cancel(std::mem::take(&mut record.timer));
        }
        record.timer = deadlines.arm(at, Due::Limiter(limiter));
    }

    /// The timer of a limiter has fired.
    pub(in crate::store) fn refill_due(&mut self, limiter: LimiterIdx) {
        debug_assert!(!self.limiters[limiter].timer.is_none(), "a timer fires that was not armed");
        self.limiters[limiter].timer = TimerId::NONE;
        self.mark_dirty(limiter);
    }

    /// Marks the next limiter dirty whose constraint the scan may have settled.
    pub(super) fn recheck_one_scanned(&mut self) -> bool {
        let Some(limiter) = self.limiters_scanned.pop_front() else { return false };
        self.steps += 1;
        if let Some(record) = self.limiters.get_mut(limiter) {
            record.awaits_scan = false;
            self.mark_dirty(limiter);
        }
        true
    }

    /// A limiter has no capacity, or no blocked waitlist: arms its timer, or removes it if it has
    /// no class and its token bucket is full.
    pub(super) fn rearm_or_drop(
        &mut self,
        limiter: LimiterIdx,
        deadlines: &mut TimerQueue<Due>,
        now: Now,
    ) {
        let record = &mut self.limiters[limiter];
        debug_assert!(!record.dirty, "a dirty limiter is not finished with");
        if !record.timer.is_none() {
            deadlines.cancel(std::mem::take(&mut record.timer));
        }
        if record.class_count > 0 {
            return self.arm_refill(limiter, deadlines, now);
        }
        let state = &self.states[record.constraint];
        record.tokens.set_rate(state.definition.rate, state.rate_since);
        record.tokens.has_token(now);
        if state.is_active()
            && let Some(at) = record.tokens.full_at()
        {
            record.timer = deadlines.arm(at, Due::Limiter(limiter));
            return;
        }
        let record = self.limiters.remove(limiter).expect("looked up above");
        debug_assert!(
            record.running == 0 && record.blocked_waitlists.is_empty(),
            "a limiter without classes has neither running nor blocked jobs"
        );
        debug_assert!(record.paused_for.is_none(), "a limiter without classes is not paused");
        let known = self.states[record.constraint].limiter_by_value.remove(&record.value);
        debug_assert_eq!(known, Some(limiter), "a limiter is found by its key value");
        self.remove_if_unused(record.constraint);
    }

    /// Removes an inactive constraint that has no limiters.
    pub(super) fn remove_if_unused(&mut self, constraint: ConstraintIdx) {
        let record = &self.states[constraint];
        if !record.is_active() && record.limiter_by_value.is_empty() {
            self.states.remove(constraint);
        }
    }

    /// Number of armed limiter timers.
    pub(in crate::store) fn limiter_timers(&self) -> usize {
        let timers = self.limiters.iter().map(|(_, limiter)| limiter.timer);
        timers.filter(|timer| !timer.is_none()).count()
    }

    /// The timer of a limiter.
    pub(in crate::store) fn limiter_timer(&self, limiter: LimiterIdx) -> Option<TimerId> {
        self.limiters.get(limiter).map(|limiter| limiter.timer)
    }
}

//! How constraints come and go, and what that means for the jobs that are there.
//!
//! A constraint holds for every job that is put from then on. The jobs that are there are matched
//! anew a bounded number in each pass, by a sweep over the table of jobs; until it has come to a
//! job, that goes by the constraints from before. A new constraint lets nothing start before the
//! sweep has come round: only then is it known how many of its jobs run. Where only the limits of a
//! constraint change, its buckets and what they have counted stay, and so does what they have saved
//! up: no job is looked at, but the buckets where some wait, one after the other. After a restart,
//! buckets begin empty: what was spent before is not known.
//!
//! A constraint that is removed holds nobody back from then on: those that sleep at its buckets are
//! woken, the most urgent first, whether the sweep has come to them or not. One in whose place
//! another is set lets nothing start any more: its jobs wait until the sweep has told what the new
//! one says of them.

use super::job_class::Eligibility;
use super::matcher::{self, PayloadView};
use super::{ConstraintState, Constraints};
use crate::base::limits::{
    CONSTRAINT_SCAN_BYTES_PER_PASS, CONSTRAINT_SCAN_JOBS_PER_PASS, CONSTRAINT_SCAN_SLOTS_PER_PASS,
    CONSTRAINTS_MAX,
};
use crate::base::paged::PagedSlab;
use crate::base::time::Now;
use crate::model::id::{JobId, Ticket};
use crate::model::job::Status;
use crate::model::reply::Rejection;
use crate::model::worker::Constraint;
use crate::store::jobs::NONE;
use crate::store::{DirtyRecord, Effects, JOBS_MAX, JobLocation, Outcome, Store};
use crate::wire::Paths;
use std::collections::BTreeMap;

impl Store {
    /// Answers what a constraint says. O(log c).
    pub(in crate::store) fn show_constraint(&self, ticket: Ticket, name: &str, fx: &mut Effects) {
        let found = self.constraints.by_name.get(name);
        let outcome = found.map_or(Outcome::NoConstraint, |&rule| Outcome::Constraint(rule));
        fx.answer(ticket, outcome);
    }

    /// The constraint that [`Outcome::Constraint`] names. O(1).
    ///
    /// # Panics
    /// If the outcome is from before the last command and the constraint is gone.
    #[must_use]
    pub fn constraint(&self, number: u32) -> &Constraint {
        self.constraints.get(number)
    }

    /// The constraint of this name. O(log c).
    #[must_use]
    pub fn find_constraint(&self, name: &str) -> Option<&Constraint> {
        self.constraints.by_name.get(name).map(|&rule| self.constraints.get(rule))
    }

    /// Sets a constraint, in place of the one of its name. O(log c), and a bounded number of jobs
    /// that are matched anew; if only its limits change none is, and a bounded number of its
    /// buckets are looked at.
    pub(in crate::store) fn set_constraint(
        &mut self,
        ticket: Ticket,
        new: &Constraint,
        now: Now,
        fx: &mut Effects,
    ) {
        let known = self.constraints.by_name.get(&new.name).copied();
        if let Some(rule) = known {
            let slot = self.constraints.rules[rule].slot;
            fx.answer(ticket, Outcome::Constrained { new: false });
            // Also if it is the same: what made it so may not last yet.
            fx.mark_dirty(DirtyRecord::Put(JobLocation(slot), JobId(self.jobs[slot].id)));
            if self.constraints.rules[rule].constraint != *new {
                self.replace_rule(rule, new, true, now);
                self.reevaluate_jobs(now);
            }
            return;
        }
        let full = self.next_id >= self.first_hidden_id || self.jobs.len() >= JOBS_MAX;
        if full || self.constraints.len() >= CONSTRAINTS_MAX {
            return fx.answer(ticket, Outcome::Refused(Rejection::Full));
        }
        self.first_hidden_id -= 1;
        let id = JobId(self.first_hidden_id);
        let slot = self.add_record_slot(id);
        self.add_rule(id, slot, new, true, now);
        self.reevaluate_jobs(now);
        fx.mark_dirty(DirtyRecord::Put(JobLocation(slot), id));
        fx.answer(ticket, Outcome::Constrained { new: true });
    }

    /// Removes a constraint. As [`Store::set_constraint`].
    pub(in crate::store) fn remove_constraint(
        &mut self,
        ticket: Ticket,
        name: &str,
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(&rule) = self.constraints.by_name.get(name) else {
            return fx.answer(ticket, Outcome::NoConstraint);
        };
        let slot = self.constraints.rules[rule].slot;
        let id = self.remove_rule(rule);
        self.reevaluate_jobs(now);
        fx.mark_dirty(DirtyRecord::Gone(JobLocation(slot), id));
        fx.answer(ticket, Outcome::Done);
    }

    /// Whether this place has a constraint and no job. O(1), or O(log c) if it has no job.
    pub(in crate::store) fn is_constraint(&self, slot: u32) -> bool {
        let place = &self.jobs[slot];
        place.queue == NONE && self.constraints.place(place.id) == Some(slot)
    }

    fn add_rule(&mut self, id: JobId, slot: u32, new: &Constraint, began_full: bool, now: Now) {
        let (round, place) = self.constraints.scan_pos;
        let settled = (round + 1, place);
        let rule = self.constraints.rules.insert(ConstraintState {
            constraint: new.clone(),
            slot,
            values: BTreeMap::new(),
            settled,
            since: now.mono,
            began_full,
            replaced: false,
        });
        self.constraints.paths = None;
        self.constraints.by_name.insert(new.name.clone(), rule);
        self.constraints.by_id.insert(id.0, rule);
        self.start_scan();
    }

    /// Puts a constraint in the place of another.
    fn replace_rule(&mut self, rule: u32, new: &Constraint, began_full: bool, now: Now) {
        let record = &mut self.constraints.rules[rule];
        let old = &record.constraint;
        if (&old.name, &old.matcher, &old.per) == (&new.name, &new.matcher, &new.per) {
            if old.rate != new.rate {
                (record.since, record.began_full) = (now.mono, began_full);
            }
            record.constraint = new.clone();
            self.constraints.changes += 1;
            return self.constraints.mark_limits_changed(rule);
        }
        let slot = record.slot;
        let id = JobId(self.jobs[slot].id);
        self.constraints.rules[rule].replaced = true;
        self.deactivate(rule);
        self.add_rule(id, slot, new, began_full, now);
    }

    /// A rule does not hold any more; the place that kept it is nobody's.
    fn deactivate(&mut self, rule: u32) {
        let record = &mut self.constraints.rules[rule];
        let slot = std::mem::replace(&mut record.slot, NONE);
        self.constraints.paths = None;
        self.constraints.by_id.remove(&self.jobs[slot].id);
        let name = &self.constraints.rules[rule].constraint.name;
        if self.constraints.by_name.get(name) == Some(&rule) {
            self.constraints.by_name.remove(name);
        }
        self.drop_constraint_if_unused(rule);
    }

    fn remove_rule(&mut self, rule: u32) -> JobId {
        let slot = self.constraints.rules[rule].slot;
        self.deactivate(rule);
        // Those whom only this constraint has held back go at once, the most urgent first, before
        // the sweep has come to all of them.
        self.constraints.mark_limits_changed(rule);
        self.start_scan();
        JobId(self.jobs.remove(slot).id)
    }

    /// Brings a constraint back, in the place of the one that has its id. O(log c).
    pub fn restore_constraint(
        &mut self,
        id: JobId,
        constraint: &Constraint,
        now: Now,
    ) -> JobLocation {
        self.first_hidden_id = self.first_hidden_id.min(id.0);
        let known = self.constraints.by_id.get(&id.0).copied();
        if let Some(rule) = known {
            let slot = self.constraints.rules[rule].slot;
            self.replace_rule(rule, constraint, false, now);
            return JobLocation(slot);
        }
        let slot = self.add_record_slot(id);
        self.add_rule(id, slot, constraint, false, now);
        JobLocation(slot)
    }

    /// Takes a constraint that was brought back away again, if there is one with this id. O(log c).
    pub(in crate::store) fn erase_constraint(&mut self, id: JobId) -> Option<JobLocation> {
        let &rule = self.constraints.by_id.get(&id.0)?;
        let slot = self.constraints.rules[rule].slot;
        self.remove_rule(rule);
        Some(JobLocation(slot))
    }

    /// Everything has come back: it is matched. O(jobs) matches if there are constraints.
    pub(in crate::store) fn settle_constraints(&mut self, now: Now) {
        let mut nobody = Effects::default();
        while self.constraints.is_pending() {
            self.constraints.begin_pass();
            self.reevaluate_jobs(now);
            self.run_pending(now, &mut nobody);
        }
    }

    /// Which constraints a job that is nowhere has to obey. O(conditions of all constraints +
    /// payload).
    #[inline(never)]
    pub(in crate::store) fn attach_limiters(&mut self, slot: u32, now: Now) {
        let buckets = self.limiters_of(slot, now);
        self.assign_class(slot, &buckets);
    }

    /// The buckets of a job: first those of constraints that have one only, so that the groups of a
    /// queue are few.
    fn limiters_of(&mut self, slot: u32, now: Now) -> Vec<u32> {
        let job = &self.jobs[slot];
        if job.is_packet() || job.is_group_only() {
            return Vec::new();
        }
        let name = &*self.queues[job.queue].name;
        let Constraints { rules, paths, .. } = &mut self.constraints;
        let paths = paths.get_or_insert_with(|| paths_of(rules));
        let arguments = PayloadView::new(job.payload(), paths);
        let mut values = Vec::new();
        for (number, rule) in rules.iter().filter(|(_, rule)| rule.holds()) {
            if matcher::matches(&rule.constraint, name, &arguments) {
                let per = rule.constraint.per.as_ref();
                let value = per.map(|path| matcher::value(path, name, &arguments));
                values.push((per.is_some(), number, value.unwrap_or_default()));
            }
        }
        values.sort_unstable();
        let each = values.into_iter();
        each.map(|(_, rule, value)| self.constraints.limiter(rule, value, now)).collect()
    }

    /// A job that is nowhere and has no strand gets one, if it has buckets. O(k log).
    fn assign_class(&mut self, slot: u32, buckets: &[u32]) {
        if buckets.is_empty() {
            return;
        }
        let (queue, takers) = (self.jobs[slot].queue, Eligibility::of(&self.jobs[slot]));
        let (strand, new) = self.constraints.job_class(queue, takers, buckets);
        self.constraints.classes[strand].jobs += 1;
        self.queues[queue].strands += u32::from(new);
        self.jobs[slot].ext_mut_or_insert().strand = strand;
    }

    /// A job that is nowhere, and has a strand, loses it. O(k log).
    pub(in crate::store) fn drop_class(&mut self, slot: u32) {
        let number = std::mem::replace(&mut self.jobs[slot].ext_mut_or_insert().strand, NONE);
        let strand = &mut self.constraints.classes[number];
        strand.jobs -= 1;
        if strand.jobs == 0 {
            self.queues[strand.queue].strands -= 1;
            self.constraints.drop_class(number);
        }
    }

    /// A job that is nowhere, and has a strand, gets another one if others may take it now than
    /// when it was seated. If workers have refused it, its shelves stay for it; if there are none,
    /// its refusals are forgotten. O(k log + shelves).
    pub(super) fn find_class(&mut self, slot: u32) {
        if !self.has_exclusion_set(slot) {
            self.jobs[slot].clear_exclusions();
        }
        let strand = &self.constraints.classes[self.jobs[slot].strand()];
        if !strand.takers.are_of(&self.jobs[slot]) {
            let buckets = strand.buckets.clone();
            self.drop_class(slot);
            self.assign_class(slot, &buckets);
        }
        self.pin_exclusion_set(slot);
    }

    /// All jobs that are there now are matched anew.
    fn start_scan(&mut self) {
        self.constraints.changes += 1;
        let (round, place) = self.constraints.scan_pos;
        self.constraints.sweep_until = (round + 1, place);
        self.constraints.pending = true;
    }

    /// Matches a bounded number of jobs anew, if that is to be done: when constraints have changed,
    /// all commands of a pass together, and at the end of each pass.
    /// O(conditions of all constraints + payload + log n) each.
    pub(in crate::store) fn reevaluate_jobs(&mut self, now: Now) {
        if self.constraints.scan_pos >= self.constraints.sweep_until {
            return;
        }
        let before = self.constraints.scan_pos;
        let mut done = self.constraints.rematched;
        while done.jobs < CONSTRAINT_SCAN_JOBS_PER_PASS
            && done.bytes < CONSTRAINT_SCAN_BYTES_PER_PASS
            && done.places < CONSTRAINT_SCAN_SLOTS_PER_PASS
        {
            let (round, place) = self.constraints.scan_pos;
            if (round, place) >= self.constraints.sweep_until {
                break;
            }
            done.places += 1;
            if place >= self.jobs.end() {
                self.constraints.scan_pos = (round + 1, 0);
                continue;
            }
            if self.jobs.get(place).is_some() && self.is_job(place) {
                done.jobs += 1;
                done.bytes += self.jobs[place].payload().bytes.len();
                self.reevaluate_job(place, now);
            }
            self.constraints.scan_pos = (round, place + 1);
        }
        let constraints = &mut self.constraints;
        constraints.rematched = done;
        let sweep = constraints.scan_pos;
        let mut rules = constraints.rules.iter();
        if rules.any(|(_, rule)| before < rule.settled && rule.settled <= sweep) {
            constraints.limiters_ready.append(&mut constraints.limiters_waiting);
        }
    }

    /// Matches a job anew. O(conditions of all constraints + payload + log n).
    fn reevaluate_job(&mut self, slot: u32, now: Now) {
        let buckets = self.limiters_of(slot, now);
        self.constraints.steps += 1;
        let (strand, status) = (self.jobs[slot].strand(), self.jobs[slot].status);
        let before = self.constraints.classes.get(strand).map_or(&[][..], |seat| &seat.buckets);
        if *before == *buckets {
            if matches!(status, Status::Blocked) {
                let group = self.constraints.classes[strand].group;
                let bucket = self.constraints.waitlists[group].bucket;
                self.constraints.mark_dirty(bucket);
            }
            return;
        }
        let waits = matches!(status, Status::Ready | Status::Blocked);
        // What is due at the same moment keeps its order.
        let timer = self.jobs[slot].ext_mut().filter(|_| waits);
        let timer = timer.map(|extra| std::mem::take(&mut extra.timer)).unwrap_or_default();
        if waits {
            self.unlink_cold(slot);
            let queue = self.jobs[slot].queue;
            if !self.queues[queue].waiters.pops().is_empty() {
                // It may have been too large for them.
                self.schedule_match(queue);
            }
        } else if strand != NONE && status == Status::Reserved {
            self.on_removed(slot);
        }
        if strand != NONE {
            self.drop_class(slot);
        }
        self.assign_class(slot, &buckets);
        if waits {
            self.place_waiting(slot, now);
            if !timer.is_none() {
                self.jobs[slot].ext_mut_or_insert().timer = timer;
            }
            if self.jobs[slot].status == Status::Ready {
                self.schedule_match_for_job(slot);
            }
        } else if status == Status::Reserved {
            for &bucket in &buckets {
                self.constraints.limiters[bucket].running += 1;
            }
            if self.jobs[slot].worker().is_some() {
                self.jobs[slot].work_mut().paid = 0;
            }
        }
    }
}

/// What all constraints want to know of payloads. O(their keys).
fn paths_of(rules: &PagedSlab<ConstraintState>) -> Paths {
    let mut paths = Paths::default();
    for (_, rule) in rules.iter().filter(|(_, rule)| rule.holds()) {
        matcher::add_paths(&rule.constraint, &mut paths);
    }
    paths
}

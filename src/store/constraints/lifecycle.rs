//! Setting, changing and removing constraints, and what that means for existing jobs.
//!
//! A constraint applies to every put from then on. Existing jobs are evaluated again by a scan over
//! the job table, a bounded number in each pass; until the scan reaches a job, the earlier
//! constraints apply to it. A new constraint lets none of its jobs start before the scan has gone
//! round: only then is the number of running ones known. Where only the limits of a constraint
//! change, its limiters keep their counts and tokens: no job is evaluated, and the limiters with
//! blocked waitlists are rechecked one after the other. After a restart, token buckets start empty:
//! what was spent before is unknown.
//!
//! A removed constraint blocks nothing from then on: the waitlists blocked at its limiters are
//! unblocked, the most urgent first, whether the scan has reached their jobs or not. A replaced one
//! lets nothing start: its jobs wait until the scan has evaluated the new one for them.

use super::job_class::Eligibility;
use super::matcher::{self, PayloadView};
use super::{ConstraintState, Constraints, ScanPos, ScanProgress};
use crate::base::limits::{
    CONSTRAINT_SCAN_BYTES_PER_PASS, CONSTRAINT_SCAN_JOBS_PER_PASS, CONSTRAINT_SCAN_SLOTS_PER_PASS,
    CONSTRAINTS_MAX,
};
use crate::base::paged::PagedSlab;
use crate::base::time::Now;
use crate::model::id::{JobId, Ticket};
use crate::model::job::Status;
use crate::model::worker::{Constraint, ConstraintReply};
use crate::store::idx::{ConstraintIdx, ConstraintRecordIdx, JobIdx, LimiterIdx};
use crate::store::job::Job;
use crate::store::jobs::Jobs;
use crate::store::queues::Queues;
use crate::store::{DirtyRecord, Effects, Outcome, RecordKey, Store};
use crate::wire::Paths;
use std::collections::BTreeMap;
use std::ops::Bound;

impl Constraints {
    /// Adds an active constraint with its record, which it returns, and starts a scan.
    fn add(
        &mut self,
        id: JobId,
        new: &Constraint,
        starts_full: bool,
        now: Now,
    ) -> ConstraintRecordIdx {
        let constraint = self.insert(new, starts_full, now);
        let record = self.records.insert(id, constraint);
        self.states[constraint].record = Some(record);
        record
    }

    /// Adds a constraint, which is active once the caller has linked it with a record, and starts a
    /// scan.
    fn insert(&mut self, new: &Constraint, starts_full: bool, now: Now) -> ConstraintIdx {
        let (round, slot_reached) = self.scan_pos;
        let scanned_at = (round + 1, slot_reached);
        let constraint = self.states.insert(ConstraintState {
            definition: new.clone(),
            record: None,
            limiter_by_value: BTreeMap::new(),
            scanned_at,
            rate_since: now.mono,
            starts_full,
            replaced: false,
        });
        self.paths = None;
        self.by_name.insert(new.name.clone(), constraint);
        self.start_scan();
        debug_assert!(
            self.scan_pos < scanned_at && scanned_at <= self.scan_until,
            "the scan covers a new constraint"
        );
        constraint
    }

    /// Gives an active constraint a new definition. If only limits differ, its limiters stay.
    fn replace(
        &mut self,
        constraint: ConstraintIdx,
        new: &Constraint,
        starts_full: bool,
        now: Now,
    ) {
        let state = &mut self.states[constraint];
        debug_assert!(state.is_active(), "an inactive constraint is not replaced");
        let old = &state.definition;
        if (&old.name, &old.matcher, &old.per) == (&new.name, &new.matcher, &new.per) {
            if old.rate != new.rate {
                (state.rate_since, state.starts_full) = (now.mono, starts_full);
            }
            state.definition = new.clone();
            self.revision += 1;
            return self.mark_limits_changed(constraint);
        }
        state.replaced = true;
        let record = self.deactivate(constraint);
        let successor = self.insert(new, starts_full, now);
        self.states[successor].record = Some(record);
        self.records.set_place(record, successor);
    }

    /// Makes an active constraint inactive. Returns its record, which the caller reuses or removes.
    fn deactivate(&mut self, constraint: ConstraintIdx) -> ConstraintRecordIdx {
        let record = self.record_of(constraint);
        self.states[constraint].record = None;
        self.paths = None;
        let name = &self.states[constraint].definition.name;
        if self.by_name.get(name) == Some(&constraint) {
            self.by_name.remove(name);
        }
        self.remove_if_unused(constraint);
        record
    }

    /// Deactivates a constraint and removes its record. Returns the record's id.
    fn remove(&mut self, constraint: ConstraintIdx) -> JobId {
        let record = self.deactivate(constraint);
        // Jobs that only this constraint blocks become eligible at once, the most urgent first,
        // before the scan has reached all of them.
        self.mark_limits_changed(constraint);
        self.start_scan();
        self.records.remove(record).id
    }

    /// Recovery: removes the constraint with this id, if there is one. Returns its record.
    /// O(log c).
    pub(in crate::store) fn undo_restore(&mut self, id: JobId) -> Option<ConstraintRecordIdx> {
        let record = self.records.find(id)?;
        self.remove(self.records[record].place);
        Some(record)
    }

    /// Answers with the constraint of this name. O(log c).
    pub(in crate::store) fn show(&self, ticket: Ticket, name: &str, fx: &mut Effects) {
        let outcome = match self.by_name.get(name) {
            Some(&constraint) => Outcome::ConstraintFound(constraint),
            None => Outcome::Constraint(ConstraintReply::NoConstraint),
        };
        fx.answer(ticket, outcome);
    }

    /// The constraints behind this name, bytewise.
    pub(in crate::store) fn behind(
        &self,
        name: Option<&str>,
    ) -> impl Iterator<Item = ConstraintIdx> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.by_name.range::<str, _>((from, Bound::Unbounded));
        range.map(|(_, &constraint)| constraint)
    }

    /// The limiters of a job in the queue of this name: first those of constraints without `per`,
    /// so that a queue has few waitlists.
    fn limiters_of(&mut self, job: &Job, queue: &[u8], now: Now) -> Vec<LimiterIdx> {
        if job.is_packet() || job.is_group_only() {
            return Vec::new();
        }
        let Self { states, paths, .. } = self;
        let paths = paths.get_or_insert_with(|| paths_of(states));
        let arguments = PayloadView::new(job.payload(), paths);
        let mut values = Vec::new();
        for (constraint, state) in states.iter().filter(|(_, state)| state.is_active()) {
            if matcher::matches(&state.definition, queue, &arguments) {
                let per = state.definition.per.as_ref();
                let value = per.map(|path| matcher::value(path, queue, &arguments));
                values.push((per.is_some(), constraint, value.unwrap_or_default()));
            }
        }
        values.sort_unstable();
        let each = values.into_iter();
        each.map(|(_, constraint, value)| self.limiter(constraint, value, now)).collect()
    }

    /// Gives a job without class, in no heap, the class of these limiters; none if there are none.
    /// O(k log n).
    fn assign_class(
        &mut self,
        slot: JobIdx,
        limiters: &[LimiterIdx],
        queues: &mut Queues,
        jobs: &mut Jobs,
    ) {
        let job = &mut jobs[slot];
        debug_assert!(job.class().is_none(), "a job has one class");
        if limiters.is_empty() {
            return;
        }
        debug_assert!(
            !job.is_packet() && !job.is_group_only(),
            "packets and group-only jobs have no limiters"
        );
        let (class, new) = self.job_class(job.queue, Eligibility::of(job), limiters);
        self.classes[class].jobs += 1;
        debug_assert!(
            self.classes[class].jobs <= queues[job.queue].jobs,
            "the jobs of a class are jobs of its queue"
        );
        queues[job.queue].class_count += u32::from(new);
        job.ext_mut_or_insert().class = class.into();
    }

    /// Takes a job in no heap out of its class. O(k log n).
    pub(in crate::store) fn drop_class(
        &mut self,
        slot: JobIdx,
        queues: &mut Queues,
        jobs: &mut Jobs,
    ) {
        let class = jobs[slot].ext_mut().and_then(|ext| ext.class.take());
        let class = class.expect("a job leaves its class once");
        let record = &mut self.classes[class];
        debug_assert!(record.jobs > 0, "a class counts fewer jobs than it has");
        debug_assert_ne!(record.ready_job, slot.into(), "the job is in the ready heap");
        debug_assert_eq!(record.queue, jobs[slot].queue, "a class has jobs of its queue");
        record.jobs -= 1;
        if record.jobs == 0 {
            queues[record.queue].class_count -= 1;
            self.remove_class(class);
        }
    }

    /// The scan has gone on from `before`, and `done` is its work of this pass: limiters whose
    /// constraint it has settled are rechecked. O(constraints).
    fn end_scan_step(&mut self, before: ScanPos, done: ScanProgress) {
        let after = self.scan_pos;
        debug_assert!(
            before <= after && after <= self.scan_until,
            "the scan went back, or too far"
        );
        self.scanned = done;
        let mut states = self.states.iter();
        if states.any(|(_, state)| before < state.scanned_at && state.scanned_at <= after) {
            self.limiters_scanned.append(&mut self.limiters_awaiting_scan);
        }
    }

    /// Starts an evaluation of all jobs that exist now.
    fn start_scan(&mut self) {
        self.revision += 1;
        let (round, slot) = self.scan_pos;
        self.scan_until = (round + 1, slot);
        self.pending = true;
    }
}

impl Store {
    /// The constraint that [`Outcome::ConstraintFound`] names. O(1).
    ///
    /// # Panics
    /// If the outcome is from before the last command and the constraint is gone.
    #[must_use]
    pub fn constraint(&self, index: ConstraintIdx) -> &Constraint {
        self.constraints.get(index)
    }

    /// Sets a constraint, or replaces the one of its name. O(log c), and the evaluation of a
    /// bounded number of jobs; if only limits change, of a bounded number of limiters instead.
    pub(in crate::store) fn set_constraint(
        &mut self,
        ticket: Ticket,
        new: &Constraint,
        now: Now,
        fx: &mut Effects,
    ) {
        let known = self.constraints.by_name.get(&new.name).copied();
        if let Some(constraint) = known {
            let record = self.constraints.record_of(constraint);
            debug_assert_eq!(
                self.constraints.records[record].place, constraint,
                "a constraint and its record name each other"
            );
            let id = self.constraints.records[record].id;
            // Also for an equal constraint: the record that set it may not be durable yet.
            fx.mark_dirty(DirtyRecord::Put(RecordKey::Constraint(record), id));
            if self.constraints.states[constraint].definition != *new {
                self.constraints.replace(constraint, new, true, now);
                self.reevaluate_jobs(now);
            }
            let reply = ConstraintReply::Set { new: false };
            return self.constraints.reply_when_in_force(ticket, reply);
        }
        if self.ids.is_exhausted() || self.constraints.len() >= CONSTRAINTS_MAX {
            return fx.answer(ticket, Outcome::Constraint(ConstraintReply::Full));
        }
        let id = self.ids.take_hidden();
        let record = self.constraints.add(id, new, true, now);
        self.reevaluate_jobs(now);
        fx.mark_dirty(DirtyRecord::Put(RecordKey::Constraint(record), id));
        self.constraints.reply_when_in_force(ticket, ConstraintReply::Set { new: true });
    }

    /// Removes a constraint. As [`Store::set_constraint`].
    pub(in crate::store) fn remove_constraint(
        &mut self,
        ticket: Ticket,
        name: &str,
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(&constraint) = self.constraints.by_name.get(name) else {
            return fx.answer(ticket, Outcome::Constraint(ConstraintReply::NoConstraint));
        };
        let record = self.constraints.record_of(constraint);
        let id = self.constraints.remove(constraint);
        self.reevaluate_jobs(now);
        fx.mark_dirty(DirtyRecord::Gone(RecordKey::Constraint(record), id));
        self.constraints.reply_when_in_force(ticket, ConstraintReply::Removed);
    }

    /// Recovery: sets a constraint, in place of the one with its id. O(log c).
    pub fn restore_constraint(&mut self, id: JobId, new: &Constraint, now: Now) -> RecordKey {
        self.ids.skip_hidden(id);
        let Some(record) = self.constraints.records.find(id) else {
            return RecordKey::Constraint(self.constraints.add(id, new, false, now));
        };
        let constraint = self.constraints.records[record].place;
        self.constraints.replace(constraint, new, false, now);
        RecordKey::Constraint(record)
    }

    /// Recovery is over: evaluates all jobs. O(jobs) evaluations if there are constraints.
    pub(in crate::store) fn finish_constraint_scan(&mut self, now: Now) {
        let mut unused = Effects::default();
        while self.constraints.is_pending() {
            self.constraints.begin_pass();
            self.reevaluate_jobs(now);
            self.run_pending(now, &mut unused);
        }
    }

    /// Evaluates all constraints for a job in no heap, and assigns its class. O(conditions of all
    /// constraints + payload).
    #[inline(never)]
    pub(in crate::store) fn attach_limiters(&mut self, slot: JobIdx, now: Now) {
        let job = &self.jobs[slot];
        let limiters = self.constraints.limiters_of(job, &self.queues[job.queue].name, now);
        self.constraints.assign_class(slot, &limiters, &mut self.queues, &mut self.jobs);
    }

    /// Moves a job in no heap to another class if its eligibility has changed since it was
    /// assigned. Pins the heap of its exclusion set, or clears the exclusions if there is no such
    /// heap any more. O(k log n + exclusion sets of the queue).
    pub(super) fn update_class(&mut self, slot: JobIdx) {
        if !self.global_ready.has_exclusion_set(&self.jobs[slot], &self.queues) {
            self.jobs[slot].clear_exclusions();
        }
        let class = &self.constraints.classes[self.jobs[slot].expect_class()];
        if !class.eligibility.fits(&self.jobs[slot]) {
            let limiters = class.limiters.clone();
            self.constraints.drop_class(slot, &mut self.queues, &mut self.jobs);
            self.constraints.assign_class(slot, &limiters, &mut self.queues, &mut self.jobs);
        }
        debug_assert!(
            self.constraints.classes[self.jobs[slot].expect_class()]
                .eligibility
                .fits(&self.jobs[slot]),
            "a job that becomes ready is in a class of its eligibility"
        );
        self.global_ready.pin_exclusion_set(&self.jobs[slot], &mut self.queues);
    }

    /// Evaluates all constraints for a job again. O(conditions of all constraints + payload + log
    /// n).
    pub(in crate::store) fn reevaluate_jobs(&mut self, now: Now) {
        if !self.constraints.is_scanning() {
            return;
        }
        let before = self.constraints.scan_pos;
        let mut done = self.constraints.scanned;
        while done.jobs < CONSTRAINT_SCAN_JOBS_PER_PASS
            && done.bytes < CONSTRAINT_SCAN_BYTES_PER_PASS
            && done.slots < CONSTRAINT_SCAN_SLOTS_PER_PASS
        {
            let (round, slot) = self.constraints.scan_pos;
            if (round, slot) >= self.constraints.scan_until {
                break;
            }
            done.slots += 1;
            if slot >= self.jobs.end() {
                self.constraints.scan_pos = (round + 1, 0);
                continue;
            }
            if let Some((job_slot, job)) = self.jobs.at(slot)
                && job.status() != Status::Popped
            {
                done.jobs += 1;
                done.bytes += job.payload().bytes.len();
                self.reevaluate_job(job_slot, now);
            }
            self.constraints.scan_pos = (round, slot + 1);
        }
        self.constraints.end_scan_step(before, done);
    }

    /// Matches a job anew. O(conditions of all constraints + payload + log n).
    pub(in crate::store) fn reevaluate_job(&mut self, slot: JobIdx, now: Now) {
        let job = &self.jobs[slot];
        let limiters = self.constraints.limiters_of(job, &self.queues[job.queue].name, now);
        self.constraints.steps += 1;
        let (class, status) = (self.jobs[slot].class(), self.jobs[slot].status());
        debug_assert_ne!(status, Status::Popped, "a popped job has no limiters any more");
        let before = class.map_or(&[][..], |class| &self.constraints.classes[class].limiters);
        if *before == *limiters {
            if let (Some(class), Status::Blocked) = (class, status) {
                let waitlist = self.constraints.classes[class].expect_waitlist();
                let limiter = self.constraints.waitlists[waitlist].limiter;
                self.constraints.mark_dirty(limiter);
            }
            return;
        }
        let is_waiting = matches!(status, Status::Ready | Status::Blocked);
        // Keeping the timer keeps the order of deadlines that are due at the same moment.
        let timer = self.jobs[slot].ext_mut().filter(|_| is_waiting);
        let timer = timer.map(|extra| std::mem::take(&mut extra.timer)).unwrap_or_default();
        if is_waiting {
            self.unlink_cold(slot);
            let queue = self.jobs[slot].queue;
            if !self.queues[queue].waiters.pops().is_empty() {
                // The job may have been the one too large for them.
                self.constraints.schedule_match(queue.into());
            }
        } else if class.is_some() && status == Status::Reserved {
            self.on_removed(slot);
        }
        if class.is_some() {
            self.constraints.drop_class(slot, &mut self.queues, &mut self.jobs);
        }
        self.constraints.assign_class(slot, &limiters, &mut self.queues, &mut self.jobs);
        debug_assert_eq!(
            self.jobs[slot].class().is_none(),
            limiters.is_empty(),
            "a job has a class if it has limiters"
        );
        if is_waiting {
            self.place_waiting(slot, now);
            if !timer.is_none() {
                self.jobs[slot].ext_mut_or_insert().timer = timer;
            }
            if self.jobs[slot].status() == Status::Ready {
                self.schedule_match_for_job(slot);
            }
        } else if status == Status::Reserved {
            if let Some(class) = self.jobs[slot].class() {
                self.constraints.count_run(class);
            }
            if self.jobs[slot].worker().is_some() {
                self.jobs[slot].work_mut().charged_revision = 0;
            }
        }
    }
}

/// The payload paths that active constraints name. O(their keys).
fn paths_of(states: &PagedSlab<ConstraintState, ConstraintIdx>) -> Paths {
    let mut paths = Paths::default();
    for (_, state) in states.iter().filter(|(_, state)| state.is_active()) {
        matcher::add_paths(&state.definition, &mut paths);
    }
    paths
}

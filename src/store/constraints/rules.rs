//! How constraints come and go, and what that means for the jobs that are there.
//!
//! A constraint holds for every job that is put from then on. The jobs that are there are matched
//! anew a bounded number at a time, by a sweep over the table of jobs; until it has come to a job,
//! that goes by the constraints from before. A new constraint lets nothing start before the sweep
//! has come round: only then is it known how many of its jobs run. Where only the limits of a
//! constraint change, its buckets and what they have counted stay, and so does what they have
//! saved up. After a restart, buckets begin empty: what was spent before is not known.

use super::{Rule, matcher};
use crate::base::limits::{
    CONSTRAINTS_MAX, JOB_ID_END, REMATCHED_BYTES, REMATCHED_JOBS, REMATCHED_PLACES,
};
use crate::base::time::Now;
use crate::model::id::{JobId, Ticket};
use crate::model::job::{Encoding, Payload, Status, Turn, Urgency};
use crate::model::reply::Refusal;
use crate::model::work::{Constraint, Work};
use crate::store::jobs::{Job, NONE};
use crate::store::{Change, Effects, JOBS_MAX, JobSlot, Outcome, Store};
use std::collections::BTreeMap;

impl Store {
    /// Carries out what is asked about constraints; tells whether that was what was asked.
    /// O(log c), and a bounded number of jobs that are matched anew.
    #[inline(never)]
    pub(in crate::store) fn rule(
        &mut self,
        ticket: Ticket,
        work: &Work<'_>,
        now: Now,
        fx: &mut Effects,
    ) -> bool {
        match *work {
            Work::Constrain(constraint) => self.constrain(ticket, constraint, now, fx),
            Work::Free { name } => self.free(ticket, name, fx),
            Work::Constraint { name } => {
                let found = self.constraints.by_name.get(name);
                let outcome =
                    found.map_or(Outcome::NoConstraint, |&rule| Outcome::Constraint(rule));
                fx.answer(ticket, outcome);
            }
            _ => return false,
        }
        true
    }

    /// The constraint that [`Outcome::Constraint`] names. O(1).
    ///
    /// # Panics
    /// If the outcome is from before the last command and the constraint is gone.
    #[must_use]
    pub fn constraint(&self, number: u32) -> &Constraint {
        self.constraints.get(number)
    }

    fn constrain(&mut self, ticket: Ticket, new: &Constraint, now: Now, fx: &mut Effects) {
        let known = self.constraints.by_name.get(&new.name).copied();
        if let Some(rule) = known {
            let slot = self.constraints.rules[rule].slot;
            fx.answer(ticket, Outcome::Constrained { new: false });
            if self.constraints.rules[rule].constraint != *new {
                self.replace_rule(rule, new, true, now);
                fx.note(Change::Put(JobSlot(slot), JobId(self.jobs[slot].id)));
            }
            return;
        }
        let full = self.next_id >= JOB_ID_END || self.jobs.len() >= JOBS_MAX;
        if full || self.constraints.len() >= CONSTRAINTS_MAX {
            return fx.answer(ticket, Outcome::Refused(Refusal::Full));
        }
        let id = JobId(self.next_id);
        self.next_id += 1;
        let slot = self.hide_away(id);
        self.add_rule(id, slot, new, true, now);
        fx.note(Change::Put(JobSlot(slot), id));
        fx.answer(ticket, Outcome::Constrained { new: true });
    }

    fn free(&mut self, ticket: Ticket, name: &str, fx: &mut Effects) {
        let Some(&rule) = self.constraints.by_name.get(name) else {
            return fx.answer(ticket, Outcome::NoConstraint);
        };
        let slot = self.constraints.rules[rule].slot;
        let id = self.remove_rule(rule);
        fx.note(Change::Gone(JobSlot(slot), id));
        fx.answer(ticket, Outcome::Done);
    }

    /// A constraint has a place among the jobs, so that a journal keeps it like one, in no queue,
    /// and an id that finds nothing.
    fn hide_away(&mut self, id: JobId) -> u32 {
        let nothing = Payload { encoding: Encoding::Json, bytes: b"" };
        let (urgency, turn) = (Urgency::Never, Turn::OldestFirst);
        let mut place = Job::new(id.0, NONE, urgency, turn, nothing, Now::default());
        place.status = Status::Aside;
        self.jobs.insert(place)
    }

    /// Whether this place has a constraint and no job.
    pub(in crate::store) fn is_constraint(&self, slot: u32) -> bool {
        self.jobs[slot].queue == NONE
    }

    fn add_rule(&mut self, id: JobId, slot: u32, new: &Constraint, began_full: bool, now: Now) {
        let (round, place) = self.constraints.sweep;
        let settled = (round + 1, place);
        let rule = self.constraints.rules.insert(Rule {
            constraint: new.clone(),
            slot,
            values: BTreeMap::new(),
            settled,
            since: now.mono,
            began_full,
        });
        self.constraints.by_name.insert(new.name.clone(), rule);
        self.constraints.by_id.insert(id.0, rule);
        self.begin_sweep();
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
            return self.begin_sweep();
        }
        let slot = record.slot;
        let id = JobId(self.jobs[slot].id);
        self.retire(rule);
        self.add_rule(id, slot, new, began_full, now);
    }

    /// A rule does not hold any more; the place that kept it is nobody's.
    fn retire(&mut self, rule: u32) {
        let record = &mut self.constraints.rules[rule];
        let slot = std::mem::replace(&mut record.slot, NONE);
        self.constraints.by_id.remove(&self.jobs[slot].id);
        let name = &self.constraints.rules[rule].constraint.name;
        if self.constraints.by_name.get(name) == Some(&rule) {
            self.constraints.by_name.remove(name);
        }
        self.drop_rule_if_over(rule);
    }

    fn remove_rule(&mut self, rule: u32) -> JobId {
        let slot = self.constraints.rules[rule].slot;
        self.retire(rule);
        self.begin_sweep();
        JobId(self.jobs.remove(slot).id)
    }

    /// Brings a constraint back, in the place of the one that has its id. O(log c).
    pub fn restore_constraint(&mut self, id: JobId, constraint: &Constraint, now: Now) -> JobSlot {
        self.next_id = self.next_id.max(id.0 + 1);
        let known = self.constraints.by_id.get(&id.0).copied();
        if let Some(rule) = known {
            let slot = self.constraints.rules[rule].slot;
            self.replace_rule(rule, constraint, false, now);
            return JobSlot(slot);
        }
        let slot = self.hide_away(id);
        self.add_rule(id, slot, constraint, false, now);
        JobSlot(slot)
    }

    /// Takes a constraint that was brought back away again, if there is one with this id. O(log c).
    pub(in crate::store) fn erase_constraint(&mut self, id: JobId) -> Option<JobSlot> {
        let &rule = self.constraints.by_id.get(&id.0)?;
        let slot = self.constraints.rules[rule].slot;
        self.remove_rule(rule);
        Some(JobSlot(slot))
    }

    /// Everything has come back: what was brought back in whatever order is matched. O(jobs).
    pub fn settle(&mut self, now: Now) {
        let mut nobody = Effects::default();
        while self.constraints.is_pending() {
            self.work_off(now, &mut nobody);
        }
    }

    /// Which constraints a job that is nowhere has to obey. O(constraints * payload).
    #[inline(never)]
    pub(in crate::store) fn bind(&mut self, slot: u32, now: Now) {
        let buckets = self.buckets_of(slot, now);
        self.seat(slot, &buckets);
    }

    /// The buckets of a job: first those of constraints that have one only, so that the groups of a
    /// queue are few.
    fn buckets_of(&mut self, slot: u32, now: Now) -> Vec<u32> {
        let job = &self.jobs[slot];
        if job.is_packet() || job.is_never_selected() {
            return Vec::new();
        }
        let (name, payload) = (&*self.queues[job.queue].name, job.payload());
        let mut values = Vec::new();
        for (number, rule) in self.constraints.rules.iter().filter(|(_, rule)| rule.holds()) {
            if matcher::matches(&rule.constraint, name, payload) {
                let per = rule.constraint.per.as_ref();
                let value = per.map(|path| matcher::value(path, name, payload));
                values.push((per.is_some(), number, value.unwrap_or_default()));
            }
        }
        values.sort_unstable();
        let each = values.into_iter();
        each.map(|(_, rule, value)| self.constraints.bucket(rule, value, now)).collect()
    }

    /// A job that is nowhere and has no strand gets one, if it has buckets. O(k log).
    fn seat(&mut self, slot: u32, buckets: &[u32]) {
        if buckets.is_empty() {
            return;
        }
        let queue = self.jobs[slot].queue;
        let (strand, new) = self.constraints.strand(queue, buckets);
        self.constraints.strands[strand].jobs += 1;
        self.queues[queue].strands += u32::from(new);
        self.jobs[slot].enrich().strand = strand;
    }

    /// A job that is nowhere, and has a strand, loses it. O(k log).
    pub(in crate::store) fn unseat(&mut self, slot: u32) {
        let number = std::mem::replace(&mut self.jobs[slot].enrich().strand, NONE);
        let strand = &mut self.constraints.strands[number];
        strand.jobs -= 1;
        if strand.jobs == 0 {
            self.queues[strand.queue].strands -= 1;
            self.constraints.drop_strand(number);
        }
    }

    /// All jobs that are there now are matched anew.
    fn begin_sweep(&mut self) {
        let (round, place) = self.constraints.sweep;
        self.constraints.sweep_until = (round + 1, place);
        self.constraints.pending = true;
    }

    /// Matches a bounded number of jobs anew, if that is to be done.
    pub(super) fn rematch(&mut self, now: Now) {
        if self.constraints.sweep >= self.constraints.sweep_until {
            return;
        }
        let before = self.constraints.sweep;
        let (mut jobs, mut bytes) = (0, 0);
        for _ in 0..REMATCHED_PLACES {
            let (round, place) = self.constraints.sweep;
            if (round, place) >= self.constraints.sweep_until
                || jobs >= REMATCHED_JOBS
                || bytes >= REMATCHED_BYTES
            {
                break;
            }
            if place >= self.jobs.end() {
                self.constraints.sweep = (round + 1, 0);
                continue;
            }
            if self.jobs.get(place).is_some() && !self.is_hidden(place) {
                jobs += 1;
                bytes += self.jobs[place].payload().bytes.len();
                self.rematch_job(place, now);
            }
            self.constraints.sweep = (round, place + 1);
        }
        let constraints = &mut self.constraints;
        let sweep = constraints.sweep;
        let mut rules = constraints.rules.iter();
        if rules.any(|(_, rule)| before < rule.settled && rule.settled <= sweep) {
            constraints.settling.append(&mut constraints.unsettled);
        }
    }

    /// Matches a job anew. O(constraints * payload + log n).
    fn rematch_job(&mut self, slot: u32, now: Now) {
        let buckets = self.buckets_of(slot, now);
        self.constraints.steps += 1;
        let (strand, status) = (self.jobs[slot].strand(), self.jobs[slot].status);
        let before = self.constraints.strands.get(strand).map_or(&[][..], |seat| &seat.buckets);
        if *before == *buckets {
            if matches!(status, Status::Parked) {
                let group = self.constraints.strands[strand].group;
                let bucket = self.constraints.groups[group].bucket;
                self.constraints.mark(bucket);
            }
            return;
        }
        let waits = matches!(status, Status::Ready | Status::Parked);
        if waits {
            self.withdraw(slot);
        } else if strand != NONE && status == Status::Held {
            self.depart(slot);
        }
        if strand != NONE {
            self.unseat(slot);
        }
        self.seat(slot, &buckets);
        if waits {
            self.enqueue_rare(slot, now);
            let queue = self.jobs[slot].queue;
            if !self.queues[queue].waiters.is_empty() {
                self.serve_later(queue);
            }
        } else if status == Status::Held {
            for &bucket in &buckets {
                self.constraints.buckets[bucket].running += 1;
            }
        }
    }
}

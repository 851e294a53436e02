//! How jobs that are held back come, are shown and hidden, start and leave.

use super::job_class::OrderKey;
use crate::base::time::Now;
use crate::base::timer_queue::TimerId;
use crate::model::job::Status;
use crate::store::jobs::NONE;
use crate::store::{Due, Effects, Outcome, Store};

impl Store {
    /// A job with buckets, which is nowhere, becomes ready: it is held back, or shown in its
    /// queue's heap. O(log n), and O(k) for its k buckets if it is the first of its strand.
    pub(in crate::store) fn on_ready(&mut self, slot: u32, now: Now) {
        self.find_class(slot);
        let number = self.jobs[slot].strand();
        let entry = self.jobs[slot].entry(slot);
        self.jobs[slot].status = Status::Blocked;
        let strand = &mut self.constraints.classes[number];
        strand.parked.push(entry, &mut self.jobs);
        self.constraints.steps += 1;
        let group = self.constraints.classes[number].group;
        if group == NONE {
            let obstacle = self.constraints.first_full_limiter(number, now);
            let obstacle = obstacle.or_else(|| self.more_urgent_is_blocked(number));
            let bucket = obstacle.unwrap_or_else(|| self.constraints.most_shared_limiter(number));
            self.join_waitlist(number, bucket, obstacle.is_some(), now);
        } else {
            self.update_class_head(number);
            self.update_waitlist(group);
        }
    }

    /// The bucket of a strand that stands nowhere where more urgent jobs sleep although there is
    /// room everywhere, perhaps since just now: they are looked at, and go first. O(k).
    fn more_urgent_is_blocked(&mut self, number: u32) -> Option<u32> {
        let constraints = &mut self.constraints;
        let strand = &constraints.classes[number];
        let own = OrderKey::of(strand.head(&self.jobs)?, &self.jobs);
        let bucket = strand.buckets.iter().copied().find(|&bucket| {
            let first = constraints.limiters[bucket].asleep.first();
            first.is_some_and(|(key, _)| *key < own)
        })?;
        constraints.mark_dirty(bucket);
        Some(bucket)
    }

    /// A job with buckets has been taken out of what its status had it in. O(log n).
    pub(in crate::store) fn on_removed(&mut self, slot: u32) {
        let (number, status) = (self.jobs[slot].strand(), self.jobs[slot].status);
        if matches!(status, Status::Blocked | Status::Ready) {
            self.unpin_exclusion_set(slot);
        }
        let strand = &mut self.constraints.classes[number];
        match status {
            Status::Reserved => return self.end_run(number),
            Status::Blocked => {
                strand.parked.remove(self.jobs[slot].place, &mut self.jobs);
                self.jobs[slot].place = NONE;
            }
            Status::Ready => {
                strand.shown = NONE;
                let group = strand.group;
                self.constraints.waitlists[group].shown = NONE;
                self.constraints.resume(group);
            }
            Status::GroupOnly | Status::Delayed | Status::Completed | Status::Buried => return,
        }
        self.constraints.steps += 1;
        let group = self.constraints.classes[number].group;
        self.update_class_head(number);
        self.update_waitlist(group);
    }

    fn end_run(&mut self, number: u32) {
        for place in 0..self.constraints.classes[number].buckets.len() {
            let bucket = self.constraints.classes[number].buckets[place];
            self.constraints.limiters[bucket].running -= 1;
            self.constraints.mark_dirty(bucket);
        }
    }

    /// Somebody holds a job with buckets from now on. O(k).
    pub(in crate::store) fn start_run(&mut self, slot: u32, now: Now) {
        self.spend(slot, now);
        let constraints = &mut self.constraints;
        let job = &mut self.jobs[slot];
        for &bucket in &constraints.classes[job.strand()].buckets {
            constraints.limiters[bucket].running += 1;
        }
        if job.worker().is_some() {
            job.work_mut().paid = constraints.changes;
        }
    }

    /// A job that a worker holds was as good as never handed out: its tokens come back, unless
    /// constraints have changed since it took them. O(k).
    pub(in crate::store) fn refund(&mut self, slot: u32, now: Now) {
        let (job, constraints) = (&self.jobs[slot], &mut self.constraints);
        let paid = job.work().map_or(0, |work| work.paid);
        if job.strand() == NONE || paid != constraints.changes {
            return;
        }
        for &bucket in &constraints.classes[job.strand()].buckets {
            constraints.limiters[bucket].tokens.refund(now);
        }
    }

    /// A job with buckets starts. O(k).
    pub(in crate::store) fn spend(&mut self, slot: u32, now: Now) {
        let constraints = &mut self.constraints;
        for &bucket in &constraints.classes[self.jobs[slot].strand()].buckets {
            constraints.limiters[bucket].tokens.spend(now);
        }
        constraints.unblock();
    }

    /// Whether the first job of a queue's heap may not run now; then it is no longer there.
    /// O(k + log n).
    #[inline(always)]
    pub(in crate::store) fn is_blocked(&mut self, slot: u32, now: Now) -> bool {
        let job = &self.jobs[slot];
        !job.is_simple() && job.strand() != NONE && self.block_job(slot, now)
    }

    #[inline(never)]
    fn block_job(&mut self, slot: u32, now: Now) -> bool {
        let number = self.jobs[slot].strand();
        let Some(bucket) = self.constraints.first_full_limiter(number, now) else { return false };
        let group = self.constraints.classes[number].group;
        if self.constraints.waitlists[group].bucket == bucket {
            self.block_class(group, now);
        } else {
            self.leave_waitlist(number);
            self.join_waitlist(number, bucket, true, now);
        }
        true
    }

    /// A strand that stands nowhere joins the group of a bucket, which has no room if it is `full`.
    fn join_waitlist(&mut self, number: u32, bucket: u32, full: bool, now: Now) {
        let constraints = &mut self.constraints;
        let strand = &mut constraints.classes[number];
        let head = strand.head(&self.jobs).expect("a strand without jobs joins nothing");
        let key = OrderKey::of(head, &self.jobs);
        strand.key = Some(key.clone());
        let group = constraints.waitlist(bucket, number);
        constraints.classes[number].group = group;
        constraints.waitlists[group].strands.insert((key, number));
        constraints.steps += 1;
        if full && constraints.waitlists[group].asleep.is_none() {
            self.block_class(group, now);
        } else {
            self.update_waitlist(group);
        }
    }

    /// A strand whose jobs are all held back or shown stands nowhere any more; none is shown.
    fn leave_waitlist(&mut self, number: u32) {
        self.leave_ready_heap(self.constraints.classes[number].shown);
        let strand = &mut self.constraints.classes[number];
        let group = std::mem::replace(&mut strand.group, NONE);
        let key = strand.key.take().expect("a strand has the key by which it stands");
        self.constraints.waitlists[group].strands.remove(&(key, number));
        self.update_waitlist(group);
    }

    /// Another job may be the first of a strand: its group learns that. O(log s) for s strands.
    fn update_class_head(&mut self, number: u32) {
        let constraints = &mut self.constraints;
        let strand = &mut constraints.classes[number];
        let key = strand.head(&self.jobs).map(|head| OrderKey::of(head, &self.jobs));
        if key == strand.key {
            return;
        }
        let group = strand.group;
        let strands = &mut constraints.waitlists[group].strands;
        if let Some(old) = std::mem::replace(&mut strand.key, key.clone()) {
            strands.remove(&(old, number));
        }
        match key {
            Some(key) => {
                strands.insert((key, number));
            }
            None => strand.group = NONE,
        }
    }

    /// Lets a group show its first job if it is awake, and stand at its bucket by that one's key
    /// if it sleeps; a group without jobs is dropped. O(log n).
    fn update_waitlist(&mut self, number: u32) {
        let constraints = &mut self.constraints;
        let group = &mut constraints.waitlists[number];
        let Some((key, strand)) = group.strands.first() else {
            assert!(group.shown == NONE, "a job is shown by nobody");
            let (bucket, queue) = (group.bucket, group.queue);
            if let Some(key) = group.asleep.take() {
                constraints.limiters[bucket].asleep.remove(&(key, number));
            }
            let group = constraints.waitlists.remove(number).expect("it was there just now");
            constraints.waitlist_index.remove(&(bucket, queue, group.takers));
            return;
        };
        if let Some(old) = &group.asleep {
            if old != key {
                let asleep = &mut constraints.limiters[group.bucket].asleep;
                asleep.remove(&(old.clone(), number));
                asleep.insert((key.clone(), number));
                group.asleep = Some(key.clone());
                let (bucket, key) = (group.bucket, key.clone());
                constraints.on_group_blocked(bucket, &key);
            }
            return;
        }
        let head = constraints.classes[*strand].head(&self.jobs);
        let (head, shown) = (head.expect("a strand in a group has a job"), group.shown);
        if head != shown {
            if shown != NONE {
                self.leave_ready_heap(shown);
            }
            self.enter_ready_heap(head);
        }
    }

    /// Takes a job that is shown out of the heaps that it stands in. O(log n).
    fn leave_ready_heap(&mut self, slot: u32) {
        if slot == NONE {
            return;
        }
        self.remove_ready(slot);
        let job = &mut self.jobs[slot];
        job.status = Status::Blocked;
        let (number, entry) = (job.strand(), job.entry(slot));
        let strand = &mut self.constraints.classes[number];
        strand.parked.push(entry, &mut self.jobs);
        strand.shown = NONE;
        let group = strand.group;
        self.constraints.waitlists[group].shown = NONE;
        self.constraints.resume(group);
        self.constraints.steps += 1;
        // Those who wait for whatever is followed could have had what is behind it before; a pop
        // that waits for the queue could not.
        let queue = self.jobs[slot].queue;
        if !self.queues[queue].waiters.is_empty() {
            self.schedule_match(queue);
        }
    }

    /// Puts a job that is held back into the heaps that it belongs to. O(log n).
    fn enter_ready_heap(&mut self, slot: u32) {
        let number = self.jobs[slot].strand();
        let strand = &mut self.constraints.classes[number];
        strand.parked.remove(self.jobs[slot].place, &mut self.jobs);
        strand.shown = slot;
        self.constraints.waitlists[strand.group].shown = slot;
        self.jobs[slot].status = Status::Ready;
        self.push_ready(slot);
        self.constraints.steps += 1;
        self.schedule_match_for_job(slot);
    }

    /// Lets a group wait until its bucket has room. O(log n).
    fn block_class(&mut self, number: u32, now: Now) {
        self.leave_ready_heap(self.constraints.waitlists[number].shown);
        let constraints = &mut self.constraints;
        let group = &mut constraints.waitlists[number];
        let (key, _) = group.strands.first().expect("an empty group is dropped");
        let (bucket, key) = (group.bucket, key.clone());
        constraints.limiters[bucket].asleep.insert((key.clone(), number));
        group.asleep = Some(key.clone());
        constraints.on_group_blocked(bucket, &key);
        constraints.steps += 1;
        self.arm_refill(bucket, now);
    }

    /// Sees to it that a bucket where somebody sleeps is looked at when there is a token again, or
    /// its constraint is settled. O(log d).
    fn arm_refill(&mut self, number: u32, now: Now) {
        let constraints = &mut self.constraints;
        let bucket = &constraints.limiters[number];
        let rule = &constraints.rules[bucket.rule];
        if bucket.asleep.is_empty() || !rule.holds() {
            return;
        }
        if constraints.scan_pos < rule.settled {
            let bucket = &mut constraints.limiters[number];
            if !std::mem::replace(&mut bucket.limiters_waiting, true) {
                constraints.limiters_waiting.push_back(number);
            }
            return;
        }
        if rule.constraint.max_running.is_some_and(|most| bucket.running >= most) {
            return;
        }
        let bucket = &mut constraints.limiters[number];
        if bucket.tokens.any(now) {
            return;
        }
        let Some(at) = bucket.tokens.next() else { return };
        if !bucket.timer.is_none() {
            if self.deadlines.moment(bucket.timer) <= at {
                return;
            }
            // It was for when the bucket is full.
            self.deadlines.cancel(std::mem::take(&mut bucket.timer));
        }
        bucket.timer = self.deadlines.arm(at, Due::Bucket(number));
    }

    /// The deadline of a bucket has come.
    pub(in crate::store) fn refill_due(&mut self, bucket: u32) {
        self.constraints.limiters[bucket].timer = TimerId::NONE;
        self.constraints.mark_dirty(bucket);
    }

    /// Does what is to be done because of room: up to [`CONSTRAINT_STEPS_PER_PASS`] in a pass, and
    /// up to
    /// [`CONSTRAINT_STEPS_PER_COMMAND`] more behind each command; what serving somebody takes comes
    /// on top of the last one. What is left is done in the next pass.
    ///
    /// [`CONSTRAINT_STEPS_PER_PASS`]: crate::base::limits::CONSTRAINT_STEPS_PER_PASS
    /// [`CONSTRAINT_STEPS_PER_COMMAND`]: crate::base::limits::CONSTRAINT_STEPS_PER_COMMAND
    #[inline(never)]
    pub(in crate::store) fn run_pending(&mut self, now: Now, fx: &mut Effects) {
        let stint = self.constraints.start_budget();
        while self.constraints.is_running(stint) {
            // Whatever may be woken is, before anybody is served: he might get something less
            // urgent.
            let went_on = self.settle_one()
                || self.look_at_dirty(now)
                || self.constraints.recheck_changed()
                || self.constraints.schedule_one_unblocked()
                || self.run_next_match(now, fx)
                || self.answer_deferred(fx);
            if !went_on {
                break;
            }
        }
        let constraints = &mut self.constraints;
        constraints.scan_incomplete = false;
        constraints.pending = !constraints.queues_to_match.is_empty()
            || !constraints.unblocked.is_empty()
            || !constraints.deferred_replies.is_empty()
            || !constraints.changed_limits.is_empty()
            || !constraints.dirty.is_empty()
            || !constraints.limiters_ready.is_empty()
            || constraints.scan_pos < constraints.sweep_until;
    }

    /// Everything has been looked at: a take that does not wait, and has found nothing, hears so.
    /// O(queues of the take).
    fn answer_deferred(&mut self, fx: &mut Effects) -> bool {
        let Some((waiter, ticket)) = self.constraints.deferred_replies.pop_front() else {
            return false;
        };
        self.constraints.steps += 1;
        if self.waiters.get(waiter).is_some_and(|waiter| waiter.ticket == ticket) {
            self.end_wait(waiter);
            fx.answer(ticket, Outcome::NoJob);
        }
        true
    }

    /// A bucket whose rule may be settled by now is looked at.
    fn settle_one(&mut self) -> bool {
        let constraints = &mut self.constraints;
        let Some(bucket) = constraints.limiters_ready.pop_front() else { return false };
        constraints.steps += 1;
        if let Some(record) = constraints.limiters.get_mut(bucket) {
            record.limiters_waiting = false;
            constraints.mark_dirty(bucket);
        }
        true
    }

    /// Wakes whoever is next at the first bucket where something has changed, or is done with it.
    fn look_at_dirty(&mut self, now: Now) -> bool {
        let Some(&bucket) = self.constraints.dirty.front() else { return false };
        self.constraints.steps += 1;
        let there = self.constraints.limiters.get(bucket).is_some_and(|bucket| bucket.dirty);
        let woken = if there { self.unblock_next(bucket, now) } else { None };
        let awaited = woken.is_some_and(|slot| self.schedule_match_for_job(slot));
        if woken.is_some() && !awaited {
            return true;
        }
        self.constraints.dirty.pop_front();
        if there {
            self.constraints.limiters[bucket].dirty = false;
        }
        match woken {
            Some(slot) => self.constraints.pause(bucket, self.jobs[slot].queue),
            None if there => self.rearm_or_drop(bucket, now),
            None => {}
        }
        true
    }

    /// Wakes the group with the most urgent job of those that sleep at a bucket, if it has room.
    /// Tells which job it shows.
    fn unblock_next(&mut self, bucket: u32, now: Now) -> Option<u32> {
        let constraints = &mut self.constraints;
        if constraints.limiters[bucket].asleep.is_empty() || !constraints.has_room(bucket, now) {
            return None;
        }
        let (_, group) = constraints.limiters[bucket].asleep.pop_first()?;
        constraints.waitlists[group].asleep = None;
        self.update_waitlist(group);
        Some(self.constraints.waitlists[group].shown)
    }

    /// Nobody sleeps any more at a bucket, or it has no room: it is looked at again in time, or
    /// forgotten if it is as good as new.
    fn rearm_or_drop(&mut self, number: u32, now: Now) {
        let bucket = &mut self.constraints.limiters[number];
        if !bucket.timer.is_none() {
            self.deadlines.cancel(std::mem::take(&mut bucket.timer));
        }
        if bucket.classes > 0 {
            return self.arm_refill(number, now);
        }
        let rule = &self.constraints.rules[bucket.rule];
        bucket.tokens.change(rule.constraint.rate, rule.since);
        bucket.tokens.any(now);
        if rule.holds()
            && let Some(at) = bucket.tokens.full_at()
        {
            bucket.timer = self.deadlines.arm(at, Due::Bucket(number));
            return;
        }
        let bucket = self.constraints.limiters.remove(number).expect("it was there just now");
        self.constraints.rules[bucket.rule].values.remove(&bucket.value);
        self.drop_constraint_if_unused(bucket.rule);
    }

    /// Forgets a constraint that does not hold any more once nothing reminds of it.
    pub(super) fn drop_constraint_if_unused(&mut self, rule: u32) {
        let record = &self.constraints.rules[rule];
        if !record.holds() && record.values.is_empty() {
            self.constraints.rules.remove(rule);
        }
    }
}

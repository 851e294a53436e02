//! How jobs that are held back come, are shown and hidden, start and leave.

use super::strand::Key;
use crate::base::deadlines::Timer;
use crate::base::time::Now;
use crate::model::job::Status;
use crate::store::jobs::NONE;
use crate::store::{Due, Effects, Outcome, Store};

impl Store {
    /// A job with buckets, which is nowhere, becomes ready: it is held back, or shown in its
    /// queue's heap. O(log n), and O(k) for its k buckets if it is the first of its strand.
    pub(in crate::store) fn come(&mut self, slot: u32, now: Now) {
        self.find_seat(slot);
        let number = self.jobs[slot].strand();
        let entry = self.jobs[slot].entry(slot);
        self.jobs[slot].status = Status::Parked;
        let strand = &mut self.constraints.strands[number];
        strand.parked.push(entry, &mut self.jobs);
        self.constraints.steps += 1;
        let group = self.constraints.strands[number].group;
        if group == NONE {
            let obstacle = self.constraints.obstacle(number, now);
            let obstacle = obstacle.or_else(|| self.more_urgent_sleeps(number));
            let bucket = obstacle.unwrap_or_else(|| self.constraints.broadest(number));
            self.join_group(number, bucket, obstacle.is_some(), now);
        } else {
            self.rehead(number);
            self.refresh(group);
        }
    }

    /// The bucket of a strand that stands nowhere where more urgent jobs sleep although there is
    /// room everywhere, perhaps since just now: they are looked at, and go first. O(k).
    fn more_urgent_sleeps(&mut self, number: u32) -> Option<u32> {
        let constraints = &mut self.constraints;
        let strand = &constraints.strands[number];
        let own = Key::of(strand.head(&self.jobs)?, &self.jobs);
        let bucket = strand.buckets.iter().copied().find(|&bucket| {
            let first = constraints.buckets[bucket].asleep.first();
            first.is_some_and(|(key, _)| *key < own)
        })?;
        constraints.mark(bucket);
        Some(bucket)
    }

    /// A job with buckets has been taken out of what its status had it in. O(log n).
    pub(in crate::store) fn depart(&mut self, slot: u32) {
        let (number, status) = (self.jobs[slot].strand(), self.jobs[slot].status);
        if matches!(status, Status::Parked | Status::Ready) {
            self.free_shelf(slot);
        }
        let strand = &mut self.constraints.strands[number];
        match status {
            Status::Held => return self.end_run(number),
            Status::Parked => {
                strand.parked.remove(self.jobs[slot].place, &mut self.jobs);
                self.jobs[slot].place = NONE;
            }
            Status::Ready => {
                strand.shown = NONE;
                let group = strand.group;
                self.constraints.groups[group].shown = NONE;
                self.constraints.rouse(group);
            }
            Status::Aside | Status::Delayed | Status::Kept | Status::Buried => return,
        }
        self.constraints.steps += 1;
        let group = self.constraints.strands[number].group;
        self.rehead(number);
        self.refresh(group);
    }

    fn end_run(&mut self, number: u32) {
        for place in 0..self.constraints.strands[number].buckets.len() {
            let bucket = self.constraints.strands[number].buckets[place];
            self.constraints.buckets[bucket].running -= 1;
            self.constraints.mark(bucket);
        }
    }

    /// Somebody holds a job with buckets from now on. O(k).
    pub(in crate::store) fn start_run(&mut self, slot: u32, now: Now) {
        self.spend(slot, now);
        let constraints = &mut self.constraints;
        let job = &mut self.jobs[slot];
        for &bucket in &constraints.strands[job.strand()].buckets {
            constraints.buckets[bucket].running += 1;
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
        for &bucket in &constraints.strands[job.strand()].buckets {
            constraints.buckets[bucket].tokens.give_back(now);
        }
    }

    /// A job with buckets starts. O(k).
    pub(in crate::store) fn spend(&mut self, slot: u32, now: Now) {
        let constraints = &mut self.constraints;
        for &bucket in &constraints.strands[self.jobs[slot].strand()].buckets {
            constraints.buckets[bucket].tokens.spend(now);
        }
        constraints.unblock();
    }

    /// Whether the first job of a queue's heap may not run now; then it is no longer there.
    /// O(k + log n).
    #[inline(always)]
    pub(in crate::store) fn holds_back(&mut self, slot: u32, now: Now) -> bool {
        let job = &self.jobs[slot];
        !job.is_plain() && job.strand() != NONE && self.put_away(slot, now)
    }

    #[inline(never)]
    fn put_away(&mut self, slot: u32, now: Now) -> bool {
        let number = self.jobs[slot].strand();
        let Some(bucket) = self.constraints.obstacle(number, now) else { return false };
        let group = self.constraints.strands[number].group;
        if self.constraints.groups[group].bucket == bucket {
            self.put_to_sleep(group, now);
        } else {
            self.leave_group(number);
            self.join_group(number, bucket, true, now);
        }
        true
    }

    /// A strand that stands nowhere joins the group of a bucket, which has no room if it is `full`.
    fn join_group(&mut self, number: u32, bucket: u32, full: bool, now: Now) {
        let constraints = &mut self.constraints;
        let strand = &mut constraints.strands[number];
        let head = strand.head(&self.jobs).expect("a strand without jobs joins nothing");
        let key = Key::of(head, &self.jobs);
        strand.key = Some(key.clone());
        let group = constraints.group(bucket, number);
        constraints.strands[number].group = group;
        constraints.groups[group].strands.insert((key, number));
        constraints.steps += 1;
        if full && constraints.groups[group].asleep.is_none() {
            self.put_to_sleep(group, now);
        } else {
            self.refresh(group);
        }
    }

    /// A strand whose jobs are all held back or shown stands nowhere any more; none is shown.
    fn leave_group(&mut self, number: u32) {
        self.hide(self.constraints.strands[number].shown);
        let strand = &mut self.constraints.strands[number];
        let group = std::mem::replace(&mut strand.group, NONE);
        let key = strand.key.take().expect("a strand has the key by which it stands");
        self.constraints.groups[group].strands.remove(&(key, number));
        self.refresh(group);
    }

    /// Another job may be the first of a strand: its group learns that. O(log s) for s strands.
    fn rehead(&mut self, number: u32) {
        let constraints = &mut self.constraints;
        let strand = &mut constraints.strands[number];
        let key = strand.head(&self.jobs).map(|head| Key::of(head, &self.jobs));
        if key == strand.key {
            return;
        }
        let group = strand.group;
        let strands = &mut constraints.groups[group].strands;
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
    fn refresh(&mut self, number: u32) {
        let constraints = &mut self.constraints;
        let group = &mut constraints.groups[number];
        let Some((key, strand)) = group.strands.first() else {
            assert!(group.shown == NONE, "a job is shown by nobody");
            let (bucket, queue) = (group.bucket, group.queue);
            if let Some(key) = group.asleep.take() {
                constraints.buckets[bucket].asleep.remove(&(key, number));
            }
            let group = constraints.groups.remove(number).expect("it was there just now");
            constraints.by_place.remove(&(bucket, queue, group.takers));
            return;
        };
        if let Some(old) = &group.asleep {
            if old != key {
                let asleep = &mut constraints.buckets[group.bucket].asleep;
                asleep.remove(&(old.clone(), number));
                asleep.insert((key.clone(), number));
                group.asleep = Some(key.clone());
                let (bucket, key) = (group.bucket, key.clone());
                constraints.sleeps(bucket, &key);
            }
            return;
        }
        let head = constraints.strands[*strand].head(&self.jobs);
        let (head, shown) = (head.expect("a strand in a group has a job"), group.shown);
        if head != shown {
            if shown != NONE {
                self.hide(shown);
            }
            self.show(head);
        }
    }

    /// Takes a job that is shown out of the heaps that it stands in. O(log n).
    fn hide(&mut self, slot: u32) {
        if slot == NONE {
            return;
        }
        self.leave_heaps(slot);
        let job = &mut self.jobs[slot];
        job.status = Status::Parked;
        let (number, entry) = (job.strand(), job.entry(slot));
        let strand = &mut self.constraints.strands[number];
        strand.parked.push(entry, &mut self.jobs);
        strand.shown = NONE;
        let group = strand.group;
        self.constraints.groups[group].shown = NONE;
        self.constraints.rouse(group);
        self.constraints.steps += 1;
        // Those who wait for whatever is followed could have had what is behind it before; a pop
        // that waits for the queue could not.
        let queue = self.jobs[slot].queue;
        if !self.queues[queue].waiters.is_empty() {
            self.serve_later(queue);
        }
    }

    /// Puts a job that is held back into the heaps that it belongs to. O(log n).
    fn show(&mut self, slot: u32) {
        let number = self.jobs[slot].strand();
        let strand = &mut self.constraints.strands[number];
        strand.parked.remove(self.jobs[slot].place, &mut self.jobs);
        strand.shown = slot;
        self.constraints.groups[strand.group].shown = slot;
        self.jobs[slot].status = Status::Ready;
        self.stand_ready(slot);
        self.constraints.steps += 1;
        self.serve_later_for(slot);
    }

    /// Lets a group wait until its bucket has room. O(log n).
    fn put_to_sleep(&mut self, number: u32, now: Now) {
        self.hide(self.constraints.groups[number].shown);
        let constraints = &mut self.constraints;
        let group = &mut constraints.groups[number];
        let (key, _) = group.strands.first().expect("an empty group is dropped");
        let (bucket, key) = (group.bucket, key.clone());
        constraints.buckets[bucket].asleep.insert((key.clone(), number));
        group.asleep = Some(key.clone());
        constraints.sleeps(bucket, &key);
        constraints.steps += 1;
        self.set_alarm(bucket, now);
    }

    /// Sees to it that a bucket where somebody sleeps is looked at when there is a token again, or
    /// its constraint is settled. O(log d).
    fn set_alarm(&mut self, number: u32, now: Now) {
        let constraints = &mut self.constraints;
        let bucket = &constraints.buckets[number];
        let rule = &constraints.rules[bucket.rule];
        if bucket.asleep.is_empty() || !rule.holds() {
            return;
        }
        if constraints.sweep < rule.settled {
            let bucket = &mut constraints.buckets[number];
            if !std::mem::replace(&mut bucket.unsettled, true) {
                constraints.unsettled.push_back(number);
            }
            return;
        }
        if rule.constraint.max_running.is_some_and(|most| bucket.running >= most) {
            return;
        }
        let bucket = &mut constraints.buckets[number];
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
    pub(in crate::store) fn bucket_due(&mut self, bucket: u32) {
        self.constraints.buckets[bucket].timer = Timer::NONE;
        self.constraints.mark(bucket);
    }

    /// Does what is to be done because of room: up to [`CONSTRAINT_STEPS`] in a pass, and up to
    /// [`CONSTRAINT_STEPS_EACH`] more behind each command; what serving somebody takes comes on top
    /// of the last one. What is left is done in the next pass.
    ///
    /// [`CONSTRAINT_STEPS`]: crate::base::limits::CONSTRAINT_STEPS
    /// [`CONSTRAINT_STEPS_EACH`]: crate::base::limits::CONSTRAINT_STEPS_EACH
    #[inline(never)]
    pub(in crate::store) fn work_off(&mut self, now: Now, fx: &mut Effects) {
        let stint = self.constraints.begin();
        while self.constraints.goes_on(stint) {
            // Whatever may be woken is, before anybody is served: he might get something less
            // urgent.
            let went_on = self.settle_one()
                || self.look_at_dirty(now)
                || self.constraints.look_at_revised()
                || self.constraints.unblock_one()
                || self.serve_next(now, fx)
                || self.answer_one(fx);
            if !went_on {
                break;
            }
        }
        let constraints = &mut self.constraints;
        constraints.unseen = false;
        constraints.pending = !constraints.unserved.is_empty()
            || !constraints.unblocked.is_empty()
            || !constraints.unanswered.is_empty()
            || !constraints.revised.is_empty()
            || !constraints.dirty.is_empty()
            || !constraints.settling.is_empty()
            || constraints.sweep < constraints.sweep_until;
    }

    /// Everything has been looked at: a take that does not wait, and has found nothing, hears so.
    /// O(queues of the take).
    fn answer_one(&mut self, fx: &mut Effects) -> bool {
        let Some((waiter, ticket)) = self.constraints.unanswered.pop_front() else { return false };
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
        let Some(bucket) = constraints.settling.pop_front() else { return false };
        constraints.steps += 1;
        if let Some(record) = constraints.buckets.get_mut(bucket) {
            record.unsettled = false;
            constraints.mark(bucket);
        }
        true
    }

    /// Wakes whoever is next at the first bucket where something has changed, or is done with it.
    fn look_at_dirty(&mut self, now: Now) -> bool {
        let Some(&bucket) = self.constraints.dirty.front() else { return false };
        self.constraints.steps += 1;
        let there = self.constraints.buckets.get(bucket).is_some_and(|bucket| bucket.dirty);
        let woken = if there { self.wake_one(bucket, now) } else { None };
        let awaited = woken.is_some_and(|slot| self.serve_later_for(slot));
        if woken.is_some() && !awaited {
            return true;
        }
        self.constraints.dirty.pop_front();
        if there {
            self.constraints.buckets[bucket].dirty = false;
        }
        match woken {
            Some(slot) => self.constraints.rest(bucket, self.jobs[slot].queue),
            None if there => self.look_after(bucket, now),
            None => {}
        }
        true
    }

    /// Wakes the group with the most urgent job of those that sleep at a bucket, if it has room.
    /// Tells which job it shows.
    fn wake_one(&mut self, bucket: u32, now: Now) -> Option<u32> {
        let constraints = &mut self.constraints;
        if constraints.buckets[bucket].asleep.is_empty() || !constraints.has_room(bucket, now) {
            return None;
        }
        let (_, group) = constraints.buckets[bucket].asleep.pop_first()?;
        constraints.groups[group].asleep = None;
        self.refresh(group);
        Some(self.constraints.groups[group].shown)
    }

    /// Nobody sleeps any more at a bucket, or it has no room: it is looked at again in time, or
    /// forgotten if it is as good as new.
    fn look_after(&mut self, number: u32, now: Now) {
        let bucket = &mut self.constraints.buckets[number];
        if !bucket.timer.is_none() {
            self.deadlines.cancel(std::mem::take(&mut bucket.timer));
        }
        if bucket.strands > 0 {
            return self.set_alarm(number, now);
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
        let bucket = self.constraints.buckets.remove(number).expect("it was there just now");
        self.constraints.rules[bucket.rule].values.remove(&bucket.value);
        self.drop_rule_if_over(bucket.rule);
    }

    /// Forgets a constraint that does not hold any more once nothing reminds of it.
    pub(super) fn drop_rule_if_over(&mut self, rule: u32) {
        let record = &self.constraints.rules[rule];
        if !record.holds() && record.values.is_empty() {
            self.constraints.rules.remove(rule);
        }
    }
}

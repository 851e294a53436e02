//! Transitions of jobs with limiters: blocked, in the ready heap, running, gone.

use super::job_class::OrderKey;
use crate::base::slab_index::PackedOption;
use crate::base::time::Now;
use crate::model::job::Status;
use crate::store::idx::{JobClassIdx, JobIdx, LimiterIdx, WaitlistIdx};
use crate::store::{Effects, Outcome, Store};

impl Store {
    /// A job with limiters, in no heap, becomes ready: it is blocked, or enters its queue's ready
    /// heap. O(log n), and O(k) for its k limiters if it is the first of its class.
    pub(in crate::store) fn on_ready(&mut self, slot: JobIdx, now: Now) {
        self.update_class(slot);
        let class_slot = self.jobs[slot].expect_class();
        let entry = self.jobs[slot].entry(slot);
        self.jobs[slot].status = Status::Blocked;
        let class = &mut self.constraints.classes[class_slot];
        class.blocked_jobs.push(entry, &mut self.jobs);
        self.constraints.steps += 1;
        if let Some(waitlist) = self.constraints.classes[class_slot].waitlist.expand() {
            self.update_class_head(class_slot);
            self.update_waitlist(waitlist);
        } else {
            let blocking = self.constraints.first_full_limiter(class_slot, now);
            let blocking = blocking.or_else(|| self.more_urgent_is_blocked(class_slot));
            let limiter =
                blocking.unwrap_or_else(|| self.constraints.most_shared_limiter(class_slot));
            self.join_waitlist(class_slot, limiter, blocking.is_some(), now);
        }
    }

    /// For a class in no waitlist whose limiters all have capacity, perhaps since just now: the
    /// limiter where a more urgent waitlist is blocked. That one goes first; the limiter is marked
    /// dirty. O(k).
    fn more_urgent_is_blocked(&mut self, class_slot: JobClassIdx) -> Option<LimiterIdx> {
        let constraints = &mut self.constraints;
        let class = &constraints.classes[class_slot];
        let own = OrderKey::of(class.head(&self.jobs)?, &self.jobs);
        let limiter = class.limiters.iter().copied().find(|&limiter| {
            let first = constraints.limiters[limiter].blocked_waitlists.first();
            first.is_some_and(|(key, _)| *key < own)
        })?;
        constraints.mark_dirty(limiter);
        Some(limiter)
    }

    /// A job with limiters was taken out of what its status had it in. O(log n).
    pub(in crate::store) fn on_removed(&mut self, slot: JobIdx) {
        let (class_slot, status) = (self.jobs[slot].expect_class(), self.jobs[slot].status);
        if matches!(status, Status::Blocked | Status::Ready) {
            self.unpin_exclusion_set(slot);
        }
        let class = &mut self.constraints.classes[class_slot];
        match status {
            Status::Reserved => return self.constraints.end_run(class_slot),
            Status::Blocked => {
                class.blocked_jobs.remove(self.jobs[slot].heap_position(), &mut self.jobs);
                self.jobs[slot].clear_links();
            }
            Status::Ready => {
                class.ready_job = PackedOption::NONE;
                let waitlist = class.expect_waitlist();
                self.constraints.waitlists[waitlist].ready_job = PackedOption::NONE;
                self.constraints.resume(waitlist);
            }
            Status::GroupOnly | Status::Delayed | Status::Completed | Status::Buried => return,
        }
        self.constraints.steps += 1;
        let waitlist = self.constraints.classes[class_slot].expect_waitlist();
        self.update_class_head(class_slot);
        self.update_waitlist(waitlist);
    }

    /// Whether the head of a ready heap may not run now; then it is no longer in the heap. O(k +
    /// log n).
    #[inline(always)]
    pub(in crate::store) fn is_blocked(&mut self, slot: JobIdx, now: Now) -> bool {
        let job = &self.jobs[slot];
        !job.is_simple() && job.class().is_some_and(|class| self.block_class(class, now))
    }

    #[inline(never)]
    fn block_class(&mut self, class: JobClassIdx, now: Now) -> bool {
        let Some(limiter) = self.constraints.first_full_limiter(class, now) else { return false };
        let waitlist = self.constraints.classes[class].expect_waitlist();
        if self.constraints.waitlists[waitlist].limiter == limiter {
            self.block_waitlist(waitlist, now);
        } else {
            self.leave_waitlist(class);
            self.join_waitlist(class, limiter, true, now);
        }
        true
    }

    /// Adds a class to the waitlist of `limiter`; `full`: blocks it there. O(log n).
    fn join_waitlist(
        &mut self,
        class_slot: JobClassIdx,
        limiter: LimiterIdx,
        full: bool,
        now: Now,
    ) {
        let constraints = &mut self.constraints;
        let class = &mut constraints.classes[class_slot];
        let head = class.head(&self.jobs).expect("only a class with waiting jobs joins a waitlist");
        let key = OrderKey::of(head, &self.jobs);
        class.key = Some(key.clone());
        let waitlist = constraints.waitlist(limiter, class_slot);
        constraints.classes[class_slot].waitlist = waitlist.into();
        constraints.waitlists[waitlist].classes.insert((key, class_slot));
        constraints.steps += 1;
        if full && constraints.waitlists[waitlist].blocked_key.is_none() {
            self.block_waitlist(waitlist, now);
        } else {
            self.update_waitlist(waitlist);
        }
    }

    /// Takes a class out of its waitlist and its ready job out of the ready heap. O(log n).
    fn leave_waitlist(&mut self, class_slot: JobClassIdx) {
        self.leave_ready_heap(self.constraints.classes[class_slot].ready_job);
        let class = &mut self.constraints.classes[class_slot];
        let waitlist = class.waitlist.take().expect("only a class in a waitlist leaves one");
        let key = class.key.take().expect("a class in a waitlist has a key");
        self.constraints.waitlists[waitlist].classes.remove(&(key, class_slot));
        self.update_waitlist(waitlist);
    }

    /// Recomputes the head of a class, and its position in its waitlist. O(log s) for s classes.
    fn update_class_head(&mut self, class_slot: JobClassIdx) {
        let constraints = &mut self.constraints;
        let class = &mut constraints.classes[class_slot];
        let key = class.head(&self.jobs).map(|head| OrderKey::of(head, &self.jobs));
        if key == class.key {
            return;
        }
        let classes = &mut constraints.waitlists[class.expect_waitlist()].classes;
        if let Some(old) = std::mem::replace(&mut class.key, key.clone()) {
            classes.remove(&(old, class_slot));
        }
        match key {
            Some(key) => {
                classes.insert((key, class_slot));
            }
            None => class.waitlist = PackedOption::NONE,
        }
    }

    /// Brings an open waitlist's head into the ready heap, or a blocked one to the position of its
    /// head at the limiter. Removes a waitlist without classes. O(log n).
    fn update_waitlist(&mut self, waitlist_slot: WaitlistIdx) {
        let constraints = &mut self.constraints;
        let waitlist = &mut constraints.waitlists[waitlist_slot];
        let Some((key, class)) = waitlist.classes.first() else {
            assert!(waitlist.ready_job.is_none(), "a waitlist without classes has a ready job");
            let (limiter, queue) = (waitlist.limiter, waitlist.queue);
            if let Some(key) = waitlist.blocked_key.take() {
                constraints.limiters[limiter].blocked_waitlists.remove(&(key, waitlist_slot));
            }
            let waitlist = constraints.waitlists.remove(waitlist_slot).expect("looked up above");
            constraints.waitlist_index.remove(&(limiter, queue, waitlist.eligibility));
            return;
        };
        if let Some(old) = &waitlist.blocked_key {
            if old != key {
                let blocked = &mut constraints.limiters[waitlist.limiter].blocked_waitlists;
                blocked.remove(&(old.clone(), waitlist_slot));
                blocked.insert((key.clone(), waitlist_slot));
                waitlist.blocked_key = Some(key.clone());
                let (limiter, key) = (waitlist.limiter, key.clone());
                constraints.on_waitlist_blocked(limiter, &key);
            }
            return;
        }
        let head = constraints.classes[*class].head(&self.jobs);
        let (head, ready_job) =
            (head.expect("a class in a waitlist has a waiting job"), waitlist.ready_job);
        if ready_job != head.into() {
            self.leave_ready_heap(ready_job);
            self.enter_ready_heap(head);
        }
    }

    /// Moves a job from the ready heaps to its class's heap of blocked jobs, if there is one.
    /// O(log n).
    fn leave_ready_heap(&mut self, ready_job: PackedOption<JobIdx>) {
        let Some(slot) = ready_job.expand() else { return };
        debug_assert_eq!(self.jobs[slot].status, Status::Ready, "a job outside the ready heap");
        self.remove_ready(slot);
        let job = &mut self.jobs[slot];
        job.status = Status::Blocked;
        let (class_slot, entry) = (job.expect_class(), job.entry(slot));
        let class = &mut self.constraints.classes[class_slot];
        class.blocked_jobs.push(entry, &mut self.jobs);
        class.ready_job = PackedOption::NONE;
        let waitlist = class.expect_waitlist();
        self.constraints.waitlists[waitlist].ready_job = PackedOption::NONE;
        self.constraints.resume(waitlist);
        self.constraints.steps += 1;
        // A pop waiting for the queue may now be eligible for the job behind this one. Waiters for
        // any tracked job were eligible for that one before.
        let queue = self.jobs[slot].queue;
        if !self.queues[queue].waiters.is_empty() {
            self.schedule_match(queue.into());
        }
    }

    /// Moves a blocked job into the ready heaps that it belongs to. O(log n).
    fn enter_ready_heap(&mut self, slot: JobIdx) {
        debug_assert_eq!(self.jobs[slot].status, Status::Blocked, "already in the ready heap");
        let class_slot = self.jobs[slot].expect_class();
        let class = &mut self.constraints.classes[class_slot];
        class.blocked_jobs.remove(self.jobs[slot].heap_position(), &mut self.jobs);
        class.ready_job = slot.into();
        let waitlist = class.expect_waitlist();
        self.constraints.waitlists[waitlist].ready_job = slot.into();
        self.jobs[slot].status = Status::Ready;
        self.push_ready(slot);
        self.constraints.steps += 1;
        self.schedule_match_for_job(slot);
    }

    /// Blocks an open waitlist until its limiter has capacity. O(log n).
    fn block_waitlist(&mut self, waitlist_slot: WaitlistIdx, now: Now) {
        debug_assert!(
            self.constraints.waitlists[waitlist_slot].blocked_key.is_none(),
            "a waitlist is blocked twice"
        );
        self.leave_ready_heap(self.constraints.waitlists[waitlist_slot].ready_job);
        let constraints = &mut self.constraints;
        let waitlist = &mut constraints.waitlists[waitlist_slot];
        let (key, _) = waitlist.classes.first().expect("a waitlist without classes is removed");
        let (limiter, key) = (waitlist.limiter, key.clone());
        constraints.limiters[limiter].blocked_waitlists.insert((key.clone(), waitlist_slot));
        waitlist.blocked_key = Some(key.clone());
        constraints.on_waitlist_blocked(limiter, &key);
        constraints.steps += 1;
        constraints.arm_refill(limiter, &mut self.deadlines, now);
    }

    /// Unblocks, matches and answers what capacity permits: up to [`CONSTRAINT_STEPS_PER_PASS`]
    /// steps in a pass, and [`CONSTRAINT_STEPS_PER_COMMAND`] more after each command; the last step
    /// may exceed that by what one match costs. The rest continues in the next pass.
    ///
    /// [`CONSTRAINT_STEPS_PER_PASS`]: crate::base::limits::CONSTRAINT_STEPS_PER_PASS
    /// [`CONSTRAINT_STEPS_PER_COMMAND`]: crate::base::limits::CONSTRAINT_STEPS_PER_COMMAND
    #[inline(never)]
    pub(in crate::store) fn run_pending(&mut self, now: Now, fx: &mut Effects) {
        let budget = self.constraints.start_budget();
        while self.constraints.is_running(budget) {
            // Matching comes after all unblocking: earlier, a waiter could get a less urgent job.
            let progressed = self.constraints.recheck_one_scanned()
                || self.process_dirty(now)
                || self.constraints.recheck_changed()
                || self.constraints.schedule_one_pop_recheck()
                || self.run_next_match(now, fx)
                || self.answer_change(fx)
                || self.answer_deferred(fx);
            if !progressed {
                break;
            }
        }
        let constraints = &mut self.constraints;
        constraints.scan_incomplete = false;
        constraints.pending = !constraints.queues_to_match.is_empty()
            || !constraints.queues_to_recheck.is_empty()
            || !constraints.deferred_replies.is_empty()
            || !constraints.change_replies.is_empty()
            || !constraints.changed_limits.is_empty()
            || !constraints.dirty.is_empty()
            || !constraints.limiters_scanned.is_empty()
            || constraints.is_scanning();
    }

    /// Nothing is left to unblock or to match: a changed constraint that the scan has applied to
    /// all jobs is in force, and its command is answered.
    fn answer_change(&mut self, fx: &mut Effects) -> bool {
        let constraints = &mut self.constraints;
        match constraints.change_replies.front() {
            Some(reply) if reply.in_force_at <= constraints.scan_pos => {
                fx.answer(reply.ticket, Outcome::Constraint(reply.reply));
            }
            _ => return false,
        }
        constraints.change_replies.pop_front();
        constraints.steps += 1;
        true
    }

    /// The scan is complete: answers "no job" to the first deferred reserve that still waits.
    /// O(queues of the reserve).
    fn answer_deferred(&mut self, fx: &mut Effects) -> bool {
        if self.constraints.is_scanning() {
            return false;
        }
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

    /// Unblocks the next waitlist of the first dirty limiter, or finishes with that limiter.
    fn process_dirty(&mut self, now: Now) -> bool {
        let Some(&limiter) = self.constraints.dirty.front() else { return false };
        self.constraints.steps += 1;
        let exists = self.constraints.limiters.get(limiter).is_some_and(|limiter| limiter.dirty);
        let unblocked = if exists { self.unblock_next(limiter, now) } else { None };
        let has_waiter = unblocked.is_some_and(|slot| self.schedule_match_for_job(slot));
        if unblocked.is_some() && !has_waiter {
            return true;
        }
        self.constraints.dirty.pop_front();
        if exists {
            self.constraints.limiters[limiter].dirty = false;
        }
        match unblocked {
            Some(slot) => self.constraints.pause(limiter, self.jobs[slot].queue),
            None if exists => {
                self.constraints.rearm_or_drop(limiter, &mut self.deadlines, now);
            }
            None => {}
        }
        true
    }

    /// Unblocks the most urgent blocked waitlist of a limiter, if that has capacity. Returns the
    /// job that enters the ready heap.
    fn unblock_next(&mut self, limiter: LimiterIdx, now: Now) -> Option<JobIdx> {
        let constraints = &mut self.constraints;
        if constraints.limiters[limiter].blocked_waitlists.is_empty()
            || !constraints.has_capacity(limiter, now)
        {
            return None;
        }
        let (_, waitlist) = constraints.limiters[limiter].blocked_waitlists.pop_first()?;
        constraints.waitlists[waitlist].blocked_key = None;
        self.update_waitlist(waitlist);
        let ready_job = self.constraints.waitlists[waitlist].ready_job.expand();
        Some(ready_job.expect("the head of an open waitlist is in the ready heap"))
    }
}

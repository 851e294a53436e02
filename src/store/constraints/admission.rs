//! Transitions of jobs with limiters: blocked, in the ready heap, running, gone.

use super::Constraints;
use super::job_class::{JobClass, OrderKey};
use crate::base::slab_index::PackedOption;
use crate::base::time::Now;
use crate::base::timer_queue::TimerQueue;
use crate::model::job::Status;
use crate::store::idx::{JobClassIdx, JobIdx, LimiterIdx, WaitlistIdx};
use crate::store::jobs::Jobs;
use crate::store::rare_counts::RareStatus;
use crate::store::{Due, Effects, Outcome, Store};

impl Constraints {
    /// For a class in no waitlist whose limiters all have capacity, perhaps since just now: the
    /// limiter where a more urgent waitlist is blocked. That one goes first; the limiter is marked
    /// dirty. O(k).
    fn more_urgent_is_blocked(&mut self, class: JobClassIdx, jobs: &Jobs) -> Option<LimiterIdx> {
        let JobClass { ref limiters, waitlist, .. } = self.classes[class];
        debug_assert!(waitlist.is_none(), "a class in a waitlist waits for its limiter alone");
        let own = OrderKey::of(self.classes[class].head(jobs)?, jobs);
        let limiter = limiters.iter().copied().find(|&limiter| {
            let first = self.limiters[limiter].blocked_waitlists.first();
            first.is_some_and(|(key, _)| *key < own)
        })?;
        self.mark_dirty(limiter);
        Some(limiter)
    }

    /// Recomputes the head of a class in a waitlist, and its position there; a class without
    /// waiting jobs leaves. O(log s) for s classes.
    fn update_class_head(&mut self, class: JobClassIdx, jobs: &Jobs) {
        let record = &mut self.classes[class];
        debug_assert!(record.waitlist.is_some(), "a class without waitlist has no position");
        let key = record.head(jobs).map(|head| OrderKey::of(head, jobs));
        if key == record.key {
            return;
        }
        let classes = &mut self.waitlists[record.expect_waitlist()].classes;
        if let Some(old) = std::mem::replace(&mut record.key, key.clone()) {
            let was_there = classes.remove(&(old, class));
            debug_assert!(was_there, "a class is in its waitlist under its key");
        }
        match key {
            Some(key) => {
                let is_new = classes.insert((key, class));
                debug_assert!(is_new, "a class is in its waitlist once");
            }
            None => record.waitlist = PackedOption::NONE,
        }
    }

    /// Removes a waitlist without classes. O(log n).
    fn remove_waitlist(&mut self, waitlist: WaitlistIdx) {
        let record = self.waitlists.remove(waitlist).expect("a waitlist is removed once");
        debug_assert!(record.classes.is_empty(), "a waitlist with classes is removed");
        assert!(record.ready_job.is_none(), "a waitlist without classes has a ready job");
        if let Some(key) = record.blocked_key {
            let blocked = &mut self.limiters[record.limiter].blocked_waitlists;
            let was_there = blocked.remove(&(key, waitlist));
            debug_assert!(was_there, "a blocked waitlist is at its limiter under its key");
        }
        let key = (record.limiter, record.queue, record.eligibility);
        let known = self.waitlist_index.remove(&key);
        debug_assert_eq!(known, Some(waitlist), "a waitlist is found by its limiter");
    }

    /// Brings a blocked waitlist to the position of its head at the limiter. O(log n).
    fn update_blocked_waitlist(&mut self, waitlist: WaitlistIdx) {
        let record = &mut self.waitlists[waitlist];
        debug_assert!(record.ready_job.is_none(), "a blocked waitlist has a ready job");
        let (key, _) = record.classes.first().expect("a waitlist without classes is removed");
        let old = record.blocked_key.as_ref().expect("the waitlist is blocked");
        if old == key {
            return;
        }
        let (limiter, key) = (record.limiter, key.clone());
        let blocked = &mut self.limiters[limiter].blocked_waitlists;
        let was_there = blocked.remove(&(old.clone(), waitlist));
        debug_assert!(was_there, "a blocked waitlist is at its limiter under its key");
        let is_new = blocked.insert((key.clone(), waitlist));
        debug_assert!(is_new, "a waitlist is blocked once");
        record.blocked_key = Some(key.clone());
        self.on_waitlist_blocked(limiter, &key);
    }

    /// The head of an open waitlist, and the job in the ready heap, which it has to become. O(1).
    fn open_head(&self, waitlist: WaitlistIdx, jobs: &Jobs) -> (JobIdx, PackedOption<JobIdx>) {
        let record = &self.waitlists[waitlist];
        debug_assert!(record.blocked_key.is_none(), "a blocked waitlist has no job to show");
        let (_, class) = record.classes.first().expect("a waitlist without classes is removed");
        let head = self.classes[*class].head(jobs);
        (head.expect("a class in a waitlist has a waiting job"), record.ready_job)
    }

    /// Blocks an open waitlist whose job has left the ready heap, until its limiter has capacity.
    /// O(log n + log d).
    fn insert_blocked(&mut self, waitlist: WaitlistIdx, deadlines: &mut TimerQueue<Due>, now: Now) {
        let record = &mut self.waitlists[waitlist];
        debug_assert!(record.ready_job.is_none(), "a blocked waitlist has a ready job");
        debug_assert!(record.blocked_key.is_none(), "a waitlist is blocked twice");
        let (key, _) = record.classes.first().expect("a waitlist without classes is removed");
        let (limiter, key) = (record.limiter, key.clone());
        let is_new = self.limiters[limiter].blocked_waitlists.insert((key.clone(), waitlist));
        debug_assert!(is_new, "a waitlist is blocked once");
        record.blocked_key = Some(key.clone());
        self.on_waitlist_blocked(limiter, &key);
        self.steps += 1;
        self.arm_refill(limiter, deadlines, now);
    }

    /// Opens the most urgent blocked waitlist of a limiter, if that has capacity. The caller brings
    /// its head into the ready heap. O(log n).
    fn open_next_waitlist(&mut self, limiter: LimiterIdx, now: Now) -> Option<WaitlistIdx> {
        if self.limiters[limiter].blocked_waitlists.is_empty() || !self.has_capacity(limiter, now) {
            return None;
        }
        let (_, waitlist) = self.limiters[limiter].blocked_waitlists.pop_first()?;
        debug_assert!(
            self.waitlists[waitlist].limiter == limiter
                && self.waitlists[waitlist].ready_job.is_none(),
            "a waitlist is blocked at its own limiter, and has no ready job meanwhile"
        );
        let former = self.waitlists[waitlist].blocked_key.take();
        debug_assert!(former.is_some(), "a waitlist in the list of a limiter is blocked");
        Some(waitlist)
    }

    /// Adds a class with waiting jobs to the waitlist of `limiter`. O(log n).
    fn insert_in_waitlist(
        &mut self,
        class: JobClassIdx,
        limiter: LimiterIdx,
        jobs: &Jobs,
    ) -> WaitlistIdx {
        debug_assert!(self.classes[class].waitlist.is_none(), "a class is in one waitlist");
        let head = self.classes[class].head(jobs);
        let key = OrderKey::of(head.expect("only a class with waiting jobs joins one"), jobs);
        let waitlist = self.waitlist(limiter, class);
        let record = &mut self.classes[class];
        debug_assert!(record.key.is_none(), "a class outside of waitlists has no position");
        (record.key, record.waitlist) = (Some(key.clone()), waitlist.into());
        let is_new = self.waitlists[waitlist].classes.insert((key, class));
        debug_assert!(is_new, "a class is in one waitlist");
        self.steps += 1;
        waitlist
    }

    /// Takes a class whose job has left the ready heap out of its waitlist. O(log n).
    fn remove_from_waitlist(&mut self, class: JobClassIdx) -> WaitlistIdx {
        let record = &mut self.classes[class];
        debug_assert!(record.ready_job.is_none(), "the ready job is that of the waitlist");
        let waitlist = record.waitlist.take().expect("only a class in a waitlist leaves one");
        let key = record.key.take().expect("a class in a waitlist has a key");
        let was_there = self.waitlists[waitlist].classes.remove(&(key, class));
        debug_assert!(was_there, "a class is in its waitlist under its key");
        waitlist
    }

    /// Nothing is left to unblock or to match: a changed constraint that the scan has applied to
    /// all jobs is in force, and its command is answered.
    fn answer_change(&mut self, fx: &mut Effects) -> bool {
        match self.change_replies.front() {
            Some(reply) if reply.in_force_at <= self.scan_pos => {
                fx.answer(reply.ticket, Outcome::Constraint(reply.reply));
            }
            _ => return false,
        }
        self.change_replies.pop_front();
        self.steps += 1;
        true
    }

    /// Ends pending work for now: notes whether any is left. O(1).
    fn settle(&mut self) {
        self.scan_incomplete = false;
        self.pending = !self.queues_to_match.is_empty()
            || !self.queues_to_recheck.is_empty()
            || !self.released.is_empty()
            || !self.deferred_replies.is_empty()
            || !self.change_replies.is_empty()
            || !self.changed_limits.is_empty()
            || !self.dirty.is_empty()
            || !self.limiters_scanned.is_empty()
            || self.is_scanning();
    }
}

impl Store {
    /// A job with limiters, in no heap, becomes ready: it is blocked, or enters its queue's ready
    /// heap. O(log n), and O(k) for its k limiters if it is the first of its class.
    pub(in crate::store) fn on_ready(&mut self, slot: JobIdx, now: Now) {
        debug_assert!(!self.jobs[slot].is_packet(), "a packet is never blocked");
        self.update_class(slot);
        let class = self.jobs[slot].expect_class();
        let entry = self.jobs[slot].entry(slot);
        self.set_rare_status(slot, RareStatus::Blocked);
        self.constraints.classes[class].blocked_jobs.push(entry, &mut self.jobs);
        self.constraints.steps += 1;
        if let Some(waitlist) = self.constraints.classes[class].waitlist.expand() {
            self.constraints.update_class_head(class, &self.jobs);
            self.update_waitlist(waitlist);
        } else {
            let (constraints, jobs) = (&mut self.constraints, &self.jobs);
            let blocking = constraints.first_full_limiter(class, now);
            let blocking = blocking.or_else(|| constraints.more_urgent_is_blocked(class, jobs));
            let limiter = blocking.unwrap_or_else(|| constraints.most_shared_limiter(class));
            self.join_waitlist(class, limiter, blocking.is_some(), now);
        }
        debug_assert!(
            self.constraints.classes[class].waitlist.is_some(),
            "a class with a waiting job is in a waitlist"
        );
    }

    /// A job with limiters was taken out of what its status had it in. O(log n).
    pub(in crate::store) fn on_removed(&mut self, slot: JobIdx) {
        let (class, status) = (self.jobs[slot].expect_class(), self.jobs[slot].status());
        if matches!(status, Status::Blocked | Status::Ready) {
            self.global_ready.unpin_exclusion_set(&self.jobs[slot], &mut self.queues);
        }
        let record = &mut self.constraints.classes[class];
        match status {
            Status::Reserved => return self.constraints.end_run(class),
            Status::Blocked => {
                let position = self.jobs.heap_position(slot);
                debug_assert!(
                    record.blocked_jobs.at(position).slot == slot,
                    "a blocked job knows its entry in the heap of its class"
                );
                record.blocked_jobs.remove(position, &mut self.jobs);
                self.jobs[slot].clear_links();
            }
            Status::Ready => {
                debug_assert_eq!(record.ready_job, slot.into(), "a class has one ready job");
                record.ready_job = PackedOption::NONE;
                let waitlist = record.expect_waitlist();
                debug_assert_eq!(
                    self.constraints.waitlists[waitlist].ready_job,
                    slot.into(),
                    "the ready job of a class is that of its waitlist"
                );
                self.constraints.waitlists[waitlist].ready_job = PackedOption::NONE;
                self.constraints.resume(waitlist);
            }
            Status::GroupOnly
            | Status::Delayed
            | Status::Completed
            | Status::Buried
            | Status::Popped => return,
        }
        self.constraints.steps += 1;
        let waitlist = self.constraints.classes[class].expect_waitlist();
        self.constraints.update_class_head(class, &self.jobs);
        self.update_waitlist(waitlist);
    }

    /// Whether the head of a ready heap may not run now; then it is no longer in the heap. O(k +
    /// log n).
    #[inline]
    pub(in crate::store) fn is_blocked(&mut self, slot: JobIdx, now: Now) -> bool {
        let job = &self.jobs[slot];
        debug_assert_eq!(job.status(), Status::Ready, "only a job in a ready heap is asked for");
        let is_blocked =
            !job.is_simple() && job.class().is_some_and(|class| self.block_class(class, now));
        debug_assert_eq!(
            self.jobs[slot].status(),
            if is_blocked { Status::Blocked } else { Status::Ready },
            "exactly a job that may not run has left the ready heap"
        );
        is_blocked
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
    fn join_waitlist(&mut self, class: JobClassIdx, limiter: LimiterIdx, full: bool, now: Now) {
        let waitlist = self.constraints.insert_in_waitlist(class, limiter, &self.jobs);
        if full && self.constraints.waitlists[waitlist].blocked_key.is_none() {
            self.block_waitlist(waitlist, now);
        } else {
            self.update_waitlist(waitlist);
        }
    }

    /// Takes a class out of its waitlist and its ready job out of the ready heap. O(log n).
    fn leave_waitlist(&mut self, class: JobClassIdx) {
        self.leave_ready_heap(self.constraints.classes[class].ready_job);
        let waitlist = self.constraints.remove_from_waitlist(class);
        self.update_waitlist(waitlist);
    }

    /// Brings an open waitlist's head into the ready heap, or a blocked one to the position of its
    /// head at the limiter. Removes a waitlist without classes. O(log n).
    fn update_waitlist(&mut self, waitlist: WaitlistIdx) {
        let record = &self.constraints.waitlists[waitlist];
        if record.classes.is_empty() {
            return self.constraints.remove_waitlist(waitlist);
        }
        if record.blocked_key.is_some() {
            return self.constraints.update_blocked_waitlist(waitlist);
        }
        let (head, ready_job) = self.constraints.open_head(waitlist, &self.jobs);
        if ready_job != head.into() {
            self.leave_ready_heap(ready_job);
            self.enter_ready_heap(head);
        }
    }

    /// Blocks an open waitlist until its limiter has capacity. O(log n).
    fn block_waitlist(&mut self, waitlist: WaitlistIdx, now: Now) {
        self.leave_ready_heap(self.constraints.waitlists[waitlist].ready_job);
        self.constraints.insert_blocked(waitlist, &mut self.deadlines, now);
    }

    /// Moves a job from the ready heaps to its class's heap of blocked jobs, if there is one.
    /// O(log n).
    fn leave_ready_heap(&mut self, ready_job: PackedOption<JobIdx>) {
        let Some(slot) = ready_job.expand() else { return };
        debug_assert_eq!(self.jobs[slot].status(), Status::Ready, "a job outside the ready heap");
        self.global_ready.remove(slot, &mut self.queues, &mut self.jobs);
        self.set_rare_status(slot, RareStatus::Blocked);
        let job = &self.jobs[slot];
        let (class, entry) = (job.expect_class(), job.entry(slot));
        let record = &mut self.constraints.classes[class];
        debug_assert_eq!(record.ready_job, ready_job, "a class has one ready job");
        record.blocked_jobs.push(entry, &mut self.jobs);
        record.ready_job = PackedOption::NONE;
        let waitlist = record.expect_waitlist();
        self.constraints.waitlists[waitlist].ready_job = PackedOption::NONE;
        self.constraints.resume(waitlist);
        self.constraints.steps += 1;
        // A pop waiting for the queue may now be eligible for the job behind this one. Waiters for
        // any tracked job were eligible for that one before.
        let queue = self.jobs[slot].queue;
        if !self.queues[queue].waiters.is_empty() {
            self.constraints.schedule_match(queue.into());
        }
    }

    /// Moves a blocked job into the ready heaps that it belongs to. O(log n).
    fn enter_ready_heap(&mut self, slot: JobIdx) {
        debug_assert_eq!(self.jobs[slot].status(), Status::Blocked, "already in the ready heap");
        let class = self.jobs[slot].expect_class();
        let record = &mut self.constraints.classes[class];
        debug_assert!(record.ready_job.is_none(), "a class has one ready job");
        let position = self.jobs.heap_position(slot);
        debug_assert!(
            record.blocked_jobs.at(position).slot == slot,
            "a blocked job knows its entry in the heap of its class"
        );
        record.blocked_jobs.remove(position, &mut self.jobs);
        record.ready_job = slot.into();
        let waitlist = record.expect_waitlist();
        debug_assert!(
            self.constraints.waitlists[waitlist].blocked_key.is_none(),
            "only an open waitlist has a job in the ready heap"
        );
        self.constraints.waitlists[waitlist].ready_job = slot.into();
        let job = &mut self.jobs[slot];
        job.set_status(Status::Ready);
        self.queues[job.queue].counts.remove(RareStatus::Blocked);
        self.global_ready.push(slot, &mut self.queues, &mut self.jobs);
        self.constraints.steps += 1;
        self.schedule_match_for_job(slot);
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
            let progressed = self.settle_ended(now, fx)
                || self.constraints.recheck_one_scanned()
                || self.process_dirty(now)
                || self.constraints.recheck_changed()
                || self.constraints.schedule_one_pop_recheck()
                || self.schedule_one_released()
                || self.run_next_match(now, fx)
                || self.constraints.answer_change(fx)
                || self.answer_deferred(fx);
            if !progressed {
                break;
            }
        }
        // In the call that has ended them, whatever the budget of constraints is.
        while self.settle_ended(now, fx) {}
        self.constraints.settle();
    }

    /// The scan is complete: answers "no job" to the first deferred reserve that still waits.
    /// O(queues of the reserve).
    fn answer_deferred(&mut self, fx: &mut Effects) -> bool {
        if self.constraints.is_scanning()
            || self.disconnects.is_holding()
            || self.key_groups.is_walked()
        {
            return false;
        }
        let Some((waiter, ticket)) = self.constraints.deferred_replies.pop_front() else {
            return false;
        };
        self.constraints.steps += 1;
        if self.waiters.get(waiter).is_some_and(|waiter| waiter.ticket == ticket) {
            debug_assert!(self.waiters[waiter].is_deferred(), "it does not wait of itself");
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
        debug_assert!(
            unblocked.is_none_or(|slot| self.jobs[slot].status() == Status::Ready),
            "a job that is unblocked is in the ready heap"
        );
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
        let waitlist = self.constraints.open_next_waitlist(limiter, now)?;
        self.update_waitlist(waitlist);
        let ready_job = self.constraints.waitlists[waitlist].ready_job.expand();
        Some(ready_job.expect("the head of an open waitlist is in the ready heap"))
    }
}

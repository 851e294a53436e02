//! Unique keys: a put whose key is taken makes no job.
//!
//! A key is taken from the put until the job is completed or gone, and after a completion for as
//! long as the put has asked for, which a record of its own keeps through restarts.

use crate::base::api_limits::PAST_KEYS_MAX;
use crate::base::time::{Mono, Now};
use crate::base::timer_queue::TimerId;
use crate::model::action::JobChange;
use crate::model::id::JobId;
use crate::model::job::{JobOptions, LEAST_PRIORITY, Priority, Status};
use crate::model::manage::{NewJob, NewKey, OnDuplicate};
use crate::model::reply::Rejection;
use crate::model::snapshot::{PersistedKey, Record};
use crate::store::idx::PastKeyIdx;
use crate::store::job_ext::JobKey;
use crate::store::unique_keys::{KeyOwner, PastKey};
use crate::store::{DirtyRecord, Due, Effects, JobIdx, RecordKey, Store};
use std::time::Duration;

/// What has the key of a put.
#[derive(Clone, Copy, Debug)]
pub(super) enum Duplicate {
    /// A job.
    Job(JobId, JobIdx),
    /// A job that is completed and gone.
    Completed(JobId),
    /// The put is rejected for it.
    Rejected(JobId),
    /// The put has what a replaced job cannot get.
    Bound(Rejection),
}

/// Whether a job of priority `one` is more urgent than one of priority `other`.
fn is_more_urgent(one: Priority<'_>, other: Priority<'_>) -> bool {
    let place = |priority| match priority {
        Priority::Unselected => (0, 0, 0, ""),
        Priority::Small(number) => (1, number, 0, ""),
        Priority::Big(LEAST_PRIORITY) => (1, i64::MIN, 0, ""),
        Priority::Big(digits) => (2, 0, digits.len(), digits),
    };
    place(one) > place(other)
}

impl Store {
    /// What comes of a put whose key is taken; `None`: it is not. O(key + log n).
    pub(super) fn find_duplicate(
        &mut self,
        queue: &[u8],
        job: &NewJob,
        now: Now,
        fx: &mut Effects,
    ) -> Option<Duplicate> {
        let key = job.key.as_deref()?;
        let (id, slot) = match self.key_owner(queue, &key.bytes, now, fx)? {
            KeyOwner::Job(slot) => (JobId(self.jobs[slot].id()), Some(slot)),
            KeyOwner::Past(past) => {
                let id = self.unique_keys.past(past).job;
                (id, self.ids.find(id.0))
            }
        };
        if key.on_duplicate == OnDuplicate::Reject {
            return Some(Duplicate::Rejected(id));
        }
        if let Some(new) = &job.dependencies
            && key.on_duplicate == OnDuplicate::Replace
        {
            let waits = !new.after.is_empty() || new.after_group.is_some();
            let rejection =
                if waits { Rejection::ReplaceAfter(id) } else { Rejection::ReplaceInGroup(id) };
            return Some(Duplicate::Bound(rejection));
        }
        let Some(slot) = slot else { return Some(Duplicate::Completed(id)) };
        match self.jobs[slot].status() {
            Status::Completed => {}
            Status::Popped => return Some(Duplicate::Completed(id)),
            status if key.on_duplicate == OnDuplicate::Replace && status != Status::Reserved => {
                self.replace_job(slot, job, now, fx);
            }
            _ => self.raise_priority(slot, job.priority.view(), now, fx),
        }
        let is_there = self.ids.find(id.0) == Some(slot);
        Some(if is_there { Duplicate::Job(id, slot) } else { Duplicate::Completed(id) })
    }

    /// Makes a job that waits or is buried like a new one, but for its id, attempts and, if it is
    /// buried, its state. O(log n + bytes).
    fn replace_job(&mut self, slot: JobIdx, new: &NewJob, now: Now, fx: &mut Effects) {
        debug_assert!(
            self.jobs[slot].waits() || self.jobs[slot].status() == Status::Buried,
            "only a job that waits or is buried is replaced"
        );
        self.jobs.change(slot, |job| {
            job.ext_mut_or_insert().counts_leases = true;
            let options = &mut job.work_mut().options;
            *options = JobOptions { delay_ms: 0, ttl_ms: 0, ..new.options };
            if let (Some(key), Some(new)) = (job.key_of_queue_mut(), &new.key) {
                key.ttl_ms = new.ttl_ms;
            }
        });
        let is_buried = self.jobs[slot].status() == Status::Buried;
        let change = JobChange {
            payload: Some((new.encoding, new.payload.clone())),
            priority: Some(new.priority.clone()),
            delay_ms: Some(new.options.delay_ms).filter(|_| !is_buried),
            ttl_ms: Some(new.options.ttl_ms),
            ..JobChange::default()
        };
        let queue = self.jobs[slot].queue;
        self.change_job(slot, (&change, true), now, fx);
        self.constraints.schedule_match(queue.into());
    }

    /// Who has this key of this queue; what is over is removed first. O(key).
    fn key_owner(
        &mut self,
        queue: &[u8],
        key: &[u8],
        now: Now,
        fx: &mut Effects,
    ) -> Option<KeyOwner> {
        let owner = self.unique_keys.find((queue, key), &self.jobs, &self.queues)?;
        match owner {
            KeyOwner::Job(slot) if self.jobs[slot].is_expired_waiting(now) => {
                let id = JobId(self.jobs[slot].id());
                self.find_cold(id, now, fx).map(KeyOwner::Job)
            }
            KeyOwner::Past(past) => {
                let timer = self.unique_keys.past(past).timer;
                if self.deadlines.moment(timer) > now.mono {
                    return Some(owner);
                }
                self.deadlines.cancel(timer);
                self.past_key_due(past, fx);
                None
            }
            KeyOwner::Job(_) => Some(owner),
        }
    }

    /// Makes a job more urgent, if it is less so than this. O(log n).
    fn raise_priority(&mut self, slot: JobIdx, priority: Priority<'_>, now: Now, fx: &mut Effects) {
        let job = &self.jobs[slot];
        if !is_more_urgent(priority, job.priority()) {
            return;
        }
        let ready_ms = u64::from(job.ready_for(now));
        let waits = matches!(job.status(), Status::Ready | Status::Blocked | Status::GroupOnly);
        if waits {
            self.unlink_cold(slot);
            // Neither in a heap nor in a list.
            self.jobs[slot].clear_links();
            // Not counted as such; it is reserved by no client.
            self.jobs[slot].set_status(Status::Delayed);
        }
        self.change_priority(slot, priority, now);
        fx.mark_put_dirty(slot, &self.jobs[slot]);
        if waits {
            let queue = self.jobs[slot].queue;
            self.enqueue(slot, now);
            let since = Mono(now.mono.0.saturating_sub(ready_ms * 1_000_000));
            self.jobs[slot].ready_since(Now { mono: since, ..now });
            self.match_job(slot, now, fx);
            self.rematch_queue(queue, now, fx);
        }
    }

    /// Changes the priority of a job that is in no heap. One that had none gets the limiters of its
    /// constraints, and counts as running if it is reserved. O(log n), and the conditions of all
    /// constraints.
    pub(in crate::store) fn change_priority(
        &mut self,
        slot: JobIdx,
        priority: Priority<'_>,
        now: Now,
    ) {
        let was_group_only = self.jobs[slot].is_group_only();
        self.jobs.change(slot, |job| job.set_priority(priority));
        self.show_priority(slot);
        if was_group_only != self.jobs[slot].is_group_only() && !self.constraints.is_empty() {
            self.reevaluate_job(slot, now);
        }
    }

    /// Shows the priority of a job in its row, if it has one. O(log n).
    pub(in crate::store) fn show_priority(&mut self, slot: JobIdx) {
        if self.jobs[slot].has_row() {
            let index = self.queues[self.jobs[slot].queue].index_mut();
            self.jobs.change(slot, |job| index.show_priority(job));
        }
    }

    /// Gives a new job its key, which is free. O(key).
    pub(super) fn take_key(&mut self, slot: JobIdx, key: &NewKey) {
        self.assign_key(slot, &key.bytes, key.ttl_ms);
        debug_assert!(
            self.jobs[slot].key_of_queue().is_some_and(|key| key.is_taken),
            "the key of a new job is free"
        );
    }

    /// Gives a job a key, unless another one of its queue has it. O(key).
    fn assign_key(&mut self, slot: JobIdx, bytes: &[u8], ttl_ms: u64) {
        let queue = &self.queues[self.jobs[slot].queue].name;
        if self.unique_keys.find((queue, bytes), &self.jobs, &self.queues).is_some() {
            return;
        }
        let key = JobKey { bytes: bytes.into(), ttl_ms, is_taken: true };
        self.jobs.change(slot, |job| job.set_key(key));
        self.unique_keys.insert((queue, bytes), KeyOwner::Job(slot));
    }

    /// Restores the key of a job; a completed one has it no more. O(key).
    pub(in crate::store) fn restore_key(
        &mut self,
        slot: JobIdx,
        (bytes, ttl_ms): (&[u8], u64),
        completed: bool,
    ) {
        if completed {
            let key = JobKey { bytes: bytes.into(), ttl_ms, is_taken: false };
            self.jobs.change(slot, |job| job.set_key(key));
        } else {
            self.assign_key(slot, bytes, ttl_ms);
        }
    }

    /// Gives the key of a job back, if it has one: it is about to be removed, replaced or moved.
    /// Says whether it had one. O(key).
    pub(in crate::store) fn release_key(&mut self, slot: JobIdx) -> bool {
        let job = &self.jobs[slot];
        let queue = job.queue;
        let Some(key) = job.key_of_queue().filter(|key| key.is_taken) else { return false };
        let place = (&*self.queues[queue].name, &*key.bytes);
        self.unique_keys.remove(place, KeyOwner::Job(slot));
        if let Some(key) = self.jobs[slot].key_of_queue_mut() {
            key.is_taken = false;
        }
        true
    }

    /// The key that a job takes along to the queue of this name: none if it is there already. O(1).
    fn key_to_move(&self, slot: JobIdx, to: &[u8]) -> Option<&[u8]> {
        let job = &self.jobs[slot];
        let key = job.key_of_queue().filter(|key| key.is_taken)?;
        (*self.queues[job.queue].name != *to).then_some(&key.bytes)
    }

    /// The job that has the key of this one in the queue of this name, if that is another queue
    /// and the key is taken there; what is over is removed first. O(key).
    pub(super) fn key_conflict(
        &mut self,
        slot: JobIdx,
        to: &[u8],
        now: Now,
        fx: &mut Effects,
    ) -> Option<JobId> {
        let key = self.key_to_move(slot, to)?.to_vec();
        Some(match self.key_owner(to, &key, now, fx)? {
            KeyOwner::Job(slot) => JobId(self.jobs[slot].id()),
            KeyOwner::Past(past) => self.unique_keys.past(past).job,
        })
    }

    /// Whether a job may be moved to the queue of this name: its key is not taken there. O(key).
    pub(super) fn may_move(&self, slot: JobIdx, to: &[u8], now: Now) -> bool {
        let Some(key) = self.key_to_move(slot, to) else { return true };
        match self.unique_keys.find((to, key), &self.jobs, &self.queues) {
            None => true,
            Some(KeyOwner::Job(other)) => self.jobs[other].is_expired_waiting(now),
            Some(KeyOwner::Past(past)) => {
                self.deadlines.moment(self.unique_keys.past(past).timer) <= now.mono
            }
        }
    }

    /// Moves the key of a job that is in another queue now, where it is not taken; it was released
    /// before. O(key).
    pub(in crate::store) fn take_key_again(&mut self, slot: JobIdx) {
        let job = &self.jobs[slot];
        let Some(key) = job.key_of_queue() else { return };
        debug_assert!(!key.is_taken, "a key is released before its job moves");
        let place = (&*self.queues[job.queue].name, &*key.bytes);
        debug_assert!(
            self.unique_keys.find(place, &self.jobs, &self.queues).is_none(),
            "a job takes its key along to where that is free"
        );
        self.unique_keys.insert(place, KeyOwner::Job(slot));
        if let Some(key) = self.jobs[slot].key_of_queue_mut() {
            key.is_taken = true;
        }
    }

    /// A job is completed: its key is free, or stays taken for a while. O(key + log d).
    #[cold]
    pub(in crate::store) fn complete_key(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) {
        let job = &self.jobs[slot];
        let Some(key) = job.key_of_queue().filter(|key| key.is_taken) else { return };
        debug_assert_eq!(job.status(), Status::Reserved, "a job that succeeds was reserved");
        let (ttl_ms, bytes, job) = (key.ttl_ms, key.bytes.clone(), JobId(job.id()));
        let queue = (*self.queues[self.jobs[slot].queue].name).into();
        self.release_key(slot);
        if ttl_ms == 0 || self.ids.is_exhausted() || self.unique_keys.past_len() >= PAST_KEYS_MAX {
            return;
        }
        let id = self.ids.take_hidden();
        let past = PastKey { id, queue, bytes, job, timer: TimerId::NONE };
        let past = self.unique_keys.insert_past(past);
        self.arm_past_key(past, now.mono.after(Duration::from_millis(ttl_ms)));
        fx.mark_dirty(DirtyRecord::Put(RecordKey::PastKey(past), id));
    }

    fn arm_past_key(&mut self, past: PastKeyIdx, until: Mono) {
        debug_assert!(self.unique_keys.past(past).timer.is_none(), "a past key has one end");
        let timer = self.deadlines.arm(until, Due::PastKey(past));
        self.unique_keys.past_mut(past).timer = timer;
    }

    /// A past key is free again. Its deadline is not armed any more. O(key + log k).
    pub(in crate::store) fn past_key_due(&mut self, past: PastKeyIdx, fx: &mut Effects) {
        let PastKey { id, .. } = self.unique_keys.remove_past(past);
        fx.mark_dirty(DirtyRecord::Gone(RecordKey::PastKey(past), id));
    }

    /// The base record of a past key. O(1).
    pub(in crate::store) fn past_key_record(&self, past: PastKeyIdx) -> Record<'_> {
        let PastKey { id, queue, bytes, job, timer } = self.unique_keys.past(past);
        let until = self.deadlines.moment(*timer);
        Record::PastKey(*id, PersistedKey { queue, bytes, job: *job, until })
    }

    /// Restores a past key, in place of the one with its id, and of the job that had it. O(key +
    /// log k + log d).
    pub fn restore_past_key(&mut self, id: JobId, key: &PersistedKey<'_>) -> RecordKey {
        self.ids.skip_hidden(id);
        if let Some(known) = self.unique_keys.find_past(id) {
            return RecordKey::PastKey(known);
        }
        let &PersistedKey { queue, bytes, job, until } = key;
        match self.unique_keys.find((queue, bytes), &self.jobs, &self.queues) {
            Some(KeyOwner::Job(slot)) => {
                self.release_key(slot);
            }
            Some(KeyOwner::Past(former)) => {
                self.deadlines.cancel(self.unique_keys.past(former).timer);
                self.unique_keys.remove_past(former);
            }
            None => {}
        }
        let (queue, bytes) = (queue.into(), bytes.into());
        let past = PastKey { id, queue, bytes, job, timer: TimerId::NONE };
        let past = self.unique_keys.insert_past(past);
        self.arm_past_key(past, until);
        RecordKey::PastKey(past)
    }

    /// Recovery: removes the past key with this id, if there is one. Returns its record. O(key +
    /// log k).
    pub(in crate::store) fn undo_past_key(&mut self, id: JobId) -> Option<PastKeyIdx> {
        let past = self.unique_keys.find_past(id)?;
        self.deadlines.cancel(self.unique_keys.past(past).timer);
        self.unique_keys.remove_past(past);
        Some(past)
    }
}

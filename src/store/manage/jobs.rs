//! Commands on single jobs by any client: delete, cancel, bury, kick, change. Actions do the same
//! to many.
//!
//! A change matches no waiter: it schedules the queues concerned, so that of all jobs that have
//! changed in a command the most urgent one is handed out first.

use crate::base::limits::PACKET_MAX_BYTES;
use crate::base::time::{Mono, Now};
use crate::model::action::JobChange;
use crate::model::event::{Event, EventKind};
use crate::model::id::{JobId, Ticket};
use crate::model::job::{Encoding, Payload, Priority, Status};
use crate::model::manage::{JobState, ManageReply, Missing};
use crate::model::row::Row;
use crate::model::stats::JobCounter;
use crate::store::idx::{QueueIdx, QueueScope};
use crate::store::job::Job;
use crate::store::job_ext::{NEVER, PayloadHome};
use crate::store::past_runs::RunOwner;
use crate::store::payload_head::PayloadHead;
use crate::store::queue_index::{NO_STATE, next_row};
use crate::store::rare_counts::RareStatus;
use crate::store::state_machine::Transition;
use crate::store::{Effects, JobIdx, Store};
use std::sync::Arc;
use std::time::Duration;

/// What is done to a job.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) enum Verb<'a> {
    /// Removes it, whatever its status.
    Remove,
    /// The same, but not if it is completed.
    Cancel,
    /// Makes a buried or scheduled one ready.
    Kick,
    /// Puts it away; takes it from the client that has reserved it.
    Bury,
    Change(&'a JobChange),
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Applied {
    Changed,
    /// There was nothing to do.
    Unchanged,
    /// The job is gone: it was removed, or has expired.
    Gone,
    /// Its state does not permit it.
    WrongState(JobState),
    /// It would be too large for a packet.
    TooLarge,
    /// Its key is taken in the other queue, by this job.
    KeyTaken(JobId),
}

/// The payload of a changed job. Of a packet the key stays. `None`: a pop could not carry it.
fn changed_payload(job: &Job, encoding: Encoding, bytes: &[u8]) -> Option<(Encoding, Box<[u8]>)> {
    let Some(key) = job.key() else { return Some((encoding, bytes.into())) };
    let packet = [key, bytes].concat();
    (packet.len() <= PACKET_MAX_BYTES).then(|| (job.payload().encoding, packet.into()))
}

/// The moment after this many milliseconds.
fn after(now: Now, ms: u64) -> Mono {
    now.mono.after(Duration::from_millis(ms))
}

impl Job {
    /// When it was put, in whole seconds.
    pub(in crate::store) fn put_at(&self) -> u64 {
        let first = self.row().and_then(|row| row.events.oldest_first().first().map(|it| it.at));
        first.unwrap_or_else(|| u64::from(self.created()))
    }

    /// Replaces the payload; a row is no longer the job's.
    pub(in crate::store) fn set_payload(&mut self, payload: Payload<'_>, created: u32) {
        self.unpack_lease();
        let stored = PayloadHead::of_second(created, payload.encoding).store(payload.bytes);
        self.ext_mut_or_insert().content = PayloadHome::Inline(stored);
    }

    /// Changes the fields of an unlinked job, but for payload, queue and delay.
    fn change_fields(&mut self, change: &JobChange, now: Now) {
        if let Some(priority) = &change.priority {
            if priority.view() == Priority::Unselected {
                // Only jobs with rare fields are group-only.
                self.ext_mut_or_insert();
            }
            self.set_priority(priority.view());
        }
        if let Some(ttl_ms) = change.ttl_ms {
            let end = now.mono.after(Duration::from_millis(ttl_ms));
            self.ext_mut_or_insert().expires = if ttl_ms == 0 { NEVER } else { end };
        }
        if let Some(most) = change.max_attempts {
            self.ext_mut_or_insert().counts_leases = true;
            self.work_mut().options.max_attempts = most;
        }
    }
}

impl Store {
    /// Does something to the job with this id and answers with it, or that it is gone. O(log n).
    pub(super) fn manage_job(
        &mut self,
        ticket: Ticket,
        id: JobId,
        verb: Verb<'_>,
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(slot) = self.find_or_answer(ticket, id, now, fx) else { return };
        let reply = match self.apply_verb(slot, verb, now, fx) {
            Applied::Changed | Applied::Unchanged => {
                return self.answer_details(ticket, slot, now, fx);
            }
            Applied::Gone if matches!(verb, Verb::Remove | Verb::Cancel) => ManageReply::Done,
            Applied::Gone => ManageReply::Missing(Missing::Gone),
            Applied::WrongState(state) => ManageReply::WrongState(state),
            Applied::TooLarge => ManageReply::TooLarge,
            Applied::KeyTaken(id) => ManageReply::KeyTaken(id),
        };
        fx.reply(ticket, reply);
    }

    /// Remembers who works on a job that is cancelled, so that the worker is told. O(log r).
    fn note_cancelled_run(&mut self, slot: JobIdx, now: Now) {
        let job = &self.jobs[slot];
        debug_assert_eq!(job.status(), Status::Reserved, "a run that is cancelled is under way");
        let owner = match job.token_lease() {
            Some(lease) => Some(RunOwner::Token(lease.token)),
            None if self.is_abandoned(job) => None,
            None => self.reservations.client_of(job).map(RunOwner::Client),
        };
        if let Some(owner) = owner {
            let until = job.due(&self.deadlines);
            self.past_runs.note_cancelled(JobId(job.id()), owner, until, now);
        }
    }

    /// Does something to a job that has not expired, and schedules the queues concerned for
    /// matching. O(log n).
    pub(in crate::store) fn apply_verb(
        &mut self,
        slot: JobIdx,
        verb: Verb<'_>,
        now: Now,
        fx: &mut Effects,
    ) -> Applied {
        let job = &self.jobs[slot];
        debug_assert!(!job.is_expired_waiting(now), "clients do not see expired jobs");
        debug_assert_ne!(job.status(), Status::Popped, "no command finds a popped job");
        let (status, queue, tracked) = (job.status(), job.queue, job.is_tracked());
        let wrong_state = Applied::WrongState(super::details::state_of(job));
        let applied = match (verb, status) {
            (Verb::Kick, Status::Delayed) if job.is_held() => wrong_state,
            (Verb::Cancel | Verb::Bury, Status::Completed)
            | (Verb::Kick, Status::Blocked | Status::Reserved | Status::Completed) => wrong_state,
            (Verb::Remove | Verb::Cancel, _) => {
                if status == Status::Reserved {
                    self.note_cancelled_run(slot, now);
                }
                self.unlink_cold(slot);
                drop(self.remove(slot, fx));
                self.totals.count(JobCounter::Deleted);
                self.totals.withdrawn += 1;
                Applied::Gone
            }
            (Verb::Kick, Status::Buried | Status::Delayed) => self.kick_job(slot, now, fx),
            (Verb::Bury, Status::Buried) | (Verb::Kick, _) => Applied::Unchanged,
            (Verb::Bury, _) => {
                self.bury_job(slot, now, fx);
                Applied::Changed
            }
            (Verb::Change(change), _) => self.change_job(slot, (change, false), now, fx),
        };
        if matches!(applied, Applied::Changed | Applied::Gone) {
            self.constraints.schedule_match(queue.into());
            if tracked {
                self.constraints.schedule_match(QueueScope::Any);
            }
        }
        applied
    }

    fn kick_job(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) -> Applied {
        debug_assert!(
            matches!(self.jobs[slot].status(), Status::Buried | Status::Delayed)
                && !self.jobs[slot].is_held(),
            "only a buried or delayed job is kicked"
        );
        self.totals.count(JobCounter::Kicked);
        let was_buried = self.jobs[slot].status() == Status::Buried;
        self.unlink_cold(slot);
        if was_buried {
            self.outlive(slot, now, fx);
        }
        let job = &mut self.jobs[slot];
        let most = job.max_attempts();
        if most > 0 && was_buried && job.ended_attempts() >= most {
            job.work_mut().options.max_attempts = job.ended_attempts().saturating_add(1);
            fx.mark_put_dirty(slot, job);
        } else {
            if was_buried {
                job.set_retries(0);
            }
            fx.mark_state_dirty(slot, job);
        }
        if self.jobs[slot].has_row() {
            self.queues.record_event(slot, EventKind::Kicked, now, &mut self.jobs, fx);
        }
        self.back_to_ready(slot, None, now, fx)
    }

    fn bury_job(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) {
        self.totals.count(JobCounter::Buried);
        let job = &self.jobs[slot];
        debug_assert!(
            job.waits() || job.status() == Status::Reserved,
            "a job is buried that waits or is reserved"
        );
        if job.status() == Status::Reserved && !job.is_tracked() {
            self.jobs.change(slot, Job::count_attempt);
        }
        self.apply_transition_cold(slot, Transition::Bury, now, fx);
    }

    /// Makes an unlinked job ready, without matching it; `since` when, if not since now. Returns
    /// whether it is still there. O(log n).
    fn back_to_ready(
        &mut self,
        slot: JobIdx,
        since: Option<u32>,
        now: Now,
        fx: &mut Effects,
    ) -> Applied {
        if self.jobs[slot].is_expired(now) {
            drop(self.remove(slot, fx));
            return Applied::Gone;
        }
        if self.jobs[slot].has_unmet_dependencies() {
            // It was buried while it waited for other jobs.
            self.hold_back(slot, None, now);
            return Applied::Changed;
        }
        self.enqueue(slot, now);
        if let Some(since) = since {
            self.jobs[slot].since = since;
        }
        Applied::Changed
    }

    /// Changes a job that is neither reserved nor completed; `as_put`: a packet may become another
    /// kind of job. O(log n + bytes), and what assigning
    /// its limiters costs.
    pub(super) fn change_job(
        &mut self,
        slot: JobIdx,
        (change, as_put): (&JobChange, bool),
        now: Now,
        fx: &mut Effects,
    ) -> Applied {
        let job = &self.jobs[slot];
        let (status, from, since) = (job.status(), job.queue, job.since);
        let (held, held_until) = (job.is_held(), job.held_until());
        let dead = status == Status::Buried;
        if matches!(status, Status::Reserved | Status::Completed)
            || dead && change.delay_ms.is_some()
        {
            return Applied::WrongState(super::details::state_of(job));
        }
        if *change == JobChange::default() {
            return Applied::Unchanged;
        }
        let payload = match &change.payload {
            None => None,
            Some((encoding, bytes)) if as_put => Some((*encoding, bytes.clone())),
            Some((encoding, bytes)) => match changed_payload(job, *encoding, bytes) {
                None => return Applied::TooLarge,
                payload => payload,
            },
        };
        let due = job.due(&self.deadlines);
        if let Some(to) = &change.queue
            && let Some(other) = self.key_conflict(slot, to, now, fx)
        {
            return Applied::KeyTaken(other);
        }
        let to = change.queue.as_deref().map(|name| self.queues.find_or_add(name));
        let to = to.filter(|&to| to != from);
        if !dead || to.is_some() {
            self.unlink_cold(slot);
            // Neither in a heap nor in a list.
            self.jobs[slot].clear_links();
            self.jobs[slot].set_status(Status::Reserved);
        }
        debug_assert!(
            dead && to.is_none() || !self.jobs[slot].is_linked(),
            "a job is changed outside of its place, unless it stays buried"
        );
        self.change_content(slot, change, payload.as_ref(), to, now);
        fx.mark_put_dirty(slot, &self.jobs[slot]);
        let queue = self.jobs[slot].queue;
        self.constraints.schedule_match(queue.into());
        match (status, change.delay_ms) {
            (Status::Buried, _) if to.is_some() => self.bury_again(slot, due),
            (Status::Buried, _) => {}
            (Status::Delayed, delay_ms) if held => {
                let until = delay_ms.map(|ms| (ms > 0).then(|| after(now, ms)));
                self.hold_back(slot, until.unwrap_or(held_until), now);
            }
            (Status::Delayed, None) => self.delay_again(slot, due),
            (Status::Delayed, Some(0)) => return self.back_to_ready(slot, None, now, fx),
            (_, None | Some(0)) => return self.back_to_ready(slot, Some(since), now, fx),
            (_, Some(delay_ms)) => self.delay(slot, delay_ms, now, fx),
        }
        Applied::Changed
    }

    /// Links an unlinked job as the last buried one of its queue, until `due`.
    fn bury_again(&mut self, slot: JobIdx, due: Option<Mono>) {
        self.set_rare_status(slot, RareStatus::Buried);
        let queue = self.jobs[slot].queue;
        self.queues[queue].buried.link(slot, &mut self.jobs);
        if let Some(at) = due {
            self.jobs.arm(slot, at, &mut self.deadlines);
        }
    }

    /// Delays an unlinked job until `due`, or until its time to live ends.
    fn delay_again(&mut self, slot: JobIdx, due: Option<Mono>) {
        debug_assert!(!self.jobs[slot].has_unmet_dependencies(), "a held job is held again");
        self.set_rare_status(slot, RareStatus::Delayed);
        let at = due.expect("a delayed job has a deadline").min(self.jobs[slot].expires());
        self.jobs.arm(slot, at, &mut self.deadlines);
        self.list_delayed(slot);
    }

    /// Changes everything but the status of a job that is in no heap: its fields, its queue with
    /// the counters and the index, and its limiters.
    fn change_content(
        &mut self,
        slot: JobIdx,
        change: &JobChange,
        payload: Option<&(Encoding, Box<[u8]>)>,
        to: Option<QueueIdx>,
        now: Now,
    ) {
        debug_assert!(!self.jobs[slot].is_in_heap(), "a job in a heap keeps its fields");
        if self.jobs[slot].class().is_some() {
            self.constraints.drop_class(slot, &mut self.queues, &mut self.jobs);
        }
        let created = u32::try_from(self.jobs[slot].put_at()).unwrap_or(u32::MAX);
        let row = self.jobs[slot].row().cloned();
        if let Some(row) = &row {
            let queue = self.jobs[slot].queue;
            self.queues[queue].index_mut().remove(row);
        }
        let from = self.jobs[slot].queue;
        debug_assert!(
            self.queues[from].jobs > 0
                && self.queues[from].ttl_jobs >= u32::from(self.jobs[slot].has_ttl()),
            "a queue counts fewer jobs than it has"
        );
        self.queues[from].jobs -= 1;
        self.queues[from].ttl_jobs -= u32::from(self.jobs[slot].has_ttl());
        self.jobs.change(slot, |job| {
            if let Some((encoding, bytes)) = payload {
                job.set_payload(Payload { encoding: *encoding, bytes }, created);
            } else if let Some(row) = &row {
                // Its payload is the row's no more.
                job.set_payload(Payload { encoding: row.encoding, bytes: &row.payload }, created);
            }
            job.change_fields(change, now);
        });
        let queue = to.unwrap_or(from);
        self.queues[queue].jobs += 1;
        self.queues[queue].ttl_jobs += u32::from(self.jobs[slot].has_ttl());
        let is_keyed = to.is_some() && self.release_key(slot);
        self.jobs[slot].queue = queue;
        if is_keyed {
            self.take_key_again(slot);
        }
        self.make_changed_row(slot, row.as_deref(), to.is_some(), now);
        if to.is_some() {
            self.queues.list_name(queue);
            self.queues[from].stop_indexing_if_gone();
            self.queues.list_if_idle(from);
        }
        if !self.constraints.is_empty() {
            self.attach_limiters(slot, now);
        }
    }

    /// Makes the row of a job that has changed, if its queue is indexed: the next one of its
    /// history, or the first if it was moved there and has none. O(log n).
    fn make_changed_row(&mut self, slot: JobIdx, former: Option<&Row>, moved: bool, now: Now) {
        let queue = self.jobs[slot].queue;
        let index = self.queues[queue].index.as_deref_mut();
        let Some(index) = index.filter(|index| !index.ending) else { return };
        let Some(former) = former else {
            if moved {
                let created = u64::from(self.jobs[slot].created());
                self.jobs.change(slot, |job| index.make_row(job, None, NO_STATE, created));
            }
            return;
        };
        let event = Event { kind: EventKind::Changed, at: index.event_time(now) };
        let job = &self.jobs[slot];
        let payload = job.payload();
        let row = Arc::new(Row {
            queue: index.name().clone(),
            priority: match job.priority() {
                Priority::Small(number) => Some(number.to_string().into()),
                Priority::Big(digits) => Some(digits.into()),
                Priority::Unselected => None,
            },
            encoding: payload.encoding,
            payload: payload.bytes.into(),
            state: index.intern_state(&former.state),
            ..next_row(former, former.version + 1, &event)
        });
        index.insert(&row);
        self.jobs.change(slot, |job| job.set_row(row));
    }
}

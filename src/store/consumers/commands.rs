//! Commands on single jobs, and on the first jobs of a queue.

use crate::base::time::Now;
use crate::model::consumer::{ConsumerReply, JobStats, PeekedState};
use crate::model::id::{JobId, Ticket};
use crate::model::job::{LEAST_PRIORITY, Priority, Status};
use crate::store::idx::QueueIdx;
use crate::store::manage::{Verb, whole_seconds_until};
use crate::store::state_machine::{Caller, JobEvent};
use crate::store::transitions::TransitionRequest;
use crate::store::{DirtyRecord, Effects, JobIdx, Outcome, RecordKey, Store};

/// Expired jobs that a peek removes from the head of a queue.
const HEADS_EXPIRED_MAX: usize = 16;

impl Store {
    /// Reserves a job by its id. O(log n).
    pub(super) fn reserve_job(&mut self, ticket: Ticket, id: JobId, now: Now, fx: &mut Effects) {
        let found = self.find_cold(id, now, fx).filter(|&slot| self.may_reserve(slot, now));
        let Some(slot) = found else { return fx.answer(ticket, Outcome::NoJob) };
        let (status, queue) = (self.jobs[slot].status(), self.jobs[slot].queue);
        self.unlink_cold(slot);
        if status != Status::Ready {
            self.jobs[slot].ready_since(now);
            fx.mark_state_dirty(slot, &self.jobs[slot]);
        }
        self.count_reserved(slot);
        self.mark_reserved(slot, ticket, now, fx);
        self.rematch_queue(queue, now, fx);
    }

    /// Whether a client may reserve this job by its id: constraints and dependencies hold.
    fn may_reserve(&mut self, slot: JobIdx, now: Now) -> bool {
        let job = &self.jobs[slot];
        match job.status() {
            Status::Ready => !self.is_blocked(slot, now),
            Status::Delayed => job.class().is_none() && !job.is_held(),
            Status::Buried => job.class().is_none() && !job.has_unmet_dependencies(),
            _ => false,
        }
    }

    /// The job with this id, if the client has reserved it. If not, answers the ticket.
    fn own_job(&self, ticket: Ticket, id: JobId, fx: &mut Effects) -> Option<JobIdx> {
        let found = self.held_by(ticket, id);
        if found.is_none() {
            fx.answer(ticket, Outcome::NoJob);
        }
        found
    }

    /// Releases a job with a new priority. O(log n + log d).
    pub(super) fn release_with(
        &mut self,
        ticket: Ticket,
        (id, priority, delay_ms): (JobId, Priority<'_>, u64),
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(slot) = self.own_job(ticket, id, fx) else { return };
        fx.answer(ticket, Outcome::Done);
        self.jobs.change(slot, |job| {
            let work = job.work_mut();
            work.tally.releases = work.tally.releases.saturating_add(1);
            work.options.delay_ms = delay_ms;
        });
        let changed = self.jobs[slot].priority() != priority;
        self.release_run(slot, changed.then_some(priority), delay_ms, now, fx);
    }

    /// Buries a job with a new priority. O(log d).
    pub(super) fn bury_with(
        &mut self,
        ticket: Ticket,
        (id, priority): (JobId, Priority<'_>),
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(slot) = self.own_job(ticket, id, fx) else { return };
        let changed = self.jobs[slot].priority() != priority;
        self.jobs.change(slot, |job| {
            let tally = &mut job.work_mut().tally;
            tally.buries = tally.buries.saturating_add(1);
        });
        if changed {
            self.change_priority(slot, priority, now);
            fx.mark_dirty(DirtyRecord::Put(RecordKey::Job(slot), id));
        }
        let request = TransitionRequest::of(id, None, JobEvent::Bury);
        self.request_transition_by_cold(ticket, slot, &request, Caller::Reserver, now, fx);
    }

    /// Makes a buried or delayed job ready. O(log n).
    pub(super) fn kick_one(&mut self, ticket: Ticket, id: JobId, now: Now, fx: &mut Effects) {
        let found = self.find_cold(id, now, fx).filter(|&slot| {
            let job = &self.jobs[slot];
            job.status() == Status::Buried || job.status() == Status::Delayed && !job.is_held()
        });
        let Some(slot) = found else { return fx.answer(ticket, Outcome::NoJob) };
        fx.answer(ticket, Outcome::Done);
        self.kick_counted(slot, now, fx);
    }

    /// Kicks the first `limit` jobs of a queue in a state. O(limit log n).
    pub(super) fn kick_first(
        &mut self,
        ticket: Ticket,
        (queue, among, limit): (&[u8], PeekedState, u32),
        now: Now,
        fx: &mut Effects,
    ) {
        let mut kicked = 0;
        if let Some(queue) = self.queues.find(queue) {
            while kicked < limit {
                let found = match among {
                    PeekedState::Ready => None,
                    PeekedState::Delayed => self.first_delayed(queue, now, fx),
                    PeekedState::Buried => self.queues[queue].buried.first(),
                };
                let Some(slot) = found else { break };
                debug_assert_eq!(self.jobs[slot].queue, queue, "a queue lists its own jobs");
                self.kick_counted(slot, now, fx);
                kicked += 1;
            }
        }
        fx.answer(ticket, Outcome::Kicked(kicked));
    }

    /// The delayed job of a queue that is ready first. Expired ones are removed, as wherever they
    /// are met; their deadlines are due in this pass. O(log n).
    fn first_delayed(&mut self, queue: QueueIdx, now: Now, fx: &mut Effects) -> Option<JobIdx> {
        for _ in 0..HEADS_EXPIRED_MAX {
            let id = self.queues[queue].delays.first()?;
            if let Some(slot) = self.find_cold(id, now, fx) {
                debug_assert_eq!(self.jobs[slot].status(), Status::Delayed, "it lists delays");
                return Some(slot);
            }
        }
        None
    }

    /// Kicks a job, which goes to a waiter before another one is kicked.
    fn kick_counted(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) {
        debug_assert!(
            matches!(self.jobs[slot].status(), Status::Buried | Status::Delayed),
            "only a buried or delayed job is kicked"
        );
        self.count_kick(slot);
        self.apply_verb(slot, Verb::Kick, now, fx);
        self.settle_constraints(now, fx);
    }

    /// Notes in a job that a client has kicked it.
    pub(in crate::store) fn count_kick(&mut self, slot: JobIdx) {
        self.jobs.change(slot, |job| {
            let tally = &mut job.work_mut().tally;
            tally.kicks = tally.kicks.saturating_add(1);
        });
    }

    /// Answers with the first job of a queue in a state. O(log n).
    pub(super) fn peek_first(
        &mut self,
        ticket: Ticket,
        (queue, among): (&[u8], PeekedState),
        now: Now,
        fx: &mut Effects,
    ) {
        let found = self.queues.find(queue).and_then(|queue| match among {
            PeekedState::Ready => {
                for _ in 0..HEADS_EXPIRED_MAX {
                    let head = self.queues[queue].ready.peek()?.slot;
                    let id = JobId(self.jobs[head].id());
                    if let Some(slot) = self.find_cold(id, now, fx) {
                        return Some(slot);
                    }
                }
                None
            }
            PeekedState::Delayed => self.first_delayed(queue, now, fx),
            PeekedState::Buried => self.queues[queue].buried.first(),
        });
        fx.answer(ticket, found.map_or(Outcome::NoJob, Outcome::Peeked));
    }

    /// Answers with what is counted of a job. O(name).
    pub(super) fn job_stats(&mut self, ticket: Ticket, id: JobId, now: Now, fx: &mut Effects) {
        let Some(slot) = self.find_cold(id, now, fx) else {
            return fx.answer(ticket, Outcome::NoJob);
        };
        let job = &self.jobs[slot];
        let state = match job.counted_status() {
            Status::Ready | Status::GroupOnly => "ready",
            Status::Delayed | Status::Blocked => "delayed",
            Status::Reserved => "reserved",
            Status::Buried => "buried",
            Status::Completed | Status::Popped => return fx.answer(ticket, Outcome::NoJob),
        };
        let timed = matches!(job.status(), Status::Delayed | Status::Reserved);
        let due = job.due(&self.deadlines).filter(|_| timed);
        let options = job.options();
        let put_at_ms = job.put_at() * 1_000 + job.put_at_more_ms();
        let counted = JobStats {
            id,
            queue: (*self.queues[job.queue].name).into(),
            state,
            priority: match job.priority() {
                Priority::Small(number) => number,
                Priority::Big(LEAST_PRIORITY) | Priority::Unselected => i64::MIN,
                Priority::Big(_) => i64::MAX,
            },
            age_s: now.wall.0.saturating_sub(put_at_ms) / 1_000,
            delay_ms: options.delay_ms,
            lease_ms: options.lease_ms,
            left_s: due.map_or(0, |at| whole_seconds_until(at, now)),
            reserves: job.lease().0,
            timeouts: job.ended_attempts(),
            tally: job.work().map(|work| work.tally).unwrap_or_default(),
        };
        fx.reply(ticket, ConsumerReply::Job(Box::new(counted)));
    }
}

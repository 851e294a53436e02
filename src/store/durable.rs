//! The store seen by an engine that keeps a journal: which jobs have changed, what they are now,
//! and how they come back after a restart.

use super::jobs::{Job, NONE};
use super::{JobSlot, Store};
use crate::base::time::Mono;
use crate::model::id::JobId;
use crate::model::job::Status;
use crate::model::snapshot::{Snapshot, Stage, State};

/// Something that has to outlive a restart. Slots are good until the next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A job was put. It may be gone again by the end of the same command.
    Put(JobSlot, JobId),
    /// The state of a job has changed.
    State(JobSlot, JobId),
    /// A job is gone.
    Gone(JobSlot, JobId),
}

impl JobSlot {
    /// The place of the job among all places: small and dense.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

impl Store {
    /// The place of a job, if there is such a job. O(1).
    #[must_use]
    pub fn slot(&self, id: JobId) -> Option<JobSlot> {
        self.ids.find(id.0).map(JobSlot)
    }

    /// The job at a place, if there is one. O(1).
    #[must_use]
    pub fn job_at(&self, number: u32) -> Option<JobSlot> {
        self.jobs.get(number).map(|_| JobSlot(number))
    }

    /// The whole job in `slot`. O(1).
    ///
    /// # Panics
    /// As [`Store::view`].
    #[must_use]
    pub fn snapshot(&self, slot: JobSlot) -> Snapshot<'_> {
        let job = &self.jobs[slot.0];
        Snapshot {
            id: JobId(job.id),
            queue: &self.queues[job.queue].name,
            urgency: job.urgency(),
            turn: job.turn(),
            payload: job.payload(),
            terms: job.counts_leases().then(|| job.terms()),
            expires: job.is_mortal().then(|| job.expires()),
            state: self.state(slot),
        }
    }

    /// What may change of the job in `slot`. O(1).
    ///
    /// # Panics
    /// As [`Store::view`].
    #[must_use]
    pub fn state(&self, slot: JobSlot) -> State<'_> {
        let job = &self.jobs[slot.0];
        let due = || self.due(job);
        let stage = match job.status {
            Status::Ready | Status::Aside | Status::Held => Stage::Waiting,
            Status::Delayed => due().map_or(Stage::Waiting, Stage::Delayed),
            Status::Kept => due().map_or(Stage::Waiting, Stage::Kept),
            Status::Buried => Stage::Buried(due()),
        };
        State { stage, retries: job.retries(), result: job.result() }
    }

    fn due(&self, job: &Job) -> Option<Mono> {
        let timer = job.extra()?.timer;
        (!timer.is_none()).then(|| self.deadlines.moment(timer))
    }

    /// Brings a job back, in the place of the one that has its id. Nobody may wait yet.
    /// O(log n + log d).
    ///
    /// # Panics
    /// If somebody waits.
    pub fn restore(&mut self, job: &Snapshot<'_>) -> JobSlot {
        assert!(self.waiters.len() == 0, "jobs come back before anybody asks for them");
        let queue = self.queues.find_or_add(job.queue);
        let mut record = Job::new(job.id.0, queue, job.urgency, job.turn, job.payload);
        if let Some(terms) = &job.terms {
            record.resume(terms, job.expires);
        }
        self.queues[queue].jobs += 1;
        self.queues[queue].mortals += u32::from(record.is_mortal());
        let slot = if let Some(slot) = self.ids.find(job.id.0) {
            self.withdraw(slot);
            self.leave_queue(slot);
            self.jobs[slot] = record;
            slot
        } else {
            let slot = self.jobs.insert(record);
            self.ids.insert(job.id.0, slot);
            slot
        };
        self.next_id = self.next_id.max(job.id.0 + 1);
        self.settle_at(slot, &job.state);
        JobSlot(slot)
    }

    /// Brings a job that was brought back to the state that it was in later, if it is there.
    /// O(log n + log d).
    pub fn restore_state(&mut self, id: JobId, state: &State<'_>) {
        let Some(slot) = self.ids.find(id.0) else { return };
        self.withdraw(slot);
        // A heap leaves the last position with what it gives up.
        self.jobs[slot].place = NONE;
        self.settle_at(slot, state);
    }

    /// Takes a job that was brought back away again, if it is there. O(log n + log d).
    pub fn erase(&mut self, id: JobId) -> Option<JobSlot> {
        let slot = self.ids.find(id.0)?;
        self.withdraw(slot);
        drop(self.discard(slot));
        Some(JobSlot(slot))
    }

    /// Ids below this one have been given out.
    #[must_use]
    pub fn next_id(&self) -> JobId {
        JobId(self.next_id)
    }

    /// No id below this one will be given out.
    pub fn skip_ids(&mut self, next: JobId) {
        self.next_id = self.next_id.max(next.0);
    }

    /// Puts a job that is nowhere where its state says.
    fn settle_at(&mut self, slot: u32, state: &State<'_>) {
        let job = &mut self.jobs[slot];
        job.set_retries(state.retries);
        if let Some(result) = state.result {
            job.set_result(result);
        }
        match state.stage {
            Stage::Waiting => self.enqueue(slot),
            Stage::Delayed(at) => {
                job.status = Status::Delayed;
                self.arm(slot, at);
            }
            Stage::Kept(at) => {
                job.status = Status::Kept;
                self.arm(slot, at);
            }
            Stage::Buried(until) => {
                job.status = Status::Buried;
                let queue = job.queue;
                self.queues[queue].buried.link(slot, &mut self.jobs);
                if let Some(at) = until {
                    self.arm(slot, at);
                }
            }
        }
    }
}

//! What a job has to say about who follows it and who works on it.

use super::jobs::Job;
use crate::base::limits::EXCLUDED_WORKERS_MAX;
use crate::model::external_id::Fraction;
use crate::model::job::{LeaseEpoch, Payload};
use crate::model::worker::WorkerId;

impl Job {
    /// Whether it may be taken whatever its queue.
    pub(super) fn is_tracked(&self) -> bool {
        self.work().is_some_and(|work| work.options.tracked)
    }

    /// The worker of the list that works on it.
    #[inline]
    pub(super) fn worker(&self) -> Option<WorkerId> {
        self.work()?.worker
    }

    pub(super) fn set_worker(&mut self, worker: Option<WorkerId>) {
        if worker != self.worker() {
            self.work_mut().worker = worker;
        }
    }

    /// What went wrong last, for people.
    pub(super) fn result_message(&self) -> Option<&str> {
        self.work()?.message.as_deref()
    }

    pub(super) fn set_result_message(&mut self, message: Option<&str>) {
        if message != self.result_message() {
            self.work_mut().message = message.map(Into::into);
        }
    }

    /// What came of it is this and nothing else.
    pub(super) fn resume_outcome(&mut self, result: Option<Payload<'_>>, message: Option<&str>) {
        if self.result().is_some() || result.is_some() {
            self.work_mut().result = result.map(|result| (result.encoding, result.bytes.into()));
        }
        self.set_result_message(message);
    }

    /// Its lease has ended, and that is all that can be said of it.
    pub(super) fn mark_timed_out(&mut self) {
        let work = self.work_mut();
        (work.result, work.message) = (None, Some("timeout".into()));
    }

    /// The lease under which it was handed out before a restart.
    pub(super) fn resume_lease(&mut self, lease: LeaseEpoch) {
        self.ext_mut_or_insert().lease = lease;
    }

    /// The name that its sender gave it.
    pub(super) fn external_id(&self) -> Option<&[u8]> {
        self.work()?.name.as_deref()
    }

    pub(super) fn set_external_id(&mut self, name: &[u8]) {
        self.work_mut().name = Some(name.into());
    }

    /// How much of it is done, if whoever holds it has said to work on it.
    pub(super) fn progress(&self) -> Option<Fraction> {
        self.work()?.progress
    }

    pub(super) fn set_progress(&mut self, progress: Option<Fraction>) {
        if progress != self.progress() {
            self.work_mut().progress = progress;
        }
    }

    /// The workers that it is not offered to, in rising order.
    pub(super) fn excluded_workers(&self) -> &[WorkerId] {
        self.work().map_or(&[], |work| &work.excluded_workers)
    }

    /// It is not offered to this worker again; tells whether that can be remembered. O(refusers).
    pub(super) fn exclude_worker(&mut self, worker: WorkerId) -> bool {
        let excluded_workers = &mut self.work_mut().excluded_workers;
        if let Err(place) = excluded_workers.binary_search(&worker) {
            if excluded_workers.len() >= EXCLUDED_WORKERS_MAX {
                return false;
            }
            excluded_workers.insert(place, worker);
        }
        true
    }

    /// It is offered to everybody again.
    pub(super) fn clear_exclusions(&mut self) {
        if !self.excluded_workers().is_empty() {
            self.work_mut().excluded_workers = Vec::new();
        }
    }
}

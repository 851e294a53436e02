//! Accessors of [`Job`] for deadlines, options, results, constraints, tracking, registered workers
//! and exclusion sets.

use super::Due;
use super::idx::JobClassIdx;
use super::job::Job;
use super::retry::backoff_ms;
use crate::base::limits::EXCLUDED_WORKERS_MAX;
use crate::base::rng::Rng;
use crate::base::time::Mono;
use crate::base::timer_queue::TimerQueue;
use crate::model::external_id::Fraction;
use crate::model::job::{JobOptions, LeaseEpoch, Payload, Retry};
use crate::model::worker::WorkerId;

impl Job {
    /// The options that it was put with, without delay and time to live.
    pub(super) fn options(&self) -> JobOptions {
        self.work().map_or_else(JobOptions::default, |work| work.options)
    }

    pub(super) fn retry(&self) -> Option<Retry> {
        self.work()?.options.retry
    }

    pub(super) fn retries(&self) -> u32 {
        self.work().map_or(0, |work| work.retries)
    }

    pub(super) fn retries_left(&self) -> bool {
        self.retry().is_some_and(|retry| self.retries() < retry.limit)
    }

    /// Sets how many retries were made.
    pub(super) fn set_retries(&mut self, retries: u32) {
        if retries != self.retries() {
            self.work_mut().retries = retries;
        }
    }

    pub(super) fn result(&self) -> Option<Payload<'_>> {
        let (encoding, bytes) = self.work()?.result.as_ref()?;
        Some(Payload { encoding: *encoding, bytes })
    }

    /// Stores the result, or the error of the last run.
    pub(super) fn set_result(&mut self, result: Payload<'_>) {
        let work = self.work_mut();
        work.result = Some((result.encoding, result.bytes.into()));
        work.message = None;
    }

    /// Its job class, if a constraint selects it.
    #[inline]
    pub(super) fn class(&self) -> Option<JobClassIdx> {
        self.ext()?.class.expand()
    }

    /// Its job class.
    ///
    /// # Panics
    /// If no constraint selects it.
    pub(super) fn expect_class(&self) -> JobClassIdx {
        self.class().expect("a job with limiters has a class")
    }

    /// When its status ends by itself. O(1).
    pub(super) fn due(&self, deadlines: &TimerQueue<Due>) -> Option<Mono> {
        let timer = self.ext()?.timer;
        (!timer.is_none()).then(|| deadlines.moment(timer))
    }

    /// Counts one more retry, and returns the delay before it in milliseconds.
    ///
    /// # Panics
    /// If it has no retry policy.
    pub(super) fn count_retry(&mut self, rng: &mut Rng) -> u64 {
        debug_assert!(self.retries_left(), "a job is tried again more often than its limit");
        let retry = self.retries() + 1;
        self.set_retries(retry);
        let policy = self.retry().expect("a job without a policy is not tried again");
        backoff_ms(&policy, retry, rng)
    }

    /// Whether a reserve without queue names may hand it out, and its status is asked for.
    pub(super) fn is_tracked(&self) -> bool {
        self.work().is_some_and(|work| work.options.tracked)
    }

    /// The registered worker that has reserved it.
    #[inline]
    pub(super) fn worker(&self) -> Option<WorkerId> {
        self.work()?.worker
    }

    pub(super) fn set_worker(&mut self, worker: Option<WorkerId>) {
        if worker != self.worker() {
            self.work_mut().worker = worker;
        }
    }

    /// Clears what is known of its run, which has ended: worker and progress.
    pub(super) fn clear_run(&mut self) {
        self.set_worker(None);
        self.set_progress(None);
    }

    /// The message of the last error, for people.
    pub(super) fn result_message(&self) -> Option<&str> {
        self.work()?.message.as_deref()
    }

    pub(super) fn set_result_message(&mut self, message: Option<&str>) {
        if message != self.result_message() {
            self.work_mut().message = message.map(Into::into);
        }
    }

    /// Sets result and message, and clears what is `None`.
    pub(super) fn resume_outcome(&mut self, result: Option<Payload<'_>>, message: Option<&str>) {
        if self.result().is_some() || result.is_some() {
            self.work_mut().result = result.map(|result| (result.encoding, result.bytes.into()));
        }
        self.set_result_message(message);
    }

    /// Makes "timeout" the message of the last error, without a result.
    pub(super) fn mark_timed_out(&mut self) {
        let work = self.work_mut();
        (work.result, work.message) = (None, Some("timeout".into()));
    }

    /// Sets the lease epoch of a restored job.
    pub(super) fn resume_lease(&mut self, lease: LeaseEpoch) {
        self.ext_mut_or_insert().lease = lease;
    }

    pub(super) fn external_id(&self) -> Option<&[u8]> {
        self.work()?.name.as_deref()
    }

    pub(super) fn set_external_id(&mut self, name: &[u8]) {
        self.work_mut().name = Some(name.into());
    }

    /// The fraction that is done, if the worker that reserved it has reported any.
    pub(super) fn progress(&self) -> Option<Fraction> {
        self.work()?.progress
    }

    pub(super) fn set_progress(&mut self, progress: Option<Fraction>) {
        if progress != self.progress() {
            self.work_mut().progress = progress;
        }
    }

    /// The exclusion set: the workers that have rejected it, rising.
    pub(super) fn excluded_workers(&self) -> &[WorkerId] {
        self.work().map_or(&[], |work| &work.excluded_workers)
    }

    /// Adds a worker to the exclusion set; returns false if the set is full. O(workers in the set).
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

    /// Empties the exclusion set.
    pub(super) fn clear_exclusions(&mut self) {
        if !self.excluded_workers().is_empty() {
            self.work_mut().excluded_workers = Vec::new();
        }
    }
}

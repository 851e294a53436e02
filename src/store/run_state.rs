//! Accessors of [`Job`] for deadlines, options, results, constraints, tracking, registered workers
//! and exclusion sets.

use super::Due;
use super::idx::JobClassIdx;
use super::job::Job;
use super::job_ext::{JobKey, RunError, Runs, TokenLease};
use super::retry::backoff_ms;
use crate::base::limits::EXCLUDED_WORKERS_MAX;
use crate::base::rng::Rng;
use crate::base::time::{Mono, Wall};
use crate::base::timer_queue::TimerQueue;
use crate::model::external_id::Fraction;
use crate::model::job::{JobOptions, LeaseEpoch, Payload, Retry, Status};
use crate::model::snapshot::RunHistory;
use crate::model::worker::WorkerId;

impl Job {
    /// The options that it was put with, without delay and time to live.
    pub(super) fn options(&self) -> JobOptions {
        if self.has_short_lease() {
            return JobOptions { lease_ms: self.lease_ms(), ..JobOptions::default() };
        }
        self.work().map_or_else(JobOptions::default, |work| work.options)
    }

    pub(super) fn retry(&self) -> Option<Retry> {
        self.work()?.options.retry
    }

    pub(super) fn retries(&self) -> u32 {
        self.work().map_or(0, |work| work.retries)
    }

    pub(super) fn retries_left(&self) -> bool {
        if self.max_attempts() > 0 {
            return self.attempts_left();
        }
        self.retry().is_some_and(|retry| self.retries() < retry.limit)
    }

    /// Most attempts; 0: any number.
    pub(super) fn max_attempts(&self) -> u32 {
        self.work().map_or(0, |work| work.options.max_attempts)
    }

    /// Whether another attempt is left after the present one.
    pub(super) fn attempts_left(&self) -> bool {
        self.ended_attempts().saturating_add(1) < self.max_attempts()
    }

    /// What the native API keeps of its runs.
    #[inline]
    pub(super) fn runs(&self) -> Option<&Runs> {
        self.work()?.runs.as_deref()
    }

    /// Its key, which it may have no more.
    pub(super) fn key_of_queue(&self) -> Option<&JobKey> {
        self.work()?.key.as_deref()
    }

    pub(super) fn key_of_queue_mut(&mut self) -> Option<&mut JobKey> {
        self.ext_mut()?.work.as_mut()?.key.as_deref_mut()
    }

    pub(super) fn set_key(&mut self, key: JobKey) {
        debug_assert!(
            self.key_of_queue().is_none_or(|former| !former.is_taken),
            "a key is released before the job gets another one"
        );
        self.work_mut().key = Some(Box::new(key));
    }

    pub(super) fn runs_mut(&mut self) -> &mut Runs {
        self.work_mut().runs.get_or_insert_default()
    }

    /// Attempts that have ended, as far as they were counted.
    pub(super) fn ended_attempts(&self) -> u32 {
        self.runs().map_or(0, |runs| runs.attempts)
    }

    /// Counts the end of an attempt.
    pub(super) fn count_attempt(&mut self) {
        let runs = self.runs_mut();
        runs.attempts = runs.attempts.saturating_add(1);
    }

    /// The lease under a token, if it is reserved under one.
    pub(super) fn token_lease(&self) -> Option<&TokenLease> {
        self.runs()?.lease.as_ref()
    }

    /// Whether its reservation outlives its client and a restart: by a registered worker, or under
    /// a token.
    pub(super) fn is_reservation_durable(&self) -> bool {
        debug_assert!(
            self.worker().is_none() || self.token_lease().is_none(),
            "a job is reserved by a worker or under a token"
        );
        self.worker().is_some() || self.token_lease().is_some()
    }

    /// Sets the last error.
    pub(super) fn set_run_error(&mut self, kind: &str, message: &str, at: Wall) {
        let (kind, message) = (kind.into(), message.into());
        self.runs_mut().error = Some(RunError { kind, message, at });
    }

    /// What survives a restart of its runs: of one that does not, no progress. A lease is in its
    /// status.
    pub(super) fn run_history(&self) -> Option<RunHistory<'_>> {
        let runs = self.runs()?;
        let (error, message) = (runs.error.as_ref(), runs.progress_message.as_deref());
        let history = RunHistory {
            attempts: runs.attempts,
            error: error.map(|error| (&*error.kind, &*error.message, error.at)),
            progress_message: message.filter(|_| self.is_reservation_durable()),
            completed_by: runs.completed_by,
        };
        (history != RunHistory::default()).then_some(history)
    }

    /// Restores the history of its runs.
    pub(super) fn resume_runs(&mut self, history: Option<RunHistory<'_>>) {
        debug_assert!(
            self.token_lease().is_none(),
            "a job gets the history of its runs while none is under way"
        );
        if self.runs().is_none() && history.is_none() {
            return;
        }
        let history = history.unwrap_or_default();
        *self.runs_mut() = Runs {
            attempts: history.attempts,
            error: history.error.map(|(kind, message, at)| RunError {
                kind: kind.into(),
                message: message.into(),
                at,
            }),
            progress_message: history.progress_message.map(Into::into),
            lease: None,
            completed_by: history.completed_by,
        };
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
        debug_assert_eq!(self.status(), Status::Reserved, "a run that is under way has a result");
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
        let timer = self.timer();
        (!timer.is_none()).then(|| deadlines.moment(timer))
    }

    pub(super) fn lease(&self) -> LeaseEpoch {
        let without_ext = LeaseEpoch(u32::from(self.is_leased()));
        self.ext().map_or(without_ext, |ext| ext.lease)
    }

    /// Counts one more retry, and returns the delay before it in milliseconds.
    /// One with a limit of attempts and without a policy has the policy of native puts.
    pub(super) fn count_retry(&mut self, rng: &mut Rng) -> u64 {
        debug_assert_eq!(self.status(), Status::Reserved, "a retry follows a run");
        debug_assert!(
            self.max_attempts() == 0 || self.ended_attempts() < self.max_attempts(),
            "a job whose attempts are used up is not retried"
        );
        let retry = self.retries().saturating_add(1);
        self.set_retries(retry);
        let policy = self.retry().unwrap_or(Retry::DEFAULT);
        backoff_ms(&policy, retry, rng)
    }

    /// Its status, but `Blocked` if other jobs hold it back.
    pub(super) fn counted_status(&self) -> Status {
        let status = self.status();
        if status == Status::Delayed && self.is_held() { Status::Blocked } else { status }
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
        debug_assert!(
            worker.is_none() || self.status() == Status::Reserved,
            "only a reserved job has a worker"
        );
        if worker != self.worker() {
            self.work_mut().worker = worker;
        }
    }

    /// Clears what is known of its run, which has ended: worker, token and progress.
    pub(super) fn clear_run(&mut self) {
        debug_assert_eq!(self.status(), Status::Reserved, "the run of a reserved job ends");
        self.set_worker(None);
        self.set_progress(None);
        if self.runs().is_some() {
            let runs = self.runs_mut();
            (runs.lease, runs.progress_message) = (None, None);
        }
        debug_assert!(!self.is_reservation_durable(), "a run that has ended has no owner");
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
        debug_assert_eq!(self.status(), Status::Reserved, "only reservations have a lease epoch");
        self.ext_mut_or_insert().lease = lease;
    }

    pub(super) fn external_id(&self) -> Option<&[u8]> {
        self.work()?.name.as_deref()
    }

    pub(super) fn set_external_id(&mut self, name: &[u8]) {
        debug_assert!(self.external_id().is_none(), "a job keeps its external id");
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
        debug_assert_eq!(self.status(), Status::Reserved, "a worker rejects what it has reserved");
        let excluded_workers = &mut self.work_mut().excluded_workers;
        debug_assert!(excluded_workers.is_sorted(), "an exclusion set rises");
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

//! Rarely used job fields, boxed so that a table slot stays at 40 bytes.

use super::dependencies::JobDeps;
use super::idx::JobClassIdx;
use super::payload_head::PayloadHead;
use crate::base::slab_index::PackedOption;
use crate::base::time::{Mono, Now, Wall};
use crate::base::timer_queue::TimerId;
use crate::model::consumer::JobTally;
use crate::model::external_id::Fraction;
use crate::model::job::{Encoding, JobOptions, LeaseEpoch, LeaseToken, Payload, StoredPayload};
use crate::model::row::Row;
use crate::model::worker::WorkerId;
use std::sync::Arc;
use std::time::Duration;

/// Rarely used job fields.
#[derive(Debug)]
pub(super) struct JobExt {
    pub(super) content: PayloadHome,
    /// The digits of a priority beyond 64 bits, or of the least one.
    pub(super) digits: Option<Box<str>>,
    /// When its time to live ends.
    pub(super) expires: Mono,
    /// The deadline of its status.
    pub(super) timer: TimerId,
    /// Its job class, if a constraint selects it.
    pub(super) class: PackedOption<JobClassIdx>,
    /// How often it was reserved, if `counts_leases`.
    pub(super) lease: LeaseEpoch,
    pub(super) counts_leases: bool,
    pub(super) work: Option<Box<RunState>>,
}

/// Where the payload is: here, or in the row of a job in an indexed queue.
#[derive(Debug)]
pub(super) enum PayloadHome {
    Inline(StoredPayload),
    Row(Arc<Row>),
}

/// Fields of jobs with retries, leases, results, external ids or registered workers.
#[derive(Debug, Default)]
pub(super) struct RunState {
    pub(super) options: JobOptions,
    pub(super) retries: u32,
    /// What clients have done to it.
    pub(super) tally: JobTally,
    pub(super) result: Option<(Encoding, Box<[u8]>)>,
    /// The message of the last error, for people.
    pub(super) message: Option<Box<str>>,
    /// The registered worker that has reserved it.
    pub(super) worker: Option<WorkerId>,
    /// Its position in the global ready heap, or in a heap beside it.
    pub(super) global_position: u32,
    /// The version of the constraints under which it consumed tokens. Tokens are refunded only
    /// while the version is the same.
    pub(super) charged_revision: u64,
    /// The workers that have rejected it, rising.
    pub(super) excluded_workers: Vec<WorkerId>,
    /// The external id.
    pub(super) name: Option<Box<[u8]>>,
    /// The progress, if its worker has reported any.
    pub(super) progress: Option<Fraction>,
    /// What the native API keeps of its runs.
    pub(super) runs: Option<Box<Runs>>,
    /// Its key.
    pub(super) key: Option<Box<JobKey>>,
    /// What it waits for, and what waits for it.
    pub(super) deps: Option<Box<JobDeps>>,
}

/// The key of a job.
#[derive(Debug)]
pub(super) struct JobKey {
    pub(super) bytes: Box<[u8]>,
    /// For how long it stays taken after the job is completed, in milliseconds.
    pub(super) ttl_ms: u64,
    /// Whether the job is found by it: until it is completed.
    pub(super) is_taken: bool,
}

/// What the native API keeps of the runs of a job.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// Attempts that have ended.
    pub(super) attempts: u32,
    /// The last error.
    pub(super) error: Option<RunError>,
    /// What its worker says of its progress.
    pub(super) progress_message: Option<Box<str>>,
    /// The lease under a token, while the job is reserved so.
    pub(super) lease: Option<TokenLease>,
    /// The token under which it was completed.
    pub(super) completed_by: Option<LeaseToken>,
}

/// The last error of a job.
#[derive(Debug)]
pub(super) struct RunError {
    pub(super) kind: Box<str>,
    pub(super) message: Box<str>,
    pub(super) at: Wall,
}

/// A lease that does not end with a connection.
#[derive(Debug)]
pub(super) struct TokenLease {
    pub(super) token: LeaseToken,
    pub(super) since: Wall,
    /// The name of the worker; empty: it has said none.
    pub(super) worker: Box<str>,
    /// In place of the job's own.
    pub(super) lease_ms: u64,
}

const _: () = assert!(size_of::<JobExt>() == 64, "one allocation of a usual size");

/// Later than every deadline.
pub(super) const NEVER: Mono = Mono(u64::MAX);

impl RunState {
    fn content_bytes(&self) -> usize {
        let result = self.result.as_ref().map_or(0, |(_, bytes)| bytes.len());
        let message = self.message.as_ref().map_or(0, |text| text.len());
        let name = self.name.as_ref().map_or(0, |name| name.len());
        let key = self.key.as_ref().map_or(0, |key| key.bytes.len());
        let deps = self.deps.as_ref().map_or(0, |deps| deps.content_bytes());
        result
            + message
            + name
            + key
            + deps
            + self.runs.as_ref().map_or(0, |runs| runs.content_bytes())
    }
}

impl Runs {
    fn content_bytes(&self) -> usize {
        let error = self.error.as_ref().map_or(0, |error| error.kind.len() + error.message.len());
        let worker = self.lease.as_ref().map_or(0, |lease| lease.worker.len());
        error + worker + self.progress_message.as_ref().map_or(0, |text| text.len())
    }
}

impl JobExt {
    pub(super) fn new(payload: StoredPayload) -> Self {
        Self {
            content: PayloadHome::Inline(payload),
            digits: None,
            expires: NEVER,
            timer: TimerId::NONE,
            class: PackedOption::NONE,
            lease: LeaseEpoch(0),
            counts_leases: false,
            work: None,
        }
    }

    pub(super) fn payload(&self) -> Payload<'_> {
        match &self.content {
            PayloadHome::Inline(payload) => PayloadHead::of(payload).payload(payload),
            PayloadHome::Row(row) => Payload { encoding: row.encoding, bytes: &row.payload },
        }
    }

    /// The head of the payload, if it has one.
    pub(super) fn head(&self) -> Option<PayloadHead> {
        match &self.content {
            PayloadHome::Inline(payload) => Some(PayloadHead::of(payload)),
            PayloadHome::Row(_) => None,
        }
    }

    /// See `Job::created`.
    pub(super) fn created(&self) -> u32 {
        self.head().map_or(0, |head| head.created)
    }

    /// See `Job::content_bytes`.
    pub(super) fn content_bytes(&self) -> usize {
        let content = match &self.content {
            PayloadHome::Inline(payload) => payload.len(),
            PayloadHome::Row(row) => {
                size_of::<Row>() + row.payload.len() + row.state.len() + row.events.bytes()
            }
        };
        let run = self.work.as_ref().map_or(0, |run| run.content_bytes());
        content + self.digits.as_ref().map_or(0, |digits| digits.len()) + run
    }

    pub(super) fn into_payload(self) -> StoredPayload {
        match self.content {
            PayloadHome::Inline(payload) => payload,
            PayloadHome::Row(row) => PayloadHead::of_second(0, row.encoding).store(&row.payload),
        }
    }

    #[inline]
    pub(super) fn row(&self) -> Option<&Arc<Row>> {
        match &self.content {
            PayloadHome::Inline(_) => None,
            PayloadHome::Row(row) => Some(row),
        }
    }

    pub(super) fn set_row(&mut self, row: Arc<Row>) {
        self.content = PayloadHome::Row(row);
    }

    pub(super) fn set_options(&mut self, options: &JobOptions, now: Now) {
        debug_assert_eq!(self.expires, NEVER, "a time to live begins once");
        debug_assert_eq!(self.lease.0, 0, "a job gets its options before its first lease");
        if options.ttl_ms > 0 {
            self.expires = now.mono.after(Duration::from_millis(options.ttl_ms));
            debug_assert!(self.expires > now.mono, "a time to live ends later than it begins");
        }
        self.counts_leases = true;
        let JobOptions {
            delay_ms: _,
            ttl_ms: _,
            lease_ms,
            retry,
            result_retention_ms: keep_ms,
            dead_retention_ms: bury_ms,
            ..
        } = *options;
        let lasting = lease_ms > 0 || keep_ms > 0 || bury_ms > 0;
        let kept = lasting || retry.is_some() || options.max_attempts > 0;
        if kept || options.tracked || options.result_once {
            self.work.get_or_insert_default().options = *options;
        }
    }
}

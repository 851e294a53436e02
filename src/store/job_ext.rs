//! What few jobs have, apart from the table of jobs.

use super::jobs::NONE;
use crate::base::time::{Mono, Now};
use crate::base::timer_queue::TimerId;
use crate::model::external_id::Fraction;
use crate::model::job::{Encoding, JobOptions, LeaseEpoch};
use crate::model::row::Row;
use crate::model::worker::WorkerId;
use std::sync::Arc;
use std::time::Duration;

/// What few jobs have.
#[derive(Debug)]
pub(super) struct JobExt {
    pub(super) content: PayloadHome,
    /// The digits of an priority beyond 64 bits.
    pub(super) digits: Option<Box<str>>,
    /// When its time to live is over.
    pub(super) expires: Mono,
    /// The deadline of its status.
    pub(super) timer: TimerId,
    /// What holds it back, if anything may: its strand among the constraints'.
    pub(super) strand: u32,
    /// How often it was handed out, if that is counted.
    pub(super) lease: LeaseEpoch,
    pub(super) counts_leases: bool,
    pub(super) work: Option<Box<RunState>>,
}

/// What it carries: alone, or in its row if it has a record.
#[derive(Debug)]
pub(super) enum PayloadHome {
    Inline(Box<[u8]>),
    Row(Arc<Row>),
}

/// What jobs have that somebody follows through failures to a result.
#[derive(Debug, Default)]
pub(super) struct RunState {
    pub(super) options: JobOptions,
    pub(super) retries: u32,
    pub(super) result: Option<(Encoding, Box<[u8]>)>,
    /// What went wrong last, for people.
    pub(super) message: Option<Box<str>>,
    /// Who works on it, if that is a worker of the list.
    pub(super) worker: Option<WorkerId>,
    /// Its position among all tracked jobs that are ready.
    pub(super) global_position: u32,
    /// When tokens were taken for it, by the number of changes of constraints until then: since a
    /// later one they are not given back.
    pub(super) paid: u64,
    /// The workers that it is not offered to, in rising order.
    pub(super) excluded_workers: Vec<WorkerId>,
    /// The name that its sender gave it.
    pub(super) name: Option<Box<[u8]>>,
    /// How much of it is done, if whoever holds it has said to work on it.
    pub(super) progress: Option<Fraction>,
}

const _: () = assert!(size_of::<JobExt>() == 64, "one allocation of a usual size");

/// The moment that never comes.
pub(super) const NEVER: Mono = Mono(u64::MAX);

impl JobExt {
    pub(super) fn new(payload: Box<[u8]>) -> Self {
        Self {
            content: PayloadHome::Inline(payload),
            digits: None,
            expires: NEVER,
            timer: TimerId::NONE,
            strand: NONE,
            lease: LeaseEpoch(0),
            counts_leases: false,
            work: None,
        }
    }

    pub(super) fn payload(&self) -> &[u8] {
        match &self.content {
            PayloadHome::Inline(payload) => payload,
            PayloadHome::Row(row) => &row.payload,
        }
    }

    pub(super) fn into_payload(self) -> Box<[u8]> {
        match self.content {
            PayloadHome::Inline(payload) => payload,
            PayloadHome::Row(row) => (*row.payload).into(),
        }
    }

    /// The row of a job that has a record.
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
        if options.ttl_ms > 0 {
            self.expires = now.mono.after(Duration::from_millis(options.ttl_ms));
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
        if lasting || retry.is_some() || options.tracked || options.result_once {
            self.work = Some(Box::new(RunState { options: *options, ..RunState::default() }));
        }
    }
}

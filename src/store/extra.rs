//! What few jobs have, apart from the table of jobs.

use crate::base::deadlines::Timer;
use crate::base::time::{Mono, Now};
use crate::model::job::{Encoding, Lease, Terms};
use crate::model::named::Portion;
use crate::model::row::Row;
use crate::model::work::WorkerId;
use std::sync::Arc;
use std::time::Duration;

/// What few jobs have.
#[derive(Debug)]
pub(super) struct Extra {
    pub(super) content: Content,
    /// The digits of an urgency beyond 64 bits.
    pub(super) digits: Option<Box<str>>,
    /// When its time to live is over.
    pub(super) expires: Mono,
    /// The deadline of its status.
    pub(super) timer: Timer,
    /// How often it was handed out, if that is counted.
    pub(super) lease: Lease,
    pub(super) counts_leases: bool,
    pub(super) work: Option<Box<Work>>,
}

/// What it carries: alone, or in its row if it has a record.
#[derive(Debug)]
pub(super) enum Content {
    Own(Box<[u8]>),
    Recorded(Arc<Row>),
}

/// What jobs have that somebody follows through failures to a result.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) terms: Terms,
    pub(super) retries: u32,
    pub(super) result: Option<(Encoding, Box<[u8]>)>,
    /// What went wrong last, for people.
    pub(super) message: Option<Box<str>>,
    /// Who works on it, if that is a worker of the list.
    pub(super) worker: Option<WorkerId>,
    /// Its position among all followed jobs that are ready.
    pub(super) anywhere: u32,
    /// The workers that it is not offered to, in rising order.
    pub(super) refused_by: Vec<WorkerId>,
    /// The name that its sender gave it.
    pub(super) name: Option<Box<[u8]>>,
    /// How much of it is done, if whoever holds it has said to work on it.
    pub(super) progress: Option<Portion>,
}

const _: () = assert!(size_of::<Extra>() == 64, "one allocation of a usual size");

/// The moment that never comes.
pub(super) const NEVER: Mono = Mono(u64::MAX);

impl Extra {
    pub(super) fn new(payload: Box<[u8]>) -> Self {
        Self {
            content: Content::Own(payload),
            digits: None,
            expires: NEVER,
            timer: Timer::NONE,
            lease: Lease(0),
            counts_leases: false,
            work: None,
        }
    }

    pub(super) fn payload(&self) -> &[u8] {
        match &self.content {
            Content::Own(payload) => payload,
            Content::Recorded(row) => &row.payload,
        }
    }

    pub(super) fn into_payload(self) -> Box<[u8]> {
        match self.content {
            Content::Own(payload) => payload,
            Content::Recorded(row) => (*row.payload).into(),
        }
    }

    /// The row of a job that has a record.
    #[inline]
    pub(super) fn row(&self) -> Option<&Arc<Row>> {
        match &self.content {
            Content::Own(_) => None,
            Content::Recorded(row) => Some(row),
        }
    }

    pub(super) fn set_row(&mut self, row: Arc<Row>) {
        self.content = Content::Recorded(row);
    }

    pub(super) fn agree(&mut self, terms: &Terms, now: Now) {
        if terms.ttl_ms > 0 {
            self.expires = now.mono.after(Duration::from_millis(terms.ttl_ms));
        }
        self.counts_leases = true;
        let Terms { delay_ms: _, ttl_ms: _, lease_ms, retry, keep_ms, bury_ms, .. } = *terms;
        let lasting = lease_ms > 0 || keep_ms > 0 || bury_ms > 0;
        if lasting || retry.is_some() || terms.followed || terms.fetch_once {
            self.work = Some(Box::new(Work { terms: *terms, ..Work::default() }));
        }
    }
}

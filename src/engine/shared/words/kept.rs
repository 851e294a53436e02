//! Parts that are made when they are read and kept in a [`Scratch`](super::Scratch).

use super::error::WordsError;
use super::value::{Read, Reader, Word, Writer, put_list};
use crate::base::strings::{StringList, Strings};
use crate::model::action::{ActionSpec, JobChange};
use crate::model::consumer::ConsumerReply;
use crate::model::external_id::QueueScan;
use crate::model::id::JobId;
use crate::model::indexed_queue::{IndexedPage, IndexedReply};
use crate::model::job::{JobOptions, LeaseEpoch, Packet};
use crate::model::manage::{JobCursor, ManageReply, NewJob, ReserveTerms, RunReport};
use crate::model::query::Query;
use crate::model::schedule::Schedule;
use crate::model::stats::StatsPage;
use crate::model::transfer::ImportedJob;
use crate::model::worker::{Constraint, OwnedWorker};
use std::cell::OnceCell;
use std::sync::Arc;

macro_rules! kept {
    ($($one:ident: $type:ty,)* ; $($many:ident: $element:ty,)*) => {
        $(impl<'a> Word<'a> for &'a $type {
            fn put(&self, w: &mut Writer<'_>) {
                <$type>::put(self, w);
            }
            fn get(r: &mut Reader<'a>) -> Read<Self> {
                let value = Word::get(r)?;
                keep(&r.scratch.$one, value)
            }
        })*
        $(impl<'a> Word<'a> for &'a [$element] {
            fn put(&self, w: &mut Writer<'_>) {
                put_list(self, w);
            }
            fn get(r: &mut Reader<'a>) -> Read<Self> {
                let values = Word::get(r)?;
                keep(&r.scratch.$many, values)
            }
        })*
    };
}

kept! {
    options: JobOptions,
    change: JobChange,
    action: ActionSpec,
    query: Arc<Query>,
    job: NewJob,
    terms: ReserveTerms,
    cursor: JobCursor,
    report: RunReport,
    schedule: Schedule,
    constraint: Constraint,
    indexed: IndexedReply,
    indexed_page: IndexedPage,
    consumer: ConsumerReply,
    manage: ManageReply,
    scan: QueueScan,
    stats: StatsPage,
    ;
    jobs: NewJob,
    imported: ImportedJob,
    packets: Packet,
    workers: OwnedWorker,
    attached: (JobId, LeaseEpoch),
}

/// Nothing is kept twice: no command and no reply has two parts of a kind.
fn keep<T: ?Sized>(place: &OnceCell<Box<T>>, value: Box<T>) -> Read<&T> {
    place.set(value).map_err(|_| WordsError::Malformed)?;
    place.get().map(|value| &**value).ok_or(WordsError::Malformed)
}

impl<'a> Word<'a> for StringList {
    fn put(&self, w: &mut Writer<'_>) {
        self.from(0).put(w);
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        let mut list = Self::default();
        for _ in 0..r.count()? {
            list.push(r.bytes()?);
        }
        Ok(list)
    }
}

impl<'a> Word<'a> for &'a StringList {
    fn put(&self, w: &mut Writer<'_>) {
        self.from(0).put(w);
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        let list = Word::get(r)?;
        keep(&r.scratch.names, list)
    }
}

impl<'a> Word<'a> for Strings<'a> {
    fn put(&self, w: &mut Writer<'_>) {
        w.number(self.len() as u64);
        self.into_iter().for_each(|string| w.bytes(string));
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        let list = Word::get(r)?;
        keep(&r.scratch.strings, list).map(|list| list.from(0))
    }
}

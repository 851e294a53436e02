//! Recovery of the store: each journal record is decoded and applied. And the ids that are given
//! out after it.

use super::record_key::pack;
use super::shared::redis::{Calls, Loaded, Requests, StartError, load_into};
use super::shared::{Begin, Field};
use super::{Engine, memory_limit, record};
use crate::base::time::Now;
use crate::journal::disk::Files;
use crate::journal::{
    JournalOptions, OpenError, RecordLocation, RecordRole, Recovered, RecoveryProgress,
    RecoveryReport, recover,
};
use crate::model::id::JobId;
use crate::model::snapshot::Record;
use crate::store::{Counts, Store};
use std::collections::BTreeMap;

/// A restored store, and what its journal needs to continue.
pub struct Restored {
    pub(super) store: Store,
    pub(super) recovered: Recovered,
}

impl Restored {
    /// The number of jobs, queues, workers and constraints that were restored.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.store.counts()
    }
}

impl Engine {
    /// Restores a store from the journal in `files`, for [`Engine::durable`]. `seed` is entropy
    /// for the store's hashes; deadlines that have passed on the wall clock are due at `now`.
    /// Stops as soon as the store takes more than `max_memory` bytes. O(bytes of the journal).
    ///
    /// # Errors
    /// If the journal cannot be read, a record cannot be decoded, or the memory does not suffice:
    /// see [`OpenError`].
    pub fn restore(
        files: &mut dyn Files,
        options: &JournalOptions,
        max_memory: Option<u64>,
        seed: u64,
        now: Now,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<(Restored, RecoveryReport), OpenError> {
        let mut store = Store::new(seed);
        let mut too_large = None;
        let mut visit = |bytes: &[u8], _: RecordLocation| {
            let record = record::read(bytes, now).map_err(|error| error.to_string())?;
            let role = apply(&mut store, record, now);
            too_large = max_memory.and_then(|limit| memory_limit::check_restored(limit, &store));
            too_large.clone().map_or(Ok(role), Err)
        };
        let recovered = recover(files, options, &mut visit, progress);
        if let Some(why) = too_large {
            return Err(OpenError::Stopped(why));
        }
        let (recovered, report) = recovered?;
        store.finish_restore(now);
        store.skip_ids(JobId(report.high_id));
        assert!(
            store.next_id() >= JobId(report.high_id),
            "an id that was given out would be given out again"
        );
        Ok((Restored { store, recovered }, report))
    }
}

/// A store that was restored from a shared sink.
pub struct RestoredShared {
    pub(super) store: Store,
    /// The records beside base records.
    pub(super) beside: Vec<Field>,
    /// All records, and their bytes.
    read: (usize, usize),
}

impl RestoredShared {
    /// All records are in the store. All ids given so far are below `mark`.
    pub(super) fn new(
        mut store: Store,
        beside: Vec<Field>,
        read: (usize, usize),
        (mark, now): (u64, Now),
    ) -> Self {
        store.finish_restore(now);
        store.skip_ids(JobId(mark));
        assert!(
            store.next_id() >= JobId(mark),
            "an id that was given out would be given out again"
        );
        Self { store, beside, read }
    }

    /// The number of jobs, queues, workers and constraints that were restored.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.store.counts()
    }

    /// How many records were read, and how many bytes they have.
    #[must_use]
    pub fn records_read(&self) -> (usize, usize) {
        self.read
    }
}

/// Records that are restored between two calls of `progress`.
const RECORDS_PER_PROGRESS: usize = 20_000;

impl Engine {
    /// Reads all records of a shared sink under the term that `begin` says, and restores a store
    /// from them, for [`Engine::leading`]. `seed` is entropy for the store's hashes. Stops as soon
    /// as the store takes more than `max_memory` bytes. `progress` is called before the lease has
    /// to be renewed, if that is not done by reading: it gets the connection. O(records).
    ///
    /// # Errors
    /// See [`StartError`]; what is wrong with a record, and that the memory does not suffice, too.
    pub fn load_shared(
        calls: &mut dyn Calls,
        requests: &Requests,
        begin: &Begin,
        (seed, max_memory): (u64, Option<u64>),
        now: Now,
        progress: &mut dyn FnMut(&mut dyn Calls) -> Result<(), StartError>,
    ) -> Result<RestoredShared, StartError> {
        let mut note = |_: JobId, _: RecordRole| {};
        let mut restoring = Restoring::new((seed, max_memory), now, &mut note);
        let term = (&begin.birth[..], begin.epoch);
        load_into(calls, requests, term, &mut |field, bytes| {
            restoring.add(field, bytes).map_err(StartError::Fatal)
        })?;
        restoring.finish(begin.mark, &mut || progress(calls))
    }
}

/// A store that is being restored from a shared sink. Records beside base records come first.
struct Restoring<'a> {
    store: Store,
    beside: Loaded,
    is_in_order: bool,
    max_memory: Option<u64>,
    now: Now,
    /// Gets the id and the role of each base record.
    note: &'a mut dyn FnMut(JobId, RecordRole),
    read: (usize, usize),
}

impl<'a> Restoring<'a> {
    fn new(
        (seed, max_memory): (u64, Option<u64>),
        now: Now,
        note: &'a mut dyn FnMut(JobId, RecordRole),
    ) -> Self {
        let store = Store::new(seed);
        let (beside, is_in_order, read) = (Loaded::default(), false, (0, 0));
        Self { store, beside, is_in_order, max_memory, now, note, read }
    }

    fn add(&mut self, field: Field, bytes: &[u8]) -> Result<(), String> {
        self.read = (self.read.0 + 1, self.read.1 + bytes.len());
        if !field.is_base() {
            debug_assert!(!self.is_in_order, "a base record has come before what is beside it");
            self.beside.push(field, bytes);
            return Ok(());
        }
        if !std::mem::replace(&mut self.is_in_order, true) {
            self.beside.put_in_order();
        }
        let mut record = read_field(field, bytes, self.now)?;
        // At once in its newest state: its key may have another owner since it was completed,
        // which may be restored before it.
        if let Record::Job(job) = &mut record
            && let state = Field::State(job.id.0)
            && let Some(bytes) = self.beside.find(state)
            && let Record::State(_, newest) = read_field(state, bytes, self.now)?
        {
            job.state = newest;
        }
        let id = record.id();
        (self.note)(id, apply(&mut self.store, record, self.now));
        let check = |limit| memory_limit::check_restored(limit, &self.store);
        self.max_memory.and_then(check).map_or(Ok(()), Err)
    }

    /// All records are there. All ids given so far are below `mark`.
    fn finish<E: From<String>>(
        mut self,
        mark: u64,
        progress: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<RestoredShared, E> {
        self.add_events(progress)?;
        let beside = self.beside.records().map(|(field, _)| field).collect();
        Ok(RestoredShared::new(self.store, beside, self.read, (mark, self.now)))
    }

    /// The records beside base records are there: events are applied. Calls `progress` at times.
    fn add_events<E: From<String>>(
        &mut self,
        progress: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        self.beside.put_in_order();
        let events = self.beside.records().filter(|(field, _)| matches!(field, Field::Event(..)));
        for (place, (field, bytes)) in events.enumerate() {
            apply(&mut self.store, read_field(field, bytes, self.now)?, self.now);
            if place % RECORDS_PER_PROGRESS == RECORDS_PER_PROGRESS - 1 {
                progress()?;
            }
        }
        Ok(())
    }
}

pub(super) fn read_field(field: Field, bytes: &[u8], now: Now) -> Result<Record<'_>, String> {
    record::read(bytes, now).map_err(|error| format!("the record {field:?} is damaged: {error}"))
}

/// Restores a store from these records, and does not finish it: changes follow. O(records).
pub(super) fn restore_unfinished<E: From<String>>(
    records: &BTreeMap<Field, Box<[u8]>>,
    limits: (u64, Option<u64>),
    now: Now,
    progress: &mut dyn FnMut() -> Result<(), E>,
) -> Result<Store, E> {
    let mut note = |_: JobId, _: RecordRole| {};
    let mut restoring = Restoring::new(limits, now, &mut note);
    for bases in [false, true] {
        let fields = records.iter().filter(|(field, _)| field.is_base() == bases);
        for (place, (field, bytes)) in fields.enumerate() {
            restoring.add(*field, bytes)?;
            if place % RECORDS_PER_PROGRESS == RECORDS_PER_PROGRESS - 1 {
                progress()?;
            }
        }
    }
    restoring.add_events(progress)?;
    Ok(restoring.store)
}

/// Restores a store from records that were loaded before. `note` gets the id and the role of each
/// base record. All ids given so far are below `mark`. O(records).
pub(super) fn restore_loaded(
    loaded: &Loaded,
    (mark, seed): (u64, u64),
    now: Now,
    note: &mut dyn FnMut(JobId, RecordRole),
) -> Result<RestoredShared, String> {
    let mut restoring = Restoring::new((seed, None), now, note);
    for bases in [false, true] {
        for (field, bytes) in loaded.records().filter(|(field, _)| field.is_base() == bases) {
            restoring.add(field, bytes)?;
        }
    }
    restoring.finish(mark, &mut || Ok(()))
}

/// For those that add jobs of another server under the ids that they had.
impl Engine {
    /// All ids given so far are below this one. O(1).
    #[must_use]
    pub fn next_id(&self) -> JobId {
        self.store.next_id()
    }

    /// Makes all ids given from now on at least `next`. It is durable with the next put. O(1).
    pub fn skip_ids(&mut self, next: JobId) {
        self.store.skip_ids(next);
    }
}

/// Applies a record, and returns its role in the journal.
pub(super) fn apply(store: &mut Store, record: Record<'_>, now: Now) -> RecordRole {
    let base = match record {
        Record::Job(job) => store.restore(&job, now),
        Record::Worker(id, worker) => store.restore_worker(id, &worker),
        Record::Queue(id, name) => store.restore_queue(id, name),
        Record::Constraint(id, constraint) => store.restore_constraint(id, &constraint, now),
        Record::Pause(id, queue, until) => store.restore_pause(id, queue, until),
        Record::Schedule(id, schedule, state) => {
            store.restore_schedule(id, schedule.into_owned(), state)
        }
        Record::PastKey(id, key) => store.restore_past_key(id, &key),
        Record::PastRun(id, run) => store.restore_past_run(id, run),
        Record::Loss(id, loss) => store.restore_loss(id, loss),
        Record::Deleted(id) => {
            let key = store.undo_restore(id);
            return key.map_or(RecordRole::None, |key| RecordRole::Delete(pack(key)));
        }
        Record::State(id, state) => {
            store.restore_state(id, &state, now);
            return RecordRole::None;
        }
        Record::Event(id, version, event) => {
            store.restore_event(id, version, event);
            return RecordRole::None;
        }
    };
    RecordRole::Base(pack(base))
}

//! Recovery of the store: each journal record is decoded and applied. And the ids that are given
//! out after it.

use super::record_key::pack;
use super::shared::Field;
use super::shared::redis::Loaded;
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
}

impl RestoredShared {
    /// The number of jobs, queues, workers and constraints that were restored.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.store.counts()
    }
}

/// Records that are restored between two calls of `progress`.
const RECORDS_PER_PROGRESS: usize = 20_000;

impl Engine {
    /// Restores a store from the records of a shared sink, for [`Engine::leading`]. All ids given
    /// so far are below `mark`. `progress` is called now and then, and may stop it. O(records).
    ///
    /// # Errors
    /// What is wrong with a record, that the memory does not suffice, or what `progress` returns.
    pub fn restore_shared<E: From<String>>(
        loaded: &Loaded,
        mark: u64,
        (seed, max_memory): (u64, Option<u64>),
        now: Now,
        progress: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<RestoredShared, E> {
        let mut note = |_: JobId, _: RecordRole| {};
        restore_shared(loaded, mark, (seed, max_memory), now, &mut note, progress)
    }
}

/// See [`Engine::restore_shared`]. `note` gets the id and the role of each record.
pub(super) fn restore_shared<E: From<String>>(
    loaded: &Loaded,
    mark: u64,
    (seed, max_memory): (u64, Option<u64>),
    now: Now,
    note: &mut dyn FnMut(JobId, RecordRole),
    progress: &mut dyn FnMut() -> Result<(), E>,
) -> Result<RestoredShared, E> {
    let mut store = Store::new(seed);
    let mut beside = Vec::new();
    let mut records = loaded.records().enumerate().peekable();
    let read = |(field, bytes)| {
        record::read(bytes, now)
            .map_err(|error| E::from(format!("the record {field:?} is damaged: {error}")))
    };
    while let Some((place, (field, bytes))) = records.next() {
        let mut record = read((field, bytes))?;
        // At once in its newest state: its key may have another owner since it was completed,
        // which may be restored before it.
        if let Record::Job(job) = &mut record
            && let Some((_, (state, bytes))) =
                records.next_if(|(_, (next, _))| *next == Field::State(job.id.0))
            && let Record::State(_, newest) = read((state, bytes))?
        {
            job.state = newest;
            beside.push(state);
        }
        let id = record.id();
        note(id, apply(&mut store, record, now));
        if !field.is_base() {
            beside.push(field);
        }
        let too_large = max_memory.and_then(|limit| memory_limit::check_restored(limit, &store));
        if let Some(why) = too_large {
            return Err(E::from(why));
        }
        if place % RECORDS_PER_PROGRESS == RECORDS_PER_PROGRESS - 1 {
            progress()?;
        }
    }
    store.finish_restore(now);
    store.skip_ids(JobId(mark));
    Ok(RestoredShared { store, beside })
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

//! Moves everything that is kept from one sink to another: from a data directory to a shared one,
//! or back. The records are read into a store, and written anew from there.

use super::journal_gate::JournalGate;
use super::record_key::{pack, unpack};
use super::restore::{apply, restore_loaded};
use super::shared::Leader;
use super::shared::redis::Loaded;
use super::sink::Sink;
use super::{Engine, Restored, record};
use crate::base::time::Now;
use crate::journal::disk::{Disk, Files};
use crate::journal::{OpenError, RecordRole, RecoveryProgress, RecoveryReport, read};
use crate::model::id::JobId;
use crate::store::{Counts, DirtyRecord, Effects, Store};
use std::collections::HashMap;

/// The records that are not written yet.
#[derive(Debug, Default)]
pub struct RecordKeys {
    /// Id and record key of each, the lowest id last.
    left: Vec<(u64, u32)>,
}

/// What was read from one sink, for another one.
pub struct Moving {
    store: Store,
    keys: RecordKeys,
}

/// The record key of each id.
#[derive(Default)]
struct Found(HashMap<u64, u32>);

impl Found {
    fn note(&mut self, id: JobId, role: RecordRole) {
        match role {
            RecordRole::Base(key) => {
                self.0.insert(id.0, key);
            }
            RecordRole::Delete(_) => {
                self.0.remove(&id.0);
            }
            RecordRole::None => {}
        }
    }

    fn moving(self, store: Store) -> Moving {
        let is_there = |&(id, key): &(u64, u32)| store.is_record(unpack(key), JobId(id));
        let mut left: Vec<(u64, u32)> = self.0.into_iter().filter(is_there).collect();
        left.sort_unstable_by(|one, other| other.cmp(one));
        debug_assert!(left.iter().all(|&(_, key)| pack(unpack(key)) == key), "a key is not itself");
        Moving { store, keys: RecordKeys { left } }
    }
}

impl RecordKeys {
    /// How many records are left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.left.len()
    }

    /// Whether none is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }
}

impl Moving {
    /// Reads a data directory, and changes nothing there. `seed` is entropy for the store's hashes.
    /// O(bytes of the journal).
    ///
    /// # Errors
    /// If the journal cannot be read, or a record cannot be decoded.
    pub fn from_journal(
        files: &mut dyn Files,
        seed: u64,
        now: Now,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<(Self, RecoveryReport), OpenError> {
        let (mut store, mut found) = (Store::new(seed), Found::default());
        let mut visit = |bytes: &[u8], _| {
            let record = record::read(bytes, now).map_err(|error| error.to_string())?;
            let id = record.id();
            found.note(id, apply(&mut store, record, now));
            Ok(())
        };
        let report = read(files, &mut visit, progress)?;
        store.finish_restore(now);
        store.skip_ids(JobId(report.high_id));
        Ok((found.moving(store), report))
    }

    /// Takes the records of a shared sink. All ids given so far are below `mark`. O(records).
    ///
    /// # Errors
    /// What is wrong with a record: a sentence.
    pub fn from_shared(loaded: &Loaded, mark: u64, seed: u64, now: Now) -> Result<Self, String> {
        let mut found = Found::default();
        let mut note = |id, role| found.note(id, role);
        let restored = restore_loaded(loaded, (mark, seed), now, &mut note)?;
        Ok(found.moving(restored.store))
    }

    /// The number of jobs, queues, workers and constraints.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.store.counts()
    }

    /// An engine that writes them to an empty shared sink: see [`Engine::write_records`].
    #[must_use]
    pub fn into_shared(self, leader: Leader) -> (Engine, RecordKeys) {
        self.over(Sink::Shared(Box::new(leader)))
    }

    /// An engine that writes them to the journal of an empty directory, of which `empty` was
    /// restored.
    #[must_use]
    pub fn into_journal(
        self,
        empty: Restored,
        disk: Box<dyn Disk>,
        now: Now,
    ) -> (Engine, RecordKeys) {
        self.over(Sink::Journal(empty.recovered.start(disk, now)))
    }

    fn over(self, sink: Sink) -> (Engine, RecordKeys) {
        let engine = Engine {
            store: self.store,
            effects: Effects::with_changes(),
            journal: Some(Box::new(JournalGate::new(sink))),
            ..Engine::in_memory(0)
        };
        (engine, self.keys)
    }
}

impl Engine {
    /// Writes records that are not in the sink, the lowest ids first, as many as a pass may.
    /// [`super::CommandExecutor::commit`] is to follow.
    ///
    /// # Errors
    /// The sink has no room for them: a sentence.
    pub fn write_records(&mut self, keys: &mut RecordKeys, now: Now) -> Result<(), String> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        while !keys.is_empty() {
            match journal.bulk_capacity() {
                (0, true) => return Err("there is no room for all records".to_owned()),
                (0, false) => break,
                _ => {}
            }
            let Some((id, key)) = keys.left.pop() else { break };
            self.effects.changes.push(DirtyRecord::Put(unpack(key), JobId(id)));
            journal.write_changes(false, &self.store, &mut self.effects, now);
        }
        Ok(())
    }
}

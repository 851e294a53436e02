//! A server that follows a leader which offers its lead: it copies all records while they change,
//! restores a store from the copy, and applies to it what has changed since, so that it can lead as
//! soon as the leader ends.
//!
//! Invariants:
//! - the copy has each record that was read or told of, as it was at the last write that is known;
//!   once all were read, it has all records as they were at that write;
//! - the store is the copy at that moment and all changes since, in their order, as a journal has
//!   them.

use super::restore::{RestoredShared, apply, read_field, restore_unfinished};
use super::shared::redis::{
    Calls, FollowAnswer, FollowStage, PARTS_PER_RENEWAL, PartSize, Requests, StartError, read_part,
};
use super::shared::{Begin, Change, Field};
use crate::base::time::Now;
use crate::model::id::JobId;
use crate::model::snapshot::Record;
use crate::store::Store;
use std::collections::{BTreeMap, BTreeSet};

/// What a step has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This server has to begin anew, or another one follows.
    Lost,
    /// There is more to be read.
    Behind,
    /// It has everything up to the last write, and can lead once no server leads.
    Current {
        /// For how many milliseconds the leader leads still.
        led_ms: u64,
    },
}

/// Sends this request, if the last one is long ago: so that the leader knows of this server.
type Renew<'a> = &'a mut dyn FnMut(&mut dyn Calls, &[u8]) -> Result<(), StartError>;

enum Stage {
    Begin,
    /// The next part: whether it is of base records, and its cursor. `None`: all were read.
    Copy {
        copy: RecordCopy,
        next: Option<(bool, Vec<u8>)>,
        size: PartSize,
        /// Parts that may be read before it is asked for changes once more.
        left: usize,
    },
    /// The store, and the fields beside base records.
    Apply {
        store: Box<Store>,
        beside: BTreeSet<Field>,
        is_ready: bool,
    },
}

/// The server that follows.
pub struct Follower {
    birth: Vec<u8>,
    limits: (u64, Option<u64>),
    /// The last write that is known.
    seq: u64,
    stage: Stage,
    /// Records that were read, and their bytes.
    read: (usize, usize),
}

impl Follower {
    /// Begins. `birth`: of the jobs that are followed; `limits`: see
    /// [`Engine::load_shared`](super::Engine::load_shared).
    #[must_use]
    pub fn new(birth: &[u8], limits: (u64, Option<u64>)) -> Self {
        Self { birth: birth.to_vec(), limits, seq: 0, stage: Stage::Begin, read: (0, 0) }
    }

    /// Asks once, and takes what is answered. After the last record all are restored, which takes
    /// time: `renew` is called meanwhile. O(bytes of the answer), and once O(records log records).
    ///
    /// # Errors
    /// See [`StartError`]; what is wrong with a record, and that the memory does not suffice, too.
    pub fn step(
        &mut self,
        calls: &mut dyn Calls,
        requests: &Requests,
        now: Now,
        renew: Renew<'_>,
    ) -> Result<Step, StartError> {
        if self.read_part(calls, requests)? {
            return Ok(Step::Behind);
        }
        let stage = match &self.stage {
            Stage::Begin => FollowStage::Begin,
            Stage::Copy { .. } | Stage::Apply { is_ready: false, .. } => FollowStage::GoOn,
            Stage::Apply { .. } => FollowStage::Ready,
        };
        let was_ready = stage == FollowStage::Ready;
        let request = requests.follow(&self.birth, stage, self.seq);
        let Some(answer) = FollowAnswer::ask(calls, &request)? else { return Ok(Step::Lost) };
        self.take(&answer, now)?;
        if self.seq < answer.newest {
            return Ok(Step::Behind);
        }
        match &mut self.stage {
            Stage::Copy { copy, next: None, .. } => {
                let copy = std::mem::take(copy);
                let request = requests.follow(&self.birth, FollowStage::GoOn, self.seq);
                let mut progress = || renew(calls, &request);
                let store = restore_unfinished(&copy.0, self.limits, now, &mut progress)?;
                let beside = copy.0.into_keys().filter(|field| !field.is_base()).collect();
                self.stage = Stage::Apply { store: Box::new(store), beside, is_ready: false };
            }
            Stage::Apply { is_ready, .. } => *is_ready = true,
            Stage::Begin | Stage::Copy { .. } => {}
        }
        Ok(if was_ready { Step::Current { led_ms: answer.led_ms } } else { Step::Behind })
    }

    /// Reads a part of the records, if that is next. Changes that it has already may come later, in
    /// their order: what is known at the end is the same.
    fn read_part(
        &mut self,
        calls: &mut dyn Calls,
        requests: &Requests,
    ) -> Result<bool, StartError> {
        let Stage::Copy { copy, next, size, left } = &mut self.stage else { return Ok(false) };
        let (Some((bases, cursor)), 1..) = (&*next, *left) else { return Ok(false) };
        *left -= 1;
        let (bases, read) = (*bases, &mut self.read);
        let cursor = read_part(calls, requests, (bases, cursor, size), &mut |field, record| {
            *read = (read.0 + 1, read.1 + record.len());
            copy.0.insert(field, record.into());
            Ok(())
        })?;
        *next = match (&cursor[..], bases) {
            (b"0", false) => Some((true, cursor)),
            (b"0", true) => None,
            _ => Some((bases, cursor)),
        };
        Ok(true)
    }

    fn take(&mut self, answer: &FollowAnswer, now: Now) -> Result<(), StartError> {
        match &mut self.stage {
            Stage::Begin => {
                let (copy, next) = (RecordCopy::default(), Some((false, b"0".to_vec())));
                let (size, left) = (PartSize::default(), PARTS_PER_RENEWAL);
                self.stage = Stage::Copy { copy, next, size, left };
            }
            Stage::Copy { copy, left, .. } => {
                *left = PARTS_PER_RENEWAL;
                answer.changes(&mut |change| {
                    copy.change(change);
                    Ok(())
                })?;
            }
            Stage::Apply { store, beside, .. } => {
                answer.changes(&mut |change| change_store(store, beside, change, now))?;
            }
        }
        debug_assert!(self.seq <= answer.seq, "what is known is not forgotten");
        self.seq = answer.seq;
        Ok(())
    }

    /// This server leads now. `None`: there was a write of which it does not know, so everything
    /// has to be read.
    #[must_use]
    pub fn finish(self, begin: &Begin, now: Now) -> Option<RestoredShared> {
        let Stage::Apply { store, beside, .. } = self.stage else { return None };
        if begin.seq != self.seq || begin.birth != self.birth {
            return None;
        }
        let beside = beside.into_iter().collect();
        Some(RestoredShared::new(*store, beside, self.read, (begin.mark, now)))
    }
}

/// All fields beside the base record with this id.
fn events(id: u64) -> std::ops::RangeInclusive<Field> {
    Field::Event(id, 0)..=Field::Event(id, u32::MAX)
}

/// Records as they are at the last write that is known.
#[derive(Default)]
struct RecordCopy(BTreeMap<Field, Box<[u8]>>);

impl RecordCopy {
    fn change(&mut self, change: Change<'_>) {
        match change {
            Change::Set(field, record) => {
                if let Field::Base(id) = field {
                    self.remove_beside(id);
                }
                self.0.insert(field, record.into());
            }
            Change::Gone(id) => {
                self.remove_beside(id);
                self.0.remove(&Field::Base(id));
            }
        }
    }

    fn remove_beside(&mut self, id: u64) {
        self.0.remove(&Field::State(id));
        let events: Vec<Field> = self.0.range(events(id)).map(|(field, _)| *field).collect();
        for field in events {
            self.0.remove(&field);
        }
    }
}

/// Applies a change as a journal is recovered: each record over what was there.
fn change_store(
    store: &mut Store,
    beside: &mut BTreeSet<Field>,
    change: Change<'_>,
    now: Now,
) -> Result<(), StartError> {
    let (field, record) = match change {
        Change::Set(field, bytes) => (field, read_field(field, bytes, now)?),
        Change::Gone(id) => (Field::Base(id), Record::Deleted(JobId(id))),
    };
    if let Field::Base(id) = field {
        beside.remove(&Field::State(id));
        let events: Vec<Field> = beside.range(events(id)).copied().collect();
        for field in events {
            beside.remove(&field);
        }
    } else {
        beside.insert(field);
    }
    apply(store, record, now);
    Ok(())
}

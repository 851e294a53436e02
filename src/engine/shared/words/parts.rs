//! The table of what commands and replies consist of, and what is checked of it.

use super::error::WordsError;
use super::value::{Read, Reader, Word, Writer, newtype, record, union};
use crate::base::limits::JOB_ID_END;
use crate::base::slab::SlabKey;
use crate::base::strings::StringList;
use crate::base::time::Wall;
use crate::model::event::{Event, EventKind, EventLog};
use crate::model::external_id::Fraction;
use crate::model::flow::Rates;
use crate::model::id::{JobId, Ticket};
use crate::model::job::{
    Encoding, JobOptions, LeaseEpoch, LeaseToken, OwnedPriority, Packet, Payload, Priority, Retry,
    Status, StoredPayload,
};
use crate::model::job_state::JobStates;
use crate::model::manage::{
    BlockedBy, ErrorDetails, JobCursor, JobDetails, JobState, JobTerms, LeaseDetails, ListKey,
    NewDependencies, NewJob, NewKey, OnDuplicate, PastEvent,
};
use crate::model::row::{Row, Rows};
use crate::model::schedule::{Schedule, Timing};
use crate::model::worker::{
    Compare, Condition, Constraint, OwnedWorker, Path, Rate, Scalar, Worker, WorkerId,
};
use std::sync::Arc;

newtype!(Wall, WorkerId, LeaseEpoch, LeaseToken, Rates);

union! {
    Encoding { 0 Json, 1 JsonLine, 2 MsgPack, 3 Packet { key_len }, 4 Bytes }
    Status {
        0 Ready, 1 Blocked, 2 GroupOnly, 3 Delayed, 4 Reserved, 5 Completed, 6 Buried, 7 Popped,
    }
    JobState { 0 Scheduled, 1 Ready, 2 Blocked, 3 Reserved, 4 Buried, 5 Completed }
    OnDuplicate { 0 Keep, 1 Replace, 2 Reject }
    BlockedBy { 0 Constraint(name), 1 Dependency }
    JobCursor { 0 Start, 1 Ordered(key, shown), 2 ById(id, key) }
    Timing { 0 Cron(text), 1 EveryMs(ms) }
    EventKind {
        0 Created, 1 Advanced { old, new }, 2 User(text), 3 Reserved { by }, 4 Aborted,
        5 Abandoned, 6 Expired, 7 Failed, 8 Retried, 9 Finished, 10 Buried, 11 Kicked, 12 Due,
        13 Changed,
    }
    Path { 0 Name, 1 Argument(keys) }
    Scalar { 0 Nil, 1 Bool(value), 2 Integer(number), 3 Float(bits), 4 Text(text) }
    Compare { 0 Equal, 1 NotEqual, 2 Less, 3 LessOrEqual, 4 Greater, 5 GreaterOrEqual, 6 In }
}

record! {
    SlabKey { index, generation }
    Ticket { client, serial }
    JobOptions {
        delay_ms, ttl_ms, lease_ms, retry, result_retention_ms, dead_retention_ms, tracked,
        result_once, max_attempts,
    }
    NewJob { priority, encoding, payload, options, key, dependencies }
    NewKey { bytes, ttl_ms, on_duplicate }
    NewDependencies { after, group, after_group, runs_if_lost }
    JobDetails {
        id, queue, state, priority, encoding, payload, created_at, available_at, expires_at,
        attempts, max_attempts, lease, last_error, progress, progress_message, result, key, group,
        after, blocked_by, terms,
    }
    JobTerms { options, key_ttl_ms, after_group, runs_if_lost, retries, kept_until, history }
    PastEvent { event, at }
    ErrorDetails { error, message, at }
    ListKey { rank, digits, tie }
    Schedule {
        name, timing, timezone, queue, job, job_text, skips_overlap, skips_missed, paused,
    }
    Event { kind, at }
    Row { id, version, queue, priority, encoding, payload, state, events, modified }
    Constraint { name, matcher, max_running, rate, per }
    Condition { path, op, values }
    Rate { count, period_ms, burst }
}

impl<'a> Word<'a> for JobId {
    fn put(&self, w: &mut Writer<'_>) {
        w.number(self.0);
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        match r.number()? {
            id @ 0..JOB_ID_END => Ok(Self(id)),
            _ => Err(WordsError::Malformed),
        }
    }
}

impl<'a> Word<'a> for Priority<'a> {
    fn put(&self, w: &mut Writer<'_>) {
        match self {
            Priority::Small(number) => {
                w.out.push(0);
                number.put(w);
            }
            Priority::Big(digits) => {
                w.out.push(1);
                digits.put(w);
            }
            Priority::Unselected => w.out.push(2),
        }
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        let priority = match r.byte()? {
            0 => Priority::Small(Word::get(r)?),
            1 => Priority::Big(r.text()?),
            2 => Priority::Unselected,
            tag => return Err(WordsError::UnknownTag(tag)),
        };
        let is_well_formed = match priority {
            Priority::Small(number) => number != i64::MIN && number != i64::MAX,
            Priority::Big(digits) => Priority::are_big(digits),
            Priority::Unselected => true,
        };
        if is_well_formed { Ok(priority) } else { Err(WordsError::Malformed) }
    }
}

impl<'a> Word<'a> for OwnedPriority {
    fn put(&self, w: &mut Writer<'_>) {
        self.view().put(w);
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        Priority::get(r).map(Into::into)
    }
}

impl<'a> Word<'a> for Payload<'a> {
    fn put(&self, w: &mut Writer<'_>) {
        let Self { encoding, bytes } = self;
        encoding.put(w);
        bytes.put(w);
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        let payload = Self { encoding: Word::get(r)?, bytes: Word::get(r)? };
        let key_len = usize::from(payload.encoding.key_len());
        if key_len > payload.bytes.len() { Err(WordsError::Malformed) } else { Ok(payload) }
    }
}

impl<'a> Word<'a> for Packet {
    fn put(&self, w: &mut Writer<'_>) {
        let Self { key_len, bytes } = self;
        key_len.put(w);
        w.out.extend_from_slice(&bytes.prefix());
        w.bytes(bytes.bytes());
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        let key_len = u16::get(r)?;
        let (prefix, rest) = r.rest.split_first_chunk().ok_or(WordsError::Malformed)?;
        r.rest = rest;
        let bytes = r.bytes()?;
        if usize::from(key_len) > bytes.len() {
            return Err(WordsError::Malformed);
        }
        Ok(Self { key_len, bytes: StoredPayload::new(*prefix, bytes) })
    }
}

impl<'a> Word<'a> for Retry {
    fn put(&self, w: &mut Writer<'_>) {
        let Self { limit, first_ms, factor, max_ms, jitter_percent } = self;
        (*limit, *first_ms).put(w);
        (*factor, *max_ms).put(w);
        w.out.push(*jitter_percent);
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        let ((limit, first_ms), (factor, max_ms)) = Word::get(r)?;
        Ok(Self { limit, first_ms, factor, max_ms, jitter_percent: r.byte()?.min(100) })
    }
}

impl<'a> Word<'a> for Fraction {
    fn put(&self, w: &mut Writer<'_>) {
        w.out.extend_from_slice(&self.value().to_le_bytes());
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        let (bits, rest) = r.rest.split_first_chunk().ok_or(WordsError::Malformed)?;
        r.rest = rest;
        Self::new(f64::from_le_bytes(*bits)).ok_or(WordsError::Malformed)
    }
}

impl<'a> Word<'a> for JobStates {
    fn put(&self, w: &mut Writer<'_>) {
        for state in JobState::ALL {
            self.contains(state).put(w);
        }
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        let mut states = Self::default();
        for state in JobState::ALL {
            if bool::get(r)? {
                states = states.with(state);
            }
        }
        Ok(states)
    }
}

impl<'a> Word<'a> for OwnedWorker {
    fn put(&self, w: &mut Writer<'_>) {
        self.id.put(w);
        let Worker { name, url, max_jobs, queues } = self.view();
        w.bytes(name.as_bytes());
        w.bytes(url.as_bytes());
        max_jobs.put(w);
        queues.is_some().put(w);
        if let Some(queues) = queues {
            queues.from(0).put(w);
        }
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        let id = WorkerId::get(r)?;
        let (name, url, max_jobs) = (r.text()?, r.text()?, u32::get(r)?);
        let queues: Option<StringList> = Word::get(r)?;
        Ok(Self::new(id, &Worker { name, url, max_jobs, queues: queues.as_ref() }))
    }
}

impl<'a> Word<'a> for EventLog {
    fn put(&self, w: &mut Writer<'_>) {
        w.number(self.len() as u64);
        self.oldest_first().into_iter().for_each(|event| event.put(w));
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        let mut log = Self::default();
        for _ in 0..r.count()? {
            log = log.with(Word::get(r)?);
        }
        Ok(log)
    }
}

impl<'a> Word<'a> for Rows {
    fn put(&self, w: &mut Writer<'_>) {
        w.number(self.len() as u64);
        self.values().for_each(|row| row.put(w));
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        let mut rows = Self::new();
        for _ in 0..r.count()? {
            let row: Arc<Row> = Word::get(r)?;
            rows.insert(row.key(), row);
        }
        Ok(rows)
    }
}

/// The fixed texts of replies: states, verbs, who holds a lease, and why there is no backup.
const FIXED: [&str; 17] = [
    "ready",
    "delayed",
    "reserved",
    "buried",
    "delete",
    "kick",
    "bury",
    "move",
    "change",
    "drop",
    "worker",
    "connection",
    "http",
    "another backup is being made: wait until it has ended",
    "this client makes no backup",
    "this server makes no backups",
    "the server keeps its jobs in memory only: start it with --data",
];

/// Writes one of [`FIXED`].
pub(super) fn put_fixed(text: &'static str, w: &mut Writer<'_>) {
    w.bytes(text.as_bytes());
}

/// Reads one of [`FIXED`]; another text, of a newer server, becomes `other`.
pub(super) fn get_fixed(r: &mut Reader<'_>) -> Read<&'static str> {
    let text = r.text()?;
    Ok(FIXED.into_iter().find(|fixed| *fixed == text).unwrap_or("other"))
}

/// A structure whose first field is a fixed text.
macro_rules! fixed_record {
    ($($type:ty { $fixed:ident; $($field:ident),* $(,)? })*) => { $(
        impl<'a> Word<'a> for $type {
            fn put(&self, w: &mut Writer<'_>) {
                let Self { $fixed, $($field),* } = self;
                put_fixed($fixed, w);
                $($field.put(w);)*
            }
            fn get(r: &mut Reader<'a>) -> Read<Self> {
                Ok(Self { $fixed: get_fixed(r)?, $($field: Word::get(r)?),* })
            }
        }
    )* };
}
pub(super) use fixed_record;

fixed_record! {
    LeaseDetails { protocol; worker, since, until, token }
}

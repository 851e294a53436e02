//! Decoding of records.

use super::{
    ANY_BYTES, BURIED, BURIED_NUMBERED, BURIED_NUMBERED_UNTIL, BURIED_UNTIL, COMPLETED, CONSTRAINT,
    DELAYED, DELETED, DIGITS, ENCODING_SHIFT, EVENT, EXPIRES, HAS_COMPLETED_BY, HAS_ERROR,
    HAS_MAX_ATTEMPTS, HAS_MESSAGE, HAS_OPTIONS, HAS_PROGRESS, HAS_PROGRESS_MESSAGE, HAS_RETRY,
    HAS_RUNS, HAS_STATE, INITIAL_STATE, JOB, JOB_WITH_DEPENDENCIES, JOB_WITH_EXTERNAL_ID,
    JOB_WITH_HISTORY, JOB_WITH_KEY, JOB_WITH_TIME, JSON, JSON_LINE, LEASED, LIFO, LOSS, MSGPACK,
    PACKET, PAST_KEY, PAST_RUN, PAUSE, QUEUE, RESULT_ONCE, RUNNING, RUNNING_UNTIL, SCHEDULE, STATE,
    TRACKED, UNSELECTED, WAITING, WORKER,
};
use crate::base::limits::JOB_ID_END;
use crate::base::time::{Mono, Now, Wall};
use crate::model::external_id::Fraction;
use crate::model::id::JobId;
use crate::model::job::{
    Encoding, JobOptions, LeaseEpoch, LeaseToken, Payload, Priority, Retry, TieBreak,
};
use crate::model::snapshot::{
    PersistedKey, PersistedLoss, PersistedRun, PersistedStatus, PersistedWorker, Record,
    RunHistory, Snapshot, StatusSnapshot,
};
use crate::model::worker::WorkerId;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The bytes are not a record: the offset in bytes at which decoding failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct MalformedRecord {
    pub(super) at: usize,
}

impl fmt::Display for MalformedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} of a record makes no sense", self.at)
    }
}

/// Reads values from the front of a record.
pub(super) struct RecordReader<'a> {
    rest: &'a [u8],
    total_bytes: usize,
    now: Now,
}

pub(super) type Read<T> = Result<T, MalformedRecord>;

impl<'a> RecordReader<'a> {
    pub(super) fn malformed<T>(&self) -> Read<T> {
        Err(MalformedRecord { at: self.total_bytes - self.rest.len() })
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Read<u8> {
        let Some((&first, rest)) = self.rest.split_first() else { return self.malformed() };
        self.rest = rest;
        Ok(first)
    }

    #[inline]
    pub(super) fn number(&mut self) -> Read<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return self.malformed();
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        self.malformed()
    }

    pub(super) fn narrow_number<T: TryFrom<u64>>(&mut self) -> Read<T> {
        let number = self.number()?;
        T::try_from(number).or_else(|_| self.malformed())
    }

    #[inline]
    pub(super) fn byte_string(&mut self) -> Read<&'a [u8]> {
        let length: usize = self.narrow_number()?;
        if length > self.rest.len() {
            return self.malformed();
        }
        let (text, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(text)
    }

    fn timestamp(&mut self) -> Read<Mono> {
        let ahead = self.number()?.saturating_sub(self.now.wall.0);
        Ok(self.now.mono.after(Duration::from_millis(ahead)))
    }

    #[inline]
    pub(super) fn payload(&mut self, code: u8) -> Read<Payload<'a>> {
        let encoding = match code {
            JSON => Encoding::Json,
            JSON_LINE => Encoding::JsonLine,
            PACKET => match self.number()? {
                ANY_BYTES => Encoding::Bytes,
                key_len => match u16::try_from(key_len) {
                    Ok(key_len) => Encoding::Packet { key_len },
                    Err(_) => return self.malformed(),
                },
            },
            MSGPACK => Encoding::MsgPack,
            _ => return self.malformed(),
        };
        let bytes = self.byte_string()?;
        if let Encoding::Packet { key_len } = encoding
            && usize::from(key_len) > bytes.len()
        {
            return self.malformed();
        }
        Ok(Payload { encoding, bytes })
    }

    pub(super) fn options(&mut self) -> Read<JobOptions> {
        let mut options = JobOptions {
            lease_ms: self.number()?,
            result_retention_ms: self.number()?,
            dead_retention_ms: self.number()?,
            ..JobOptions::default()
        };
        let flags = self.byte()?;
        if flags & !(HAS_RETRY | TRACKED | RESULT_ONCE | HAS_MAX_ATTEMPTS) != 0 {
            return self.malformed();
        }
        (options.tracked, options.result_once) = (flags & TRACKED != 0, flags & RESULT_ONCE != 0);
        if flags & HAS_RETRY != 0 {
            options.retry = Some(Retry {
                limit: self.narrow_number()?,
                first_ms: self.number()?,
                factor: self.narrow_number()?,
                max_ms: self.number()?,
                jitter_percent: self.byte()?,
            });
        }
        if flags & HAS_MAX_ATTEMPTS != 0 {
            options.max_attempts = self.narrow_number()?;
        }
        Ok(options)
    }

    fn state(&mut self) -> Read<StatusSnapshot<'a>> {
        let stage = match self.byte()? {
            WAITING => PersistedStatus::Waiting,
            DELAYED => PersistedStatus::Delayed(self.timestamp()?),
            COMPLETED => PersistedStatus::Completed(self.timestamp()?),
            code @ (BURIED | BURIED_UNTIL | BURIED_NUMBERED | BURIED_NUMBERED_UNTIL) => {
                let numbered = matches!(code, BURIED_NUMBERED | BURIED_NUMBERED_UNTIL);
                let number = if numbered { self.narrow_number()? } else { 0 };
                let ends = matches!(code, BURIED_UNTIL | BURIED_NUMBERED_UNTIL);
                let until = if ends { Some(self.timestamp()?) } else { None };
                PersistedStatus::Buried { number, until }
            }
            code @ (RUNNING | RUNNING_UNTIL) => {
                let worker = WorkerId(self.id()?.0);
                let lease = LeaseEpoch(self.narrow_number()?);
                let until = if code == RUNNING { None } else { Some(self.timestamp()?) };
                PersistedStatus::Running { worker, until, lease }
            }
            LEASED => {
                let (token, since) = (self.token()?, Wall(self.number()?));
                let worker = self.utf8()?;
                PersistedStatus::Leased { token, since, worker, until: self.timestamp()? }
            }
            _ => return self.malformed(),
        };
        let retries = self.narrow_number()?;
        let flags = self.byte()?;
        let result = match flags & !(HAS_MESSAGE | HAS_PROGRESS | HAS_RUNS) {
            0 => None,
            code => Some(self.payload(code - 1)?),
        };
        let message = if flags & HAS_MESSAGE == 0 { None } else { Some(self.utf8()?) };
        let progress = if flags & HAS_PROGRESS == 0 { None } else { Some(self.fraction()?) };
        let runs = if flags & HAS_RUNS == 0 { None } else { Some(self.runs()?) };
        Ok(StatusSnapshot { stage, retries, result, message, progress, runs })
    }

    fn runs(&mut self) -> Read<RunHistory<'a>> {
        let attempts = self.narrow_number()?;
        let flags = self.byte()?;
        if flags & !(HAS_ERROR | HAS_PROGRESS_MESSAGE | HAS_COMPLETED_BY) != 0 {
            return self.malformed();
        }
        let has = |flag: u8| flags & flag != 0;
        let error = if has(HAS_ERROR) {
            Some((self.utf8()?, self.utf8()?, Wall(self.number()?)))
        } else {
            None
        };
        let progress_message = if has(HAS_PROGRESS_MESSAGE) { Some(self.utf8()?) } else { None };
        let completed_by = if has(HAS_COMPLETED_BY) { Some(self.token()?) } else { None };
        Ok(RunHistory { attempts, error, progress_message, completed_by })
    }

    fn seconds(&mut self) -> Read<u32> {
        let Some((bytes, rest)) = self.rest.split_first_chunk() else { return self.malformed() };
        self.rest = rest;
        Ok(u32::from_le_bytes(*bytes))
    }

    fn token(&mut self) -> Read<LeaseToken> {
        let Some((bits, rest)) = self.rest.split_first_chunk() else { return self.malformed() };
        self.rest = rest;
        Ok(LeaseToken(u64::from_le_bytes(*bits)))
    }

    fn fraction(&mut self) -> Read<Fraction> {
        let Some((bits, rest)) = self.rest.split_first_chunk() else { return self.malformed() };
        let Some(portion) = Fraction::new(f64::from_le_bytes(*bits)) else {
            return self.malformed();
        };
        self.rest = rest;
        Ok(portion)
    }

    pub(super) fn utf8(&mut self) -> Read<&'a str> {
        match std::str::from_utf8(self.byte_string()?) {
            Ok(words) => Ok(words),
            Err(_) => self.malformed(),
        }
    }

    fn worker(&mut self) -> Read<PersistedWorker<'a>> {
        let (name, url) = (self.utf8()?, self.utf8()?);
        let max_jobs = self.narrow_number()?;
        let queues = match self.number()? {
            0 => None,
            count => {
                // Without preallocation: the count may be any number.
                let mut queues = Vec::new();
                for _ in 1..count {
                    queues.push(self.byte_string()?);
                }
                Some(queues)
            }
        };
        Ok(PersistedWorker { name, url, max_jobs, queues })
    }

    pub(super) fn priority(&mut self, code: u8) -> Read<Priority<'a>> {
        Ok(match code {
            0 => {
                let number = self.number()?;
                let number = (number >> 1).cast_signed() ^ -(number & 1).cast_signed();
                if number == i64::MIN || number == i64::MAX {
                    return self.malformed();
                }
                Priority::Small(number)
            }
            DIGITS => match std::str::from_utf8(self.byte_string()?) {
                Ok(digits) if Priority::are_big(digits) => Priority::Big(digits),
                _ => return self.malformed(),
            },
            UNSELECTED => Priority::Unselected,
            _ => return self.malformed(),
        })
    }

    pub(super) fn id(&mut self) -> Read<JobId> {
        match self.number()? {
            id @ 1..JOB_ID_END => Ok(JobId(id)),
            _ => self.malformed(),
        }
    }

    fn job(&mut self) -> Read<Snapshot<'a>> {
        let id = self.id()?;
        let flags = self.byte()?;
        let queue = self.byte_string()?;
        let priority = self.priority(flags & 3)?;
        let payload = self.payload(flags >> ENCODING_SHIFT & 3)?;
        let tie_break = if flags & LIFO == 0 { TieBreak::Fifo } else { TieBreak::Lifo };
        let options = if flags & HAS_OPTIONS == 0 { None } else { Some(self.options()?) };
        let expires = if flags & EXPIRES == 0 { None } else { Some(self.timestamp()?) };
        let state = if flags & HAS_STATE == 0 { INITIAL_STATE } else { self.state()? };
        let (history, name, key, dependencies) = (None, None, None, None);
        Ok(Snapshot {
            id,
            queue,
            priority,
            tie_break,
            payload,
            created: None,
            options,
            expires,
            state,
            history,
            name,
            key,
            dependencies,
        })
    }

    /// A job, with its dependencies, key, external id and history if the kind says so; each kind
    /// stands once, and in this order.
    fn any_job(&mut self, kind: u8) -> Read<Snapshot<'a>> {
        if kind == JOB_WITH_DEPENDENCIES {
            let dependencies = Some(Box::new(self.dependencies()?));
            return match self.byte()? {
                kind @ (JOB | JOB_WITH_TIME | JOB_WITH_HISTORY | JOB_WITH_EXTERNAL_ID
                | JOB_WITH_KEY) => Ok(Snapshot { dependencies, ..self.any_job(kind)? }),
                _ => self.malformed(),
            };
        }
        if kind == JOB_WITH_KEY {
            let key = Some((self.byte_string()?, self.number()?));
            return match self.byte()? {
                kind @ (JOB | JOB_WITH_TIME | JOB_WITH_HISTORY | JOB_WITH_EXTERNAL_ID) => {
                    Ok(Snapshot { key, ..self.any_job(kind)? })
                }
                _ => self.malformed(),
            };
        }
        if kind == JOB_WITH_EXTERNAL_ID {
            let name = Some(self.byte_string()?);
            return match self.byte()? {
                kind @ (JOB | JOB_WITH_TIME | JOB_WITH_HISTORY) => {
                    Ok(Snapshot { name, ..self.any_job(kind)? })
                }
                _ => self.malformed(),
            };
        }
        let created = if kind == JOB_WITH_TIME { Some(self.seconds()?) } else { None };
        let job = self.job()?;
        let history = if kind == JOB_WITH_HISTORY { Some(self.history()?) } else { None };
        Ok(Snapshot { created, history, ..job })
    }
}

/// Decodes a record. O(bytes), but byte strings are borrowed.
///
/// # Errors
/// The offset at which the bytes are malformed.
#[inline]
pub(in crate::engine) fn read(bytes: &[u8], now: Now) -> Result<Record<'_>, MalformedRecord> {
    let mut reader = RecordReader { rest: bytes, total_bytes: bytes.len(), now };
    let record = match reader.byte()? {
        kind @ (JOB | JOB_WITH_TIME | JOB_WITH_HISTORY) => Record::Job(reader.any_job(kind)?),
        kind @ (JOB_WITH_EXTERNAL_ID | JOB_WITH_KEY | JOB_WITH_DEPENDENCIES) => {
            Record::Job(reader.any_job(kind)?)
        }
        LOSS => {
            let (id, job, below) = (reader.id()?, reader.id()?, reader.id()?);
            Record::Loss(id, PersistedLoss { job, below })
        }
        PAST_KEY => {
            let (id, queue, bytes) = (reader.id()?, reader.byte_string()?, reader.byte_string()?);
            let (job, until) = (reader.id()?, reader.timestamp()?);
            Record::PastKey(id, PersistedKey { queue, bytes, job, until })
        }
        PAST_RUN => {
            let (id, job, token) = (reader.id()?, reader.id()?, reader.token()?);
            Record::PastRun(id, PersistedRun { job, token, until: reader.timestamp()? })
        }
        STATE => Record::State(reader.id()?, reader.state()?),
        DELETED => Record::Deleted(reader.id()?),
        EVENT => Record::Event(reader.id()?, reader.number()?, reader.event(&Arc::default())?),
        QUEUE => Record::Queue(reader.id()?, reader.byte_string()?),
        WORKER => Record::Worker(WorkerId(reader.id()?.0), reader.worker()?),
        PAUSE => {
            let (id, queue) = (reader.id()?, reader.byte_string()?);
            let until = match reader.byte()? {
                0 => None,
                1 => Some(reader.timestamp()?),
                _ => return reader.malformed(),
            };
            Record::Pause(id, queue, until)
        }
        SCHEDULE => {
            let id = reader.id()?;
            let (schedule, state) = reader.schedule()?;
            Record::Schedule(id, Cow::Owned(schedule), state)
        }
        CONSTRAINT => {
            let id = reader.id()?;
            Record::Constraint(id, Cow::Owned(reader.constraint()?))
        }
        _ => return Err(MalformedRecord { at: 0 }),
    };
    if reader.rest.is_empty() { Ok(record) } else { reader.malformed() }
}

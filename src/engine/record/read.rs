//! Decoding of records.

use super::{
    BURIED, BURIED_UNTIL, COMPLETED, CONSTRAINT, DELAYED, DELETED, DIGITS, ENCODING_SHIFT, EVENT,
    EXPIRES, HAS_MESSAGE, HAS_OPTIONS, HAS_PROGRESS, HAS_RETRY, HAS_STATE, INITIAL_STATE, JOB,
    JOB_WITH_EXTERNAL_ID, JOB_WITH_HISTORY, JSON, JSON_LINE, LIFO, MSGPACK, PACKET, QUEUE,
    RESULT_ONCE, RUNNING, RUNNING_UNTIL, STATE, TRACKED, UNSELECTED, WAITING, WORKER,
};
use crate::base::limits::JOB_ID_END;
use crate::base::time::{Mono, Now};
use crate::model::external_id::Fraction;
use crate::model::id::JobId;
use crate::model::job::{Encoding, JobOptions, LeaseEpoch, Payload, Priority, Retry, TieBreak};
use crate::model::snapshot::{PersistedStatus, PersistedWorker, Record, Snapshot, StatusSnapshot};
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
    fn payload(&mut self, code: u8) -> Read<Payload<'a>> {
        let encoding = match code {
            JSON => Encoding::Json,
            JSON_LINE => Encoding::JsonLine,
            PACKET => Encoding::Packet { key_len: self.narrow_number()? },
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

    fn options(&mut self) -> Read<JobOptions> {
        let mut options = JobOptions {
            lease_ms: self.number()?,
            result_retention_ms: self.number()?,
            dead_retention_ms: self.number()?,
            ..JobOptions::default()
        };
        let flags = self.byte()?;
        if flags & !(HAS_RETRY | TRACKED | RESULT_ONCE) != 0 {
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
        Ok(options)
    }

    fn state(&mut self) -> Read<StatusSnapshot<'a>> {
        let stage = match self.byte()? {
            WAITING => PersistedStatus::Waiting,
            DELAYED => PersistedStatus::Delayed(self.timestamp()?),
            COMPLETED => PersistedStatus::Completed(self.timestamp()?),
            BURIED => PersistedStatus::Buried(None),
            BURIED_UNTIL => PersistedStatus::Buried(Some(self.timestamp()?)),
            code @ (RUNNING | RUNNING_UNTIL) => {
                let worker = WorkerId(self.id()?.0);
                let lease = LeaseEpoch(self.narrow_number()?);
                let until = if code == RUNNING { None } else { Some(self.timestamp()?) };
                PersistedStatus::Running { worker, until, lease }
            }
            _ => return self.malformed(),
        };
        let retries = self.narrow_number()?;
        let flags = self.byte()?;
        let result = match flags & !(HAS_MESSAGE | HAS_PROGRESS) {
            0 => None,
            code => Some(self.payload(code - 1)?),
        };
        let message = if flags & HAS_MESSAGE == 0 { None } else { Some(self.utf8()?) };
        let progress = if flags & HAS_PROGRESS == 0 { None } else { Some(self.fraction()?) };
        Ok(StatusSnapshot { stage, retries, result, message, progress })
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

    fn priority(&mut self, code: u8) -> Read<Priority<'a>> {
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
                Ok(digits) if is_big(digits) => Priority::Big(digits),
                _ => return self.malformed(),
            },
            UNSELECTED => Priority::Unselected,
            _ => return self.malformed(),
        })
    }

    fn id(&mut self) -> Read<JobId> {
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
        let (history, name) = (None, None);
        Ok(Snapshot {
            id,
            queue,
            priority,
            tie_break,
            payload,
            options,
            expires,
            state,
            history,
            name,
        })
    }

    /// A job, with its history if the kind says so.
    fn any_job(&mut self, kind: u8) -> Read<Snapshot<'a>> {
        let job = self.job()?;
        let history = if kind == JOB_WITH_HISTORY { Some(self.history()?) } else { None };
        Ok(Snapshot { history, ..job })
    }
}

fn is_big(digits: &str) -> bool {
    digits.bytes().all(|digit| digit.is_ascii_digit())
        && !digits.starts_with('0')
        && matches!(Priority::from_digits(digits), Priority::Big(_))
}

/// Decodes a record. O(bytes), but byte strings are borrowed.
///
/// # Errors
/// The offset at which the bytes are malformed.
#[inline]
pub(in crate::engine) fn read(bytes: &[u8], now: Now) -> Result<Record<'_>, MalformedRecord> {
    let mut reader = RecordReader { rest: bytes, total_bytes: bytes.len(), now };
    let record = match reader.byte()? {
        kind @ (JOB | JOB_WITH_HISTORY) => Record::Job(reader.any_job(kind)?),
        JOB_WITH_EXTERNAL_ID => {
            let name = Some(reader.byte_string()?);
            match reader.byte()? {
                kind @ (JOB | JOB_WITH_HISTORY) => {
                    Record::Job(Snapshot { name, ..reader.any_job(kind)? })
                }
                _ => return reader.malformed(),
            }
        }
        STATE => Record::State(reader.id()?, reader.state()?),
        DELETED => Record::Deleted(reader.id()?),
        EVENT => Record::Event(reader.id()?, reader.number()?, reader.event(&Arc::default())?),
        QUEUE => Record::Queue(reader.id()?, reader.byte_string()?),
        WORKER => Record::Worker(WorkerId(reader.id()?.0), reader.worker()?),
        CONSTRAINT => {
            let id = reader.id()?;
            Record::Constraint(id, Cow::Owned(reader.constraint()?))
        }
        _ => return Err(MalformedRecord { at: 0 }),
    };
    if reader.rest.is_empty() { Ok(record) } else { reader.malformed() }
}

//! Jobs from clients (`POST /job`) and to workers (`POST {url}/worker-job`).

use super::fields::{
    Field, FieldError, FieldKind, Map, Message, flag, integer, push_seconds, seconds, text,
};
use super::push_payload;
use crate::model::job::Payload;
use crate::wire::msgpack::{push_bool, push_integer, push_map, push_text};

/// Any integer of 32 bits.
const SIGNED: FieldKind =
    FieldKind::Integer { min: i32::MIN as i64, max: i32::MAX as i64, strict: true };
/// A count; above 32 bits: the maximum.
pub(super) const COUNT: FieldKind =
    FieldKind::Integer { min: 0, max: u32::MAX as i64, strict: false };

/// The fields of `POST /job`.
pub static JOB: [Field; 6] = [
    Field::must("name", FieldKind::Text, "What is to be done: the queue's name."),
    Field::must("argument", FieldKind::Any, "What it is to be done with."),
    Field::or("priority", SIGNED, "0", "Smaller is more urgent."),
    Field::or("max_retry", COUNT, "10", "How often a failed job is tried again."),
    Field::or("keep_result", FieldKind::Bool, "false", "Whether the result is kept until fetched."),
    Field::or("timeout", FieldKind::Seconds, "30", "How long a worker may take."),
];

/// The fields of `POST {url}/worker-job`.
pub static WORKER_JOB: [Field; 4] = [
    Field::must("id", FieldKind::Id, "The job's id, for the report."),
    Field::must("name", FieldKind::Text, "What is to be done."),
    Field::must("argument", FieldKind::Any, "What it is to be done with."),
    Field::may("timeout", FieldKind::Seconds, "How long the worker may take; absent: any time."),
];

/// A job as a client puts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewJob<'a> {
    /// The job name, which is its queue.
    pub name: &'a str,
    /// The payload.
    pub argument: Payload<'a>,
    /// Smaller is more urgent.
    pub priority: i32,
    /// The most retries of a failed job.
    pub max_retry: u32,
    /// Whether the result is retained.
    pub keep_result: bool,
    /// The lease length, in milliseconds.
    pub timeout_ms: u64,
}

impl<'a> NewJob<'a> {
    /// A job without options.
    #[must_use]
    pub fn new(name: &'a str, argument: Payload<'a>) -> Self {
        let (max_retry, timeout_ms) = (10, 30_000);
        Self { name, argument, priority: 0, max_retry, keep_result: false, timeout_ms }
    }

    /// Reads a body. O(bytes).
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(bytes: &'a [u8]) -> Result<Self, FieldError> {
        Self::of(Message::packed(bytes))
    }

    /// Reads a body in JSON; `packed` receives its translation. O(text).
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read_json(text: &'a [u8], packed: &'a mut Vec<u8>) -> Result<Self, FieldError> {
        Self::of(Message::json(text, packed)?)
    }

    fn of(message: Message<'a>) -> Result<Self, FieldError> {
        let map = Map::of(message, &JOB)?.known_only()?;
        let plain = Self::new(map.must("name", text)?, map.must_any("argument")?);
        Ok(Self {
            priority: map.may("priority", integer)?.unwrap_or(plain.priority),
            max_retry: map.may("max_retry", integer)?.unwrap_or(plain.max_retry),
            keep_result: map.may("keep_result", flag)?.unwrap_or(plain.keep_result),
            timeout_ms: map.may("timeout", seconds)?.unwrap_or(plain.timeout_ms),
            ..plain
        })
    }

    /// Writes a body. O(bytes).
    pub fn write(&self, out: &mut Vec<u8>) {
        push_map(out, 6);
        push_text(out, "name");
        push_text(out, self.name);
        push_text(out, "argument");
        push_payload(out, self.argument);
        push_text(out, "priority");
        push_integer(out, self.priority);
        push_text(out, "max_retry");
        push_integer(out, self.max_retry);
        push_text(out, "keep_result");
        push_bool(out, self.keep_result);
        push_text(out, "timeout");
        push_seconds(out, self.timeout_ms);
    }
}

/// A job as it is offered to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerJob<'a> {
    /// A decimal number.
    pub id: &'a str,
    /// The job name.
    pub name: &'a str,
    /// The payload.
    pub argument: Payload<'a>,
    /// The lease length, in milliseconds; `None`: unlimited, as another protocol may have put it.
    pub timeout_ms: Option<u64>,
}

impl<'a> WorkerJob<'a> {
    /// Reads a body. O(bytes).
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(bytes: &'a [u8]) -> Result<Self, FieldError> {
        let map = Map::read(bytes, &WORKER_JOB)?;
        Ok(Self {
            id: map.must("id", text)?,
            name: map.must("name", text)?,
            argument: map.must_any("argument")?,
            timeout_ms: map.may("timeout", seconds)?,
        })
    }

    /// Writes a body. O(bytes).
    pub fn write(&self, out: &mut Vec<u8>) {
        push_map(out, 3 + u32::from(self.timeout_ms.is_some()));
        push_text(out, "id");
        push_text(out, self.id);
        push_text(out, "name");
        push_text(out, self.name);
        push_text(out, "argument");
        push_payload(out, self.argument);
        if let Some(timeout_ms) = self.timeout_ms {
            push_text(out, "timeout");
            push_seconds(out, timeout_ms);
        }
    }
}

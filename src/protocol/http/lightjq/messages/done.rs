//! Reports about runs (`POST /done`).

use super::fields::{Field, FieldError, FieldKind, Map, Message, at, flag, text, word};
use super::{job_id, push_payload, timestamp};
use crate::model::id::JobId;
use crate::model::job::{Encoding, Payload};
use crate::model::worker::RunOutcome;
use crate::wire::msgpack::{Raw, push_bool, push_map, push_text};

/// The values of `type`.
pub const TYPES: [&str; 2] = ["success", "failure"];

/// The values of `reason`.
pub const REASONS: [&str; 2] = ["other", "timeout"];

const JOB_ID: Field = Field::must("job_id", FieldKind::Id, "Which job.");
const TYPE: Field = Field::must("type", FieldKind::Word(&TYPES), "What came of it.");
const FINISHED_AT: Field =
    Field::may("finished_at", FieldKind::Moment, "When it ended; absent: now.");

/// The fields of a success.
pub static DONE: [Field; 4] =
    [JOB_ID, TYPE, FINISHED_AT, Field::or("result", FieldKind::Any, "null", "What came of it.")];

/// The fields of a failure.
pub static FAILURE: [Field; 7] = [
    JOB_ID,
    TYPE,
    FINISHED_AT,
    Field::must("reason", FieldKind::Word(&REASONS), "Whether it took too long."),
    Field::must("should_retry", FieldKind::Bool, "Whether it is worth another try."),
    Field::or("error", FieldKind::Any, "null", "What went wrong, for programs."),
    Field::must("message", FieldKind::Text, "What went wrong, for people."),
];

/// A worker's report about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done<'a> {
    /// The job.
    pub job_id: JobId,
    /// The end of the run, in milliseconds since 1970; `None`: now.
    pub finished_at: Option<i64>,
    /// Success or failure.
    pub outcome: Outcome<'a>,
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// The run succeeded.
    Success {
        /// The result.
        result: Payload<'a>,
    },
    /// The run failed.
    Failure {
        /// The cause.
        reason: Reason,
        /// Whether the job may be retried.
        should_retry: bool,
        /// The error, for programs.
        error: Payload<'a>,
        /// The error, for people.
        message: &'a str,
    },
}

/// Why a run failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The job's `timeout` was exceeded.
    Timeout,
    /// Any other cause.
    Other,
}

/// The value of a field that is absent.
const NIL: Payload<'static> = Payload { encoding: Encoding::MsgPack, bytes: Raw::NIL.bytes() };

impl<'a> Done<'a> {
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
        let map = Map::of(message, &DONE)?;
        let id = map.must("job_id", text)?;
        let kind = map.must("type", word)?;
        let finished_at = map.may("finished_at", at)?;
        let outcome = if kind == TYPES[0] {
            map.known_only()?;
            Outcome::Success { result: map.may_any("result").unwrap_or(NIL) }
        } else {
            failure(message)?
        };
        Ok(Self { job_id: job_id(id.as_bytes()), finished_at, outcome })
    }

    /// The outcome in terms of the store.
    #[must_use]
    pub fn report(&self) -> RunOutcome<'a> {
        match self.outcome {
            Outcome::Success { result } => RunOutcome::Success { result },
            Outcome::Failure { reason: _, should_retry, error, message } => {
                RunOutcome::Failure { retry: should_retry, error, message }
            }
        }
    }

    /// Writes a body. O(bytes).
    pub fn write(&self, out: &mut Vec<u8>) {
        let fields = match self.outcome {
            Outcome::Success { .. } => 3,
            Outcome::Failure { .. } => 6,
        };
        push_map(out, fields + u32::from(self.finished_at.is_some()));
        push_text(out, "job_id");
        push_text(out, &self.job_id.0.to_string());
        if let Some(ms) = self.finished_at {
            push_text(out, "finished_at");
            push_text(out, &timestamp::format(ms));
        }
        push_text(out, "type");
        match self.outcome {
            Outcome::Success { result } => {
                push_text(out, TYPES[0]);
                push_text(out, "result");
                push_payload(out, result);
            }
            Outcome::Failure { reason, should_retry, error, message } => {
                push_text(out, TYPES[1]);
                push_text(out, "reason");
                push_text(out, REASONS[usize::from(reason == Reason::Timeout)]);
                push_text(out, "should_retry");
                push_bool(out, should_retry);
                push_text(out, "error");
                push_payload(out, error);
                push_text(out, "message");
                push_text(out, message);
            }
        }
    }
}

fn failure(message: Message<'_>) -> Result<Outcome<'_>, FieldError> {
    let map = Map::of(message, &FAILURE)?.known_only()?;
    let reason =
        if map.must("reason", word)? == REASONS[1] { Reason::Timeout } else { Reason::Other };
    Ok(Outcome::Failure {
        reason,
        should_retry: map.must("should_retry", flag)?,
        error: map.may_any("error").unwrap_or(NIL),
        message: map.must("message", text)?,
    })
}

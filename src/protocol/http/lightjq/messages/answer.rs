//! Messages that the server sends.

use super::fields::{Field, FieldError, FieldKind, Map, integer, text, word};
use super::job::COUNT;
use super::{job_id, push_payload, push_payload_json, worker_id};
use crate::model::id::JobId;
use crate::model::job::{Payload, Status as Doing};
use crate::model::reply::JobStatus;
use crate::model::worker::WorkerId;
use crate::wire::json::{push_number, push_string};
use crate::wire::msgpack::{Raw, push_integer, push_json, push_map, push_nil, push_text};
use std::fmt::Display;

/// The values of `status`.
pub const STATUSES: [&str; 5] = ["queued", "running", "retrying", "error", "done"];

/// The fields of the response to `POST /job`.
pub static JOB_ACCEPTED: [Field; 1] = [Field::must("job_id", FieldKind::Id, "The job's id.")];

/// The fields of the response to `POST /worker`.
pub static WORKER_ACCEPTED: [Field; 1] =
    [Field::must("worker_id", FieldKind::Id, "The worker's id.")];

/// The fields of an error response.
pub static ERROR: [Field; 1] =
    [Field::must("error", FieldKind::Text, "What is wrong: a sentence.")];

/// The fields of the response to `GET /job/{job_id}`.
pub static STATUS: [Field; 6] = [
    Field::must("status", FieldKind::Word(&STATUSES), "How the job is going."),
    Field::may("worker_id", FieldKind::Id, "Who works on it."),
    Field::may("result", FieldKind::Any, "What came of it, once it is done."),
    Field::may("error", FieldKind::Any, "What went wrong last, for programs."),
    Field::may("message", FieldKind::Text, "What went wrong last, for people."),
    Field::must("retry_count", COUNT, "How many retries were decided."),
];

/// The status of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status<'a> {
    /// One of [`STATUSES`].
    pub status: &'a str,
    /// The worker that has it reserved.
    pub worker: Option<WorkerId>,
    /// The result of a successful run.
    pub result: Option<Payload<'a>>,
    /// The latest error, for programs.
    pub error: Option<Payload<'a>>,
    /// The latest error, for people.
    pub message: Option<&'a str>,
    /// Retries so far.
    pub retry_count: u32,
}

impl<'a> Status<'a> {
    /// Of a job in the store.
    #[must_use]
    pub fn of(progress: &JobStatus<'a>) -> Self {
        let sight = &progress.info;
        let (status, done) = (progress.status(), sight.status == Doing::Completed);
        Self {
            status,
            worker: progress.worker,
            result: sight.result.filter(|_| done),
            error: sight.result.filter(|_| !done),
            message: progress.message.filter(|_| !done),
            retry_count: sight.retries,
        }
    }

    /// Reads a response; `None`: the job has ended and its result is gone. O(bytes).
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(bytes: &'a [u8]) -> Result<Option<Self>, FieldError> {
        if bytes == Raw::NIL.bytes() {
            return Ok(None);
        }
        let map = Map::read(bytes, &STATUS)?;
        Ok(Some(Self {
            status: map.must("status", word)?,
            worker: map.may("worker_id", |value, _| worker_id(value.text()?.as_bytes()))?,
            result: map.may_any("result"),
            error: map.may_any("error"),
            message: map.may("message", text)?,
            retry_count: map.must("retry_count", integer)?,
        }))
    }

    /// Writes a response. O(bytes).
    pub fn write(&self, out: &mut Vec<u8>) {
        let there = [
            self.worker.is_some(),
            self.result.is_some(),
            self.error.is_some(),
            self.message.is_some(),
        ];
        push_map(out, 2 + there.map(u32::from).iter().sum::<u32>());
        push_text(out, "status");
        push_text(out, self.status);
        if let Some(worker) = self.worker {
            push_text(out, "worker_id");
            push_text(out, &worker.0.to_string());
        }
        for (name, payload) in [("result", self.result), ("error", self.error)] {
            if let Some(payload) = payload {
                push_text(out, name);
                push_payload(out, payload);
            }
        }
        if let Some(message) = self.message {
            push_text(out, "message");
            push_text(out, message);
        }
        push_text(out, "retry_count");
        push_integer(out, self.retry_count);
    }

    /// Writes a response in JSON; payloads that were put as JSON are copied. O(bytes).
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"status\":");
        push_string(out, self.status.as_bytes());
        if let Some(worker) = self.worker {
            out.extend_from_slice(b",\"worker_id\":\"");
            push_number(out, worker.0);
            out.push(b'"');
        }
        for (name, payload) in [("result", self.result), ("error", self.error)] {
            if let Some(payload) = payload {
                out.extend_from_slice(format!(",\"{name}\":").as_bytes());
                push_payload_json(out, payload);
            }
        }
        if let Some(message) = self.message {
            out.extend_from_slice(b",\"message\":");
            push_string(out, message.as_bytes());
        }
        out.extend_from_slice(b",\"retry_count\":");
        push_number(out, self.retry_count);
        out.push(b'}');
    }
}

/// Writes as JSON what `write` writes in MessagePack.
pub fn write_json(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut packed = Vec::new();
    write(&mut packed);
    push_json(out, &packed);
}

/// Writes the response about a job that has ended and whose result is gone.
pub fn write_gone(out: &mut Vec<u8>) {
    push_nil(out);
}

fn write_one(out: &mut Vec<u8>, name: &str, value: &str) {
    push_map(out, 1);
    push_text(out, name);
    push_text(out, value);
}

/// Writes the response to `POST /job`.
pub fn write_job_accepted(id: JobId, out: &mut Vec<u8>) {
    write_one(out, "job_id", &id.0.to_string());
}

/// Reads the response to `POST /job`.
///
/// # Errors
/// What is wrong with it.
pub fn read_job_accepted(bytes: &[u8]) -> Result<JobId, FieldError> {
    let map = Map::read(bytes, &JOB_ACCEPTED)?;
    map.must("job_id", |value, _| {
        Some(job_id(value.text()?.as_bytes())).filter(|&id| id != JobId::NEVER)
    })
}

/// Writes the response to `POST /worker`.
pub fn write_worker_accepted(id: WorkerId, out: &mut Vec<u8>) {
    write_one(out, "worker_id", &id.0.to_string());
}

/// Reads the response to `POST /worker`.
///
/// # Errors
/// What is wrong with it.
pub fn read_worker_accepted(bytes: &[u8]) -> Result<WorkerId, FieldError> {
    let map = Map::read(bytes, &WORKER_ACCEPTED)?;
    map.must("worker_id", |value, _| worker_id(value.text()?.as_bytes()))
}

/// Writes an error response.
#[cold]
pub fn write_error(error: &dyn Display, out: &mut Vec<u8>) {
    write_one(out, "error", &error.to_string());
}

/// Reads an error response.
///
/// # Errors
/// What is wrong with it.
pub fn read_error(bytes: &[u8]) -> Result<&str, FieldError> {
    Map::read(bytes, &ERROR)?.must("error", text)
}

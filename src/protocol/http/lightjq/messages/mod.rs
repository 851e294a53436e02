//! The messages of both sides, read and written: the master reads what pushers and workers write,
//! the worker kit and the tests read what the master writes.
//!
//! Each message has a table of its fields ([`Field`]). Reading goes by the table, and so do the
//! sentences about what is wrong and the OpenAPI description: none of them can drift. Of a field
//! that is there twice the last one counts. A field that is not in the table is an error where the
//! master reads, because it is a misspelt one; the worker kit passes it over, because it may be
//! that of a newer master.
//!
//! Ids are decimal numbers as strings. What is none, or is written in another way, was never given
//! out.

mod answer;
mod constraint;
mod done;
mod fields;
mod job;
#[cfg(test)]
mod json_tests;
#[cfg(test)]
mod tests;
mod timestamp;
mod worker;

pub use answer::{
    ERROR, JOB_ACCEPTED, STATUS, STATUSES, Status, WORKER_ACCEPTED, read_error, read_job_accepted,
    read_worker_accepted, write_error, write_gone, write_job_accepted, write_json,
    write_worker_accepted,
};
pub use constraint::{
    CONDITIONS_MAX, CONSTRAINT, KEYS_MAX, OPERATORS, RATE, VALUES_MAX, read_constraint,
    read_constraint_json, write_constraint,
};
pub use done::{DONE, Done, FAILURE, Outcome, REASONS, Reason, TYPES};
pub use fields::{Field, FieldError, Kind, Presence};
pub use job::{JOB, NewJob, WORKER_JOB, WorkerJob};
pub use worker::{WORKER, read_worker, read_worker_json, write_worker};

use crate::model::id::JobId;
use crate::model::job::{Encoding, Payload};
use crate::model::worker::WorkerId;
use crate::wire::json::push_packet;
use crate::wire::msgpack::{push_binary, push_from_json, push_json, push_map, push_text};

/// The job that a text names; [`JobId::NEVER`] if it cannot name one.
#[must_use]
pub fn job_id(text: &[u8]) -> JobId {
    decimal(text).map_or(JobId::NEVER, JobId)
}

/// The worker that a text names, if it can name one.
#[must_use]
pub fn worker_id(text: &[u8]) -> Option<WorkerId> {
    decimal(text).map(WorkerId)
}

/// A number as this server writes it.
fn decimal(text: &[u8]) -> Option<u64> {
    let plain = text.iter().all(u8::is_ascii_digit) && (text == b"0" || !text.starts_with(b"0"));
    std::str::from_utf8(text).ok().filter(|_| plain)?.parse().ok()
}

/// Writes a payload of whatever encoding as JSON: MessagePack is translated, a packet of the
/// networked priority queue is `{"key": base64, "payload": base64}`. O(payload).
fn push_payload_json(out: &mut Vec<u8>, payload: Payload<'_>) {
    match payload.encoding {
        Encoding::Json | Encoding::JsonLine => out.extend_from_slice(payload.bytes),
        Encoding::MsgPack => push_json(out, payload.bytes),
        Encoding::Packet { key_len } => push_packet(out, key_len, payload.bytes),
    }
}

/// Writes a payload of whatever encoding as one value: JSON is translated, a packet of the
/// networked priority queue is `{"key": binary, "payload": binary}`. O(payload).
fn push_payload(out: &mut Vec<u8>, payload: Payload<'_>) {
    match payload.encoding {
        Encoding::MsgPack => out.extend_from_slice(payload.bytes),
        Encoding::Json | Encoding::JsonLine => push_from_json(out, payload.bytes),
        Encoding::Packet { key_len } => {
            let (key, packet) = payload.bytes.split_at(usize::from(key_len));
            push_map(out, 2);
            push_text(out, "key");
            push_binary(out, key);
            push_text(out, "payload");
            push_binary(out, packet);
        }
    }
}

//! The messages of both sides: the server reads what clients and workers write, the worker kit and
//! the tests read what the server writes.
//!
//! Each message has a table of its fields ([`Field`]), from which parser, error texts and OpenAPI
//! description come, so that they cannot diverge. Of a repeated field the last one counts. The
//! server rejects unknown fields, as they are probably typing mistakes; the worker kit ignores
//! them, as they may come from a newer server.
//!
//! Ids are decimal numbers as strings. Any other string is an id that was never given out.

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
pub use fields::{Field, FieldError, FieldKind, Presence};
pub use job::{JOB, NewJob, WORKER_JOB, WorkerJob};
pub use worker::{WORKER, read_worker, read_worker_json, write_worker};

use crate::model::id::JobId;
use crate::model::job::{Encoding, Payload};
use crate::model::worker::WorkerId;
use crate::wire::json::{push_bytes, push_packet};
use crate::wire::msgpack::{push_binary, push_from_json, push_json, push_map, push_text};

/// The job id in a text; [`JobId::NEVER`] if there is none.
#[must_use]
pub fn job_id(text: &[u8]) -> JobId {
    decimal(text).map_or(JobId::NEVER, JobId)
}

/// The worker id in a text, if there is one.
#[must_use]
pub fn worker_id(text: &[u8]) -> Option<WorkerId> {
    decimal(text).map(WorkerId)
}

/// A number as this server writes it: without sign and leading zeros.
fn decimal(text: &[u8]) -> Option<u64> {
    let plain = text.iter().all(u8::is_ascii_digit) && (text == b"0" || !text.starts_with(b"0"));
    std::str::from_utf8(text).ok().filter(|_| plain)?.parse().ok()
}

/// Writes a payload of any encoding as JSON: MessagePack is translated, a packet of pinpriq is
/// `{"key": base64, "payload": base64}`. O(payload).
fn push_payload_json(out: &mut Vec<u8>, payload: Payload<'_>) {
    match payload.encoding {
        Encoding::Json | Encoding::JsonLine => out.extend_from_slice(payload.bytes),
        Encoding::MsgPack => push_json(out, payload.bytes),
        Encoding::Packet { key_len } => push_packet(out, key_len, payload.bytes),
        Encoding::Bytes => push_bytes(out, payload.bytes),
    }
}

/// Writes a payload of any encoding as one value: JSON is translated, a packet of pinpriq is
/// `{"key": binary, "payload": binary}`. O(payload).
fn push_payload(out: &mut Vec<u8>, payload: Payload<'_>) {
    match payload.encoding {
        Encoding::MsgPack => out.extend_from_slice(payload.bytes),
        Encoding::Json | Encoding::JsonLine => push_from_json(out, payload.bytes),
        Encoding::Bytes => {
            let mut text = Vec::new();
            push_bytes(&mut text, payload.bytes);
            push_from_json(out, &text);
        }
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

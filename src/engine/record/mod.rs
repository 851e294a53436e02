//! The encoding of journal records: what has changed, not what was asked.
//!
//! ```text
//! record  = kind u8, then
//!   1 job    id, flags u8, queue text, priority, payload text,
//!            [options: lease, keep, bury, option flags u8,
//!            [limit u32, first, factor, max, jitter u8]],
//!            [expires moment], [state]
//!   2 state  id, state
//!   3 deleted  id
//!   4 job of an indexed queue: as 1, then its history
//!   5 event  id, version, event
//!   6 declared queue: id, name text
//!   7 worker: id, name text, url text, jobs at a time, number of queues + 1 or 0, queue texts; the
//!     one with an empty url is the processor
//!   8 job with an external id: that id as text, then the whole record of a job, 1 or 4
//!   9 constraint: id, name text, flags u8, [max_running], [count, period, burst], [path],
//!            number of conditions, each: path, operator u8, number of values, values
//! state   = stage u8, [worker id, lease], [moment], retries, result flags u8, [payload text],
//!           [message text], [progress: the bits of a double, little endian]
//! option flags = bit 0 retry policy, bit 1 tracked, bit 2 result fetched once
//! result flags = bits 0-3 encoding + 1, or 0 without a result; bit 4 message; bit 5 progress
//! flags   = bits 0-1 priority: 0 number, 1 digits, 2 unselected; bit 2 LIFO; bits 3-4
//!           encoding: 0 JSON, 1 JSON line, 2 packet (then its key's length stands before the
//!           payload), 3 MessagePack; bit 5 options; bit 6 expires; bit 7 state
//! history = user state text, modified, version, number of events, events
//! event   = tag u8, seconds since 1970, then for tag
//!           1 advanced: old text, new text; 2 user event: text; 3 reserved: by flag u8, [index,
//!           generation]; nothing for 0 created, 4 aborted, 5 abandoned, 6 expired, 7 failed,
//!           8 retried, 9 finished, 10 buried, 11 kicked, 12 due
//! path    = 0 for the name, or one more than the number of keys and each as text
//! value   = 0 nil, 1 false, 2 true, 3 integer of 16 bytes, 4 float of 8 bytes, 5 text
//! text    = length, bytes; numbers without a width are LEB128, signed ones zigzag
//! moment  = milliseconds of the wall clock since 1970
//! ```
//!
//! Moments are stored by the wall clock, because the monotonic clock starts again with each
//! process. Malformed bytes are an error value and never panic. An event carries the version of the
//! job's row after it, so that recovery skips an event that a base record contains already.

mod constraint;
mod history;
mod read;
#[cfg(test)]
mod tests;

use crate::base::time::{Mono, Now};
use crate::model::job::{Encoding, JobOptions, Payload, Priority, TieBreak};
use crate::model::snapshot::{PersistedStatus, Record, Snapshot, StatusSnapshot};
pub(super) use read::read;

const JOB: u8 = 1;
const STATE: u8 = 2;
const DELETED: u8 = 3;
const JOB_WITH_HISTORY: u8 = 4;
const EVENT: u8 = 5;
const QUEUE: u8 = 6;
const WORKER: u8 = 7;
const JOB_WITH_EXTERNAL_ID: u8 = 8;
const CONSTRAINT: u8 = 9;

const DIGITS: u8 = 1;
const UNSELECTED: u8 = 2;
const LIFO: u8 = 1 << 2;
const ENCODING_SHIFT: u8 = 3;
const HAS_OPTIONS: u8 = 1 << 5;
const EXPIRES: u8 = 1 << 6;
const HAS_STATE: u8 = 1 << 7;

const WAITING: u8 = 0;
const DELAYED: u8 = 1;
const COMPLETED: u8 = 2;
const BURIED: u8 = 3;
const BURIED_UNTIL: u8 = 4;
const RUNNING: u8 = 5;
const RUNNING_UNTIL: u8 = 6;

const HAS_RETRY: u8 = 1;
const TRACKED: u8 = 1 << 1;
const RESULT_ONCE: u8 = 1 << 2;

const HAS_MESSAGE: u8 = 1 << 4;
const HAS_PROGRESS: u8 = 1 << 5;

const JSON: u8 = 0;
const JSON_LINE: u8 = 1;
const PACKET: u8 = 2;
const MSGPACK: u8 = 3;

const INITIAL_STATE: StatusSnapshot<'static> = StatusSnapshot {
    stage: PersistedStatus::Waiting,
    retries: 0,
    result: None,
    message: None,
    progress: None,
};

fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

fn push_byte_string(out: &mut Vec<u8>, text: &[u8]) {
    push_number(out, text.len() as u64);
    out.extend_from_slice(text);
}

fn push_timestamp(out: &mut Vec<u8>, at: Mono, now: Now) {
    let ahead = u64::try_from(at.until(now.mono).as_nanos().div_ceil(1_000_000));
    let behind = u64::try_from(now.mono.until(at).as_millis()).unwrap_or(u64::MAX);
    let wall = now.wall.0.saturating_add(ahead.unwrap_or(u64::MAX)).saturating_sub(behind);
    push_number(out, wall);
}

fn encoding_code(encoding: Encoding) -> u8 {
    match encoding {
        Encoding::Json => JSON,
        Encoding::JsonLine => JSON_LINE,
        Encoding::Packet { .. } => PACKET,
        Encoding::MsgPack => MSGPACK,
    }
}

fn push_payload(out: &mut Vec<u8>, payload: Payload<'_>) {
    if let Encoding::Packet { key_len } = payload.encoding {
        push_number(out, u64::from(key_len));
    }
    push_byte_string(out, payload.bytes);
}

fn push_options(out: &mut Vec<u8>, options: &JobOptions) {
    for length in [options.lease_ms, options.result_retention_ms, options.dead_retention_ms] {
        push_number(out, length);
    }
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    let retry = flag(options.retry.is_some(), HAS_RETRY);
    out.push(retry | flag(options.tracked, TRACKED) | flag(options.result_once, RESULT_ONCE));
    if let Some(retry) = &options.retry {
        push_number(out, u64::from(retry.limit));
        push_number(out, retry.first_ms);
        push_number(out, u64::from(retry.factor));
        push_number(out, retry.max_ms);
        out.push(retry.jitter_percent);
    }
}

fn push_state(out: &mut Vec<u8>, state: &StatusSnapshot<'_>, now: Now) {
    let (code, moment) = match state.stage {
        PersistedStatus::Waiting => (WAITING, None),
        PersistedStatus::Running { until: None, .. } => (RUNNING, None),
        PersistedStatus::Running { until, .. } => (RUNNING_UNTIL, until),
        PersistedStatus::Delayed(at) => (DELAYED, Some(at)),
        PersistedStatus::Completed(at) => (COMPLETED, Some(at)),
        PersistedStatus::Buried(None) => (BURIED, None),
        PersistedStatus::Buried(Some(at)) => (BURIED_UNTIL, Some(at)),
    };
    out.push(code);
    if let PersistedStatus::Running { worker, lease, .. } = state.stage {
        push_number(out, worker.0);
        push_number(out, u64::from(lease.0));
    }
    if let Some(at) = moment {
        push_timestamp(out, at, now);
    }
    push_number(out, u64::from(state.retries));
    let message = if state.message.is_some() { HAS_MESSAGE } else { 0 };
    let progress = if state.progress.is_some() { HAS_PROGRESS } else { 0 };
    let result = state.result.map_or(0, |result| 1 + encoding_code(result.encoding));
    out.push(result | message | progress);
    if let Some(result) = state.result {
        push_payload(out, result);
    }
    if let Some(message) = state.message {
        push_byte_string(out, message.as_bytes());
    }
    if let Some(progress) = state.progress {
        out.extend_from_slice(&progress.value().to_le_bytes());
    }
}

/// Appends a record. O(bytes).
pub(super) fn write(record: &Record<'_>, now: Now, out: &mut Vec<u8>) {
    let start = out.len();
    encode(record, now, out);
    // Long records are left out: this is O(events of the history).
    debug_assert!(
        out.len() - start > 1024 || read(&out[start..], now).is_ok(),
        "recovery could not decode a record"
    );
}

fn encode(record: &Record<'_>, now: Now, out: &mut Vec<u8>) {
    match record {
        Record::Job(job) => write_job(job, now, out),
        Record::State(id, state) => {
            out.push(STATE);
            push_number(out, id.0);
            push_state(out, state, now);
        }
        Record::Deleted(id) => {
            out.push(DELETED);
            push_number(out, id.0);
        }
        Record::Event(id, version, event) => {
            out.push(EVENT);
            push_number(out, id.0);
            push_number(out, *version);
            history::push_event(out, event);
        }
        Record::Queue(id, name) => {
            out.push(QUEUE);
            push_number(out, id.0);
            push_byte_string(out, name);
        }
        Record::Constraint(id, constraint) => {
            out.push(CONSTRAINT);
            push_number(out, id.0);
            constraint::push(out, constraint);
        }
        Record::Worker(id, worker) => {
            out.push(WORKER);
            push_number(out, id.0);
            push_byte_string(out, worker.name.as_bytes());
            push_byte_string(out, worker.url.as_bytes());
            push_number(out, u64::from(worker.max_jobs));
            push_number(out, worker.queues.as_ref().map_or(0, |queues| 1 + queues.len() as u64));
            for queue in worker.queues.iter().flatten() {
                push_byte_string(out, queue);
            }
        }
    }
}

fn write_job(job: &Snapshot<'_>, now: Now, out: &mut Vec<u8>) {
    if let Some(name) = job.name {
        out.push(JOB_WITH_EXTERNAL_ID);
        push_byte_string(out, name);
    }
    out.push(if job.history.is_some() { JOB_WITH_HISTORY } else { JOB });
    push_number(out, job.id.0);
    let mut flags = encoding_code(job.payload.encoding) << ENCODING_SHIFT;
    flags |= match job.priority {
        Priority::Small(_) => 0,
        Priority::Big(_) => DIGITS,
        Priority::Unselected => UNSELECTED,
    };
    flags |= if job.tie_break == TieBreak::Lifo { LIFO } else { 0 };
    flags |= if job.options.is_some() { HAS_OPTIONS } else { 0 };
    flags |= if job.expires.is_some() { EXPIRES } else { 0 };
    flags |= if job.state == INITIAL_STATE { 0 } else { HAS_STATE };
    out.push(flags);
    push_byte_string(out, job.queue);
    match job.priority {
        Priority::Small(number) => {
            push_number(out, (number.cast_unsigned() << 1) ^ (number >> 63).cast_unsigned());
        }
        Priority::Big(digits) => push_byte_string(out, digits.as_bytes()),
        Priority::Unselected => {}
    }
    push_payload(out, job.payload);
    if let Some(options) = &job.options {
        push_options(out, options);
    }
    if let Some(at) = job.expires {
        push_timestamp(out, at, now);
    }
    if job.state != INITIAL_STATE {
        push_state(out, &job.state, now);
    }
    if let Some(history) = &job.history {
        history::push(out, history);
    }
}

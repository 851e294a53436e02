//! The encoding of journal records: what has changed, not what was asked.
//!
//! ```text
//! record  = kind u8, then
//!   1 job    id, flags u8, queue text, priority, payload text,
//!            [options: lease, keep, bury, option flags u8,
//!            [limit u32, first, factor, max, jitter u8], [most attempts u32]],
//!            [expires moment], [state]
//!   2 state  id, state
//!   3 deleted  id
//!   4 job of an indexed queue: as 1, then its history
//!   5 event  id, version, event
//!   6 declared queue: id, name text
//!   7 worker: id, name text, url text, jobs at a time, number of queues + 1 or 0, queue texts; the
//!     one with an empty url is the processor
//!   8 job with an external id: that id as text, then the whole record of a job, 1, 4 or 17
//!   9 constraint: id, name text, flags u8, [max_running], [count, period, burst], [path],
//!            number of conditions, each: path, operator u8, number of values, values
//!   10 pause: id, queue text, 0 or 1 u8, [end moment]
//!   11 schedule: id, name text, schedule flags u8, cron text or interval, zone text, queue text,
//!            text of the job, priority flags u8, priority, payload text, options, delay, ttl,
//!            [key text, for how long it stays taken, what comes of duplicates u8], [dependencies
//!            as of 15],
//!            anchor moment, [next moment], [moment of the last run, job id]
//! schedule flags = bit 0 interval, bit 1 overlap: skip, bit 2 missed: skip, bit 3 paused, bit 4
//!            next moment, bit 5 last run
//!   12 job with a key: the key as text, for how long it stays taken after the completion, then
//!      the whole record of a job, 1, 4, 8 or 17
//!   13 key that stays taken after the completion of its job: id, queue text, key text, id of the
//!      job, end moment
//!   14 run that was completed under a token: id, id of the job, token of 8 bytes, end moment
//!   15 job with dependencies: dependency flags u8, number of ids, ids, [group text, id of the
//!      first member of its run], [text of the group that it waits for, id of the first member of
//!      the run or 0], then the whole record of a job, 1, 4, 8, 12 or 17
//!   16 job that was lost while others wait for it: id, id of the job, the id below which they are
//!      cancelled
//!   17 job with the time of its put: seconds since 1970 in 4 bytes, then as 1
//! dependency flags = bit 0 group, bit 1 waits for a group, bit 2 runs if one is lost
//! state   = stage u8, [worker id, lease], [token of 8 bytes, since: milliseconds since 1970,
//!           worker text], [burial number], [moment], retries, result flags u8, [payload text],
//!           [message text], [progress: the bits of a double, little endian], [runs]
//! option flags = bit 0 retry policy, bit 1 tracked, bit 2 result fetched once, bit 3 most attempts
//! result flags = bits 0-3 encoding + 1, or 0 without a result; bit 4 message; bit 5 progress;
//!           bit 6 runs
//! runs    = attempts, run flags u8, [error text, message text, milliseconds since 1970],
//!           [progress message text], [token of 8 bytes]
//! run flags = bit 0 error, bit 1 progress message, bit 2 token of the completion
//! flags   = bits 0-1 priority: 0 number, 1 digits, 2 unselected; bit 2 LIFO; bits 3-4
//!           encoding: 0 JSON, 1 JSON line, 2 packet (then its key's length stands before the
//!           payload; 65,536: any bytes), 3 MessagePack; bit 5 options; bit 6 expires; bit 7 state
//! history = user state text, modified, version, number of events, events
//! event   = tag u8, seconds since 1970, then for tag
//!           1 advanced: old text, new text; 2 user event: text; 3 reserved: by flag u8, [index,
//!           generation]; nothing for 0 created, 4 aborted, 5 abandoned, 6 expired, 7 failed,
//!           8 retried, 9 finished, 10 buried, 11 kicked, 12 due, 13 changed
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
mod dependencies;
mod history;
mod read;
mod schedule;
#[cfg(test)]
mod tests;

use crate::base::time::{Mono, Now};
use crate::model::job::{Encoding, JobOptions, Payload, Priority, TieBreak};
use crate::model::snapshot::{
    PersistedStatus, PersistedWorker, Record, RunHistory, Snapshot, StatusSnapshot,
};
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
const PAUSE: u8 = 10;
const SCHEDULE: u8 = 11;
const JOB_WITH_KEY: u8 = 12;
const PAST_KEY: u8 = 13;
const PAST_RUN: u8 = 14;
const JOB_WITH_DEPENDENCIES: u8 = 15;
const LOSS: u8 = 16;
const JOB_WITH_TIME: u8 = 17;

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
const LEASED: u8 = 7;
const BURIED_NUMBERED: u8 = 8;
const BURIED_NUMBERED_UNTIL: u8 = 9;

const HAS_RETRY: u8 = 1;
const TRACKED: u8 = 1 << 1;
const RESULT_ONCE: u8 = 1 << 2;
const HAS_MAX_ATTEMPTS: u8 = 1 << 3;

const HAS_MESSAGE: u8 = 1 << 4;
const HAS_PROGRESS: u8 = 1 << 5;
const HAS_RUNS: u8 = 1 << 6;

const HAS_ERROR: u8 = 1;
const HAS_PROGRESS_MESSAGE: u8 = 1 << 1;
const HAS_COMPLETED_BY: u8 = 1 << 2;

const JSON: u8 = 0;
const JSON_LINE: u8 = 1;
const PACKET: u8 = 2;
const MSGPACK: u8 = 3;

/// In place of the length of a packet's key: it is no packet, but any bytes.
const ANY_BYTES: u64 = 1 << 16;

const INITIAL_STATE: StatusSnapshot<'static> = StatusSnapshot {
    stage: PersistedStatus::Waiting,
    retries: 0,
    result: None,
    message: None,
    progress: None,
    runs: None,
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
    push_number(out, now.wall_at(at).0);
}

fn encoding_code(encoding: Encoding) -> u8 {
    match encoding {
        Encoding::Json => JSON,
        Encoding::JsonLine => JSON_LINE,
        Encoding::Packet { .. } | Encoding::Bytes => PACKET,
        Encoding::MsgPack => MSGPACK,
    }
}

fn push_payload(out: &mut Vec<u8>, payload: Payload<'_>) {
    match payload.encoding {
        Encoding::Packet { key_len } => push_number(out, u64::from(key_len)),
        Encoding::Bytes => push_number(out, ANY_BYTES),
        Encoding::Json | Encoding::JsonLine | Encoding::MsgPack => {}
    }
    push_byte_string(out, payload.bytes);
}

fn push_options(out: &mut Vec<u8>, options: &JobOptions) {
    for length in [options.lease_ms, options.result_retention_ms, options.dead_retention_ms] {
        push_number(out, length);
    }
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    let retry = flag(options.retry.is_some(), HAS_RETRY);
    let most = flag(options.max_attempts > 0, HAS_MAX_ATTEMPTS);
    out.push(
        retry | flag(options.tracked, TRACKED) | flag(options.result_once, RESULT_ONCE) | most,
    );
    if let Some(retry) = &options.retry {
        push_number(out, u64::from(retry.limit));
        push_number(out, retry.first_ms);
        push_number(out, u64::from(retry.factor));
        push_number(out, retry.max_ms);
        out.push(retry.jitter_percent);
    }
    if options.max_attempts > 0 {
        push_number(out, u64::from(options.max_attempts));
    }
}

fn push_state(out: &mut Vec<u8>, state: &StatusSnapshot<'_>, now: Now) {
    let (code, moment) = match state.stage {
        PersistedStatus::Waiting => (WAITING, None),
        PersistedStatus::Running { until: None, .. } => (RUNNING, None),
        PersistedStatus::Running { until, .. } => (RUNNING_UNTIL, until),
        PersistedStatus::Leased { until, .. } => (LEASED, Some(until)),
        PersistedStatus::Delayed(at) => (DELAYED, Some(at)),
        PersistedStatus::Completed(at) => (COMPLETED, Some(at)),
        PersistedStatus::Buried { number: 0, until } => {
            (if until.is_none() { BURIED } else { BURIED_UNTIL }, until)
        }
        PersistedStatus::Buried { until: None, .. } => (BURIED_NUMBERED, None),
        PersistedStatus::Buried { until, .. } => (BURIED_NUMBERED_UNTIL, until),
    };
    out.push(code);
    if let PersistedStatus::Buried { number: number @ 1.., .. } = state.stage {
        push_number(out, u64::from(number));
    }
    if let PersistedStatus::Running { worker, lease, .. } = state.stage {
        push_number(out, worker.0);
        push_number(out, u64::from(lease.0));
    }
    if let PersistedStatus::Leased { token, since, worker, .. } = state.stage {
        out.extend_from_slice(&token.0.to_le_bytes());
        push_number(out, since.0);
        push_byte_string(out, worker.as_bytes());
    }
    if let Some(at) = moment {
        push_timestamp(out, at, now);
    }
    push_number(out, u64::from(state.retries));
    let message = if state.message.is_some() { HAS_MESSAGE } else { 0 };
    let progress = if state.progress.is_some() { HAS_PROGRESS } else { 0 };
    let result = state.result.map_or(0, |result| 1 + encoding_code(result.encoding));
    let runs = if state.runs.is_some() { HAS_RUNS } else { 0 };
    out.push(result | message | progress | runs);
    if let Some(result) = state.result {
        push_payload(out, result);
    }
    if let Some(message) = state.message {
        push_byte_string(out, message.as_bytes());
    }
    if let Some(progress) = state.progress {
        out.extend_from_slice(&progress.value().to_le_bytes());
    }
    if let Some(runs) = &state.runs {
        push_runs(out, runs);
    }
}

fn push_runs(out: &mut Vec<u8>, runs: &RunHistory<'_>) {
    push_number(out, u64::from(runs.attempts));
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    let error = flag(runs.error.is_some(), HAS_ERROR);
    let message = flag(runs.progress_message.is_some(), HAS_PROGRESS_MESSAGE);
    out.push(error | message | flag(runs.completed_by.is_some(), HAS_COMPLETED_BY));
    if let Some((kind, message, at)) = runs.error {
        push_byte_string(out, kind.as_bytes());
        push_byte_string(out, message.as_bytes());
        push_number(out, at.0);
    }
    if let Some(message) = runs.progress_message {
        push_byte_string(out, message.as_bytes());
    }
    if let Some(token) = runs.completed_by {
        out.extend_from_slice(&token.0.to_le_bytes());
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
        Record::Pause(id, queue, until) => {
            out.push(PAUSE);
            push_number(out, id.0);
            push_byte_string(out, queue);
            out.push(u8::from(until.is_some()));
            if let Some(at) = *until {
                push_timestamp(out, at, now);
            }
        }
        Record::Schedule(id, schedule, state) => {
            out.push(SCHEDULE);
            push_number(out, id.0);
            schedule::push(out, schedule, state);
        }
        Record::PastKey(id, key) => {
            out.push(PAST_KEY);
            push_number(out, id.0);
            push_byte_string(out, key.queue);
            push_byte_string(out, key.bytes);
            push_number(out, key.job.0);
            push_timestamp(out, key.until, now);
        }
        Record::PastRun(id, run) => {
            out.push(PAST_RUN);
            push_number(out, id.0);
            push_number(out, run.job.0);
            out.extend_from_slice(&run.token.0.to_le_bytes());
            push_timestamp(out, run.until, now);
        }
        Record::Loss(id, loss) => {
            out.push(LOSS);
            push_number(out, id.0);
            push_number(out, loss.job.0);
            push_number(out, loss.below.0);
        }
        Record::Worker(id, worker) => {
            out.push(WORKER);
            push_number(out, id.0);
            push_worker(out, worker);
        }
    }
}

fn push_worker(out: &mut Vec<u8>, worker: &PersistedWorker<'_>) {
    push_byte_string(out, worker.name.as_bytes());
    push_byte_string(out, worker.url.as_bytes());
    push_number(out, u64::from(worker.max_jobs));
    push_number(out, worker.queues.as_ref().map_or(0, |queues| 1 + queues.len() as u64));
    for queue in worker.queues.iter().flatten() {
        push_byte_string(out, queue);
    }
}

fn priority_code(priority: Priority<'_>) -> u8 {
    match priority {
        Priority::Small(_) => 0,
        Priority::Big(_) => DIGITS,
        Priority::Unselected => UNSELECTED,
    }
}

fn push_priority(out: &mut Vec<u8>, priority: Priority<'_>) {
    match priority {
        Priority::Small(number) => {
            push_number(out, (number.cast_unsigned() << 1) ^ (number >> 63).cast_unsigned());
        }
        Priority::Big(digits) => push_byte_string(out, digits.as_bytes()),
        Priority::Unselected => {}
    }
}

fn write_job(job: &Snapshot<'_>, now: Now, out: &mut Vec<u8>) {
    if let Some(dependencies) = &job.dependencies {
        out.push(JOB_WITH_DEPENDENCIES);
        dependencies::push(out, dependencies);
    }
    if let Some((key, ttl_ms)) = job.key {
        out.push(JOB_WITH_KEY);
        push_byte_string(out, key);
        push_number(out, ttl_ms);
    }
    if let Some(name) = job.name {
        out.push(JOB_WITH_EXTERNAL_ID);
        push_byte_string(out, name);
    }
    match job.created {
        Some(seconds) if job.history.is_none() => {
            out.push(JOB_WITH_TIME);
            out.extend_from_slice(&seconds.to_le_bytes());
        }
        _ => out.push(if job.history.is_some() { JOB_WITH_HISTORY } else { JOB }),
    }
    push_number(out, job.id.0);
    let mut flags = encoding_code(job.payload.encoding) << ENCODING_SHIFT;
    flags |= priority_code(job.priority);
    flags |= if job.tie_break == TieBreak::Lifo { LIFO } else { 0 };
    flags |= if job.options.is_some() { HAS_OPTIONS } else { 0 };
    flags |= if job.expires.is_some() { EXPIRES } else { 0 };
    flags |= if job.state == INITIAL_STATE { 0 } else { HAS_STATE };
    out.push(flags);
    push_byte_string(out, job.queue);
    push_priority(out, job.priority);
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

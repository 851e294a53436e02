//! A record as a line of JSON.

mod dependencies;
mod schedule;
#[cfg(test)]
mod tests;

use crate::base::time::Mono;
use crate::journal::RecordLocation;
use crate::model::event::{EventLog, write_events};
use crate::model::id::JobId;
use crate::model::job::{Encoding, JobOptions, Payload, Priority, TieBreak};
use crate::model::snapshot::{
    PersistedKey, PersistedRun, PersistedStatus, PersistedWorker, Record, RunHistory, Snapshot,
    StatusSnapshot,
};
use crate::protocol::http::lightjq::messages::write_constraint;
use crate::wire::json::{push_number, push_string};
use crate::wire::msgpack::push_json;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use std::io::Write as _;
use std::time::{Duration, UNIX_EPOCH};

/// Appends the line of a record. Its times count nanoseconds since 1970. O(bytes).
pub(super) fn push(record: &Record<'_>, location: RecordLocation, out: &mut Vec<u8>) {
    let RecordLocation { epoch, offset, sequence } = location;
    let kind = match record {
        Record::Job(_) => "job",
        Record::State(..) => "state",
        Record::Deleted(_) => "gone",
        Record::Event(..) => "event",
        Record::Queue(..) => "queue",
        Record::Constraint(..) => "constraint",
        Record::Worker(..) => "worker",
        Record::Pause(..) => "pause",
        Record::Schedule(..) => "schedule",
        Record::PastKey(..) => "key",
        Record::PastRun(..) => "completed run",
        Record::Loss(..) => "loss",
    };
    push_raw(out, "{\"record\":\"");
    push_raw(out, kind);
    push_raw(out, "\",\"segment\":");
    push_number(out, epoch);
    push_number_field(out, "offset", offset);
    push_number_field(out, "batch", sequence);
    match record {
        Record::Job(job) => push_job(job, out),
        Record::State(id, state) => {
            push_number_field(out, "id", id.0);
            push_state(state, out);
        }
        Record::Deleted(id) => push_number_field(out, "id", id.0),
        Record::Event(id, version, event) => {
            push_number_field(out, "id", id.0);
            push_number_field(out, "version", *version);
            push_events(&EventLog::default().with(event.clone()), out);
        }
        Record::Queue(id, name) => {
            push_number_field(out, "id", id.0);
            push_queue(name, out);
        }
        Record::Constraint(id, constraint) => {
            push_number_field(out, "id", id.0);
            push_field_name(out, "name");
            push_string(out, constraint.name.as_bytes());
            let mut written = Vec::new();
            write_constraint(constraint, &mut written);
            push_field_name(out, "constraint");
            push_json(out, &written);
        }
        Record::Pause(id, queue, until) => {
            push_number_field(out, "id", id.0);
            push_queue(queue, out);
            if let Some(at) = *until {
                push_timestamp(out, "until", at);
            }
        }
        Record::Schedule(id, schedule, state) => {
            push_number_field(out, "id", id.0);
            schedule::push(schedule, state, out);
        }
        Record::PastKey(id, key) => push_past_key(*id, key, out),
        Record::PastRun(id, run) => push_past_run(*id, *run, out),
        Record::Loss(id, loss) => dependencies::push_loss(*id, *loss, out),
        Record::Worker(id, worker) => {
            push_number_field(out, "id", id.0);
            push_worker(worker, out);
        }
    }
    push_raw(out, "}\n");
}

fn push_past_key(id: JobId, key: &PersistedKey<'_>, out: &mut Vec<u8>) {
    push_number_field(out, "id", id.0);
    push_queue(key.queue, out);
    push_field_name(out, "key");
    push_string(out, key.bytes);
    push_number_field(out, "job", key.job.0);
    push_timestamp(out, "until", key.until);
}

/// The token stays secret: who knows it could speak for a worker.
fn push_past_run(id: JobId, run: PersistedRun, out: &mut Vec<u8>) {
    push_number_field(out, "id", id.0);
    push_number_field(out, "job", run.job.0);
    push_timestamp(out, "until", run.until);
}

fn push_raw(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Appends the name of a field; its value follows.
fn push_field_name(out: &mut Vec<u8>, name: &str) {
    push_raw(out, ",\"");
    push_raw(out, name);
    push_raw(out, "\":");
}

fn push_number_field(out: &mut Vec<u8>, name: &str, value: u64) {
    push_field_name(out, name);
    push_number(out, value);
}

fn push_timestamp(out: &mut Vec<u8>, name: &str, at: Mono) {
    push_field_name(out, name);
    let at = UNIX_EPOCH + Duration::from_nanos(at.0);
    write!(out, "\"{}\"", humantime::format_rfc3339_millis(at))
        .expect("writing to a vector does not fail");
}

fn push_job(job: &Snapshot<'_>, out: &mut Vec<u8>) {
    push_number_field(out, "id", job.id.0);
    if let Some(name) = job.name {
        push_field_name(out, "uuid");
        push_string(out, name);
    }
    push_queue(job.queue, out);
    if let Some((key, ttl_ms)) = job.key {
        push_field_name(out, "key");
        push_string(out, key);
        push_number_field(out, "key_ttl", ttl_ms);
    }
    push_field_name(out, "pri");
    match job.priority {
        Priority::Small(number) => push_number(out, number),
        Priority::Big(digits) => push_raw(out, digits),
        Priority::Unselected => push_raw(out, "null"),
    }
    if job.tie_break == TieBreak::Lifo {
        push_raw(out, ",\"turn\":\"newest-first\"");
    }
    push_payload("job", job.payload, out);
    if let Some(options) = &job.options {
        push_options(options, out);
    }
    if let Some(at) = job.expires {
        push_timestamp(out, "expires", at);
    }
    push_state(&job.state, out);
    if let Some(dependencies) = &job.dependencies {
        dependencies::push(dependencies, out);
    }
    if let Some(history) = &job.history {
        push_field_name(out, "user_state");
        push_json_on_one_line(history.state, out);
        push_number_field(out, "modified", history.modified);
        push_number_field(out, "version", history.version);
        push_events(&history.events, out);
    }
}

fn push_queue(name: &[u8], out: &mut Vec<u8>) {
    push_field_name(out, "queue");
    push_string(out, name);
    if std::str::from_utf8(name).is_err() {
        push_field_name(out, "queue_base64");
        push_base64(name, out);
    }
}

fn push_worker(worker: &PersistedWorker<'_>, out: &mut Vec<u8>) {
    for (name, value) in [("name", worker.name), ("url", worker.url)] {
        push_field_name(out, name);
        push_string(out, value.as_bytes());
    }
    push_number_field(out, "max_jobs", worker.max_jobs.into());
    if let Some(queues) = &worker.queues {
        push_raw(out, ",\"queues\":[");
        for (index, name) in queues.iter().enumerate() {
            push_raw(out, if index == 0 { "" } else { "," });
            push_string(out, name);
        }
        push_raw(out, "]");
    }
}

fn push_events(events: &EventLog, out: &mut Vec<u8>) {
    let mut written = Vec::new();
    write_events(events, &mut written);
    push_field_name(out, "events");
    push_json_on_one_line(&written, out);
}

/// Appends JSON text with the line ends between its tokens replaced by spaces.
fn push_json_on_one_line(json: &[u8], out: &mut Vec<u8>) {
    let without_line_end = |&byte: &u8| if byte == b'\n' || byte == b'\r' { b' ' } else { byte };
    out.extend(json.iter().map(without_line_end));
}

fn push_options(options: &JobOptions, out: &mut Vec<u8>) {
    let durations_ms = [
        ("ttr_ms", options.lease_ms),
        ("keep_ms", options.result_retention_ms),
        ("bury_ms", options.dead_retention_ms),
    ];
    for (name, ms) in durations_ms.into_iter().filter(|&(_, ms)| ms > 0) {
        push_number_field(out, name, ms);
    }
    if let Some(retry) = &options.retry {
        push_raw(out, ",\"retry\":{\"limit\":");
        push_number(out, retry.limit);
        push_number_field(out, "first_ms", retry.first_ms);
        push_number_field(out, "factor", retry.factor.into());
        push_number_field(out, "max_ms", retry.max_ms);
        push_number_field(out, "jitter_percent", retry.jitter_percent.into());
        push_raw(out, "}");
    }
    if options.max_attempts > 0 {
        push_number_field(out, "max_attempts", options.max_attempts.into());
    }
    for (name, set) in [("followed", options.tracked), ("fetch_once", options.result_once)] {
        if set {
            push_field_name(out, name);
            push_raw(out, "true");
        }
    }
}

fn push_state(state: &StatusSnapshot<'_>, out: &mut Vec<u8>) {
    let (name, until) = match state.stage {
        PersistedStatus::Waiting => ("waiting", None),
        PersistedStatus::Running { until, .. } => ("running", until),
        PersistedStatus::Leased { until, .. } => ("leased", Some(until)),
        PersistedStatus::Delayed(at) => ("delayed", Some(at)),
        PersistedStatus::Completed(at) => ("kept", Some(at)),
        PersistedStatus::Buried { until, .. } => ("buried", until),
    };
    push_field_name(out, "state");
    push_string(out, name.as_bytes());
    if let Some(at) = until {
        push_timestamp(out, "until", at);
    }
    if let PersistedStatus::Buried { number: number @ 1.., .. } = state.stage {
        push_number_field(out, "burial", number.into());
    }
    if let PersistedStatus::Running { worker, lease, .. } = state.stage {
        push_number_field(out, "worker", worker.0);
        push_number_field(out, "lease", lease.0.into());
    }
    if let PersistedStatus::Leased { token, since, worker, .. } = state.stage {
        push_field_name(out, "token");
        push_string(out, format!("{:016x}", token.0).as_bytes());
        push_number_field(out, "since_ms", since.0);
        push_field_name(out, "worker");
        push_string(out, worker.as_bytes());
    }
    if state.retries > 0 {
        push_number_field(out, "retries", state.retries.into());
    }
    if let Some(result) = state.result {
        push_payload("result", result, out);
    }
    if let Some(message) = state.message {
        push_field_name(out, "message");
        push_string(out, message.as_bytes());
    }
    if let Some(progress) = state.progress {
        push_field_name(out, "progress");
        write!(out, "{progress}").expect("writing to a vector does not fail");
    }
    if let Some(runs) = &state.runs {
        push_runs(runs, out);
    }
}

fn push_runs(runs: &RunHistory<'_>, out: &mut Vec<u8>) {
    push_number_field(out, "attempts", runs.attempts.into());
    if let Some((kind, message, at)) = runs.error {
        for (name, text) in [("error", kind), ("error_message", message)] {
            push_field_name(out, name);
            push_string(out, text.as_bytes());
        }
        push_number_field(out, "error_at_ms", at.0);
    }
    if let Some(message) = runs.progress_message {
        push_field_name(out, "progress_message");
        push_string(out, message.as_bytes());
    }
    if let Some(token) = runs.completed_by {
        push_field_name(out, "completed_by");
        push_string(out, format!("{:016x}", token.0).as_bytes());
    }
}

/// Appends JSON as JSON, and anything else as the Job Centre protocol encodes it.
fn push_payload(name: &str, payload: Payload<'_>, out: &mut Vec<u8>) {
    push_field_name(out, name);
    match payload.encoding {
        Encoding::MsgPack => push_json(out, payload.bytes),
        Encoding::Json | Encoding::JsonLine => push_json_on_one_line(payload.bytes, out),
        encoding @ (Encoding::Packet { .. } | Encoding::Bytes) => {
            let (key, packet) = payload.bytes.split_at(usize::from(encoding.key_len()));
            push_raw(out, "{\"key\":");
            push_base64(key, out);
            push_raw(out, ",\"payload\":");
            push_base64(packet, out);
            push_raw(out, "}");
        }
    }
}

fn push_base64(bytes: &[u8], out: &mut Vec<u8>) {
    push_raw(out, "\"");
    push_raw(out, &BASE64_STANDARD.encode(bytes));
    push_raw(out, "\"");
}

//! Jobs as JSON.

use super::answer::Style;
use crate::base::time::Wall;
use crate::model::id::JobId;
use crate::model::job::{Encoding, OwnedPriority, Payload, Retry};
use crate::model::manage::{BlockedBy, JobDetails, JobTerms, LeaseDetails};
use crate::wire::json::{push_number, push_string};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use memchr::memchr;

const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));

/// Writes a moment as a string. Times beyond the year 9999 become its end.
pub(super) fn push_moment(out: &mut Vec<u8>, at: Wall) {
    let moment = i64::try_from(at.0).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    out.push(b'"');
    let text = PRINTER.timestamp_to_string(&moment.unwrap_or(Timestamp::MAX));
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// Writes `,"name":`, or without the comma behind an opening brace.
pub(super) fn push_name(out: &mut Vec<u8>, name: &str) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

pub(super) fn push_text(out: &mut Vec<u8>, name: &str, text: Option<&[u8]>) {
    push_name(out, name);
    match text {
        Some(text) => push_string(out, text),
        None => out.extend_from_slice(b"null"),
    }
}

pub(super) fn push_time(out: &mut Vec<u8>, name: &str, at: Option<Wall>) {
    push_name(out, name);
    match at {
        Some(at) => push_moment(out, at),
        None => out.extend_from_slice(b"null"),
    }
}

pub(super) fn push_count(out: &mut Vec<u8>, name: &str, number: impl itoa::Integer) {
    push_name(out, name);
    push_number(out, number);
}

pub(super) fn push_flag(out: &mut Vec<u8>, name: &str, flag: bool) {
    push_name(out, name);
    out.extend_from_slice(if flag { b"true" } else { b"false" });
}

/// Writes JSON or MessagePack as JSON on one line. Returns false for other bytes, and writes
/// nothing.
fn push_value(out: &mut Vec<u8>, encoding: Encoding, bytes: &[u8]) -> bool {
    match encoding {
        Encoding::Json => push_in_line(bytes, out),
        Encoding::JsonLine => out.extend_from_slice(bytes),
        Encoding::MsgPack => crate::wire::msgpack::push_json(out, bytes),
        Encoding::Packet { .. } | Encoding::Bytes => return false,
    }
    true
}

/// Writes a JSON text on one line.
pub(super) fn push_in_line(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some(end) = memchr(b'\n', text) {
        out.extend_from_slice(&text[..end]);
        out.push(b' ');
        text = &text[end + 1..];
    }
    out.extend_from_slice(text);
}

fn push_payload(out: &mut Vec<u8>, name: &str, encoding: Encoding, bytes: &[u8]) {
    push_name(out, name);
    if push_value(out, encoding, bytes) {
        return;
    }
    out.extend_from_slice(b"null");
    let (key, payload) = bytes.split_at(usize::from(encoding.key_len()));
    push_text(out, "payload_base64", Some(BASE64_STANDARD.encode(payload).as_bytes()));
    if let Encoding::Packet { .. } = encoding {
        push_text(out, "packet_key_base64", Some(BASE64_STANDARD.encode(key).as_bytes()));
    }
}

/// Writes the members of a reserved job as lines show it.
pub(super) fn push_reserved(
    out: &mut Vec<u8>,
    id: JobId,
    queue: &[u8],
    priority: &OwnedPriority,
    payload: Payload<'_>,
) {
    push_count(out, "id", id.0);
    push_payload(out, "job", payload.encoding, payload.bytes);
    push_priority(out, priority);
    push_text(out, "queue", Some(queue));
}

fn push_priority(out: &mut Vec<u8>, priority: &OwnedPriority) {
    push_name(out, "pri");
    match priority {
        OwnedPriority::Number(number) => push_number(out, *number),
        OwnedPriority::Beyond(digits) => out.extend_from_slice(digits.as_bytes()),
        OwnedPriority::Never => out.extend_from_slice(b"null"),
    }
}

/// Writes the members of a job behind an opening brace.
pub(super) fn push_job(out: &mut Vec<u8>, job: &JobDetails, style: Style) {
    push_count(out, "id", job.id.0);
    push_text(out, "queue", Some(&job.queue));
    push_text(out, "state", Some(job.state.name().as_bytes()));
    push_priority(out, &job.priority);
    let name = if style == Style::Http { "payload" } else { "job" };
    push_payload(out, name, job.encoding, &job.payload);
    push_time(out, "created_at", Some(job.created_at));
    push_time(out, "available_at", Some(job.available_at));
    push_time(out, "expires_at", job.expires_at);
    push_count(out, "attempts", job.attempts);
    push_name(out, "max_attempts");
    match job.max_attempts {
        Some(most) => push_number(out, most),
        None => out.extend_from_slice(b"null"),
    }
    push_lease(out, job.lease.as_ref());
    push_last_error(out, job);
    push_name(out, "progress");
    match job.progress {
        Some(progress) => out.extend_from_slice(progress.to_string().as_bytes()),
        None => out.extend_from_slice(b"null"),
    }
    push_text(out, "progress_message", job.progress_message.as_ref().map(|text| text.as_bytes()));
    push_result(out, job);
    push_text(out, "key", job.key.as_deref());
    push_text(out, "group", job.group.as_deref());
    push_name(out, "after");
    out.push(b'[');
    for (number, id) in job.after.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        push_number(out, id.0);
    }
    out.push(b']');
    let blocked_by = job.blocked_by.as_ref().map(|by| match by {
        BlockedBy::Constraint(name) => format!("constraint {name}"),
        BlockedBy::Dependency => "dependency".to_owned(),
    });
    push_text(out, "blocked_by", blocked_by.as_ref().map(String::as_bytes));
    if let Some(terms) = &job.terms {
        push_terms(out, terms);
    }
    push_token(out, job);
}

/// Writes `"token":` of a lease that was given just now.
pub(super) fn push_token(out: &mut Vec<u8>, job: &JobDetails) {
    if let Some(token) = job.lease.as_ref().and_then(|lease| lease.token) {
        push_text(out, "token", Some(format!("{:016x}", token.0).as_bytes()));
    }
}

/// Writes the members that stand behind those that a list shows.
fn push_terms(out: &mut Vec<u8>, terms: &JobTerms) {
    push_name(out, "ttr_ms");
    match terms.options.lease_ms {
        0 => out.extend_from_slice(b"null"),
        ms => push_number(out, ms),
    }
    push_backoff(out, terms.options.retry.as_ref());
    push_count(out, "keep_result_ms", terms.options.result_retention_ms);
    push_count(out, "key_ttl_ms", terms.key_ttl_ms);
    push_text(out, "after_group", terms.after_group.as_deref());
    let if_lost: &[u8] = if terms.runs_if_lost { b"run" } else { b"cancel" };
    push_text(out, "on_dependency_lost", Some(if_lost));
    push_time(out, "kept_until", terms.kept_until);
    push_lightjq(out, terms);
    if let Some(history) = &terms.history {
        push_name(out, "history");
        out.push(b'[');
        for (place, past) in history.iter().enumerate() {
            out.extend_from_slice(if place > 0 { b",{".as_slice() } else { b"{" });
            push_text(out, "event", Some(past.event.as_bytes()));
            push_time(out, "at", Some(past.at));
            out.push(b'}');
        }
        out.push(b']');
    }
}

/// Writes what a job of LightJQ has beside the others: its retries, and how long it is kept when
/// they are used up.
fn push_lightjq(out: &mut Vec<u8>, terms: &JobTerms) {
    let options = &terms.options;
    if !options.tracked {
        return;
    }
    push_name(out, "lightjq");
    out.push(b'{');
    push_count(out, "max_retry", options.retry.map_or(0, |retry| retry.limit));
    push_count(out, "retries", terms.retries);
    push_count(out, "keep_buried_ms", options.dead_retention_ms);
    push_flag(out, "result_once", options.result_once);
    out.push(b'}');
}

fn push_backoff(out: &mut Vec<u8>, retry: Option<&Retry>) {
    push_name(out, "backoff");
    let Some(retry) = retry else { return out.extend_from_slice(b"null") };
    out.push(b'{');
    let kind: &[u8] = if retry.factor <= 1 { b"fixed" } else { b"exponential" };
    push_text(out, "kind", Some(kind));
    push_count(out, "first_ms", retry.first_ms);
    push_count(out, "max_ms", retry.max_ms);
    push_name(out, "jitter");
    let jitter = f64::from(retry.jitter_percent) / 100.0;
    out.extend_from_slice(jitter.to_string().as_bytes());
    out.push(b'}');
}

/// Writes `"last_error":`.
pub(super) fn push_last_error(out: &mut Vec<u8>, job: &JobDetails) {
    push_name(out, "last_error");
    match &job.last_error {
        Some(error) => {
            out.push(b'{');
            push_text(out, "error", Some(error.error.as_bytes()));
            push_text(out, "message", Some(error.message.as_bytes()));
            push_time(out, "at", error.at);
            out.push(b'}');
        }
        None => out.extend_from_slice(b"null"),
    }
}

/// Writes `"result":`.
pub(super) fn push_result(out: &mut Vec<u8>, job: &JobDetails) {
    push_name(out, "result");
    let written =
        job.result.as_ref().is_some_and(|(encoding, bytes)| push_value(out, *encoding, bytes));
    if !written {
        out.extend_from_slice(b"null");
    }
}

fn push_lease(out: &mut Vec<u8>, lease: Option<&LeaseDetails>) {
    push_name(out, "lease");
    let Some(lease) = lease else { return out.extend_from_slice(b"null") };
    out.push(b'{');
    push_text(out, "worker", lease.worker.as_ref().map(|text| text.as_bytes()));
    push_text(out, "protocol", Some(lease.protocol.as_bytes()));
    push_time(out, "since", lease.since);
    push_time(out, "until", lease.until);
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moment_beyond_the_year_9999_is_shown_as_its_end() {
        let shown = |ms| {
            let mut shown = Vec::new();
            push_moment(&mut shown, Wall(ms));
            String::from_utf8(shown).unwrap()
        };
        let end = 253_402_207_200_999;
        assert_eq!(shown(0), "\"1970-01-01T00:00:00.000Z\"");
        assert_eq!(shown(951_827_696_007), "\"2000-02-29T12:34:56.007Z\"");
        assert_eq!(shown(end), "\"9999-12-30T22:00:00.999Z\"");
        assert_eq!([shown(end + 1), shown(u64::MAX)], [shown(end), shown(end)]);
    }
}

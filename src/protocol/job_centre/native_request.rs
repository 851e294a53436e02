//! Frequent requests of the native API: made of the values that the parser of the protocol's own
//! requests has found. A line that says more, or something wrong, is left to the operations, which
//! parse it once more.
//!
//! Invariant: a command that is made here is what the operations make of its line, or answered in
//! the same way.

use super::request_fields::{self, Values};
use crate::base::api_limits::{KEY_MAX_BYTES, KEY_TTL_MAX_MS};
use crate::model::command::Command;
use crate::model::id::JobId;
use crate::model::job::{Encoding, JobOptions, Priority, Retry};
use crate::model::manage::{ManageCommand, NewJob, NewKey, OnDuplicate, RunReport};
use crate::protocol::operations::{DURATION_MAX_MS, ERROR_MAX_BYTES};
use crate::wire::json::{Integer, Value};
use std::ops::RangeInclusive;

/// What the command of the line that is being submitted borrows.
#[derive(Debug, Default)]
pub(in crate::protocol) struct NativeScratch {
    job: Option<NewJob>,
    report: Option<RunReport>,
}

/// A put that has nothing of the native API but a limit of attempts and a key.
#[cold]
pub(super) fn put<'a>(values: &Values<'a>, scratch: &'a mut NativeScratch) -> Option<Command<'a>> {
    if !request_fields::all_absent(values, &[request_fields::NATIVE, request_fields::LIMIT]) {
        return None;
    }
    let (Value::String(queue), Value::Object(payload), Value::Integer(priority)) =
        (values[request_fields::QUEUE], values[request_fields::JOB], values[request_fields::PRI])
    else {
        return None;
    };
    let priority = match priority {
        Integer::Small(number) => Priority::Small(number),
        Integer::Large(digits) => Priority::Big(digits),
        Integer::Negative => return None,
    };
    let key_ttl_ms = number(values[request_fields::KEY_TTL], 0..=KEY_TTL_MAX_MS)?;
    let key = match values[request_fields::KEY] {
        Value::String(key) if (1..=KEY_MAX_BYTES).contains(&key.len()) => {
            let (bytes, ttl_ms) = (key.as_bytes().into(), key_ttl_ms.unwrap_or(0));
            Some(Box::new(NewKey { bytes, ttl_ms, on_duplicate: OnDuplicate::default() }))
        }
        Value::Absent if key_ttl_ms.is_none() => None,
        _ => return None,
    };
    let most = number(values[request_fields::MAX_ATTEMPTS], 1..=u64::from(u32::MAX))?;
    let max_attempts = u32::try_from(most.unwrap_or(0)).ok()?;
    let options = JobOptions {
        delay_ms: duration(values[request_fields::DELAY])?.unwrap_or(0),
        ttl_ms: duration(values[request_fields::TTL])?.unwrap_or(0),
        lease_ms: duration(values[request_fields::TTR])?.unwrap_or(0),
        retry: Some(Retry::DEFAULT),
        max_attempts,
        ..JobOptions::default()
    };
    let job = NewJob {
        priority: priority.into(),
        encoding: Encoding::JsonLine,
        payload: payload.into(),
        options,
        key,
        dependencies: None,
    };
    let jobs = std::slice::from_ref(scratch.job.insert(job));
    Some(Command::Manage(ManageCommand::PutMany { queue: queue.as_bytes(), jobs }))
}

/// What became of a job that the connection holds; `members`: how many the line has.
#[cold]
pub(super) fn report<'a>(
    values: &Values<'a>,
    members: Option<usize>,
    scratch: &'a mut NativeScratch,
) -> Option<Command<'a>> {
    let Value::String(name) = values[request_fields::REQUEST] else { return None };
    let (report, fields): (_, &[usize]) = match name {
        "done" => {
            let result = match values[request_fields::RESULT] {
                Value::Absent => None,
                Value::Object(text) => Some((Encoding::Json, text.into())),
                _ => return None,
            };
            (RunReport::Complete { result }, &[request_fields::RESULT])
        }
        "fail" => {
            let report = RunReport::Fail {
                error: text(values[request_fields::ERROR])?.unwrap_or("Error").into(),
                message: text(values[request_fields::MESSAGE])?.unwrap_or_default().into(),
                retry: match values[request_fields::RETRY] {
                    Value::Absent => true,
                    Value::Bool(retry) => retry,
                    _ => return None,
                },
                delay_ms: duration(values[request_fields::DELAY])?,
            };
            let fields = &[
                request_fields::ERROR,
                request_fields::MESSAGE,
                request_fields::RETRY,
                request_fields::DELAY,
            ];
            (report, fields)
        }
        "touch" => {
            let ttr_ms = number(values[request_fields::TTR], 1..=DURATION_MAX_MS)?;
            (RunReport::Touch { ttr_ms }, &[request_fields::TTR])
        }
        _ => return None,
    };
    let Value::Integer(Integer::Small(id)) = values[request_fields::ID] else { return None };
    // Each member is one of these, and there once.
    let own = fields.iter().filter(|&&field| values[field] != Value::Absent).count();
    if members != Some(2 + own) {
        return None;
    }
    let report = scratch.report.insert(report);
    let id = JobId(id.unsigned_abs());
    Some(Command::Manage(ManageCommand::Report { id, token: None, report }))
}

/// A number in a range, or none. `None`: something else.
#[expect(clippy::option_option, reason = "left out, said, or wrong")]
fn number(value: Value<'_>, range: RangeInclusive<u64>) -> Option<Option<u64>> {
    match value {
        Value::Absent => Some(None),
        Value::Integer(Integer::Small(number)) => {
            Some(number.unsigned_abs()).filter(|number| range.contains(number)).map(Some)
        }
        _ => None,
    }
}

#[expect(clippy::option_option, reason = "left out, said, or wrong")]
fn duration(value: Value<'_>) -> Option<Option<u64>> {
    number(value, 0..=DURATION_MAX_MS)
}

/// A text that is not cut, or none. `None`: something else.
#[expect(clippy::option_option, reason = "left out, said, or wrong")]
fn text(value: Value<'_>) -> Option<Option<&str>> {
    match value {
        Value::Absent => Some(None),
        Value::String(text) if text.len() <= ERROR_MAX_BYTES => Some(Some(text)),
        _ => None,
    }
}

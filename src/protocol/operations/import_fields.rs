//! A line of an import as a job.

use super::field_names::IMPORT_FIELDS;
use super::fields::{DURATION_MAX_MS, Fields};
use super::problem::Problem;
use super::put_fields::{backoff, dependencies, payload, priority};
use crate::base::api_limits::{ATTEMPTS_DEFAULT, KEY_MAX_BYTES, KEY_TTL_MAX_MS, TTR_DEFAULT_MS};
use crate::base::time::{Now, Wall};
use crate::model::id::JobId;
use crate::model::job::{Encoding, JobOptions, OwnedPriority, Priority, Retry};
use crate::model::manage::{ErrorDetails, JobState, NewJob, NewKey, OnDuplicate};
use crate::model::transfer::{ImportedJob, ImportedStage};

/// The job of a line, and the id that it had; `after` has ids of the other server. O(line).
pub(super) fn imported_job(line: &[u8], now: Now) -> Result<(Option<JobId>, ImportedJob), Problem> {
    let fields = Fields::of_object(line, IMPORT_FIELDS)?;
    let fields = &fields;
    let queue = fields.string("queue")?;
    let queue = queue.ok_or_else(|| Problem::missing("queue", "a string"))?;
    let words = JobState::ALL.map(|state| (state.name(), state));
    let state = fields.word("state", &words)?.unwrap_or(JobState::Ready);
    let (encoding, payload) = payload(fields)?;
    let priority = line_priority(fields, encoding)?;
    let (options, retries) = lightjq(fields, options(fields, state, now)?)?;
    let key = key(fields)?;
    let attempts = fields.integer("attempts", 0_u32, u32::MAX)?.unwrap_or(0);
    // The run under way ends with the server, as at a restart.
    let attempts = attempts.saturating_sub(u32::from(state == JobState::Reserved));
    let is_now = stage_of(fields, state, &options, now)?;
    let dependencies = dependencies(fields)?;
    // Both are of the run under way.
    fields.fraction("progress")?;
    fields.string("progress_message")?;
    let other = fields.text("id").and_then(|text| text.parse().ok()).map(JobId);
    let waits = waits(fields, state, attempts);
    let imported = ImportedJob {
        id: None,
        queue: queue.into_bytes().into(),
        job: NewJob { priority, encoding, payload, options, key, dependencies },
        after_here: Box::default(),
        waits,
        created_at: fields.moment("created_at")?.map(Wall),
        stage: is_now,
        // Of a job of LightJQ it follows from the retries.
        attempts: if options.tracked && options.max_attempts == 0 { 0 } else { attempts },
        retries,
        last_error: last_error(fields)?,
    };
    Ok((other, imported))
}

/// Whether a job waits for what it was put after. One that was let go waits for nothing more,
/// though a group may have unfinished members again; a job without a state is as one that is put.
fn waits(fields: &Fields<'_>, state: JobState, attempts: u32) -> bool {
    match state {
        JobState::Blocked => {
            fields.text("blocked_by").is_none_or(|text| !text.starts_with("\"constraint "))
        }
        // It had no attempt: it may have been buried while it was blocked.
        JobState::Buried => attempts == 0,
        JobState::Ready => !fields.is_there("state"),
        JobState::Scheduled | JobState::Reserved | JobState::Completed => false,
    }
}

/// A priority of any protocol, as it is shown; of a packet `null` is none.
fn line_priority(fields: &Fields<'_>, encoding: Encoding) -> Result<OwnedPriority, Problem> {
    match fields.text("pri") {
        None if matches!(encoding, Encoding::Packet { .. }) => Ok(OwnedPriority::Never),
        None => Ok(priority(0)),
        Some(text) if text.len() > 18 && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(Priority::from_digits(text).into())
        }
        Some(_) => {
            Ok(fields.integer("pri", i64::MIN, i64::MAX)?.map_or_else(|| priority(0), priority))
        }
    }
}

/// What is left of a time until a moment, in milliseconds.
fn left(at: u64, now: Now) -> u64 {
    at.saturating_sub(now.wall.0).min(DURATION_MAX_MS)
}

/// The options of the job. A limit that is `null` is none.
fn options(fields: &Fields<'_>, state: JobState, now: Now) -> Result<JobOptions, Problem> {
    let unlimited = |default, raw: Option<&str>| if raw == Some("null") { 0 } else { default };
    let default = unlimited(TTR_DEFAULT_MS, fields.raw("ttr_ms"));
    // Other protocols give longer ones than a put of the native API.
    let lease_ms = fields.integer("ttr_ms", 1_u64, u64::MAX)?.unwrap_or(default);
    let raw = fields.raw("max_attempts");
    let default = if raw == Some("null") { 0 } else { ATTEMPTS_DEFAULT };
    let max_attempts = fields.integer("max_attempts", 1, u32::MAX)?.unwrap_or(default);
    let has_backoff = fields.raw("backoff") != Some("null");
    let retry = if has_backoff { Some(backoff(fields)?) } else { None };
    let available = fields.moment("available_at")?;
    let is_delayed = matches!(state, JobState::Scheduled | JobState::Blocked);
    let delay_ms = available.filter(|_| is_delayed).map_or(0, |at| left(at, now));
    // One that is over already ends at once.
    let ttl_ms = fields.moment("expires_at")?.map_or(0, |at| left(at, now).max(1));
    let result_retention_ms = fields.integer("keep_result_ms", 0_u64, u64::MAX)?.unwrap_or(0);
    Ok(JobOptions {
        delay_ms,
        ttl_ms,
        lease_ms,
        retry,
        result_retention_ms,
        max_attempts,
        ..JobOptions::default()
    })
}

/// The options of a job of LightJQ, and its retries so far.
fn lightjq(fields: &Fields<'_>, options: JobOptions) -> Result<(JobOptions, u32), Problem> {
    let known = &["max_retry", "retries", "keep_buried_ms", "result_once"];
    let Some(own) = fields.object("lightjq", known)? else { return Ok((options, 0)) };
    let limit = own.integer("max_retry", 0, u32::MAX)?.unwrap_or(0);
    let retries = own.integer("retries", 0, u32::MAX)?.unwrap_or(0);
    let options = JobOptions {
        retry: Some(Retry { limit, ..options.retry.unwrap_or(Retry::DEFAULT) }),
        dead_retention_ms: own.integer("keep_buried_ms", 0_u64, u64::MAX)?.unwrap_or(0),
        tracked: true,
        result_once: own.bool("result_once")?.unwrap_or(true),
        ..options
    };
    Ok((options, retries))
}

/// The key: a job whose key is taken is not added, and changes nothing.
fn key(fields: &Fields<'_>) -> Result<Option<Box<NewKey>>, Problem> {
    let ttl_ms = fields.duration_between("key_ttl_ms", 0, KEY_TTL_MAX_MS)?.unwrap_or(0);
    let key = fields.short_string("key", KEY_MAX_BYTES)?;
    Ok(key.map(|key| {
        let bytes = key.into_bytes().into();
        Box::new(NewKey { bytes, ttl_ms, on_duplicate: OnDuplicate::Reject })
    }))
}

fn stage_of(
    fields: &Fields<'_>,
    state: JobState,
    options: &JobOptions,
    now: Now,
) -> Result<ImportedStage, Problem> {
    let kept_until = fields.moment("kept_until")?;
    // One whose time is over already ends at once.
    let kept_ms = |else_ms| kept_until.map_or(else_ms, |at| left(at, now).max(1));
    let result = fields.text("result");
    Ok(match state {
        JobState::Buried => {
            ImportedStage::Buried(Some(kept_ms(options.dead_retention_ms)).filter(|&ms| ms > 0))
        }
        JobState::Completed => {
            let result = result.map(|text| (Encoding::Json, text.as_bytes().into()));
            let kept_ms = kept_ms(options.result_retention_ms).max(1);
            ImportedStage::Completed { result, kept_ms }
        }
        _ => ImportedStage::Waiting,
    })
}

fn last_error(fields: &Fields<'_>) -> Result<Option<ErrorDetails>, Problem> {
    let Some(last) = fields.object("last_error", &["error", "message", "at"])? else {
        return Ok(None);
    };
    Ok(Some(ErrorDetails {
        error: last.string("error")?.unwrap_or_else(|| "Error".to_owned()).into(),
        message: last.string("message")?.unwrap_or_default().into(),
        at: last.moment("at")?.map(Wall),
    }))
}

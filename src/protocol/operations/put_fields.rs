//! The fields of a put.

use super::field_names::PUT_FIELDS;
use super::fields::{DURATION_MAX_MS, Fields};
use super::problem::Problem;
use crate::base::api_limits::{
    ATTEMPTS_DEFAULT, DEPENDENCIES_MAX, GROUP_NAME_MAX_BYTES, KEY_MAX_BYTES, KEY_TTL_MAX_MS,
    TTR_DEFAULT_MS,
};
use crate::base::limits::PACKET_MAX_BYTES;
use crate::base::time::Now;
use crate::model::job::{Encoding, JobOptions, OwnedPriority, Retry};
use crate::model::manage::{NewDependencies, NewJob, NewKey, OnDuplicate};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use std::collections::BTreeSet;

/// A priority of the API. The first and the last one are kept as digits.
pub(super) fn priority(number: i64) -> OwnedPriority {
    match number {
        i64::MIN | i64::MAX => OwnedPriority::Beyond(number.to_string().into()),
        _ => OwnedPriority::Number(number),
    }
}

/// The job of a put.
pub(super) fn new_job(body: &[u8], now: Now) -> Result<NewJob, Problem> {
    job_of(&Fields::of_object(body, PUT_FIELDS)?, now)
}

/// The job of the fields of a put, or of those of them that are known.
pub(super) fn job_of(fields: &Fields<'_>, now: Now) -> Result<NewJob, Problem> {
    let (encoding, payload) = payload(fields)?;
    let number = fields.integer("pri", i64::MIN, i64::MAX)?.unwrap_or(0);
    let delay_ms = delay(fields, now)?.unwrap_or(0);
    let options = options(fields, delay_ms, (TTR_DEFAULT_MS, ATTEMPTS_DEFAULT))?;
    let (key, dependencies) = (key(fields)?, dependencies(fields)?);
    Ok(NewJob { priority: priority(number), encoding, payload, options, key, dependencies })
}

/// The job of a put as a line: with the defaults of the protocol where it has any.
pub(super) fn new_line_job(fields: &Fields<'_>) -> Result<NewJob, Problem> {
    let (encoding, payload) = line_payload(fields)?;
    let priority = fields.line_priority("pri")?;
    let delay_ms = fields.duration("delay_ms")?.unwrap_or(0);
    let options = options(fields, delay_ms, (0, 0))?;
    let (key, dependencies) = (key(fields)?, dependencies(fields)?);
    Ok(NewJob { priority, encoding, payload, options, key, dependencies })
}

/// `job`, an object; `payload`, any JSON; or `payload_base64`, any bytes.
fn line_payload(fields: &Fields<'_>) -> Result<(Encoding, Box<[u8]>), Problem> {
    let (job, json) = (fields.raw("payload"), fields.raw("any_payload"));
    match (job, json, fields.string("payload_base64")?) {
        (Some(job), None, None) if job.starts_with('{') => {
            Ok((Encoding::JsonLine, job.as_bytes().into()))
        }
        (Some(_), None, None) => Err(Problem::wrong("job", "an object")),
        (None, Some(json), None) => Ok((Encoding::JsonLine, json.as_bytes().into())),
        (None, None, Some(text)) => {
            Ok((Encoding::Bytes, decoded(fields, "payload_base64", &text)?.into()))
        }
        (None, None, None) => Err(Problem::missing("job", "an object")),
        _ => {
            let wanted = "the only one of 'job', 'payload' and 'payload_base64'";
            let given = if json.is_some() { "payload" } else { "payload_base64" };
            Err(Problem::wrong(given, wanted))
        }
    }
}

/// The lease in milliseconds and the most attempts of a put that says none: 0 for none.
fn options(
    fields: &Fields<'_>,
    delay_ms: u64,
    (default_lease_ms, default_attempts): (u64, u32),
) -> Result<JobOptions, Problem> {
    let retry = backoff(fields)?;
    let max_attempts = fields.integer("max_attempts", 1, u32::MAX)?.unwrap_or(default_attempts);
    // In a line 0 is as good as none.
    let least = u64::from(!fields.is_line());
    let ttl_ms = fields.duration_between("ttl_ms", least, DURATION_MAX_MS)?.unwrap_or(0);
    let lease_ms =
        fields.duration_between("ttr_ms", least, DURATION_MAX_MS)?.unwrap_or(default_lease_ms);
    let result_retention_ms = fields.duration("keep_result_ms")?.unwrap_or(0);
    let retry = Some(retry);
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

/// `payload`, any JSON, or `payload_base64`, any bytes; with `packet_key_base64` a packet.
pub(super) fn payload(fields: &Fields<'_>) -> Result<(Encoding, Box<[u8]>), Problem> {
    let json = fields.raw("payload");
    let base64 = fields.string("payload_base64")?;
    let knows_key = fields.knows("packet_key_base64");
    let key = if knows_key { fields.string("packet_key_base64")? } else { None };
    match (json, base64, key) {
        (Some(json), None, None) => Ok((Encoding::Json, json.as_bytes().into())),
        (None | Some("null"), Some(text), key) => {
            let bytes = decoded(fields, "payload_base64", &text)?;
            let Some(key) = key else { return Ok((Encoding::Bytes, bytes.into())) };
            let key = decoded(fields, "packet_key_base64", &key)?;
            let wanted = "a key that, with the payload, has at most 65535 bytes";
            packet(&key, &bytes).ok_or_else(|| fields.wrong("packet_key_base64", wanted))
        }
        (Some(_), Some(_), _) => {
            Err(fields.wrong("payload_base64", "left out where 'payload' is said"))
        }
        (_, None, Some(_)) => {
            let wanted = "left out where no 'payload_base64' is said";
            Err(fields.wrong("packet_key_base64", wanted))
        }
        (None, None, None) => {
            Err(Problem::missing(&fields.name("payload"), "any JSON, or say 'payload_base64'"))
        }
    }
}

/// A packet, if it is not too large for one.
fn packet(key: &[u8], payload: &[u8]) -> Option<(Encoding, Box<[u8]>)> {
    let packet = [key, payload].concat();
    let fits = packet.len() <= PACKET_MAX_BYTES;
    let key_len = u16::try_from(key.len()).ok().filter(|_| fits)?;
    Some((Encoding::Packet { key_len }, packet.into()))
}

/// The bytes of a text in base64.
fn decoded(fields: &Fields<'_>, field: &str, text: &str) -> Result<Vec<u8>, Problem> {
    let wanted = "base64 with padding (RFC 4648)";
    BASE64_STANDARD.decode(text).map_err(|_| fields.wrong(field, wanted))
}

/// `delay_ms`, or `run_at` as a delay from now.
pub(super) fn delay(fields: &Fields<'_>, now: Now) -> Result<Option<u64>, Problem> {
    let delay = fields.duration("delay_ms")?;
    let moment = if fields.knows("run_at") { fields.moment("run_at")? } else { None };
    match (delay, moment) {
        (Some(_), Some(_)) => Err(Problem::wrong("run_at", "left out where 'delay_ms' is said")),
        (_, Some(at)) => Ok(Some(at.saturating_sub(now.wall.0))),
        (delay, None) => Ok(delay),
    }
}

/// The key, with what belongs to it.
fn key(fields: &Fields<'_>) -> Result<Option<Box<NewKey>>, Problem> {
    let key = fields.short_string("key", KEY_MAX_BYTES)?;
    let ttl_ms = fields.duration_between("key_ttl_ms", 0, KEY_TTL_MAX_MS)?;
    let words = [
        ("keep", OnDuplicate::Keep),
        ("replace", OnDuplicate::Replace),
        ("reject", OnDuplicate::Reject),
    ];
    let on_duplicate = fields.word("on_duplicate", &words)?;
    let Some(key) = key else {
        let stray = [(ttl_ms.is_some(), "key_ttl_ms"), (on_duplicate.is_some(), "on_duplicate")];
        return match stray.into_iter().find(|(is_said, _)| *is_said) {
            Some((_, field)) => Err(fields.wrong(field, "left out where no 'key' is said")),
            None => Ok(None),
        };
    };
    let (bytes, ttl_ms) = (key.into_bytes().into(), ttl_ms.unwrap_or(0));
    let on_duplicate = on_duplicate.unwrap_or_default();
    Ok(Some(Box::new(NewKey { bytes, ttl_ms, on_duplicate })))
}

/// What the job waits for, and its group. Ids that are there twice count once.
pub(super) fn dependencies(fields: &Fields<'_>) -> Result<Option<Box<NewDependencies>>, Problem> {
    let after = if fields.knows("after") { fields.ids("after", DEPENDENCIES_MAX)? } else { None };
    let group = fields.short_string("group", GROUP_NAME_MAX_BYTES)?;
    let after_group = fields.short_string("after_group", GROUP_NAME_MAX_BYTES)?;
    let words = [("cancel", false), ("run", true)];
    let runs_if_lost = fields.word("on_dependency_lost", &words)?.unwrap_or(false);
    if after_group.is_some() && after_group == group {
        return Err(fields.wrong("after_group", "another group than 'group'"));
    }
    let mut seen = BTreeSet::new();
    let mut after = after.unwrap_or_default();
    after.retain(|id| seen.insert(*id));
    if after.is_empty() && group.is_none() && after_group.is_none() {
        return Ok(None);
    }
    let name = |name: Option<String>| name.map(|name| name.into_bytes().into());
    let (group, after_group) = (name(group), name(after_group));
    Ok(Some(Box::new(NewDependencies { after: after.into(), group, after_group, runs_if_lost })))
}

pub(super) fn backoff(fields: &Fields<'_>) -> Result<Retry, Problem> {
    let known = &["kind", "first_ms", "max_ms", "jitter"];
    let Some(policy) = fields.object("backoff", known)? else { return Ok(Retry::DEFAULT) };
    let kinds = [("exponential", Retry::DEFAULT.factor), ("fixed", 1)];
    let percent = policy.fraction("jitter")?.map(|part| part * 100.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
    let percent = percent.map(|percent| percent.round() as u8);
    Ok(Retry {
        limit: u32::MAX,
        factor: policy.word("kind", &kinds)?.unwrap_or(Retry::DEFAULT.factor),
        first_ms: policy.duration("first_ms")?.unwrap_or(Retry::DEFAULT.first_ms),
        max_ms: policy.duration("max_ms")?.unwrap_or(Retry::DEFAULT.max_ms),
        jitter_percent: percent.unwrap_or(Retry::DEFAULT.jitter_percent),
    })
}

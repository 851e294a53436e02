//! Lines of exports.

use super::answer::Style;
use super::job_json::{push_count, push_flag, push_job, push_name, push_text, push_time};
use crate::model::job::Retry;
use crate::model::transfer::ExportedJob;

/// The media type of exports and imports: JSON objects, one a line.
pub(in crate::protocol) const NDJSON: &str = "application/x-ndjson";

/// Writes a job as a line. O(bytes).
pub(super) fn push_exported(out: &mut Vec<u8>, job: &ExportedJob) {
    out.push(b'{');
    push_job(out, &job.details, Style::Http);
    push_name(out, "ttr_ms");
    match job.options.lease_ms {
        0 => out.extend_from_slice(b"null"),
        ms => crate::wire::json::push_number(out, ms),
    }
    push_backoff(out, job.options.retry.as_ref());
    push_count(out, "keep_result_ms", job.options.result_retention_ms);
    push_count(out, "key_ttl_ms", job.key_ttl_ms);
    push_text(out, "after_group", job.after_group.as_deref());
    let if_lost: &[u8] = if job.runs_if_lost { b"run" } else { b"cancel" };
    push_text(out, "on_dependency_lost", Some(if_lost));
    push_time(out, "kept_until", job.kept_until);
    push_lightjq(out, job);
    out.extend_from_slice(b"}\n");
}

/// Writes what a job of LightJQ has beside the others: its retries, and how long it is kept when
/// they are used up.
fn push_lightjq(out: &mut Vec<u8>, job: &ExportedJob) {
    if !job.options.tracked {
        return;
    }
    push_name(out, "lightjq");
    out.push(b'{');
    push_count(out, "max_retry", job.options.retry.map_or(0, |retry| retry.limit));
    push_count(out, "retries", job.retries);
    push_count(out, "keep_buried_ms", job.options.dead_retention_ms);
    push_flag(out, "result_once", job.options.result_once);
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

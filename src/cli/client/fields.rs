//! The fields of the API that rows can show besides their columns; `name.*` stands for all members
//! of an object that clients have made.

/// Of a job.
pub(super) const JOB_FIELDS: &[&str] = &[
    "payload.*",
    "payload_base64",
    "packet_key_base64",
    "created_at",
    "expires_at",
    "max_attempts",
    "lease",
    "lease.worker",
    "lease.protocol",
    "lease.since",
    "lease.until",
    "last_error",
    "last_error.error",
    "last_error.message",
    "last_error.at",
    "progress",
    "progress_message",
    "result",
    "result.*",
    "key",
    "group",
    "after",
    "blocked_by",
    "ttr_ms",
    "backoff",
    "backoff.*",
    "keep_result_ms",
    "key_ttl_ms",
    "after_group",
    "on_dependency_lost",
    "kept_until",
    "lightjq",
    "lightjq.*",
    "history",
];

/// Of a queue.
pub(super) const QUEUE_FIELDS: &[&str] = &[
    "paused",
    "paused_until",
    "index",
    "waiting_consumers",
    "oldest_ready_ms",
    "counts",
    "counts.ready",
    "counts.scheduled",
    "counts.reserved",
    "counts.blocked",
    "counts.buried",
    "counts.completed",
    "rates",
    "rates.put",
    "rates.reserved",
    "rates.completed",
    "rates.failed",
];

/// Of a row of `monitor`.
pub(super) const MONITOR_FIELDS: &[&str] =
    &["counts.blocked", "counts.completed", "rates.reserved", "waiting_consumers"];

/// Of an action.
pub(super) const ACTION_FIELDS: &[&str] = &["dry_run", "ended_at"];

/// Of a connection.
pub(super) const CONNECTION_FIELDS: &[&str] = &["user"];

/// Of a registered worker.
pub(super) const WORKER_FIELDS: &[&str] = &["last_reserved_at"];

/// Of a constraint.
pub(super) const CONSTRAINT_FIELDS: &[&str] =
    &["rate.count", "rate.period", "rate.burst", "running", "tokens", "keys", "blocked_keys"];

/// Of a schedule.
pub(super) const SCHEDULE_FIELDS: &[&str] = &[
    "timezone",
    "job",
    "job.*",
    "overlap",
    "missed",
    "next_runs",
    "last_run_at",
    "last_job_id",
    "last_failure",
    "last_failure.at",
    "last_failure.detail",
];

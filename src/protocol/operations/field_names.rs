//! The names of fields: of puts, changes, schedules and imports.

/// The fields of a put.
pub(in crate::protocol) const PUT_FIELDS: &[&str] = &[
    "payload",
    "payload_base64",
    "packet_key_base64",
    "pri",
    "delay_ms",
    "run_at",
    "ttl_ms",
    "ttr_ms",
    "max_attempts",
    "backoff",
    "keep_result_ms",
    "key",
    "key_ttl_ms",
    "on_duplicate",
    "group",
    "after",
    "after_group",
    "on_dependency_lost",
];

/// The fields of a schedule.
pub(super) const SCHEDULE_FIELDS: &[&str] =
    &["cron", "every_ms", "timezone", "queue", "job", "overlap", "missed", "paused"];

/// The fields of a constraint.
pub(super) const CONSTRAINT_FIELDS: &[&str] = &["matcher", "max_running", "rate", "per"];

/// The fields of a put as a line, named as over HTTP; `any_payload` is `payload` there, because
/// `payload` is `job`.
pub(super) const LINE_PUT_FIELDS: &[&str] = &[
    "queue",
    "payload",
    "any_payload",
    "payload_base64",
    "pri",
    "delay_ms",
    "ttl_ms",
    "ttr_ms",
    "max_attempts",
    "backoff",
    "keep_result_ms",
    "key",
    "key_ttl_ms",
    "on_duplicate",
    "group",
    "after",
    "after_group",
    "on_dependency_lost",
];

/// The fields of a put that make it one of the native API.
pub(in crate::protocol) const NATIVE_PUT_FIELDS: [&str; 12] = [
    "payload",
    "payload_base64",
    "max_attempts",
    "backoff",
    "keep_result",
    "key",
    "key_ttl",
    "on_duplicate",
    "group",
    "after",
    "after_group",
    "on_dependency_lost",
];

/// The fields of a job in an import: those of an export. The others of them say what follows from
/// the rest, or what ends with the server.
pub(super) const IMPORT_FIELDS: &[&str] = &[
    "id",
    "queue",
    "state",
    "pri",
    "payload",
    "payload_base64",
    "packet_key_base64",
    "created_at",
    "available_at",
    "expires_at",
    "attempts",
    "max_attempts",
    "lease",
    "last_error",
    "progress",
    "progress_message",
    "result",
    "key",
    "group",
    "after",
    "blocked_by",
    "ttr_ms",
    "backoff",
    "keep_result_ms",
    "key_ttl_ms",
    "after_group",
    "on_dependency_lost",
    "kept_until",
    "lightjq",
];

/// The fields of a change.
pub(in crate::protocol) const CHANGE_FIELDS: &[&str] =
    &["payload", "payload_base64", "pri", "run_at", "delay_ms", "ttl_ms", "queue", "max_attempts"];

//! Problems: what is wrong with a request, or why it was not executed. Over HTTP they are problem
//! details (RFC 9457); as a line the detail is the error text, and the name its kind.

use crate::model::id::JobId;
use crate::wire::json::{push_number, push_string};

/// The kinds of problems: `/problems/NAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::protocol) enum ProblemKind {
    Cancelled,
    Draining,
    Duplicate,
    ExpectationFailed,
    Forbidden,
    Gone,
    HeadTooLarge,
    InvalidField,
    InvalidJson,
    InvalidRequest,
    MemoryFull,
    MethodNotAllowed,
    Misdirected,
    MissingField,
    NoIndex,
    NotFound,
    NotImplemented,
    QueueBusy,
    StaleToken,
    StorageFull,
    TargetTooLong,
    Timeout,
    TooLarge,
    TooManyJobs,
    TooManyStreams,
    Unauthorized,
    Unavailable,
    UnknownField,
    UnsupportedMediaType,
    UnsupportedVersion,
    WrongState,
}

impl ProblemKind {
    /// Name, title and HTTP status.
    pub(in crate::protocol) fn facts(self) -> (&'static str, &'static str, u16) {
        match self {
            Self::Cancelled => ("cancelled", "The job was cancelled", 409),
            Self::Draining => ("draining", "The server takes no new jobs", 503),
            Self::Duplicate => ("duplicate", "The key is taken", 409),
            Self::ExpectationFailed => {
                ("expectation-failed", "Something else is expected than 100-continue", 417)
            }
            Self::Forbidden => ("forbidden", "Not allowed", 403),
            Self::Gone => ("gone", "Not there any more", 410),
            Self::HeadTooLarge => ("head-too-large", "The head is too large", 431),
            Self::InvalidField => ("invalid-field", "A field has a wrong value", 400),
            Self::InvalidJson => ("invalid-json", "The body is not a JSON object", 400),
            Self::InvalidRequest => ("invalid-request", "The request is malformed", 400),
            Self::MemoryFull => ("memory-full", "The memory limit is reached", 507),
            Self::MethodNotAllowed => ("method-not-allowed", "The path has other methods", 405),
            Self::Misdirected => ("misdirected", "The request is for another host", 421),
            Self::MissingField => ("missing-field", "A field is missing", 400),
            Self::NoIndex => ("no-index", "The queue is not indexed", 409),
            Self::NotFound => ("not-found", "Not found", 404),
            Self::NotImplemented => ("not-implemented", "The transfer coding is unknown", 501),
            Self::QueueBusy => ("queue-busy", "Jobs of the queue are reserved", 409),
            Self::StaleToken => ("stale-token", "The lease has ended", 409),
            Self::StorageFull => ("storage-full", "The disk is full", 507),
            Self::TargetTooLong => ("target-too-long", "The target is too long", 414),
            Self::Timeout => ("timeout", "The request took too long", 408),
            Self::TooLarge => ("too-large", "The request is too large", 413),
            Self::TooManyJobs => ("too-many-jobs", "There is no place for another job", 503),
            Self::TooManyStreams => ("too-many-streams", "There are too many event streams", 503),
            Self::Unauthorized => ("unauthorized", "Not authenticated", 401),
            Self::Unavailable => ("unavailable", "The server does not serve now", 503),
            Self::UnknownField => ("unknown-field", "A field is unknown", 400),
            Self::UnsupportedMediaType => {
                ("unsupported-media-type", "The body has another media type", 415)
            }
            Self::UnsupportedVersion => {
                ("unsupported-version", "Another version of HTTP is spoken", 505)
            }
            Self::WrongState => ("wrong-state", "Not in the present state", 409),
        }
    }

    /// The kind for an HTTP status that the listener answers before an operation is known.
    pub(in crate::protocol) fn of_status(status: u16) -> Self {
        match status {
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 => Self::NotFound,
            405 => Self::MethodNotAllowed,
            408 => Self::Timeout,
            413 => Self::TooLarge,
            414 => Self::TargetTooLong,
            415 => Self::UnsupportedMediaType,
            417 => Self::ExpectationFailed,
            421 => Self::Misdirected,
            431 => Self::HeadTooLarge,
            501 => Self::NotImplemented,
            503 => Self::Unavailable,
            505 => Self::UnsupportedVersion,
            _ => Self::InvalidRequest,
        }
    }
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::protocol) struct Problem {
    pub(in crate::protocol) kind: ProblemKind,
    /// A sentence: what is wrong, and what to do.
    pub(in crate::protocol) detail: String,
    /// The field that is wrong; of a nested one its path.
    pub(in crate::protocol) field: Option<String>,
    /// The field that was meant, perhaps.
    pub(in crate::protocol) suggestion: Option<&'static str>,
    /// The job that has the key.
    pub(in crate::protocol) id: Option<JobId>,
}

impl Problem {
    pub(in crate::protocol) fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), field: None, suggestion: None, id: None }
    }

    /// A field has a wrong value; `wanted` follows "must be".
    pub(in crate::protocol) fn wrong(field: &str, wanted: &str) -> Self {
        Self {
            field: Some(field.to_owned()),
            ..Self::new(ProblemKind::InvalidField, format!("field '{field}' must be {wanted}"))
        }
    }

    /// A required field is absent.
    pub(in crate::protocol) fn missing(field: &str, wanted: &str) -> Self {
        let detail = format!("field '{field}' is missing: it must be {wanted}");
        Self { field: Some(field.to_owned()), ..Self::new(ProblemKind::MissingField, detail) }
    }

    pub(in crate::protocol) fn status(&self) -> u16 {
        self.kind.facts().2
    }

    /// Writes the problem details.
    pub(in crate::protocol) fn write(&self, out: &mut Vec<u8>) {
        write_problem(self.kind, self.status(), &self.detail, out);
        // The closing brace.
        out.pop();
        self.write_optional(out);
        out.push(b'}');
    }

    /// Writes the members that only some problems have.
    pub(super) fn write_optional(&self, out: &mut Vec<u8>) {
        let texts = [("field", self.field.as_deref()), ("suggestion", self.suggestion)];
        for (name, text) in texts {
            if let Some(text) = text {
                out.extend_from_slice(b",\"");
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b"\":");
                push_string(out, text.as_bytes());
            }
        }
        if let Some(id) = self.id {
            out.extend_from_slice(b",\"id\":");
            push_number(out, id.0);
        }
    }
}

/// Writes problem details without optional members.
pub(in crate::protocol) fn write_problem(
    kind: ProblemKind,
    status: u16,
    detail: &str,
    out: &mut Vec<u8>,
) {
    let (name, title, _) = kind.facts();
    out.extend_from_slice(b"{\"type\":\"/problems/");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\",\"title\":");
    push_string(out, title.as_bytes());
    out.extend_from_slice(b",\"status\":");
    push_number(out, status);
    out.extend_from_slice(b",\"detail\":");
    push_string(out, detail.as_bytes());
    out.push(b'}');
}

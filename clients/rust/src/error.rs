//! Errors by kind.

use std::fmt;

/// A result of this library.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong, by kind. Each has a sentence; those of the server are the server's.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The server could not be reached, or the connection has ended. The request was not executed.
    ConnectionLost(String),
    /// The certificate of the server is not trusted, or is not for this server, or the server
    /// refuses that of this client, or misses one. The request was not executed.
    Untrusted(String),
    /// The connection ended between a request and its answer: it may have been executed or not.
    AnswerLost(String),
    /// There was no answer in time; of a wait for a result: the job is not finished yet.
    Timeout(String),
    /// What came back is not an answer of the Job Centre protocol.
    BadAnswer(String),
    /// The server cannot execute the request: a field is wrong or too large.
    BadRequest(String),
    /// The server has users, and the token is missing or unknown.
    Unauthorized(String),
    /// The user of the token lacks a right.
    Forbidden(String),
    /// The server takes no new jobs until it is no longer drained.
    Draining(String),
    /// There is no space for another job, in memory or on the disk.
    Full(String),
    /// The server has as many clients as it permits.
    TooManyClients(String),
    /// The key is taken, and the put has said that it is to be rejected then.
    Duplicate {
        /// The job that has the key.
        id: u64,
        /// The sentence of the server.
        message: String,
    },
    /// The job is not held any more: its lease has ended, or it is gone.
    NotHeld(String),
    /// The job was cancelled.
    Cancelled(String),
    /// There is no such job, or it was gone before it had a result.
    JobGone(String),
    /// The job is dead: its last run has failed.
    JobFailed {
        /// The name of the error that its worker has reported.
        error: String,
        /// What its worker has said about it.
        message: String,
    },
    /// A payload or a result is not of the type that was asked for, or cannot be written as JSON.
    Payload(String),
    /// An address or an option is wrong.
    Settings(String),
}

impl Error {
    /// The name of the kind, the same in the clients of all languages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ConnectionLost(_) => "connection-lost",
            Self::Untrusted(_) => "untrusted",
            Self::AnswerLost(_) => "answer-lost",
            Self::Timeout(_) => "timeout",
            Self::BadAnswer(_) => "bad-answer",
            Self::BadRequest(_) => "bad-request",
            Self::Unauthorized(_) => "unauthorized",
            Self::Forbidden(_) => "forbidden",
            Self::Draining(_) => "draining",
            Self::Full(_) => "full",
            Self::TooManyClients(_) => "too-many-clients",
            Self::Duplicate { .. } => "duplicate",
            Self::NotHeld(_) => "not-held",
            Self::Cancelled(_) => "cancelled",
            Self::JobGone(_) => "job-gone",
            Self::JobFailed { .. } => "job-failed",
            Self::Payload(_) => "payload",
            Self::Settings(_) => "settings",
        }
    }

    /// Whether the same request may succeed later without a change.
    pub fn is_temporary(&self) -> bool {
        matches!(
            self,
            Self::ConnectionLost(_)
                | Self::AnswerLost(_)
                | Self::Timeout(_)
                | Self::Draining(_)
                | Self::Full(_)
                | Self::TooManyClients(_)
        )
    }

    /// The error of a connection that failed because of a certificate; `None`: of another cause.
    pub(crate) fn of_certificate(
        server: &dyn fmt::Display,
        error: &std::io::Error,
    ) -> Option<Self> {
        #[cfg(feature = "tls")]
        let refused = crate::tls::refused_certificate(error);
        #[cfg(not(feature = "tls"))]
        let refused: Option<&str> = None;
        refused.map(|whose| Self::Untrusted(format!("{server}: {whose} is refused: {error}")))
    }

    /// The error of an answer, by its kind. The errors of Job Centre's own requests have none, and
    /// are recognised by words of their sentences; the tests provoke each on the real server.
    pub(crate) fn of_answer(sentence: &str, kind: Option<&str>, id: Option<u64>) -> Self {
        let text = sentence.to_owned();
        match kind {
            Some("duplicate") => Self::Duplicate { id: id.unwrap_or_default(), message: text },
            Some("unauthorized") => Self::Unauthorized(text),
            Some("forbidden") => Self::Forbidden(text),
            Some("draining") => Self::Draining(text),
            Some("storage-full" | "memory-full" | "too-many-jobs") => Self::Full(text),
            // A job in another state: of a report it means that the job is not held.
            None | Some("wrong-state") => Self::of_sentence(text),
            Some(_) => Self::BadRequest(text),
        }
    }

    fn of_sentence(text: String) -> Self {
        let has = |words: &[&str]| words.iter().any(|part| text.contains(part));
        if has(&["is being worked on by another", "is reserved by another client"])
            || text.contains("job ") && has(&[" is not reserved", "the lease of job "])
        {
            return Self::NotHeld(text);
        }
        if has(&["the server is being drained"]) {
            return Self::Draining(text);
        }
        if has(&["disk is full", "--max-memory", "no place left for another job"]) {
            return Self::Full(text);
        }
        if text.starts_with("the server already serves ") {
            return Self::TooManyClients(text);
        }
        Self::BadRequest(text)
    }

    /// A payload that is not what it should be.
    pub(crate) fn payload(wrong: &serde_json::Error) -> Self {
        Self::Payload(wrong.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConnectionLost(text)
            | Self::Untrusted(text)
            | Self::AnswerLost(text)
            | Self::Timeout(text)
            | Self::BadAnswer(text)
            | Self::BadRequest(text)
            | Self::Unauthorized(text)
            | Self::Forbidden(text)
            | Self::Draining(text)
            | Self::Full(text)
            | Self::TooManyClients(text)
            | Self::Duplicate { message: text, .. }
            | Self::NotHeld(text)
            | Self::Cancelled(text)
            | Self::JobGone(text)
            | Self::Payload(text)
            | Self::Settings(text) => f.write_str(text),
            Self::JobFailed { error, message } => {
                write!(f, "the job has failed: {error}: {message}")
            }
        }
    }
}

impl std::error::Error for Error {}

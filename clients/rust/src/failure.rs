//! What a handler reports when a run has failed.

use std::time::Duration;

/// A failed run: the name of the error, its text, and whether the job is run again. Any error
/// becomes one with `?`, and is retried by the backoff of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A short name, by which people count failures.
    pub error: String,
    /// What went wrong.
    pub message: String,
    /// `false`: the job is buried at once.
    pub retry: bool,
    /// The pause before the next run, in place of the backoff of the job.
    pub delay: Option<Duration>,
}

impl Failure {
    /// A failure that is retried by the backoff of the job.
    pub fn new(error: impl Into<String>, message: impl Into<String>) -> Self {
        Self { error: error.into(), message: message.into(), retry: true, delay: None }
    }

    /// The job is not run again: it is buried.
    pub fn no_retry(mut self) -> Self {
        self.retry = false;
        self
    }

    /// The pause before the next run.
    pub fn retry_in(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }
}

// `Failure` itself is no `Error`, so that this does not overlap with `From<T> for T`.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let full = std::any::type_name::<E>();
        let path = full.split('<').next().unwrap_or(full);
        let name = path.rsplit("::").next().unwrap_or(path);
        Self::new(name, error.to_string())
    }
}

//! What the server tells of jobs and queues.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::error::{Error, Result};

/// What is known of a job: see "A job" in the documentation of the native API.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct JobInfo {
    /// Its id.
    pub id: u64,
    /// Its queue.
    pub queue: String,
    /// `scheduled`, `ready`, `blocked`, `reserved`, `buried` or `completed`.
    pub state: String,
    /// How often it was handed out and did not come back by a release, the present run included.
    #[serde(default)]
    pub attempts: u64,
    /// After this number of runs it is buried.
    #[serde(default)]
    pub max_attempts: Option<u64>,
    /// What its last failed run has said.
    #[serde(default)]
    pub last_error: Option<LastError>,
    /// How much is done, from 0 to 1.
    #[serde(default)]
    pub progress: Option<f64>,
    /// What its worker says about that.
    #[serde(default)]
    pub progress_message: Option<String>,
    /// Its key.
    #[serde(default)]
    pub key: Option<String>,
}

/// What a failed run has said.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct LastError {
    /// The name of the error.
    #[serde(default)]
    pub error: String,
    /// Its text.
    #[serde(default)]
    pub message: String,
}

/// The figures of a queue.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct QueueInfo {
    /// Its name.
    pub name: String,
    /// Whether it is paused.
    #[serde(default)]
    pub paused: bool,
    /// The numbers of its jobs by state.
    pub counts: Counts,
}

/// Numbers of jobs by state.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
#[non_exhaustive]
pub struct Counts {
    /// May be handed out.
    pub ready: u64,
    /// Delayed, or waiting to be retried.
    pub scheduled: u64,
    /// Held back by a constraint or a dependency.
    pub blocked: u64,
    /// Handed out.
    pub reserved: u64,
    /// Dead.
    pub buried: u64,
    /// Kept for their results.
    pub completed: u64,
}

#[derive(Deserialize)]
pub(crate) struct ResultAnswer {
    state: String,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    last_error: Option<LastError>,
}

impl ResultAnswer {
    pub(crate) fn into_result<T: DeserializeOwned>(self) -> Result<T> {
        if self.state == "buried" {
            let (error, message) = self.last_error.map_or_else(
                || ("Error".into(), "it was buried".into()),
                |last| (last.error, last.message),
            );
            return Err(Error::JobFailed { error, message });
        }
        let text = self.result.as_ref().map_or("null", |result| result.get());
        serde_json::from_str(text).map_err(|wrong| Error::payload(&wrong))
    }
}

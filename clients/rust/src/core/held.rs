//! Members of answers about jobs that are held.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::wire::Answer;
use crate::error::{Error, Result};

/// A job that was handed out.
#[derive(Debug, Deserialize)]
pub(crate) struct Fields {
    pub(crate) id: u64,
    pub(crate) job: Box<RawValue>,
    pub(crate) pri: Box<RawValue>,
    pub(crate) queue: String,
    pub(crate) attempts: u64,
}

#[derive(Deserialize)]
struct Fetched {
    jobs: Vec<Fields>,
}

#[derive(Deserialize)]
struct Told {
    #[serde(default)]
    cancelled: bool,
}

/// The jobs of the answer to a get.
pub(crate) fn fetched(answer: Answer) -> Result<Vec<Fields>> {
    let fetched: Option<Fetched> = answer.members()?;
    Ok(fetched.map(|fetched| fetched.jobs).unwrap_or_default())
}

/// Whether the job of a touch or of progress was cancelled.
pub(crate) fn told_cancelled(answer: Answer, id: u64) -> Result<bool> {
    let told: Told = answer.members()?.ok_or_else(|| not_held(id))?;
    Ok(told.cancelled)
}

/// What the answer to a report says.
pub(crate) fn reported(answer: Answer, id: u64, is_cancelled: bool) -> Result<()> {
    if answer.done()? {
        return Ok(());
    }
    Err(if is_cancelled {
        Error::Cancelled(format!("job {id} was cancelled"))
    } else {
        not_held(id)
    })
}

fn not_held(id: u64) -> Error {
    Error::NotHeld(format!("job {id} is not held any more: its lease has ended, or it is gone"))
}

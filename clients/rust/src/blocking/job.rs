//! A job that a client of threads holds.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::to_raw_value;

use super::{Shared, lock};
use crate::Failure;
use crate::core::held::{self, Fields};
use crate::core::requests::{self, Line};
use crate::core::wire::Answer;
use crate::error::{Error, Result};

/// A job that was reserved. If it is dropped before it is reported, it is given back.
pub struct Job {
    fields: Fields,
    connection: Shared,
    timeout: Duration,
    is_held: bool,
    is_cancelled: bool,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("id", &self.id()).field("queue", &self.queue()).finish()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.is_held
            && let Ok(line) = requests::of_id("abort", self.id())
        {
            // If that is in vain, the connection is lost, and the job goes back with it.
            drop(self.ask(&line));
        }
    }
}

impl Job {
    pub(super) fn new(fields: Fields, connection: Shared, timeout: Duration) -> Self {
        Self { fields, connection, timeout, is_held: true, is_cancelled: false }
    }

    /// The id of the job.
    pub fn id(&self) -> u64 {
        self.fields.id
    }

    /// The queue from which it was reserved.
    pub fn queue(&self) -> &str {
        &self.fields.queue
    }

    /// Its priority; `None` if it is larger than an `i64`.
    pub fn pri(&self) -> Option<i64> {
        self.fields.pri.get().parse().ok()
    }

    /// How often it was handed out and did not come back by being given back, this run included.
    pub fn attempt(&self) -> u64 {
        self.fields.attempts
    }

    /// Its payload.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(self.fields.job.get()).map_err(|wrong| Error::payload(&wrong))
    }

    /// The job is done.
    pub fn complete(self) -> Result<()> {
        let line = requests::done(self.id(), None)?;
        self.report(&line)
    }

    /// The job is done, with a result.
    pub fn complete_with(self, result: &(impl Serialize + ?Sized)) -> Result<()> {
        let result = to_raw_value(result).map_err(|wrong| Error::payload(&wrong))?;
        let line = requests::done(self.id(), Some(&result))?;
        self.report(&line)
    }

    /// The run has failed.
    pub fn fail(self, failure: impl Into<Failure>) -> Result<()> {
        let line = requests::fail(self.id(), &failure.into())?;
        self.report(&line)
    }

    /// Gives the job back; this does not count as an attempt.
    pub fn release(self) -> Result<()> {
        let line = requests::of_id("abort", self.id())?;
        self.report(&line)
    }

    /// Starts the lease anew. `false`: the job was cancelled.
    pub fn touch(&mut self) -> Result<bool> {
        self.tell(&requests::touch(self.id(), None)?)
    }

    /// Says how much is done, from 0 to 1. `false`: the job was cancelled.
    pub fn progress(&mut self, part: f64, message: Option<&str>) -> Result<bool> {
        self.tell(&requests::progress(self.id(), part, message)?)
    }

    fn report(mut self, line: &Line) -> Result<()> {
        self.is_held = false;
        held::reported(self.ask(line)?, self.id(), self.is_cancelled)
    }

    fn tell(&mut self, line: &Line) -> Result<bool> {
        self.is_cancelled |= held::told_cancelled(self.ask(line)?, self.id())?;
        Ok(!self.is_cancelled)
    }

    fn ask(&self, line: &Line) -> Result<Answer> {
        lock(&self.connection).ask(&line.bytes, Instant::now() + self.timeout)
    }
}

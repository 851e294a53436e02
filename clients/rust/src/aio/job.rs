//! A job that this client holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::to_raw_value;

use super::link::Link;
use crate::Failure;
use crate::core::held::{self, Fields};
use crate::core::requests::{self, Line};
use crate::core::wire::Answer;
use crate::error::{Error, Result};

/// How long the server has for the answer to a report.
const REPORT_TIMEOUT: Duration = Duration::from_secs(30);

/// A job that was reserved: it is this client's until it is reported. If it is dropped before, it
/// is given back, which counts as no attempt.
pub struct Job {
    fields: Fields,
    link: Arc<Link>,
    is_held: AtomicBool,
    is_cancelled: AtomicBool,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("id", &self.id()).field("queue", &self.queue()).finish()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if *self.is_held.get_mut()
            && let Ok(line) = requests::of_id("abort", self.fields.id)
        {
            self.link.tell_only(&line.bytes);
        }
    }
}

impl Job {
    /// The jobs of the answer to a get.
    pub(crate) fn all_of(answer: Answer, link: &Arc<Link>) -> Result<Vec<Self>> {
        let hold = |fields| Self {
            fields,
            link: link.clone(),
            is_held: true.into(),
            is_cancelled: false.into(),
        };
        Ok(held::fetched(answer)?.into_iter().map(hold).collect())
    }

    /// The id of the job.
    pub fn id(&self) -> u64 {
        self.fields.id
    }

    /// The queue from which it was reserved.
    pub fn queue(&self) -> &str {
        &self.fields.queue
    }

    /// Its priority; `None` if another protocol has given it one that is larger than an `i64`.
    pub fn pri(&self) -> Option<i64> {
        self.fields.pri.get().parse().ok()
    }

    /// How often it was handed out and did not come back by being given back, this run included.
    pub fn attempt(&self) -> u64 {
        self.fields.attempts
    }

    /// Its payload as the text that was put.
    pub fn payload_text(&self) -> &str {
        self.fields.job.get()
    }

    /// Its payload.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(self.payload_text()).map_err(|wrong| Error::payload(&wrong))
    }

    /// Whether the server has said that the job was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// The job is done.
    pub async fn complete(self) -> Result<()> {
        self.report(requests::done(self.id(), None)?).await
    }

    /// The job is done, with a result.
    pub async fn complete_with(self, result: &(impl Serialize + ?Sized)) -> Result<()> {
        let result = to_raw_value(result).map_err(|wrong| Error::payload(&wrong))?;
        self.report(requests::done(self.id(), Some(&result))?).await
    }

    /// The run has failed.
    pub async fn fail(self, failure: impl Into<Failure>) -> Result<()> {
        self.report(requests::fail(self.id(), &failure.into())?).await
    }

    /// Gives the job back; this does not count as an attempt.
    pub async fn release(self) -> Result<()> {
        self.report(requests::of_id("abort", self.id())?).await
    }

    /// Starts the lease anew. `false`: the job was cancelled.
    pub async fn touch(&self) -> Result<bool> {
        self.tell(&requests::touch(self.id(), None)?).await
    }

    /// Starts a lease of this length.
    pub async fn touch_for(&self, ttr: Duration) -> Result<bool> {
        self.tell(&requests::touch(self.id(), Some(ttr))?).await
    }

    /// Says how much is done, from 0 to 1. `false`: the job was cancelled.
    pub async fn progress(&self, part: f64, message: Option<&str>) -> Result<bool> {
        self.tell(&requests::progress(self.id(), part, message)?).await
    }

    /// Ends its connection without a report, as if the program had crashed.
    pub fn abandon(self) {
        self.is_held.store(false, Ordering::Relaxed);
        self.link.close("the job was abandoned");
    }

    /// Says what became of the job, by reference: whoever holds it does not report it twice.
    pub(crate) async fn report(&self, line: Line) -> Result<()> {
        if !self.is_held.swap(false, Ordering::Relaxed) {
            return Err(Error::NotHeld(format!("job {} was reported already", self.id())));
        }
        let answer = self.ask(&line).await?;
        held::reported(answer, self.id(), self.is_cancelled())
    }

    async fn tell(&self, line: &Line) -> Result<bool> {
        let is_cancelled = held::told_cancelled(self.ask(line).await?, self.id())?;
        if is_cancelled {
            self.is_cancelled.store(true, Ordering::Relaxed);
        }
        Ok(!is_cancelled)
    }

    async fn ask(&self, line: &Line) -> Result<Answer> {
        let answer = self.link.tell(&line.bytes)?;
        match tokio::time::timeout(REPORT_TIMEOUT, self.link.answer(answer)).await {
            Ok(answer) => answer,
            Err(_late) => {
                self.link.close("no answer in time");
                Err(Error::Timeout(format!("job {}: no answer in time", self.id())))
            }
        }
    }
}

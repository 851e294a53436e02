//! What a handler knows of its job.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Job;
use crate::error::Result;

/// The job of a run, for its handler.
#[derive(Clone, Debug)]
pub struct Context {
    pub(super) job: Arc<Job>,
    pub(super) ended: Arc<AtomicBool>,
}

impl Context {
    /// The id of the job.
    pub fn id(&self) -> u64 {
        self.job.id()
    }

    /// Its queue.
    pub fn queue(&self) -> &str {
        self.job.queue()
    }

    /// The number of this run, from 1.
    pub fn attempt(&self) -> u64 {
        self.job.attempt()
    }

    /// Its payload as text.
    pub fn payload_text(&self) -> &str {
        self.job.payload_text()
    }

    /// Says how much is done, from 0 to 1. `false`: the job was cancelled.
    pub async fn progress(&self, part: f64, message: Option<&str>) -> Result<bool> {
        self.job.progress(part, message).await
    }

    /// Whether the run is of no use any more: the job was cancelled or its lease was lost, the run
    /// took too long, or the worker stops and the grace is over. Handlers that are asynchronous are
    /// ended by themselves.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed) || self.job.is_cancelled()
    }
}

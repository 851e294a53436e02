//! One run of a job: the handler, its heartbeat, its end, its report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::context::Context;
use super::handler::{Handler, Outcome, panicked};
use crate::core::requests;
use crate::{Failure, Job};

/// How a run has ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ended {
    Finished,
    Failed,
    GivenBack,
    Lost,
}

pub(super) struct Run {
    pub(super) handler: Arc<dyn Handler>,
    pub(super) heartbeat: Duration,
    pub(super) timeout: Option<Duration>,
    /// The grace is over.
    pub(super) ended: watch::Receiver<bool>,
}

/// What ends a run besides its handler.
enum Why {
    Returned(Outcome),
    Stopped,
    Lost,
}

impl Run {
    pub(super) async fn execute(mut self, job: Job) -> Ended {
        let job = Arc::new(job);
        let ended = Arc::new(AtomicBool::new(false));
        let context = Context { job: job.clone(), ended: ended.clone() };
        let handler = self.handler.clone();
        // A task of its own: a panic of the handler ends this run alone.
        let mut running = tokio::spawn(async move { handler.call(context).await });
        let why = tokio::select! {
            returned = &mut running => {
                Why::Returned(returned.unwrap_or_else(|error| Err(panicked(error))))
            }
            () = too_long(self.timeout) => {
                Why::Returned(Err(Failure::new("Timeout", "the run took too long")))
            }
            () = keep(&job, self.heartbeat) => Why::Lost,
            _ = self.ended.wait_for(|ended| *ended) => Why::Stopped,
        };
        ended.store(true, Ordering::Relaxed);
        running.abort();
        report(&job, why).await
    }
}

async fn too_long(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => sleep(timeout).await,
        None => std::future::pending().await,
    }
}

/// Renews the lease until the job is cancelled or not held any more.
async fn keep(job: &Job, heartbeat: Duration) {
    let mut beats = interval(heartbeat);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beats.tick().await;
    loop {
        beats.tick().await;
        if !matches!(job.touch().await, Ok(true)) {
            return;
        }
    }
}

async fn report(job: &Job, why: Why) -> Ended {
    let (line, ended) = match why {
        Why::Returned(Ok(result)) => (requests::done(job.id(), result.as_deref()), Ended::Finished),
        Why::Returned(Err(failure)) => (requests::fail(job.id(), &failure), Ended::Failed),
        Why::Stopped => (requests::of_id("abort", job.id()), Ended::GivenBack),
        // Nothing is to be said of a job that is not held; one that is lost goes back by itself.
        Why::Lost => (requests::of_id("abort", job.id()), Ended::Lost),
    };
    let Ok(line) = line else { return Ended::Lost };
    match job.report(line).await {
        Ok(()) => ended,
        Err(_lost) => Ended::Lost,
    }
}

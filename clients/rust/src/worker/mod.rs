//! The worker: takes jobs, runs their handlers, reports what became of them.
//!
//! Invariants: each run has one of `concurrency` permits; a job is reported once. A worker that
//! stops takes no more jobs, waits for its runs for the grace, then ends them and gives them back.

mod context;
mod handler;
#[cfg(feature = "tower")]
mod layers;
mod run;

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

pub use context::Context;
#[cfg(feature = "tower")]
pub use layers::{HandlerError, HandlerService, Layered, Reply};

use crate::core::repeat::Attempts;
use crate::error::{Error, Result};
use crate::{Client, Failure, Job};
use handler::{Blocking, Handler, Typed};
use run::{Ended, Run};

/// How long a get of a worker waits at the server before it is sent again.
const WAIT: Duration = Duration::from_secs(20);
/// Jobs of one get: those of the others are not held up by an answer that is too long.
const TAKEN_MAX: usize = 100;
/// After the grace, how long the reports of what is given back may take.
const LAST_REPORTS: Duration = Duration::from_secs(10);

type Wrap = Box<dyn Fn(Arc<dyn Handler>) -> Arc<dyn Handler> + Send>;

/// What a worker has done when it has stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// Runs that succeeded, and are reported.
    pub finished: u64,
    /// Runs that failed, and are reported.
    pub failed: u64,
    /// Runs that were ended after the grace; their jobs were given back.
    pub given_back: u64,
    /// Runs of jobs that were cancelled, and runs whose lease or connection was lost.
    pub lost: u64,
}

impl Stopped {
    fn count(&mut self, ended: Ended) {
        *match ended {
            Ended::Finished => &mut self.finished,
            Ended::Failed => &mut self.failed,
            Ended::GivenBack => &mut self.given_back,
            Ended::Lost => &mut self.lost,
        } += 1;
    }
}

/// Runs handlers for the jobs of queues: see [`Worker::builder`].
pub struct Worker {
    client: Client,
    handlers: HashMap<String, Arc<dyn Handler>>,
    concurrency: usize,
    grace: Duration,
    heartbeat: Duration,
    timeout: Option<Duration>,
}

/// The settings of a worker.
pub struct WorkerBuilder {
    worker: Worker,
    wraps: Vec<Wrap>,
}

impl WorkerBuilder {
    /// The handler of a queue: an asynchronous function of the payload, of any type that serde
    /// reads, and the [`Context`]. What it returns is the result of the job; any error is a
    /// [`Failure`], which is retried by the backoff of the job unless it says otherwise.
    pub fn queue<T, F, R, E, H>(mut self, queue: impl Into<String>, handler: H) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        F: Future<Output = std::result::Result<R, E>> + Send + 'static,
        R: Serialize + Send + 'static,
        E: Into<Failure> + Send + 'static,
        H: Fn(T, Context) -> F + Send + Sync + 'static,
    {
        self.worker.handlers.insert(queue.into(), Arc::new(Typed::new(handler)));
        self
    }

    /// The same for a function that blocks: it runs on a thread of tokio's pool. A thread cannot be
    /// ended from outside: the function is to look at [`Context::is_ended`] if it runs long.
    pub fn queue_blocking<T, R, E, H>(mut self, queue: impl Into<String>, handler: H) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        R: Serialize + Send + 'static,
        E: Into<Failure> + Send + 'static,
        H: Fn(T, Context) -> std::result::Result<R, E> + Send + Sync + 'static,
    {
        self.worker.handlers.insert(queue.into(), Arc::new(Blocking::new(handler)));
        self
    }

    /// How many jobs are run at a time: 16 unless set.
    pub fn concurrency(mut self, runs: usize) -> Self {
        self.worker.concurrency = runs.max(1);
        self
    }

    /// How long a worker that stops waits for its runs: 25 s unless set.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.worker.grace = grace;
        self
    }

    /// How often the lease of a job that runs is renewed, and its cancellation noticed: 20 s unless
    /// set. It must be shorter than the `ttr` of the jobs, best a third of it.
    pub fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.worker.heartbeat = heartbeat.max(Duration::from_millis(1));
        self
    }

    /// A run that is longer is ended, and has failed.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.worker.timeout = Some(timeout);
        self
    }

    /// A layer of tower around all handlers; the first one is the outermost.
    #[cfg(feature = "tower")]
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: tower_layer::Layer<HandlerService> + Send + 'static,
        L::Service: Layered,
    {
        self.wraps.push(Box::new(move |inner| layers::wrap(&layer, inner)));
        self
    }

    /// The worker.
    pub fn build(self) -> Worker {
        let Self { mut worker, wraps } = self;
        for handler in worker.handlers.values_mut() {
            for wrap in wraps.iter().rev() {
                *handler = wrap(handler.clone());
            }
        }
        worker
    }

    /// Builds the worker and runs it: see [`Worker::run_until`].
    pub async fn run_until(self, stop: impl Future) -> Result<Stopped> {
        self.build().run_until(stop).await
    }
}

impl Worker {
    /// A worker that takes jobs with this client.
    pub fn builder(client: Client) -> WorkerBuilder {
        let worker = Self {
            client,
            handlers: HashMap::new(),
            concurrency: 16,
            grace: Duration::from_secs(25),
            heartbeat: Duration::from_secs(20),
            timeout: None,
        };
        WorkerBuilder { worker, wraps: Vec::new() }
    }

    /// Takes jobs and runs them until `stop` is ready. Then it takes no more, waits for its runs up
    /// to the grace, ends those that are left and gives their jobs back.
    ///
    /// If the connection is lost it connects again, for ever. It fails if it has no queue, or if
    /// the server says that waiting is of no use, for example with [`Error::Forbidden`].
    pub async fn run_until(self, stop: impl Future) -> Result<Stopped> {
        if self.handlers.is_empty() {
            return Err(Error::Settings("a worker needs a queue".into()));
        }
        let (end, ended) = watch::channel(false);
        let mut runs = JoinSet::new();
        let mut stopped = Stopped::default();
        let taken = {
            let mut stop = pin!(stop);
            tokio::select! {
                _ = &mut stop => Ok(()),
                error = self.take(&mut runs, &mut stopped, &ended) => Err(error),
            }
        };
        let grace = wait_for_runs(&mut runs, &mut stopped);
        if tokio::time::timeout(self.grace, grace).await.is_err() {
            end.send_replace(true);
            let last = wait_for_runs(&mut runs, &mut stopped);
            // What is not reported by then, the server gives back when the connection ends.
            drop(tokio::time::timeout(LAST_REPORTS, last).await);
        }
        taken.map(|()| stopped)
    }

    /// Takes jobs until there is an error that does not go away.
    async fn take(
        &self,
        runs: &mut JoinSet<Ended>,
        stopped: &mut Stopped,
        ended: &watch::Receiver<bool>,
    ) -> Error {
        let queues: Vec<String> = self.handlers.keys().cloned().collect();
        let slots = Arc::new(Semaphore::new(self.concurrency));
        let mut attempts = Attempts::default();
        loop {
            while let Some(run) = runs.try_join_next() {
                stopped.count(run.unwrap_or(Ended::Lost));
            }
            let mut permits = free_slots(&slots).await;
            match self.client.reserve_many(&queues, permits.len(), WAIT).await {
                Ok(jobs) => {
                    attempts = Attempts::default();
                    for (job, permit) in jobs.into_iter().zip(permits.drain(..)) {
                        self.start(runs, job, permit, ended.clone());
                    }
                }
                Err(error) if error.is_temporary() => sleep(attempts.pause()).await,
                Err(error) => return error,
            }
        }
    }

    fn start(
        &self,
        runs: &mut JoinSet<Ended>,
        job: Job,
        permit: OwnedSemaphorePermit,
        ended: watch::Receiver<bool>,
    ) {
        // The server gives jobs of the named queues only.
        let Some(handler) = self.handlers.get(job.queue()).cloned() else { return };
        let run = Run { handler, heartbeat: self.heartbeat, timeout: self.timeout, ended };
        runs.spawn(async move {
            let ended = run.execute(job).await;
            drop(permit);
            ended
        });
    }
}

/// The permits of all runs that may begin now, one at least.
async fn free_slots(slots: &Arc<Semaphore>) -> Vec<OwnedSemaphorePermit> {
    let mut permits = Vec::new();
    // It is never closed.
    permits.extend(slots.clone().acquire_owned().await);
    while permits.len() < TAKEN_MAX
        && let Ok(permit) = slots.clone().try_acquire_owned()
    {
        permits.push(permit);
    }
    permits
}

async fn wait_for_runs(runs: &mut JoinSet<Ended>, stopped: &mut Stopped) {
    while let Some(run) = runs.join_next().await {
        stopped.count(run.unwrap_or(Ended::Lost));
    }
}

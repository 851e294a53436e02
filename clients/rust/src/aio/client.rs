//! The client: one connection for all that is answered at once, others for what waits.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout_at};

use super::builders::{Put, Reserve};
use super::job::Job;
use super::link::Link;
use super::puts::Puts;
use super::stream::Target;
use crate::core::put::{NewJob, Placed, placed};
use crate::core::repeat::Attempts;
use crate::core::requests::{self, Line};
use crate::core::wire::Answer;
use crate::error::{Error, Result};
use crate::info::{JobInfo, QueueInfo, ResultAnswer};

const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest wait of one request: a connection that died without a word is noticed.
const WAIT_MAX: Duration = Duration::from_secs(20);
const IDLE_MAX: usize = 16;

/// A client. It is cheap to clone; clones share its connections.
///
/// One connection has all requests that are answered at once, pipelined. A wait for a job or a
/// result has one of its own. If a connection is lost, the client connects again, with pauses that
/// grow, and repeats what can be repeated safely, until its timeout.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    target: Target,
    timeout: Duration,
    main: Mutex<Option<Arc<Link>>>,
    opening: tokio::sync::Mutex<()>,
    /// Connections for waits. One that nobody else holds is free.
    others: Mutex<Vec<Arc<Link>>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("address", &self.inner.target.address).finish()
    }
}

/// The settings of a client.
pub struct ClientBuilder {
    url: String,
    token: Option<String>,
    timeout: Duration,
}

impl ClientBuilder {
    /// The token of a user.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// How long a call may take, attempts to connect again included: 30 s unless set. A wait for a
    /// job or a result may take as much longer as it waits.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The client; it connects with the first request.
    pub fn build(self) -> Result<Client> {
        let mut address: crate::core::address::Address = self.url.parse()?;
        address.token = self.token.or(address.token);
        Ok(Client {
            inner: Arc::new(Inner {
                target: Target::new(address)?,
                timeout: self.timeout,
                main: Mutex::default(),
                opening: tokio::sync::Mutex::default(),
                others: Mutex::default(),
            }),
        })
    }

    /// The client, once it is connected. One attempt is made.
    pub async fn connect(self) -> Result<Client> {
        let client = self.build()?;
        client.inner.link().await?;
        Ok(client)
    }
}

impl Client {
    /// Connects to `jobcentre://HOST:PORT`, `jobcentre+unix:///PATH` or, with the feature `tls`,
    /// `jobcentres://HOST:PORT?ca=FILE`; a token stands before the host: `jobcentre://TOKEN@HOST`.
    /// `HOST:PORT`, `tls:HOST:PORT` and `unix:PATH` are addresses too.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::builder(url).connect().await
    }

    /// A client with settings.
    pub fn builder(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder { url: url.into(), token: None, timeout: TIMEOUT }
    }

    /// Adds a job, whose payload serde writes as a JSON object. If the answer is lost, the put is
    /// repeated under its key, or under one that is drawn, so that there is one job.
    pub fn put(&self, queue: impl Into<String>, payload: &(impl Serialize + ?Sized)) -> Put<'_> {
        Put { client: self, job: NewJob::new(queue, payload) }
    }

    /// Adds a job.
    pub async fn put_job(&self, job: NewJob) -> Result<Placed> {
        let (line, drawn) = job.into_line()?;
        placed(self.inner.request(&line).await?, drawn)
    }

    /// Adds many jobs, pipelined, in their order; what each has come to. The jobs are taken as the
    /// server answers. Those without an answer are repeated when the connection is lost.
    pub async fn put_many(
        &self,
        jobs: impl IntoIterator<Item = NewJob>,
    ) -> Result<Vec<Result<Placed>>> {
        let mut puts = Puts::new(jobs.into_iter());
        let deadline = self.inner.deadline();
        let mut attempts = Attempts::default();
        loop {
            match self.inner.put_rest(&mut puts, deadline).await {
                Ok(()) => return Ok(puts.into_answers()),
                Err(error) => {
                    let pause = attempts.after(error, puts.are_repeatable(), left(deadline))?;
                    sleep(pause).await;
                }
            }
        }
    }

    /// Reserves the most urgent job of the queues. `None`: there is none, or none within the
    /// [`wait`](Reserve::wait). If the future is dropped, a job that it was handed out goes back.
    pub fn reserve<Q: Into<String>>(&self, queues: impl IntoIterator<Item = Q>) -> Reserve<'_> {
        let queues = queues.into_iter().map(Into::into).collect();
        Reserve { client: self, queues, wait: Duration::ZERO }
    }

    /// Reserves up to `limit` jobs, most urgent first, at the first that there is.
    pub async fn reserve_many(
        &self,
        queues: &[String],
        limit: usize,
        wait: Duration,
    ) -> Result<Vec<Job>> {
        let end = Instant::now() + wait;
        let mut deadline = self.inner.deadline() + wait;
        let mut attempts = Attempts::default();
        loop {
            let part = left(end).min(WAIT_MAX);
            let line = requests::get(queues, limit, part)?;
            match self.inner.reserve(&line, part).await {
                Ok(jobs) if !jobs.is_empty() || left(end).is_zero() => return Ok(jobs),
                Ok(_) => {
                    deadline = self.inner.deadline() + left(end);
                    attempts = Attempts::default();
                }
                Err(error) => sleep(attempts.after(error, true, left(deadline))?).await,
            }
        }
    }

    /// The result of a job, once it is completed; the put says how long it is kept. Fails with
    /// [`Error::JobFailed`] if the job is dead, [`Error::JobGone`], or [`Error::Timeout`].
    pub async fn result<T: DeserializeOwned>(&self, id: u64, wait: Duration) -> Result<T> {
        let end = Instant::now() + wait;
        let deadline = self.inner.deadline() + wait;
        let mut attempts = Attempts::default();
        loop {
            let part = left(end).min(WAIT_MAX);
            let answer = match self.inner.ask_waiting(&requests::result(id, part)?, part).await {
                Ok(answer) => answer,
                Err(error) => {
                    sleep(attempts.after(error, true, left(deadline))?).await;
                    continue;
                }
            };
            if let Some(result) = answer.members::<ResultAnswer>()? {
                return result.into_result();
            }
            // The server says the same of a job that is gone and of a wait that has ended.
            if self.peek(id).await?.is_none() {
                return Err(Error::JobGone(format!("job {id} is gone, or its result is not kept")));
            }
            if left(end).is_zero() {
                return Err(Error::Timeout(format!("job {id} has no result after {wait:?}")));
            }
        }
    }

    /// What is known of a job. `None`: it is gone, or never was.
    pub async fn peek(&self, id: u64) -> Result<Option<JobInfo>> {
        self.inner.request(&requests::of_id("peek", id)?).await?.members()
    }

    /// Cancels a job. If it runs, its worker is told. `false`: there is no such job.
    pub async fn cancel(&self, id: u64) -> Result<bool> {
        self.inner.request(&requests::of_id("cancel", id)?).await?.done()
    }

    /// Deletes a job in whatever state. `false`: there is no such job.
    pub async fn delete(&self, id: u64) -> Result<bool> {
        self.inner.request(&requests::of_id("delete", id)?).await?.done()
    }

    /// Makes a buried or scheduled job ready. `false`: there is no such job.
    pub async fn kick(&self, id: u64) -> Result<bool> {
        self.inner.request(&requests::of_id("kick", id)?).await?.done()
    }

    /// Buries a job; one that runs is taken from its worker. `false`: there is no such job.
    pub async fn bury(&self, id: u64) -> Result<bool> {
        self.inner.request(&requests::of_id("bury", id)?).await?.done()
    }

    /// The figures of a queue. `None`: nothing is known of it.
    pub async fn queue(&self, queue: &str) -> Result<Option<QueueInfo>> {
        self.inner.request(&requests::of_queue("stats", queue)?).await?.members()
    }

    /// No job of the queue is handed out until [`resume`](Self::resume).
    pub async fn pause(&self, queue: &str) -> Result<()> {
        self.inner.request(&requests::of_queue("pause", queue)?).await?.done().map(drop)
    }

    /// Ends a pause.
    pub async fn resume(&self, queue: &str) -> Result<()> {
        self.inner.request(&requests::of_queue("resume", queue)?).await?.done().map(drop)
    }

    /// Whether the server refuses puts with [`Error::Draining`].
    pub async fn drain(&self, on: bool) -> Result<()> {
        self.inner.request(&requests::drain(on)?).await?.done().map(drop)
    }

    /// Any other request of the native API as a line, for example `queues`: its answer, or `None`
    /// of a `no-job`. It is not repeated if its answer is lost.
    pub async fn call<T: DeserializeOwned>(
        &self,
        request: &str,
        fields: &(impl Serialize + ?Sized),
    ) -> Result<Option<T>> {
        self.inner.request(&requests::line(request, fields)?).await?.members()
    }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// Closes a connection on which somebody has waited who is gone.
struct Waiting(Option<Arc<Link>>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(link) = &self.0 {
            link.close("nobody waits any more");
        }
    }
}

impl Inner {
    fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    fn living_link(&self) -> Option<Arc<Link>> {
        let main = self.main.lock().unwrap_or_else(PoisonError::into_inner);
        main.as_ref().filter(|link| !link.is_lost()).cloned()
    }

    /// The shared connection. Those who find none wait for one attempt to connect.
    async fn link(&self) -> Result<Arc<Link>> {
        if let Some(link) = self.living_link() {
            return Ok(link);
        }
        let _opening = self.opening.lock().await;
        if let Some(link) = self.living_link() {
            return Ok(link);
        }
        let link = Link::open(&self.target).await?;
        *self.main.lock().unwrap_or_else(PoisonError::into_inner) = Some(link.clone());
        Ok(link)
    }

    async fn link_by(&self, deadline: Instant) -> Result<Arc<Link>> {
        timeout_at(deadline, self.link()).await.unwrap_or_else(|_| {
            Err(Error::ConnectionLost(format!("no connection to {} in time", self.target.address)))
        })
    }

    async fn request(&self, line: &Line) -> Result<Answer> {
        let deadline = self.deadline();
        let mut attempts = Attempts::default();
        loop {
            let attempt = async {
                let link = self.link_by(deadline).await?;
                let received = link.received();
                let answer = timeout_at(deadline, link.ask(&line.bytes)).await;
                answer.unwrap_or_else(|_| Err(self.late(&link, received)))
            };
            match attempt.await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    sleep(attempts.after(error, line.repeatable, left(deadline))?).await;
                }
            }
        }
    }

    /// A connection on which nothing has come since is of no use to others either.
    fn late(&self, link: &Link, received: u64) -> Error {
        if link.received() == received {
            link.close("the server does not answer");
        }
        Error::Timeout(format!("{} has not answered in time", self.target.address))
    }

    async fn put_rest(
        &self,
        puts: &mut Puts<impl Iterator<Item = NewJob>>,
        deadline: Instant,
    ) -> Result<()> {
        let link = self.link_by(deadline).await?;
        let received = link.received();
        let work = timeout_at(deadline, puts.send_on(&link)).await;
        work.unwrap_or_else(|_| Err(self.late(&link, received)))
    }

    /// A free connection for a wait.
    async fn borrow(&self) -> Result<Arc<Link>> {
        let found = {
            let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
            let mut free = 0;
            others.retain(|link| {
                let is_free = Arc::strong_count(link) == 1;
                free += usize::from(is_free);
                !(link.is_lost() || is_free && free > IDLE_MAX)
            });
            others.iter().find(|link| Arc::strong_count(link) == 1).cloned()
        };
        if let Some(link) = found {
            return Ok(link);
        }
        let link = Link::open(&self.target).await?;
        self.others.lock().unwrap_or_else(PoisonError::into_inner).push(link.clone());
        Ok(link)
    }

    async fn reserve(&self, line: &Line, wait: Duration) -> Result<Vec<Job>> {
        let deadline = self.deadline() + wait;
        if wait.is_zero() {
            let link = self.link_by(deadline).await?;
            let received = link.received();
            let jobs = timeout_at(deadline, link.reserve(&line.bytes)).await;
            return jobs.unwrap_or_else(|_| Err(self.late(&link, received)));
        }
        let link = self.borrow().await?;
        let mut waiting = Waiting(Some(link.clone()));
        let jobs = timeout_at(deadline, link.reserve(&line.bytes)).await;
        let jobs = jobs.map_err(|_| self.late(&link, link.received()))?;
        waiting.0 = None;
        jobs
    }

    async fn ask_waiting(&self, line: &Line, wait: Duration) -> Result<Answer> {
        let deadline = self.deadline() + wait;
        let link = self.borrow().await?;
        let mut waiting = Waiting(Some(link.clone()));
        let answer = timeout_at(deadline, link.ask(&line.bytes)).await;
        let answer = answer.map_err(|_| self.late(&link, link.received()))?;
        waiting.0 = None;
        answer
    }
}

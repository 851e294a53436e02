//! The client of threads, over std: the same requests, retries and errors as the one on tokio.
//!
//! Calls of several threads over one client take turns; what waits, and each job that is held, has
//! a connection of its own.

mod connection;
mod job;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::core::held;
use crate::core::put::{NewJob, Placed, placed};
use crate::core::repeat::Attempts;
use crate::core::requests::{self, Line};
use crate::core::wire::Answer;
use crate::error::{Error, Result};
use crate::info::{JobInfo, QueueInfo, ResultAnswer};
use connection::{Connection, Target};
pub use job::Job;

const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest wait of one request.
const WAIT_MAX: Duration = Duration::from_secs(20);
const IDLE_MAX: usize = 16;
/// Puts that are sent before their answers are read: these are short, so that the server never
/// waits for them to be taken.
const PIPELINED: usize = 256;
const PIPELINED_BYTES: usize = 512 << 10;

/// The lines that are sent together next, in place of what was in `bytes`, and their number.
fn batch(lines: &[(Line, bool)], bytes: &mut Vec<u8>) -> usize {
    bytes.clear();
    let mut count = 0;
    for (line, _) in lines.iter().take(PIPELINED) {
        if count > 0 && bytes.len() + line.bytes.len() > PIPELINED_BYTES {
            break;
        }
        bytes.extend_from_slice(&line.bytes);
        count += 1;
    }
    count
}

type Shared = Arc<Mutex<Connection>>;

/// A client that blocks. It is cheap to clone; clones share its connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    target: Target,
    timeout: Duration,
    main: Mutex<Option<Connection>>,
    /// Connections of waits and of jobs that are held. One that nobody else holds is free.
    others: Mutex<Vec<Shared>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("address", &self.inner.target.address).finish()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A connection in the middle of a request is marked as lost by whoever comes next.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

impl Client {
    /// Connects; the addresses are those of the client on tokio.
    pub fn connect(url: &str) -> Result<Self> {
        Self::connect_with(url, None, TIMEOUT)
    }

    /// Connects with a token, and a time that a call may take in place of 30 s.
    pub fn connect_with(url: &str, token: Option<&str>, timeout: Duration) -> Result<Self> {
        let mut address: crate::core::address::Address = url.parse()?;
        address.token = token.map(str::to_owned).or(address.token);
        let inner = Inner {
            target: Target::new(address)?,
            timeout,
            main: Mutex::default(),
            others: Mutex::default(),
        };
        *lock(&inner.main) = Some(Connection::open(&inner.target)?);
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Adds a job with a payload and the options of [`NewJob::new`].
    pub fn put(
        &self,
        queue: impl Into<String>,
        payload: &(impl Serialize + ?Sized),
    ) -> Result<Placed> {
        self.put_job(NewJob::new(queue, payload)?)
    }

    /// Adds a job. If the answer is lost, the put is repeated under its key, or a drawn one.
    pub fn put_job(&self, job: NewJob) -> Result<Placed> {
        let (line, drawn) = job.into_line()?;
        placed(self.inner.request(&line)?, drawn)
    }

    /// Adds many jobs, pipelined, in their order; what each has come to.
    pub fn put_many(&self, jobs: impl IntoIterator<Item = NewJob>) -> Result<Vec<Result<Placed>>> {
        let mut lines = Vec::new();
        for job in jobs {
            lines.push(job.into_line()?);
        }
        let mut answers = Vec::with_capacity(lines.len());
        let deadline = Instant::now() + self.inner.timeout;
        let mut attempts = Attempts::default();
        while answers.len() < lines.len() {
            if let Err(error) = self.inner.put_missing(&lines, &mut answers, deadline) {
                let repeatable = lines[answers.len()..].iter().all(|(line, _)| line.repeatable);
                let pause = attempts.after(error, repeatable, left(deadline))?;
                std::thread::sleep(pause);
            }
        }
        Ok(answers)
    }

    /// Reserves the most urgent job of the queues, and waits for one up to `wait`.
    pub fn reserve(&self, queues: &[&str], wait: Duration) -> Result<Option<Job>> {
        let queues: Vec<String> = queues.iter().map(|&name| name.to_owned()).collect();
        let end = Instant::now() + wait;
        let make = |part| requests::get(&queues, 1, part);
        loop {
            let (answer, connection) = self.inner.ask_waiting(&make, end)?;
            if let Some(fields) = held::fetched(answer)?.pop() {
                return Ok(Some(Job::new(fields, connection, self.inner.timeout)));
            }
            if left(end).is_zero() {
                return Ok(None);
            }
        }
    }

    /// The result of a job, once it is completed: see `Client::result` of the client on tokio.
    pub fn result<T: DeserializeOwned>(&self, id: u64, wait: Duration) -> Result<T> {
        let end = Instant::now() + wait;
        loop {
            let (answer, _) = self.inner.ask_waiting(&|part| requests::result(id, part), end)?;
            if let Some(result) = answer.members::<ResultAnswer>()? {
                return result.into_result();
            }
            if self.peek(id)?.is_none() {
                return Err(Error::JobGone(format!("job {id} is gone, or its result is not kept")));
            }
            if left(end).is_zero() {
                return Err(Error::Timeout(format!("job {id} has no result after {wait:?}")));
            }
        }
    }

    /// What is known of a job. `None`: it is gone, or never was.
    pub fn peek(&self, id: u64) -> Result<Option<JobInfo>> {
        self.inner.request(&requests::of_id("peek", id)?)?.members()
    }

    /// Cancels a job. `false`: there is no such job.
    pub fn cancel(&self, id: u64) -> Result<bool> {
        self.inner.request(&requests::of_id("cancel", id)?)?.done()
    }

    /// Deletes a job in whatever state. `false`: there is no such job.
    pub fn delete(&self, id: u64) -> Result<bool> {
        self.inner.request(&requests::of_id("delete", id)?)?.done()
    }

    /// Makes a buried or scheduled job ready. `false`: there is no such job.
    pub fn kick(&self, id: u64) -> Result<bool> {
        self.inner.request(&requests::of_id("kick", id)?)?.done()
    }

    /// Buries a job; one that runs is taken from its worker. `false`: there is no such job.
    pub fn bury(&self, id: u64) -> Result<bool> {
        self.inner.request(&requests::of_id("bury", id)?)?.done()
    }

    /// No job of the queue is handed out until [`resume`](Self::resume).
    pub fn pause(&self, queue: &str) -> Result<()> {
        self.inner.request(&requests::of_queue("pause", queue)?)?.done().map(drop)
    }

    /// Ends a pause.
    pub fn resume(&self, queue: &str) -> Result<()> {
        self.inner.request(&requests::of_queue("resume", queue)?)?.done().map(drop)
    }

    /// Whether the server refuses puts with [`Error::Draining`].
    pub fn drain(&self, on: bool) -> Result<()> {
        self.inner.request(&requests::drain(on)?)?.done().map(drop)
    }

    /// The figures of a queue. `None`: nothing is known of it.
    pub fn queue(&self, queue: &str) -> Result<Option<QueueInfo>> {
        self.inner.request(&requests::of_queue("stats", queue)?)?.members()
    }
}

impl Inner {
    fn request(&self, line: &Line) -> Result<Answer> {
        let deadline = Instant::now() + self.timeout;
        let mut attempts = Attempts::default();
        loop {
            let attempt = self.with_main(|main| main.ask(&line.bytes, deadline));
            match attempt {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    let pause = attempts.after(error, line.repeatable, left(deadline))?;
                    std::thread::sleep(pause);
                }
            }
        }
    }

    /// The shared connection, opened anew if it was lost.
    fn with_main<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        let mut main = lock(&self.main);
        let mut connection = match main.take().filter(|main| !main.is_lost()) {
            Some(connection) => connection,
            None => Connection::open(&self.target)?,
        };
        let done = work(&mut connection);
        *main = Some(connection);
        done
    }

    fn put_missing(
        &self,
        lines: &[(Line, bool)],
        answers: &mut Vec<Result<Placed>>,
        deadline: Instant,
    ) -> Result<()> {
        self.with_main(|main| {
            let (mut sent, mut bytes) = (answers.len(), Vec::new());
            while answers.len() < lines.len() {
                let before = sent;
                if sent < lines.len() {
                    let count = batch(&lines[sent..], &mut bytes);
                    main.send_more(&bytes, count, deadline)?;
                    sent += count;
                }
                // The server has always a batch to execute: only the answers to those before the
                // last one are waited for.
                let end = if sent > before { before } else { sent };
                for (_, drawn) in &lines[answers.len()..end] {
                    answers.push(placed(main.answer(deadline)?, *drawn));
                }
            }
            Ok(())
        })
    }

    /// A free connection.
    fn borrow(&self) -> Result<Shared> {
        let found = {
            let mut others = lock(&self.others);
            let mut free = 0;
            others.retain(|other| {
                let is_free = Arc::strong_count(other) == 1;
                free += usize::from(is_free);
                !(is_free && (lock(other).is_lost() || free > IDLE_MAX))
            });
            others.iter().find(|other| Arc::strong_count(other) == 1).cloned()
        };
        if let Some(connection) = found {
            return Ok(connection);
        }
        let connection = Arc::new(Mutex::new(Connection::open(&self.target)?));
        lock(&self.others).push(connection.clone());
        Ok(connection)
    }

    /// One request that waits up to `end`, or a part of it, on a connection that is then the
    /// caller's. It is repeated if the connection is lost: a job that was handed out goes back.
    fn ask_waiting(
        &self,
        make: &dyn Fn(Duration) -> Result<Line>,
        end: Instant,
    ) -> Result<(Answer, Shared)> {
        let deadline = end.max(Instant::now()) + self.timeout;
        let mut attempts = Attempts::default();
        loop {
            let part = left(end).min(WAIT_MAX);
            let line = make(part)?;
            let attempt = self.borrow().and_then(|connection| {
                let answer =
                    lock(&connection).ask(&line.bytes, Instant::now() + part + self.timeout);
                answer.map(|answer| (answer, connection))
            });
            match attempt {
                Ok(found) => return Ok(found),
                Err(error) => std::thread::sleep(attempts.after(error, true, left(deadline))?),
            }
        }
    }
}

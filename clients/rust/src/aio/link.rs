//! One connection: requests are pipelined, a task moves the bytes.
//!
//! A caller adds its lines to `unsent` and its waiter to `waiting` under one lock. The task takes
//! both at once, so that all that was added meanwhile is one write; the waiters are then its own,
//! and answers are matched without a lock.
//!
//! Invariants: the waiters of the task, then those of `waiting`, are those of all lines without an
//! answer, in their order. After `lost` is set nothing is added. Permits of `room` are taken before
//! lines are added, and come back with their answers: this bounds what is unanswered.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, Semaphore, oneshot};

use super::job::Job;
use super::puts::Batch;
use super::stream::{Stream, Target};
use crate::core::put::{Placed, Written, placed, placed_by_line};
use crate::core::requests;
use crate::core::wire::{Answer, Lines};
use crate::error::{Error, Result};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Requests without an answer: as many as the server executes of a connection at a time.
const IN_FLIGHT_MAX: usize = 1_024;
/// A longer line counts as several requests.
const BYTES_A_PERMIT: usize = 16 << 10;

/// Who takes an answer.
enum To {
    Caller(oneshot::Sender<Result<Answer>>),
    /// Jobs that nobody takes are given back: see `Job::drop`.
    Reserve(oneshot::Sender<Result<Vec<Job>>>, Weak<Link>),
    /// The answers to many puts are taken together.
    Puts(oneshot::Sender<Answered>, Box<Puts>),
    Nobody,
}

/// Puts that were sent together.
struct Puts {
    lines: Vec<Written>,
    placed: Vec<Result<Placed>>,
}

/// What puts have come to that were sent together.
pub(crate) struct Answered {
    /// Of the first of them; of all, unless the connection was lost.
    pub(crate) placed: Vec<Result<Placed>>,
    pub(crate) lost: Option<Error>,
}

struct Waiter {
    to: To,
    permits: usize,
}

impl Waiter {
    /// There is no answer. Nobody may be waiting any more.
    fn fail(self, error: &Error) {
        match self.to {
            To::Caller(to) => drop(to.send(Err(error.clone()))),
            To::Reserve(to, _) => drop(to.send(Err(error.clone()))),
            To::Puts(to, puts) => {
                drop(to.send(Answered { placed: puts.placed, lost: Some(error.clone()) }));
            }
            To::Nobody => {}
        }
    }
}

#[derive(Default)]
struct State {
    unsent: Vec<u8>,
    waiting: VecDeque<Waiter>,
    lost: Option<Error>,
    /// The last handle is gone: what is unsent is sent, and the connection ends.
    closing: bool,
}

struct Shared {
    name: String,
    state: Mutex<State>,
    wake: Notify,
    room: Semaphore,
    /// Counts reads: whether the server is there.
    received: AtomicU64,
}

/// A handle of a connection. Jobs that it has handed out hold it; with the last one it ends.
pub(crate) struct Link {
    shared: Arc<Shared>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.wake.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lose(&self, error: &Error) {
        let waiting = {
            let mut state = self.lock();
            if state.lost.is_some() {
                return;
            }
            state.lost = Some(error.clone());
            state.unsent = Vec::new();
            std::mem::take(&mut state.waiting)
        };
        self.room.close();
        self.wake.notify_one();
        for waiter in waiting {
            waiter.fail(error);
        }
    }
}

/// The waiters of lines that are being sent, or were.
struct Expected<'a> {
    shared: &'a Shared,
    waiters: VecDeque<Waiter>,
    is_first: bool,
}

impl Expected<'_> {
    /// Gives the answers that are complete to those who wait for them.
    fn take_answers(&mut self, lines: &mut Lines) -> Result<()> {
        let mut permits = 0;
        while let Some(line) = lines.next_line() {
            permits += self.take_answer(line)?;
        }
        if permits > 0 {
            self.shared.room.add_permits(permits);
        }
        Ok(())
    }

    /// The permits that come back.
    fn take_answer(&mut self, line: &[u8]) -> Result<usize> {
        if std::mem::take(&mut self.is_first)
            && let Answer::Refused(Error::TooManyClients(sentence)) = Answer::parse(line)?
        {
            return Err(Error::ConnectionLost(sentence));
        }
        if let Some(Waiter { to: To::Puts(_, puts), .. }) = self.waiters.front_mut() {
            let drawn = puts.lines[puts.placed.len()].drawn;
            let placed = match placed_by_line(line) {
                Some(placed) => Ok(placed),
                None => placed(Answer::parse(line)?, drawn),
            };
            puts.placed.push(placed);
            if puts.placed.len() < puts.lines.len() {
                return Ok(0);
            }
        }
        let Some(waiter) = self.waiters.pop_front() else {
            // The server says by itself only why it closes the connection.
            return Err(Error::ConnectionLost(match Answer::parse(line)? {
                Answer::Refused(error) => error.to_string(),
                _ => "an answer without a request".into(),
            }));
        };
        match waiter.to {
            To::Caller(to) => drop(to.send(Ok(Answer::parse(line)?))),
            To::Reserve(to, link) => {
                if let Some(link) = link.upgrade() {
                    drop(to.send(Job::all_of(Answer::parse(line)?, &link)));
                }
            }
            To::Puts(to, puts) => drop(to.send(Answered { placed: puts.placed, lost: None })),
            To::Nobody => drop(Answer::parse(line)?),
        }
        Ok(waiter.permits)
    }
}

impl Link {
    /// Connects and says who the client is.
    pub(crate) async fn open(target: &Target) -> Result<Arc<Self>> {
        let name = target.address.to_string();
        let slow = || Error::ConnectionLost(format!("no connection to {name} in time"));
        let opening = async {
            let stream = target.open().await?;
            let shared = Arc::new(Shared {
                name: name.clone(),
                state: Mutex::default(),
                wake: Notify::new(),
                room: Semaphore::new(IN_FLIGHT_MAX),
                received: AtomicU64::new(0),
            });
            tokio::spawn(drive(shared.clone(), stream));
            let link = Arc::new(Self { shared });
            if let Some(token) = &target.address.token {
                match link.ask(&requests::auth(token)?.bytes).await? {
                    // A server without users needs no token.
                    Answer::Refused(e) if e.to_string().contains("this server has no users") => {}
                    answer => drop(answer.done()?),
                }
            }
            Ok(link)
        };
        tokio::time::timeout(CONNECT_TIMEOUT, opening).await.unwrap_or_else(|_| Err(slow()))
    }

    pub(crate) fn is_lost(&self) -> bool {
        let state = self.shared.lock();
        state.lost.is_some() || state.closing
    }

    /// How often something has arrived.
    pub(crate) fn received(&self) -> u64 {
        self.shared.received.load(Ordering::Relaxed)
    }

    /// Ends the connection now. What is unanswered may have been executed or not.
    pub(crate) fn close(&self, why: &str) {
        self.shared.lose(&Error::AnswerLost(format!("{}: {why}", self.shared.name)));
    }

    /// Sends a line when there is room, and waits for its answer.
    pub(crate) async fn ask(&self, line: &[u8]) -> Result<Answer> {
        let permits = self.wait_for_room(1, line.len()).await?;
        let (to, answer) = oneshot::channel();
        self.push(line, Waiter { to: To::Caller(to), permits })?;
        self.answer(answer).await
    }

    /// Sends the lines of puts when there is room for all of them.
    pub(crate) async fn send_batch(&self, batch: &Batch) -> Result<oneshot::Receiver<Answered>> {
        let permits = self.wait_for_room(batch.lines.len(), batch.bytes.len()).await?;
        let (to, answered) = oneshot::channel();
        let placed = Vec::with_capacity(batch.lines.len());
        let to = To::Puts(to, Box::new(Puts { lines: batch.lines.clone(), placed }));
        self.push(&batch.bytes, Waiter { to, permits })?;
        Ok(answered)
    }

    /// What is known of puts if nobody has said it.
    pub(crate) fn unanswered(&self) -> Answered {
        Answered { placed: Vec::new(), lost: Some(self.gone()) }
    }

    pub(crate) async fn answer(&self, answer: oneshot::Receiver<Result<Answer>>) -> Result<Answer> {
        answer.await.unwrap_or_else(|_| Err(self.gone()))
    }

    /// Sends a line at once, whatever is unanswered: for what is said about a job that is held,
    /// which is bounded by the number of jobs.
    pub(crate) fn tell(&self, line: &[u8]) -> Result<oneshot::Receiver<Result<Answer>>> {
        let (to, answer) = oneshot::channel();
        self.push(line, Waiter { to: To::Caller(to), permits: 0 })?;
        Ok(answer)
    }

    /// The same if nobody waits for the answer.
    pub(crate) fn tell_only(&self, line: &[u8]) {
        // On a connection that is lost there is nothing to be said.
        drop(self.push(line, Waiter { to: To::Nobody, permits: 0 }));
    }

    /// Sends a get. If this future is dropped, the jobs go back to their queues.
    pub(crate) async fn reserve(self: &Arc<Self>, line: &[u8]) -> Result<Vec<Job>> {
        let permits = self.wait_for_room(1, line.len()).await?;
        let (to, jobs) = oneshot::channel();
        let to = To::Reserve(to, Arc::downgrade(self));
        self.push(line, Waiter { to, permits })?;
        jobs.await.unwrap_or_else(|_| Err(self.gone()))
    }

    fn gone(&self) -> Error {
        Error::AnswerLost(format!("the connection to {} was lost", self.shared.name))
    }

    async fn wait_for_room(&self, lines: usize, length: usize) -> Result<usize> {
        let permits = (lines + length / BYTES_A_PERMIT).min(IN_FLIGHT_MAX);
        let count = u32::try_from(permits).unwrap_or(u32::MAX);
        match self.shared.room.acquire_many(count).await {
            Ok(permit) => permit.forget(),
            Err(_closed) => return Err(self.not_sent()),
        }
        Ok(permits)
    }

    fn not_sent(&self) -> Error {
        let state = self.shared.lock();
        let why = state.lost.as_ref().map_or_else(|| "it was closed".into(), ToString::to_string);
        match &state.lost {
            // Not one to be connected to again.
            Some(error @ (Error::BadAnswer(_) | Error::Untrusted(_))) => error.clone(),
            _ => Error::ConnectionLost(why),
        }
    }

    fn push(&self, line: &[u8], waiter: Waiter) -> Result<()> {
        {
            let mut state = self.shared.lock();
            if state.lost.is_none() {
                let was_empty = state.unsent.is_empty();
                state.unsent.extend_from_slice(line);
                state.waiting.push_back(waiter);
                drop(state);
                if was_empty {
                    self.shared.wake.notify_one();
                }
                return Ok(());
            }
        }
        Err(self.not_sent())
    }
}

/// Moves bytes until the connection ends.
async fn drive(shared: Arc<Shared>, stream: Box<dyn Stream>) {
    let mut expected = Expected { shared: &shared, waiters: VecDeque::new(), is_first: true };
    let ended = match transfer(&mut expected, stream).await {
        Ok(()) => Error::AnswerLost(format!("{} has closed the connection", shared.name)),
        Err(error) => error,
    };
    // First, so that nobody who is told takes this connection once more.
    shared.lose(&ended);
    // Whoever has closed it before has said why.
    let error = shared.lock().lost.clone().unwrap_or(ended);
    for waiter in expected.waiters {
        waiter.fail(&error);
    }
}

async fn transfer(expected: &mut Expected<'_>, stream: Box<dyn Stream>) -> Result<()> {
    let shared = expected.shared;
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut lines = Lines::default();
    let mut buffer = vec![0; 64 << 10];
    let (mut output, mut written, mut flushed) = (Vec::new(), 0, true);
    let lost = |error: &std::io::Error| {
        Error::of_certificate(&shared.name, error).unwrap_or_else(|| {
            Error::AnswerLost(format!("the connection to {} was lost: {error}", shared.name))
        })
    };
    loop {
        if written == output.len() {
            output.clear();
            written = 0;
            let mut state = shared.lock();
            std::mem::swap(&mut output, &mut state.unsent);
            expected.waiters.append(&mut state.waiting);
            if state.lost.is_some() || output.is_empty() && flushed && state.closing {
                return Ok(());
            }
        }
        let has_output = written < output.len();
        tokio::select! {
            read = reader.read(&mut buffer) => {
                let length = read.map_err(|e| lost(&e))?;
                if length == 0 {
                    return Ok(());
                }
                shared.received.fetch_add(1, Ordering::Relaxed);
                lines.push(&buffer[..length]);
                expected.take_answers(&mut lines)?;
            }
            sent = send_on(&mut writer, &output[written..]), if has_output || !flushed => {
                written += sent.map_err(|e| lost(&e))?;
                flushed = !has_output;
            }
            () = shared.wake.notified() => {
                if shared.lock().lost.is_some() {
                    return Ok(());
                }
            }
        }
    }
}

/// Writes a part of what is left; if nothing is left, flushes what TLS has kept.
async fn send_on(writer: &mut (impl AsyncWriteExt + Unpin), rest: &[u8]) -> std::io::Result<usize> {
    if rest.is_empty() {
        return writer.flush().await.map(|()| 0);
    }
    match writer.write(rest).await? {
        0 => Err(std::io::ErrorKind::WriteZero.into()),
        length => Ok(length),
    }
}

//! The threads that evaluate queries, so that the loop never waits for one.
//!
//! A query begins in a thread that runs only when nobody else wants its processor (Linux:
//! `SCHED_IDLE`), because the loop may share it. On a machine that is busy all the time it might
//! come to nothing there; so after a quarter of its time it begins anew in a thread that has a
//! share of its own, though a small one.
//!
//! The threads watch the clock by themselves, and let go of a query that takes too long, that
//! nobody waits for, or that is under way when the server ends. They are woken by a query and wake
//! the loop with the result.

use super::{Clock, Wake};
use crate::base::time::Mono;
use crate::query::{Evaluator, Fault, Found, Helper, Stop, Work};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use thread_priority::{Error, ThreadPriority, set_current_thread_priority};
use tracing::debug;

/// SQLite's parser takes its memory from there, and some of its functions recurse.
const STACK: usize = 8 * 1024 * 1024;

/// The part of its time after which a query is not left to idle processors any more.
const PATIENCE: u32 = 4;

/// Of 100: nice 10 on Linux, about a tenth of the share of the loop.
const SMALL_SHARE: u8 = 25;

/// The threads of queries. Dropping it stops the query under way and ends them.
#[derive(Debug)]
pub struct QueryThread {
    idle: Lane,
    late: Lane,
    clock: SharedClock,
    timeout: Duration,
    /// When the query under way is over.
    over: Mono,
    /// Queries that have taken too long.
    timed_out: u64,
}

#[derive(Clone, Debug)]
struct SharedClock(Arc<Mutex<Clock>>);

impl SharedClock {
    fn now(&self) -> Mono {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).sample().mono
    }
}

/// One thread.
#[derive(Debug)]
struct Lane {
    work: Option<Sender<Work>>,
    done: Receiver<Done>,
    watch: Arc<Watch>,
    thread: Option<JoinHandle<()>>,
}

/// What came of a query in a lane.
#[derive(Debug)]
enum Done {
    Found(Found),
    /// Its time there is over.
    Late(Work),
}

/// When the query under way in a lane is to stop.
#[derive(Debug)]
struct Watch {
    clock: SharedClock,
    /// In nanoseconds of the clock.
    deadline: AtomicU64,
    /// Nobody wants the result.
    dropped: AtomicBool,
}

impl Watch {
    fn is_over(&self) -> bool {
        self.dropped.load(Ordering::Relaxed)
            || self.clock.now().0 >= self.deadline.load(Ordering::Relaxed)
    }
}

impl QueryThread {
    /// Starts the threads. A query may take so long; each result is announced by `wake`.
    ///
    /// # Errors
    /// If a thread or SQLite cannot be started.
    pub fn start(timeout: Duration, wake: &Wake) -> io::Result<Self> {
        let clock = SharedClock(Arc::new(Mutex::new(Clock::start())));
        let idle = Lane::start("query", &clock, wake, wait_for_idle)?;
        let late = Lane::start("query-late", &clock, wake, || {
            let share = ThreadPriority::try_from(SMALL_SHARE).unwrap_or(ThreadPriority::Min);
            set_current_thread_priority(share)
        })?;
        Ok(Self { idle, late, clock, timeout, over: Mono(0), timed_out: 0 })
    }
}

impl Lane {
    fn start(
        name: &str,
        clock: &SharedClock,
        wake: &Wake,
        give_way: impl FnOnce() -> Result<(), Error> + Send + 'static,
    ) -> io::Result<Self> {
        let watch = Arc::new(Watch {
            clock: clock.clone(),
            deadline: AtomicU64::new(u64::MAX),
            dropped: AtomicBool::new(false),
        });
        let own = Arc::clone(&watch);
        let stop: Stop = Arc::new(move || own.is_over());
        let evaluator = Evaluator::new(stop).map_err(io::Error::other)?;
        let (work, queries) = channel();
        let (results, done) = channel();
        let wake = wake.clone();
        let builder = thread::Builder::new().name(name.to_owned()).stack_size(STACK);
        let thread = builder.spawn(move || {
            if let Err(error) = give_way() {
                debug!(?error, "queries run with the priority of everything else");
            }
            serve(evaluator, &queries, |done| {
                // Nobody listens once the helper is dropped.
                let _ = results.send(done);
                wake.wake();
            });
        })?;
        Ok(Self { work: Some(work), done, watch, thread: Some(thread) })
    }

    fn begin(&self, work: Work, deadline: Mono) {
        self.watch.dropped.store(false, Ordering::Relaxed);
        self.watch.deadline.store(deadline.0, Ordering::Relaxed);
        let sent = self.work.as_ref().map(|queries| queries.send(work));
        assert!(matches!(sent, Some(Ok(()))), "a thread of queries has died");
    }

    fn poll(&self) -> Option<Done> {
        match self.done.try_recv() {
            Ok(done) => Some(done),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => panic!("a thread of queries has died"),
        }
    }

    fn stop(&self) {
        self.watch.dropped.store(true, Ordering::Relaxed);
    }

    fn is_dropped(&self) -> bool {
        self.watch.dropped.load(Ordering::Relaxed)
    }
}

/// Evaluates what comes, until there are no more senders.
fn serve(mut evaluator: Evaluator, queries: &Receiver<Work>, give: impl Fn(Done)) {
    while let Ok(work) = queries.recv() {
        let found = match evaluator.run(&work) {
            Ok(rows) => Ok(Arc::from(rows)),
            Err(Fault::Bad(why)) => Err(why),
            Err(Fault::Stopped) => {
                give(Done::Late(work));
                continue;
            }
        };
        // Before the result is known, so that the loop never frees a snapshot that has grown old.
        drop(work);
        give(Done::Found(found));
    }
}

/// Lets everybody else go first, as far as the system has a word for that.
#[cfg(target_os = "linux")]
fn wait_for_idle() -> Result<(), Error> {
    use thread_priority::{
        NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
        thread_native_id,
    };
    // A thread that is merely nice keeps the processor for a millisecond or more when the loop
    // wakes up; one of this class leaves it at once.
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle)
        .or_else(|_| set_current_thread_priority(ThreadPriority::Min))
}

#[cfg(not(target_os = "linux"))]
fn wait_for_idle() -> Result<(), Error> {
    set_current_thread_priority(ThreadPriority::Min)
}

impl Helper for QueryThread {
    fn start(&mut self, work: Work) {
        let now = self.clock.now();
        self.over = now.after(self.timeout);
        self.idle.begin(work, now.after(self.timeout / PATIENCE));
    }

    fn poll(&mut self) -> Option<Found> {
        match self.idle.poll() {
            Some(Done::Found(found)) => return Some(found),
            Some(Done::Late(work)) if !self.idle.is_dropped() => {
                self.late.begin(work, self.over);
                return None;
            }
            // Nobody reads this.
            Some(Done::Late(_)) => return Some(Err("the query was stopped".to_owned())),
            None => {}
        }
        Some(match self.late.poll()? {
            Done::Found(found) => found,
            Done::Late(_) => {
                self.timed_out += u64::from(!self.late.is_dropped());
                Err(format!(
                    "the query took longer than {} (--query-timeout) and was stopped",
                    humantime::format_duration(self.timeout)
                ))
            }
        })
    }

    fn stop(&mut self) {
        self.idle.stop();
        self.late.stop();
    }

    fn timed_out(&self) -> u64 {
        self.timed_out
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.work = None;
        self.stop();
        if let Some(thread) = self.thread.take() {
            // If it has panicked it has said so.
            let _ = thread.join();
        }
    }
}

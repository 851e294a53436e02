//! The threads that evaluate queries, so that the loop never waits for one.
//!
//! A query begins in a thread that runs only when nobody else wants its processor (Linux:
//! `SCHED_IDLE`), because the loop may share it. On a machine that is busy all the time it might
//! come to nothing there; so after a quarter of its time it goes on, where it was, in a thread that
//! has a share of its own, though a small one. (A thread of the first kind cannot become one of the
//! second: Linux asks for a privilege.)
//!
//! Each thread starts when there is something for it to do. The threads watch the clock by
//! themselves, and let go of a query that takes too long, that nobody waits for, or that is under
//! way when the server ends. They are woken by a query and wake the loop with the result.

use super::{Clock, Wake};
use crate::base::time::Mono;
use crate::query::{Evaluator, Fault, Found, Helper, Progress, Stop, Work};
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
    idle: Option<Lane>,
    late: Option<Lane>,
    clock: SharedClock,
    wake: Wake,
    timeout: Duration,
    /// When the query under way is over.
    over: Mono,
    /// Queries that have taken too long.
    timed_out: u64,
    /// Why the query that was begun last is not under way, if its thread could not be started.
    failed: Option<String>,
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
    work: Option<Sender<Task>>,
    done: Receiver<Done>,
    watch: Arc<Watch>,
    thread: Option<JoinHandle<()>>,
}

/// A query with what was found already.
#[derive(Debug)]
struct Task {
    work: Work,
    progress: Progress,
}

/// What came of a query in a lane.
#[derive(Debug)]
enum Done {
    Found(Found),
    /// Its time there is over.
    Late(Task),
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
    /// Threads that start with the first query. One may take so long; each result is announced by
    /// `wake`.
    #[must_use]
    pub fn new(timeout: Duration, wake: &Wake) -> Self {
        Self {
            idle: None,
            late: None,
            clock: SharedClock(Arc::new(Mutex::new(Clock::start()))),
            wake: wake.clone(),
            timeout,
            over: Mono(0),
            timed_out: 0,
            failed: None,
        }
    }

    /// Gives the task to the first thread or the second, which is started if need be.
    fn begin(&mut self, second: bool, task: Task, deadline: Mono) {
        let place = if second { &mut self.late } else { &mut self.idle };
        if place.is_none() {
            let started = if second {
                Lane::start("query-late", &self.clock, &self.wake, take_small_share)
            } else {
                Lane::start("query", &self.clock, &self.wake, wait_for_idle)
            };
            match started {
                Ok(lane) => *place = Some(lane),
                Err(error) => {
                    self.failed = Some(format!("the query has no thread to run in: {error}"));
                    self.wake.wake();
                }
            }
        }
        if let Some(lane) = place {
            lane.begin(task, deadline);
        }
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
        let (work, queries) = channel();
        let (results, done) = channel();
        let wake = wake.clone();
        let builder = thread::Builder::new().name(name.to_owned()).stack_size(STACK);
        let thread = builder.spawn(move || {
            if let Err(error) = give_way() {
                debug!(?error, "queries run with the priority of everything else");
            }
            serve(stop, &queries, |done| {
                // Nobody listens once the helper is dropped.
                let _ = results.send(done);
                wake.wake();
            });
        })?;
        Ok(Self { work: Some(work), done, watch, thread: Some(thread) })
    }

    fn begin(&self, task: Task, deadline: Mono) {
        self.watch.dropped.store(false, Ordering::Relaxed);
        self.watch.deadline.store(deadline.0, Ordering::Relaxed);
        let sent = self.work.as_ref().map(|queries| queries.send(task));
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
fn serve(stop: Stop, queries: &Receiver<Task>, give: impl Fn(Done)) {
    let mut evaluator = Evaluator::new(stop);
    while let Ok(mut task) = queries.recv() {
        let result = match &mut evaluator {
            Ok(evaluator) => evaluator.go_on(&task.work, &mut task.progress),
            Err(why) => Err(Fault::Bad(why.clone())),
        };
        let found = match result {
            Ok(()) => Ok(Arc::from(task.progress.found)),
            Err(Fault::Bad(why)) => Err(why),
            Err(Fault::Stopped) => {
                give(Done::Late(task));
                continue;
            }
        };
        // Before the result is known, so that the loop never frees a snapshot that has grown old.
        drop(task.work);
        give(Done::Found(found));
    }
}

fn take_small_share() -> Result<(), Error> {
    let share = ThreadPriority::try_from(SMALL_SHARE).unwrap_or(ThreadPriority::Min);
    set_current_thread_priority(share)
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
        let task = Task { work, progress: Progress::default() };
        self.begin(false, task, now.after(self.timeout / PATIENCE));
    }

    fn poll(&mut self) -> Option<Found> {
        if let Some(why) = self.failed.take() {
            return Some(Err(why));
        }
        let idle = self.idle.as_ref()?;
        match idle.poll() {
            Some(Done::Found(found)) => return Some(found),
            Some(Done::Late(task)) if !idle.is_dropped() => {
                self.begin(true, task, self.over);
                return self.failed.take().map(Err);
            }
            // Nobody reads this.
            Some(Done::Late(_)) => return Some(Err("the query was stopped".to_owned())),
            None => {}
        }
        let late = self.late.as_ref()?;
        Some(match late.poll()? {
            Done::Found(found) => found,
            Done::Late(_) => {
                self.timed_out += u64::from(!late.is_dropped());
                Err(format!(
                    "the query took longer than {} (--query-timeout) and was stopped",
                    humantime::format_duration(self.timeout)
                ))
            }
        })
    }

    fn stop(&mut self) {
        for lane in [&self.idle, &self.late].into_iter().flatten() {
            lane.stop();
        }
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

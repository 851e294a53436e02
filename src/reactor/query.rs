//! The thread that evaluates queries, so that the loop never waits for one.
//!
//! It runs only when nobody else wants its processor (Linux: `SCHED_IDLE`), because the loop may
//! share it; it is woken by a query and wakes the loop with the result. It watches the clock by
//! itself, and lets go of a query that takes too long, that nobody waits for, or that is under way
//! when the server ends.

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
use tracing::debug;

/// SQLite's parser takes its memory from there, and some of its functions recurse.
const STACK: usize = 8 * 1024 * 1024;

/// A thread that evaluates queries. Dropping it stops the query under way and ends the thread.
#[derive(Debug)]
pub struct QueryThread {
    work: Option<Sender<Work>>,
    found: Receiver<Found>,
    watch: Arc<Watch>,
    thread: Option<JoinHandle<()>>,
}

/// When the query under way is to stop.
#[derive(Debug)]
struct Watch {
    clock: Mutex<Clock>,
    /// In nanoseconds of the clock.
    deadline: AtomicU64,
    /// Nobody wants the result.
    dropped: AtomicBool,
    /// Queries that have taken too long.
    late: AtomicU64,
}

impl Watch {
    fn now(&self) -> Mono {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner).sample().mono
    }

    fn is_over(&self) -> bool {
        self.dropped.load(Ordering::Relaxed)
            || self.now().0 >= self.deadline.load(Ordering::Relaxed)
    }
}

impl QueryThread {
    /// Starts the thread. A query may take so long; each result is announced by `wake`.
    ///
    /// # Errors
    /// If the thread or SQLite cannot be started.
    pub fn start(timeout: Duration, wake: Wake) -> io::Result<Self> {
        let watch = Arc::new(Watch {
            clock: Mutex::new(Clock::start()),
            deadline: AtomicU64::new(u64::MAX),
            dropped: AtomicBool::new(false),
            late: AtomicU64::new(0),
        });
        let own = Arc::clone(&watch);
        let stop: Stop = Arc::new(move || own.is_over());
        let evaluator = Evaluator::new(stop).map_err(io::Error::other)?;
        let (work, queries) = channel();
        let (results, found) = channel();
        let own = Arc::clone(&watch);
        let builder = thread::Builder::new().name("query".to_owned()).stack_size(STACK);
        let thread = builder.spawn(move || {
            give_way();
            serve(evaluator, &queries, timeout, &own, |result| {
                // Nobody listens once the helper is dropped.
                let _ = results.send(result);
                wake.wake();
            });
        })?;
        Ok(Self { work: Some(work), found, watch, thread: Some(thread) })
    }
}

/// Evaluates what comes, until there are no more senders.
fn serve(
    mut evaluator: Evaluator,
    queries: &Receiver<Work>,
    timeout: Duration,
    watch: &Watch,
    give: impl Fn(Found),
) {
    while let Ok(work) = queries.recv() {
        watch.deadline.store(watch.now().after(timeout).0, Ordering::Relaxed);
        let result = evaluator.run(&work);
        if result == Err(Fault::Stopped) && !watch.dropped.load(Ordering::Relaxed) {
            watch.late.fetch_add(1, Ordering::Relaxed);
        }
        // Before the result is known, so that the loop never frees a snapshot that has grown old.
        drop(work);
        give(result.map(Arc::from).map_err(|fault| match fault {
            Fault::Bad(why) => why,
            Fault::Stopped => format!(
                "the query took longer than {} (--query-timeout) and was stopped",
                humantime::format_duration(timeout)
            ),
        }));
    }
}

/// Lets everybody else go first, as far as the system has a word for that.
fn give_way() {
    use thread_priority::{ThreadPriority, set_current_thread_priority};
    #[cfg(target_os = "linux")]
    let done = {
        use thread_priority::{
            NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
            thread_native_id,
        };
        // A thread that is merely nice keeps the processor for a millisecond or more when the loop
        // wakes up; one of this class leaves it at once.
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle)
            .or_else(|_| set_current_thread_priority(ThreadPriority::Min))
    };
    #[cfg(not(target_os = "linux"))]
    let done = set_current_thread_priority(ThreadPriority::Min);
    if let Err(error) = done {
        debug!(?error, "queries run with the priority of everything else");
    }
}

impl Helper for QueryThread {
    fn start(&mut self, work: Work) {
        self.watch.dropped.store(false, Ordering::Relaxed);
        let sent = self.work.as_ref().map(|queries| queries.send(work));
        assert!(matches!(sent, Some(Ok(()))), "the thread of queries has died");
    }

    fn poll(&mut self) -> Option<Found> {
        let found = self.found.try_recv();
        assert!(found != Err(TryRecvError::Disconnected), "the thread of queries has died");
        found.ok()
    }

    fn stop(&mut self) {
        self.watch.dropped.store(true, Ordering::Relaxed);
    }

    fn timed_out(&self) -> u64 {
        self.watch.late.load(Ordering::Relaxed)
    }
}

impl Drop for QueryThread {
    fn drop(&mut self) {
        self.work = None;
        self.stop();
        if let Some(thread) = self.thread.take() {
            // If it has panicked it has said so.
            let _ = thread.join();
        }
    }
}

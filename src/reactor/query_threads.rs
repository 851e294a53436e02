//! Threads that evaluate queries, so that the loop does not block.
//!
//! A *lane* is one such thread. A query begins in a lane of the idle class (Linux: `SCHED_IDLE`),
//! because the loop may share its processor. On a saturated machine it would starve there; so the
//! last lane has a small processor share of its own. (Linux requires a privilege to change a thread
//! of the first kind into one of the second.) There are [`QUERY_THREADS_MAX`] of the first kind,
//! because one may be stuck in something uninterruptible; the engine gives turns to one lane at a
//! time.
//!
//! The threads read only the clock of their processor time; the loop stops them through a
//! `StopFlag`. Invariant: a thread has one query at a time, and drops a cancelled one at its next
//! check of the flag.
//!
//! Each thread starts with its first query, and wakes the loop with each result.

use super::LoopWaker;
use super::clock::thread_cpu_time;
use super::thread_priority::{Error, lower_priority, set_idle_class};
use crate::base::limits::QUERY_THREADS_MAX;
use crate::query::{
    Ended, Evaluator, FreeLane, QueryError, QueryExecutor, ResultShape, StopCheck, StopRequest,
    Task, TaskEnd,
};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tracing::debug;

/// SQLite's parser uses the stack, and some of its functions recurse.
const STACK_BYTES: usize = 8 * 1024 * 1024;

/// Stop checks, one every few microseconds, between two calls of `yield_now`. Without it a thread
/// of the idle class that was scheduled while the loop is runnable would keep the processor until
/// the next scheduler tick: some milliseconds.
const CHECKS_PER_YIELD: u64 = 8;

/// The query threads. Dropping it cancels their queries and joins them.
#[derive(Debug)]
pub struct QueryThreads {
    /// The last one has a processor share of its own.
    lanes: Vec<QueryThread>,
}

/// One lane. Its thread runs from its first query on.
#[derive(Debug)]
struct QueryThread {
    name: String,
    lower_priority: fn() -> Result<(), Error>,
    wake: LoopWaker,
    value_max: usize,
    running: Option<Running>,
    /// It has a turn whose end was not polled yet.
    busy: bool,
}

#[derive(Debug)]
struct Running {
    flag: Arc<StopFlag>,
    orders: Sender<Order>,
    ended: Receiver<(Duration, TaskEnd)>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
enum Order {
    /// Evaluate for this many steps.
    Turn(Task, u64),
    /// Free the memory of the task.
    Discard(Task),
}

/// The stop request of a lane's turn, set by the loop, and its steps, counted by the lane.
#[derive(Debug, Default)]
struct StopFlag {
    stop: AtomicU8,
    /// Stop checks in total: the steps of turns.
    steps: AtomicU64,
    /// Value of `steps` at which the turn is over.
    turn_end: AtomicU64,
}

impl StopFlag {
    fn set(&self, stop: StopRequest) {
        self.stop.store(stop as u8, Ordering::Relaxed);
    }

    fn reaches(&self, stop: StopRequest) -> bool {
        self.stop.load(Ordering::Relaxed) >= stop as u8
    }

    /// Whether to stop at once.
    fn stops_now(&self) -> bool {
        // Only this thread writes it.
        let steps = self.steps.load(Ordering::Relaxed) + 1;
        self.steps.store(steps, Ordering::Relaxed);
        if steps.is_multiple_of(CHECKS_PER_YIELD) {
            thread::yield_now();
        }
        self.reaches(StopRequest::Now)
    }

    /// Whether to stop before the next row.
    fn stops_at_row(&self) -> bool {
        let is_over =
            || self.steps.load(Ordering::Relaxed) >= self.turn_end.load(Ordering::Relaxed);
        self.reaches(StopRequest::AtStepLimit)
            && (self.reaches(StopRequest::BeforeNextRow) || is_over())
    }
}

impl QueryThreads {
    /// Threads that start when needed. `value_max`: longest text of a query, in bytes. `wake` is
    /// called at the end of each turn.
    #[must_use]
    pub fn new(value_max: usize, wake: &LoopWaker) -> Self {
        let lane = |name, lower_priority| QueryThread {
            name,
            lower_priority,
            wake: wake.clone(),
            value_max,
            running: None,
            busy: false,
        };
        let idle =
            (0..QUERY_THREADS_MAX).map(|number| lane(format!("query-{number}"), set_idle_class));
        let last = lane("query-late".to_owned(), lower_priority);
        Self { lanes: idle.chain([last]).collect() }
    }
}

impl QueryExecutor for QueryThreads {
    fn find(&mut self, share: bool) -> Option<FreeLane> {
        let free = |lane| FreeLane { lane, has_share: lane == QUERY_THREADS_MAX };
        let is_free = |&lane: &usize| !self.lanes[lane].busy;
        let late = Some(QUERY_THREADS_MAX).filter(|_| share).filter(is_free);
        late.or_else(|| (0..QUERY_THREADS_MAX).find(is_free)).map(free)
    }

    fn begin(&mut self, lane: usize, task: Task, steps: u64) -> Result<(), String> {
        let begun = self.lanes[lane].begin(task, steps);
        begun.map_err(|error| format!("the query has no thread to run in: {error}"))
    }

    fn request_stop(&mut self, lane: usize, stop: StopRequest) {
        self.lanes[lane].request_stop(stop);
    }

    fn poll(&mut self) -> Option<Ended> {
        (0..self.lanes.len()).find_map(|lane| {
            let (spent, done) = self.lanes[lane].poll()?;
            Some(Ended { lane, spent, done })
        })
    }

    fn discard(&mut self, task: Task) {
        // The task came from a lane, so one is running; any will do.
        if let Some(running) = self.lanes.iter().find_map(|lane| lane.running.as_ref()) {
            running.send(Order::Discard(task));
        }
    }
}

impl Running {
    fn send(&self, order: Order) {
        assert!(self.orders.send(order).is_ok(), "a query thread has died");
    }
}

impl QueryThread {
    /// Begins a turn, and starts the thread if needed. It must not be busy.
    fn begin(&mut self, task: Task, steps: u64) -> io::Result<()> {
        assert!(!self.busy, "one query at a time");
        let running = match self.running.take() {
            Some(running) => running,
            None => self.start()?,
        };
        running.flag.set(StopRequest::None);
        running.send(Order::Turn(task, steps));
        self.running = Some(running);
        self.busy = true;
        Ok(())
    }

    fn start(&self) -> io::Result<Running> {
        let flag = Arc::<StopFlag>::default();
        let (own, wake) = (Arc::clone(&flag), self.wake.clone());
        let (lower_priority, value_max) = (self.lower_priority, self.value_max);
        let (sender, orders) = channel();
        let (results, ended) = channel();
        let builder = thread::Builder::new().name(self.name.clone()).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || {
            if let Err(error) = lower_priority() {
                debug!(?error, "queries run with the priority of everything else");
            }
            serve(&own, value_max, &orders, |spent, done| {
                // Fails once the executor is dropped.
                let _ = results.send((spent, done));
                wake.wake();
            });
        })?;
        Ok(Running { flag, orders: sender, ended, thread })
    }

    fn poll(&mut self) -> Option<(Duration, TaskEnd)> {
        match self.running.as_ref()?.ended.try_recv() {
            Ok(ended) => {
                self.busy = false;
                Some(ended)
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => panic!("a query thread has died"),
        }
    }

    fn request_stop(&self, stop: StopRequest) {
        if let Some(running) = &self.running {
            running.flag.set(stop);
        }
    }
}

/// The thread: carries out orders until their sender is dropped.
fn serve(
    flag: &Arc<StopFlag>,
    value_max: usize,
    orders: &Receiver<Order>,
    report: impl Fn(Duration, TaskEnd),
) {
    let (own, between) = (Arc::clone(flag), Arc::clone(flag));
    let stop: StopCheck = Arc::new(move || own.stops_now());
    let leave: StopCheck = Arc::new(move || between.stops_at_row());
    let mut evaluator = Evaluator::with_turns(stop, leave, value_max);
    while let Ok(order) = orders.recv() {
        let (mut task, steps) = match order {
            Order::Turn(task, steps) => (task, steps),
            Order::Discard(task) => {
                drop(task);
                continue;
            }
        };
        let begun = thread_cpu_time();
        let before = flag.steps.load(Ordering::Relaxed);
        flag.turn_end.store(before.saturating_add(steps), Ordering::Relaxed);
        let result = match &mut evaluator {
            _ if flag.reaches(StopRequest::Cancel) => Err(QueryError::Stopped),
            Ok(evaluator) => evaluator.go_on(&task.work, &mut task.progress),
            Err(why) => Err(QueryError::Bad(why.clone())),
        };
        let spent = || thread_cpu_time().saturating_sub(begun);
        let done = match result {
            Err(QueryError::Stopped) if !flag.reaches(StopRequest::Cancel) => {
                report(spent(), TaskEnd::Unfinished(task));
                continue;
            }
            // Here, so that the loop does not free rows that are left of an old snapshot.
            Ok(()) if task.progress.shape == ResultShape::Versions => {
                let rows = std::mem::take(&mut task.progress.found);
                let versions = rows.iter().map(|row| (row.id, row.version)).collect();
                TaskEnd::CompleteVersions(versions)
            }
            Ok(()) => TaskEnd::Complete(Ok(Arc::from(task.progress.found))),
            Err(QueryError::Bad(why)) => TaskEnd::Complete(Err(why)),
            Err(QueryError::Stopped) => TaskEnd::Cancelled,
        };
        // Before the result is sent, so that the loop does not free an old snapshot.
        drop(task.work);
        report(spent(), done);
    }
}

impl Drop for QueryThread {
    fn drop(&mut self) {
        self.request_stop(StopRequest::Cancel);
        if let Some(Running { orders, thread, .. }) = self.running.take() {
            drop(orders);
            // A panic of the thread was reported by the panic hook.
            let _ = thread.join();
        }
    }
}

//! The threads that evaluate queries, so that the loop never waits for one.
//!
//! A query begins in a thread that runs only when nobody else wants its processor (Linux:
//! `SCHED_IDLE`), because the loop may share it. On a machine that is busy all the time it might
//! come to nothing there; so the last lane is a thread that has a share of its own, though a small
//! one. (A thread of the first kind cannot become one of the second: Linux asks for a privilege.)
//! There are a few of the first kind, for one that is held up by something that cannot be
//! interrupted: the engine gives the turn to one lane at a time.
//!
//! The threads have no clock but the one that counts what the processor does for them; they look at
//! a word that the loop sets. What always holds: a thread has one query at a time, and lets go of
//! one that nobody waits for as soon as it looks at the word.
//!
//! Each thread starts when there is something for it to do. They are woken by a query and wake the
//! loop with the result.

use super::LoopWaker;
use super::clock::worked;
use super::thread_priority::{Error, lower_priority, set_idle_class};
use crate::base::limits::QUERY_THREADS_MAX;
use crate::query::{
    Ended, Evaluator, Pace, QueryError, QueryExecutor, Spot, StopCheck, Task, TaskEnd,
};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tracing::debug;

/// SQLite's parser takes its memory from there, and some of its functions recurse.
const STACK: usize = 8 * 1024 * 1024;

/// Questions whether to stop, one every few microseconds, between two offers of the processor to
/// whoever wants it. A thread of the lowest class gets its turn now and then even if the loop wants
/// to go on, and would have it until the system's next tick: some milliseconds.
const OFFER: u64 = 8;

/// The threads of queries. Dropping it stops what they do and ends them.
#[derive(Debug)]
pub struct QueryThreads {
    /// The last one has a share of its own.
    lanes: Vec<QueryWorker>,
}

/// One thread, once there was something for it to do.
#[derive(Debug)]
struct QueryWorker {
    name: String,
    give_way: fn() -> Result<(), Error>,
    wake: LoopWaker,
    value_max: usize,
    running: Option<Running>,
    /// It has a turn, whose end was not told yet.
    busy: bool,
}

#[derive(Debug)]
struct Running {
    word: Arc<StopFlag>,
    work: Sender<Order>,
    ended: Receiver<(Duration, TaskEnd)>,
    thread: JoinHandle<()>,
}

/// What a thread is to do.
#[derive(Debug)]
enum Order {
    /// Evaluate, for so many steps.
    Turn(Task, u64),
    /// Free it.
    Discard(Task),
}

/// What the loop tells a lane about its turn, and how far that has come.
#[derive(Debug, Default)]
struct StopFlag {
    pace: AtomicU8,
    /// Questions that were asked in all.
    asked: AtomicU64,
    /// How many there are when the turn is over.
    enough: AtomicU64,
}

impl StopFlag {
    fn say(&self, pace: Pace) {
        self.pace.store(pace as u8, Ordering::Relaxed);
    }

    fn reaches(&self, pace: Pace) -> bool {
        self.pace.load(Ordering::Relaxed) >= pace as u8
    }

    /// Whether to stop at once.
    fn stops(&self) -> bool {
        // Only this thread counts.
        let asked = self.asked.load(Ordering::Relaxed) + 1;
        self.asked.store(asked, Ordering::Relaxed);
        if asked.is_multiple_of(OFFER) {
            thread::yield_now();
        }
        self.reaches(Pace::GiveBack)
    }

    /// Whether to stop before the next row.
    fn leaves(&self) -> bool {
        let is_over = || self.asked.load(Ordering::Relaxed) >= self.enough.load(Ordering::Relaxed);
        self.reaches(Pace::Share) && (self.reaches(Pace::Leave) || is_over())
    }
}

impl QueryThreads {
    /// Threads that start when they are needed, and see and make texts of so many bytes; the end of
    /// each turn is announced by `wake`.
    #[must_use]
    pub fn new(value_max: usize, wake: &LoopWaker) -> Self {
        let lane = |name, give_way| QueryWorker {
            name,
            give_way,
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
    fn find(&mut self, share: bool) -> Option<Spot> {
        let spot = |lane| Spot { lane, has_share: lane == QUERY_THREADS_MAX };
        let is_free = |&lane: &usize| !self.lanes[lane].busy;
        let late = Some(QUERY_THREADS_MAX).filter(|_| share).filter(is_free);
        late.or_else(|| (0..QUERY_THREADS_MAX).find(is_free)).map(spot)
    }

    fn begin(&mut self, lane: usize, task: Task, steps: u64) -> Result<(), String> {
        let begun = self.lanes[lane].begin(task, steps);
        begun.map_err(|error| format!("the query has no thread to run in: {error}"))
    }

    fn say(&mut self, lane: usize, pace: Pace) {
        self.lanes[lane].say(pace);
    }

    fn poll(&mut self) -> Option<Ended> {
        (0..self.lanes.len()).find_map(|lane| {
            let (spent, done) = self.lanes[lane].poll()?;
            Some(Ended { lane, spent, done })
        })
    }

    fn discard(&mut self, task: Task) {
        // What is to be freed came from a lane; the first one that runs will do.
        if let Some(running) = self.lanes.iter().find_map(|lane| lane.running.as_ref()) {
            running.send(Order::Discard(task));
        }
    }
}

impl Running {
    fn send(&self, order: Order) {
        assert!(self.work.send(order).is_ok(), "a thread of queries has died");
    }
}

impl QueryWorker {
    /// Gives the thread, which has nothing to do and is started if need be, something to do.
    fn begin(&mut self, task: Task, steps: u64) -> io::Result<()> {
        assert!(!self.busy, "one query at a time");
        let running = match self.running.take() {
            Some(running) => running,
            None => self.start()?,
        };
        running.word.say(Pace::GoOn);
        running.send(Order::Turn(task, steps));
        self.running = Some(running);
        self.busy = true;
        Ok(())
    }

    fn start(&self) -> io::Result<Running> {
        let word = Arc::<StopFlag>::default();
        let (own, wake) = (Arc::clone(&word), self.wake.clone());
        let (give_way, value_max) = (self.give_way, self.value_max);
        let (sender, orders) = channel();
        let (results, ended) = channel();
        let builder = thread::Builder::new().name(self.name.clone()).stack_size(STACK);
        let thread = builder.spawn(move || {
            if let Err(error) = give_way() {
                debug!(?error, "queries run with the priority of everything else");
            }
            serve(&own, value_max, &orders, |spent, done| {
                // Nobody listens once the helper is dropped.
                let _ = results.send((spent, done));
                wake.wake();
            });
        })?;
        Ok(Running { word, work: sender, ended, thread })
    }

    fn poll(&mut self) -> Option<(Duration, TaskEnd)> {
        match self.running.as_ref()?.ended.try_recv() {
            Ok(ended) => {
                self.busy = false;
                Some(ended)
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => panic!("a thread of queries has died"),
        }
    }

    fn say(&self, pace: Pace) {
        if let Some(running) = &self.running {
            running.word.say(pace);
        }
    }
}

/// Evaluates what comes, until there are no more senders.
fn serve(
    word: &Arc<StopFlag>,
    value_max: usize,
    orders: &Receiver<Order>,
    give: impl Fn(Duration, TaskEnd),
) {
    let (own, between) = (Arc::clone(word), Arc::clone(word));
    let stop: StopCheck = Arc::new(move || own.stops());
    let leave: StopCheck = Arc::new(move || between.leaves());
    let mut evaluator = Evaluator::with_turns(stop, leave, value_max);
    while let Ok(order) = orders.recv() {
        let (mut task, steps) = match order {
            Order::Turn(task, steps) => (task, steps),
            Order::Discard(task) => {
                drop(task);
                continue;
            }
        };
        let begun = worked();
        let asked = word.asked.load(Ordering::Relaxed);
        word.enough.store(asked.saturating_add(steps), Ordering::Relaxed);
        let result = match &mut evaluator {
            _ if word.reaches(Pace::Drop) => Err(QueryError::Stopped),
            Ok(evaluator) => evaluator.go_on(&task.work, &mut task.progress),
            Err(why) => Err(QueryError::Bad(why.clone())),
        };
        let spent = || worked().saturating_sub(begun);
        let done = match result {
            Err(QueryError::Stopped) if !word.reaches(Pace::Drop) => {
                give(spent(), TaskEnd::Left(task));
                continue;
            }
            Ok(()) => TaskEnd::Found(Ok(Arc::from(task.progress.found))),
            Err(QueryError::Bad(why)) => TaskEnd::Found(Err(why)),
            Err(QueryError::Stopped) => TaskEnd::Dropped,
        };
        // Before the result is known, so that the loop never frees a snapshot that has grown old.
        drop(task.work);
        give(spent(), done);
    }
}

impl Drop for QueryWorker {
    fn drop(&mut self) {
        self.say(Pace::Drop);
        if let Some(Running { work, thread, .. }) = self.running.take() {
            drop(work);
            // If it has panicked it has said so.
            let _ = thread.join();
        }
    }
}

//! The threads that evaluate queries, so that the loop never waits for one.
//!
//! A query begins in a thread that runs only when nobody else wants its processor (Linux:
//! `SCHED_IDLE`), because the loop may share it. On a machine that is busy all the time it might
//! come to nothing there; so after a quarter of its time it goes on, where it was, in a thread that
//! has a share of its own, though a small one. (A thread of the first kind cannot become one of the
//! second: Linux asks for a privilege.) If the first thread has not even noticed that by half of
//! the time, the second begins anew.
//!
//! The loop keeps the time: the threads have no clock, they look at a word that the loop sets. What
//! always holds: a query is answered when its time is over, whatever its thread does; a thread has
//! one query at a time, and lets go of one that nobody waits for as soon as it looks at the word;
//! the next query is started when the second thread has nothing to do, and if the first is still
//! held up, in the second.
//!
//! Each thread starts when there is something for it to do. They are woken by a query and wake the
//! loop with the result.

use super::Wake;
use super::priority::{Error, take_small_share, wait_for_idle};
use crate::base::time::Mono;
use crate::query::{Evaluator, Fault, Found, Helper, Progress, Stop, Work};
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tracing::debug;

/// SQLite's parser takes its memory from there, and some of its functions recurse.
const STACK: usize = 8 * 1024 * 1024;

/// The part of its time after which a query is not left to idle processors any more; after twice
/// that it is begun anew if it could not be taken from there.
const PATIENCE: u32 = 4;

/// Questions whether to stop, one every few microseconds, between two offers of the processor to
/// whoever wants it. A thread of the lowest class gets its turn now and then even if the loop wants
/// to go on, and would have it until the system's next tick: some milliseconds.
const TURN: u32 = 8;

/// The threads of queries. Dropping it stops the query under way and ends them.
#[derive(Debug)]
pub struct QueryThread {
    idle: Lane,
    late: Lane,
    timeout: Duration,
    /// The query that is to be answered.
    query: Option<UnderWay>,
    /// Queries that have taken too long.
    timed_out: u64,
}

/// A query that is to be answered.
#[derive(Debug)]
struct UnderWay {
    place: Place,
    /// When it is time for its next place.
    next: Mono,
    /// When its time is over.
    over: Mono,
    /// Whoever evaluates it owns it, so that the loop never frees a snapshot that has grown old.
    work: Weak<Work>,
}

/// Where a query is evaluated.
#[derive(Debug)]
enum Place {
    Idle,
    /// There, but it was told to give it back.
    Leaving,
    Late,
    /// Nowhere: why its thread could not be started.
    Failed(String),
}

/// One thread, once there was something for it to do.
#[derive(Debug)]
struct Lane {
    name: &'static str,
    give_way: fn() -> Result<(), Error>,
    wake: Wake,
    value_max: usize,
    running: Option<Running>,
    /// It has a task, or has not said yet that it has none any more.
    busy: bool,
}

#[derive(Debug)]
struct Running {
    word: Arc<Word>,
    work: Sender<Task>,
    done: Receiver<Done>,
    thread: JoinHandle<()>,
}

/// A query with what was found already.
#[derive(Debug)]
struct Task {
    work: Arc<Work>,
    progress: Progress,
}

/// What came of a query in a lane.
#[derive(Debug)]
enum Done {
    Found(Found),
    /// It is given back.
    Left(Task),
    /// It was let go of.
    Dropped,
}

/// What the loop tells a lane about its task.
#[derive(Debug, Default)]
struct Word(AtomicU8);

impl Word {
    const GO_ON: u8 = 0;
    const GIVE_BACK: u8 = 1;
    const DROP: u8 = 2;

    fn say(&self, word: u8) {
        self.0.store(word, Ordering::Relaxed);
    }

    fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

impl QueryThread {
    /// Threads that start with the first query. One may take so long, and see and make texts of so
    /// many bytes; each result is announced by `wake`.
    #[must_use]
    pub fn new(timeout: Duration, value_max: usize, wake: &Wake) -> Self {
        let lane = |name, give_way| Lane {
            name,
            give_way,
            wake: wake.clone(),
            value_max,
            running: None,
            busy: false,
        };
        Self {
            idle: lane("query", wait_for_idle),
            late: lane("query-late", take_small_share),
            timeout,
            query: None,
            timed_out: 0,
        }
    }

    /// Takes in what the lanes have done. What is there already is an answer, even a late one.
    fn take_in(&mut self) -> Option<Found> {
        let mut answer = None;
        if let Some(done) = self.idle.poll() {
            let wanted =
                matches!(self.query, Some(UnderWay { place: Place::Idle | Place::Leaving, .. }));
            match done {
                Done::Found(found) if wanted => answer = Some(found),
                Done::Left(task) if wanted => self.go_on_late(task),
                // It is freed there.
                Done::Left(task) => self.idle.discard(task),
                Done::Found(_) | Done::Dropped => {}
            }
        }
        if let Some(done) = self.late.poll() {
            let wanted = matches!(self.query, Some(UnderWay { place: Place::Late, .. }));
            match done {
                Done::Found(found) if wanted => answer = Some(found),
                Done::Left(task) => self.late.discard(task),
                Done::Found(_) | Done::Dropped => {}
            }
        }
        if answer.is_some() {
            self.query = None;
        }
        answer
    }

    /// The query under way goes on in the second thread, which has nothing to do.
    fn go_on_late(&mut self, task: Task) {
        let Some(query) = &mut self.query else { return };
        query.next = query.over;
        query.place = match self.late.begin(task) {
            Ok(()) => Place::Late,
            Err(error) => Place::Failed(no_thread(&error)),
        };
    }

    /// Moves the query under way if it is time to.
    fn move_on(&mut self, now: Mono) {
        let Some(query) = self.query.as_mut().filter(|query| now >= query.next) else { return };
        match query.place {
            Place::Idle => {
                self.idle.say(Word::GIVE_BACK);
                query.place = Place::Leaving;
                query.next = now.after(self.timeout / PATIENCE);
            }
            Place::Leaving => {
                query.next = query.over;
                // If it is gone it has just ended.
                if let Some(work) = query.work.upgrade() {
                    self.idle.say(Word::DROP);
                    self.go_on_late(Task { work, progress: Progress::default() });
                }
            }
            Place::Late | Place::Failed(_) => query.next = query.over,
        }
    }
}

fn no_thread(error: &io::Error) -> String {
    format!("the query has no thread to run in: {error}")
}

impl Helper for QueryThread {
    fn start(&mut self, work: Work, now: Mono) {
        let over = now.after(self.timeout);
        let work = Arc::new(work);
        let weak = Arc::downgrade(&work);
        let task = Task { work, progress: Progress::default() };
        let (lane, place, next) = if self.idle.busy {
            (&mut self.late, Place::Late, over)
        } else {
            (&mut self.idle, Place::Idle, now.after(self.timeout / PATIENCE))
        };
        let place =
            lane.begin(task).map_or_else(|error| Place::Failed(no_thread(&error)), |()| place);
        self.query = Some(UnderWay { place, next, over, work: weak });
    }

    fn poll(&mut self, now: Mono) -> Option<Found> {
        if let Some(found) = self.take_in() {
            return Some(found);
        }
        self.move_on(now);
        let query = self.query.as_mut()?;
        if let Place::Failed(why) = &mut query.place {
            let why = std::mem::take(why);
            self.query = None;
            return Some(Err(why));
        }
        if now < query.over {
            return None;
        }
        self.stop();
        self.timed_out += 1;
        Some(Err(format!(
            "the query took longer than {} (--query-timeout) and was stopped",
            humantime::format_duration(self.timeout)
        )))
    }

    fn stop(&mut self) {
        self.query = None;
        self.idle.say(Word::DROP);
        self.late.say(Word::DROP);
    }

    fn is_free(&mut self) -> bool {
        if self.query.is_none() {
            self.take_in();
        }
        self.query.is_none() && !self.late.busy
    }

    fn poll_timeout(&self) -> Option<Mono> {
        let query = self.query.as_ref()?;
        match query.place {
            Place::Failed(_) => Some(Mono(0)),
            _ => Some(query.next.min(query.over)),
        }
    }

    fn timed_out(&self) -> u64 {
        self.timed_out
    }
}

impl Lane {
    /// Gives the thread, which has nothing to do and is started if need be, something to do.
    fn begin(&mut self, task: Task) -> io::Result<()> {
        assert!(!self.busy, "one query at a time");
        let running = match self.running.take() {
            Some(running) => running,
            None => self.start()?,
        };
        running.word.say(Word::GO_ON);
        assert!(running.work.send(task).is_ok(), "a thread of queries has died");
        self.running = Some(running);
        self.busy = true;
        Ok(())
    }

    fn start(&self) -> io::Result<Running> {
        let word = Arc::<Word>::default();
        let (own, wake) = (Arc::clone(&word), self.wake.clone());
        let (give_way, value_max) = (self.give_way, self.value_max);
        let (tasks, queries) = channel();
        let (results, done) = channel();
        let builder = thread::Builder::new().name(self.name.to_owned()).stack_size(STACK);
        let thread = builder.spawn(move || {
            if let Err(error) = give_way() {
                debug!(?error, "queries run with the priority of everything else");
            }
            serve(&own, value_max, &queries, |done| {
                // Nobody listens once the helper is dropped.
                let _ = results.send(done);
                wake.wake();
            });
        })?;
        Ok(Running { word, work: tasks, done, thread })
    }

    /// Has a task that was given back and that nobody waits for freed where it came from.
    fn discard(&mut self, task: Task) {
        if let Some(running) = &self.running {
            running.word.say(Word::DROP);
            assert!(running.work.send(task).is_ok(), "a thread of queries has died");
            self.busy = true;
        }
    }

    fn poll(&mut self) -> Option<Done> {
        match self.running.as_ref()?.done.try_recv() {
            Ok(done) => {
                self.busy = false;
                Some(done)
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => panic!("a thread of queries has died"),
        }
    }

    fn say(&self, word: u8) {
        if let Some(running) = &self.running {
            running.word.say(word);
        }
    }
}

/// Evaluates what comes, until there are no more senders.
fn serve(word: &Arc<Word>, value_max: usize, queries: &Receiver<Task>, give: impl Fn(Done)) {
    let (own, asked) = (Arc::clone(word), AtomicU32::new(0));
    let stop: Stop = Arc::new(move || {
        if asked.fetch_add(1, Ordering::Relaxed) % TURN == TURN - 1 {
            thread::yield_now();
        }
        own.get() != Word::GO_ON
    });
    let mut evaluator = Evaluator::with_value_max(stop, value_max);
    while let Ok(mut task) = queries.recv() {
        let result = match &mut evaluator {
            _ if word.get() == Word::DROP => Err(Fault::Stopped),
            Ok(evaluator) => evaluator.go_on(&task.work, &mut task.progress),
            Err(why) => Err(Fault::Bad(why.clone())),
        };
        let done = match result {
            Err(Fault::Stopped) if word.get() == Word::GIVE_BACK => {
                give(Done::Left(task));
                continue;
            }
            Ok(()) => Done::Found(Ok(Arc::from(task.progress.found))),
            Err(Fault::Bad(why)) => Done::Found(Err(why)),
            Err(Fault::Stopped) => Done::Dropped,
        };
        // Before the result is known, so that the loop never frees a snapshot that has grown old.
        drop(task.work);
        give(done);
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.say(Word::DROP);
        if let Some(Running { work, thread, .. }) = self.running.take() {
            drop(work);
            // If it has panicked it has said so.
            let _ = thread.join();
        }
    }
}

//! What the threads of a worker share: its places, its number at the master, its end.
//!
//! Invariants: never more than `max_jobs` places are taken; when the end has come
//! ([`WorkerState::halt`]) everything that waits here or polls [`WorkerState::halted`] goes on at
//! once.

use crate::model::worker::WorkerId;
use std::io::{self, PipeReader, PipeWriter};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a job waits for a place before it is sent back: the master may know before this worker
/// that a place is free.
const PLACE_PATIENCE: Duration = Duration::from_secs(2);

/// What the main thread is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextAction {
    /// Introduce the worker to its master.
    Register,
    /// Ask whether the master still knows this worker.
    Check {
        /// Under which number.
        worker: WorkerId,
        /// There is a reason to think that it does not.
        doubt: bool,
    },
    /// Take nothing more, and end.
    Stop,
}

/// The desk.
pub(super) struct WorkerState {
    state: Mutex<Inner>,
    changed: Condvar,
    places: usize,
    /// Its other end is closed when the end has come.
    halted: PipeReader,
}

struct Inner {
    taken: usize,
    worker: Option<WorkerId>,
    doubt: bool,
    stopping: bool,
    /// There until the end has come.
    halt: Option<PipeWriter>,
}

/// A place that a job has; free when dropped.
pub(super) struct SlotGuard(Arc<WorkerState>);

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.0.lock().taken -= 1;
        self.0.changed.notify_all();
    }
}

impl WorkerState {
    pub(super) fn new(places: usize) -> io::Result<Arc<Self>> {
        let (halted, halt) = io::pipe()?;
        let state =
            Inner { taken: 0, worker: None, doubt: false, stopping: false, halt: Some(halt) };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Ok(Arc::new(Self { state, changed, places, halted }))
    }

    /// Every change of the state is whole, so a thread that has panicked has not spoilt it.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while `waits` says so, for at most `patience`.
    fn wait(&self, patience: Duration, waits: impl Fn(&Inner) -> bool) -> MutexGuard<'_, Inner> {
        let waited = self.changed.wait_timeout_while(self.lock(), patience, |s| waits(s));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// A place for a job, unless there is none for a while, or the worker is stopping.
    pub(super) fn take_place(self: &Arc<Self>) -> Option<SlotGuard> {
        let full = |state: &Inner| state.taken >= self.places && !state.stopping;
        let mut state = self.wait(PLACE_PATIENCE, full);
        // Who sends jobs knows this worker.
        state.doubt = false;
        if state.taken >= self.places || state.stopping {
            return None;
        }
        state.taken += 1;
        Some(SlotGuard(Arc::clone(self)))
    }

    /// Waits until no place is taken; whether that is so.
    pub(super) fn clear(&self, patience: Duration) -> bool {
        self.wait(patience, |state| state.taken > 0).taken == 0
    }

    /// What is to be done next; after `period` without anything, a check. Nothing is checked while
    /// places are taken: their reports will tell.
    pub(super) fn next_action(&self, period: Duration) -> NextAction {
        let quiet = |state: &Inner| {
            !state.stopping && state.worker.is_some() && !(state.doubt && state.taken == 0)
        };
        loop {
            let state = self.wait(period, quiet);
            match state.worker {
                _ if state.stopping => return NextAction::Stop,
                None => return NextAction::Register,
                Some(worker) if state.taken == 0 => {
                    return NextAction::Check { worker, doubt: state.doubt };
                }
                Some(_) => {}
            }
        }
    }

    /// The number under which the master knows this worker; `None` if the end comes before there is
    /// one.
    pub(super) fn worker(&self) -> Option<WorkerId> {
        let mut state = self.lock();
        while state.worker.is_none() && state.halt.is_some() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.worker
    }

    /// The number, if there is one now.
    pub(super) fn known_as(&self) -> Option<WorkerId> {
        self.lock().worker
    }

    /// The master knows this worker by this number, or by none.
    pub(super) fn set_worker(&self, worker: Option<WorkerId>) {
        let mut state = self.lock();
        (state.worker, state.doubt) = (worker, false);
        drop(state);
        self.changed.notify_all();
    }

    /// The master may have forgotten this worker.
    pub(super) fn doubt(&self) {
        self.lock().doubt = true;
        self.changed.notify_all();
    }

    /// Nothing new is begun from now on. Whether it was said before.
    pub(super) fn stop(&self) -> bool {
        let before = std::mem::replace(&mut self.lock().stopping, true);
        self.changed.notify_all();
        before
    }

    /// The end has come: commands are killed, and nobody waits any longer.
    pub(super) fn halt(&self) {
        drop(self.lock().halt.take());
        self.changed.notify_all();
    }

    /// Becomes readable when the end has come.
    pub(super) fn halted(&self) -> &PipeReader {
        &self.halted
    }

    /// Waits, unless the end comes; whether there is any sense in going on.
    pub(super) fn sleep_or_end(&self, time: Duration) -> bool {
        self.wait(time, |state| state.halt.is_some()).halt.is_some()
    }

    /// Waits, unless the worker is to stop; whether there is any sense in going on.
    pub(super) fn sleep_or_stop(&self, time: Duration) -> bool {
        !self.wait(time, |state| !state.stopping).stopping
    }
}

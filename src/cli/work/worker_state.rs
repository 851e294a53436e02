//! The state that the threads of a worker share: slots of running jobs, its id at the server,
//! stopping.
//!
//! Invariants: at most `max_jobs` slots are used; after [`WorkerState::cancel_all`] every thread
//! that waits here or polls [`WorkerState::cancelled`] continues at once.

use crate::model::worker::WorkerId;
use std::io::{self, PipeReader, PipeWriter};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a job waits for a slot before it is rejected: the server may learn before this worker
/// that a slot is free.
const SLOT_TIMEOUT: Duration = Duration::from_secs(2);

/// What the main thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextAction {
    /// Register the worker.
    Register,
    /// Check that the worker is still registered.
    Check {
        /// Its id.
        worker: WorkerId,
        /// There are signs that it is not.
        suspect: bool,
    },
    /// Accept no more jobs, and end.
    Stop,
}

/// The shared state.
pub(super) struct WorkerState {
    state: Mutex<Inner>,
    changed: Condvar,
    slots: usize,
    /// Its writer is dropped by [`Self::cancel_all`].
    cancelled: PipeReader,
}

struct Inner {
    used: usize,
    worker_id: Option<WorkerId>,
    suspect: bool,
    stopping: bool,
    /// `None` after [`WorkerState::cancel_all`].
    cancel_pipe: Option<PipeWriter>,
}

/// The slot of a job; freed on drop.
pub(super) struct SlotGuard(Arc<WorkerState>);

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.0.lock().used -= 1;
        self.0.changed.notify_all();
    }
}

impl WorkerState {
    pub(super) fn new(slots: usize) -> io::Result<Arc<Self>> {
        let (cancelled, cancel_pipe) = io::pipe()?;
        let state = Inner {
            used: 0,
            worker_id: None,
            suspect: false,
            stopping: false,
            cancel_pipe: Some(cancel_pipe),
        };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Ok(Arc::new(Self { state, changed, slots, cancelled }))
    }

    /// Every critical section leaves the state consistent, so a poisoned lock can be used.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while `waits` holds, for at most `timeout`.
    fn wait(&self, timeout: Duration, waits: impl Fn(&Inner) -> bool) -> MutexGuard<'_, Inner> {
        let waited = self.changed.wait_timeout_while(self.lock(), timeout, |s| waits(s));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Takes a slot for a job. `None`: none became free within a timeout, or the worker is
    /// stopping.
    pub(super) fn take_slot(self: &Arc<Self>) -> Option<SlotGuard> {
        let full = |state: &Inner| state.used >= self.slots && !state.stopping;
        let mut state = self.wait(SLOT_TIMEOUT, full);
        // A server that sends jobs has this worker in its registry.
        state.suspect = false;
        if state.used >= self.slots || state.stopping {
            return None;
        }
        state.used += 1;
        Some(SlotGuard(Arc::clone(self)))
    }

    /// Waits until no slot is used. Returns whether that is so.
    pub(super) fn wait_until_idle(&self, timeout: Duration) -> bool {
        self.wait(timeout, |state| state.used > 0).used == 0
    }

    /// Waits for the next action; after `period` that is a check. While slots are used no check is
    /// needed: the reports of their jobs are one.
    pub(super) fn next_action(&self, period: Duration) -> NextAction {
        let has_nothing_to_do = |state: &Inner| {
            !state.stopping && state.worker_id.is_some() && !(state.suspect && state.used == 0)
        };
        loop {
            let state = self.wait(period, has_nothing_to_do);
            match state.worker_id {
                _ if state.stopping => return NextAction::Stop,
                None => return NextAction::Register,
                Some(worker) if state.used == 0 => {
                    return NextAction::Check { worker, suspect: state.suspect };
                }
                Some(_) => {}
            }
        }
    }

    /// Waits for the id of this worker at the server. `None`: the worker ends before it is
    /// registered.
    pub(super) fn wait_for_worker_id(&self) -> Option<WorkerId> {
        let mut state = self.lock();
        while state.worker_id.is_none() && state.cancel_pipe.is_some() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.worker_id
    }

    /// The id, if the worker is registered.
    pub(super) fn worker_id(&self) -> Option<WorkerId> {
        self.lock().worker_id
    }

    /// The worker is registered with this id, or not at all.
    pub(super) fn set_worker_id(&self, worker_id: Option<WorkerId>) {
        let mut state = self.lock();
        (state.worker_id, state.suspect) = (worker_id, false);
        drop(state);
        self.changed.notify_all();
    }

    /// There are signs that the worker is no longer registered.
    pub(super) fn invalidate_registration(&self) {
        self.lock().suspect = true;
        self.changed.notify_all();
    }

    /// Accepts no more jobs. Returns whether it was stopping before.
    pub(super) fn stop(&self) -> bool {
        let was_stopping = std::mem::replace(&mut self.lock().stopping, true);
        self.changed.notify_all();
        was_stopping
    }

    /// Kills the running commands, and ends all waits.
    pub(super) fn cancel_all(&self) {
        drop(self.lock().cancel_pipe.take());
        self.changed.notify_all();
    }

    /// Readable after [`Self::cancel_all`].
    pub(super) fn cancelled(&self) -> &PipeReader {
        &self.cancelled
    }

    /// Waits. Returns false at once when commands are cancelled.
    pub(super) fn sleep_or_cancel(&self, duration: Duration) -> bool {
        self.wait(duration, |state| state.cancel_pipe.is_some()).cancel_pipe.is_some()
    }

    /// Waits. Returns false at once when the worker stops.
    pub(super) fn sleep_or_stop(&self, duration: Duration) -> bool {
        !self.wait(duration, |state| !state.stopping).stopping
    }
}

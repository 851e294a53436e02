//! The server's side of a worker (`docs/protocols/lightjq.md`, "The worker's side"): a
//! [`WorkerDispatcher`] is the client that reserves jobs for the worker, and [`WorkerConnection`]s
//! deliver them.
//!
//! A dispatcher has no connection of its own. It keeps a reserve open for each free slot of its
//! worker, delivers each job that it gets, and frees the slot only when the job is no longer
//! reserved under that lease. It returns [`DispatchAction`]s, one at a time; the server reports
//! their outcomes.
//!
//! ```text
//!          reserve         delivery         202: the worker reports the outcome
//!   free ----------> run ------------> ...  400, 404: rejected, not offered again
//!    ^                |                     else: returned; backoff 1, 2, 4, 8 s, then removal
//!    +--- released ---+
//! ```
//!
//! Invariants:
//! - runs and open reserves together never exceed `max_jobs`;
//! - a run is identified by job id and lease epoch, so that a late reply cannot meet another run;
//! - a failure counts once however many deliveries meet it: those that began before the latest
//!   counted failure do not count;
//! - after a failure, one job at a time is offered until a delivery succeeds.

mod address;
mod call;
#[cfg(test)]
mod tests;

pub use address::Address;
pub use call::{Delivery, DeliveryOutcome, WorkerConnection};

use crate::base::limits::{
    UNKNOWN_NAMES_MAX, WORKER_BACKOFF_MIN, WORKER_FAILURES_MAX, WORKER_RESERVES_MAX,
};
use crate::base::strings::StringList;
use crate::base::time::{Mono, Now};
use crate::model::command::Command;
use crate::model::id::{ClientId, JobId};
use crate::model::job::{Encoding, LeaseEpoch, Payload};
use crate::model::reply::Reply;
use crate::model::worker::{RunOutcome, Worker, WorkerCommand, WorkerId, WorkerReply};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What the server has to do for a dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DispatchAction {
    /// Submit [`WorkerDispatcher::reserve`] under this serial.
    Reserve(u32),
    /// Submit this request under this serial.
    Request(u32, StoreRequest),
    /// Cancel the reserve with this serial.
    Cancel(u32),
    /// Deliver a job.
    Deliver(Delivery),
    /// Remove the dispatcher and its connections.
    Close {
        /// The worker was deregistered after too many failures: log it.
        dropped: bool,
    },
}

/// The commands of a dispatcher other than reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreRequest {
    /// Attach to the worker.
    Attach,
    /// Wait until the dispatcher does not act for the worker any more.
    AwaitDetach,
    /// Wait until the worker no longer has this job reserved.
    AwaitRelease(JobId, LeaseEpoch),
    /// Return this job; `true`: exclude the worker from it.
    ReturnUnstarted(JobId, LeaseEpoch, bool),
    /// Report that the worker has rejected this job with this HTTP status.
    Reject(JobId, LeaseEpoch, u16),
    /// Deregister the worker.
    Deregister,
}

impl StoreRequest {
    /// The command, for the dispatcher of `worker`.
    #[must_use]
    pub fn work(self, worker: WorkerId) -> WorkerCommand<'static> {
        match self {
            Self::Attach => WorkerCommand::Attach { worker },
            Self::AwaitDetach => WorkerCommand::AwaitDetach,
            Self::AwaitRelease(id, lease) => WorkerCommand::AwaitRelease { id, lease },
            Self::ReturnUnstarted(id, lease, exclude) => {
                WorkerCommand::ReturnUnstarted { id, lease, exclude }
            }
            Self::Reject(id, lease, status) => {
                let error = Payload { encoding: Encoding::MsgPack, bytes: b"\xc0" };
                let message = match status {
                    404 => "the worker does not know this name (404)",
                    _ => "the worker finds the job invalid (400)",
                };
                WorkerCommand::Report {
                    worker,
                    id,
                    report: RunOutcome::Rejected { lease, error, message },
                }
            }
            Self::Deregister => WorkerCommand::Deregister { worker },
        }
    }
}

/// The kind of a pending command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    Reserve,
    /// The attachment, or its end.
    Attach,
    AwaitRelease(JobId, LeaseEpoch),
    Reject(JobId, LeaseEpoch),
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The attachment is not submitted yet.
    Fresh,
    /// It is submitted, and not answered.
    Attaching,
    /// It is attached.
    Serving,
    Over,
}

/// The client that acts for one registered worker.
#[derive(Debug)]
pub struct WorkerDispatcher {
    worker: WorkerId,
    address: Address,
    max_jobs: usize,
    phase: Phase,
    stopping: bool,
    /// The job names that the worker accepts. `None`: any but `unknown`.
    queues: Option<StringList>,
    /// Names that the worker has answered with 404, at most [`UNKNOWN_NAMES_MAX`].
    unknown: BTreeSet<Box<[u8]>>,
    serial: u32,
    /// Pending commands by serial, and how many of them are reserves.
    pending: BTreeMap<u32, Pending>,
    open_reserves: usize,
    /// The jobs that the worker has reserved.
    in_flight: BTreeSet<(JobId, LeaseEpoch)>,
    /// Deliveries in flight.
    delivering: usize,
    /// All connections to the worker, and the idle ones, latest last.
    connections: BTreeSet<ClientId>,
    idle_connections: Vec<ClientId>,
    /// Consecutive failures.
    failures: u32,
    /// Failures ever counted, wrapping.
    round: u32,
    /// No reserve before this time.
    backoff_until: Option<Mono>,
    actions: VecDeque<DispatchAction>,
}

impl WorkerDispatcher {
    /// A dispatcher for `worker`, which listens at `address`.
    #[must_use]
    pub fn new(id: WorkerId, worker: &Worker<'_>, address: Address) -> Self {
        let queues = worker.queues.map(|names| {
            let mut list = StringList::default();
            names.into_iter().for_each(|name| list.push(name));
            list
        });
        Self {
            worker: id,
            address,
            max_jobs: usize::try_from(worker.max_jobs).unwrap_or(usize::MAX),
            phase: Phase::Fresh,
            stopping: false,
            queues,
            unknown: BTreeSet::new(),
            serial: 0,
            pending: BTreeMap::new(),
            open_reserves: 0,
            in_flight: BTreeSet::new(),
            delivering: 0,
            connections: BTreeSet::new(),
            idle_connections: Vec::new(),
            failures: 0,
            round: 0,
            backoff_until: None,
            actions: VecDeque::new(),
        }
    }

    /// The worker for which it acts.
    #[must_use]
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// The address of its worker.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The command that reserves a job for the worker.
    #[must_use]
    pub fn reserve(&self) -> Command<'_> {
        let queues = self.queues.as_ref().map(|queues| queues.from(0));
        Command::Work(WorkerCommand::ReserveFor { worker: self.worker, queues })
    }

    /// The next action.
    pub fn poll(&mut self) -> Option<DispatchAction> {
        if self.phase == Phase::Fresh {
            self.phase = Phase::Attaching;
            self.submit(Pending::Attach, StoreRequest::Attach);
        }
        if let Some(action) = self.actions.pop_front() {
            return Some(action);
        }
        if self.phase == Phase::Over {
            return None;
        }
        if self.stopping {
            // A cancelled reserve may have been answered, and the reply be gated: that job has to
            // be returned, so that it does not wait for its lease after the restart.
            return (self.delivering + self.open_reserves == 0).then(|| self.end(false));
        }
        if !self.wants_job() {
            return None;
        }
        self.open_reserves += 1;
        Some(DispatchAction::Reserve(self.open(Pending::Reserve)))
    }

    fn wants_job(&self) -> bool {
        let is_ready = self.backoff_until.is_none() && self.phase == Phase::Serving;
        // A delivery may outlast its run, so deliveries may exceed the slots, but only by a factor
        // of 2.
        let has_slot = self.in_flight.len() + self.open_reserves < self.max_jobs
            && self.delivering + self.open_reserves < self.max_jobs.saturating_mul(2);
        let probing = self.failures > 0 && self.delivering + self.open_reserves > 0;
        let has_queues = self.queues.as_ref().is_none_or(|queues| !queues.is_empty());
        is_ready && has_slot && has_queues && !probing && self.open_reserves < WORKER_RESERVES_MAX
    }

    fn open(&mut self, pending: Pending) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.pending.insert(self.serial, pending);
        self.serial
    }

    fn submit(&mut self, pending: Pending, request: StoreRequest) {
        let serial = self.open(pending);
        self.actions.push_back(DispatchAction::Request(serial, request));
    }

    /// Continues the reservations that the worker had before this dispatcher was attached.
    ///
    /// They are not delivered again. A reservation is journaled before its delivery, so after a
    /// restart it is unknown whether the job was delivered. Workers are not required to recognise a
    /// job that is delivered twice, and most would run it twice at a time. A job that was never
    /// delivered waits for the end of its lease.
    fn resume(&mut self, reserved: &[(JobId, LeaseEpoch)]) {
        self.phase = Phase::Serving;
        self.submit(Pending::Attach, StoreRequest::AwaitDetach);
        for &(id, lease) in reserved {
            self.in_flight.insert((id, lease));
            self.submit(Pending::AwaitRelease(id, lease), StoreRequest::AwaitRelease(id, lease));
        }
    }

    /// Handles the reply to the command with this serial.
    pub fn handle_reply(&mut self, serial: u32, reply: &Reply<'_>) {
        let Some(pending) = self.pending.remove(&serial) else { reply.unexpected() };
        match (pending, reply) {
            (Pending::Reserve, _) => {
                self.open_reserves -= 1;
                match reply {
                    Reply::Job(job) => self.begin_run(job.id, job.lease, job.queue),
                    Reply::Worker(WorkerReply::NoWorker) => self.deregister(),
                    _ => {}
                }
            }
            (Pending::Attach, Reply::Attached(reserved)) => self.resume(reserved),
            (Pending::Attach, _) => self.deregister(),
            (Pending::AwaitRelease(id, lease), _) => {
                self.in_flight.remove(&(id, lease));
            }
            // The rejection cannot be journaled (disk full): return the job, without counting a
            // run.
            (Pending::Reject(id, lease), Reply::Rejected(_)) => {
                self.return_unstarted(id, lease, true);
            }
            (Pending::Reject(..) | Pending::Nothing, _) => {}
        }
    }

    fn begin_run(&mut self, id: JobId, lease: LeaseEpoch, queue: &[u8]) {
        if self.phase == Phase::Over {
            return;
        }
        self.in_flight.insert((id, lease));
        self.submit(Pending::AwaitRelease(id, lease), StoreRequest::AwaitRelease(id, lease));
        if self.stopping || self.backoff_until.is_some() {
            self.return_unstarted(id, lease, false);
        } else if self.is_unknown(queue) {
            self.return_unstarted(id, lease, true);
        } else {
            self.delivering += 1;
            self.actions.push_back(DispatchAction::Deliver(Delivery {
                id,
                lease,
                round: self.round,
                fresh: false,
            }));
        }
    }

    fn is_unknown(&self, queue: &[u8]) -> bool {
        match &self.queues {
            Some(queues) => queues.position(queue).is_none(),
            None => self.unknown.contains(queue),
        }
    }

    fn return_unstarted(&mut self, id: JobId, lease: LeaseEpoch, exclude: bool) {
        self.submit(Pending::Nothing, StoreRequest::ReturnUnstarted(id, lease, exclude));
    }

    /// Handles the outcome of a delivery; `queue`: that of the job if it was peeked.
    pub fn handle_outcome(
        &mut self,
        delivery: Delivery,
        outcome: DeliveryOutcome,
        queue: &[u8],
        now: Now,
    ) {
        self.delivering -= 1;
        if self.phase == Phase::Over {
            return;
        }
        let Delivery { id, lease, round, .. } = delivery;
        let holds = self.in_flight.contains(&(id, lease));
        match outcome {
            DeliveryOutcome::Discarded => {}
            DeliveryOutcome::Accepted => self.failures = 0,
            DeliveryOutcome::Rejected(status) => {
                self.failures = 0;
                if status == 404 {
                    self.remove_name(queue);
                }
                if holds {
                    self.submit(
                        Pending::Reject(id, lease),
                        StoreRequest::Reject(id, lease, status),
                    );
                }
            }
            DeliveryOutcome::Busy | DeliveryOutcome::Failed { .. } => {
                self.cancel_reserves();
                // While the server stops, a worker that may have the job may still report it.
                let may_run =
                    self.stopping && outcome == DeliveryOutcome::Failed { in_doubt: true };
                if holds && !may_run {
                    self.return_unstarted(id, lease, false);
                }
                if outcome == DeliveryOutcome::Busy {
                    self.backoff_for(0, now);
                } else if round == self.round {
                    self.count_failure(now);
                }
            }
        }
    }

    /// Repeats a delivery on a new connection.
    pub fn retry(&mut self, delivery: Delivery) {
        if self.phase != Phase::Over {
            self.actions.push_back(DispatchAction::Deliver(Delivery { fresh: true, ..delivery }));
        }
    }

    fn count_failure(&mut self, now: Now) {
        self.round = self.round.wrapping_add(1);
        self.failures += 1;
        if self.stopping {
            return;
        }
        if self.failures >= WORKER_FAILURES_MAX {
            self.submit(Pending::Nothing, StoreRequest::Deregister);
            let end = self.end(true);
            return self.actions.push_back(end);
        }
        self.backoff_for(self.failures - 1, now);
    }

    /// Backs off for `WORKER_BACKOFF_MIN` doubled `more` times.
    fn backoff_for(&mut self, more: u32, now: Now) {
        let until = now.mono.after(WORKER_BACKOFF_MIN * (1 << more));
        self.backoff_until = self.backoff_until.max(Some(until));
    }

    /// Stops offering jobs of this name.
    fn remove_name(&mut self, queue: &[u8]) {
        match &mut self.queues {
            Some(queues) => {
                let Some(number) = queues.position(queue) else { return };
                queues.remove(number);
                self.cancel_reserves();
            }
            None if self.unknown.len() < UNKNOWN_NAMES_MAX => {
                self.unknown.insert(queue.into());
            }
            None => {}
        }
    }

    fn cancel_reserves(&mut self) {
        let reserves = self.pending.iter().filter(|&(_, &pending)| pending == Pending::Reserve);
        self.actions.extend(reserves.map(|(&serial, _)| DispatchAction::Cancel(serial)));
    }

    /// The end of the backoff.
    #[must_use]
    pub fn deadline(&self) -> Option<Mono> {
        self.backoff_until
    }

    /// Handles the end of the backoff.
    pub fn handle_timeout(&mut self) {
        self.backoff_until = None;
    }

    /// Begins the stop: no further reserves; it ends with the deliveries in flight.
    pub fn stop(&mut self) {
        if !self.stopping {
            self.stopping = true;
            self.cancel_reserves();
        }
    }

    /// Ends: the worker is no longer registered, or another client acts for it.
    fn deregister(&mut self) {
        if self.phase != Phase::Over {
            self.actions.clear();
            let end = self.end(false);
            self.actions.push_back(end);
        }
    }

    fn end(&mut self, dropped: bool) -> DispatchAction {
        self.phase = Phase::Over;
        self.backoff_until = None;
        DispatchAction::Close { dropped }
    }

    /// Adds a connection to its worker.
    pub fn add_connection(&mut self, connection: ClientId) {
        self.connections.insert(connection);
    }

    /// A connection to its worker is idle; returns whether it is kept.
    pub fn keep_connection(&mut self, connection: ClientId) -> bool {
        let kept = self.idle_connections.len() < self.max_jobs;
        if kept {
            self.idle_connections.push(connection);
        }
        kept
    }

    /// Removes a closed connection.
    pub fn drop_connection(&mut self, connection: ClientId) {
        self.connections.remove(&connection);
        self.idle_connections.retain(|&idle| idle != connection);
    }

    /// The idle connection that was used last.
    pub fn take_idle_connection(&mut self) -> Option<ClientId> {
        self.idle_connections.pop()
    }

    /// Removes and returns all connections.
    pub fn take_connections(&mut self) -> BTreeSet<ClientId> {
        self.idle_connections.clear();
        std::mem::take(&mut self.connections)
    }

    /// Asserts the invariants. O(all).
    pub fn check_invariants(&self) {
        let reserves =
            self.pending.values().filter(|&&pending| pending == Pending::Reserve).count();
        assert_eq!(reserves, self.open_reserves, "open reserves are miscounted");
        let is_over = self.phase == Phase::Over;
        let runs = self.in_flight.len() + self.open_reserves;
        assert!(is_over || runs <= self.max_jobs, "runs exceed the slots");
        assert!(
            is_over || self.idle_connections.iter().all(|idle| self.connections.contains(idle))
        );
    }
}

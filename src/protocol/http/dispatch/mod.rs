//! The server's side of a worker (`docs/protocols/lightjq.md`, "The worker's side"): an
//! [`WorkerDispatcher`] acts for it in the engine and decides what it is offered,
//! [`WorkerConnection`]s are the connections to it.
//!
//! An agent is a client without a connection of its own. It keeps takes standing for the places
//! that its worker has free, sees to it that each job that comes is called out, and gives the place
//! away again only when nobody holds the job under that lease any more. What it wants done it says
//! in [`DispatchAction`]es, one at a time; what has come of them it is told.
//!
//! ```text
//!            take            call           202: the worker reports by itself
//!   free ----------> run ------------> ...  400, 404: refused, not offered again
//!    ^                |                     else: given back; rest 1, 2, 4, 8 s, then dismissed
//!    +--- minded -----+
//! ```
//!
//! Invariants:
//! - places are taken by runs and by takes that stand: together never more than `max_jobs`;
//! - a run is known by job and lease, so that nothing that comes late can meet another one;
//! - a failure counts once however many calls meet it: those begun before the last one do not;
//! - while it has failed last, its worker is offered one job at a time.

mod address;
mod call;
#[cfg(test)]
mod tests;

pub use address::Address;
pub use call::{Delivery, DeliveryOutcome, WorkerConnection};

use crate::base::limits::{
    UNKNOWN_NAMES_MAX, WORKER_BACKOFF, WORKER_FAILURES_MAX, WORKER_RESERVES_MAX,
};
use crate::base::strings::{StringList, Strings};
use crate::base::time::{Mono, Now};
use crate::model::id::{ClientId, JobId};
use crate::model::job::{Encoding, LeaseEpoch, Payload};
use crate::model::reply::Reply;
use crate::model::worker::{RunOutcome, Worker, WorkerCommand, WorkerId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What an agent wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DispatchAction {
    /// Take a job, from [`WorkerDispatcher::queues`], or if there are none any that is followed.
    Reserve(u32),
    /// Ask this of the engine under this serial.
    Request(u32, StoreRequest),
    /// Call off the take with this serial.
    Cancel(u32),
    /// Call the worker.
    Deliver(Delivery),
    /// It is done: forget it, and its connections. If its worker was dropped the operator is told.
    Close {
        /// Whether it was.
        dropped: bool,
    },
}

/// What an agent asks of the engine, other than jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreRequest {
    /// To act for its worker. The jobs that the worker holds are then told by
    /// [`WorkerDispatcher::resume`].
    Attach,
    /// When the worker does not hold this job any more.
    AwaitRelease(JobId, LeaseEpoch),
    /// To give this job back; `true`: the worker shall not get it again.
    ReturnUnstarted(JobId, LeaseEpoch, bool),
    /// To note that the worker has refused this job with this status.
    Reject(JobId, LeaseEpoch, u16),
    /// To take the worker off the list.
    Deregister,
}

impl StoreRequest {
    /// The same in the words of the model, for the agent of `worker`.
    #[must_use]
    pub fn work(self, worker: WorkerId) -> WorkerCommand<'static> {
        match self {
            Self::Attach => WorkerCommand::Attach { worker },
            Self::AwaitRelease(id, lease) => WorkerCommand::AwaitRelease { id, lease },
            Self::ReturnUnstarted(id, lease, never_again) => {
                WorkerCommand::ReturnUnstarted { id, lease, exclude: never_again }
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

/// What an answer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Reserve,
    Attach,
    AwaitRelease(JobId, LeaseEpoch),
    Reject(JobId, LeaseEpoch),
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It does not act for its worker yet.
    Fresh,
    /// It does as soon as it is told so.
    Serving,
    Over,
}

/// Who acts for a worker.
#[derive(Debug)]
pub struct WorkerDispatcher {
    worker: WorkerId,
    address: Address,
    max_jobs: usize,
    phase: Phase,
    stopping: bool,
    /// The queues that its worker asked for.
    queues: Option<StringList>,
    /// What the worker has said not to know, if it asked for no queues.
    unknown: BTreeSet<Box<[u8]>>,
    serial: u32,
    /// What is under way in the engine, and how many of these are takes.
    asked: BTreeMap<u32, Asked>,
    standing: usize,
    /// The jobs that the worker holds.
    in_flight: BTreeSet<(JobId, LeaseEpoch)>,
    /// How many calls are under way.
    calling: usize,
    /// Connections to the worker, and those of them that are not in use.
    idle_connections: BTreeSet<ClientId>,
    idle: Vec<ClientId>,
    /// How often the worker has failed in a row.
    failures: u32,
    /// How many failures were counted at all.
    round: u32,
    /// Until when nothing is asked of the worker.
    backoff_until: Option<Mono>,
    agenda: VecDeque<DispatchAction>,
}

impl WorkerDispatcher {
    /// An agent for `worker`, which listens at `address`.
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
            asked: BTreeMap::new(),
            standing: 0,
            in_flight: BTreeSet::new(),
            calling: 0,
            idle_connections: BTreeSet::new(),
            idle: Vec::new(),
            failures: 0,
            round: 0,
            backoff_until: None,
            agenda: VecDeque::new(),
        }
    }

    /// Whose it is.
    #[must_use]
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Where its worker listens.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The queues to take from; `None`: whatever is followed.
    #[must_use]
    pub fn queues(&self) -> Option<Strings<'_>> {
        self.queues.as_ref().map(|queues| queues.from(0))
    }

    /// What it wants done next.
    pub fn poll(&mut self) -> Option<DispatchAction> {
        if self.phase == Phase::Fresh {
            self.phase = Phase::Serving;
            self.ask(Asked::Attach, StoreRequest::Attach);
        }
        if let Some(wish) = self.agenda.pop_front() {
            return Some(wish);
        }
        if self.phase == Phase::Over {
            return None;
        }
        if self.stopping {
            // A take that was called off may have been answered already: what the disk still keeps
            // back goes back, and waits for no lease after the restart.
            return (self.calling + self.standing == 0).then(|| self.end(false));
        }
        if !self.wants_job() {
            return None;
        }
        self.standing += 1;
        Some(DispatchAction::Reserve(self.open(Asked::Reserve)))
    }

    fn wants_job(&self) -> bool {
        let awake = self.backoff_until.is_none() && self.phase == Phase::Serving;
        // A call may outlast its run, and more of them than places may be under way, but not many.
        let room = self.in_flight.len() + self.standing < self.max_jobs
            && self.calling + self.standing < self.max_jobs.saturating_mul(2);
        let probing = self.failures > 0 && self.calling + self.standing > 0;
        let some = self.queues.as_ref().is_none_or(|queues| !queues.is_empty());
        awake && room && some && !probing && self.standing < WORKER_RESERVES_MAX
    }

    fn open(&mut self, asked: Asked) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.asked.insert(self.serial, asked);
        self.serial
    }

    fn ask(&mut self, asked: Asked, order: StoreRequest) {
        let serial = self.open(asked);
        self.agenda.push_back(DispatchAction::Request(serial, order));
    }

    /// The jobs that the worker holds since before there was this agent.
    ///
    /// It is not called for them. That a job was handed out is written down before its call, as the
    /// call may be all that another life of the server has left behind; so nobody can know that
    /// there was none. Nothing says that workers take the same job twice for once, and most would
    /// run it twice at a time. One that never heard of the job costs it a lease: its time-out.
    pub fn resume(&mut self, held: impl IntoIterator<Item = (JobId, LeaseEpoch)>) {
        for (id, lease) in held {
            self.in_flight.insert((id, lease));
            self.ask(Asked::AwaitRelease(id, lease), StoreRequest::AwaitRelease(id, lease));
        }
    }

    /// Takes the reply to what was asked under this serial.
    pub fn handle_reply(&mut self, serial: u32, reply: &Reply<'_>) {
        let Some(asked) = self.asked.remove(&serial) else {
            unreachable!("a reply to nothing that was asked")
        };
        match (asked, reply) {
            (Asked::Reserve, _) => {
                self.standing -= 1;
                if let Reply::Job(job) = reply {
                    self.begin_run(job.id, job.lease, job.queue);
                }
            }
            (Asked::Attach, Reply::NoWorker) => self.deregister(),
            (Asked::AwaitRelease(id, lease), _) => {
                self.in_flight.remove(&(id, lease));
            }
            // There is no space to write the refusal down: so the try is not spent.
            (Asked::Reject(id, lease), Reply::Rejected(_)) => {
                self.return_unstarted(id, lease, true);
            }
            (Asked::Attach | Asked::Reject(..) | Asked::Nothing, _) => {}
        }
    }

    fn begin_run(&mut self, id: JobId, lease: LeaseEpoch, queue: &[u8]) {
        if self.phase == Phase::Over {
            return;
        }
        self.in_flight.insert((id, lease));
        self.ask(Asked::AwaitRelease(id, lease), StoreRequest::AwaitRelease(id, lease));
        if self.stopping || self.backoff_until.is_some() {
            self.return_unstarted(id, lease, false);
        } else if self.is_unknown(queue) {
            self.return_unstarted(id, lease, true);
        } else {
            self.calling += 1;
            self.agenda.push_back(DispatchAction::Deliver(Delivery {
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

    fn return_unstarted(&mut self, id: JobId, lease: LeaseEpoch, never_again: bool) {
        self.ask(Asked::Nothing, StoreRequest::ReturnUnstarted(id, lease, never_again));
    }

    /// A call has ended so; `queue` is that of the job, as far as it was seen.
    pub fn handle_outcome(
        &mut self,
        errand: Delivery,
        verdict: DeliveryOutcome,
        queue: &[u8],
        now: Now,
    ) {
        self.calling -= 1;
        if self.phase == Phase::Over {
            return;
        }
        let Delivery { id, lease, round, .. } = errand;
        let holds = self.in_flight.contains(&(id, lease));
        match verdict {
            DeliveryOutcome::Discarded => {}
            DeliveryOutcome::Accepted => self.failures = 0,
            DeliveryOutcome::Rejected(status) => {
                self.failures = 0;
                if status == 404 {
                    self.forget_name(queue);
                }
                if holds {
                    self.ask(Asked::Reject(id, lease), StoreRequest::Reject(id, lease, status));
                }
            }
            DeliveryOutcome::Busy | DeliveryOutcome::Failed { .. } => {
                self.cancel_reserves();
                // While the server stops, a worker that may have got the job may still report it.
                let may_have_it =
                    self.stopping && verdict == DeliveryOutcome::Failed { in_doubt: true };
                if holds && !may_have_it {
                    self.return_unstarted(id, lease, false);
                }
                if verdict == DeliveryOutcome::Busy {
                    self.backoff_for(0, now);
                } else if round == self.round {
                    self.count_failure(now);
                }
            }
        }
    }

    /// A call is to be made once more, on a new connection.
    pub fn retry(&mut self, errand: Delivery) {
        if self.phase != Phase::Over {
            self.agenda.push_back(DispatchAction::Deliver(Delivery { fresh: true, ..errand }));
        }
    }

    fn count_failure(&mut self, now: Now) {
        self.round = self.round.wrapping_add(1);
        self.failures += 1;
        if self.stopping {
            return;
        }
        if self.failures >= WORKER_FAILURES_MAX {
            self.ask(Asked::Nothing, StoreRequest::Deregister);
            let end = self.end(true);
            return self.agenda.push_back(end);
        }
        self.backoff_for(self.failures - 1, now);
    }

    /// Rests, as long as after so many failures more than one.
    fn backoff_for(&mut self, more: u32, now: Now) {
        let until = now.mono.after(WORKER_BACKOFF * (1 << more));
        self.backoff_until = self.backoff_until.max(Some(until));
    }

    /// Its worker is not offered jobs of this name any more.
    fn forget_name(&mut self, queue: &[u8]) {
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
        let takes = self.asked.iter().filter(|&(_, &asked)| asked == Asked::Reserve);
        self.agenda.extend(takes.map(|(&serial, _)| DispatchAction::Cancel(serial)));
    }

    /// When it has something to do by itself.
    #[must_use]
    pub fn deadline(&self) -> Option<Mono> {
        self.backoff_until
    }

    /// Its rest is over.
    pub fn handle_timeout(&mut self) {
        self.backoff_until = None;
    }

    /// The server stops: it takes nothing more, and ends with the calls that are under way.
    pub fn stop(&mut self) {
        if !self.stopping {
            self.stopping = true;
            self.cancel_reserves();
        }
    }

    /// Its worker is not on the list any more.
    pub fn deregister(&mut self) {
        if self.phase != Phase::Over {
            self.agenda.clear();
            let end = self.end(false);
            self.agenda.push_back(end);
        }
    }

    fn end(&mut self, dropped: bool) -> DispatchAction {
        self.phase = Phase::Over;
        self.backoff_until = None;
        DispatchAction::Close { dropped }
    }

    /// This is a connection to its worker from now on.
    pub fn add_connection(&mut self, line: ClientId) {
        self.idle_connections.insert(line);
    }

    /// A connection to its worker is free for another call; tells whether it is kept for one.
    pub fn keep_connection(&mut self, line: ClientId) -> bool {
        let kept = self.idle.len() < self.max_jobs;
        if kept {
            self.idle.push(line);
        }
        kept
    }

    /// A connection to its worker is gone.
    pub fn drop_connection(&mut self, line: ClientId) {
        self.idle_connections.remove(&line);
        self.idle.retain(|&idle| idle != line);
    }

    /// A connection that is free: that which was used last.
    pub fn take_idle_connection(&mut self) -> Option<ClientId> {
        self.idle.pop()
    }

    /// All connections to its worker.
    pub fn take_connections(&mut self) -> BTreeSet<ClientId> {
        self.idle.clear();
        std::mem::take(&mut self.idle_connections)
    }

    /// Asserts what always holds. O(everything).
    pub fn check_invariants(&self) {
        let takes = self.asked.values().filter(|&&asked| asked == Asked::Reserve).count();
        assert_eq!(takes, self.standing, "takes are miscounted");
        let dismissed = self.phase == Phase::Over;
        assert!(dismissed || self.idle.iter().all(|line| self.idle_connections.contains(line)));
    }

    /// How many jobs its worker takes at a time.
    #[must_use]
    pub fn max_jobs(&self) -> usize {
        self.max_jobs
    }
}

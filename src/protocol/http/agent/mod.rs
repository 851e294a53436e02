//! The server's side of a worker (`docs/protocols/lightjq.md`, "The worker's side"): an [`Agent`]
//! acts for it in the engine and decides what it is offered, [`Call`]s are the connections to it.
//!
//! An agent is a client without a connection of its own. It keeps takes standing for the places
//! that its worker has free, sees to it that each job that comes is called out, and gives the place
//! away again only when nobody holds the job under that lease any more. What it wants done it says
//! in [`Wish`]es, one at a time; what has come of them it is told.
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
pub use call::{Call, Errand, Verdict};

use crate::base::limits::{UNKNOWN_NAMES_MAX, WORKER_FAILURES_MAX, WORKER_REST, WORKER_TAKES_MAX};
use crate::base::strings::{StringList, Strings};
use crate::base::time::{Mono, Now};
use crate::model::id::{ClientId, JobId};
use crate::model::job::{Encoding, Lease, Payload};
use crate::model::reply::Reply;
use crate::model::work::{Report, Work, Worker, WorkerId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What an agent wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Take a job, from [`Agent::queues`], or if there are none any that is followed.
    Take(u32),
    /// Ask this of the engine under this serial.
    Ask(u32, Order),
    /// Call off the take with this serial.
    CallOff(u32),
    /// Call the worker.
    Call(Errand),
    /// It is done: forget it, and its connections. If its worker was dropped the operator is told.
    End {
        /// Whether it was.
        dropped: bool,
    },
}

/// What an agent asks of the engine, other than jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// To act for its worker. The jobs that the worker holds are then told by [`Agent::resume`].
    Serve,
    /// When the worker does not hold this job any more.
    Mind(JobId, Lease),
    /// To give this job back; `true`: the worker shall not get it again.
    GiveBack(JobId, Lease, bool),
    /// To note that the worker has refused this job with this status.
    Refuse(JobId, Lease, u16),
    /// To take the worker off the list.
    Dismiss,
}

impl Order {
    /// The same in the words of the model, for the agent of `worker`.
    #[must_use]
    pub fn work(self, worker: WorkerId) -> Work<'static> {
        match self {
            Self::Serve => Work::Serve { worker },
            Self::Mind(id, lease) => Work::Mind { id, lease },
            Self::GiveBack(id, lease, never_again) => Work::GiveBack { id, lease, never_again },
            Self::Refuse(id, lease, status) => {
                let error = Payload { encoding: Encoding::MsgPack, bytes: b"\xc0" };
                let message = match status {
                    404 => "the worker does not know this name (404)",
                    _ => "the worker finds the job invalid (400)",
                };
                Work::Report { worker, id, report: Report::Refused { lease, error, message } }
            }
            Self::Dismiss => Work::Dismiss { worker },
        }
    }
}

/// What an answer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Take,
    Serve,
    Mind(JobId, Lease),
    Refuse(JobId, Lease),
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
pub struct Agent {
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
    runs: BTreeSet<(JobId, Lease)>,
    /// How many calls are under way.
    calling: usize,
    /// Connections to the worker, and those of them that are not in use.
    lines: BTreeSet<ClientId>,
    idle: Vec<ClientId>,
    /// How often the worker has failed in a row.
    failures: u32,
    /// How many failures were counted at all.
    round: u32,
    /// Until when nothing is asked of the worker.
    rest: Option<Mono>,
    agenda: VecDeque<Wish>,
}

impl Agent {
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
            runs: BTreeSet::new(),
            calling: 0,
            lines: BTreeSet::new(),
            idle: Vec::new(),
            failures: 0,
            round: 0,
            rest: None,
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
    pub fn poll(&mut self) -> Option<Wish> {
        if self.phase == Phase::Fresh {
            self.phase = Phase::Serving;
            self.ask(Asked::Serve, Order::Serve);
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
        Some(Wish::Take(self.open(Asked::Take)))
    }

    fn wants_job(&self) -> bool {
        let awake = self.rest.is_none() && self.phase == Phase::Serving;
        // A call may outlast its run, and more of them than places may be under way, but not many.
        let room = self.runs.len() + self.standing < self.max_jobs
            && self.calling + self.standing < self.max_jobs.saturating_mul(2);
        let probing = self.failures > 0 && self.calling + self.standing > 0;
        let some = self.queues.as_ref().is_none_or(|queues| !queues.is_empty());
        awake && room && some && !probing && self.standing < WORKER_TAKES_MAX
    }

    fn open(&mut self, asked: Asked) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.asked.insert(self.serial, asked);
        self.serial
    }

    fn ask(&mut self, asked: Asked, order: Order) {
        let serial = self.open(asked);
        self.agenda.push_back(Wish::Ask(serial, order));
    }

    /// The jobs that the worker holds since before there was this agent.
    ///
    /// It is not called for them. That a job was handed out is written down before its call, as the
    /// call may be all that another life of the server has left behind; so nobody can know that
    /// there was none. Nothing says that workers take the same job twice for once, and most would
    /// run it twice at a time. One that never heard of the job costs it a lease: its time-out.
    pub fn resume(&mut self, held: impl IntoIterator<Item = (JobId, Lease)>) {
        for (id, lease) in held {
            self.runs.insert((id, lease));
            self.ask(Asked::Mind(id, lease), Order::Mind(id, lease));
        }
    }

    /// Takes the reply to what was asked under this serial.
    pub fn handle_reply(&mut self, serial: u32, reply: &Reply<'_>) {
        let Some(asked) = self.asked.remove(&serial) else {
            unreachable!("a reply to nothing that was asked")
        };
        match (asked, reply) {
            (Asked::Take, _) => {
                self.standing -= 1;
                if let Reply::Job(job) = reply {
                    self.begin_run(job.id, job.lease, job.queue);
                }
            }
            (Asked::Serve, Reply::NoWorker) => self.dismiss(),
            (Asked::Mind(id, lease), _) => {
                self.runs.remove(&(id, lease));
            }
            // There is no space to write the refusal down: so the try is not spent.
            (Asked::Refuse(id, lease), Reply::Refused(_)) => self.give_back(id, lease, true),
            (Asked::Serve | Asked::Refuse(..) | Asked::Nothing, _) => {}
        }
    }

    fn begin_run(&mut self, id: JobId, lease: Lease, queue: &[u8]) {
        if self.phase == Phase::Over {
            return;
        }
        self.runs.insert((id, lease));
        self.ask(Asked::Mind(id, lease), Order::Mind(id, lease));
        if self.stopping || self.rest.is_some() {
            self.give_back(id, lease, false);
        } else if self.is_unknown(queue) {
            self.give_back(id, lease, true);
        } else {
            self.calling += 1;
            self.agenda.push_back(Wish::Call(Errand {
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

    fn give_back(&mut self, id: JobId, lease: Lease, never_again: bool) {
        self.ask(Asked::Nothing, Order::GiveBack(id, lease, never_again));
    }

    /// A call has ended so; `queue` is that of the job, as far as it was seen.
    pub fn handle_verdict(&mut self, errand: Errand, verdict: Verdict, queue: &[u8], now: Now) {
        self.calling -= 1;
        if self.phase == Phase::Over {
            return;
        }
        let Errand { id, lease, round, .. } = errand;
        let holds = self.runs.contains(&(id, lease));
        match verdict {
            Verdict::Void => {}
            Verdict::Accepted => self.failures = 0,
            Verdict::Refused(status) => {
                self.failures = 0;
                if status == 404 {
                    self.forget_name(queue);
                }
                if holds {
                    self.ask(Asked::Refuse(id, lease), Order::Refuse(id, lease, status));
                }
            }
            Verdict::NoRoom | Verdict::Failed { .. } => {
                self.call_takes_off();
                // While the server stops, a worker that may have got the job may still report it.
                let may_have_it = self.stopping && verdict == Verdict::Failed { in_doubt: true };
                if holds && !may_have_it {
                    self.give_back(id, lease, false);
                }
                if verdict == Verdict::NoRoom {
                    self.rest_for(0, now);
                } else if round == self.round {
                    self.count_failure(now);
                }
            }
        }
    }

    /// A call is to be made once more, on a new connection.
    pub fn retry(&mut self, errand: Errand) {
        if self.phase != Phase::Over {
            self.agenda.push_back(Wish::Call(Errand { fresh: true, ..errand }));
        }
    }

    fn count_failure(&mut self, now: Now) {
        self.round = self.round.wrapping_add(1);
        self.failures += 1;
        if self.stopping {
            return;
        }
        if self.failures >= WORKER_FAILURES_MAX {
            self.ask(Asked::Nothing, Order::Dismiss);
            let end = self.end(true);
            return self.agenda.push_back(end);
        }
        self.rest_for(self.failures - 1, now);
    }

    /// Rests, as long as after so many failures more than one.
    fn rest_for(&mut self, more: u32, now: Now) {
        let until = now.mono.after(WORKER_REST * (1 << more));
        self.rest = self.rest.max(Some(until));
    }

    /// Its worker is not offered jobs of this name any more.
    fn forget_name(&mut self, queue: &[u8]) {
        match &mut self.queues {
            Some(queues) => {
                let Some(number) = queues.position(queue) else { return };
                queues.remove(number);
                self.call_takes_off();
            }
            None if self.unknown.len() < UNKNOWN_NAMES_MAX => {
                self.unknown.insert(queue.into());
            }
            None => {}
        }
    }

    fn call_takes_off(&mut self) {
        let takes = self.asked.iter().filter(|&(_, &asked)| asked == Asked::Take);
        self.agenda.extend(takes.map(|(&serial, _)| Wish::CallOff(serial)));
    }

    /// When it has something to do by itself.
    #[must_use]
    pub fn deadline(&self) -> Option<Mono> {
        self.rest
    }

    /// Its rest is over.
    pub fn handle_timeout(&mut self) {
        self.rest = None;
    }

    /// The server stops: it takes nothing more, and ends with the calls that are under way.
    pub fn stop(&mut self) {
        if !self.stopping {
            self.stopping = true;
            self.call_takes_off();
        }
    }

    /// Its worker is not on the list any more.
    pub fn dismiss(&mut self) {
        if self.phase != Phase::Over {
            self.agenda.clear();
            let end = self.end(false);
            self.agenda.push_back(end);
        }
    }

    fn end(&mut self, dropped: bool) -> Wish {
        self.phase = Phase::Over;
        self.rest = None;
        Wish::End { dropped }
    }

    /// This is a connection to its worker from now on.
    pub fn add_line(&mut self, line: ClientId) {
        self.lines.insert(line);
    }

    /// A connection to its worker is free for another call; tells whether it is kept for one.
    pub fn keep_line(&mut self, line: ClientId) -> bool {
        let kept = self.idle.len() < self.max_jobs;
        if kept {
            self.idle.push(line);
        }
        kept
    }

    /// A connection to its worker is gone.
    pub fn lose_line(&mut self, line: ClientId) {
        self.lines.remove(&line);
        self.idle.retain(|&idle| idle != line);
    }

    /// A connection that is free: that which was used last.
    pub fn take_idle_line(&mut self) -> Option<ClientId> {
        self.idle.pop()
    }

    /// All connections to its worker.
    pub fn take_lines(&mut self) -> BTreeSet<ClientId> {
        self.idle.clear();
        std::mem::take(&mut self.lines)
    }

    /// Asserts what always holds. O(everything).
    pub fn check_invariants(&self) {
        let takes = self.asked.values().filter(|&&asked| asked == Asked::Take).count();
        assert_eq!(takes, self.standing, "takes are miscounted");
        let dismissed = self.phase == Phase::Over;
        assert!(dismissed || self.idle.iter().all(|line| self.lines.contains(line)));
    }

    /// How many jobs its worker takes at a time.
    #[must_use]
    pub fn max_jobs(&self) -> usize {
        self.max_jobs
    }
}

//! Requests of the native API about runs: puts, leases under tokens, reports, waits for the end of
//! a job, lists. What the engine is asked, and what the oracle is. And how they are drawn.

use super::generator::{an_id, one_in};
use super::imports::ForeignJob;
use super::requests::{PRIORITIES, QUEUES, urgency};
use crate::oracle::dependencies::Deps;
use crate::oracle::keys::Key;
use crate::oracle::types::{Load, Queue};
use crate::oracle::{NewJob, Oracle};
use crate::rng::TestRng;
use jobcentre::base::strings::StringList;
use jobcentre::model::command::Wait;
use jobcentre::model::external_id::Fraction;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{Encoding, JobOptions, LeaseToken, Priority, Status, TieBreak};
use jobcentre::model::manage::{
    self, JobCursor, JobState, LeaseTerms, ManageCommand, ReserveTerms, RunReport,
};

/// A job to put.
#[derive(Clone, Debug)]
pub(super) struct NativeJob {
    pub(super) priority: Priority<'static>,
    pub(super) load: Load,
    pub(super) options: JobOptions,
    pub(super) key: Option<Key>,
    pub(super) deps: Deps,
}

/// How a lease is named.
#[derive(Clone, Copy, Debug)]
pub(super) enum By {
    /// The client holds the job.
    Connection,
    /// By the token of the last lease but this number.
    Token(usize),
    /// By a token that was never given out.
    WrongToken,
}

/// What is asked.
#[derive(Clone, Debug)]
pub(super) enum RunRequest {
    Put(Queue, Box<NativeJob>),
    PutMany(Queue, Vec<NativeJob>),
    Import(Queue, Vec<ForeignJob>),
    EndImport,
    Reserve {
        first: Option<JobId>,
        queues: Vec<Queue>,
        limit: usize,
        wait: Wait,
        lease: Option<LeaseTerms>,
    },
    Report {
        id: JobId,
        by: By,
        report: RunReport,
    },
    AwaitEnd(JobId, u64),
    /// All pages of a list, each with this number of jobs at most.
    List(Queue, Option<JobState>, usize),
    /// All parts of an export, of a queue or of all.
    Export(Option<Queue>, Option<JobState>),
}

impl NativeJob {
    pub(super) fn for_engine(&self) -> manage::NewJob {
        manage::NewJob {
            priority: self.priority.into(),
            encoding: self.load.encoding,
            payload: self.load.text.bytes().into(),
            options: self.options,
            key: self.key.as_ref().map(|key| {
                let Key { bytes, ttl_ms, on_duplicate, .. } = key;
                let (bytes, ttl_ms) = (bytes.bytes().into(), *ttl_ms);
                Box::new(manage::NewKey { bytes, ttl_ms, on_duplicate: *on_duplicate })
            }),
            dependencies: self.deps.for_engine(),
        }
    }

    pub(super) fn for_oracle(&self, queue: Queue) -> NewJob {
        let is_packet = matches!(self.load.encoding, Encoding::Packet { .. });
        let tie_break = if is_packet { TieBreak::Lifo } else { TieBreak::Fifo };
        NewJob {
            queue,
            priority: urgency(self.priority),
            tie_break,
            load: self.load.clone(),
            options: Some(self.options),
            key: self.key.clone(),
            deps: self.deps.clone(),
        }
    }
}

/// The token by which a lease is named.
fn token(id: JobId, by: By, oracle: &Oracle) -> Option<LeaseToken> {
    let back = match by {
        By::Connection => return None,
        By::Token(back) => Some(back),
        By::WrongToken => None,
    };
    let known = oracle.tokens.get(&id.0);
    let known = back.and_then(|back| known?.iter().rev().nth(back).copied());
    Some(known.unwrap_or(LeaseToken(7)))
}

impl RunRequest {
    /// Hands it, in the model's form, to `submit`. Of a list the first page.
    pub(super) fn with_command(&self, oracle: &Oracle, submit: impl FnOnce(&ManageCommand<'_>)) {
        match *self {
            Self::Put(queue, ref job) => {
                submit(&ManageCommand::Put { queue: QUEUES[queue], job: &job.for_engine() });
            }
            Self::PutMany(queue, ref jobs) => {
                let jobs: Vec<_> = jobs.iter().map(NativeJob::for_engine).collect();
                submit(&ManageCommand::PutMany { queue: QUEUES[queue], jobs: &jobs });
            }
            Self::Import(queue, ref jobs) => {
                let jobs: Vec<_> = jobs.iter().map(|job| job.for_engine(queue)).collect();
                submit(&ManageCommand::Import(&jobs));
            }
            Self::EndImport => submit(&ManageCommand::EndImport),
            Self::Reserve { first, ref queues, limit, wait, ref lease } => {
                let mut names = StringList::default();
                for &queue in queues {
                    names.push(QUEUES[queue]);
                }
                let terms = &ReserveTerms { limit, wait, lease: lease.clone() };
                submit(&ManageCommand::ReserveMore { first, queues: names.from(0), terms });
            }
            Self::Report { id, by, ref report } => {
                let token = token(id, by, oracle);
                submit(&ManageCommand::Report { id, token, report });
            }
            Self::AwaitEnd(id, wait_ms) => submit(&ManageCommand::AwaitEnd { id, wait_ms }),
            Self::Export(queue, state) => {
                let (queue, from) = (queue.map(|queue| QUEUES[queue]), JobId(1));
                submit(&ManageCommand::Export { queue, state, from });
            }
            Self::List(queue, state, limit) => {
                let from = &JobCursor::Start;
                submit(&ManageCommand::Jobs { queue: QUEUES[queue], state, from, limit });
            }
        }
    }

    /// Has the oracle perform it.
    pub(super) fn perform(&self, oracle: &mut Oracle, ticket: Ticket) {
        match *self {
            Self::Put(queue, ref job) => oracle.put_native(ticket, job.for_oracle(queue)),
            Self::PutMany(queue, ref jobs) => {
                let jobs = jobs.iter().map(|job| job.for_oracle(queue));
                oracle.put_many(ticket, jobs.collect());
            }
            Self::Import(queue, ref jobs) => {
                let jobs = jobs.iter().map(|job| job.for_oracle(queue));
                oracle.import(ticket, jobs.collect());
            }
            Self::EndImport => oracle.finish_import(ticket),
            Self::Reserve { first, ref queues, limit, wait, ref lease } => {
                oracle.reserve_more(ticket, first, (queues, limit), wait, lease.as_ref());
            }
            Self::Report { id, by, ref report } => {
                let token = token(id, by, oracle);
                oracle.report_run(ticket, (id, token), report);
            }
            Self::AwaitEnd(id, wait_ms) => oracle.await_end(ticket, id, wait_ms),
            Self::List(queue, state, _) => oracle.list_jobs(ticket, queue, state),
            Self::Export(queue, state) => oracle.export(ticket, queue, state),
        }
    }

    /// The job whose backoff is up to chance afterwards, if the report is believed.
    pub(super) fn failing(&self) -> Option<JobId> {
        match *self {
            Self::Report { id, report: RunReport::Fail { delay_ms: None, .. }, .. } => Some(id),
            _ => None,
        }
    }

    /// Whether it shows ready jobs, and no blocked ones.
    pub(super) fn shows_ready(&self) -> bool {
        matches!(
            self,
            Self::List(_, Some(JobState::Ready | JobState::Blocked), _)
                | Self::Export(_, Some(JobState::Ready | JobState::Blocked))
        )
    }

    /// How many ids it takes.
    pub(super) fn puts(&self) -> usize {
        match self {
            Self::Put(..) => 1,
            Self::PutMany(_, jobs) => jobs.len(),
            Self::Import(_, jobs) => jobs.len(),
            _ => 0,
        }
    }

    pub(super) fn id_mut(&mut self) -> Option<&mut JobId> {
        match self {
            Self::Reserve { first, .. } => first.as_mut(),
            Self::Report { id, .. } | Self::AwaitEnd(id, _) => Some(id),
            Self::Put(..)
            | Self::PutMany(..)
            | Self::Import(..)
            | Self::EndImport
            | Self::Export(..)
            | Self::List(..) => None,
        }
    }
}

/// Some request that puts nothing. `queues`: those that a reserve names, the first one for a list.
pub(super) fn random_request(
    rng: &mut TestRng,
    client: ClientId,
    (queues, wait): (Vec<Queue>, Wait),
    oracle: &Oracle,
    durations: &[u64],
) -> RunRequest {
    let reserved = one_in(rng, client, oracle, Status::Reserved);
    match rng.below(20) {
        0..6 => {
            let first = rng.percent(20).then_some(reserved);
            let ttr_ms = rng.percent(70).then(|| *rng.pick(durations));
            let worker = ["", "w", "another"][rng.below(3)].into();
            let lease = rng.percent(80).then_some(LeaseTerms { ttr_ms, worker });
            RunRequest::Reserve { first, queues, limit: rng.between(1, 4), wait, lease }
        }
        6..15 => {
            let leased: Vec<u64> = oracle.tokens.keys().copied().collect();
            let under_tokens: Vec<u64> =
                oracle.jobs.iter().filter(|job| job.is_leased()).map(|job| job.id).collect();
            let (id, by) = match rng.below(10) {
                0..3 => (reserved, By::Connection),
                3..8 if !under_tokens.is_empty() => (JobId(*rng.pick(&under_tokens)), By::Token(0)),
                3..9 if !leased.is_empty() => (JobId(*rng.pick(&leased)), By::Token(rng.below(2))),
                _ => (an_id(rng, client, oracle), By::WrongToken),
            };
            RunRequest::Report { id, by, report: a_report(rng, durations) }
        }
        15..17 => {
            let id = if rng.percent(70) { reserved } else { an_id(rng, client, oracle) };
            let wait_ms = if rng.percent(80) { *rng.pick(durations) } else { 0 };
            RunRequest::AwaitEnd(id, wait_ms)
        }
        _ => {
            let states = [
                None,
                Some(JobState::Ready),
                Some(JobState::Ready),
                Some(JobState::Scheduled),
                Some(JobState::Blocked),
                Some(JobState::Reserved),
                Some(JobState::Buried),
                Some(JobState::Completed),
            ];
            let queue = queues.first().copied().unwrap_or(0);
            RunRequest::List(queue, *rng.pick(&states), rng.between(1, 5))
        }
    }
}

fn a_report(rng: &mut TestRng, durations: &[u64]) -> RunReport {
    let duration = |rng: &mut TestRng| {
        let some = rng.percent(50);
        some.then(|| *rng.pick(durations))
    };
    let text = |rng: &mut TestRng| ["", "x", "a longer text"][rng.below(3)].to_owned();
    match rng.below(10) {
        0..2 => {
            let load = super::generator::a_load(rng);
            let result = rng.percent(70).then(|| (load.encoding, load.text.bytes().into()));
            RunReport::Complete { result }
        }
        2..5 => {
            let (error, message) = (text(rng).into(), text(rng).into());
            let delay_ms = if rng.percent(20) { Some(0) } else { duration(rng) };
            RunReport::Fail { error, message, retry: rng.percent(80), delay_ms }
        }
        5..7 => {
            let priority = *rng.pick(&PRIORITIES[1..]);
            let priority = rng.percent(50).then(|| priority.into());
            RunReport::Release { priority, delay_ms: duration(rng).unwrap_or(0) }
        }
        7 => RunReport::Touch { ttr_ms: duration(rng) },
        _ => {
            let progress =
                rng.percent(70).then(|| Fraction::new(*rng.pick(&[0.0, 0.25, 0.5, 1.0])));
            let message = rng.percent(50).then(|| text(rng).into());
            RunReport::Progress { progress: progress.flatten(), message }
        }
    }
}

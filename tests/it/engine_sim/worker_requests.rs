//! Requests about tracked jobs, workers and constraints: what the engine is asked, and what the
//! oracle is. And how they are drawn.

use super::generator::{a_load, an_id, one_in};
use crate::oracle::constraints::{ConstraintSpec, Matcher};
use crate::oracle::types::{Load, Text};
use crate::oracle::workers::{FailureKind, WORKER_NAME};
use crate::oracle::{Job, Oracle};
use crate::rng::TestRng;
use jobcentre::base::strings::StringList;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{LeaseEpoch, Status};
use jobcentre::model::worker::{
    Compare, Condition, Constraint, Path, RunOutcome, Scalar, Worker, WorkerCommand, WorkerId,
};

/// Workers that are ever registered in one run.
const WORKERS: usize = 5;

/// Where workers listen.
const URLS: [&str; 4] = ["http://w", "http://w/x", "http://v:81", "https://w"];

/// The names of all constraints there are.
const CONSTRAINTS: [&str; 3] = ["x", "y", "z"];

/// What is asked.
#[derive(Clone, Debug)]
pub(super) enum WorkerRequest {
    Register(&'static str),
    Deregister(u64),
    Attach(u64),
    ReserveAny,
    AwaitRelease(JobId, LeaseEpoch),
    ReturnUnstarted { id: JobId, lease: LeaseEpoch, exclude: bool },
    Report { worker: u64, id: JobId, result: Load, failure: Option<(FailureKind, Text)> },
    GetStatus(JobId),
    AwaitResult(JobId, u64),
    Cancel(JobId),
    SetConstraint(ConstraintSpec),
    RemoveConstraint(&'static str),
}

/// A constraint as the engine knows it.
pub(super) fn constraint(spec: &ConstraintSpec) -> Constraint {
    let queues = match spec.matcher {
        Matcher::All => "*",
        Matcher::BeginningWithA => "a*",
        Matcher::Default => "default",
    };
    let values = vec![Scalar::Text(queues.into())];
    Constraint {
        name: spec.name.into(),
        matcher: vec![Condition { path: Path::Name, op: Compare::Equal, values }],
        max_running: Some(spec.max_running),
        rate: None,
        per: spec.per_queue.then_some(Path::Name),
    }
}

impl WorkerRequest {
    /// Hands it, in the model's form, to `submit`.
    pub(super) fn with_command(&self, submit: impl FnOnce(&WorkerCommand<'_>)) {
        let mut queues = StringList::default();
        queues.push(b"a");
        let worker = |id| WorkerId(id);
        let command = match *self {
            Self::Register(url) => {
                let queues = Some(&queues);
                WorkerCommand::Register(Worker { name: WORKER_NAME, url, max_jobs: 1, queues })
            }
            Self::Deregister(id) => WorkerCommand::Deregister { worker: worker(id) },
            Self::Attach(id) => WorkerCommand::Attach { worker: worker(id) },
            Self::ReserveAny => WorkerCommand::ReserveAny,
            Self::AwaitRelease(id, lease) => WorkerCommand::AwaitRelease { id, lease },
            Self::ReturnUnstarted { id, lease, exclude } => {
                WorkerCommand::ReturnUnstarted { id, lease, exclude }
            }
            Self::Report { worker: of, id, ref result, ref failure } => {
                let error = result.payload();
                let message = failure.as_ref().map_or(b"".as_slice(), |(_, text)| text.bytes());
                let message = std::str::from_utf8(message).unwrap();
                let report = match failure.as_ref().map(|(kind, _)| *kind) {
                    None => RunOutcome::Success { result: error },
                    Some(FailureKind::Rejected(lease)) => {
                        RunOutcome::Rejected { lease, error, message }
                    }
                    Some(kind) => {
                        let retry = kind == FailureKind::Retry;
                        RunOutcome::Failure { retry, error, message }
                    }
                };
                WorkerCommand::Report { worker: worker(of), id, report }
            }
            Self::GetStatus(id) => WorkerCommand::GetStatus { id },
            Self::AwaitResult(id, wait_ms) => WorkerCommand::AwaitResult { id, wait_ms },
            Self::Cancel(id) => WorkerCommand::Cancel { id },
            Self::SetConstraint(ref spec) => {
                return submit(&WorkerCommand::SetConstraint(&constraint(spec)));
            }
            Self::RemoveConstraint(name) => WorkerCommand::RemoveConstraint { name },
        };
        submit(&command);
    }

    /// Has the oracle perform it.
    pub(super) fn perform(&self, oracle: &mut Oracle, ticket: Ticket) {
        match *self {
            Self::Register(url) => oracle.register(ticket, url),
            Self::Deregister(id) => oracle.deregister(ticket, id),
            Self::Attach(id) => oracle.attach(ticket, id),
            Self::ReserveAny => oracle.reserve_any(ticket),
            Self::AwaitRelease(id, lease) => oracle.await_release(ticket, id, lease),
            Self::ReturnUnstarted { id, lease, exclude } => {
                oracle.return_unstarted(ticket, id, lease, exclude);
            }
            Self::Report { worker, id, ref result, ref failure } => {
                oracle.report(ticket, (worker, id), result.clone(), failure.clone());
            }
            Self::GetStatus(id) => oracle.get_status(ticket, id),
            Self::AwaitResult(id, wait_ms) => oracle.await_result(ticket, id, wait_ms),
            Self::Cancel(id) => oracle.cancel_job(ticket, id),
            Self::SetConstraint(ref spec) => oracle.set_constraint(ticket, spec.clone()),
            Self::RemoveConstraint(name) => oracle.remove_constraint(ticket, name),
        }
    }

    pub(super) fn id_mut(&mut self) -> Option<&mut JobId> {
        match self {
            Self::AwaitRelease(id, _)
            | Self::ReturnUnstarted { id, .. }
            | Self::Report { id, .. }
            | Self::GetStatus(id)
            | Self::AwaitResult(id, _)
            | Self::Cancel(id) => Some(id),
            _ => None,
        }
    }
}

/// Some request. `durations` are those that waits may have.
pub(super) fn random_request(
    rng: &mut TestRng,
    client: ClientId,
    oracle: &Oracle,
    durations: &[u64],
) -> WorkerRequest {
    let worker = a_worker(rng, oracle);
    let held = one_in(rng, client, oracle, Status::Reserved);
    let lease = oracle.find(held.0).map_or(0, |job| job.lease);
    let lease = LeaseEpoch(if rng.percent(90) { lease } else { lease + 1 });
    let id = an_id(rng, client, oracle);
    match rng.below(40) {
        0..4 if oracle.registered < WORKERS => WorkerRequest::Register(rng.word(&URLS)),
        0..5 => WorkerRequest::Deregister(worker),
        5..9 => WorkerRequest::Attach(worker),
        9..17 => WorkerRequest::ReserveAny,
        17..20 => WorkerRequest::AwaitRelease(held, lease),
        20..24 => WorkerRequest::ReturnUnstarted { id: held, lease, exclude: rng.percent(60) },
        24..33 => report(rng, oracle),
        33..35 => WorkerRequest::GetStatus(id),
        35..38 => WorkerRequest::AwaitResult(id, *rng.pick(durations) * u64::from(rng.percent(80))),
        _ => WorkerRequest::Cancel(id),
    }
}

/// Another constraint, or one less.
pub(super) fn random_constraint(rng: &mut TestRng) -> WorkerRequest {
    let name = rng.word(&CONSTRAINTS);
    if rng.percent(40) {
        return WorkerRequest::RemoveConstraint(name);
    }
    let matcher = *rng.pick(&[Matcher::All, Matcher::BeginningWithA, Matcher::Default]);
    let per_queue = rng.percent(40);
    let max_running = *rng.pick(&[0, 1, 1, 2, 3]);
    WorkerRequest::SetConstraint(ConstraintSpec { name, matcher, max_running, per_queue })
}

fn a_worker(rng: &mut TestRng, oracle: &Oracle) -> u64 {
    if oracle.workers.is_empty() || rng.percent(5) {
        return rng.below(20) as u64;
    }
    rng.pick(&oracle.workers).id
}

/// Mostly of a job that the worker holds; else late, twice, or of another one.
fn report(rng: &mut TestRng, oracle: &Oracle) -> WorkerRequest {
    let held: Vec<&Job> = oracle.jobs.iter().filter(|job| job.worker.is_some()).collect();
    let some = if held.is_empty() { None } else { Some(*rng.pick(&held)) };
    let some = some.filter(|_| rng.percent(85));
    let worker = some.and_then(|job| job.worker).filter(|_| rng.percent(90));
    let id = some.map(|job| job.id);
    let last = usize::try_from(oracle.last_id).unwrap();
    let id = id.unwrap_or_else(|| rng.below(last + 2) as u64);
    let lease = LeaseEpoch(some.map_or(0, |job| job.lease) + u32::from(rng.percent(50)));
    let rejected = FailureKind::Rejected(lease);
    let kind = *rng.pick(&[FailureKind::Retry, FailureKind::Final, rejected, rejected]);
    WorkerRequest::Report {
        worker: worker.unwrap_or_else(|| a_worker(rng, oracle)),
        id: JobId(id),
        result: a_load(rng),
        failure: rng.percent(60).then(|| (kind, Text::new(b"it broke"))),
    }
}

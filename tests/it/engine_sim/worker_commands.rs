//! Generates commands about tracked jobs, workers and constraints.

use super::constraint_model::{CONSTRAINT_NAMES, ConstraintSpec, SHAPES_COUNT};
use super::generator::{a_load, an_id, one_in};
use super::store_model::{Job, Model};
use super::types::Text;
use super::worker_model::{ADDRESSES, FailureKind, WORKERS, WorkerAsk};
use crate::rng::TestRng;
use jobcentre::model::id::ClientId;
use jobcentre::model::job::{LeaseEpoch, Status};

/// Some request. `durations` are those that waits may have.
pub(super) fn labour(
    rng: &mut TestRng,
    client: ClientId,
    model: &Model,
    durations: &[u64],
) -> WorkerAsk {
    let worker = a_worker(rng, model);
    let held = one_in(rng, client, model, Status::Reserved);
    let lease = model.find(held.0).map_or(0, |job| job.lease);
    let lease = LeaseEpoch(if rng.percent(90) { lease } else { lease + 1 });
    let id = an_id(rng, client, model);
    match rng.below(40) {
        0..4 if model.enlisted < WORKERS => WorkerAsk::Enlist(rng.below(ADDRESSES.len())),
        0..5 => WorkerAsk::Dismiss(worker),
        5..9 => WorkerAsk::Serve(worker),
        9..17 => WorkerAsk::TakeAny,
        17..20 => WorkerAsk::Mind(held, lease),
        20..24 => WorkerAsk::GiveBack { id: held, lease, never_again: rng.percent(60) },
        24..33 => report(rng, model),
        33..35 => WorkerAsk::Follow(id),
        35..38 => WorkerAsk::Await(id, *rng.pick(durations) * u64::from(rng.percent(80))),
        _ => WorkerAsk::Cancel(id),
    }
}

/// Another constraint, or one less.
pub(super) fn random_constraint(rng: &mut TestRng) -> WorkerAsk {
    let name = rng.below(CONSTRAINT_NAMES.len());
    if rng.percent(40) {
        return WorkerAsk::Free(name);
    }
    let (shape, each) = (rng.below(SHAPES_COUNT), rng.percent(40));
    let most = *rng.pick(&[0, 1, 1, 2, 3]);
    WorkerAsk::Constrain(ConstraintSpec { name, shape, most, each })
}

fn a_worker(rng: &mut TestRng, model: &Model) -> u64 {
    if model.workers.is_empty() || rng.percent(5) {
        return rng.below(20) as u64;
    }
    rng.pick(&model.workers).id
}

/// Mostly of a job that the worker holds; else late, twice, or of another one.
fn report(rng: &mut TestRng, model: &Model) -> WorkerAsk {
    let held: Vec<&Job> = model.jobs.iter().filter(|job| job.worker.is_some()).collect();
    let some = if held.is_empty() { None } else { Some(*rng.pick(&held)) };
    let some = some.filter(|_| rng.percent(85));
    let worker = some.and_then(|job| job.worker).filter(|_| rng.percent(90));
    let id = some.map(|job| job.id);
    let last = usize::try_from(model.last_id).unwrap();
    let id = id.unwrap_or_else(|| rng.below(last + 2) as u64);
    let lease = LeaseEpoch(some.map_or(0, |job| job.lease) + u32::from(rng.percent(20)));
    let refused = FailureKind::Refused(lease);
    let severity =
        *rng.pick(&[FailureKind::Retry, FailureKind::Retry, FailureKind::Final, refused]);
    WorkerAsk::Report {
        worker: worker.unwrap_or_else(|| a_worker(rng, model)),
        id: jobcentre::model::id::JobId(id),
        result: a_load(rng),
        failure: rng.percent(60).then(|| (severity, Text::new(b"it broke"))),
    }
}

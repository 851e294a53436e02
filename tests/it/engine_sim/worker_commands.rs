//! What the simulated clients ask about work that is followed to a result.

use super::constraint_model::{ConstraintSpec, LAWS, SHAPES_COUNT};
use super::generator::{a_load, an_id, one_in};
use super::store_model::{Job, Model};
use super::types::Text;
use super::worker_model::{ADDRESSES, FailureKind, WORKERS, WorkerAsk};
use crate::dice::Dice;
use jobcentre::model::id::ClientId;
use jobcentre::model::job::{LeaseEpoch, Status};

/// Some request. `durations` are those that waits may have.
pub(super) fn labour(
    dice: &mut Dice,
    client: ClientId,
    model: &Model,
    durations: &[u64],
) -> WorkerAsk {
    let worker = a_worker(dice, model);
    let held = one_in(dice, client, model, Status::Reserved);
    let lease = model.find(held.0).map_or(0, |job| job.lease);
    let lease = LeaseEpoch(if dice.percent(90) { lease } else { lease + 1 });
    let id = an_id(dice, client, model);
    match dice.below(40) {
        0..4 if model.enlisted < WORKERS => WorkerAsk::Enlist(dice.below(ADDRESSES.len())),
        0..5 => WorkerAsk::Dismiss(worker),
        5..9 => WorkerAsk::Serve(worker),
        9..17 => WorkerAsk::TakeAny,
        17..20 => WorkerAsk::Mind(held, lease),
        20..24 => WorkerAsk::GiveBack { id: held, lease, never_again: dice.percent(60) },
        24..33 => report(dice, model),
        33..35 => WorkerAsk::Follow(id),
        35..38 => WorkerAsk::Await(id, *dice.pick(durations) * u64::from(dice.percent(80))),
        _ => WorkerAsk::Cancel(id),
    }
}

/// Another constraint, or one less.
pub(super) fn law(dice: &mut Dice) -> WorkerAsk {
    let name = dice.below(LAWS.len());
    if dice.percent(40) {
        return WorkerAsk::Free(name);
    }
    let (shape, each) = (dice.below(SHAPES_COUNT), dice.percent(40));
    let most = *dice.pick(&[0, 1, 1, 2, 3]);
    WorkerAsk::Constrain(ConstraintSpec { name, shape, most, each })
}

fn a_worker(dice: &mut Dice, model: &Model) -> u64 {
    if model.workers.is_empty() || dice.percent(5) {
        return dice.below(20) as u64;
    }
    dice.pick(&model.workers).id
}

/// Mostly of a job that the worker holds; else late, twice, or of another one.
fn report(dice: &mut Dice, model: &Model) -> WorkerAsk {
    let held: Vec<&Job> = model.jobs.iter().filter(|job| job.worker.is_some()).collect();
    let some = if held.is_empty() { None } else { Some(*dice.pick(&held)) };
    let some = some.filter(|_| dice.percent(85));
    let worker = some.and_then(|job| job.worker).filter(|_| dice.percent(90));
    let id = some.map(|job| job.id);
    let last = usize::try_from(model.last_id).unwrap();
    let id = id.unwrap_or_else(|| dice.below(last + 2) as u64);
    let lease = LeaseEpoch(some.map_or(0, |job| job.lease) + u32::from(dice.percent(20)));
    let refused = FailureKind::Refused(lease);
    let severity =
        *dice.pick(&[FailureKind::Retry, FailureKind::Retry, FailureKind::Final, refused]);
    WorkerAsk::Report {
        worker: worker.unwrap_or_else(|| a_worker(dice, model)),
        id: jobcentre::model::id::JobId(id),
        result: a_load(dice),
        failure: dice.percent(60).then(|| (severity, Text::new(b"it broke"))),
    }
}

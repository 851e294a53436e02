//! Shortens a sequence of steps that fails.

use super::requests::Request;
use super::run_requests::RunRequest;
use super::simulation::{Simulation, Step};
use super::worker_requests::WorkerRequest;
use jobcentre::engine::CommandExecutor;
use jobcentre::model::id::{ClientId, Ticket};
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

/// Takes the steps in a new simulation; tells whether they fail.
pub(super) fn take(seed: u64, steps: &[Step], verbose: bool) -> bool {
    let go = || {
        let mut simulation = Simulation::new(seed);
        simulation.verbose = verbose;
        for step in steps {
            simulation.step(step);
            simulation.engine.check_invariants();
        }
    };
    catch_unwind(AssertUnwindSafe(go)).is_err()
}

/// Whether no place has two clients at a time: an engine may rely on that.
fn is_possible(steps: &[Step]) -> bool {
    let worked = |step: &Step| {
        use Request::{Run, Work};
        matches!(step, Step::Submit(_, Work(_) | Run(RunRequest::AwaitEnd(_, 1..))))
    };
    let worked = steps.iter().any(worked);
    let is_lazy =
        |pair: &[Step]| matches!(pair[0], Step::Time(_)) && !matches!(pair[1], Step::Expire);
    if worked && steps.windows(2).any(is_lazy) {
        return false;
    }
    let mut there: BTreeMap<u32, ClientId> = BTreeMap::new();
    steps.iter().all(|step| match step {
        Step::Submit(Ticket { client, .. }, _) | Step::Cancel(Ticket { client, .. }) => {
            *there.entry(client.index).or_insert(*client) == *client
        }
        Step::Forget(client) => there.remove(&client.index).is_none_or(|there| there == *client),
        Step::Time(_) | Step::Expire => true,
    })
}

/// All steps but these. Where a put is left out, later ones get lower ids, and steps that name them
/// must do the same.
fn without(steps: &[Step], left_out: Range<usize>) -> Vec<Step> {
    // The new ids; that of a job which is not put any more is 0, which is never given out.
    let mut ids = vec![0];
    let mut next = 1;
    let mut fewer = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let is_left_out = left_out.contains(&number);
        let takes_ids = match step {
            Step::Submit(_, Request::Put { .. } | Request::Work(WorkerRequest::Register(_))) => 1,
            Step::Submit(_, Request::Run(request)) => request.puts(),
            _ => 0,
        };
        for _ in 0..takes_ids {
            ids.push(if is_left_out { 0 } else { next });
            next += u64::from(!is_left_out);
        }
        if is_left_out {
            continue;
        }
        let mut step = step.clone();
        if let Step::Submit(_, ask) = &mut step
            && let Some(id) = ask.id_mut()
            && let Some(&new) = usize::try_from(id.0).ok().and_then(|id| ids.get(id))
        {
            id.0 = new;
        }
        fewer.push(step);
    }
    fewer
}

/// Leaves steps out, many at a time and then one by one, as long as the rest still fails.
pub(super) fn shrink(seed: u64, mut steps: Vec<Step>) -> Vec<Step> {
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let mut size = steps.len().div_ceil(2);
    while size > 0 {
        let mut from = 0;
        let before = steps.len();
        while from < steps.len() {
            let fewer = without(&steps, from..from + size);
            if is_possible(&fewer) && take(seed, &fewer, false) {
                steps = fewer;
            } else {
                from += size;
            }
        }
        if size > 1 || steps.len() == before {
            size /= 2;
        }
    }
    set_hook(hook);
    steps
}

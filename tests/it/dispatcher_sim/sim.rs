//! Workers that accept, reject, fail, answer late or never, with the pure server, in virtual time.
//! `SIM_SEED=n` replays a run.

use super::sim_worker::Behaviour;
use super::simulation::{Event, RETRIES, Simulation};
use crate::seeds::{Plan, Seen};
use jobcentre::base::time::Mono;
use jobcentre::model::driver::Core;
use std::time::Duration;

const PLAN: Plan = Plan::new(100, &[]);

const WANTED: [&str; 23] = [
    "a connection ended instead of an answer",
    "a connection took for ever",
    "a connection was used again",
    "a failure",
    "a job failed for good",
    "a job was never reported",
    "a constraint was set",
    "a job was refused",
    "a kept connection was closed",
    "a limit of a queue was reached",
    "a limit was reached",
    "a name was unknown",
    "a rate was nearly reached",
    "a report came too late, or twice",
    "a success",
    "a worker could not be reached",
    "a worker was dismissed",
    "a worker was dropped",
    "there was no room for a call",
    "an answer ended in mid-body",
    "an answer ended in mid-head",
    "an answer came twice",
    "no answer",
];

#[test]
fn every_job_ends_once_whatever_workers_do() {
    PLAN.run(&WANTED, 10, run);
}

#[test]
fn every_job_ends_once_over_an_engine_that_completes_late() {
    Plan::new(40, &[]).run(&["a failure", "a job was refused", "a success"], 10, |seed| {
        let mut simulation = Simulation::new(seed);
        simulation.complete_late();
        play(simulation)
    });
}

/// Lets time pass.
pub(super) fn pass(simulation: &mut Simulation, time: Duration) {
    let end = simulation.now.mono.after(time);
    for step in 0.. {
        if !simulation.step(end) {
            break;
        }
        assert!(step < 200_000, "the server goes in circles");
        if step % 16 == 0 {
            oracle(simulation);
        }
    }
    simulation.now.wall.0 += (end.0 - simulation.now.mono.0) / 1_000_000;
    simulation.now.mono = end;
    oracle(simulation);
}

/// Compares all jobs with what is known of them.
pub(super) fn oracle(simulation: &mut Simulation) {
    for peer in 0..simulation.peers.len() {
        let (worker, most) = (simulation.peers[peer].id, simulation.peers[peer].max_jobs);
        let holds =
            |&&id: &&u64| simulation.peek(id).is_some_and(|state| state.worker == Some(worker));
        let held = simulation.jobs.keys().filter(holds).count();
        assert!(worker == 0 || held <= most, "worker {worker} has {held} jobs");
    }
    for id in simulation.jobs.keys().copied().collect::<Vec<_>>() {
        let state = simulation.state(id);
        let job = &simulation.jobs[&id];
        assert!(job.successes <= 1, "job {id} has succeeded twice");
        let Some(state) = state else {
            assert_eq!(job.successes, 1, "job {id} is gone without a run");
            continue;
        };
        assert_eq!(job.successes, 0, "job {id} is done and still {state:?}");
        let failed = state.status == "error";
        assert!(failed || !job.failed, "job {id} has failed and is {state:?}");
        let (costs, retries) = (job.costs.min(RETRIES), state.retries);
        // Timeouts cannot be observed by clients.
        let right = if simulation.prefill_target { costs <= retries } else { costs == retries };
        assert!(right, "job {id}: {retries} retries for {costs} failures");
        assert!(
            simulation.prefill_target || failed == (job.costs > RETRIES),
            "job {id}: {job:?}, {state:?}"
        );
        simulation.jobs.get_mut(&id).unwrap().failed = failed;
    }
    simulation.check_constraints();
}

fn run(seed: u64) -> Seen {
    play(Simulation::new(seed))
}

fn play(mut simulation: Simulation) -> Seen {
    simulation.set_constraints();
    populate(&mut simulation);
    pass(&mut simulation, Duration::from_secs(30));
    finish(&mut simulation);
    stop(&mut simulation);
    simulation.seen
}

/// Workers come, and jobs are going to.
pub(super) fn populate(simulation: &mut Simulation) {
    for _ in 0..simulation.rng.between(1, 4) {
        let behaviour = *simulation.rng.pick(&[
            Behaviour::Flaky,
            Behaviour::Flaky,
            Behaviour::Good,
            Behaviour::Bad,
            Behaviour::Dead,
        ]);
        simulation.add_worker(behaviour);
    }
    for _ in 0..simulation.rng.between(1, 40) {
        let ms = simulation.rng.below(10_000);
        simulation.later(ms, Event::Put);
    }
    if simulation.rng.percent(40) {
        let (ms, peer) =
            (simulation.rng.below(20_000), simulation.rng.below(simulation.peers.len()));
        simulation.later(ms, Event::Dismiss(peer));
    }
}

/// Sees to it that every job comes to its end.
pub(super) fn finish(simulation: &mut Simulation) {
    // The workers that are left fail or die; then one registers that runs all jobs.
    for peer in 0..simulation.peers.len() {
        if simulation.peers[peer].behaviour != Behaviour::Good {
            simulation.peers[peer].behaviour =
                *simulation.rng.pick(&[Behaviour::Dead, Behaviour::Flaky]);
        }
    }
    simulation.add_worker(Behaviour::Good);
    pass(simulation, Duration::from_mins(3));
    // Those that still hold what they never report are sent away; a good one holds only what it was
    // never sent, because the server had died in between.
    for peer in 0..simulation.peers.len() {
        if simulation.peers[peer].behaviour != Behaviour::Good {
            simulation.later(0, Event::Dismiss(peer));
        } else if simulation.backing.is_some() {
            simulation.later(0, Event::Again(peer));
        }
    }
    pass(simulation, Duration::from_mins(3));
    for (id, state) in simulation.jobs.keys().copied().collect::<Vec<_>>().into_iter().zip(0..) {
        let now = simulation.state(id);
        let ended = now.is_none_or(|state| state.status == "error");
        assert!(ended, "job {id}, number {state}, never ends: {now:?}");
        if now.is_some() {
            simulation.note("a job failed for good");
        }
    }
    assert_eq!(simulation.lines(), 0, "an unused connection is kept");
}

/// The server stops while it calls.
fn stop(simulation: &mut Simulation) {
    for _ in 0..5 {
        simulation.put();
    }
    let ms = simulation.rng.below(40);
    pass(simulation, Duration::from_millis(ms as u64));
    simulation.server.handle_shutdown(simulation.now);
    let end = Mono(simulation.now.mono.0 + 20_000_000_000);
    while simulation.step(end) && simulation.server.connections() > 0 {}
    assert_eq!(simulation.server.connections(), 0, "the server does not come to its end");
}

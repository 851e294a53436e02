//! Workers of all moods under the pure server, in virtual time. `SIM_SEED=n` replays a run.

use super::sim_worker::Behaviour;
use super::simulation::{Event, RETRIES, Simulation};
use crate::seeds::{Plan, Seen};
use jobcentre::base::time::Mono;
use jobcentre::model::driver::Core;
use std::time::Duration;

const PLAN: Plan = Plan::new(150, &[]);

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

/// Lets time pass.
pub(super) fn pass(world: &mut Simulation, time: Duration) {
    let end = world.now.mono.after(time);
    for step in 0.. {
        if !world.step(end) {
            break;
        }
        assert!(step < 200_000, "the server goes in circles");
        if step % 16 == 0 {
            judge(world);
        }
    }
    world.now.wall.0 += (end.0 - world.now.mono.0) / 1_000_000;
    world.now.mono = end;
    judge(world);
}

/// Compares all jobs with what is known of them.
pub(super) fn judge(world: &mut Simulation) {
    for peer in 0..world.peers.len() {
        let (worker, most) = (world.peers[peer].id, world.peers[peer].max_jobs);
        let holds = |&&id: &&u64| world.peek(id).is_some_and(|state| state.worker == Some(worker));
        let held = world.jobs.keys().filter(holds).count();
        assert!(worker == 0 || held <= most, "worker {worker} has {held} jobs");
    }
    for id in world.jobs.keys().copied().collect::<Vec<_>>() {
        let state = world.state(id);
        let job = &world.jobs[&id];
        assert!(job.successes <= 1, "job {id} has succeeded twice");
        let Some(state) = state else {
            assert_eq!(job.successes, 1, "job {id} is gone and nobody has done it");
            continue;
        };
        assert_eq!(job.successes, 0, "job {id} is done and still {state:?}");
        let failed = state.status == "error";
        assert!(failed || !job.failed, "job {id} has failed and is {state:?}");
        let (costs, retries) = (job.costs.min(RETRIES), state.retries);
        // Time-outs are seen by nobody outside.
        let right = if world.hurried { costs <= retries } else { costs == retries };
        assert!(right, "job {id}: {retries} retries for {costs} failures");
        assert!(world.hurried || failed == (job.costs > RETRIES), "job {id}: {job:?}, {state:?}");
        world.jobs.get_mut(&id).unwrap().failed = failed;
    }
    world.judge_laws();
}

fn run(seed: u64) -> Seen {
    let mut world = Simulation::new(seed);
    world.legislate();
    populate(&mut world);
    pass(&mut world, Duration::from_secs(30));
    finish(&mut world);
    stop(&mut world);
    world.seen
}

/// Workers come, and jobs are going to.
pub(super) fn populate(world: &mut Simulation) {
    for _ in 0..world.dice.between(1, 4) {
        let mood = *world.dice.pick(&[
            Behaviour::Moody,
            Behaviour::Moody,
            Behaviour::Good,
            Behaviour::Bad,
            Behaviour::Dead,
        ]);
        world.enlist(mood);
    }
    for _ in 0..world.dice.between(1, 40) {
        let ms = world.dice.below(10_000);
        world.later(ms, Event::Put);
    }
    if world.dice.percent(40) {
        let (ms, peer) = (world.dice.below(20_000), world.dice.below(world.peers.len()));
        world.later(ms, Event::Dismiss(peer));
    }
}

/// Sees to it that every job comes to its end.
pub(super) fn finish(world: &mut Simulation) {
    // Everybody who is still there is bad or dies; then somebody comes who does it all.
    for peer in 0..world.peers.len() {
        if world.peers[peer].mood != Behaviour::Good {
            world.peers[peer].mood = *world.dice.pick(&[Behaviour::Dead, Behaviour::Moody]);
        }
    }
    world.enlist(Behaviour::Good);
    pass(world, Duration::from_mins(3));
    // Those that still hold what they never report are sent away; a good one holds only what it was
    // never sent, because the server had died in between.
    for peer in 0..world.peers.len() {
        if world.peers[peer].mood != Behaviour::Good {
            world.later(0, Event::Dismiss(peer));
        } else if world.backing.is_some() {
            world.later(0, Event::Again(peer));
        }
    }
    pass(world, Duration::from_mins(3));
    for (id, state) in world.jobs.keys().copied().collect::<Vec<_>>().into_iter().zip(0..) {
        let now = world.state(id);
        let ended = now.is_none_or(|state| state.status == "error");
        assert!(ended, "job {id}, number {state}, never ends: {now:?}");
        if now.is_some() {
            world.note("a job failed for good");
        }
    }
    assert_eq!(world.lines(), 0, "a connection that nobody uses is kept");
}

/// The server stops while it calls.
fn stop(world: &mut Simulation) {
    for _ in 0..5 {
        world.put();
    }
    let ms = world.dice.below(40);
    pass(world, Duration::from_millis(ms as u64));
    world.server.handle_shutdown(world.now);
    let end = Mono(world.now.mono.0 + 20_000_000_000);
    while world.step(end) && world.server.connections() > 0 {}
    assert_eq!(world.server.connections(), 0, "the server does not come to its end");
}

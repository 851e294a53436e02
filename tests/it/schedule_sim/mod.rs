//! Schedules in random time: moments of cron expressions and of intervals through both changes of
//! summer time, clocks that are set, restarts and crashes, against an oracle that walks over the
//! minutes.
//!
//! `SIM_SEED=n` replays one run.

mod messages;
mod moments;
mod oracle;
mod simulation;

use crate::seeds::{self, Plan};
use simulation::Simulation;

/// Seeds that have failed once.
const FAILED_ONCE: &[u64] =
    &[994_125_196_886, 9_400_000_005_445, 9_400_000_005_795, 1_013_811_323_725, 282_296_709_013];

const PLAN: Plan = Plan::new(60, FAILED_ONCE);

/// What must have happened in an ordinary test run.
const WANTED: [&str; 25] = [
    "a clock that is set back: a cron expression waits",
    "a clock that is set back: by hours",
    "a clock that is set back: intervals go on",
    "a crash takes a moment back",
    "a moment",
    "a moment at the end of a gap",
    "a moment passes: it was missed",
    "a moment passes: the newest is in time",
    "a moment passes: the last job is unfinished",
    "a moment that was missed",
    "a moment that was shown twice",
    "a restart",
    "a restart: a moment was missed",
    "a restart: a missed moment passes",
    "the clock is set back",
    "the clock is set forward",
    "the last job is finished",
    "the server is being drained",
    "changed",
    "changed: its timing stays",
    "made",
    "paused",
    "removed",
    "run",
    "run: a paused one",
];

#[test]
fn schedules_agree_with_a_walk_over_all_minutes() {
    PLAN.run(&WANTED, 0, |seed| Simulation::play(seed).seen());
}

#[test]
fn same_seed_gives_the_same_schedules() {
    seeds::assert_one_seed_is_one_run(|seed| Simulation::play(seed).told());
}

//! Runs of a simulation by seed, as the environment says: `SIM_SEED=n` replays one, `SIM_SEEDS=n`
//! makes so many. `QUERY_SEED=n` replays what came of queries that were drawn.

use crate::dice::Dice;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// How often something happened, by its name.
pub(crate) type Seen = BTreeMap<&'static str, u64>;

/// What came of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    /// A hash of everything that was sent.
    pub(crate) fingerprint: u64,
    pub(crate) seen: Seen,
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not '{text}'")))
}

/// The one that is to be replayed.
pub(crate) fn replayed() -> Option<u64> {
    number("SIM_SEED")
}

/// Says what happens, if one run is being replayed.
pub(crate) fn say(what: impl FnOnce() -> String) {
    if replayed().is_some() {
        println!("{}", what());
    }
}

/// Those that are to be run; so many if nobody says otherwise.
pub(crate) fn wanted(usual: u64) -> Range<u64> {
    match replayed() {
        Some(seed) => seed..seed + 1,
        None => 0..number("SIM_SEEDS").unwrap_or(usual),
    }
}

/// Runs something that follows from a seed; if it fails, the seed is named.
pub(crate) fn name_if_it_fails<T>(seed: u64, run: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        eprintln!("simulation failed: replay it with SIM_SEED={seed}");
        resume_unwind(panic)
    })
}

/// Runs all seeds. Of so many as usual, each of `events` must have come more than `least` times.
pub(crate) fn run_all(usual: u64, events: &[&str], least: u64, run: impl Fn(u64) -> Seen) {
    let seeds = wanted(usual);
    let mut seen = Seen::new();
    for seed in seeds.clone() {
        for (what, count) in run(seed) {
            *seen.entry(what).or_default() += count;
        }
    }
    println!("seeds {seeds:?}: {seen:#?}");
    for what in events {
        let count = seen.get(what).copied().unwrap_or_default();
        let is_enough = seeds.end - seeds.start < usual || count > least;
        assert!(is_enough, "too tame: '{what}' came {count} times");
    }
}

/// Replays one run and shows what came of it, or runs all seeds as [`run_all`].
pub(crate) fn replay_or_run_all(
    usual: u64,
    events: &[&str],
    least: u64,
    run: impl Fn(u64) -> Summary,
) {
    if let Some(seed) = replayed() {
        println!("seed {seed}: {:#?}", run(seed));
        return;
    }
    run_all(usual, events, least, |seed| run(seed).seen);
}

/// Asserts that everything that comes of a run follows from its seed.
pub(crate) fn assert_one_seed_is_one_run<T: PartialEq + Debug>(run: impl Fn(u64) -> T) {
    for seed in [1, 2, 3, 1_000_003] {
        assert_eq!(run(seed), run(seed), "seed {seed} ran differently the second time");
    }
    assert_ne!(run(1), run(2), "the seed does not matter");
}

/// Has queries found for each of `usual` seeds, or for the one that is to be replayed. `check` says
/// how many rows were found; they must be many.
pub(crate) fn check_queries(usual: Range<u64>, check: impl Fn(&mut Dice) -> usize) {
    let replayed = number("QUERY_SEED");
    let mut total = 0;
    for seed in replayed.map_or(usual, |seed| seed..seed + 1) {
        println!("QUERY_SEED={seed}");
        total += check(&mut Dice::new(seed));
    }
    let is_enough = replayed.is_some() || total > 5_000;
    assert!(is_enough, "queries that find nothing prove nothing: {total}");
}

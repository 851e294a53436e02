//! Which seeds a simulation plays, as its [`Plan`] and the environment say.
//!
//! An ordinary run plays fixed seeds, those that have failed once, and fresh ones, which are other
//! ones in every run: it says from which number on. Code that is not optimised, in which a seed
//! takes ten times as long, plays the first fifteenth of the fixed ones. Whatever fails, all seeds
//! are played, and those that failed are named at the end.
//!
//! - `SIM_SEED=n` replays one seed (`QUERY_SEED=n` where queries are drawn).
//! - `SIM_SEEDS=n` plays the seeds from 0 up to n in place of the fixed ones and of those that have
//!   failed once.
//! - `SIM_FRESH=n` plays `n` fresh seeds.
//! - `SIM_BASE=n` takes the numbers from n on for them: so a whole run is repeated.

use crate::rng::TestRng;
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::fmt::Debug;
use std::hash::{BuildHasher, Hasher};
use std::io::Write;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};

/// How often something happened, by its name.
pub(crate) type Seen = BTreeMap<&'static str, u64>;

/// What came of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    /// A hash of everything that was sent.
    pub(crate) fingerprint: u64,
    pub(crate) seen: Seen,
}

impl From<Summary> for Seen {
    fn from(summary: Summary) -> Self {
        summary.seen
    }
}

/// What an ordinary run of a simulation plays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Seeds from 0 up to this one. What ought to happen must happen in these.
    fixed: u64,
    /// How many of them an ordinary run plays.
    fixed_played: u64,
    failed_once: &'static [u64],
    fresh: u64,
    /// What replays one of its seeds.
    variable: &'static str,
}

impl Plan {
    /// Optimised code plays all fixed seeds and twice as many fresh ones; other code a
    /// fifteenth of the fixed ones, and as many fresh ones.
    pub(crate) const fn new(fixed: u64, failed_once: &'static [u64]) -> Self {
        let debug = cfg!(debug_assertions);
        let (fixed_played, fresh) =
            if debug { (fixed.div_ceil(15), fixed.div_ceil(15)) } else { (fixed, fixed * 2) };
        Self { fixed, fixed_played, failed_once, fresh, variable: "SIM_SEED" }
    }

    /// The same where queries are drawn.
    pub(crate) const fn of_queries(fixed: u64, failed_once: &'static [u64]) -> Self {
        Self { variable: "QUERY_SEED", ..Self::new(fixed, failed_once) }
    }

    const fn with_all_fixed_and_fresh(self, fresh: u64) -> Self {
        Self { fixed_played: self.fixed, fresh, ..self }
    }

    /// The seeds that are to be played: of those that are always the same, and of the fresh ones.
    fn seeds(&self) -> (Vec<u64>, Vec<u64>) {
        if let Some(seed) = number(self.variable) {
            return (vec![seed], Vec::new());
        }
        let same = match number("SIM_SEEDS") {
            Some(count) => (0..count).collect(),
            None => (0..self.fixed_played).chain(self.failed_once.iter().copied()).collect(),
        };
        let fresh = number("SIM_FRESH").unwrap_or(self.fresh);
        let base = if fresh > 0 { base() } else { 0 };
        (same, (base..base + fresh).collect())
    }

    /// Plays all seeds, on all cores, and fails with a list of those that failed. Returns what came
    /// of the fixed ones, or nothing if they were not all played.
    pub(crate) fn play<T: Debug + Send>(&self, run: impl Fn(u64) -> T + Sync) -> Option<Vec<T>> {
        let (same, fresh) = self.seeds();
        let seeds: Vec<u64> = same.iter().chain(&fresh).copied().collect();
        let mut results = Vec::new();
        let mut failed = Vec::new();
        for (&seed, result) in seeds.iter().zip(on_all_cores(&seeds, run)) {
            match result {
                Some(result) if number(self.variable).is_some() => {
                    println!("seed {seed}: {result:#?}");
                }
                Some(result) if results.len() < same.len() => results.push(result),
                Some(_) => {}
                None => {
                    eprintln!("simulation failed: replay it with {}={seed}", self.variable);
                    failed.push(seed);
                }
            }
        }
        let played = seeds.len();
        println!("seeds: {played}, of them fresh: {}", fresh.len());
        let list = failed.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
        let (count, variable) = (failed.len(), self.variable);
        assert!(failed.is_empty(), "{count} of {played} seeds fail, {variable}: {list}");
        let fixed = usize::try_from(self.fixed).unwrap();
        results.truncate(fixed);
        same.into_iter().take(fixed).eq(0..self.fixed).then_some(results)
    }

    /// Plays all seeds. In the fixed ones each of `events` must have come more than `least` times.
    pub(crate) fn run<T: Debug + Into<Seen> + Send>(
        &self,
        events: &[&str],
        least: u64,
        run: impl Fn(u64) -> T + Sync,
    ) {
        let Some(results) = self.play(run) else { return };
        let mut seen = Seen::new();
        for (what, count) in results.into_iter().flat_map(Into::<Seen>::into) {
            *seen.entry(what).or_default() += count;
        }
        println!("fixed seeds: {seen:#?}");
        for what in events {
            let count = seen.get(what).copied().unwrap_or_default();
            assert!(count > least, "too few: '{what}' came {count} times");
        }
    }

    /// Has queries found for all seeds. `check` says how many rows were found; they must be many.
    pub(crate) fn check_queries(&self, check: impl Fn(&mut TestRng) -> usize + Sync) {
        let Some(found) = self.play(|seed| check(&mut TestRng::new(seed))) else { return };
        let total: usize = found.into_iter().sum();
        assert!(total > 5_000, "queries that find nothing prove nothing: {total}");
    }
}

/// What comes of each seed, in their order; nothing of one whose run panics.
fn on_all_cores<T: Send>(seeds: &[u64], run: impl Fn(u64) -> T + Sync) -> Vec<Option<T>> {
    let next = AtomicUsize::new(0);
    let play = || {
        let mut results = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(&seed) = seeds.get(index) else { return results };
            results.push((index, catch_unwind(AssertUnwindSafe(|| run(seed))).ok()));
        }
    };
    let cores = available_parallelism().map_or(1, NonZero::get).min(seeds.len());
    let mut results: Vec<(usize, Option<T>)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(play)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    results.sort_by_key(|&(index, _)| index);
    results.into_iter().map(|(_, result)| result).collect()
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not '{text}'")))
}

/// The first of the fresh seeds, the same for all simulations of a process. It is printed past the
/// harness, which keeps the output of tests that pass to itself.
fn base() -> u64 {
    static BASE: OnceLock<u64> = OnceLock::new();
    *BASE.get_or_init(|| {
        let chance = || RandomState::new().build_hasher().finish() >> 24;
        let base = number("SIM_BASE").unwrap_or_else(chance);
        let text = format!("fresh seeds of this run: SIM_BASE={base}\n");
        drop(std::io::stderr().write_all(text.as_bytes()));
        base
    })
}

/// The one that is to be replayed.
pub(crate) fn replayed() -> Option<u64> {
    static REPLAYED: OnceLock<Option<u64>> = OnceLock::new();
    *REPLAYED.get_or_init(|| number("SIM_SEED"))
}

/// Says what happens, if one run is being replayed.
pub(crate) fn say(what: impl FnOnce() -> String) {
    if replayed().is_some() {
        println!("{}", what());
    }
}

/// Asserts that everything that comes of a run follows from its seed.
pub(crate) fn assert_one_seed_is_one_run<T: PartialEq + Debug>(run: impl Fn(u64) -> T) {
    for seed in [1, 2, 3, 1_000_003] {
        assert_eq!(run(seed), run(seed), "seed {seed} ran differently the second time");
    }
    assert_ne!(run(1), run(2), "the seed does not matter");
}

#[test]
fn plan_plays_every_seed_and_names_the_failed_ones() {
    if ["SIM_SEED", "SIM_SEEDS", "SIM_FRESH"].iter().any(|variable| number(variable).is_some()) {
        return;
    }
    let played = AtomicU64::new(0);
    let plan = Plan::new(5, &[77]).with_all_fixed_and_fresh(2);
    let fresh = base();
    let failed = catch_unwind(AssertUnwindSafe(|| {
        plan.play(|seed| {
            played.fetch_add(1, Ordering::Relaxed);
            assert!(![3, 77, fresh + 1].contains(&seed), "this one fails");
        })
    }));
    let said = failed.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(*said, format!("3 of 8 seeds fail, SIM_SEED: 3 77 {}", fresh + 1));
    assert_eq!(played.into_inner(), 8);
    assert_eq!(plan.play(|seed| seed), Some(vec![0, 1, 2, 3, 4]));
}

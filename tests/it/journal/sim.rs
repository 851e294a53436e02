//! The journal on a disk that fails, fills up, loses power and is idle, with random owners.
//! `SIM_SEED=n` replays a run.

use super::disk::{End, SimDisk};
use super::simulation::{Simulation, options};
use crate::rng::TestRng;
use crate::seeds::{Plan, Seen};
use jobcentre::journal::{SyncMode, UPPER_KEYS};
use std::collections::BTreeMap;
use std::time::Duration;

/// Seeds of an ordinary test run.
const PLAN: Plan = Plan::new(1_000, &[]);

/// What must have happened in an ordinary test run.
const WANTED: [&str; 15] = [
    "a copy",
    "a copy of several segments",
    "a crash in mid-flight",
    "a put was refused: the disk is full",
    "a record moved",
    "a segment was reused",
    "a segment was larger than usual",
    "a sync failed",
    "a tail was torn",
    "a write failed",
    "more than one segment was ready",
    "recovery was killed",
    "the end was clean",
    "whole batches were in a torn tail",
    "work on space failed",
];

struct Run {
    rng: TestRng,
    simulation: Simulation,
    /// How large things are, and how many come in a pass, at most.
    size: usize,
    burst: usize,
    crashes: usize,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = TestRng::new(seed);
        let sync = match rng.below(5) {
            0 => SyncMode::Never,
            1 => SyncMode::Every(Duration::from_millis(50)),
            _ => SyncMode::Always,
        };
        let segment_bytes = *rng.pick(&[4096, 4096, 8192]);
        let disk = SimDisk::new(rng.seed());
        {
            let mut platter = disk.platter.lock().unwrap();
            platter.inline = sync != SyncMode::Always && rng.percent(70);
            platter.late_completions = rng.percent(50);
        }
        Self {
            simulation: Simulation::new(disk, options(sync, segment_bytes)),
            size: *rng.pick(&[0, 40, 200]),
            burst: *rng.pick(&[1, 3, 10]),
            crashes: *rng.pick(&[1, 3, 6]),
            rng,
        }
    }

    fn go(mut self) -> Seen {
        for _ in 0..self.crashes {
            for _ in 0..self.rng.between(1, 30) {
                self.inject_fault();
                self.step();
                self.copy();
                let work = *self.rng.pick(&[0, 1, 3, 100]);
                self.simulation.pass(work);
            }
            let end = if self.rng.percent(50) { End::Kill } else { End::PowerCut };
            if self.simulation.acknowledged + 1 < self.simulation.journal.next_batch() {
                self.simulation.see("a crash in mid-flight");
            }
            self.simulation.crash(end, &mut self.rng);
        }
        self.come_to_an_end();
        self.simulation.seen
    }

    fn step(&mut self) {
        let simulation = &mut self.simulation;
        for _ in 0..self.rng.between(0, self.burst) {
            let id = simulation.harness.pick(&mut self.rng);
            let value = self.rng.seed();
            match (self.rng.below(10), id) {
                (0..2, Some(id)) => simulation.set(id, value),
                (2..6, Some(id)) => simulation.delete(id),
                _ => {
                    let large = self.rng.percent(1);
                    let size = if large { 9_000 } else { self.rng.between(0, self.size) };
                    if simulation.put(value, size) && large {
                        simulation.see("a segment was larger than usual");
                    }
                }
            }
            if self.rng.percent(20) {
                simulation.journal.maybe_seal();
            }
        }
        let status = simulation.journal.stats();
        if status.spares > 0 {
            simulation.see("a segment was reused");
        }
        if status.free_bytes > 2 * simulation.options.segment_bytes {
            simulation.see("more than one segment was ready");
        }
        simulation.compare_sizes();
        let nanos = *self.rng.pick(&[0, 100_000, 20_000_000, 1_100_000_000]);
        simulation.wait(nanos);
    }

    /// A copy of the journal is made, step by step, in some runs. What is drawn follows from what
    /// there is, so that all else that is drawn stays as it was.
    fn copy(&mut self) {
        let simulation = &mut self.simulation;
        let moment = simulation.now.mono.0 ^ simulation.journal.next_batch() << 32;
        let mut rng = TestRng::new(moment);
        if rng.percent(if simulation.copy.is_some() { 60 } else { 10 }) {
            simulation.copy_some();
        }
    }

    /// Something about the disk changes.
    fn inject_fault(&mut self) {
        let mut what = None;
        {
            let mut platter = self.simulation.disk.platter.lock().unwrap();
            match self.rng.below(100) {
                0..3 => platter.capacity = platter.total() + self.rng.below(5_000) as u64,
                3..10 => platter.capacity = u64::MAX,
                10 if self.rng.percent(30) => {
                    platter.fail_write = true;
                    what = Some("a write failed");
                }
                11 if self.rng.percent(30) => {
                    platter.fail_sync = true;
                    what = Some("a sync failed");
                }
                12 if self.rng.percent(30) => {
                    platter.fail_space = true;
                    what = Some("work on space failed");
                }
                _ => {}
            }
        }
        if let Some(what) = what {
            self.simulation.see(what);
        }
    }

    /// Without faults everything is acknowledged. Then the journal ends
    /// properly, and nothing is lost by whatever comes next.
    fn come_to_an_end(&mut self) {
        let simulation = &mut self.simulation;
        simulation.end_copy();
        {
            let mut platter = simulation.disk.platter.lock().unwrap();
            platter.capacity = u64::MAX;
            platter.late_completions = false;
        }
        simulation.wait(1_100_000_000);
        simulation.settle();
        assert!(simulation.journal.disk_error().is_none());
        assert!(!simulation.journal.stats().full || !simulation.journal.is_compacting());
        simulation.close();
        assert!(simulation.journal.disk_error().is_none());
        simulation.acknowledged = simulation.journal.next_batch() - 1;
        assert_eq!(
            simulation.disk.safe(simulation.acknowledged),
            simulation.acknowledged,
            "all is synced"
        );
        let torn = simulation.seen.get("a tail was torn").copied();
        simulation.crash(End::PowerCut, &mut self.rng);
        assert_eq!(torn, simulation.seen.get("a tail was torn").copied(), "a proper end was torn");
        simulation.see("the end was clean");
    }
}

fn run(seed: u64) -> Seen {
    Run::new(seed).go()
}

#[test]
fn durable_records_survive_every_disk_fault() {
    PLAN.run(&WANTED, 4, run);
}

#[test]
fn equal_slots_of_both_key_ranges_survive_compaction_and_recovery() {
    let mut rng = TestRng::new(1);
    let mut simulation = Simulation::new(SimDisk::new(1), options(SyncMode::Always, 4096));
    for value in 0..20 {
        assert!(simulation.put(value, 40), "the disk is empty");
    }
    let things = &simulation.harness.things;
    let slots = |odd: u64, first: u32| -> Vec<u32> {
        let range = things.iter().filter(|(id, _)| *id % 2 == odd);
        range.map(|(_, thing)| thing.slot - first).collect()
    };
    assert_eq!(slots(0, 0), slots(1, UPPER_KEYS), "the slots of the ranges differ");
    let kept = simulation.harness.values();
    let moved = |simulation: &Simulation| simulation.journal.stats().moved_bytes;
    let mut survive = |simulation: &mut Simulation, kept: &BTreeMap<u64, (u64, usize)>| {
        let before = moved(simulation);
        while moved(simulation) < before + 20 * 61 {
            simulation.put(0, 200);
            simulation.delete(simulation.harness.last_id);
            simulation.pass(usize::MAX);
        }
        simulation.settle();
        simulation.compare_sizes();
        simulation.crash(End::PowerCut, &mut rng);
        assert_eq!(&simulation.harness.values(), kept, "a record was lost, or is another's");
    };
    survive(&mut simulation, &kept);
    let (lower, upper): (BTreeMap<_, _>, BTreeMap<_, _>) =
        kept.into_iter().partition(|(id, _)| id.is_multiple_of(2));
    for id in upper.into_keys() {
        simulation.delete(id);
    }
    survive(&mut simulation, &lower);
}

//! The journal on a disk that fails, fills up, loses power and lies idle, under owners that come
//! and go. `SIM_SEED=n` replays a run.

use super::disk::{End, SimDisk};
use super::simulation::{Simulation, options};
use crate::dice::Dice;
use crate::seeds::{Plan, Seen};
use jobcentre::journal::SyncMode;
use std::time::Duration;

/// Seeds of an ordinary test run.
const PLAN: Plan = Plan::new(2_000, &[]);

/// What must have happened in an ordinary test run.
const WANTED: [&str; 13] = [
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
    dice: Dice,
    world: Simulation,
    /// How large things are, and how many come in a pass, at most.
    size: usize,
    burst: usize,
    crashes: usize,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let sync = match dice.below(5) {
            0 => SyncMode::Never,
            1 => SyncMode::Every(Duration::from_millis(50)),
            _ => SyncMode::Always,
        };
        let segment_bytes = *dice.pick(&[4096, 4096, 8192]);
        let disk = SimDisk::new(dice.seed());
        {
            let mut platter = disk.platter.lock().unwrap();
            platter.inline = sync != SyncMode::Always && dice.percent(70);
            platter.sluggish = dice.percent(50);
        }
        Self {
            world: Simulation::new(disk, options(sync, segment_bytes)),
            size: *dice.pick(&[0, 40, 200]),
            burst: *dice.pick(&[1, 3, 10]),
            crashes: *dice.pick(&[1, 3, 6]),
            dice,
        }
    }

    fn go(mut self) -> Seen {
        for _ in 0..self.crashes {
            for _ in 0..self.dice.between(1, 30) {
                self.disturb();
                self.happen();
                let work = *self.dice.pick(&[0, 1, 3, 100]);
                self.world.pass(work);
            }
            let end = if self.dice.percent(50) { End::Kill } else { End::PowerCut };
            if self.world.acknowledged + 1 < self.world.journal.stamp() {
                self.world.see("a crash in mid-flight");
            }
            self.world.crash(end, &mut self.dice);
        }
        self.come_to_an_end();
        self.world.seen
    }

    fn happen(&mut self) {
        let world = &mut self.world;
        for _ in 0..self.dice.between(0, self.burst) {
            let id = world.shop.pick(&mut self.dice);
            let value = self.dice.seed();
            match (self.dice.below(10), id) {
                (0..2, Some(id)) => world.set(id, value),
                (2..6, Some(id)) => world.delete(id),
                _ => {
                    let large = self.dice.percent(1);
                    let size = if large { 9_000 } else { self.dice.between(0, self.size) };
                    if world.put(value, size) && large {
                        world.see("a segment was larger than usual");
                    }
                }
            }
            if self.dice.percent(20) {
                world.journal.maybe_seal();
            }
        }
        let status = world.journal.stats();
        if status.spares > 0 {
            world.see("a segment was reused");
        }
        if status.free_bytes > 2 * world.options.segment_bytes {
            world.see("more than one segment was ready");
        }
        world.compare_sizes();
        let nanos = *self.dice.pick(&[0, 100_000, 20_000_000, 1_100_000_000]);
        world.wait(nanos);
    }

    /// Something about the disk changes.
    fn disturb(&mut self) {
        let mut what = None;
        {
            let mut platter = self.world.disk.platter.lock().unwrap();
            match self.dice.below(100) {
                0..3 => platter.capacity = platter.total() + self.dice.below(5_000) as u64,
                3..10 => platter.capacity = u64::MAX,
                10 if self.dice.percent(30) => {
                    platter.fail_write = true;
                    what = Some("a write failed");
                }
                11 if self.dice.percent(30) => {
                    platter.fail_sync = true;
                    what = Some("a sync failed");
                }
                12 if self.dice.percent(30) => {
                    platter.fail_space = true;
                    what = Some("work on space failed");
                }
                _ => {}
            }
        }
        if let Some(what) = what {
            self.world.see(what);
        }
    }

    /// The disk is good and everybody waits: everything is acknowledged. Then the journal ends
    /// properly, and nothing is lost by whatever comes next.
    fn come_to_an_end(&mut self) {
        let world = &mut self.world;
        {
            let mut platter = world.disk.platter.lock().unwrap();
            platter.capacity = u64::MAX;
            platter.sluggish = false;
        }
        world.wait(1_100_000_000);
        world.settle();
        assert!(world.journal.fault().is_none());
        assert!(!world.journal.stats().full || !world.journal.is_compacting());
        world.close();
        assert!(world.journal.fault().is_none());
        world.acknowledged = world.journal.stamp() - 1;
        assert_eq!(world.disk.safe(world.acknowledged), world.acknowledged, "all is synced");
        let torn = world.seen.get("a tail was torn").copied();
        world.crash(End::PowerCut, &mut self.dice);
        assert_eq!(torn, world.seen.get("a tail was torn").copied(), "a proper end was torn");
        world.see("the end was clean");
    }
}

fn run(seed: u64) -> Seen {
    Run::new(seed).go()
}

#[test]
fn whatever_the_disk_does_the_promise_holds() {
    PLAN.run(&WANTED, 4, run);
}

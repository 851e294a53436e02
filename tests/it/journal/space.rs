//! Space: the directory stays within its bound, compaction comes to its end and costs what it may,
//! and a full disk refuses puts and nothing else.

use super::disk::{End, SimDisk};
use super::simulation::{Simulation, options};
use crate::dice::Dice;
use jobcentre::base::limits::{COMPACTION_STEP_BYTES, COMPACTION_STEP_INTERVAL};
use jobcentre::journal::{SyncMode, segment_bytes_for};
use std::collections::VecDeque;

const SEGMENT: u64 = 4096;
const LARGER: u64 = 16 * 1024;

fn world(seed: u64, sync: SyncMode) -> Simulation {
    Simulation::new(SimDisk::new(seed), options(sync, SEGMENT))
}

impl Simulation {
    fn live(&self) -> u64 {
        self.journal.stats().live_bytes
    }

    fn total(&self) -> u64 {
        let total = self.disk.platter.lock().unwrap().total();
        assert_eq!(self.journal.stats().total_bytes, total, "sizes are miscounted");
        total
    }

    fn assert_bound(&self, when: &str) {
        self.assert_bound_of(when, self.live());
    }

    /// The bound for so many live bytes.
    fn assert_bound_of(&self, when: &str, live: u64) {
        let total = self.total();
        assert!(
            total <= 2 * live + 2 * self.options.segment_bytes,
            "{when}: {total} bytes for {live} live ones: {:?}",
            self.journal.stats()
        );
    }

    /// One pass with nothing left under way.
    fn full_pass(&mut self) {
        self.wait(1_000);
        self.pass(usize::MAX);
        self.pass(usize::MAX);
    }

    /// Passes until everything is acknowledged, which must be soon.
    fn drain(&mut self) {
        for _ in 0..20 {
            self.full_pass();
            if self.acknowledged + 1 == self.journal.stamp() {
                return;
            }
        }
        panic!("it hangs: {:?}", self.journal.stats());
    }

    /// Deletes so many things, the oldest first, or any.
    fn delete_some(&mut self, dice: &mut Dice, count: usize, oldest: bool) {
        for _ in 0..count {
            let first = self.shop.things.keys().next().copied();
            let id = if oldest { first } else { self.shop.pick(dice) };
            if let Some(id) = id {
                self.delete(id);
            }
        }
    }
}

/// What a workload does in one pass, as it has been decided by chance.
fn happen(world: &mut Simulation, dice: &mut Dice, manner: usize, target: usize) {
    let size = || 20..usize::try_from(SEGMENT / 8).unwrap();
    let things = world.shop.things.len();
    match manner {
        // Around so many things, and any of them may go or change.
        0 => {
            for _ in 0..dice.between(0, 6) {
                match (dice.below(3), world.shop.pick(dice)) {
                    (0, Some(id)) if things > target => world.delete(id),
                    (1, Some(id)) => world.set(id, dice.seed()),
                    _ => {
                        let size = dice.between(size().start, size().end - 17);
                        world.put(dice.seed(), size);
                    }
                }
            }
        }
        // First in, first out.
        1 => {
            let size = dice.between(20, 200);
            world.put(dice.seed(), size);
            world.delete_some(dice, usize::from(things >= target), true);
        }
        // One thing changes all the time.
        2 => match world.shop.pick(dice) {
            Some(id) if things >= target => world.set(id, dice.seed()),
            _ => {
                world.put(dice.seed(), 100);
            }
        },
        // The old stay, the new go at once.
        3 => {
            let size = dice.between(20, 400);
            world.put(dice.seed(), size);
            let id = world.shop.last_id;
            if things > target {
                world.delete(id);
            }
        }
        // Tides.
        _ => {
            let falling = (world.journal.stamp() / 64) % 2 == 1;
            world.delete_some(dice, if falling { 12 } else { 0 }, false);
            for _ in 0..if falling { 1 } else { 8 } {
                world.put(dice.seed(), 60);
            }
        }
    }
}

#[test]
fn whenever_compaction_has_caught_up_the_directory_is_within_its_bound() {
    for seed in 0..60 {
        let mut dice = Dice::new(seed);
        let sync = *dice.pick(&[SyncMode::Always, SyncMode::Never]);
        let mut world = world(seed, sync);
        let (manner, target) = (dice.below(5), *dice.pick(&[0, 10, 100]));
        for _ in 0..dice.between(20, 120) {
            happen(&mut world, &mut dice, manner, target);
            world.settle();
            assert!(!world.journal.is_compacting(), "it is due and cannot move");
            world.assert_bound("at rest");
            world.compare_sizes();
        }
    }
}

#[test]
fn work_that_is_steady_stays_within_the_bound_all_the_time() {
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let mut world = Simulation::new(SimDisk::new(seed), options(SyncMode::Always, LARGER));
        let (manner, target) = (dice.below(4), *dice.pick(&[10, 100, 400]));
        // What is live goes up and down a little, and files do not follow at once.
        let mut lately = VecDeque::new();
        for _ in 0..300 {
            happen(&mut world, &mut dice, manner, target);
            world.full_pass();
            lately.push_back(world.live());
            if lately.len() > 30 {
                lately.pop_front();
            }
            let live = lately.iter().copied().max().unwrap_or_default();
            world.assert_bound_of("in the midst of it", live);
        }
        // What is moved is in proportion to what was appended.
        let status = world.journal.stats();
        let appended = status.written_bytes - status.moved_bytes;
        assert!(status.moved_bytes < 3 * appended, "manner {manner}: {status:?}");
    }
}

#[test]
fn after_many_deletions_compaction_comes_to_its_end_without_any_traffic() {
    let mut dice = Dice::new(1);
    let mut world = world(1, SyncMode::Always);
    for _ in 0..2_000 {
        world.put(1, 100);
        world.full_pass();
    }
    let before = world.total();
    world.delete_some(&mut dice, 1_900, false);
    world.full_pass();
    assert!(world.journal.is_compacting() && world.total() > 10 * world.live());
    let (moved, live) = (world.journal.stats().moved_bytes, world.live());
    world.settle();
    assert!(!world.journal.is_compacting() && world.total() < before / 5);
    world.assert_bound("at rest");
    let moved = world.journal.stats().moved_bytes - moved;
    assert!(moved <= live * 3 / 2, "{moved} bytes were moved for {live} live ones");
}

#[test]
fn compaction_without_traffic_costs_a_batch_for_each_step_however_often_there_is_a_pass() {
    let mut dice = Dice::new(1);
    let mut world = Simulation::new(SimDisk::new(1), options(SyncMode::Always, 256 * 1024));
    for _ in 0..200 {
        for _ in 0..100 {
            world.put(1, 100);
        }
        world.full_pass();
    }
    world.delete_some(&mut dice, 16_000, false);
    world.drain();
    assert!(world.journal.is_compacting());
    let (before, start) = (world.journal.stats(), world.now.mono);
    while world.journal.is_compacting() {
        world.wait(50_000);
        world.pass(usize::MAX);
    }
    let after = world.journal.stats();
    let steps = world.now.mono.until(start).as_nanos() / COMPACTION_STEP_INTERVAL.as_nanos();
    assert!(after.moved_bytes - before.moved_bytes > 10 * COMPACTION_STEP_BYTES, "{after:?}");
    assert!(u128::from(after.batches - before.batches) <= steps + 2, "{steps} steps, {after:?}");
}

#[test]
fn records_that_cannot_be_packed_are_not_moved_for_ever() {
    let mut world = world(1, SyncMode::Always);
    for _ in 0..50 {
        world.put(1, 2_300);
        world.full_pass();
    }
    // Half of each segment is empty, and will always be.
    world.settle();
    let moved = world.journal.stats().moved_bytes;
    for _ in 0..200 {
        world.wait(10_000_000);
        world.full_pass();
    }
    assert_eq!(world.journal.stats().moved_bytes, moved, "it goes on and on");
    assert!(moved < 4 * world.live(), "{moved}");
}

#[test]
fn an_empty_journal_takes_two_segments_however_much_was_in_it() {
    let mut dice = Dice::new(1);
    for sync in [SyncMode::Always, SyncMode::Never] {
        let mut world = world(1, sync);
        for _ in 0..500 {
            world.put(1, 300);
            world.full_pass();
        }
        world.delete_some(&mut dice, 500, true);
        world.settle();
        assert_eq!((world.live(), world.shop.things.len()), (0, 0));
        assert!(world.total() <= 2 * SEGMENT, "{:?}", world.journal.stats());
    }
}

/// Puts until the disk is full, at most a few in a pass.
fn fill(world: &mut Simulation, dice: &mut Dice, size: usize) {
    for _ in 0..10_000 {
        for _ in 0..dice.between(1, 3) {
            let size = dice.between(20, size);
            if !world.put(2, size) {
                return;
            }
        }
        world.full_pass();
    }
    panic!("the disk is never full");
}

#[test]
fn a_full_disk_refuses_puts_and_nothing_else_and_takes_puts_again_when_there_is_space() {
    for seed in 0..12 {
        let mut dice = Dice::new(seed);
        let mut world = Simulation::new(SimDisk::new(seed), options(SyncMode::Always, LARGER));
        let capacity = LARGER * dice.between(3, 12) as u64;
        world.disk.platter.lock().unwrap().capacity = capacity;
        let size = *dice.pick(&[60, 200, 1_000]);
        fill(&mut world, &mut dice, size);
        assert!(world.journal.stats().full);
        let used = world.live() * 100 / capacity;
        assert!(used >= 10, "a disk of {capacity} bytes is full with {used} % live bytes");
        // Changes without end, though nothing gets free.
        for _ in 0..300 {
            if let Some(id) = world.shop.pick(&mut dice) {
                world.set(id, dice.seed());
            }
            world.wait(5_000_000);
            world.drain();
        }
        // Every thing can be deleted.
        while !world.shop.things.is_empty() {
            let count = dice.between(1, 8);
            world.delete_some(&mut dice, count, false);
            world.drain();
        }
        world.settle();
        assert!(world.put(1, 400), "an empty journal refuses a put");
        // Another user of the disk gives space back.
        fill(&mut world, &mut dice, size);
        world.disk.platter.lock().unwrap().capacity = u64::MAX;
        world.wait(1_000_000_000);
        world.settle();
        assert!(world.put(1, 100) && !world.journal.stats().full);
        world.settle();
        world.assert_bound("at rest");
    }
}

#[test]
fn a_disk_that_is_full_from_the_beginning_takes_nothing_until_there_is_space() {
    let disk = SimDisk::new(1);
    disk.platter.lock().unwrap().capacity = SEGMENT - 1;
    let mut world = Simulation::new(disk, options(SyncMode::Always, SEGMENT));
    world.full_pass();
    assert!(!world.put(1, 1));
    assert_eq!(world.journal.poll_timeout().map(|at| at.0 >= 1_000_000_000), Some(true));
    world.disk.platter.lock().unwrap().capacity = 2 * SEGMENT;
    world.wait(1_000_000_000);
    world.full_pass();
    assert!(world.put(1, 1));
    world.settle();
}

#[test]
fn batches_that_came_before_the_disk_was_known_to_be_full_are_written_all_the_same() {
    // The first segment has space, the second has not, and a large batch is on its way there.
    let disk = SimDisk::new(1);
    disk.platter.lock().unwrap().capacity = SEGMENT + 2_500;
    let mut world = Simulation::new(disk, options(SyncMode::Always, SEGMENT));
    world.put(1, 3_000);
    world.pass(1);
    world.put(1, 2_000);
    world.full_pass();
    world.full_pass();
    assert!(world.journal.stats().full && !world.journal.has_capacity(10));
    assert_eq!(world.acknowledged, 2, "a smaller segment would have done");
}

#[test]
fn a_small_disk_takes_puts_to_the_most_part_of_it() {
    for mib in [4, 7, 10, 40, 70] {
        let capacity: u64 = mib << 20;
        let segment = segment_bytes_for(capacity);
        let mut world = Simulation::new(SimDisk::new(mib), options(SyncMode::Always, segment));
        world.disk.platter.lock().unwrap().capacity = capacity;
        let mut puts = 0;
        while world.put(1, 10_000) {
            puts += 1;
            world.full_pass();
        }
        assert!(world.journal.shortage().is_some(), "it says why");
        let lacking = world.journal.lacks(10_017);
        assert!(lacking > 0 && lacking < 2 * segment, "{lacking}");
        let used = world.live() * 100 / capacity;
        assert!(used >= 60, "a disk of {mib} MiB is full with {used} % live bytes, {puts} puts");
    }
}

#[test]
fn a_full_disk_goes_on_with_segments_of_another_size_after_a_restart() {
    for (before, after) in [(LARGER, SEGMENT), (SEGMENT, LARGER)] {
        for seed in 0..12 {
            let mut dice = Dice::new(seed);
            let mut world = Simulation::new(SimDisk::new(seed), options(SyncMode::Always, before));
            world.disk.platter.lock().unwrap().capacity = 12 * LARGER;
            fill(&mut world, &mut dice, 200);
            world.drain();
            world.options = options(SyncMode::Always, after);
            world.crash(End::Kill, &mut dice);
            world.full_pass();
            for _ in 0..300 {
                if let Some(id) = world.shop.pick(&mut dice) {
                    world.set(id, dice.seed());
                }
                world.wait(5_000_000);
                world.drain();
            }
            while !world.shop.things.is_empty() {
                let count = dice.between(1, 8);
                world.delete_some(&mut dice, count, false);
                world.drain();
            }
            world.settle();
            assert!(world.put(1, 400), "an empty journal refuses a put");
        }
    }
}

//! Space: the directory stays within its bound, compaction ends and costs what it may, and a full
//! disk rejects only puts.

use super::disk::{End, SimDisk};
use super::simulation::{Simulation, options};
use crate::rng::TestRng;
use jobcentre::journal::limits::{COMPACTION_STEP_BYTES, COMPACTION_STEP_INTERVAL};
use jobcentre::journal::{SyncMode, segment_bytes_for};
use std::collections::VecDeque;

const SEGMENT: u64 = 4096;
const LARGER: u64 = 16 * 1024;

fn simulation(seed: u64, sync: SyncMode) -> Simulation {
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

    /// The bound for this many live bytes.
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
            if self.acknowledged + 1 == self.journal.next_batch() {
                return;
            }
        }
        panic!("it hangs: {:?}", self.journal.stats());
    }

    /// Deletes `count` things, the oldest first, or at random.
    fn delete_some(&mut self, rng: &mut TestRng, count: usize, oldest: bool) {
        for _ in 0..count {
            let first = self.harness.things.keys().next().copied();
            let id = if oldest { first } else { self.harness.pick(rng) };
            if let Some(id) = id {
                self.delete(id);
            }
        }
    }
}

/// What a workload does in one pass, as it has been decided by chance.
fn step(simulation: &mut Simulation, rng: &mut TestRng, manner: usize, target: usize) {
    let size = || 20..usize::try_from(SEGMENT / 8).unwrap();
    let things = simulation.harness.things.len();
    match manner {
        // About this many things, any of which may be deleted or changed.
        0 => {
            for _ in 0..rng.between(0, 6) {
                match (rng.below(3), simulation.harness.pick(rng)) {
                    (0, Some(id)) if things > target => simulation.delete(id),
                    (1, Some(id)) => simulation.set(id, rng.seed()),
                    _ => {
                        let size = rng.between(size().start, size().end - 17);
                        simulation.put(rng.seed(), size);
                    }
                }
            }
        }
        // First in, first out.
        1 => {
            let size = rng.between(20, 200);
            simulation.put(rng.seed(), size);
            simulation.delete_some(rng, usize::from(things >= target), true);
        }
        // One thing changes all the time.
        2 => match simulation.harness.pick(rng) {
            Some(id) if things >= target => simulation.set(id, rng.seed()),
            _ => {
                simulation.put(rng.seed(), 100);
            }
        },
        // The old stay, the new go at once.
        3 => {
            let size = rng.between(20, 400);
            simulation.put(rng.seed(), size);
            let id = simulation.harness.last_id;
            if things > target {
                simulation.delete(id);
            }
        }
        // Tides.
        _ => {
            let falling = (simulation.journal.next_batch() / 64) % 2 == 1;
            simulation.delete_some(rng, if falling { 12 } else { 0 }, false);
            for _ in 0..if falling { 1 } else { 8 } {
                simulation.put(rng.seed(), 60);
            }
        }
    }
}

#[test]
fn directory_is_within_its_bound_after_compaction() {
    for seed in 0..60 {
        let mut rng = TestRng::new(seed);
        let sync = *rng.pick(&[SyncMode::Always, SyncMode::Never]);
        let mut simulation = simulation(seed, sync);
        let (manner, target) = (rng.below(5), *rng.pick(&[0, 10, 100]));
        for _ in 0..rng.between(20, 120) {
            step(&mut simulation, &mut rng, manner, target);
            simulation.settle();
            assert!(!simulation.journal.is_compacting(), "it is due and cannot move");
            simulation.assert_bound("at rest");
            simulation.compare_sizes();
        }
    }
}

#[test]
fn directory_stays_within_its_bound_under_steady_load() {
    for seed in 0..40 {
        let mut rng = TestRng::new(seed);
        let mut simulation = Simulation::new(SimDisk::new(seed), options(SyncMode::Always, LARGER));
        let (manner, target) = (rng.below(4), *rng.pick(&[10, 100, 400]));
        // What is live goes up and down a little, and files do not follow at once.
        let mut lately = VecDeque::new();
        for _ in 0..300 {
            step(&mut simulation, &mut rng, manner, target);
            simulation.full_pass();
            lately.push_back(simulation.live());
            if lately.len() > 30 {
                lately.pop_front();
            }
            let live = lately.iter().copied().max().unwrap_or_default();
            simulation.assert_bound_of("in the midst of it", live);
        }
        // What is moved is in proportion to what was appended.
        let status = simulation.journal.stats();
        let appended = status.written_bytes - status.moved_bytes;
        assert!(status.moved_bytes < 3 * appended, "manner {manner}: {status:?}");
    }
}

#[test]
fn compaction_after_deletes_ends_without_traffic() {
    let mut rng = TestRng::new(1);
    let mut simulation = simulation(1, SyncMode::Always);
    for _ in 0..2_000 {
        simulation.put(1, 100);
        simulation.full_pass();
    }
    let before = simulation.total();
    simulation.delete_some(&mut rng, 1_900, false);
    simulation.full_pass();
    assert!(simulation.journal.is_compacting() && simulation.total() > 10 * simulation.live());
    let (moved, live) = (simulation.journal.stats().moved_bytes, simulation.live());
    simulation.settle();
    assert!(!simulation.journal.is_compacting() && simulation.total() < before / 5);
    simulation.assert_bound("at rest");
    let moved = simulation.journal.stats().moved_bytes - moved;
    assert!(moved <= live * 3 / 2, "{moved} bytes were moved for {live} live ones");
}

#[test]
fn idle_compaction_writes_one_batch_for_each_step() {
    let mut rng = TestRng::new(1);
    let mut simulation = Simulation::new(SimDisk::new(1), options(SyncMode::Always, 256 * 1024));
    for _ in 0..200 {
        for _ in 0..100 {
            simulation.put(1, 100);
        }
        simulation.full_pass();
    }
    simulation.delete_some(&mut rng, 16_000, false);
    simulation.drain();
    assert!(simulation.journal.is_compacting());
    let (before, start) = (simulation.journal.stats(), simulation.now.mono);
    while simulation.journal.is_compacting() {
        simulation.wait(50_000);
        simulation.pass(usize::MAX);
    }
    let after = simulation.journal.stats();
    let steps = simulation.now.mono.until(start).as_nanos() / COMPACTION_STEP_INTERVAL.as_nanos();
    assert!(after.moved_bytes - before.moved_bytes > 10 * COMPACTION_STEP_BYTES, "{after:?}");
    assert!(u128::from(after.batches - before.batches) <= steps + 2, "{steps} steps, {after:?}");
}

#[test]
fn compaction_of_unpackable_records_ends() {
    let mut simulation = simulation(1, SyncMode::Always);
    for _ in 0..50 {
        simulation.put(1, 2_300);
        simulation.full_pass();
    }
    // Half of each segment is empty, and will always be.
    simulation.settle();
    let moved = simulation.journal.stats().moved_bytes;
    for _ in 0..200 {
        simulation.wait(10_000_000);
        simulation.full_pass();
    }
    assert_eq!(simulation.journal.stats().moved_bytes, moved, "it goes on and on");
    assert!(moved < 4 * simulation.live(), "{moved}");
}

#[test]
fn emptied_journal_shrinks_to_two_segments() {
    let mut rng = TestRng::new(1);
    for sync in [SyncMode::Always, SyncMode::Never] {
        let mut simulation = simulation(1, sync);
        for _ in 0..500 {
            simulation.put(1, 300);
            simulation.full_pass();
        }
        simulation.delete_some(&mut rng, 500, true);
        simulation.settle();
        assert_eq!((simulation.live(), simulation.harness.things.len()), (0, 0));
        assert!(simulation.total() <= 2 * SEGMENT, "{:?}", simulation.journal.stats());
    }
}

/// Puts until the disk is full, at most a few in a pass.
fn fill(simulation: &mut Simulation, rng: &mut TestRng, size: usize) {
    for _ in 0..10_000 {
        for _ in 0..rng.between(1, 3) {
            let size = rng.between(20, size);
            if !simulation.put(2, size) {
                return;
            }
        }
        simulation.full_pass();
    }
    panic!("the disk is never full");
}

#[test]
fn full_disk_rejects_only_puts_until_space_is_free() {
    for seed in 0..12 {
        let mut rng = TestRng::new(seed);
        let mut simulation = Simulation::new(SimDisk::new(seed), options(SyncMode::Always, LARGER));
        let capacity = LARGER * rng.between(3, 12) as u64;
        simulation.disk.platter.lock().unwrap().capacity = capacity;
        let size = *rng.pick(&[60, 200, 1_000]);
        fill(&mut simulation, &mut rng, size);
        assert!(simulation.journal.stats().full);
        let used = simulation.live() * 100 / capacity;
        assert!(used >= 10, "a disk of {capacity} bytes is full with {used} % live bytes");
        // Changes without end, though nothing gets free.
        for _ in 0..300 {
            if let Some(id) = simulation.harness.pick(&mut rng) {
                simulation.set(id, rng.seed());
            }
            simulation.wait(5_000_000);
            simulation.drain();
        }
        // Every thing can be deleted.
        while !simulation.harness.things.is_empty() {
            let count = rng.between(1, 8);
            simulation.delete_some(&mut rng, count, false);
            simulation.drain();
        }
        simulation.settle();
        assert!(simulation.put(1, 400), "an empty journal refuses a put");
        // Another user of the disk gives space back.
        fill(&mut simulation, &mut rng, size);
        simulation.disk.platter.lock().unwrap().capacity = u64::MAX;
        simulation.wait(1_000_000_000);
        simulation.settle();
        assert!(simulation.put(1, 100) && !simulation.journal.stats().full);
        simulation.settle();
        simulation.assert_bound("at rest");
    }
}

#[test]
fn disk_full_at_the_start_rejects_puts_until_space_is_free() {
    let disk = SimDisk::new(1);
    disk.platter.lock().unwrap().capacity = SEGMENT - 1;
    let mut simulation = Simulation::new(disk, options(SyncMode::Always, SEGMENT));
    simulation.full_pass();
    assert!(!simulation.put(1, 1));
    assert_eq!(simulation.journal.poll_timeout().map(|at| at.0 >= 1_000_000_000), Some(true));
    simulation.disk.platter.lock().unwrap().capacity = 2 * SEGMENT;
    simulation.wait(1_000_000_000);
    simulation.full_pass();
    assert!(simulation.put(1, 1));
    simulation.settle();
}

#[test]
fn batches_sealed_before_the_disk_was_full_are_written() {
    // The first segment has space, the second has not, and a large batch is on its way there.
    let disk = SimDisk::new(1);
    disk.platter.lock().unwrap().capacity = SEGMENT + 2_500;
    let mut simulation = Simulation::new(disk, options(SyncMode::Always, SEGMENT));
    simulation.put(1, 3_000);
    simulation.pass(1);
    simulation.put(1, 2_000);
    simulation.full_pass();
    simulation.full_pass();
    assert!(simulation.journal.stats().full && !simulation.journal.has_capacity(10));
    assert_eq!(simulation.acknowledged, 2, "a smaller segment would have done");
}

#[test]
fn small_disk_is_mostly_usable_for_puts() {
    for mib in [4, 7, 10, 40, 70] {
        let capacity: u64 = mib << 20;
        let segment = segment_bytes_for(capacity);
        let mut simulation = Simulation::new(SimDisk::new(mib), options(SyncMode::Always, segment));
        simulation.disk.platter.lock().unwrap().capacity = capacity;
        let mut puts = 0;
        while simulation.put(1, 10_000) {
            puts += 1;
            simulation.full_pass();
        }
        assert!(simulation.journal.shortage().is_some(), "it says why");
        let lacking = simulation.journal.missing_bytes(10_017);
        assert!(lacking > 0 && lacking < 2 * segment, "{lacking}");
        let used = simulation.live() * 100 / capacity;
        assert!(used >= 60, "a disk of {mib} MiB is full with {used} % live bytes, {puts} puts");
    }
}

#[test]
fn full_disk_continues_after_a_restart_with_another_segment_size() {
    for (before, after) in [(LARGER, SEGMENT), (SEGMENT, LARGER)] {
        for seed in 0..12 {
            let mut rng = TestRng::new(seed);
            let mut simulation =
                Simulation::new(SimDisk::new(seed), options(SyncMode::Always, before));
            simulation.disk.platter.lock().unwrap().capacity = 12 * LARGER;
            fill(&mut simulation, &mut rng, 200);
            simulation.drain();
            simulation.options = options(SyncMode::Always, after);
            simulation.crash(End::Kill, &mut rng);
            simulation.full_pass();
            for _ in 0..300 {
                if let Some(id) = simulation.harness.pick(&mut rng) {
                    simulation.set(id, rng.seed());
                }
                simulation.wait(5_000_000);
                simulation.drain();
            }
            while !simulation.harness.things.is_empty() {
                let count = rng.between(1, 8);
                simulation.delete_some(&mut rng, count, false);
                simulation.drain();
            }
            simulation.settle();
            assert!(simulation.put(1, 400), "an empty journal refuses a put");
        }
    }
}

//! Salvage of directories with random damage: it copies every batch that verifies somewhere, and
//! nothing else.

use super::damage::{Frame, Image, SEGMENT, always, frames};
use super::disk::{SimDisk, segment_name};
use super::simulation::Simulation;
use crate::rng::TestRng;
use crate::seeds::Plan;
use jobcentre::journal::{RecordLocation, read, salvage};
use std::collections::BTreeMap;

/// Seeds that have failed once.
const FAILED_ONCE: &[u64] = &[
    45_283_097_591,
    45_283_099_993,
    147_868_698_323,
    395_558_008_584,
    395_558_046_476,
    622_535_750_920,
    9_400_000_049_886,
    823_294_508_408_665_939,
];

/// Bytes of a segment's header.
const HEADER: usize = 64;

const PLAN: Plan = Plan::new(100, FAILED_ONCE);

/// A directory in which compaction has been at work, with recycled segments and spares.
fn lived_in(rng: &mut TestRng) -> Image {
    let mut simulation = Simulation::new(SimDisk::new(rng.seed()), always());
    let target = rng.between(3, 60);
    for _ in 0..rng.between(10, 500) {
        let size = rng.between(20, 400);
        simulation.put(rng.seed(), size);
        if simulation.harness.things.len() > target
            && let Some(id) = simulation.harness.pick(rng)
        {
            simulation.delete(id);
        }
        if rng.percent(70) {
            simulation.settle();
        }
    }
    simulation.settle();
    simulation.disk.image()
}

/// Does something bad to some of the files.
fn damage(image: &mut Image, rng: &mut TestRng) {
    let names: Vec<String> = image.keys().cloned().collect();
    let name = rng.pick(&names).clone();
    let length = image[&name].len();
    match rng.below(6) {
        0 => {
            let at = rng.below(length);
            image.get_mut(&name).unwrap()[at] ^= 1 << rng.below(8);
        }
        1 => {
            let at = rng.below(64);
            image.get_mut(&name).unwrap()[at] ^= 1 << rng.below(8);
        }
        2 => {
            let at = rng.below(length);
            let end = (at + rng.between(1, 600)).min(length);
            let with = u8::try_from(rng.below(256)).unwrap();
            image.get_mut(&name).unwrap()[at..end].fill(with);
        }
        3 => {
            // Two blocks, of any two files.
            let other = rng.pick(&names).clone();
            // No file is shorter than a header.
            let least = length.min(image[&other].len());
            let size = (8 << rng.below(7)).min(least);
            let place =
                |rng: &mut TestRng, name: &String| rng.below(image[name].len() / size) * size;
            let (a, b) = (place(rng, &name), place(rng, &other));
            let [first, second] =
                [(&name, a), (&other, b)].map(|(name, at)| image[name][at..at + size].to_vec());
            image.get_mut(&name).unwrap()[a..a + size].copy_from_slice(&second);
            image.get_mut(&other).unwrap()[b..b + size].copy_from_slice(&first);
        }
        4 => {
            let bytes = image.get_mut(&name).unwrap();
            bytes.truncate(rng.between(64, length.max(65)) / 8 * 8);
        }
        _ => {
            let bytes = image.remove(&name).unwrap();
            let to = rng.below(4);
            let to =
                if to == 0 { segment_name(rng.between(1, 90) as u64) } else { format!("x{to}") };
            // Two files change places if there is one with that name.
            if let Some(other) = image.insert(to, bytes) {
                image.insert(name, other);
            }
        }
    }
}

/// The records of a batch.
type Batch = Vec<Vec<u8>>;

fn bytes_of<'i>(image: &'i Image, frame: &Frame) -> &'i [u8] {
    &image[&segment_name(frame.epoch)][frame.offset..][..frame.length]
}

/// The oldest segment that is needed, as a batch says.
fn oldest(image: &Image, frame: &Frame) -> u64 {
    u64::from_le_bytes(bytes_of(image, frame)[24..32].try_into().unwrap())
}

/// Whether some file seems to be a segment before this one: a spare that was given a segment's
/// name, or one whose name or header was changed. Then that segment counts as not given up. Headers
/// with a bit or two wrong are repaired, so the one `before` the damage counts, too.
fn seems_needed(before: &Image, after: &Image, needed: u64) -> bool {
    let named = |name: &str| u64::from_str_radix(name.strip_suffix(".seg")?, 16).ok();
    let epoch = |bytes: &[u8]| u64::from_le_bytes(bytes[16..24].try_into().unwrap());
    let wrong_bits =
        |a: &[u8], b: &[u8]| -> u32 { a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum() };
    let is_early = |bytes: &[u8]| {
        let repaired = |whole: &&Vec<u8>| wrong_bits(&whole[..HEADER], &bytes[..HEADER]) <= 2;
        epoch(bytes) < needed || before.values().filter(repaired).any(|it| epoch(it) < needed)
    };
    after
        .iter()
        .any(|(name, bytes)| named(name).is_some_and(|epoch| epoch < needed || is_early(bytes)))
}

fn records(frame: &[u8]) -> Batch {
    let (mut rest, mut records) = (&frame[48..], Vec::new());
    while rest.len() >= 8 || rest.iter().any(|&byte| byte != 0) {
        let length = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
        records.push(rest[4..4 + length].to_vec());
        rest = &rest[4 + length..];
    }
    records
}

/// What is in the copy, in the order of the numbers.
fn read_copy(mut copy: SimDisk) -> Vec<Batch> {
    let mut found = BTreeMap::<u64, Batch>::new();
    let mut each = |record: &[u8], origin: RecordLocation| {
        found.entry(origin.sequence).or_default().push(record.to_vec());
        Ok(())
    };
    read(&mut copy, &mut each, &mut |_| {}).unwrap();
    found.into_values().collect()
}

fn run(seed: u64) {
    let mut rng = TestRng::new(seed);
    let before = lived_in(&mut rng);
    let mut after = before.clone();
    for _ in 0..rng.between(1, 6) {
        damage(&mut after, &mut rng);
    }
    let chain = frames(&before);
    let is_whole = |frame: &&Frame| {
        let bytes = bytes_of(&before, frame);
        after.values().any(|file| file.windows(frame.length).step_by(8).any(|at| at == bytes))
    };
    let whole: Vec<&Frame> = chain.iter().filter(is_whole).collect();
    let expected: Vec<Batch> =
        whole.iter().map(|frame| records(bytes_of(&before, frame))).collect();
    let expected: Vec<Batch> = expected.into_iter().filter(|batch| !batch.is_empty()).collect();

    let mut copy = SimDisk::new(1);
    let needed = chain.iter().map(|frame| oldest(&before, frame)).max();
    let seems_needed = needed.is_some_and(|needed| seems_needed(&before, &after, needed));
    let report = salvage(&mut SimDisk::of(after), &mut copy, SEGMENT).unwrap();
    let found = read_copy(copy);
    let mut missed = expected.iter();
    let mut next = missed.next();
    for batch in &found {
        if next == Some(batch) {
            next = missed.next();
        }
    }
    assert!(next.is_none(), "{} of {}: {report:?}", found.len(), expected.len());
    // As long as a header says what was abandoned, and none says the contrary, nothing of it is
    // back.
    let said = whole.iter().map(|frame| oldest(&before, frame)).max() == needed;
    if said && !seems_needed {
        assert_eq!(found.len(), expected.len(), "{report:?}");
    }
}

#[test]
fn salvage_copies_every_verified_batch_and_no_abandoned_one() {
    PLAN.play(run);
}

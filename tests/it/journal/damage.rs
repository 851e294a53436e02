//! Damaged directories, each test named by the damage: a durable record is never dropped silently,
//! and any other batch is there as a whole or not at all.

use super::disk::{SimDisk, segment_name};
use super::harness::put_record;
use super::simulation::{Found, SALT, Simulation, options, recover_into};
use crate::rng::TestRng;
use jobcentre::base::time::Now;
use jobcentre::journal::{JournalOptions, OpenError, RecordRole, SyncMode, read, recover};
use std::collections::BTreeMap;

pub(super) const SEGMENT: u64 = 4096;

pub(super) type Image = BTreeMap<String, Vec<u8>>;

/// A frame, as the documentation has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) epoch: u64,
    pub(super) offset: usize,
    pub(super) length: usize,
    pub(super) sequence: u64,
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The frames of an undamaged image, in order.
pub(super) fn frames(image: &Image) -> Vec<Frame> {
    let mut found = Vec::new();
    for (name, bytes) in image.iter().filter(|(name, _)| !name.starts_with("spare")) {
        let epoch = u64::from_str_radix(&name[..16], 16).unwrap();
        let mut offset = 64;
        while bytes.get(offset..offset + 8).is_some_and(|head| head != [0; 8]) {
            let length = (number(bytes, offset) & 0xffff_ffff) as usize;
            let sequence = number(bytes, offset + 8);
            found.push(Frame { epoch, offset, length, sequence });
            offset += length;
        }
    }
    assert!(found.windows(2).all(|pair| pair[0].sequence + 1 == pair[1].sequence));
    found
}

pub(super) fn always() -> JournalOptions {
    options(SyncMode::Always, SEGMENT)
}

/// A journal of some segments without recycled bytes: puts alone, one in each batch.
fn puts(count: usize) -> Simulation {
    let mut simulation = Simulation::new(SimDisk::new(1), always());
    for _ in 0..count {
        simulation.put(7, 180);
        simulation.pass(usize::MAX);
        simulation.pass(usize::MAX);
    }
    simulation
}

/// Its files as a crash leaves them.
pub(super) fn crashed(count: usize) -> Image {
    puts(count).disk.image()
}

/// Its files as a proper end leaves them.
pub(super) fn closed(count: usize) -> Image {
    let mut simulation = puts(count);
    simulation.close();
    simulation.disk.image()
}

pub(super) fn try_recover(image: &Image) -> Result<Found, OpenError> {
    recover_into(&mut SimDisk::of(image.clone()), &always())
}

/// What recovery says to a damaged image; and it must have changed nothing.
fn refusal(image: &Image) -> OpenError {
    let mut disk = SimDisk::of(image.clone());
    let refused = recover_into(&mut disk, &always()).map(|_| ()).expect_err("it is not refused");
    assert_eq!(disk.image(), *image, "a refusal has changed something");
    let nothing = read(&mut disk, &mut |_, _| Ok(()), &mut |_| {});
    assert_eq!(nothing.unwrap_err(), refused, "a check says something else");
    refused
}

fn assert_damaged(image: &Image, file: u64, at: usize, context: &str) {
    match refusal(image) {
        OpenError::Damaged { file: named, offset, .. } => {
            assert_eq!((named, offset), (segment_name(file), at as u64), "{context}");
        }
        other => panic!("{context}: {other}"),
    }
}

/// The journal goes on after a recovery of `image`, and what it takes then is there the next time.
fn assert_goes_on(image: &Image, things: usize) {
    let mut disk = SimDisk::of(image.clone());
    for round in 0..3 {
        let Found { recovered, harness, report, .. } = recover_into(&mut disk, &always()).unwrap();
        assert_eq!(harness.things.len(), things + round);
        assert_eq!(report.torn.is_some(), round == 0 && report.torn.is_some(), "cut twice");
        let mut harness = harness;
        harness.last_id = report.high_id;
        let mut journal = recovered.start(Box::new(disk.clone()), Now::default());
        let record = put_record(harness.new_id(), 1, 50);
        let Ok(RecordRole::Base(slot)) = harness.apply(&record) else { panic!("it is a put") };
        journal.raise_high_id(harness.last_id);
        let stamp = journal.append(Some(slot), &record);
        while journal.durable() < stamp {
            journal.commit(Now::default());
            disk.work(usize::MAX);
            journal.poll(Now::default());
        }
        journal.check_invariants();
    }
}

/// The fields of a frame: a name, and where it begins. The last is padding.
const FRAME_FIELDS: [(&str, usize); 10] = [
    ("size", 0),
    ("checksum", 4),
    ("sequence", 8),
    ("synced", 16),
    ("oldest", 24),
    ("mark", 32),
    ("count", 40),
    ("checksum of the head", 44),
    ("size of a record", 48),
    ("record", 52),
];

#[test]
fn flipped_bit_in_every_field_of_a_frame() {
    let image = closed(40);
    let all = frames(&image);
    assert!(all[all.len() - 1].epoch >= 3);
    // The first of all, the last and the first of a segment, one in the middle, and the one before
    // the last words.
    let rotation = all.iter().position(|frame| frame.epoch == 2).unwrap();
    for at in [0, rotation - 1, rotation, rotation + 5, all.len() - 2] {
        let frame = all[at];
        let ends = [("padding", frame.length - 1)];
        for (field, offset) in FRAME_FIELDS.into_iter().chain(ends) {
            let mut damaged = image.clone();
            let bytes = damaged.get_mut(&segment_name(frame.epoch)).unwrap();
            bytes[frame.offset + offset] ^= 1 << (at % 8);
            let context = format!("{field} of batch {}", frame.sequence);
            assert_damaged(&damaged, frame.epoch, frame.offset, &context);
        }
    }
}

#[test]
fn flipped_bit_in_the_last_batch_of_a_crash() {
    let image = crashed(20);
    let last = *frames(&image).last().unwrap();
    for offset in 0..last.length {
        let mut damaged = image.clone();
        damaged.get_mut(&segment_name(last.epoch)).unwrap()[last.offset + offset] ^= 0x10;
        // No one can tell it from a batch that was being written.
        let found = try_recover(&damaged).unwrap();
        assert_eq!(found.harness.things.len(), 19);
        let torn = found.report.torn.unwrap();
        assert_eq!((torn.file, torn.offset), (segment_name(last.epoch), last.offset as u64));
        assert!(torn.bytes > 0 && torn.bytes <= last.length as u64 && torn.batches == 0);
    }
    let mut damaged = image;
    damaged.get_mut(&segment_name(last.epoch)).unwrap()[last.offset] ^= 0x10;
    assert_goes_on(&damaged, 19);
}

#[test]
fn flipped_bit_in_the_header() {
    let image = closed(40);
    for epoch in [1, 2, frames(&image).last().unwrap().epoch] {
        for bit in 0..64 * 8 {
            let mut damaged = image.clone();
            damaged.get_mut(&segment_name(epoch)).unwrap()[bit / 8] ^= 1 << (bit % 8);
            assert_damaged(&damaged, epoch, 0, &format!("bit {bit} of the header"));
        }
    }
}

#[test]
fn truncated_at_every_byte() {
    let image = closed(30);
    for (name, bytes) in &image {
        let epoch = u64::from_str_radix(&name[..16], 16).unwrap();
        for length in 0..bytes.len() {
            let mut damaged = image.clone();
            damaged.get_mut(name).unwrap().truncate(length);
            let at = if length < 64 { 0 } else { length };
            assert_damaged(&damaged, epoch, at, &format!("{name} has {length} bytes"));
        }
    }
}

#[test]
fn zeros_from_every_byte_on() {
    let image = crashed(30);
    let all = frames(&image);
    let epoch = all.last().unwrap().epoch;
    let name = segment_name(epoch);
    let bytes = &image[&name];
    for from in 64..bytes.len() {
        let mut damaged = image.clone();
        damaged.get_mut(&name).unwrap()[from..].fill(0);
        let whole = all.iter().filter(|frame| {
            let frame_bytes = &damaged[&segment_name(frame.epoch)][frame.offset..];
            frame_bytes[..frame.length]
                == image[&segment_name(frame.epoch)][frame.offset..][..frame.length]
        });
        let whole = whole.count();
        assert_eq!(try_recover(&damaged).unwrap().harness.things.len(), whole, "from {from}");
    }
    // But not in an earlier segment.
    let mut damaged = image;
    let first = all.iter().rfind(|frame| frame.epoch == epoch - 1).unwrap();
    damaged.get_mut(&segment_name(epoch - 1)).unwrap()[first.offset..].fill(0);
    assert_damaged(&damaged, epoch - 1, first.offset, "zeros in the middle");
}

#[test]
fn missing_segment() {
    let image = closed(60);
    let head = frames(&image).last().unwrap().epoch;
    assert!(head >= 4 && image.len() as u64 > head, "a segment is prepared");
    for epoch in 1..=head {
        let mut damaged = image.clone();
        damaged.remove(&segment_name(epoch));
        // All that are before the next one are given up with it.
        assert_eq!(refusal(&damaged), OpenError::Missing { file: segment_name(epoch) });
    }
    let mut whole = image;
    whole.pop_last();
    assert_eq!(try_recover(&whole).unwrap().harness.things.len(), 60, "it held nothing");
}

#[test]
fn no_segment_is_left() {
    let spare = ("spare-1.seg".to_owned(), vec![7; 100]);
    for was_used in [true, false] {
        let lock = if was_used { b"used\n".to_vec() } else { Vec::new() };
        let image = Image::from([("lock".to_owned(), lock), spare.clone()]);
        if was_used {
            assert_eq!(refusal(&image), OpenError::Gone);
        } else {
            assert_eq!(try_recover(&image).unwrap().harness.things.len(), 0, "it is new");
        }
    }
}

#[test]
fn duplicated_segment() {
    let image = closed(40);
    let head = frames(&image).last().unwrap().epoch;
    for (from, to) in [(1, 2), (2, 1), (head, head + 1), (1, head + 2)] {
        let mut damaged = image.clone();
        damaged.insert(segment_name(to), image[&segment_name(from)].clone());
        assert_damaged(&damaged, to, 0, &format!("{from} stands for {to} too"));
    }
    // A name that only looks like a segment's is foreign.
    let mut other = image.clone();
    other.insert(segment_name(0xa).to_uppercase(), image[&segment_name(1)].clone());
    let found = try_recover(&other).unwrap();
    assert_eq!((found.harness.things.len(), found.report.foreign.len()), (40, 1));
}

#[test]
fn foreign_file() {
    let mut image = closed(40);
    for name in ["lost+found", "notes.txt", "1.seg", "0000000000000001.seg.bak"] {
        image.insert(name.to_owned(), b"?".to_vec());
    }
    image.insert("lock".to_owned(), Vec::new());
    let found = try_recover(&image).unwrap();
    assert_eq!(found.harness.things.len(), 40);
    let expected = ["0000000000000001.seg.bak", "1.seg", "lost+found", "notes.txt"];
    assert_eq!(found.report.foreign, expected);
}

#[test]
fn segment_of_another_directory() {
    let mut image = closed(40);
    let other = JournalOptions { salt: SALT + 1, ..always() };
    let mut simulation = Simulation::new(SimDisk::new(1), other);
    simulation.settle();
    let stray = simulation.disk.image()[&segment_name(1)].clone();
    image.insert(segment_name(2), stray);
    assert_damaged(&image, 2, 0, "another salt");
}

#[test]
fn zero_length_file() {
    let image = closed(40);
    for name in image.keys() {
        let mut damaged = image.clone();
        damaged.insert(name.clone(), Vec::new());
        let epoch = u64::from_str_radix(&name[..16], 16).unwrap();
        assert_damaged(&damaged, epoch, 0, "it is empty");
    }
    // A spare means nothing, whatever is in it.
    let mut image = image;
    image.insert("spare-4294967295.seg".to_owned(), Vec::new());
    let mut disk = SimDisk::of(image);
    assert_eq!(recover_into(&mut disk, &always()).unwrap().harness.things.len(), 40);
    assert!(!disk.image().keys().any(|name| name.starts_with("spare")), "it is cleared away");
}

#[test]
fn stale_bytes_of_a_recycled_segment() {
    let mut simulation = Simulation::new(SimDisk::new(1), always());
    let mut rng = TestRng::new(1);
    let mut recycled = 0;
    for round in 0..400 {
        simulation.put(round, 150);
        if let Some(id) = simulation.harness.pick(&mut rng)
            && simulation.harness.things.len() > 5
        {
            simulation.delete(id);
        }
        simulation.settle();
        let image = simulation.disk.image();
        let last = *frames(&image).last().unwrap();
        let rest = &image[&segment_name(last.epoch)][last.offset + last.length..];
        if rest.len() < 100 || rest.iter().all(|&byte| byte == 0) {
            continue;
        }
        // Behind the last batch stand batches of the segment's former life.
        recycled += 1;
        let found = try_recover(&image).unwrap();
        assert_eq!(found.harness.values(), simulation.harness.values());
        assert_eq!(found.report.torn, None);
        // Even if they follow at once, they do not count.
        let mut damaged = image;
        let bytes = damaged.get_mut(&segment_name(last.epoch)).unwrap();
        let at = last.offset + last.length;
        let stale = (at..bytes.len() - 48).step_by(8).find(|&at| {
            let length = (number(bytes, at) & 0xffff_ffff) as usize;
            (48..600).contains(&length) && number(bytes, at + 8) + 200 > last.sequence
        });
        if let Some(stale) = stale {
            bytes.copy_within(stale.., at);
            let found = try_recover(&damaged).unwrap();
            assert_eq!(found.harness.values(), simulation.harness.values());
        }
    }
    assert!(recycled > 50, "only {recycled} times");
}

#[test]
fn newer_format() {
    let mut image = closed(10);
    let bytes = image.get_mut(&segment_name(1)).unwrap();
    bytes[8] = 2;
    let sum = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&sum.to_le_bytes());
    let refused = refusal(&image);
    assert_eq!(refused, OpenError::Newer { file: segment_name(1), format: 2 });
    let sentence = refused.to_string();
    assert!(sentence.contains("format 2") && sentence.contains("formats up to 1"), "{sentence}");
}

#[test]
fn payload_that_looks_like_a_batch() {
    // A copy of a later batch of the same segment, made with another salt.
    let other = JournalOptions { salt: SALT + 1, ..always() };
    let mut forger = Simulation::new(SimDisk::new(1), other);
    for _ in 0..9 {
        forger.put(7, 100);
        forger.settle();
    }
    let image = forger.disk.image();
    let last = *frames(&image).last().unwrap();
    assert_eq!((last.epoch, last.sequence), (1, 9));
    let fake = &image[&segment_name(1)][last.offset..last.offset + last.length];

    let disk = SimDisk::new(1);
    let mut files = disk.clone();
    let mut keep = |_: &[u8], _| Ok(RecordRole::None);
    let recovered = recover(&mut files, &always(), &mut keep, &mut |_| {}).unwrap().0;
    let mut journal = recovered.start(Box::new(disk.clone()), Now::default());
    journal.append(None, b"the first");
    for commit in 0..2 {
        if commit == 1 {
            // At any alignment.
            journal.append(None, &fake.iter().copied().cycle().take(800).collect::<Vec<_>>());
            for shift in 1..8 {
                let mut record = vec![0; shift];
                record.extend(fake);
                journal.append(None, &record);
            }
        }
        for _ in 0..3 {
            journal.commit(Now::default());
            disk.work(usize::MAX);
            journal.poll(Now::default());
        }
    }
    let mut image = disk.image();
    let second = frames(&image)[1];
    image.get_mut(&segment_name(1)).unwrap()[second.offset + 8] ^= 1;
    let mut count = 0;
    let mut each = |record: &[u8], _| {
        assert_eq!(record, b"the first");
        count += 1;
        Ok(())
    };
    let report = read(&mut SimDisk::of(image), &mut each, &mut |_| {}).unwrap();
    assert_eq!((count, report.torn.unwrap().batches), (1, 0));
}

#[test]
fn unknown_record() {
    let image = closed(10);
    let mut left = 4;
    let mut each = |_: &[u8], _| {
        left -= 1;
        if left == 0 { Err("who is that?".to_owned()) } else { Ok(RecordRole::None) }
    };
    let mut disk = SimDisk::of(image.clone());
    let refused = recover(&mut disk, &always(), &mut each, &mut |_| {}).map(|_| ()).unwrap_err();
    let at = frames(&image)[3].offset as u64;
    let what = "who is that?".to_owned();
    assert_eq!(refused, OpenError::Record { file: segment_name(1), offset: at, what });
}

/// A journal that never syncs: a batch in the middle is damaged, those behind it are whole.
pub(super) fn unsynced(count: usize, damaged: usize) -> Image {
    let mut simulation = Simulation::new(SimDisk::new(1), options(SyncMode::Never, SEGMENT));
    for _ in 0..count {
        simulation.put(7, 100);
        simulation.pass(usize::MAX);
        simulation.pass(usize::MAX);
    }
    let mut image = simulation.disk.image();
    let frame = frames(&image)[damaged];
    image.get_mut(&segment_name(frame.epoch)).unwrap()[frame.offset + 60] ^= 1;
    image
}

#[test]
fn damage_beyond_the_durable_end_is_a_torn_tail() {
    for (count, damaged) in [(15, 0), (15, 8), (15, 14), (35, 30)] {
        let image = unsynced(count, damaged);
        let found = try_recover(&image).unwrap();
        assert_eq!(found.harness.things.len(), damaged);
        let torn = found.report.torn.unwrap();
        assert_eq!(torn.batches, (count - damaged - 1) as u64);
        assert_goes_on(&image, damaged);
    }
}

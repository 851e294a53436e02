//! Salvage of damaged directories.

use super::damage::{Image, SEGMENT, always, closed, crashed, frames, try_recover, unsynced};
use super::disk::{SimDisk, segment_name};
use super::harness::{Harness, put_record};
use super::simulation::{Simulation, recover_into};
use jobcentre::base::time::Now;
use jobcentre::journal::disk::{DiskError, FileEntry, Files};
use jobcentre::journal::{SalvageReport, salvage};

/// Salvages a damaged image. Gives what came of it, and what a recovery finds in the copy.
fn salvaged(image: &Image) -> (SalvageReport, Harness) {
    let mut copy = SimDisk::new(1);
    let salvaged = salvage(&mut SimDisk::of(image.clone()), &mut copy, SEGMENT).unwrap();
    let found = recover_into(&mut copy, &always()).unwrap();
    assert_eq!(found.report.torn, None);
    assert_eq!(found.report.batches, salvaged.batches);
    (salvaged, found.harness)
}

#[test]
fn salvage_of_an_undamaged_directory_is_a_copy() {
    for image in [closed(60), crashed(33), crashed(0)] {
        let (report, harness) = salvaged(&image);
        assert_eq!(harness.values(), try_recover(&image).unwrap().harness.values());
        assert!(report.skipped.is_empty() && report.missing.is_empty());
        assert!(report.suspicious.is_empty() && report.superseded == 0);
        assert_eq!(report.lost_batches, 0);
    }
}

#[test]
fn salvage_skips_only_damaged_batches() {
    let image = closed(60);
    let all = frames(&image);
    for at in [0, 7, 30, 50] {
        let mut damaged = image.clone();
        let bytes = damaged.get_mut(&segment_name(all[at].epoch)).unwrap();
        bytes[all[at].offset + 60] ^= 4;
        let (report, harness) = salvaged(&damaged);
        assert_eq!(harness.things.len(), 59);
        assert!(!harness.things.contains_key(&(at as u64 + 1)) && harness.last_id == 60);
        let skipped = &report.skipped[0];
        assert_eq!((skipped.offset, skipped.bytes), (all[at].offset as u64, all[at].length as u64));
        assert_eq!(report.lost_batches, 1);
    }
    // Without a header.
    let mut damaged = image.clone();
    damaged.get_mut(&segment_name(2)).unwrap()[..64].fill(0xff);
    let (report, harness) = salvaged(&damaged);
    assert_eq!((harness.things.len(), report.lost_batches), (60, 0));
    assert_eq!((&report.suspicious[0].file, report.skipped.len()), (&segment_name(2), 0));
    // Without a segment.
    let mut damaged = image;
    damaged.remove(&segment_name(2));
    let (report, harness) = salvaged(&damaged);
    let gone = all.iter().filter(|frame| frame.epoch == 2).count();
    assert_eq!((harness.things.len(), report.lost_batches), (60 - gone, gone as u64));
    assert_eq!(report.missing, [segment_name(2)]);
}

#[test]
fn salvage_into_a_directory_with_a_journal_is_rejected() {
    let mut full = SimDisk::of(closed(3));
    let before = full.image();
    let refused = salvage(&mut SimDisk::of(closed(2)), &mut full, SEGMENT).unwrap_err();
    assert!(refused.to_string().contains("empty directory"), "{refused}");
    assert_eq!(full.image(), before);
}

#[test]
fn salvage_skips_batches_that_a_recovery_cut_off() {
    let mut disk = SimDisk::of(unsynced(15, 8));
    let found = recover_into(&mut disk, &always()).unwrap();
    let mut journal = found.recovered.start(Box::new(disk.clone()), Now::default());
    for id in 100..104 {
        journal.append(Some(u32::try_from(id).unwrap()), &put_record(id, 1, 50));
        for _ in 0..3 {
            journal.commit(Now::default());
            disk.work(usize::MAX);
            journal.poll(Now::default());
        }
    }
    let image = disk.image();
    let (report, harness) = salvaged(&image);
    assert_eq!(harness.values(), try_recover(&image).unwrap().harness.values());
    assert_eq!((harness.things.len(), report.lost_batches), (12, 0));
}

fn one_segment() -> Image {
    let mut image = closed(12);
    image.retain(|name, _| *name == segment_name(1));
    assert_eq!(frames(&image).last().unwrap().sequence, 13);
    image
}

#[test]
fn flipped_bit_in_the_header_of_the_only_segment_costs_no_batch() {
    let image = one_segment();
    let whole = try_recover(&image).unwrap().harness.values();
    for bit in 0..64 * 8 {
        let mut damaged = image.clone();
        damaged.get_mut(&segment_name(1)).unwrap()[bit / 8] ^= 1 << (bit % 8);
        let (report, harness) = salvaged(&damaged);
        assert_eq!(harness.values(), whole, "bit {bit}");
        assert_eq!((report.lost_batches, report.suspicious.len()), (0, 1), "bit {bit}");
    }
}

#[test]
fn lost_header_and_first_batches_cost_only_these_batches() {
    for (file, kept) in [(segment_name(1), true), ("renamed".to_owned(), false)] {
        let image = one_segment();
        let all = frames(&image);
        let mut bytes = image[&segment_name(1)].clone();
        let cut = 700;
        bytes[..cut].fill(0xaa);
        let left = all.iter().filter(|frame| frame.offset >= cut).count();
        let (report, harness) = salvaged(&Image::from([(file, bytes)]));
        // The last one is close_notify.
        assert_eq!((harness.things.len(), report.batches), (left - 1, left as u64));
        assert!(!kept || report.lost_batches == (all.len() - left) as u64, "{report:?}");
    }
}

#[test]
fn renamed_segments_are_identified_by_their_headers() {
    let image = closed(60);
    let whole = try_recover(&image).unwrap().harness.values();
    // All of them, in a circle, and to names that no segment has.
    let names: Vec<&String> = image.keys().collect();
    let turned = |number: usize| names[(number + 1) % names.len()].clone();
    let circle: Image =
        image.values().enumerate().map(|(number, bytes)| (turned(number), bytes.clone())).collect();
    let others: Image =
        image.iter().map(|(name, bytes)| (format!("{name}.old"), bytes.clone())).collect();
    for damaged in [circle, others] {
        let (report, harness) = salvaged(&damaged);
        assert_eq!(harness.values(), whole);
        assert_eq!((report.lost_batches, report.skipped.len()), (0, 0), "{report:?}");
        assert!(report.missing.is_empty() && !report.suspicious.is_empty());
    }
    // One more copy changes nothing.
    let mut twice = image.clone();
    twice.insert("copy".to_owned(), image[&segment_name(2)].clone());
    assert_eq!(salvaged(&twice).1.values(), whole);
}

#[test]
fn segments_without_headers_keep_their_order_under_wrong_names() {
    let image = closed(60);
    let whole = try_recover(&image).unwrap().harness.values();
    let count = image.keys().filter(|name| !name.starts_with("spare")).count() as u64;
    assert!(count >= 4);
    let shifted: [fn(u64, u64) -> String; 4] = [
        |epoch, _| segment_name(epoch + 1),
        |epoch, count| segment_name(epoch % count + 1),
        |epoch, count| segment_name(40 + count - epoch),
        |epoch, _| format!("x{epoch}"),
    ];
    for rename in shifted {
        let mut damaged = Image::new();
        for epoch in 1..=count {
            let mut bytes = image[&segment_name(epoch)].clone();
            bytes[..64].fill(0xff);
            damaged.insert(rename(epoch, count), bytes);
        }
        let (report, harness) = salvaged(&damaged);
        assert_eq!(harness.values(), whole, "{report:?}");
        assert_eq!((report.lost_batches, report.superseded), (0, 0), "{report:?}");
    }
}

#[test]
fn misplaced_blocks_cost_only_the_batches_that_they_cut() {
    const BLOCK: usize = 512;
    let image = closed(60);
    let all = frames(&image);
    for (one, other) in [((1, 2), (3, 5)), ((1, 1), (1, 6)), ((2, 0), (3, 0))] {
        let mut damaged = image.clone();
        let block = |(epoch, number): (u64, usize)| {
            (segment_name(epoch), number * BLOCK..(number + 1) * BLOCK)
        };
        let [(a, at_a), (b, at_b)] = [block(one), block(other)];
        let (first, second) = (image[&a][at_a.clone()].to_vec(), image[&b][at_b.clone()].to_vec());
        damaged.get_mut(&a).unwrap()[at_a.clone()].copy_from_slice(&second);
        damaged.get_mut(&b).unwrap()[at_b.clone()].copy_from_slice(&first);
        let is_cut = |epoch: u64, offset: usize, length: usize| {
            [(&a, &at_a), (&b, &at_b)].iter().any(|(name, range)| {
                let inside = |at: usize| range.contains(&at);
                **name == segment_name(epoch)
                    && (offset..offset + length).any(inside)
                    && !(inside(offset) && inside(offset + length - 1))
            })
        };
        let cut = all.iter().filter(|frame| is_cut(frame.epoch, frame.offset, frame.length));
        let cut = cut.count();
        let (report, harness) = salvaged(&damaged);
        assert!(cut > 0 && cut < 6);
        assert_eq!(
            (60 - harness.things.len(), report.lost_batches),
            (cut, cut as u64),
            "{report:?}"
        );
    }
}

/// A disk on which some blocks of segments cannot be read.
struct BadBlocks(SimDisk, Vec<(String, u64)>);

impl Files for BadBlocks {
    fn list(&mut self) -> Result<Vec<FileEntry>, DiskError> {
        self.0.list()
    }

    fn read(&mut self, name: &str, offset: u64, out: &mut [u8]) -> Result<usize, DiskError> {
        let bad = |(file, at): &(String, u64)| {
            file == name && *at < offset + out.len() as u64 && offset < at + 4096
        };
        if self.1.iter().any(bad) {
            let (file, error) = (name.to_owned(), "Input/output error".to_owned());
            return Err(DiskError { operation: "read", file, error });
        }
        self.0.read(name, offset, out)
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.0.remove(name)
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        self.0.create(name, bytes)
    }
}

#[test]
fn unreadable_block_costs_only_its_batches() {
    let large = jobcentre::journal::JournalOptions { segment_bytes: 64 * 1024, ..always() };
    let mut simulation = Simulation::new(SimDisk::new(1), large);
    for _ in 0..300 {
        simulation.put(7, 180);
        simulation.pass(usize::MAX);
        simulation.pass(usize::MAX);
    }
    let image = simulation.disk.image();
    let all = frames(&image);
    // The first block has the header.
    for bad in [vec![8192], vec![0], vec![0, 4096, 20_480]] {
        let hit = |offset: usize, length: usize| {
            let (from, to) = (offset as u64, (offset + length) as u64);
            bad.iter().any(|&at| from < at + 4096 && at < to)
        };
        let lost = all.iter().filter(|frame| frame.epoch == 1 && hit(frame.offset, frame.length));
        let lost = lost.count();
        let blocks = bad.iter().map(|&at| (segment_name(1), at)).collect();
        let mut copy = SimDisk::new(1);
        let mut from = BadBlocks(SimDisk::of(image.clone()), blocks);
        let report = salvage(&mut from, &mut copy, SEGMENT).unwrap();
        assert_eq!((report.batches, report.lost_batches), ((300 - lost) as u64, lost as u64));
        let unread = report.skipped.iter().filter(|part| part.what.contains("cannot read"));
        assert!(unread.clone().all(|part| part.offset % 4096 == 0 && part.bytes % 4096 == 0));
        assert_eq!(unread.map(|part| part.bytes).sum::<u64>(), 4096 * bad.len() as u64);
    }
}

//! What salvage makes of damaged directories.

use super::damage::{Image, SEGMENT, always, closed, crashed, frames, try_recover, unsynced};
use super::disk::{SimDisk, segment_name};
use super::shop::{Shop, put_record};
use super::world::recover_into;
use jobcentre::base::time::Now;
use jobcentre::journal::{Salvaged, salvage};

/// Salvages a damaged image. Gives what came of it, and what a recovery finds in the copy.
fn salvaged(image: &Image) -> (Salvaged, Shop) {
    let mut copy = SimDisk::new(1);
    let salvaged = salvage(&mut SimDisk::of(image.clone()), &mut copy, SEGMENT).unwrap();
    let found = recover_into(&mut copy, &always()).unwrap();
    assert_eq!(found.report.torn, None);
    assert_eq!(found.report.batches, salvaged.batches);
    (salvaged, found.shop)
}

#[test]
fn salvage_of_what_is_not_damaged_is_a_copy() {
    for image in [closed(60), crashed(33), crashed(0)] {
        let (report, shop) = salvaged(&image);
        assert_eq!(shop.values(), try_recover(&image).unwrap().shop.values());
        assert!(report.skipped.is_empty() && report.missing.is_empty());
        assert_eq!(report.lost_batches, 0);
    }
}

#[test]
fn salvage_takes_everything_but_what_is_damaged() {
    let image = closed(60);
    let all = frames(&image);
    for at in [0, 7, 30, 50] {
        let mut damaged = image.clone();
        let bytes = damaged.get_mut(&segment_name(all[at].epoch)).unwrap();
        bytes[all[at].offset + 60] ^= 4;
        let (report, shop) = salvaged(&damaged);
        assert_eq!(shop.things.len(), 59);
        assert!(!shop.things.contains_key(&(at as u64 + 1)) && shop.last_id == 60);
        let skipped = &report.skipped[0];
        assert_eq!((skipped.offset, skipped.bytes), (all[at].offset as u64, all[at].length as u64));
        assert_eq!(report.lost_batches, u64::from(at > 0), "nothing tells of what came first");
    }
    // Without a header.
    let mut damaged = image.clone();
    damaged.get_mut(&segment_name(2)).unwrap()[..64].fill(0xff);
    let (report, shop) = salvaged(&damaged);
    assert_eq!((shop.things.len(), report.lost_batches), (60, 0));
    assert_eq!(report.skipped[0].file, segment_name(2));
    // Without a segment.
    let mut damaged = image;
    damaged.remove(&segment_name(2));
    let (report, shop) = salvaged(&damaged);
    let gone = all.iter().filter(|frame| frame.epoch == 2).count();
    assert_eq!((shop.things.len(), report.lost_batches), (60 - gone, gone as u64));
    assert_eq!(report.missing, [segment_name(2)]);
}

#[test]
fn salvage_refuses_a_directory_with_a_journal() {
    let mut full = SimDisk::of(closed(3));
    let before = full.image();
    let refused = salvage(&mut SimDisk::of(closed(2)), &mut full, SEGMENT).unwrap_err();
    assert!(refused.to_string().contains("empty directory"), "{refused}");
    assert_eq!(full.image(), before);
}

#[test]
fn salvage_takes_no_batch_that_a_recovery_has_cut_off() {
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
    let (report, shop) = salvaged(&image);
    assert_eq!(shop.values(), try_recover(&image).unwrap().shop.values());
    assert_eq!((shop.things.len(), report.lost_batches), (12, 0));
}

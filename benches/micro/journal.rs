//! The journal: durable batches a second on the disk of the build directory, against a bare loop of
//! one write and one fdatasync over zeros; the cost of a record without a disk; and the speed of
//! recovery.
//!
//! `bare`, `batch` and `pipelined` take batches of the given number of records of 160 bytes, one
//! batch an iteration: "items" are records. `batch` waits for each batch, `pipelined` for the one
//! before. `append` is a round of records in batches of the given size, on a disk that does
//! nothing. `recovery` reads the given number of records from the page cache.

use crate::{ROUND, sized};
use divan::Bencher;
use divan::counter::ItemsCount;
use jobcentre::base::time::{Mono, Now};
use jobcentre::journal::disk::{Disk, DiskOp, IoCompletion, IoKind, PrefillTarget, SpaceOp};
use jobcentre::journal::limits::JOURNAL_SEGMENT_BYTES;
use jobcentre::journal::{
    BatchSeq, Journal, JournalOptions, RecordRole, Recovered, SyncMode, recover,
};
use jobcentre::reactor::disk::{Directory, FileDisk, LockMode};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions, remove_dir_all};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Thread, current, park};

const RECORD: [u8; 160] = [7; 160];
/// Bytes of the file that the bare loop writes to, round and round.
const FILE: usize = 32 << 20;
const BATCHES: [usize; 4] = [1, 16, 256, 4_096];

/// A directory that is removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("micro-journal-{name}"));
        let _ = remove_dir_all(&place);
        Self(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = remove_dir_all(&self.0);
    }
}

fn options() -> JournalOptions {
    JournalOptions { segment_bytes: JOURNAL_SEGMENT_BYTES, sync: SyncMode::Always, salt: 1 }
}

fn open(place: &Place) -> (Directory, Recovered, u64) {
    let mut directory = Directory::open(&place.0, LockMode::Exclusive).expect("a directory");
    let mut owner = 0;
    let mut each = |_: &[u8], _| {
        owner += 1;
        Ok(RecordRole::Base(owner - 1))
    };
    let (recovered, report) =
        recover(&mut directory, &options(), &mut each, &mut |_| {}).expect("a good journal");
    (directory, recovered, report.records)
}

/// A journal on the real disk. The owners of its records come round, so it does not grow.
struct Running {
    journal: Journal,
    owner: u32,
    passes: u64,
}

const OWNERS: u32 = 100_000;

impl Running {
    fn start(place: &Place) -> Self {
        let (directory, recovered, _) = open(place);
        let sleeper: Thread = current();
        let disk = FileDisk::start(directory, SyncMode::Always, Arc::new(move || sleeper.unpark()))
            .expect("threads");
        Self { journal: recovered.start(Box::new(disk), Now::default()), owner: 0, passes: 0 }
    }

    fn now(&mut self) -> Now {
        // Time only matters to compaction, and there it is the traffic that counts.
        self.passes += 1;
        Now { mono: Mono(self.passes), ..Now::default() }
    }

    fn append(&mut self, records: usize) -> BatchSeq {
        for _ in 0..records {
            self.owner = (self.owner + 1) % OWNERS;
            self.journal.append(Some(self.owner), &RECORD);
            self.journal.maybe_seal();
        }
        while let Some(owner) = self.journal.next_to_move() {
            self.journal.append(Some(owner), &RECORD);
        }
        let stamp = self.journal.next_batch();
        let now = self.now();
        self.journal.commit(now);
        stamp
    }

    fn wait_for(&mut self, stamp: BatchSeq) {
        while self.journal.durable() < stamp {
            let now = self.now();
            self.journal.poll(now);
            if self.journal.durable() < stamp {
                self.journal.commit(now);
                park();
            }
            assert!(self.journal.disk_error().is_none());
        }
    }
}

/// As many bytes as a batch of this many records has.
fn frame(records: usize) -> Vec<u8> {
    vec![1; (48 + records * (RECORD.len() + 4) + 8).next_multiple_of(8)]
}

#[divan::bench(args = BATCHES, sample_size = 1, sample_count = 500)]
fn bare(bencher: Bencher, records: usize) {
    let place = Place::new("bare");
    std::fs::create_dir_all(&place.0).expect("a directory");
    let path = place.0.join("file");
    let file: File =
        OpenOptions::new().create_new(true).write(true).open(path).expect("a new file");
    let frame = frame(records);
    let size = sized(FILE).max(2 * frame.len());
    file.write_all_at(&vec![0; size], 0).expect("zeros");
    file.sync_all().expect("durable zeros");
    let mut at = 0;
    bencher.counter(ItemsCount::new(records)).bench_local(|| {
        if at + frame.len() > size {
            at = 0;
        }
        file.write_all_at(&frame, at as u64).expect("a write");
        file.sync_data().expect("a sync");
        at += frame.len();
    });
}

#[divan::bench(args = BATCHES, sample_size = 1, sample_count = 500)]
fn batch(bencher: Bencher, records: usize) {
    let place = Place::new("batch");
    let mut running = Running::start(&place);
    bencher.counter(ItemsCount::new(records)).bench_local(|| {
        let stamp = running.append(records);
        running.wait_for(stamp);
    });
}

#[divan::bench(args = BATCHES, sample_size = 1, sample_count = 500)]
fn pipelined(bencher: Bencher, records: usize) {
    let place = Place::new("pipelined");
    let mut running = Running::start(&place);
    let mut before = 0;
    bencher.counter(ItemsCount::new(records)).bench_local(|| {
        let stamp = running.append(records);
        running.wait_for(before);
        before = stamp;
    });
}

/// Does nothing, at once.
#[derive(Default)]
struct Nothing(VecDeque<IoCompletion>);

impl Disk for Nothing {
    fn set_prefill_target(&mut self, _: u64, _: PrefillTarget) {}

    fn submit(&mut self, op: DiskOp) {
        let (kind, buffer) = match op {
            DiskOp::Write { bytes, .. } => (IoKind::Written, bytes),
            DiskOp::Sync { .. } => (IoKind::Synced, Vec::new()),
        };
        self.0.push_back(IoCompletion { kind, result: Ok(()), buffer, sync_ns: 0 });
    }

    fn submit_space(&mut self, _: SpaceOp) {
        let (kind, buffer) = (IoKind::Space, Vec::new());
        self.0.push_back(IoCompletion { kind, result: Ok(()), buffer, sync_ns: 0 });
    }

    fn poll(&mut self) -> Option<IoCompletion> {
        self.0.pop_front()
    }
}

#[divan::bench(args = [1, 16, 256])]
fn append(bencher: Bencher, records: usize) {
    let place = Place::new("append");
    let (_, recovered, _) = open(&place);
    let journal = recovered.start(Box::new(Nothing::default()), Now::default());
    let mut running = Running { journal, owner: 0, passes: 0 };
    bencher.bench_local(|| {
        for _ in 0..(ROUND / records).max(1) {
            let stamp = running.append(records);
            let now = running.now();
            running.journal.poll(now);
            assert!(running.journal.durable() + 2 >= stamp);
        }
    });
}

#[divan::bench(args = [1_000_000], sample_size = 1, sample_count = 5)]
fn recovery(bencher: Bencher, records: usize) {
    let place = Place::new("recovery");
    let records = sized(records);
    let mut running = Running::start(&place);
    for owner in 0..u32::try_from(records).expect("a small number") {
        let stamp = running.journal.append(Some(owner), &RECORD);
        if owner % 1_000 == 999 || owner as usize + 1 == records {
            running.append(0);
            running.wait_for(stamp);
        }
    }
    drop(running);
    bencher.counter(ItemsCount::new(records)).bench_local(|| {
        let (_, recovered, found) = open(&place);
        assert!(found >= records as u64);
        recovered
    });
}

//! A journal, its owners, and its simulated disk, with a list of everything that was appended, with
//! which recovery after a crash is compared.

use super::copies::Copy;
use super::disk::{End, SYNC_NS, SimDisk};
use super::harness::{Harness, delete_record, put_record, set_record};
use crate::rng::TestRng;
use jobcentre::base::time::Now;
use jobcentre::journal::disk::{DiskError, FileEntry, Files};
use jobcentre::journal::{
    Journal, JournalOptions, OpenError, RecordLocation, RecordRole, Recovered, RecoveryReport,
    SyncMode, recover,
};
use std::collections::BTreeMap;

pub(crate) const SALT: u64 = 0x5a17;

pub(crate) fn options(sync: SyncMode, segment_bytes: u64) -> JournalOptions {
    JournalOptions { segment_bytes, sync, salt: SALT }
}

/// What recovery handed over.
pub(crate) struct Found {
    pub(crate) recovered: Recovered,
    pub(crate) report: RecoveryReport,
    pub(crate) harness: Harness,
    /// The records by batch.
    pub(crate) batches: BTreeMap<u64, Vec<Vec<u8>>>,
}

/// Recovers into a new harness.
pub(crate) fn recover_into(
    files: &mut dyn Files,
    options: &JournalOptions,
) -> Result<Found, OpenError> {
    let (mut harness, mut batches) = (Harness::default(), BTreeMap::<u64, Vec<Vec<u8>>>::new());
    let mut each = |record: &[u8], origin: RecordLocation| -> Result<RecordRole, String> {
        batches.entry(origin.sequence).or_default().push(record.to_vec());
        harness.apply(record)
    };
    let mut last_progress = 0;
    let mut progress = |progress: jobcentre::journal::RecoveryProgress| {
        assert!(
            last_progress <= progress.read_bytes && progress.read_bytes <= progress.total_bytes
        );
        last_progress = progress.read_bytes;
    };
    let (recovered, report) = recover(files, options, &mut each, &mut progress)?;
    assert_eq!(report.records, batches.values().map(Vec::len).sum::<usize>() as u64);
    Ok(Found { recovered, report, harness, batches })
}

/// Number of removals after which removing fails.
struct FailingRemoval<'a> {
    files: &'a mut SimDisk,
    left: usize,
}

impl Files for FailingRemoval<'_> {
    fn list(&mut self) -> Result<Vec<FileEntry>, DiskError> {
        self.files.list()
    }

    fn read(&mut self, name: &str, offset: u64, out: &mut [u8]) -> Result<usize, DiskError> {
        self.files.read(name, offset, out)
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        let failed =
            || DiskError { operation: "remove", file: name.to_owned(), error: "killed".to_owned() };
        self.left = self.left.checked_sub(1).ok_or_else(failed)?;
        self.files.remove(name)
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        self.files.create(name, bytes)
    }
}

/// Everything.
pub(crate) struct Simulation {
    pub(crate) disk: SimDisk,
    pub(crate) options: JournalOptions,
    pub(crate) journal: Journal,
    pub(crate) harness: Harness,
    pub(crate) now: Now,
    /// The records by batch, from the beginning; what was cut off is no more in it.
    log: BTreeMap<u64, Vec<Vec<u8>>>,
    /// The last batch that was acknowledged.
    pub(crate) acknowledged: u64,
    passes: u64,
    /// A copy that is being made.
    pub(crate) copy: Option<Copy>,
    /// What was worth seeing.
    pub(crate) seen: BTreeMap<&'static str, u64>,
}

impl Simulation {
    /// A journal in an empty directory.
    pub(crate) fn new(disk: SimDisk, options: JournalOptions) -> Self {
        let now = Now::default();
        let mut files = disk.clone();
        let found = recover_into(&mut files, &options).unwrap();
        assert_eq!(found.report, RecoveryReport::default(), "an empty directory holds nothing");
        Self {
            journal: found.recovered.start(Box::new(disk.clone()), now),
            disk,
            options,
            harness: Harness::default(),
            now,
            log: BTreeMap::new(),
            acknowledged: 0,
            passes: 0,
            copy: None,
            seen: BTreeMap::new(),
        }
    }

    pub(crate) fn see(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// All records of the batches up to this one.
    pub(crate) fn records_up_to(&self, last: u64) -> impl Iterator<Item = &Vec<u8>> {
        self.log.range(..=last).flat_map(|(_, records)| records)
    }

    /// Does and appends what a record says.
    pub(crate) fn append(&mut self, record: Vec<u8>) -> u64 {
        self.journal.maybe_seal();
        self.journal.raise_high_id(self.harness.last_id);
        let stamp = match self.harness.apply(&record).unwrap() {
            RecordRole::Base(slot) => self.journal.append(Some(slot), &record),
            RecordRole::Delete(slot) => {
                self.journal.mark_dead(slot);
                self.journal.append(None, &record)
            }
            RecordRole::None => self.journal.append(None, &record),
        };
        self.log.entry(stamp).or_default().push(record);
        stamp
    }

    /// False if the disk is too full for it.
    pub(crate) fn put(&mut self, value: u64, size: usize) -> bool {
        if !self.journal.has_capacity(size + 17) {
            self.see("a put was refused: the disk is full");
            return false;
        }
        let id = self.harness.new_id();
        self.append(put_record(id, value, size));
        true
    }

    pub(crate) fn set(&mut self, id: u64, value: u64) {
        self.append(set_record(id, value));
    }

    pub(crate) fn delete(&mut self, id: u64) {
        self.append(delete_record(id));
    }

    /// Appends again what compaction has to move.
    pub(crate) fn move_on(&mut self) {
        while let Some(owner) = self.journal.next_to_move() {
            let id = self.harness.id_of(owner);
            let thing = &self.harness.things[&id];
            let record = put_record(id, thing.value, thing.size);
            self.append(record);
            self.see("a record moved");
        }
    }

    /// The end of a pass, and the beginning of the next.
    pub(crate) fn pass(&mut self, work: usize) {
        self.move_on();
        self.journal.commit(self.now);
        // A batch that waits for more asks for another pass at once.
        let holds = self.journal.poll_timeout().is_some_and(|at| at <= self.now.mono);
        let pending = self.journal.stats().pending_bytes > 0;
        let is_held_up = pending && !holds && self.journal.disk_error().is_none();
        assert!(
            !is_held_up || !self.disk.prepares_idly(),
            "batches wait for a segment of no haste"
        );
        let knows = self.disk.has_target() || self.journal.disk_error().is_some();
        assert!(knows, "the journal does not say how soon it needs a segment");
        self.disk.work(work);
        self.journal.poll(self.now);
        self.passes += 1;
        if self.harness.things.len() < 100 || self.passes.is_multiple_of(16) {
            self.journal.check_invariants();
        }
        let durable = self.journal.durable();
        assert!(durable >= self.acknowledged, "an acknowledgement was taken back");
        self.acknowledged = durable;
    }

    /// Lets `nanos` pass.
    pub(crate) fn wait(&mut self, nanos: u64) {
        self.now.mono.0 += nanos;
    }

    /// Makes passes, at the times that the journal asks for, until nothing is under way and
    /// compaction has caught up.
    pub(crate) fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 5_000, "the journal does not come to rest: {:?}", self.journal.stats());
            let operations = self.disk.platter.lock().unwrap().operations;
            self.pass(usize::MAX);
            if self.journal.disk_error().is_some() {
                return;
            }
            let moved = self.disk.platter.lock().unwrap().operations != operations;
            match self.journal.poll_timeout() {
                None if !moved && self.acknowledged + 1 == self.journal.next_batch() => break,
                Some(at) if !moved => self.now.mono = self.now.mono.max(at),
                _ => {}
            }
        }
    }

    /// What the journal says about itself is what is there.
    pub(crate) fn compare_sizes(&self) {
        if self.journal.disk_error().is_some() {
            return;
        }
        let status = self.journal.stats();
        let live: usize = self.harness.things.values().map(|thing| thing.size + 17 + 4).sum();
        assert_eq!(status.live_bytes, live as u64);
        assert_eq!(status.record_keys, self.harness.things.len() as u64);
        assert_eq!(status.sync_ns, status.syncs * SYNC_NS);
        assert_eq!(status.sync_histogram.iter().sum::<u64>(), status.syncs);
    }

    /// The process or the machine dies. Recovers, compares and goes on.
    pub(crate) fn crash(&mut self, end: End, rng: &mut TestRng) {
        let last = self.journal.next_batch() - 1;
        let mut promised = self.acknowledged;
        if end == End::PowerCut && self.options.sync != SyncMode::Always {
            promised = promised.min(self.disk.safe(last));
        }
        // It ends with the process.
        self.copy = None;
        self.disk.end(end);
        let mut files = self.disk.clone();
        if rng.percent(30) {
            let left = rng.below(3);
            let mut stubborn = FailingRemoval { files: &mut files, left };
            if let Err(refused) = recover_into(&mut stubborn, &self.options) {
                assert!(matches!(refused, OpenError::Disk(_)), "{refused}");
                self.see("recovery was killed");
            }
        }
        let found = recover_into(&mut files, &self.options).unwrap_or_else(|refused| {
            panic!("recovery is refused after {end:?} (promised {promised}): {refused}")
        });
        self.compare(found, promised);
    }

    /// Compares what was found, of which batches up to `promised` must be there, with the log; and
    /// goes on.
    fn compare(&mut self, found: Found, promised: u64) {
        let Found { recovered, report, harness, batches } = found;
        self.journal = recovered.start(Box::new(self.disk.clone()), self.now);
        let last = self.journal.next_batch() - 1;
        assert!(last >= promised, "batch {promised} was acknowledged, and {last} is the last");
        if let Some(first) = batches.keys().next() {
            let expected: BTreeMap<_, _> = self.log.range(first..=&last).collect();
            assert!(batches.iter().eq(expected), "a batch is not what was written");
        }
        let mut expected = Harness::default();
        for record in self.log.range(..=last).flat_map(|(_, records)| records) {
            expected.apply(record).unwrap();
        }
        assert_eq!(harness.values(), expected.values(), "after batch {last}");
        let highest = self.log.range(..=last).flat_map(|(_, records)| records);
        let highest = highest.map(|record| u64::from_le_bytes(record[1..9].try_into().unwrap()));
        assert!(report.high_id >= highest.max().unwrap_or_default(), "an id would be used again");
        if let Some(torn) = &report.torn {
            self.see("a tail was torn");
            if torn.batches > 0 {
                self.see("whole batches were in a torn tail");
            }
        }
        assert!(report.foreign.is_empty());
        self.disk.recovered(last);
        self.log.split_off(&(last + 1));
        self.harness = harness;
        self.harness.last_id = report.high_id;
        self.acknowledged = self.journal.durable();
        self.journal.check_invariants();
        self.compare_sizes();
    }

    /// The journal comes to its proper end.
    pub(crate) fn close(&mut self) {
        self.journal.close(self.now);
        for round in 0.. {
            if self.journal.is_closed() {
                break;
            }
            assert!(round < 5_000, "the journal does not close: {:?}", self.journal.stats());
            self.disk.work(usize::MAX);
            self.journal.poll(self.now);
        }
    }
}

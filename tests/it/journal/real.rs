//! The journal on a real disk.

use super::harness::{Harness, delete_record, put_record};
use super::simulation::{Found, options, recover_into};
use crate::rng::TestRng;
use crate::support::{TempDir, until};
use jobcentre::base::time::{Mono, Now};
use jobcentre::journal::disk::DiskError;
use jobcentre::journal::{Journal, JournalOptions, RecordRole, SyncMode, salvage};
use jobcentre::reactor::disk::{Directory, FileDisk, LockMode};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SEGMENT: u64 = 64 * 1024;

/// A data directory on a real disk: the system's temporary files may be in memory.
fn data_dir() -> TempDir {
    TempDir::in_folder(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

fn file_names(dir: &TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(dir.path()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Opens a directory that only this process uses. A process that another test starts keeps the lock
/// of an earlier opening until its program is executed.
fn open_directory(dir: &TempDir, access: LockMode) -> Result<Directory, DiskError> {
    let mut opened = None;
    until("the lock of a directory", || {
        let result = Directory::open(dir.path(), access);
        let is_locked = result.as_ref().is_err_and(|fault| fault.operation == "lock");
        opened = Some(result);
        !is_locked
    });
    opened.unwrap()
}

/// A journal that runs, and its owners.
struct Real {
    journal: Journal,
    harness: Harness,
    start: Instant,
    wakes: Arc<AtomicU64>,
}

impl Real {
    fn open(dir: &TempDir, options: &JournalOptions) -> Result<Self, DiskError> {
        let mut directory = open_directory(dir, LockMode::Exclusive)?;
        let Found { recovered, mut harness, report, .. } =
            recover_into(&mut directory, options).unwrap();
        assert_eq!(report.torn, None);
        harness.last_id = harness.last_id.max(report.high_id);
        let wakes = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&wakes);
        let wake = Arc::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let disk = FileDisk::start(directory, options.sync, wake)?;
        let journal = recovered.start(Box::new(disk), Now::default());
        Ok(Self { journal, harness, start: Instant::now(), wakes })
    }

    fn now(&self) -> Now {
        let nanos = u64::try_from(self.start.elapsed().as_nanos()).unwrap();
        Now { mono: Mono(nanos), ..Now::default() }
    }

    fn append(&mut self, record: &[u8]) -> u64 {
        self.journal.raise_high_id(self.harness.last_id);
        match self.harness.apply(record).unwrap() {
            RecordRole::Base(slot) => self.journal.append(Some(slot), record),
            RecordRole::Delete(slot) => {
                self.journal.mark_dead(slot);
                self.journal.append(None, record)
            }
            RecordRole::None => self.journal.append(None, record),
        }
    }

    fn put(&mut self, size: usize) -> u64 {
        let id = self.harness.new_id();
        self.append(&put_record(id, 1, size))
    }

    fn pass(&mut self) {
        let now = self.now();
        self.journal.poll(now);
        while let Some(owner) = self.journal.next_to_move() {
            let id = self.harness.id_of(owner);
            let thing = self.harness.things[&id].clone();
            self.append(&put_record(id, thing.value, thing.size));
        }
        self.journal.commit(now);
    }

    fn wait_for(&mut self, stamp: u64) {
        until("an acknowledgement", || {
            self.pass();
            assert_eq!(self.journal.disk_error(), None);
            self.journal.durable() >= stamp
        });
    }

    fn wait_for_fault(&mut self) -> DiskError {
        until("a fault", || {
            self.put(10);
            self.pass();
            self.journal.disk_error().is_some()
        });
        self.journal.disk_error().unwrap().clone()
    }

    fn close(&mut self) {
        self.journal.close(self.now());
        until("the end", || {
            let now = self.now();
            self.journal.poll(now);
            self.journal.is_closed()
        });
        assert_eq!(self.journal.disk_error(), None);
    }
}

const MODES: [SyncMode; 3] =
    [SyncMode::Always, SyncMode::Every(Duration::from_millis(5)), SyncMode::Never];

#[test]
fn records_survive_a_restart_and_a_kill() {
    for sync in MODES {
        let dir = data_dir();
        let mut rng = TestRng::new(1);
        let mut expected = Harness::default();
        for round in 0..6 {
            let mut real = Real::open(&dir, &options(sync, SEGMENT)).unwrap();
            assert_eq!(real.harness.values(), expected.values(), "round {round}, {sync:?}");
            assert_eq!(real.harness.last_id, expected.last_id);
            for _ in 0..60 {
                for _ in 0..rng.between(1, 20) {
                    real.put(300);
                    if let Some(id) = real.harness.pick(&mut rng)
                        && rng.percent(90)
                    {
                        real.append(&delete_record(id));
                    }
                }
                real.pass();
            }
            let stamp = real.put(20);
            real.wait_for(stamp);
            // A slow disk may still be at its first sync, and the wake-up follows the completion.
            until("a sync and a wake-up", || {
                real.pass();
                let is_synced = sync == SyncMode::Never || real.journal.stats().syncs > 0;
                is_synced && real.wakes.load(Ordering::Relaxed) > 0
            });
            let status = real.journal.stats();
            assert_eq!(status.sync_ns > 0, status.syncs > 0, "a sync takes time");
            assert!((status.sync_max_ns..=status.sync_ns).contains(&status.sync_max_ns));
            if round % 2 == 0 {
                real.close();
            }
            // Otherwise as if the process had been killed.
            expected = real.harness;
        }
        // A slow disk may have kept compaction behind: it goes on with what clients append.
        let mut real = Real::open(&dir, &options(sync, SEGMENT)).unwrap();
        until("compaction", || {
            let id = real.harness.new_id();
            real.append(&put_record(id, 1, 300));
            real.append(&delete_record(id));
            real.pass();
            file_names(&dir).len() < 12
        });
    }
}

#[test]
fn sync_timer_fires_without_traffic() {
    let dir = data_dir();
    let sync = SyncMode::Every(Duration::from_millis(5));
    let mut real = Real::open(&dir, &options(sync, SEGMENT)).unwrap();
    let stamp = real.put(100);
    real.wait_for(stamp);
    let before = real.journal.stats().synced_records;
    assert!(before <= 1);
    until("a sync", || {
        let due = real.journal.poll_timeout().is_some_and(|at| at <= real.now().mono);
        if due || real.wakes.swap(0, Ordering::Relaxed) > 0 {
            real.pass();
        }
        real.journal.stats().synced_records == 1
    });
}

#[test]
fn batches_appended_during_a_sync_share_the_next_one() {
    let dir = data_dir();
    let mut real = Real::open(&dir, &options(SyncMode::Always, SEGMENT)).unwrap();
    until("batches that share a sync", || {
        for _ in 0..5 {
            real.put(100);
            real.pass();
        }
        let status = real.journal.stats();
        assert!(status.syncs <= status.batches && status.synced_records == status.records);
        status.syncs < status.batches
    });
    let stamp = real.put(100);
    real.wait_for(stamp);
    let status = real.journal.stats();
    assert_eq!(status.synced_records, real.harness.last_id);
}

#[test]
fn second_lock_of_a_directory_fails() {
    let dir = data_dir();
    let real = Real::open(&dir, &options(SyncMode::Always, SEGMENT)).unwrap();
    for access in [LockMode::Exclusive, LockMode::ReadOnly] {
        let fault = Directory::open(dir.path(), access).unwrap_err();
        assert_eq!(fault.operation, "lock");
        let words = fault.to_string();
        assert!(words.contains("another process uses this directory"), "{words}");
        let pid = format!("process {} (", std::process::id());
        assert!(words.contains(&pid) || words.contains("fuser -v"), "{words}");
    }
    drop(real);
    let first = open_directory(&dir, LockMode::ReadOnly).unwrap();
    let second = Directory::open(dir.path(), LockMode::ReadOnly).unwrap();
    assert!(Directory::open(dir.path(), LockMode::Exclusive).is_err(), "it is open for reading");
    drop((first, second));
    open_directory(&dir, LockMode::Exclusive).unwrap();
}

#[test]
fn read_only_open_creates_no_file() {
    let dir = data_dir();
    assert!(Directory::open(dir.path(), LockMode::ReadOnly).is_err(), "there is nothing");
    assert!(!dir.path().exists());
    std::fs::create_dir_all(dir.path()).unwrap();
    Directory::open(dir.path(), LockMode::ReadOnly).unwrap();
    assert_eq!(file_names(&dir), Vec::<String>::new());
}

#[test]
fn unwritable_directory_is_rejected() {
    use std::os::unix::fs::PermissionsExt;
    let dir = data_dir();
    std::fs::create_dir_all(dir.path()).unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o500)).unwrap();
    let opened = Directory::open(dir.path(), LockMode::Exclusive);
    if std::fs::write(dir.path().join("probe"), "").is_err() {
        let fault = opened.unwrap_err();
        assert!(fault.file.ends_with("/lock") && fault.operation == "open", "{fault}");
    }
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    // One in which not even root can make a file, one that cannot be made, and one that is a file.
    assert_eq!(
        Directory::open(Path::new("/proc/self"), LockMode::Exclusive).unwrap_err().operation,
        "open"
    );
    let fault = Directory::open(Path::new("/proc/nothing/here"), LockMode::Exclusive).unwrap_err();
    assert_eq!(fault.operation, "make the directory");
}

#[test]
fn path_that_is_no_directory_is_rejected_with_its_file_type() {
    let dir = data_dir();
    std::fs::create_dir_all(dir.path()).unwrap();
    let (file, link) = (dir.path().join("file"), dir.path().join("link"));
    std::fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    let below = file.join("below");
    for access in [LockMode::Exclusive, LockMode::ReadOnly] {
        for path in [&file, &below] {
            let fault = Directory::open(path, access).unwrap_err();
            assert_eq!(fault.file, path.display().to_string());
            assert!(fault.to_string().contains("is a file and not a directory"), "{fault}");
        }
        let fault = Directory::open(&link, access).unwrap_err();
        assert!(fault.to_string().contains("a symbolic link that leads to nothing"), "{fault}");
    }
    std::os::unix::fs::symlink(".", dir.path().join("here")).unwrap();
    Directory::open(&dir.path().join("here"), LockMode::Exclusive).unwrap();
}

#[test]
fn write_to_a_removed_directory_fails() {
    for sync in MODES {
        let dir = data_dir();
        let mut real = Real::open(&dir, &options(sync, SEGMENT)).unwrap();
        let stamp = real.put(100);
        real.wait_for(stamp);
        // Another segment may just be made there.
        until("the end of the directory", || {
            let _ = std::fs::remove_dir_all(dir.path());
            !dir.path().exists()
        });
        let acknowledged = real.journal.durable();
        let fault = real.wait_for_fault();
        assert!(fault.file.contains(dir.text()), "{fault}");
        if sync == SyncMode::Always {
            assert_eq!(real.journal.durable(), acknowledged, "nothing more is durable");
            let removed = ["the file was removed by another process", "No such file or directory"];
            assert!(removed.iter().any(|words| fault.error.contains(words)), "{fault}");
        }
        assert!(real.journal.is_closed() && real.journal.poll_timeout().is_none());
    }
}

#[test]
fn journal_dropped_during_prefill_can_be_opened_again() {
    let dir = data_dir();
    for _ in 0..5 {
        drop(Real::open(&dir, &options(SyncMode::Always, 32 * 1024 * 1024)).unwrap());
    }
    let mut real = Real::open(&dir, &options(SyncMode::Always, SEGMENT)).unwrap();
    let stamp = real.put(1_000);
    real.wait_for(stamp);
    real.close();
}

#[test]
fn record_larger_than_a_segment_gets_its_own_segment() {
    let dir = data_dir();
    let options = options(SyncMode::Always, SEGMENT);
    let mut real = Real::open(&dir, &options).unwrap();
    for size in [10, usize::try_from(3 * SEGMENT).unwrap(), 10] {
        let stamp = real.put(size);
        real.wait_for(stamp);
    }
    let large = std::fs::read_dir(dir.path()).unwrap();
    let large = large.filter(|entry| entry.as_ref().unwrap().metadata().unwrap().len() > SEGMENT);
    assert_eq!(large.count(), 1);
    let expected = real.harness.values();
    drop(real);
    assert_eq!(Real::open(&dir, &options).unwrap().harness.values(), expected);
}

#[test]
fn salvage_on_the_real_disk() {
    let (from, to) = (data_dir(), data_dir());
    let options = options(SyncMode::Always, SEGMENT);
    let mut real = Real::open(&from, &options).unwrap();
    for _ in 0..500 {
        real.put(200);
        real.pass();
    }
    real.wait_for(real.journal.next_batch() - 1);
    real.close();
    let expected = real.harness.values();
    drop(real);
    let mut source = open_directory(&from, LockMode::ReadOnly).unwrap();
    let mut target = open_directory(&to, LockMode::Exclusive).unwrap();
    let salvaged = salvage(&mut source, &mut target, SEGMENT).unwrap();
    assert!(salvaged.skipped.is_empty() && salvaged.records == 500);
    drop(target);
    assert_eq!(Real::open(&to, &options).unwrap().harness.values(), expected);
}

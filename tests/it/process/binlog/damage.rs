//! Binlogs that are damaged, in use, or none.

use super::writer::{Binlog, Job, State, change_record, put_record};
use super::{dump, import, import_into, of, small};
use crate::support::TempDir;
use rustix::fs::{FlockOperation, fcntl_lock};
use std::fs::{self, File};

/// The jobs of an import with these flags.
fn ids_after(binlog: &Binlog, flags: &[&str]) -> Vec<serde_json::Value> {
    let data = TempDir::new();
    import_into(binlog, &data, flags, 0);
    of(&dump(&data), "id")
}

/// Asserts that nothing is imported, that this is said, and which jobs remain without the damage.
fn assert_damaged(binlog: &Binlog, said: &[&str], remaining: &[u64]) {
    let data = TempDir::new();
    let text = import_into(binlog, &data, &[], 1);
    for part in said.iter().chain(&["Nothing was put", "--skip-damaged"]) {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(!data.path().exists());
    assert_eq!(ids_after(binlog, &["--skip-damaged"]), remaining);
}

/// Lengths of the records of [`small`]: 4 + 7 + 80 + 3 + 2.
const RECORD: usize = 96;

#[test]
fn last_record_may_be_torn_anywhere() {
    let whole = put_record(&Job { id: 9, ..Job::default() }, b"abc");
    let change = change_record(&Job { id: 4, state: State::Deleted, ..Job::default() }, b"abc");
    // From this byte on a change with zeros is one that deletes a job: see the next but one test.
    for (record, end) in [(whole, 7 + 4 + 80 + 5), (change, 48)] {
        for length in 1..end {
            // Zeros are what the file had before.
            for zeros in [0, 500] {
                let binlog = small();
                binlog.append(&record[..length]);
                binlog.append(&vec![0; zeros]);
                let data = TempDir::new();
                if (length, zeros) == (50, 500) {
                    let text = import_into(&binlog, &data, &[], 0);
                    assert!(text.contains("torn       "), "{text}");
                    assert!(text.contains(&format!("byte {}", 4 + 3 * RECORD)), "{text}");
                }
                let text = import(&[binlog.text(), "--dry-run"], 0);
                assert!(text.contains("jobs       3: 3 ready"), "{length}: {text}");
                assert!(!text.contains("damaged"), "{length}: {text}");
            }
        }
    }
}

#[test]
fn torn_record_before_another_file_is_damage() {
    let mut binlog = small();
    binlog.append(&[7]);
    binlog.next_file();
    assert_eq!(ids_after(&binlog, &[]), [3, 4, 7], "there is nothing in the next file");
    binlog.put(&Job { id: 8, ..Job::default() }, b"abc");
    let place = format!("binlog.1, byte {}", 4 + 3 * RECORD);
    assert_damaged(&binlog, &[&place], &[3, 4, 7, 8]);
}

#[test]
fn deletion_at_the_end_is_doubted_only_where_a_page_ends_in_it() {
    // The record ends this many bytes behind the begin of a page.
    for (behind, kept) in [(0, false), (1, true), (7, true), (8, false)] {
        let ids = if kept { &[1, 3, 4, 7][..] } else { &[1, 3, 7] };
        let binlog = small();
        let filler = 4096 + behind - (4 + 4 * RECORD + 84);
        binlog.put(&Job { id: 1, ..Job::default() }, &[b'x'; 4096][..filler + 3]);
        // Its last bytes that are not zero are those of the count of kicks, 1.
        binlog.change(&Job { id: 4, state: State::Deleted, ..Job::default() }, b"abc");
        binlog.append(&[0; 4096]);
        assert_eq!(ids_after(&binlog, &[]), ids, "{behind}");
    }
}

#[test]
fn deletion_at_the_end_of_a_file_that_was_cut_is_not_doubted() {
    let mut binlog = small();
    let filler = 4096 + 1 - (4 + 4 * RECORD + 84);
    binlog.put(&Job { id: 1, ..Job::default() }, &[b'x'; 4096][..filler + 3]);
    binlog.change(&Job { id: 4, state: State::Deleted, ..Job::default() }, b"abc");
    binlog.next_file();
    binlog.put(&Job { id: 8, ..Job::default() }, b"abc");
    assert_eq!(ids_after(&binlog, &[]), [1, 3, 7, 8]);
}

#[test]
fn damaged_record_is_skipped_if_the_user_says_so() {
    // Byte of the second record, and what is said.
    let wrong = [
        (0, 0xff, "length of a tube's name"),
        (0, 6, "not used"),
        (4, b' ', "name"),
        (7 + 4 + 24, 1, "time to run"),
        (7 + 4 + 32, 1, "length of a body"),
        (7 + 4 + 32, 200, "does not end with CRLF"),
        (7 + 4 + 76, 9, "state"),
        (RECORD - 1, 0, "job 4 does not end with CRLF"),
    ];
    for (at, byte, said) in wrong {
        let binlog = small();
        let mut bytes = fs::read(binlog.file()).unwrap();
        bytes[4 + RECORD + at] = byte;
        fs::write(binlog.file(), bytes).unwrap();
        let place = format!("binlog.1, byte {}, {RECORD} bytes", 4 + RECORD);
        assert_damaged(&binlog, &[said, &place], &[3, 7]);
    }
    // A hole.
    let binlog = small();
    let mut bytes = fs::read(binlog.file()).unwrap();
    bytes[4 + RECORD..][..RECORD].fill(0);
    fs::write(binlog.file(), bytes).unwrap();
    assert_damaged(&binlog, &["zeros"], &[3, 7]);
}

#[test]
fn jobs_that_are_not_whole_are_damage() {
    let binlog = small();
    binlog.change(&Job { id: 9, state: State::Buried, ..Job::default() }, b"abc");
    assert_damaged(&binlog, &["job 9, whose body is in no file"], &[3, 4, 7]);
    let binlog = small();
    binlog.change(&Job { id: 4, state: State::Deleted, created_ms: 7, ..Job::default() }, b"abc");
    binlog.put(&Job { id: 8, ..Job::default() }, b"abc");
    assert_damaged(&binlog, &["job 4, but is not like it"], &[3, 4, 7, 8]);
    let binlog = small();
    binlog.put(&Job { id: 4, ..Job::default() }, b"another");
    assert_damaged(&binlog, &["job 4 was there already"], &[3, 4, 7]);
    let mut binlog = small();
    binlog.next_file();
    binlog.next_file();
    binlog.put(&Job { id: 8, ..Job::default() }, b"abc");
    fs::remove_file(binlog.path("binlog.2")).unwrap();
    assert_damaged(&binlog, &["missing between 1 and 3"], &[3, 4, 7, 8]);
}

#[test]
fn other_versions_are_named() {
    for (version, said) in [
        ([5, 0, 0, 0], "before 1.5"),
        ([0, 0, 0, 7], "big-endian"),
        ([9, 0, 0, 0], "version of the binlog is 9"),
    ] {
        let binlog = small();
        let mut bytes = fs::read(binlog.file()).unwrap();
        bytes[..4].copy_from_slice(&version);
        fs::write(binlog.file(), bytes).unwrap();
        let text = import_into(&binlog, &TempDir::new(), &["--skip-damaged"], 1);
        assert!(text.contains(said) && text.contains("binlog.1, byte 0"), "{text}");
    }
    // A file that was made and not begun.
    let binlog = small();
    fs::write(binlog.path("binlog.2"), []).unwrap();
    fs::write(binlog.path("binlog.3"), [0; 4096]).unwrap();
    binlog.put(&Job { id: 8, ..Job::default() }, b"abc");
    assert_eq!(ids_after(&binlog, &[]), [3, 4, 7, 8]);
}

#[test]
fn binlog_in_use_is_refused() {
    let binlog = small();
    let lock = File::create(binlog.path("lock")).unwrap();
    fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    let data = TempDir::new();
    let text = import_into(&binlog, &data, &[], 1);
    let pid = format!("process {}", std::process::id());
    assert!(text.contains("lock is locked") && text.contains(&pid), "{text}");
    assert!(text.contains("Stop it first"), "{text}");
    assert!(!data.path().exists());
    drop(lock);
    import_into(&binlog, &data, &[], 0);
}

#[test]
fn wrong_directories_are_named() {
    let (binlog, none) = (small(), TempDir::new());
    let text = import(&[none.text(), "--dry-run"], 1);
    assert!(text.contains("cannot read the directory") && text.contains(none.text()), "{text}");
    fs::create_dir(none.path()).unwrap();
    let text = import(&[none.text(), "--dry-run"], 1);
    assert!(text.contains("holds no binlog"), "{text}");
    let text = import(&[binlog.text(), "--data", binlog.text()], 1);
    assert!(text.contains("is the directory of the binlog"), "{text}");
    let text = import(&[binlog.text()], 2);
    assert!(text.contains("--data"), "{text}");
}

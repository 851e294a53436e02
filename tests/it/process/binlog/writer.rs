//! Writes binlogs as beanstalkd 1.12 does: `src/wire/binlog.rs` shows the format.

use crate::support::TempDir;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a record says that its job is.
#[derive(Clone, Copy)]
pub(super) enum State {
    Deleted,
    Ready,
    Reserved,
    Buried,
    Delayed,
}

/// The fields of a record.
#[derive(Clone, Copy)]
pub(super) struct Job {
    pub(super) id: u64,
    pub(super) tube: &'static str,
    pub(super) pri: u32,
    pub(super) delay_s: u64,
    pub(super) ttr_s: u64,
    pub(super) created_ms: u64,
    pub(super) deadline_ms: u64,
    pub(super) timeouts: u32,
    pub(super) buries: u32,
    pub(super) state: State,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            id: 1,
            tube: "default",
            pri: 10,
            delay_s: 0,
            ttr_s: 60,
            created_ms: 1_000,
            deadline_ms: 0,
            timeouts: 0,
            buries: 0,
            state: State::Ready,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "delays are compared with the clock of the program")]
pub(super) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

/// A moment as `journal dump` prints it.
pub(super) fn iso(ms: u64) -> String {
    let at = jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap()).unwrap();
    format!("{at:.3}")
}

/// The directory of a binlog, with a file that is written to. It is removed at the end of the test.
pub(super) struct Binlog {
    dir: TempDir,
    number: u32,
}

impl Binlog {
    pub(super) fn new() -> Self {
        let mut binlog = Self { dir: TempDir::new(), number: 0 };
        fs::create_dir(binlog.dir.path()).unwrap();
        binlog.next_file();
        binlog
    }

    pub(super) fn text(&self) -> &str {
        self.dir.text()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The file that is written to.
    pub(super) fn file(&self) -> PathBuf {
        self.path(&format!("binlog.{}", self.number))
    }

    /// Begins the next file.
    pub(super) fn next_file(&mut self) {
        self.number += 1;
        self.append(&7_u32.to_le_bytes());
    }

    pub(super) fn append(&self, bytes: &[u8]) {
        let file = OpenOptions::new().create(true).append(true).open(self.file());
        file.unwrap().write_all(bytes).unwrap();
    }

    /// Appends a whole record.
    pub(super) fn put(&self, job: &Job, body: &[u8]) {
        self.append(&put_record(job, body));
    }

    /// Appends the record of a change.
    pub(super) fn change(&self, job: &Job, body: &[u8]) {
        self.append(&change_record(job, body));
    }
}

pub(super) fn put_record(job: &Job, body: &[u8]) -> Vec<u8> {
    let name = job.tube.as_bytes();
    let length = u32::try_from(name.len()).unwrap().to_le_bytes();
    [&length[..], name, &fields(job, body), body, b"\r\n"].concat()
}

pub(super) fn change_record(job: &Job, body: &[u8]) -> Vec<u8> {
    [&[0; 4][..], &fields(job, body)].concat()
}

fn fields(job: &Job, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (second_ns, ms_ns) = (1_000_000_000, 1_000_000);
    for number in [
        job.id,
        u64::from(job.pri),
        job.delay_s * second_ns,
        job.ttr_s * second_ns,
        body.len() as u64 + 2,
        job.created_ms * ms_ns,
        job.deadline_ms * ms_ns,
    ] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    for count in [1, job.timeouts, 1, job.buries, 1, job.state as u32] {
        bytes.extend_from_slice(&count.to_le_bytes());
    }
    assert_eq!(bytes.len(), 80);
    bytes
}

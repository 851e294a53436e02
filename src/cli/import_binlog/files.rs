//! The files of a binlog: found, locked against a beanstalkd that would write to them, and read.

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// beanstalkd holds a write lock on it while it runs.
const LOCK_FILE: &str = "lock";
const FILE_PREFIX: &str = "binlog.";
/// Bytes that are read at a time.
const WINDOW_BYTES: usize = 256 * 1024;

/// The files of a binlog, which no beanstalkd changes as long as this lives.
#[derive(Debug)]
pub(super) struct BinlogDirectory {
    /// By number, which rises in the order of writing.
    pub(super) files: Vec<(u64, PathBuf)>,
    /// A read lock. `None`: there is no lock file, so no beanstalkd runs there.
    _lock: Option<File>,
}

impl BinlogDirectory {
    /// Finds the files, and locks them.
    ///
    /// # Errors
    /// A sentence for the operator: there are none, or a beanstalkd uses them.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let cannot_read =
            |error: io::Error| format!("cannot read the directory {}: {error}", path.display());
        let lock = lock(&path.join(LOCK_FILE))?;
        let mut files = Vec::new();
        for entry in fs::read_dir(path).map_err(cannot_read)? {
            let name = entry.map_err(cannot_read)?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(FILE_PREFIX));
            if let Some(number) = number.and_then(|number| number.parse().ok()) {
                files.push((number, path.join(name)));
            }
        }
        files.sort_unstable();
        if files.is_empty() {
            return Err(format!(
                "{} holds no binlog (files {FILE_PREFIX}1 and so on): name the directory that \
                 beanstalkd has been given with -b",
                path.display()
            ));
        }
        Ok(Self { files, _lock: lock })
    }
}

/// Takes a read lock on the lock file, if there is one: beanstalkd cannot have its write lock then.
fn lock(path: &Path) -> Result<Option<File>, String> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(format!(
                "cannot open {}: {error}. Run this as the user that beanstalkd runs as, or as root",
                path.display()
            ));
        }
    };
    match fcntl_lock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::AGAIN | Errno::ACCESS) => {
            let wanted = Flock::from(FlockType::ReadLock);
            let holder = fcntl_getlk(&file, &wanted).ok().flatten().and_then(|held| held.pid);
            let holder =
                holder.map_or_else(String::new, |pid| format!(" (process {})", pid.as_raw_pid()));
            Err(format!(
                "{} is locked: beanstalkd{holder} uses this binlog. Stop it first, so that no job \
                 is worked on twice or put in vain",
                path.display()
            ))
        }
        Err(error) => Err(format!("cannot lock {}: {error}", path.display())),
    }
}

/// A file that is read mostly forwards.
#[derive(Debug)]
pub(super) struct BinlogFile {
    path: PathBuf,
    file: File,
    /// The bytes from `start` on that were read last.
    window: Vec<u8>,
    start: u64,
}

impl BinlogFile {
    /// Opens a file.
    ///
    /// # Errors
    /// A sentence that names it.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| {
            format!(
                "cannot open {}: {error}. Run this as the user that beanstalkd runs as, or as root",
                path.display()
            )
        })?;
        Ok(Self { path: path.to_owned(), file, window: Vec::new(), start: 0 })
    }

    /// The bytes from `offset` on: `length` of them, or fewer at the end of the file. O(length),
    /// or O(`WINDOW_BYTES`) where the window ends.
    ///
    /// # Errors
    /// A sentence that names the file and the offset.
    pub(super) fn bytes(&mut self, offset: u64, length: usize) -> Result<&[u8], String> {
        let end = offset + length as u64;
        if offset < self.start || end > self.start + self.window.len() as u64 {
            self.window.resize(length.max(WINDOW_BYTES), 0);
            let mut count = 0;
            while count < self.window.len() {
                match self.file.read_at(&mut self.window[count..], offset + count as u64) {
                    Ok(0) => break,
                    Ok(read) => count += read,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => {
                        let path = self.path.display();
                        return Err(format!("cannot read {path} at byte {offset}: {error}"));
                    }
                }
            }
            self.window.truncate(count);
            self.start = offset;
        }
        // Proof: the window is in memory, and `offset` is at its begin or within it.
        let from = usize::try_from(offset - self.start).expect("a place in memory");
        let from = from.min(self.window.len());
        let until = (from + length).min(self.window.len());
        Ok(&self.window[from..until])
    }

    /// The place behind the last byte from `from` on that is not zero; `from` if there is none.
    /// O(rest of the file).
    ///
    /// # Errors
    /// As of [`BinlogFile::bytes`].
    pub(super) fn data_end(&mut self, from: u64) -> Result<u64, String> {
        let (mut at, mut end) = (from, from);
        loop {
            let bytes = self.bytes(at, WINDOW_BYTES)?;
            if bytes.is_empty() {
                return Ok(end);
            }
            if let Some(last) = bytes.iter().rposition(|&byte| byte != 0) {
                end = at + last as u64 + 1;
            }
            at += bytes.len() as u64;
        }
    }
}

//! The data directory of a journal, locked while it is open.

use super::holder;
use crate::journal::disk::{DiskError, FileEntry, Files};
use crate::journal::{LOCK_FILE, is_segment};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Purpose for which a directory is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// To run a journal: created if missing, locked exclusively.
    Exclusive,
    /// To read it: nothing is created, locked shared, so no journal can run on it.
    ReadOnly,
}

/// A locked directory.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// Locked as long as they are open: the lock file, if there is one, and the directory itself,
    /// since the file may be removed by an operator who takes it for a left-over.
    locks: Vec<File>,
    /// The last file read.
    open: Option<(String, File)>,
}

pub(super) fn fault(operation: &'static str, file: &Path, error: &io::Error) -> DiskError {
    DiskError { operation, file: file.display().to_string(), error: error.to_string() }
}

/// Free bytes of the file system of `path`.
pub(super) fn free_bytes(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Makes the entries of a directory durable.
pub(super) fn sync_names(path: &Path) -> Result<(), DiskError> {
    sync_names_of(File::open(path), path)
}

/// The same for an opened directory.
pub(super) fn sync_names_of(directory: io::Result<File>, path: &Path) -> Result<(), DiskError> {
    directory
        .and_then(|directory| directory.sync_all())
        .map_err(|error| fault("sync the directory", path, &error))
}

impl Directory {
    /// Opens and locks a directory.
    ///
    /// # Errors
    /// If it cannot be created, read or written, or another process uses it.
    pub fn open(path: &Path, access: LockMode) -> Result<Self, DiskError> {
        let path = path.to_owned();
        check_is_directory(&path, access)?;
        if access == LockMode::Exclusive {
            make(&path)?;
        }
        fs::read_dir(&path).map_err(|error| fault("read the directory", &path, &error))?;
        let mut locks = Vec::from_iter(lock_file(&path.join(LOCK_FILE), access)?);
        if let Ok(directory) = File::open(&path) {
            match lock(&directory, &path, access) {
                Ok(()) => locks.push(directory),
                Err(LockFault::Held(error)) => return Err(error),
                // Some network file systems lock no directories.
                Err(LockFault::Unable(_)) => {}
            }
        }
        Ok(Self { path, locks, open: None })
    }

    /// Path as given to [`Directory::open`].
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Free bytes of the file system. Quotas of the user are not considered.
    ///
    /// # Errors
    /// If `statvfs` fails.
    pub fn free_bytes(&self) -> Result<u64, DiskError> {
        free_bytes(&self.path)
            .map_err(|error| fault("find out the free space of", &self.path, &error))
    }

    /// The path and the locks, for a disk to run on.
    pub(super) fn into_parts(self) -> (PathBuf, Vec<File>) {
        (self.path, self.locks)
    }

    /// Opens the file `name` for reading, unless it is open already.
    fn opened(&mut self, name: &str) -> Result<&File, DiskError> {
        if self.open.as_ref().is_none_or(|(open, _)| open != name) {
            let path = self.path.join(name);
            let file = File::open(&path).map_err(|error| fault("open", &path, &error))?;
            self.open = Some((name.to_owned(), file));
        }
        Ok(&self.open.as_ref().expect("it was opened just now").1)
    }
}

/// Fails if `path`, or one of its parents, exists and is no directory. Other errors are left to the
/// open.
fn check_is_directory(path: &Path, access: LockMode) -> Result<(), DiskError> {
    let refuse = |file: &Path, error: &str| {
        let file = file.display().to_string();
        Err(DiskError { operation: "use", file, error: error.to_owned() })
    };
    match fs::metadata(path) {
        Ok(is) if is.is_dir() => Ok(()),
        Ok(_) if access == LockMode::Exclusive => refuse(
            path,
            "it is a file and not a directory. Name a directory for the jobs, which is made if it \
             is not there",
        ),
        Ok(_) => refuse(path, "it is a file and not a directory. Name the data directory"),
        Err(_) if fs::symlink_metadata(path).is_ok_and(|is| is.is_symlink()) => {
            refuse(path, "it is a symbolic link that leads to nothing")
        }
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            let above = path.ancestors().skip(1).find(|above| above.exists()).unwrap_or(path);
            refuse(path, &format!("{} is a file and not a directory", above.display()))
        }
        Err(_) => Ok(()),
    }
}

/// Creates a directory and its parents, durably.
fn make(path: &Path) -> Result<(), DiskError> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| fault("make the directory", path, &error))?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_names(parent),
        _ => sync_names(Path::new(".")),
    }
}

/// Marks the directory as used: from now on one without a segment counts as damaged. May fail on a
/// full disk; the next segment tries again.
pub(super) fn note_use(path: &Path) -> io::Result<()> {
    let lock = path.join(LOCK_FILE);
    if fs::metadata(&lock)?.len() == 0 {
        let file = OpenOptions::new().write(true).open(&lock)?;
        file.write_all_at(b"used\n", 0)?;
        file.sync_all()?;
    }
    Ok(())
}

/// Removes that mark if `name` is the last segment, which is about to be removed.
pub(super) fn note_removal(path: &Path, name: &str) -> io::Result<()> {
    let segments =
        fs::read_dir(path)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut others = segments.filter(|other| is_segment(other) && other != name);
    if is_segment(name) && others.next().is_none() {
        let file = OpenOptions::new().write(true).open(path.join(LOCK_FILE))?;
        file.set_len(0)?;
        file.sync_all()?;
    }
    Ok(())
}

/// Why something is not locked.
enum LockFault {
    /// Another process holds the lock.
    Held(DiskError),
    /// It cannot be locked at all.
    Unable(io::Error),
}

fn lock_file(path: &Path, access: LockMode) -> Result<Option<File>, DiskError> {
    let mut options = OpenOptions::new();
    let opened = match access {
        LockMode::Exclusive => {
            options.write(true).create(true).truncate(false).mode(0o600).open(path)
        }
        LockMode::ReadOnly => options.read(true).open(path),
    };
    let file = match opened {
        Err(error) if access == LockMode::ReadOnly && error.kind() == ErrorKind::NotFound => {
            return Ok(None);
        }
        opened => opened.map_err(|error| fault("open", path, &error))?,
    };
    match lock(&file, path, access) {
        Ok(()) => Ok(Some(file)),
        Err(LockFault::Held(error)) => Err(error),
        Err(LockFault::Unable(error)) => Err(fault("lock", path, &error)),
    }
}

fn lock(file: &File, path: &Path, access: LockMode) -> Result<(), LockFault> {
    let locked = match access {
        LockMode::Exclusive => file.try_lock(),
        LockMode::ReadOnly => file.try_lock_shared(),
    };
    locked.map_err(|error| match error {
        TryLockError::WouldBlock => {
            let name = path.display().to_string();
            let holder = holder::describe(file, &name);
            let error = format!("another process uses this directory: {holder}");
            LockFault::Held(DiskError { operation: "lock", file: name, error })
        }
        TryLockError::Error(error) => LockFault::Unable(error),
    })
}

impl Files for Directory {
    fn list(&mut self) -> Result<Vec<FileEntry>, DiskError> {
        let failed = |error| fault("read the directory", &self.path, &error);
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let size = entry.metadata().map_err(failed)?.len();
            let name = entry.file_name().to_string_lossy().into_owned();
            entries.push(FileEntry { name, size });
        }
        Ok(entries)
    }

    fn read(&mut self, name: &str, offset: u64, out: &mut [u8]) -> Result<usize, DiskError> {
        let path = self.path.join(name);
        let file = self.opened(name)?;
        loop {
            match file.read_at(out, offset) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read.map_err(|error| fault("read", &path, &error)),
            }
        }
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        let path = self.path.join(name);
        self.open = None;
        note_removal(&self.path, name).map_err(|error| fault("remove", &path, &error))?;
        fs::remove_file(&path).map_err(|error| fault("remove", &path, &error))?;
        sync_names(&self.path)
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        let path = self.path.join(name);
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| {
                file.write_all(bytes)?;
                file.sync_all()
            })
            .map_err(|error| fault("write", &path, &error))?;
        sync_names(&self.path)
    }
}

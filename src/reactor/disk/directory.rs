//! A journal's directory on the real disk: locked while it is open.

use super::holder;
use crate::journal::disk::{DiskError, FileEntry, Files};
use crate::journal::{LOCK_FILE, is_segment};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What a directory is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// To run a journal: it is made if it is not there, and locked for this process alone.
    Exclusive,
    /// To look at it: nothing is made; others may look, but none may run.
    ReadOnly,
}

/// A directory, locked.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// Locked as long as it is open; a directory without a lock file is in use by nobody.
    lock: Option<File>,
    /// The file that was read last.
    open: Option<(String, File)>,
}

/// A fault with its words.
pub(super) fn fault(operation: &'static str, file: &Path, error: &io::Error) -> DiskError {
    DiskError { operation, file: file.display().to_string(), error: error.to_string() }
}

/// How many bytes are free where `path` is.
pub(super) fn free_bytes(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Makes the names in a directory durable.
pub(super) fn sync_names(path: &Path) -> Result<(), DiskError> {
    sync_names_of(File::open(path), path)
}

/// The same of a directory that was opened already.
pub(super) fn sync_names_of(directory: io::Result<File>, path: &Path) -> Result<(), DiskError> {
    directory
        .and_then(|directory| directory.sync_all())
        .map_err(|error| fault("sync the directory", path, &error))
}

impl Directory {
    /// Opens a directory and locks it.
    ///
    /// # Errors
    /// If it cannot be made, read or written, or if another process uses it.
    pub fn open(path: &Path, access: LockMode) -> Result<Self, DiskError> {
        let path = path.to_owned();
        refuse_what_is_no_directory(&path, access)?;
        if access == LockMode::Exclusive {
            make(&path)?;
        }
        fs::read_dir(&path).map_err(|error| fault("read the directory", &path, &error))?;
        let lock = lock(&path.join(LOCK_FILE), access)?;
        Ok(Self { path, lock, open: None })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes the file system has that nobody uses. What it says of the space of this user
    /// alone, a quota, is not in it.
    ///
    /// # Errors
    /// If the system cannot tell.
    pub fn free_bytes(&self) -> Result<u64, DiskError> {
        free_bytes(&self.path)
            .map_err(|error| fault("find out the free space of", &self.path, &error))
    }

    /// The path and the lock, for a disk to run on.
    pub(super) fn into_parts(self) -> (PathBuf, Option<File>) {
        (self.path, self.lock)
    }

    /// Opens the file `name` for reading, if it is not the one that is open.
    fn opened(&mut self, name: &str) -> Result<&File, DiskError> {
        if self.open.as_ref().is_none_or(|(open, _)| open != name) {
            let path = self.path.join(name);
            let file = File::open(&path).map_err(|error| fault("open", &path, &error))?;
            self.open = Some((name.to_owned(), file));
        }
        Ok(&self.open.as_ref().expect("it was opened just now").1)
    }
}

/// Says so if `path`, or something that it leads through, is there and is no directory. What
/// cannot be looked at is left to those who open it.
fn refuse_what_is_no_directory(path: &Path, access: LockMode) -> Result<(), DiskError> {
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

/// Makes a directory, with those above it, durably.
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

/// Notes in a directory that there has been a segment: without one it is damaged from now on. On a
/// full disk it may not be noted; the next segment tries it again.
pub(super) fn note_use(path: &Path) -> io::Result<()> {
    let lock = path.join(LOCK_FILE);
    if fs::metadata(&lock)?.len() == 0 {
        let file = OpenOptions::new().write(true).open(&lock)?;
        file.write_all_at(b"used\n", 0)?;
        file.sync_all()?;
    }
    Ok(())
}

/// Takes that note back if `name` is the last segment, which is about to be removed.
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

fn lock(path: &Path, access: LockMode) -> Result<Option<File>, DiskError> {
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
    let locked = match access {
        LockMode::Exclusive => file.try_lock(),
        LockMode::ReadOnly => file.try_lock_shared(),
    };
    match locked {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            let name = path.display().to_string();
            let holder = holder::describe(&file, &name);
            let error = format!("another process uses this directory: {holder}");
            Err(DiskError { operation: "lock", file: name, error })
        }
        Err(TryLockError::Error(error)) => Err(fault("lock", path, &error)),
    }
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

//! A data directory that is there with all jobs of a binlog, or not at all: a new one is filled
//! beside its place and gets its name when everything is on the disk.

use crate::reactor::disk::{Directory, LockMode};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// What is added to the name of a data directory that is being filled.
const SUFFIX: &str = ".import";

/// Where jobs are put.
#[derive(Debug)]
pub(in crate::cli) struct Target<'a> {
    /// The data directory, as the user has named it.
    pub(in crate::cli) data: &'a Path,
    /// The directory that becomes it, if it is new.
    staging: Option<PathBuf>,
}

fn explain(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

impl<'a> Target<'a> {
    /// Removes what an earlier import has left beside the directory.
    pub(in crate::cli) fn begin(data: &'a Path) -> Result<Self, String> {
        let name = data.file_name().map(OsString::from);
        // One that is there, though it may be empty, keeps its owner, or is a mount.
        let Some(mut name) = name.filter(|_| !data.exists()) else {
            return Ok(Self { data, staging: None });
        };
        name.push(SUFFIX);
        let staging = data.with_file_name(name);
        if staging.exists() {
            // Its lock says whether that import still runs.
            drop(Directory::open(&staging, LockMode::Exclusive).map_err(|it| it.to_string())?);
            fs::remove_dir_all(&staging).map_err(|error| explain(&staging, &error))?;
        }
        Ok(Self { data, staging: Some(staging) })
    }

    /// The directory to open.
    pub(in crate::cli) fn path(&self) -> &Path {
        self.staging.as_deref().unwrap_or(self.data)
    }

    /// All jobs are on the disk, and the directory is closed: it gets its name.
    pub(in crate::cli) fn finish(&self) -> Result<(), String> {
        let Some(staging) = &self.staging else { return Ok(()) };
        let named = fs::rename(staging, self.data).and_then(|()| {
            let parent = self.data.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(parent.unwrap_or_else(|| Path::new(".")))?.sync_all()
        });
        named.map_err(|error| {
            let why = explain(self.data, &error);
            format!("{why}. All jobs are in {}: rename it", staging.display())
        })
    }

    /// The message when the import ends early.
    pub(in crate::cli) fn explain_end(&self, why: &str, done: usize) -> String {
        let data = self.data.display();
        match &self.staging {
            Some(staging) => format!(
                "{why}, after {done} jobs were put into {}. Nothing is in {data}, and the binlog \
                 is as it was: import again, which begins anew",
                staging.display()
            ),
            None => format!(
                "{why}, after {done} jobs were put into {data}. The binlog is as it was: take \
                 {data} from a backup, and import again"
            ),
        }
    }
}

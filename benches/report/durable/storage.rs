//! Where servers keep jobs on a disk, and when they sync it.

use crate::targets::Target;
use serde::Serialize;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// When a change is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Syncing {
    /// Before it is answered.
    Always,
    /// At most this many milliseconds later.
    Every(u32),
    /// When the system thinks fit.
    Never,
}

impl Syncing {
    /// The arguments that make a server keep everything in a directory.
    ///
    /// # Errors
    /// Names the targets that cannot.
    pub(crate) fn arguments(self, target: Target, dir: &Path) -> Result<Vec<String>, String> {
        let options: &[String] = match target {
            Target::JobCentre | Target::Tubes => {
                let when = match self {
                    Self::Always => "always".to_owned(),
                    Self::Every(millis) => format!("{millis}ms"),
                    Self::Never => "never".to_owned(),
                };
                // Its log tells what a start found in the directory.
                let log = ["--log-level", "info", "--log-format", "json", "--fsync"];
                &[&log.map(str::to_owned)[..], &[when, "--data".to_owned()]].concat()
            }
            Target::Beanstalkd => match self {
                Self::Always => &["-f".to_owned(), "0".to_owned(), "-b".to_owned()],
                Self::Every(millis) => &["-f".to_owned(), millis.to_string(), "-b".to_owned()],
                Self::Never => &["-F".to_owned(), "-b".to_owned()],
            },
            Target::Redis => {
                let when = match self {
                    Self::Always => "always",
                    Self::Never => "no",
                    Self::Every(_) => return Err("redis knows no such time".to_owned()),
                };
                &["--appendonly", "yes", "--appendfsync", when, "--dir"].map(str::to_owned)
            }
            other => return Err(format!("{} keeps nothing on a disk", other.name())),
        };
        let mut words = options.to_vec();
        words.push(dir.display().to_string());
        Ok(words)
    }
}

/// An empty directory for one run. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes it, and has the disk be done with the one before.
    ///
    /// # Errors
    /// There must be a disk: what lives in memory syncs nothing.
    pub(crate) fn fresh(scratch: &Path) -> Result<Self, String> {
        let kind = file_system(scratch).unwrap_or_default();
        if ["tmpfs", "ramfs"].contains(&kind.as_str()) {
            return Err(format!("{} is in memory ({kind}), not on a disk", scratch.display()));
        }
        let path = scratch.join("data");
        let make = || -> std::io::Result<()> {
            if path.exists() {
                fs::remove_dir_all(&path)?;
            }
            fs::create_dir(&path)?;
            // What the last run has left to do is no work of this one.
            File::open(scratch)?.sync_all()
        };
        match make() {
            Ok(()) => Ok(Self(path)),
            Err(error) => Err(format!("cannot make {}: {error}", path.display())),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays is removed before the next run.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The type of the file system in which a path is.
pub(crate) fn file_system(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mount = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let (place, kind) = (PathBuf::from(fields.next()?), fields.next()?.to_owned());
        path.starts_with(&place).then(|| (place.components().count(), kind))
    };
    // Of two at one place the later one is seen.
    mounts.lines().filter_map(mount).max_by_key(|&(depth, _)| depth).map(|(_, kind)| kind)
}

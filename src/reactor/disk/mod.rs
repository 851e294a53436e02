//! Files of the journal: the only part of the server that does file I/O.
//!
//! Recovery, checks and salvage read through [`Directory`]; a running journal writes through
//! [`FileDisk`], which has threads.

mod direct;
mod directory;
mod file_disk;
mod holder;
mod reserve;
mod segment_files;
mod segment_preparer;
mod segment_reader;

pub use directory::{Directory, LockMode};
pub use file_disk::{FileDisk, Notify};
pub use segment_reader::BackupReader;

#[cfg(test)]
mod testing {
    use std::fs;
    use std::hash::{BuildHasher, RandomState};
    use std::path::PathBuf;

    /// Makes a new directory for a test.
    #[expect(clippy::disallowed_methods, reason = "a name that no run has used")]
    pub(super) fn new_dir(name: &str) -> PathBuf {
        let number = RandomState::new().hash_one(name);
        let dir = std::env::temp_dir().join(format!("jobcentre-disk-{name}-{number:x}"));
        fs::create_dir(&dir).unwrap();
        dir
    }
}

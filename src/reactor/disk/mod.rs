//! The disk of the operating system under a journal: the one place of the server that touches files
//! and waits on threads.
//!
//! [`Directory`] is what recovery, checks and salvage read through, [`FileDisk`] what a running
//! journal writes through.

mod direct;
mod directory;
mod file_disk;
mod holder;
mod reserve;
mod segment_files;
mod segment_preparer;

pub use directory::{Directory, LockMode};
pub use file_disk::{FileDisk, Notify};

#[cfg(test)]
mod testing {
    use std::fs;
    use std::hash::{BuildHasher, RandomState};
    use std::path::PathBuf;

    /// A new directory.
    pub(super) fn place(name: &str) -> PathBuf {
        let number = RandomState::new().hash_one(name);
        let place = std::env::temp_dir().join(format!("jobcentre-disk-{name}-{number:x}"));
        fs::create_dir(&place).unwrap();
        place
    }
}

//! A directory that is gone at the end of the test.

use std::path::{Path, PathBuf};

/// A path of its own for a test; nothing is made there.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    /// `name` must be the test's own.
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("jobcentre-test-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // A former process with this id may have been killed.
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// The segments in it, oldest first.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        let is_segment = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            path.extension().is_some_and(|end| end == "seg") && !name.starts_with("spare")
        };
        let mut segments: Vec<_> = entries.filter(is_segment).collect();
        segments.sort();
        segments
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // It is a temporary directory: whoever cleans up will find it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

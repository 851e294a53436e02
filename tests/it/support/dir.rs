//! Temporary directories.

use std::path::{Path, PathBuf};

/// A path at which nothing exists yet, removed with all that a test makes there.
pub(crate) struct TempDir {
    path: PathBuf,
    _parent: tempfile::TempDir,
}

impl TempDir {
    /// In the system's directory for temporary files.
    pub(crate) fn new() -> Self {
        Self::in_folder(&std::env::temp_dir())
    }

    /// Below `folder`.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        let parent = tempfile::Builder::new().prefix("jobcentre-").tempdir_in(folder).unwrap();
        Self { path: parent.path().join("data"), _parent: parent }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn text(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// The journal's segments in it, oldest first.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.path).unwrap().map(|entry| entry.unwrap().path());
        let is_segment = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            path.extension().is_some_and(|end| end == "seg") && !name.starts_with("spare")
        };
        let mut segments: Vec<_> = entries.filter(is_segment).collect();
        segments.sort();
        segments
    }
}

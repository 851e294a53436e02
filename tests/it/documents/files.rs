//! The documents: all Markdown files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold no documents of ours.
const SKIPPED: [&str; 2] = ["target", "node_modules"];

/// A Markdown file.
#[derive(Clone, Debug)]
pub(super) struct Document {
    /// Its path from the root of the repository.
    pub(super) name: String,
    pub(super) text: String,
}

/// The root of the repository.
pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && !SKIPPED.contains(&&*name) {
                collect(&path, paths);
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            paths.push(path);
        }
    }
}

/// All documents, in the order of their paths.
pub(super) fn all_documents() -> Vec<Document> {
    let mut paths = Vec::new();
    collect(root(), &mut paths);
    paths.sort();
    let read = |path: &PathBuf| Document {
        name: path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned(),
        text: fs::read_to_string(path).unwrap(),
    };
    paths.iter().map(read).collect()
}

/// Those for users, whose sessions are played: `README.md` and the pages below `docs/`.
pub(super) fn user_documents() -> Vec<Document> {
    let mut documents = all_documents();
    documents.retain(|it| it.name == "README.md" || it.name.starts_with("docs/"));
    assert!(!documents.is_empty(), "the documents were not found");
    documents
}

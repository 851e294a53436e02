//! Words that the project does not use (CONTRIBUTING.md, "Prose"), and paths that lead nowhere: in
//! the sources, in the tests of this binary and in the documents.

use super::{File, assert_none, collect};
use std::collections::BTreeSet;
use std::path::Path;

/// What is banned, and what to write instead.
const BANNED_WORDS: [(&str, &str); 13] = [
    ("nobody", "name the component, or use the passive"),
    ("somebody", "name the component"),
    ("everybody", "name the components"),
    ("whoever", "name the component"),
    ("so many", "this many, or the name of the number"),
    ("door", "listener or protocol"),
    ("doors", "listeners or protocols"),
    ("master", "server"),
    ("floors", "layers"),
    ("a take", "a reserve or pop"),
    ("one take", "one reserve"),
    ("takes that wait", "reserves and pops that wait"),
    ("sign of life", "message, heartbeat"),
];

/// Where a banned word is right: the word, the beginning of the path, and why.
const ALLOWED_WORDS: [(&str, &str, &str); 11] = [
    ("", "tests/it/tidy/words.rs", "the list itself"),
    ("", "CONTRIBUTING.md", "it names the banned words"),
    ("master", "src/engine/shared/redis/start.rs", "the name of a role in what Redis reports"),
    ("master", "src/engine/shared/redis/locate.rs", "the same, and a name of a command"),
    ("master", "tests/it/durable_sim/node.rs", "the same"),
    ("master", "tests/it/process/engine/redis.rs", "the same"),
    ("master", "docs/redis.md", "the name of a command of Sentinels"),
    ("master", "tests/it/process/screens.rs", "Python's name of a side of a pseudoterminal"),
    ("master", "tests/it/process/processor/terminal.rs", "the same"),
    ("", "benches/results/", "reports of former versions are left as they were written"),
    ("a take", "docs/internals/decisions.md", "the name of a former design, in its history"),
];

/// What is wrong with the words of a file.
fn banned_words(file: &File) -> Vec<String> {
    let is_allowed = |word: &str| {
        let allows = |(known, path, _): &(&str, &str, &str)| {
            (known.is_empty() || *known == word) && file.path.starts_with(path)
        };
        ALLOWED_WORDS.iter().any(allows)
    };
    let mut wrong = Vec::new();
    for (word, instead) in BANNED_WORDS {
        if is_allowed(word) {
            continue;
        }
        for (number, line) in (1..).zip(file.text.lines()) {
            if contains_word(&line.to_ascii_lowercase(), word) {
                wrong.push(format!("{}:{number}: '{word}': {instead}", file.path));
            }
        }
    }
    wrong
}

/// Whether the word stands in the line as a whole word.
fn contains_word(line: &str, word: &str) -> bool {
    let is_letter = |it: char| it.is_ascii_alphanumeric() || it == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(is_letter) && !line[at + word.len()..].starts_with(is_letter)
    })
}

/// The folders whose files are checked when a path begins with them.
const FOLDERS: [&str; 5] = ["src/", "tests/", "benches/", "docs/", "examples/"];

/// The paths of files or folders of the repository that a line names.
fn named_paths(line: &str) -> Vec<&str> {
    let is_path = |it: char| it.is_ascii_alphanumeric() || "_-./*<>{}$…".contains(it);
    let mut found = Vec::new();
    for folder in FOLDERS {
        for (at, _) in line.match_indices(folder) {
            if line[..at].ends_with(is_path) {
                continue;
            }
            let end = line[at..].find(|it| !is_path(it)).map_or(line.len(), |end| at + end);
            let path = line[at..end].trim_end_matches(['.', '-']);
            // A pattern is no path.
            if !path.contains(['*', '<', '{', '$', '…']) {
                found.push(path);
            }
        }
    }
    found
}

/// Files that name paths of other repositories, of machines, or of former versions.
const FOREIGN_PATHS: [&str; 4] =
    ["CHANGELOG.md", "benches/results/", "tests/it/tidy/", "tests/it/documents/"];

/// What is wrong with the paths that a file names in its comments and texts.
fn dead_paths(file: &File, root: &Path) -> Vec<String> {
    if FOREIGN_PATHS.iter().any(|path| file.path.starts_with(path)) {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        for path in named_paths(line) {
            if !root.join(path).exists() {
                wrong.push(format!("{}:{number}: there is no {path}", file.path));
            }
        }
    }
    wrong
}

/// Width of lines in documents, in characters.
const COLUMNS_MAX: usize = 100;

/// Lines of a document that are too wide: tables, blocks of code and links may be.
fn wide_lines(file: &File) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut is_code = false;
    for (number, line) in (1..).zip(file.text.lines()) {
        let bare = line.trim_start();
        is_code ^= bare.starts_with("```");
        let is_free = is_code || bare.starts_with('|') || line.starts_with("    ");
        if !is_free && line.chars().count() > COLUMNS_MAX && bare.contains(' ') {
            wrong.push(format!("{}:{number}: wider than {COLUMNS_MAX} columns", file.path));
        }
    }
    wrong
}

/// Markdown files and manifests.
fn documents() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["docs", "benches", "flamegraphs", "examples", "tests"] {
        collect(&root.join(folder), root, "md", &mut files);
    }
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let extension = path.extension().and_then(|it| it.to_str());
        if path.is_file() && matches!(extension, Some("md" | "toml")) {
            files.push(File { path: name, text: std::fs::read_to_string(&path).unwrap() });
        }
    }
    assert!(files.len() > 20, "the documents were not found");
    files
}

fn all() -> Vec<File> {
    let mut files = super::files();
    files.extend(documents());
    files
}

#[test]
fn banned_words_occur_only_where_allowed() {
    let files = all();
    let paths: BTreeSet<&str> = files.iter().map(|file| &*file.path).collect();
    for (_, path, _) in ALLOWED_WORDS {
        assert!(paths.iter().any(|it| it.starts_with(path)), "{path} of the list does not exist");
    }
    assert_none(&files.iter().flat_map(banned_words).collect::<Vec<_>>());
}

#[test]
fn named_paths_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert_none(&all().iter().flat_map(|file| dead_paths(file, root)).collect::<Vec<_>>());
}

#[test]
fn documents_keep_the_line_width() {
    let mut files = documents();
    files.retain(|it| {
        let is_markdown = Path::new(&it.path).extension().is_some_and(|it| it == "md");
        is_markdown && !it.path.starts_with("benches/results/")
    });
    assert_none(&files.iter().flat_map(wide_lines).collect::<Vec<_>>());
}

#[test]
fn word_is_found_as_a_whole_word_only() {
    let file = |text: &str| File { path: "src/a.rs".into(), text: text.into() };
    assert_eq!(banned_words(&file("// Nobody\n// for so many reasons")).len(), 2);
    assert_eq!(banned_words(&file("// indoors, masterly, nobody_id")), [""; 0]);
    assert_eq!(banned_words(&File { path: "CONTRIBUTING.md".into(), ..file("nobody") }), [""; 0]);
}

#[test]
fn path_is_taken_out_of_its_sentence() {
    let line = "See `src/a/b.rs`, (docs/c.md) and src/d/. Not /x/src/e.rs or src/*.rs or src/<f>";
    assert_eq!(named_paths(line), ["src/a/b.rs", "src/d/", "docs/c.md"]);
}

#[test]
fn wide_prose_is_reported_and_wide_tables_are_not() {
    let wide = "x ".repeat(60);
    let text = format!("{wide}\n| {wide}\n```\n{wide}\n```\n    {wide}\n{wide}\n");
    let file = File { path: "a.md".into(), text };
    assert_eq!(wide_lines(&file).len(), 2);
}

//! Rules that the compiler does not check: which layer may name which, what is banned where, how
//! long files and functions may be. `docs/internals/overview.md` shows the layers.
//!
//! The ratchets are lists of exceptions with their sizes: they may shrink, never grow.

mod circles;
mod code;
mod words;

use code::{code_only, functions, lines_with, paths};
use std::collections::BTreeSet;
use std::path::Path;

/// The layers, from the lowest up: each folder of `src` with the folders that it may name besides
/// itself.
const LAYERS: [(&str, &[&str]); 13] = [
    ("base", &[]),
    ("model", &["base"]),
    // Which right a command needs.
    ("access", &["base", "model"]),
    ("schedule", &["base"]),
    ("wire", &["base"]),
    // Constraints look into payloads, whatever their encoding: at places, nothing else.
    ("store", &["base", "model", "schedule", "wire"]),
    ("journal", &["base"]),
    ("query", &["base", "model", "wire"]),
    // What several servers share is spoken to in RESP.
    ("engine", &["base", "model", "wire", "store", "journal", "query"]),
    ("protocol", &["base", "model", "access", "schedule", "wire"]),
    (
        "server",
        &["base", "model", "access", "wire", "store", "journal", "query", "engine", "protocol"],
    ),
    ("reactor", &["base", "model", "journal", "query"]),
    (
        "cli",
        &[
            "base", "model", "access", "wire", "store", "journal", "query", "engine", "protocol",
            "server", "reactor",
        ],
    ),
];

/// What may stand only in files that begin with one of these paths.
/// (`clippy.toml` bans methods: clocks, randomness, unnamed threads.)
const BANNED: [(&str, &[&str]); 13] = [
    // The load generator is a client program with a loop of its own.
    ("mio::", &["src/reactor/", "src/cli/bench/"]),
    (
        "std::fs",
        &[
            "src/reactor/disk/",
            "src/reactor/rss.rs",
            "src/reactor/server_tls.rs",
            "src/cli/",
            "tests/",
        ],
    ),
    (
        "thread::Builder",
        &[
            "src/reactor/background.rs",
            "src/reactor/disk/",
            "src/reactor/purge.rs",
            "src/reactor/query_threads.rs",
            "src/reactor/resolve.rs",
            // The worker is a client program that waits for others.
            "src/cli/work/",
        ],
    ),
    (
        "rustls::",
        &["src/reactor/tls.rs", "src/reactor/server_tls.rs", "src/reactor/client_tls.rs", "tests/"],
    ),
    ("std::net", &["src/reactor/", "src/cli/", "tests/"]),
    ("std::process", &["src/main.rs", "src/cli/", "tests/"]),
    ("println!", &["src/cli/", "tests/"]),
    ("eprintln!", &["src/cli/", "tests/"]),
    ("dbg!", &[]),
    ("todo!", &[]),
    ("unimplemented!", &[]),
    ("super::super", &[]),
    // SQLite calls a table by pointers; mimalloc is a C library; std has no thin pointers to slices
    // and no prefetch.
    (
        "unsafe",
        &["src/query/vtab.rs", "src/reactor/purge.rs", "src/base/thin.rs", "src/base/prefetch.rs"],
    ),
];

const LINE_MAX: usize = 100;
const FUNCTION_MAX: usize = 70;
const FILE_MAX: usize = 500;

/// Functions that are longer than [`FUNCTION_MAX`]: file, name, lines.
const LONG_FUNCTIONS: [(&str, &str, usize); 2] = [
    // One loop over segments.
    ("src/journal/recovery_scan.rs", "scan", 71),
    // A case for each kind of request, report or answer.
    ("tests/it/oracle/runs.rs", "report_run", 74),
];

/// Files that are longer than [`FILE_MAX`]: file, lines.
const LONG_FILES: [(&str, usize); 0] = [];

/// A file with its path from the root of the package.
struct File {
    path: String,
    text: String,
}

/// Adds the files below `folder` whose names end with `extension`.
fn collect(folder: &Path, root: &Path, extension: &str, files: &mut Vec<File>) {
    let mut entries: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, root, extension, files);
        } else if path.extension().is_some_and(|it| it == extension) {
            let text = std::fs::read_to_string(&path).unwrap();
            let path = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
            files.push(File { path, text });
        }
    }
}

/// All Rust files of the package itself and of this test binary.
fn files() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect(&root.join("src"), root, "rs", &mut files);
    collect(&root.join("tests/it"), root, "rs", &mut files);
    assert!(files.len() > 40, "the files were not found");
    files
}

/// What is wrong with the paths that `file` names. `protocols` are the folders of `src/protocol`.
fn wrong_paths(file: &File, protocols: &BTreeSet<String>) -> Vec<String> {
    let Some(inner) = file.path.strip_prefix("src/") else { return Vec::new() };
    let Some((layer, rest)) = inner.split_once('/') else { return Vec::new() };
    let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == layer) else {
        return vec![format!("{}: the folder {layer} is not in the table of layers", file.path)];
    };
    let code = code_only(&file.text);
    let mut wrong = Vec::new();
    let mut named: Vec<(usize, Vec<String>)> = paths(&code, "crate");
    if layer == "protocol" && rest.ends_with("/mod.rs") {
        let siblings = paths(&code, "super").into_iter();
        named.extend(siblings.map(|(line, path)| (line, [vec![layer.to_owned()], path].concat())));
    }
    for (line, path) in named {
        let Some(first) = path.first() else { continue };
        if first != layer && !allowed.contains(&first.as_str()) {
            wrong.push(format!("{}:{line}: {layer} must not name {first}", file.path));
        }
        let own = rest.split_once('/').map(|(folder, _)| folder);
        if let ("protocol", Some(own), Some(other)) = (layer, own, path.get(1))
            && first == "protocol"
            && protocols.contains(other)
            && other != own
        {
            wrong.push(format!("{}:{line}: {own} must not name {other}", file.path));
        }
    }
    wrong
}

fn banned_tokens(file: &File) -> Vec<String> {
    let code = code_only(&file.text);
    let mut wrong = Vec::new();
    for (token, places) in BANNED {
        if !places.iter().any(|place| file.path.starts_with(place)) {
            for line in lines_with(&code, token) {
                wrong.push(format!("{}:{line}: {token} has no place here", file.path));
            }
        }
    }
    for (number, line) in file.text.lines().enumerate() {
        // Written in two halves, so that this file may say it.
        if line.contains(concat!("FIX", "ME")) || line.contains(concat!("XX", "X")) {
            wrong.push(format!("{}:{}: something is left to be done", file.path, number + 1));
        }
    }
    wrong
}

fn layout(file: &File) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        if line.chars().count() > LINE_MAX {
            wrong.push(format!("{}:{}: longer than {LINE_MAX} columns", file.path, number + 1));
        }
    }
    if !file.text.starts_with("//!") && !file.text.starts_with("#![doc") {
        wrong.push(format!("{}: does not begin by saying what it is for", file.path));
    }
    wrong
}

/// What is longer than `max` and not, with just this length, in the list of exceptions; and what
/// is in that list and has no business there.
fn ratchet(sizes: &[(String, usize)], max: usize, exceptions: &[(String, usize)]) -> Vec<String> {
    let long: BTreeSet<_> = sizes.iter().filter(|(_, lines)| *lines > max).collect();
    let known: BTreeSet<_> = exceptions.iter().collect();
    let grown = long
        .difference(&known)
        .map(|(what, lines)| format!("{what}: {lines} lines are more than {max}: divide it"));
    let shrunk = known.difference(&long).map(|(what, lines)| {
        format!("{what}: is not {lines} lines long: tighten the list of exceptions")
    });
    grown.chain(shrunk).collect()
}

fn long_functions(files: &[File]) -> Vec<String> {
    let mut sizes = Vec::new();
    for file in files {
        for (name, _, lines) in functions(&code_only(&file.text)) {
            sizes.push((format!("{} {name}", file.path), lines));
        }
    }
    assert!(sizes.len() > 200, "the functions were not found");
    let exceptions = LONG_FUNCTIONS.map(|(path, name, lines)| (format!("{path} {name}"), lines));
    ratchet(&sizes, FUNCTION_MAX, &exceptions)
}

fn long_files(files: &[File]) -> Vec<String> {
    let sizes: Vec<_> =
        files.iter().map(|file| (file.path.clone(), file.text.lines().count())).collect();
    let exceptions = LONG_FILES.map(|(path, lines)| (path.to_owned(), lines));
    ratchet(&sizes, FILE_MAX, &exceptions)
}

/// Files that no module declares, so that the compiler never sees them.
fn orphans(files: &[File]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files {
        let Some((folder, name)) = file.path.rsplit_once('/') else { continue };
        if ["src/lib.rs", "src/main.rs", "tests/it/main.rs"].contains(&file.path.as_str()) {
            continue;
        }
        let (home, module) = match folder.rsplit_once('/') {
            Some((home, module)) if name == "mod.rs" => (home, module),
            _ => (folder, name.trim_end_matches(".rs")),
        };
        let parents = ["mod.rs", "lib.rs", "main.rs"].map(|name| format!("{home}/{name}"));
        let declared = files.iter().filter(|file| parents.contains(&file.path)).any(|parent| {
            !lines_with(&code_only(&parent.text), &format!("mod {module};")).is_empty()
        });
        if !declared {
            wrong.push(format!("{}: no module declares it", file.path));
        }
    }
    wrong
}

/// The folders of protocols. The operations of the native API are shared: two protocols speak them.
fn protocols(files: &[File]) -> BTreeSet<String> {
    let folders = files.iter().filter_map(|file| file.path.strip_prefix("src/protocol/"));
    let folders = folders.filter_map(|inner| Some(inner.split_once('/')?.0.to_owned()));
    folders.filter(|folder| folder != "operations").collect()
}

fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn no_layer_names_a_higher_one() {
    let files = files();
    let protocols = protocols(&files);
    assert!(protocols.contains("job_centre"), "the protocols were not found");
    for (number, (layer, allowed)) in LAYERS.iter().enumerate() {
        let below = |name: &&str| LAYERS[..number].iter().any(|(lower, _)| lower == name);
        assert!(allowed.iter().all(below), "{layer} may name what is not below it");
    }
    let wrong: Vec<_> = files.iter().flat_map(|file| wrong_paths(file, &protocols)).collect();
    assert_none(&wrong);
}

#[test]
fn overview_shows_the_table_of_layers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/internals/overview.md")).unwrap();
    let quoted = |cell: &str| -> Vec<String> {
        cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let rows = page.lines().filter(|line| line.starts_with("| L"));
    let shown: Vec<_> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').collect();
            (quoted(cells[2]), quoted(cells[5]))
        })
        .collect();
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let expected = LAYERS.map(|(layer, named)| (owned(&[layer]), owned(named)));
    assert_eq!(shown, expected);
}

#[test]
fn banned_tokens_occur_only_where_allowed() {
    assert_none(&files().iter().flat_map(banned_tokens).collect::<Vec<_>>());
}

#[test]
fn files_keep_the_layout_rules() {
    assert_none(&files().iter().flat_map(layout).collect::<Vec<_>>());
}

#[test]
fn files_and_functions_keep_their_length_limits() {
    let files = files();
    assert_none(&long_functions(&files));
    assert_none(&long_files(&files));
}

#[test]
fn every_file_is_declared_as_a_module() {
    assert_none(&orphans(&files()));
}

fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

#[test]
fn path_to_a_higher_layer_is_reported() {
    let protocols = BTreeSet::from(["job_centre".to_owned(), "pinpriq".to_owned()]);
    let wrong = |path: &str, text: &str| wrong_paths(&file(path, text), &protocols).len();
    assert_eq!(wrong("src/store/jobs.rs", "use crate::{base::x, model::y};"), 0);
    assert_eq!(wrong("src/store/jobs.rs", "use crate::{base::x,\n server::Server};"), 1);
    assert_eq!(wrong("src/store/jobs.rs", "fn a() { crate::engine::b() }"), 1);
    assert_eq!(wrong("src/store/jobs.rs", "/// See [`crate::engine`].\nuse super::x;"), 0);
    assert_eq!(wrong("src/base/heap.rs", "use crate::model::id::JobId;"), 1);
    assert_eq!(wrong("src/attic/mod.rs", ""), 1);
    assert_eq!(wrong("src/protocol/job_centre/mod.rs", "use crate::protocol::pinpriq::x;"), 1);
    assert_eq!(wrong("src/protocol/job_centre/mod.rs", "use super::{Step, pinpriq};"), 1);
    assert_eq!(wrong("src/protocol/job_centre/mod.rs", "use crate::protocol::Step;"), 0);
    assert_eq!(wrong("src/protocol/mod.rs", "use crate::protocol::pinpriq;"), 0);
}

#[test]
fn banned_token_is_reported() {
    let wrong = |path: &str, text: &str| banned_tokens(&file(path, text)).len();
    assert_eq!(wrong("src/server/mod.rs", "mio::Poll::new();"), 1);
    assert_eq!(wrong("src/reactor/mod.rs", "mio::Poll::new();"), 0);
    assert_eq!(wrong("src/server/mod.rs", "// mio::Poll\nlet a = \"todo!\";"), 0);
    assert_eq!(wrong("src/server/mod.rs", "use super::super::x; // FIX\u{4d}E"), 2);
    assert_eq!(wrong("src/base/mod.rs", "todo!(); dbg!(1);\nuse std::fs;"), 3);
    assert_eq!(wrong("src/base/mod.rs", "println!()"), 1);
    assert_eq!(wrong("src/query/rows.rs", "#![allow(unsafe_code)]\nunsafe { a() }"), 2);
    assert_eq!(wrong("src/query/vtab.rs", "unsafe { a() }"), 0);
}

#[test]
fn long_or_undocumented_file_is_reported() {
    let wide = format!("//! {}", "x".repeat(LINE_MAX));
    assert_eq!(layout(&file("src/a.rs", &wide)).len(), 1);
    assert_eq!(layout(&file("src/a.rs", "use b;")).len(), 1);
    assert_eq!(layout(&file("src/a.rs", "//! A.")).len(), 0);
    let entry = |name: &str, lines| (name.to_owned(), lines);
    let sizes = [entry("a", 70), entry("b", 71), entry("c", 90)];
    assert_eq!(ratchet(&sizes, 70, &[]).len(), 2);
    assert_eq!(ratchet(&sizes, 70, &[entry("b", 71), entry("c", 90)]).len(), 0);
    assert_eq!(ratchet(&sizes, 70, &[entry("b", 72), entry("c", 90)]).len(), 2);
    assert_eq!(ratchet(&sizes, 70, &[entry("a", 70), entry("b", 71), entry("c", 90)]).len(), 1);
}

#[test]
fn undeclared_file_is_reported() {
    let lib = file("src/lib.rs", "pub mod a;");
    let module = file("src/a/mod.rs", "mod b;\n// mod c;");
    let files = [lib, module, file("src/a/b.rs", ""), file("src/a/c.rs", "")];
    assert_eq!(orphans(&files), ["src/a/c.rs: no module declares it"]);
}

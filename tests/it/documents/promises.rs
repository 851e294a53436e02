//! The table of promises over Redis: each line names a test, and each test is there.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut String) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_promise_over_redis_names_tests_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/redis-promises.md")).unwrap();
    let mut tests = String::new();
    sources(&root.join("tests/it"), &mut tests);
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let rows: Vec<&str> = rows.filter(|row| !row.starts_with("| promise ")).collect();
    assert!(rows.len() > 15, "the table was not found");
    for row in rows {
        let tested = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let names: Vec<&str> = tested.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test: {row}");
        for name in names {
            assert!(tests.contains(&format!("\nfn {name}() {{")), "there is no test {name}: {row}");
        }
    }
}

//! `docs/internals/where-is.md`: each file exists, and defines what stands beside it.

use super::files::root;
use std::fs;

const PAGE: &str = "docs/internals/where-is.md";

/// The words between backquotes.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Whether a text defines this function, type or constant.
fn defines(text: &str, name: &str) -> bool {
    let keywords = ["fn", "struct", "enum", "trait", "type", "const", "static"];
    keywords.iter().any(|keyword| {
        let definition = format!("{keyword} {name}");
        text.match_indices(&definition).any(|(at, found)| {
            let rest = &text[at + found.len()..];
            !rest.starts_with(|it: char| it.is_ascii_alphanumeric() || it == '_')
        })
    })
}

#[test]
fn every_name_is_defined_in_the_file_beside_it() {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let (mut wrong, mut rows) = (Vec::new(), 0);
    for line in page.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        assert_eq!(cells.len(), 3, "{line}");
        let mut text = String::new();
        for path in quoted(cells[1]) {
            rows += 1;
            match fs::read_to_string(root().join(path)) {
                Ok(file) => text.push_str(&file),
                Err(_) => wrong.push(format!("there is no {path}")),
            }
        }
        let missing = quoted(cells[2]).into_iter().filter(|name| !defines(&text, name));
        wrong.extend(missing.map(|name| format!("{} defines no {name}", cells[1].trim())));
    }
    assert!(rows > 40, "the rows were not found");
    assert!(wrong.is_empty(), "{PAGE}:\n{}", wrong.join("\n"));
}

#[test]
fn definition_is_a_whole_word() {
    assert!(defines("pub(super) fn seal(frame", "seal"));
    assert!(!defines("fn sealed() { seal() }", "seal"));
}

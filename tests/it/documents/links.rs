//! Every relative link of a document leads to a file, and to a heading if it names one; and every
//! page is in the table of contents.

use super::files::{Document, all_documents, root};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// The table of contents (mdBook).
const SUMMARY: &str = "docs/SUMMARY.md";

/// The lines of a document that are no code, with their numbers; code within a line is left out.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut fence = None;
    for (number, line) in (1..).zip(text.lines()) {
        let bare = line.trim_start();
        let ticks = bare.len() - bare.trim_start_matches('`').len();
        match fence {
            None if ticks >= 3 => fence = Some(ticks),
            None => lines.push((number, line.to_owned())),
            Some(open) if ticks >= open && bare.trim_matches('`').trim().is_empty() => fence = None,
            Some(_) => {}
        }
    }
    lines
}

/// The line without what stands between backquotes.
fn without_code(line: &str) -> String {
    let pieces: Vec<&str> = line.split('`').collect();
    let is_text = |(number, piece): (usize, &&str)| {
        // A backquote without another one is a character like others.
        let is_last = number + 1 == pieces.len();
        (number % 2 == 0 || is_last).then(|| (*piece).to_owned())
    };
    pieces.iter().enumerate().filter_map(is_text).collect()
}

/// The destinations of links and pictures, with the numbers of their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(&line);
        for rest in line.split("](").skip(1) {
            let destination = rest.split(')').next().unwrap_or_default();
            let destination = destination.split_whitespace().next().unwrap_or_default();
            found.push((number, destination.to_owned()));
        }
        if let Some((label, destination)) = line.split_once("]: ")
            && label.starts_with('[')
        {
            found.push((number, destination.trim().to_owned()));
        }
    }
    found
}

/// The anchor that forges and mdBook make of a heading.
fn anchor(heading: &str) -> String {
    let mut text = heading.trim().to_owned();
    // Of a link only its text counts.
    while let (Some(middle), Some(start)) = (text.find("]("), text.find('[')) {
        let Some(end) = text[middle..].find(')') else { break };
        text.replace_range(middle..=middle + end, "");
        text.remove(start);
    }
    let kept = text.chars().filter(|it| it.is_alphanumeric() || [' ', '-', '_'].contains(it));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// The anchors of a document.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in prose(text) {
        let level = line.len() - line.trim_start_matches('#').len();
        if (1..=6).contains(&level) && line[level..].starts_with(' ') {
            let base = anchor(&line[level..]);
            let (mut own, mut number) = (base.clone(), 0);
            while !found.insert(own) {
                number += 1;
                own = format!("{base}-{number}");
            }
        }
        for part in line.split("<a id=\"").skip(1) {
            found.extend(part.split('"').next().map(str::to_owned));
        }
    }
    found
}

/// The path without `.` and `..`; none if it leads out of the repository.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => normal.push(name),
            Component::CurDir => {}
            Component::ParentDir => normal.pop().then_some(())?,
            _ => return None,
        }
    }
    Some(normal)
}

/// What is wrong with a link of `document`.
fn complaint(document: &Document, all: &[Document], link: &str) -> Option<&'static str> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = link.split_once('#').map_or((link, None), |(it, to)| (it, Some(to)));
    let folder = Path::new(&document.name).parent().unwrap();
    let target = match path {
        "" => PathBuf::from(&document.name),
        _ => match normal(&folder.join(path)) {
            Some(target) if root().join(&target).exists() => target,
            _ => return Some("there is no such file"),
        },
    };
    let heading = heading?;
    let target = all.iter().find(|it| Path::new(&it.name) == target);
    let is_there = target.is_none_or(|target| anchors(&target.text).contains(heading));
    (!is_there).then_some("that page has no such heading")
}

#[test]
fn every_link_has_a_target() {
    let all = all_documents();
    assert!(all.iter().any(|it| it.name == "README.md"), "the documents were not found");
    let mut wrong = Vec::new();
    for document in &all {
        for (line, link) in links(&document.text) {
            if let Some(why) = complaint(document, &all, &link) {
                wrong.push(format!("{}:{line}: {link}: {why}", document.name));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let all = all_documents();
    let summary = all.iter().find(|it| it.name == SUMMARY).expect("there is docs/SUMMARY.md");
    let listed: BTreeSet<_> = links(&summary.text)
        .into_iter()
        .filter_map(|(_, link)| normal(&Path::new("docs").join(link)))
        .collect();
    let is_missing = |page: &&Document| {
        page.name.starts_with("docs/")
            && page.name != SUMMARY
            && !listed.contains(Path::new(&page.name))
    };
    let missing: Vec<_> = all.iter().filter(is_missing).map(|page| &page.name).collect();
    assert!(missing.is_empty(), "{SUMMARY} does not list {missing:?}");
}

#[test]
fn links_inside_code_are_ignored() {
    let text =
        "a [b](c.md) ![d](e.svg \"f\")\n```text\n[g](h)\n```\n`[i](j)` [k `l`](m#n)\n[o]: p\n";
    let expected = [(1, "c.md"), (1, "e.svg"), (5, "m#n"), (6, "p")];
    assert_eq!(links(text), expected.map(|(line, link)| (line, link.to_owned())));
}

#[test]
fn anchors_follow_the_rules_of_github() {
    let text = "# A `--flag`, B & C\n\n## The [link](x.md) here\n### Same\n### Same\n\
        ```sh\n# no heading\n```\n<a id=\"own\"></a>\n";
    let expected = ["a---flag-b--c", "own", "same", "same-1", "the-link-here"];
    assert_eq!(anchors(text).into_iter().collect::<Vec<_>>(), expected);
}

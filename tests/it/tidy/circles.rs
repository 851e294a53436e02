//! Circles of files: files of one layer that name each other, directly or through others. A file
//! and the `mod.rs` of a folder around it may name each other.

use super::File;
use super::code::{code_only, paths};
use std::collections::{BTreeMap, BTreeSet};

/// The path of a module below `src`, without `mod`.
type Module = Vec<String>;

/// The circles that there may be: files, or folders with all files in them. What one entry names
/// may name each other.
const CIRCLES: [&[&str]; 3] = [
    // A message of the tracker shows bytes as those of the protocols do.
    &["cli/bench/job_tracker", "cli/bench/protocols"],
    // The table's words for numbers stand in the report, too.
    &["cli/bench/report", "cli/bench/table"],
    // Standard input and output are one kind of stream, and their driver moves bytes as a socket.
    &["reactor/socket", "reactor/stdio"],
];

fn module_of(path: &str) -> Option<Module> {
    let inner = path.strip_prefix("src/")?.strip_suffix(".rs")?;
    let inner = inner.strip_suffix("/mod").unwrap_or(inner);
    let parts: Module = inner.split('/').map(str::to_owned).collect();
    let is_test = parts.iter().any(|part| part == "tests");
    (!is_test && !["lib", "main"].contains(&inner)).then_some(parts)
}

/// The code of a file without its tests.
fn tested_code(text: &str) -> String {
    let code = code_only(text);
    let end = code.find("#[cfg(test)]\nmod tests {").unwrap_or(code.len());
    code[..end].to_owned()
}

/// The modules with their code.
struct Modules(BTreeMap<Module, String>);

impl Modules {
    fn new(files: &[File]) -> Self {
        let module = |file: &File| Some((module_of(&file.path)?, tested_code(&file.text)));
        Self(files.iter().filter_map(module).collect())
    }

    /// What folders re-export, and from which module.
    fn exports(&self) -> BTreeMap<(Module, String), Module> {
        let mut found = BTreeMap::new();
        for (module, code) in &self.0 {
            let children = self.0.keys().filter(|child| child.split_last().unwrap().1 == module);
            let children: Vec<&String> = children.filter_map(|child| child.last()).collect();
            for statement in code.split(';').filter(|statement| statement.contains("pub")) {
                let Some((_, names)) = statement.split_once("use ") else { continue };
                for child in &children {
                    for (_, path) in paths(names, child) {
                        let target = [&module[..], &[(*child).clone()], &path].concat();
                        let Some(name) = target.last().cloned() else { continue };
                        found.insert((module.clone(), name), self.known_prefix(&target).to_vec());
                    }
                }
            }
        }
        found
    }

    /// The longest beginning of a path that is a module.
    fn known_prefix<'a>(&self, path: &'a [String]) -> &'a [String] {
        let lengths = (0..=path.len()).rev();
        let mut prefixes = lengths.map(|length| &path[..length]);
        prefixes.find(|prefix| self.0.contains_key(*prefix)).unwrap_or_default()
    }

    /// The modules of its layer that each module names, without folders around it or below it.
    fn named(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let exports = self.exports();
        let mut named = BTreeMap::new();
        for (module, code) in &self.0 {
            let parent = module.split_last().map_or(&[][..], |(_, parent)| parent);
            let mut all = BTreeSet::new();
            for (root, base) in [("crate", &[][..]), ("super", parent), ("self", module)] {
                for (_, path) in paths(code, root) {
                    let path = [base, &path].concat();
                    let prefix = self.known_prefix(&path);
                    let export = path.get(prefix.len()).cloned();
                    let export = export.and_then(|name| exports.get(&(prefix.to_vec(), name)));
                    all.insert(export.cloned().unwrap_or_else(|| prefix.to_vec()));
                }
            }
            all.retain(|other| {
                let is_around = module.starts_with(other) || other.starts_with(module);
                !is_around && other.first() == module.first()
            });
            named.insert(module, all);
        }
        named
    }
}

/// The circles: sets of modules of which each reaches each.
fn circles(files: &[File]) -> BTreeSet<Vec<String>> {
    let modules = Modules::new(files);
    let named = modules.named();
    let reach = |from: &Module| {
        let mut reached = BTreeSet::new();
        let mut open = vec![from.clone()];
        while let Some(module) = open.pop() {
            for next in named.get(&module).into_iter().flatten() {
                if reached.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        reached
    };
    let reached: BTreeMap<&Module, BTreeSet<Module>> =
        named.keys().map(|&module| (module, reach(module))).collect();
    let mut found = BTreeSet::new();
    for (module, others) in &reached {
        let back = |other: &&Module| reached[*other].contains(*module);
        let circle: Vec<String> = others.iter().filter(back).map(|path| path.join("/")).collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found
}

/// The circles that `accepted` does not list, and its entries in which there is no circle.
pub(super) fn wrong_circles(files: &[File], accepted: &[&[&str]]) -> Vec<String> {
    let found = circles(files);
    let within = |circle: &[String], entry: &[&str]| {
        let is_in = |module: &str, name: &str| {
            module.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        circle.iter().all(|module| entry.iter().any(|name| is_in(module, name)))
    };
    let new = found.iter().filter(|circle| !accepted.iter().any(|entry| within(circle, entry)));
    let new = new.map(|circle| format!("{}: a circle of files", circle.join(", ")));
    let gone = accepted.iter().filter(|entry| !found.iter().any(|circle| within(circle, entry)));
    let gone = gone.map(|entry| format!("{}: no circle: take it out", entry.join(", ")));
    new.chain(gone).collect()
}

#[test]
fn files_of_a_layer_form_no_circles() {
    super::assert_none(&wrong_circles(&super::files(), &CIRCLES));
}

#[test]
fn circle_is_reported() {
    let wrong = |files: &[(&str, &str)], accepted: &[&[&str]]| {
        let files: Vec<File> = files.iter().map(|(path, text)| super::file(path, text)).collect();
        wrong_circles(&files, accepted).len()
    };
    let a = ("src/store/a.rs", "use super::b::{X, y};");
    let b = ("src/store/b/mod.rs", "mod e;\npub use e::Z;\nuse crate::store::c::*;");
    let back = ("src/store/c.rs", "fn f() { super::a::g() }");
    let by_test = ("src/store/c.rs", "#[cfg(test)]\nmod tests { use crate::store::a; }");
    let by_comment = ("src/store/c.rs", "// use super::a;");
    assert_eq!(wrong(&[a, b, back], &[]), 1);
    assert_eq!(wrong(&[a, b, by_test], &[]), 0);
    assert_eq!(wrong(&[a, b, by_comment], &[]), 0);
    assert_eq!(wrong(&[a, b, back], &[&["store/a", "store/b", "store/c"]]), 0);
    assert_eq!(wrong(&[a, b, back], &[&["store/a", "store/b"]]), 2);
    assert_eq!(wrong(&[a, b], &[&["store/a", "store/b"]]), 1);
    let inner = ("src/store/b/e.rs", "use super::Y;\nuse crate::store::a::X;");
    let exported = ("src/store/a.rs", "use super::b::Z;");
    assert_eq!(wrong(&[exported, b, inner], &[]), 1);
    assert_eq!(wrong(&[("src/store/a.rs", ""), b, inner], &[]), 0);
}

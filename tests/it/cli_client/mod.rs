//! The client verbs as a user types them, against a real server: one transcript for each verb in
//! `tests/cli`, in which all examples of its help are run.

mod cancelled_actions;
mod columns;
mod signals;
mod terminal;
mod transcript;

use crate::support::Program;
use std::fs;
use std::path::{Path, PathBuf};
use transcript::Transcript;

/// Commands that are no client verbs, or whose help is tested elsewhere.
const OTHERS: [&str; 10] = [
    "serve",
    "bench",
    "journal",
    "import-binlog",
    "beanstalkd",
    "work",
    "token",
    "user",
    "engine",
    "help",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli")
}

/// The help on a terminal of 80 columns.
fn help(words: &[&str]) -> String {
    let output = Program::output(words, &[("COLUMNS", "80")]);
    assert!(output.status.success(), "{words:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The client verbs that the help names.
fn verbs() -> Vec<String> {
    let text = help(&["--help"]);
    let (_, list) = text.split_once("Commands:\n").unwrap();
    let list = list.split("\n\n").next().unwrap();
    let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    let verbs: Vec<String> =
        names.filter(|name| !OTHERS.contains(name)).map(str::to_owned).collect();
    assert!(verbs.len() > 15, "the verbs were not found: {text}");
    verbs
}

#[test]
fn every_verb_prints_what_its_transcript_shows() {
    let mut names: Vec<PathBuf> =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let handles: Vec<_> = names
        .into_iter()
        .map(|path| (path.clone(), std::thread::spawn(move || transcript::play(&path))))
        .collect();
    let failed: Vec<_> = handles
        .into_iter()
        .filter_map(|(path, handle)| handle.join().is_err().then_some(path))
        .collect();
    assert!(failed.is_empty(), "see above: {failed:?}");
}

#[test]
fn every_help_fits_a_terminal() {
    for verb in verbs() {
        for flag in ["-h", "--help"] {
            let text = help(&[&verb, flag]);
            let wide = text.lines().find(|line| line.chars().count() > 80);
            assert_eq!(wide, None, "{verb} {flag}");
        }
    }
}

#[test]
fn every_example_of_the_help_is_in_the_transcript_of_its_verb() {
    for verb in verbs() {
        let text = help(&[&verb, "--help"]);
        let Some((_, examples)) = text.split_once("Examples:\n") else {
            panic!("the help of {verb} has no examples")
        };
        let path = folder().join(format!("{verb}.txt"));
        let played =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let transcript = Transcript::parse(&played);
        for example in examples.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let is_run = transcript.steps.iter().any(|step| step.command == example);
            assert!(is_run, "{}: the example is not run: {example}", path.display());
        }
    }
}

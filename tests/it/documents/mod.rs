//! What the documents show is what happens: every session in them is played against a real server,
//! as a reader would, and the answers are compared.
//!
//! The documents are `README.md` and the pages below `docs/`. Each one is played on its own, from
//! top to bottom, against a server of its own, which its first `sh` block starts. A document whose
//! first `sh` block starts no server is not played, and must not show a session.
//!
//! | block | what is done |
//! |---|---|
//! | `sh` | run by bash; a line that only starts `serve` starts the server anew |
//! | `python` | run by python3 |
//! | `python NAME`, `javascript NAME`, `bash NAME`, `toml NAME` | saved as the file NAME |
//! | `text` with lines `--> ...` | the other lines are sent to the server, these must come back |
//! | `text` with lines `$ ...` | the commands are run, and must print the lines below them |
//! | other `text` | what the last `sh` or `python` block must have printed |
//! | `json` | the first line that it must have printed |
//! | another kind, or none | shown only |
//!
//! Ports are those that a document names, mapped to free ones. What differs from run to run is
//! masked ([`fits`]): timestamps, Unix seconds and UUIDs, and whatever the document leaves out by
//! `…`.
//!
//! Besides: links and the table of contents ([`links`]), and the pages that are generated from the
//! program ([`reference`]).

mod blocks;
mod files;
pub(crate) mod fits;
mod links;
mod promises;
mod reader;
mod reference;
mod where_is;

use blocks::{Block, blocks};
use files::Document;
use fits::fits;
use reader::Reader;
use std::process::{Command, Stdio};

/// Blocks that are not played: the document, a piece of the block, and why.
const NOT_PLAYED: [(&str, &str, &str); 2] = [
    ("README.md", "cargo test", "this is it"),
    (
        "docs/protocols/processor.md",
        "examples/mqtt-bridge",
        "it takes a broker: tests/mqtt/run plays it",
    ),
];

fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// Whether a line of the block only starts a server.
fn starts_server(block: &Block) -> bool {
    let start = |line: &str| reader::program_line(line).is_some_and(|words| words[0] == "serve");
    block.lines().any(start)
}

/// Takes out what a machine without Node.js cannot run, with what it would have printed.
fn leave_out_node(blocks: &mut Vec<Block>) {
    let is_node = |block: &Block| block.lines().any(|line| line.starts_with("node "));
    while let Some(place) = blocks.iter().position(is_node) {
        eprintln!("skipped: there is no node for {}", blocks[place].place);
        blocks.drain(place..(place + 2).min(blocks.len()));
    }
}

/// Plays a document, and takes the blocks that it leaves out off the list.
fn play(document: &Document, not_played: &mut Vec<(&str, &str, &str)>) {
    let mut is_left_out = |block: &Block| {
        let is = |(name, piece, _): &(&str, &str, &str)| {
            *name == document.name && block.text.contains(piece)
        };
        not_played.iter().position(is).map(|place| not_played.remove(place)).is_some()
    };
    let mut blocks = blocks(&document.name, &document.text);
    blocks.retain(|block| !is_left_out(block));
    if !is_there("node") {
        leave_out_node(&mut blocks);
    }
    if !blocks.iter().find(|block| block.kind == "sh").is_some_and(starts_server) {
        for block in &blocks {
            let is_session = block.lines().any(|line| line.starts_with("--> "));
            assert!(!is_session, "{}: no block before this session starts a server", block.place);
        }
        return;
    }
    let mut reader = Reader::new();
    for block in &blocks {
        reader.play(block);
    }
    reader.finish();
}

#[test]
fn every_session_in_the_documents_runs_as_printed() {
    for program in ["bash", "curl", "python3"] {
        if !is_there(program) {
            eprintln!("skipped: there is no {program} to follow the documents with");
            return;
        }
    }
    let mut not_played = Vec::from(NOT_PLAYED);
    for document in files::user_documents() {
        play(&document, &mut not_played);
    }
    assert!(not_played.is_empty(), "no document has these any more: {not_played:?}");
}

//! What the documents show is what happens: every session in them is played in order against one
//! real server, as a reader would, and the answers are compared.
//!
//! A document has fenced blocks, and what is done with one follows from what it holds:
//!
//! | block | what is done |
//! |---|---|
//! | `sh` | run by bash; a line that only starts `serve` starts the server anew |
//! | `python` | run by python3 |
//! | `text` with lines `--> ...` | the other lines are sent to the server, these must come back |
//! | `text` with lines `$ ...` | the commands are run, and must print the lines below them |
//! | other `text` | what the last `sh` or `python` block must have printed |
//! | `json` | the first line that it must have printed |
//!
//! Ports are those that a document names, mapped to free ones. What differs from run to run is
//! masked ([`fits`]): moments, Unix seconds and UUIDs, and whatever the document leaves out by `…`.

mod blocks;
mod fits;
mod reader;

use blocks::{Block, blocks};
use fits::fits;
use reader::Reader;
use std::path::Path;
use std::process::{Command, Stdio};

/// The documents, in the order in which they are read.
const DOCUMENTS: [&str; 1] = ["README.md"];

/// Blocks that are not played: a piece of the block, and why.
const NOT_PLAYED: [(&str, &str); 3] = [
    ("cargo test", "this is it"),
    ("bench cycle", "it loads the machine for long: tests/it/bench plays the generator"),
    ("examples/mqtt-bridge", "it takes a broker: tests/mqtt/run plays it"),
];

fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

#[test]
fn every_session_of_the_documents_goes_as_it_is_shown() {
    for program in ["bash", "curl", "python3"] {
        if !is_there(program) {
            eprintln!("skipped: there is no {program} to follow the documents with");
            return;
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut reader = Reader::new();
    let mut not_played = Vec::from(NOT_PLAYED);
    for document in DOCUMENTS {
        let text = std::fs::read_to_string(root.join(document)).unwrap();
        for block in blocks(document, &text) {
            let left_out = not_played.iter().position(|(piece, _)| block.text.contains(piece));
            match left_out {
                Some(place) => drop(not_played.remove(place)),
                None => reader.play(&block),
            }
        }
    }
    reader.finish();
    assert!(not_played.is_empty(), "no document has these any more: {not_played:?}");
}

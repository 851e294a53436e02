//! Damaged data directories.

use super::faults::refusal;
use super::{OK, serve};
use crate::support::{NO_JOB, Program, TempDir, delete, get, number, put};
use memchr::memmem;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Flips a bit of the only place in the file where `text` stands; returns that place.
fn flip(file: &Path, text: &str) -> usize {
    let bytes = fs::read(file).unwrap();
    let places: Vec<_> = memmem::find_iter(&bytes, text).collect();
    assert_eq!(places.len(), 1, "{text} stands at {places:?}");
    overwrite(file, places[0], &[bytes[places[0]] ^ 1]);
    places[0]
}

fn overwrite(file: &Path, at: usize, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(file).unwrap();
    file.write_all_at(bytes, at as u64).unwrap();
}

/// A directory in which a server was killed that had these jobs, each in a batch of its own.
fn filled(jobs: &[&str]) -> TempDir {
    let dir = TempDir::new();
    let server = serve(&dir, &[]);
    let mut client = server.connect();
    for job in jobs {
        client.ask(&put("q", 1, job));
    }
    drop(server);
    dir
}

/// The number behind `byte `.
fn place(text: &str) -> usize {
    let (_, rest) = text.split_once(", byte ").unwrap();
    rest.split(':').next().unwrap().parse().unwrap()
}

#[test]
fn damaged_batch_is_rejected_and_the_rest_is_salvaged() {
    let jobs = [r#"{"a":"first"}"#, r#"{"a":"second"}"#, r#"{"a":"third"}"#];
    let dir = filled(&jobs);
    let segment = &dir.segments()[0];
    let damaged = flip(segment, "second");

    let text = refusal(dir.text());
    let out = TempDir::new();
    let commands = format!("jobcentre journal salvage {} OUT", dir.text());
    assert!(text.contains(segment.to_str().unwrap()), "{text}");
    assert!(text.contains("damaged") && text.contains(&commands), "{text}");
    assert!((damaged - 128..damaged).contains(&place(&text)), "{damaged}: {text}");
    let check = Program::output(&["journal", "check", dir.text()], &[]);
    assert_eq!(check.status.code(), Some(1));
    let complaint = String::from_utf8(check.stderr).unwrap();
    assert!(complaint.contains(&format!(", byte {}", place(&text))), "{complaint}");
    let dump = Program::output(&["journal", "dump", dir.text()], &[]);
    assert_eq!(dump.status.code(), Some(1));

    let salvage = Program::output(&["journal", "salvage", dir.text(), out.text()], &[]);
    let text = String::from_utf8(salvage.stdout).unwrap();
    assert_eq!(salvage.status.code(), Some(0), "{text}");
    assert!(text.contains("skipped") && text.contains(segment.to_str().unwrap()), "{text}");
    assert!(text.contains("lost"), "{text}");
    let again = Program::output(&["journal", "salvage", dir.text(), out.text()], &[]);
    assert_eq!(again.status.code(), Some(1), "nothing is written over");
    let server = serve(&out, &[]);
    let mut client = server.connect();
    assert!(client.ask(&get("q")).contains("first"));
    assert!(client.ask(&get("q")).contains("third"));
    assert_eq!(client.ask(&get("q")), NO_JOB);
    assert_eq!(number(&client.ask(&put("q", 1, "{}")), "id"), 4);
}

#[test]
fn torn_tail_is_cut_and_reported() {
    let dir = filled(&[r#"{"a":"first"}"#, r#"{"a":"second"}"#]);
    let segment = dir.segments()[0].clone();
    flip(&segment, "second");
    let check = Program::output(&["journal", "check", dir.text()], &[]);
    assert_eq!(check.status.code(), Some(0), "a crash may leave this");
    let text = String::from_utf8(check.stdout).unwrap();
    assert!(text.contains("torn tail") && text.contains(segment.to_str().unwrap()), "{text}");

    let server = serve(&dir, &[]);
    server.wait_for_log("is skipped");
    let lines = server.log_lines();
    let line = lines.iter().find(|line| line.contains("is skipped")).unwrap();
    let json: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(json["level"], "WARN");
    assert_eq!(json["file"], segment.to_str().unwrap());
    assert!(json["offset"].as_u64().unwrap() > 64 && json["bytes"].as_u64().unwrap() > 0, "{line}");
    let mut client = server.connect();
    assert!(client.ask(&get("q")).contains("first"));
    assert_eq!(client.ask(&get("q")), NO_JOB);
    client.ask(&put("q", 1, r#"{"a":"later"}"#));
    drop(server);
    let server = serve(&dir, &[]);
    server.wait_for_log("serving");
    let warned = server.log_lines().iter().any(|line| line.contains("WARN"));
    assert!(!warned, "what was skipped stays skipped: {:?}", server.log_lines());
    let mut client = server.connect();
    assert!(client.ask(&get("q")).contains("first"));
    assert!(client.ask(&get("q")).contains("later"));
}

#[test]
fn newer_format_is_rejected_and_left_unchanged() {
    let dir = filled(&["{}"]);
    let segment = &dir.segments()[0];
    let mut header = fs::read(segment).unwrap()[..64].to_vec();
    header[8..12].copy_from_slice(&77_u32.to_le_bytes());
    let sum = crc32c::crc32c(&header[..60]);
    header[60..].copy_from_slice(&sum.to_le_bytes());
    overwrite(segment, 0, &header);
    let text = refusal(dir.text());
    assert!(text.contains("format 77") && text.contains(segment.to_str().unwrap()), "{text}");
    for command in ["check", "dump"] {
        let output = Program::output(&["journal", command, dir.text()], &[]);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8(output.stderr).unwrap().contains("format 77"));
    }
}

#[test]
fn foreign_files_are_named_and_left_unchanged() {
    let dir = filled(&["{}"]);
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    let server = serve(&dir, &[]);
    server.wait_for_log("notes.txt");
    assert_eq!(server.connect().ask(&delete(1)), OK);
    assert_eq!(fs::read(dir.path().join("notes.txt")).unwrap(), b"mine");
}

#[test]
fn directory_without_any_segment_is_rejected_by_serve_and_check() {
    let dir = filled(&["{}"]);
    let segments = dir.segments();
    for segment in &segments {
        fs::rename(segment, segment.with_extension("away")).unwrap();
    }
    let text = refusal(dir.text());
    let lock = dir.path().join("lock");
    assert!(
        text.contains("the journal is gone") && text.contains(lock.to_str().unwrap()),
        "{text}"
    );
    let check = Program::output(&["journal", "check", dir.text()], &[]);
    assert_eq!(check.status.code(), Some(1));
    let complaint = String::from_utf8(check.stderr).unwrap();
    assert!(text.ends_with(complaint.strip_prefix("error: ").unwrap()), "{complaint}");
    // As it is said there.
    let out = TempDir::new();
    let salvage = Program::output(&["journal", "salvage", dir.text(), out.text()], &[]);
    assert_eq!(salvage.status.code(), Some(0));
    fs::remove_file(lock).unwrap();
    let server = serve(&dir, &[]);
    server.wait_for_log(r#""jobs":0"#);
    assert_eq!(serve(&out, &[]).connect().ask(&delete(1)), OK);
}

#[test]
fn missing_segment_is_named() {
    // Enough bytes for a second segment.
    let job = format!(r#"{{"x":"{}"}}"#, "x".repeat(1_000_000));
    let dir = TempDir::new();
    let server = serve(&dir, &["--fsync", "never"]);
    let mut client = server.connect();
    for _ in 0..40 {
        client.ask(&put("q", 1, &job));
    }
    drop(server);
    fs::remove_file(&dir.segments()[0]).unwrap();
    let text = refusal(dir.text());
    assert!(text.contains("0000000000000001.seg") && text.contains("salvage"), "{text}");
}

//! A data directory that each release has left behind (`tests/releases/make`) is read as it was.

use super::serve;
use crate::support::{Program, TempDir, plain_command};
use std::fs;
use std::path::{Path, PathBuf};

/// The archives, each with what its `journal dump` printed beside it.
fn archives() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/releases");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|it| it == "gz")).collect()
}

/// The ids of a queue's jobs, and what else they say that the clock does not change.
const QUEUES: [(&str, &str, &str); 5] = [
    ("letters", "7 8 9 10", r#""pri":0,"job":2"#),
    ("other", "6", r#""queue":"other""#),
    ("kept", "11 12 13 14 15", r#""error":"Timeout","message":"no answer""#),
    ("paused", "16 17 18 19 20", r#""max_attempts":null"#),
    ("indexed", "28", r#""job":{"a":[1,2]}"#),
];

#[test]
fn directory_of_each_release_is_read_as_it_was() {
    let archives = archives();
    assert!(!archives.is_empty());
    for archive in archives {
        let shown = archive.display();
        let dir = TempDir::new();
        fs::create_dir(dir.path()).unwrap();
        let unpacked = plain_command("tar")
            .args(["-xzf", archive.to_str().unwrap(), "--strip-components=1", "-C", dir.text()])
            .status();
        assert!(unpacked.unwrap().success(), "{shown}");
        let dump = Program::output(&["journal", "dump", dir.text()], &[]);
        let expected = archive.with_extension("").with_extension("txt");
        let expected = fs::read_to_string(expected).unwrap();
        assert_eq!(String::from_utf8(dump.stdout).unwrap(), expected, "{shown}");

        let server = serve(&dir, &[]);
        let mut client = server.connect();
        for (queue, ids, part) in QUEUES {
            let answer = client.ask(&format!(r#"{{"request":"list","queue":"{queue}"}}"#));
            assert!(answer.contains(part), "{shown}: {queue}: {answer}");
            let mut found: Vec<u64> = answer
                .split(r#"{"id":"#)
                .skip(1)
                .map(|item| item.split(',').next().unwrap().parse().unwrap())
                .collect();
            found.sort_unstable();
            let found: Vec<String> = found.iter().map(u64::to_string).collect();
            assert_eq!(found.join(" "), ids, "{shown}: {queue}");
        }
        let paused = client.ask(r#"{"request":"stats","queue":"paused"}"#);
        assert!(paused.contains(r#""paused":true,"paused_until":null"#), "{shown}: {paused}");
    }
}

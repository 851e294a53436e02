//! `--max-memory` with a data directory.

use super::serve;
use crate::support::{NO_JOB, Program, TempDir, get, number, put};

#[test]
fn start_stops_if_the_journal_holds_more_than_max_memory() {
    let dir = TempDir::new();
    let server = serve(&dir, &["--max-memory", "1MiB"]);
    server.wait_for_log(r#""max_memory":"1048576""#);
    let mut client = server.connect();
    let job = format!(r#"{{"p":"{}"}}"#, "x".repeat(10_000));
    let accepted = (1..200).take_while(|&id| {
        let answer = client.ask(&put("q", 1, &job));
        let refused = answer.contains("--max-memory");
        assert!(refused || number(&answer, "id") == id, "{answer}");
        !refused
    });
    let accepted = accepted.count();
    assert!((90..105).contains(&accepted), "{accepted} jobs of 10 kB in 1 MiB");
    server.wait_for_log("puts are refused");
    drop(server);

    // With the same limit it starts.
    drop(serve(&dir, &["--max-memory", "1MiB"]));

    let flags = ["serve", "--listen", ":0", "--http", "off", "--data", dir.text()];
    let output = Program::output(&[&flags[..], &["--max-memory", "256KiB"]].concat(), &[]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("more memory than the 262144 bytes of --max-memory"), "{text}");

    let server = serve(&dir, &[]);
    assert_ne!(server.connect().ask(&get("q")), NO_JOB);
}

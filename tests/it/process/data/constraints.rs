//! Constraints: read from the settings file, kept in the data directory.

use super::faults::SmallDisk;
use super::{OK, serve};
use crate::support::{NO_JOB, Program, TempDir, delete, get, number, put, wait};

const FILE: &str = "[[constraint]]\nname = 'one'\nmatcher = [['name', '=', 'q*']]\n\
                    max_running = 1\nper = 'argument.host'\n";

#[test]
fn constraint_of_the_config_file_applies_and_is_journaled() {
    let dir = TempDir::new();
    let file = dir.path().with_extension("toml");
    std::fs::write(&file, FILE).unwrap();
    let server = serve(&dir, &["--config", file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
    let mut client = server.connect();
    let ids = [1, 1, 2, 1].map(|host| {
        let job = format!(r#"{{"host":"h{host}"}}"#);
        number(&client.ask(&put("queue", 7, &job)), "id")
    });
    assert_eq!(number(&client.ask(&get("queue")), "id"), ids[0]);
    assert_eq!(number(&client.ask(&get("queue")), "id"), ids[2], "another host");
    assert_eq!(client.ask(&get("queue")), NO_JOB);
    let mut waiting = server.connect();
    waiting.send(&wait("queue"));
    client.settle();
    assert_eq!(client.ask(&delete(ids[0])), OK);
    assert_eq!(number(&waiting.receive(), "id"), ids[1]);
    drop(server);

    // Without the file.
    let server = serve(&dir, &[]);
    let mut client = server.connect();
    assert_eq!(number(&client.ask(&get("queue")), "id"), ids[1]);
    assert_eq!(number(&client.ask(&get("queue")), "id"), ids[2]);
    assert_eq!(client.ask(&get("queue")), NO_JOB);
    assert_eq!(client.ask(&delete(ids[1])), OK);
    assert_eq!(number(&client.ask(&get("queue")), "id"), ids[3]);
    drop(server);

    let output = Program::output(&["journal", "dump", dir.text()], &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    let shown = r#""name":"one","constraint":{"matcher":[["name","=","q*"]],"max_running":1"#;
    assert_eq!(text.lines().filter(|line| line.contains(shown)).count(), 1, "{text}");
}

#[test]
fn invalid_constraint_of_the_config_file_is_named() {
    let dir = TempDir::new();
    let file = dir.path().with_extension("toml");
    std::fs::write(&file, FILE.replace("max_running = 1", "max_running = -1")).unwrap();
    let output = Program::output(&["serve", "--config", file.to_str().unwrap()], &[]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(output.status.code(), Some(2));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains("constraint 'one': field 'max_running' must be"), "{complaint}");
}

#[test]
fn server_starts_on_a_full_disk_that_has_the_constraint() {
    let Some(disk) = SmallDisk::mount(80) else {
        eprintln!("skipped: a small file system cannot be mounted here");
        return;
    };
    let dir = &disk.0;
    let file = dir.path().with_extension("toml");
    std::fs::write(&file, FILE).unwrap();
    let flags = ["--config", file.to_str().unwrap(), "--fsync", "never"];
    let server = serve(dir, &flags);
    let mut client = server.connect();
    let job = format!(r#"{{"host":"h","x":"{}"}}"#, "x".repeat(250_000));
    let mut count = 0;
    while client.ask(&put("queue", 1, &job)).contains("ok") {
        count += 1;
        assert!(count < 400, "more than there is room for");
    }
    drop(server);
    // Once after a crash, once after an orderly end.
    for _ in 0..2 {
        let mut server = serve(dir, &flags);
        server.wait_for_log(&format!(r#""jobs":{count}"#));
        let mut client = server.connect();
        assert!(client.ask(&get("queue")).contains("ok"));
        assert_eq!(client.ask(&get("queue")), NO_JOB, "it holds");
        server.signal("TERM");
        assert_eq!(server.wait().code(), Some(0));
    }
    std::fs::remove_file(&file).unwrap();
}

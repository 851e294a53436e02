//! Directories that no server can use, and disks that fail while one runs.

use super::{OK, serve};
use crate::support::{
    Client, NO_JOB, Program, Server, TempDir, delete, get, number, plain_command, put, until,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Starts a server that must refuse to run; returns what it says.
pub(super) fn refusal(dir: &str) -> String {
    let output = Program::output(&["serve", "--listen", ":0", "--data", dir], &[]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(!text.contains("listening"), "{text}");
    text
}

#[test]
fn directory_in_use_is_rejected() {
    let dir = TempDir::new();
    let server = serve(&dir, &[]);
    let text = refusal(dir.text());
    assert!(text.contains("another process uses this directory"), "{text}");
    assert!(text.contains(dir.text()), "{text}");
    // Nor if the lock file was taken for one that a dead server has left.
    fs::remove_file(dir.path().join("lock")).unwrap();
    let text = refusal(dir.text());
    assert!(text.contains("another process uses this directory"), "{text}");
    assert!(text.contains(&format!("process {}", server.pid())), "{text}");
    server.connect().settle();
}

#[test]
fn path_that_is_no_directory_is_rejected() {
    let dir = TempDir::new();
    fs::write(dir.path(), "text").unwrap();
    for wrong in [dir.text().to_owned(), format!("{}/below", dir.text())] {
        let text = refusal(&wrong);
        assert!(text.contains(&wrong), "{text}");
    }
    assert_eq!(fs::read(dir.path()).unwrap(), b"text");
    fs::remove_file(dir.path()).unwrap();
}

#[test]
fn unwritable_directory_is_rejected() {
    let dir = TempDir::new();
    fs::create_dir(dir.path()).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let mut command = plain_command(Program::PATH);
    if fs::write(dir.path().join("probe"), "").is_ok() {
        // We may do everything; the server must not.
        fs::remove_file(dir.path().join("probe")).unwrap();
        command = plain_command("setpriv");
        command.args(["--bounding-set=-dac_override,-dac_read_search", Program::PATH]);
    }
    command.args(["serve", "--listen", ":0", "--data", dir.text()]);
    let Ok(output) = command.output() else {
        eprintln!("skipped: there is no setpriv to give up privileges with");
        return;
    };
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(dir.text()) && text.contains("ermission denied"), "{text}");
}

/// Waits for the end of a server whose disk has failed.
fn fails(server: &mut Server, words: &str) {
    assert_eq!(server.wait().code(), Some(1), "{:?}", server.log_lines());
    until(words, || {
        let lines = server.log_lines();
        lines.iter().any(|line| line.contains("ERROR") && line.contains(words))
    });
}

#[test]
fn failed_write_stops_every_reply() {
    std::thread::scope(|scope| {
        for mode in ["always", "never"] {
            scope.spawn(move || replies_stop_at_a_failed_write(mode));
        }
    });
}

fn replies_stop_at_a_failed_write(mode: &str) {
    let dir = TempDir::new();
    let mut command = plain_command("sh");
    // A write beyond the limit is an error then, and no signal.
    let script = "trap '' XFSZ; exec \"$@\"";
    command.args(["-c", script, "sh", Program::PATH, "serve", "--listen", ":0"]);
    command.args(["--log-format", "json", "--fsync", mode, "--data", dir.text()]);
    let mut server = Server::spawn(command);
    let mut client = server.connect();
    let kept = number(&client.ask(&put("q", 1, "{}")), "id");
    until("two segments", || dir.segments().len() == 2);
    let limit = Command::new("prlimit")
        .args(["--fsize=64:64", "--pid", &server.pid().to_string()])
        .status();
    if !limit.is_ok_and(|status| status.success()) {
        eprintln!("skipped: there is no prlimit to make writes fail with");
        return;
    }
    client.send(&put("q", 1, r#"{"lost":1}"#));
    assert_eq!(client.receive_all(), "", "{mode}: nothing is promised any more");
    fails(&mut server, "cannot write");
    let server = serve(&dir, &[]);
    let mut client = server.connect();
    assert_eq!(number(&client.ask(&get("q")), "id"), kept);
    assert_eq!(client.ask(&get("q")), NO_JOB);
}

/// A file system in memory, of `mib` MiB.
pub(super) struct SmallDisk(pub(super) TempDir);

impl SmallDisk {
    pub(super) fn mount(mib: usize) -> Option<Self> {
        let dir = TempDir::new();
        fs::create_dir(dir.path()).unwrap();
        let size = format!("size={mib}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "jobcentre-test", dir.text()])
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the server may not be quite gone.
        let _ = Command::new("umount").args(["-l", self.0.text()]).status();
    }
}

/// Puts a job until the disk is full, and adds the ids of those that were taken.
fn put_until_refused(client: &mut Client, job: &str, ids: &mut Vec<u64>) {
    loop {
        let reply = client.ask(&put("q", 1, job));
        if reply.contains("error") {
            assert!(reply.contains("disk is full"), "{reply}");
            return;
        }
        ids.push(number(&reply, "id"));
        assert!(ids.len() < 400, "more than there is room for");
    }
}

#[test]
fn full_disk_rejects_only_puts() {
    let Some(disk) = SmallDisk::mount(40) else {
        eprintln!("skipped: a small file system cannot be mounted here");
        return;
    };
    let dir = &disk.0;
    let server = serve(dir, &["--fsync", "never"]);
    let mut client = server.connect();
    let job = format!(r#"{{"x":"{}"}}"#, "x".repeat(250_000));
    let mut ids = Vec::new();
    put_until_refused(&mut client, &job, &mut ids);
    assert!(ids.len() > 100, "refused after {} jobs: most of the disk is left", ids.len());
    server.wait_for_log("puts are refused");
    let lines = server.log_lines();
    let refusals: Vec<_> = lines.iter().filter(|line| line.contains("refused")).collect();
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    assert!(refusals[0].contains("WARN") && refusals[0].contains("bytes are free and"));
    drop(server);

    // All the jobs are there, and the disk is full but for what the killed server had prepared.
    let server = serve(dir, &["--fsync", "always"]);
    server.wait_for_log(&format!(r#""jobs":{}"#, ids.len()));
    let mut client = server.connect();
    let first = client.ask(&get("q"));
    assert!(first.contains(&job));
    assert_eq!(number(&first, "id"), ids[0]);
    put_until_refused(&mut client, &job, &mut ids);
    server.wait_for_log("puts are refused");
    for &id in &ids {
        assert_eq!(client.ask(&delete(id)), OK);
    }
    until("space for a job", || client.ask(&put("q", 1, &job)).contains("ok"));
    server.wait_for_log("there is space again");
    drop(server);
    let server = serve(dir, &[]);
    server.wait_for_log(r#""jobs":1"#);
}

#[test]
fn too_small_disk_is_named_at_the_start() {
    let Some(disk) = SmallDisk::mount(1) else {
        eprintln!("skipped: a small file system cannot be mounted here");
        return;
    };
    let server = serve(&disk.0, &[]);
    server.wait_for_log("there is too little space");
    let lines = server.log_lines();
    let line = lines.iter().find(|line| line.contains("too little space")).unwrap();
    let json: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!((&json["level"], &json["dir"]), (&"WARN".into(), &disk.0.text().into()));
    assert_eq!(
        (&json["free_bytes"], &json["needed_bytes"]),
        (&(1 << 20).into(), &(4 << 20).into())
    );
    server.connect().settle();
}

//! `jobcentre import-binlog`: what becomes of the jobs, and what it says of a binlog that it does
//! not import.

mod damage;
mod writer;

use crate::support::{Program, Server, TIMEOUT, TempDir, delete, plain_command, put};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use writer::{Binlog, Job, State};

/// Runs `import-binlog`, which must end with this status; returns what it prints, or says.
fn import(arguments: &[&str], status: i32) -> String {
    let output = Program::output(&[&["import-binlog"], arguments].concat(), &[]);
    let (text, complaint) = [output.stdout, output.stderr].map(String::from_utf8).into();
    let (text, complaint) = (text.unwrap(), complaint.unwrap());
    assert_eq!(output.status.code(), Some(status), "{text}{complaint}");
    assert_eq!(complaint.is_empty(), status == 0, "{complaint}");
    text + &complaint
}

/// Imports one directory into another one.
fn import_into(binlog: &Binlog, data: &TempDir, flags: &[&str], status: i32) -> String {
    import(&[&[binlog.text(), "--data", data.text()], flags].concat(), status)
}

/// The records of a data directory.
fn dump(data: &TempDir) -> Vec<Value> {
    let output = plain_command(Program::PATH).args(["journal", "dump", data.text()]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// This field of each record.
fn of(records: &[Value], field: &str) -> Vec<Value> {
    records.iter().map(|record| record[field].clone()).collect()
}

/// A binlog of three jobs in one tube.
fn small() -> Binlog {
    let binlog = Binlog::new();
    for id in [3, 4, 7] {
        binlog.put(&Job { id, ..Job::default() }, b"abc");
    }
    binlog
}

#[test]
fn jobs_keep_what_the_binlog_tells_of_them() {
    let (mut binlog, long) = (Binlog::new(), vec![b'x'; 65_535]);
    let day_ms = 86_400_000;
    let now = writer::now_ms();
    let delayed = Job { id: 2, tube: "t-1", state: State::Delayed, delay_s: 9, ..Job::default() };
    let delayed = Job { deadline_ms: now + day_ms, created_ms: now - day_ms, ..delayed };
    binlog.put(&delayed, b"\0\r\n\xff");
    binlog.put(&Job { id: 5, pri: 4_294_967_295, ttr_s: 4_294_967_295, ..Job::default() }, b"");
    let over = Job { id: 6, state: State::Delayed, deadline_ms: now - 1, ..Job::default() };
    binlog.put(&over, b"over");
    binlog.put(&Job { id: 7, ..Job::default() }, b"deleted");
    binlog.change(&Job { id: 7, state: State::Deleted, ..Job::default() }, b"deleted");
    binlog.put(&Job { id: 8, state: State::Reserved, timeouts: 2, ..Job::default() }, b"{}");
    binlog.put(&Job { id: 9, ..Job::default() }, &long);
    binlog.next_file();
    // Changed by a record in another file.
    binlog.change(&Job { id: 9, pri: 3, ..Job::default() }, &long);
    // The job is in a file that is gone.
    binlog.change(&Job { id: 1, state: State::Deleted, ..Job::default() }, b"gone");
    let data = TempDir::new();
    let text = import_into(&binlog, &data, &[], 0);
    assert!(text.contains("jobs       5: 4 ready, 1 delayed, 0 buried\n"), "{text}");
    assert!(text.contains("next id    10\n") && text.contains("as they were"), "{text}");

    let records = dump(&data);
    assert_eq!(of(&records, "id"), [2, 5, 6, 8, 9]);
    let (queue, other) = (json!("default"), json!("t-1"));
    assert_eq!(of(&records, "queue"), [&other, &queue, &queue, &queue, &queue].map(Clone::clone));
    assert_eq!(
        of(&records, "pri"),
        [json!(-10), json!(-4_294_967_295_i64), json!(-10), json!(-10), json!(-3)]
    );
    let ttr = json!(60_000);
    let longest = json!(4_294_967_295_000_u64);
    assert_eq!(of(&records, "ttr_ms"), [&ttr, &longest, &ttr, &ttr, &ttr].map(Clone::clone));
    assert_eq!(records[0]["job"]["payload"], "AA0K/w==");
    assert_eq!(records[3]["attempts"], 2);
    let state = of(&records, "state");
    assert_eq!(
        (&state[0], &state[2], &state[3]),
        (&json!("delayed"), &json!("waiting"), &state[1])
    );
    assert!(records[0]["until"].as_str().unwrap() > writer::iso(now + day_ms - 1000).as_str());

    // No id of the binlog is given out again.
    let server = Server::start(&["--data", data.text()]);
    let mut client = server.connect();
    assert_eq!(client.ask(&put("q", 1, "{}")), r#"{"status":"ok","id":10}"#);
    assert_eq!(client.ask(&delete(5)), r#"{"status":"ok"}"#);
}

#[test]
fn buried_jobs_keep_the_order_of_burying() {
    let mut binlog = Binlog::new();
    let job = |id, state, buries| Job { id, buries, state, ..Job::default() };
    for id in [1, 2, 3, 4] {
        binlog.put(&job(id, State::Ready, 0), b"abc");
    }
    for id in [3, 1, 4, 2] {
        binlog.change(&job(id, State::Buried, 1), b"abc");
    }
    // Kicked and buried again: the last one. Moved into another file: where it was.
    binlog.change(&job(3, State::Ready, 1), b"abc");
    binlog.change(&job(3, State::Buried, 2), b"abc");
    binlog.next_file();
    binlog.put(&job(4, State::Buried, 1), b"abc");
    // Their burials were in files that are gone: before all others, as they were reserved.
    let moved = |id, reserved_ms: u64| Job {
        deadline_ms: reserved_ms + 60_000,
        ..job(id, State::Buried, 1)
    };
    binlog.put(&moved(5, 2_000), b"abc");
    binlog.put(&moved(6, 1_000), b"abc");
    // The change comes before the copy.
    binlog.change(&job(7, State::Buried, 1), b"abc");
    binlog.change(&job(2, State::Buried, 1), b"abc");
    binlog.put(&job(7, State::Buried, 1), b"abc");
    let data = TempDir::new();
    import_into(&binlog, &data, &[], 0);
    let order = [6, 5, 1, 4, 2, 3, 7];
    assert_eq!(of(&dump(&data), "id"), order);
    // So they are kicked, one by one.
    let server = Server::start(&["--data", data.text(), "--beanstalkd", ":0"]);
    let mut stream = TcpStream::connect(server.address_of("beanstalkd")).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut line = || lines.next().unwrap().unwrap();
    for id in order {
        stream.write_all(b"kick 1\r\nreserve\r\n").unwrap();
        let expected = ["KICKED 1".to_owned(), format!("RESERVED {id} 3"), "abc".to_owned()];
        assert_eq!([line(), line(), line()], expected);
    }
}

#[test]
fn second_import_is_refused_unless_ids_may_change() {
    let (binlog, data) = (small(), TempDir::new());
    import_into(&binlog, &data, &[], 0);
    let text = import_into(&binlog, &data, &[], 1);
    assert!(text.contains("given out ids up to 7") && text.contains("--new-ids"), "{text}");
    assert_eq!(of(&dump(&data), "id"), [3, 4, 7]);
    let text = import_into(&binlog, &data, &["--new-ids"], 0);
    assert!(text.contains("5 was added to each"), "{text}");
    assert_eq!(of(&dump(&data), "id"), [3, 4, 7, 8, 9, 12]);
    // Ids that are too large for the server can become smaller.
    let binlog = Binlog::new();
    binlog.put(&Job { id: u64::MAX - 9, ..Job::default() }, b"abc");
    let text = import_into(&binlog, &data, &[], 1);
    assert!(text.contains("keep their ids"), "{text}");
    import_into(&binlog, &data, &["--new-ids"], 0);
    assert_eq!(of(&dump(&data), "id"), [3, 4, 7, 8, 9, 12, 13]);
    binlog.put(&Job { id: 1, ..Job::default() }, b"abc");
    let text = import_into(&binlog, &data, &["--new-ids"], 1);
    assert!(text.contains("too far apart"), "{text}");
}

#[test]
fn jobs_join_those_of_a_data_directory() {
    let (binlog, data) = (small(), TempDir::new());
    let server = Server::start(&["--data", data.text()]);
    let mut client = server.connect();
    for id in 1..3 {
        assert_eq!(client.ask(&put("q", 1, "{}")), format!(r#"{{"status":"ok","id":{id}}}"#));
    }
    let text = import_into(&binlog, &data, &[], 1);
    assert!(text.contains("another process uses this directory"), "{text}");
    drop(server);
    import_into(&binlog, &data, &[], 0);
    assert_eq!(of(&dump(&data), "id"), [1, 2, 3, 4, 7]);
}

#[test]
fn dry_run_counts_and_puts_nothing() {
    let (binlog, data) = (small(), TempDir::new());
    binlog.put(&Job { id: 9, tube: "mail", state: State::Buried, ..Job::default() }, b"abc");
    let text = import_into(&binlog, &data, &["--dry-run"], 0);
    assert_eq!(text, import(&[binlog.text(), "--dry-run"], 0));
    for line in [
        "files      1\n",
        "records    4\n",
        "jobs       4: 3 ready, 0 delayed, 1 buried\n",
        "tubes      2\n",
        "tube       default: 3 ready, 0 delayed, 0 buried\n",
        "tube       mail: 0 ready, 0 delayed, 1 buried\n",
        "nothing was put\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!data.path().exists());
}

#[test]
fn binlog_without_jobs_makes_no_data_directory() {
    let (binlog, data) = (Binlog::new(), TempDir::new());
    binlog.change(&Job { id: 1, state: State::Deleted, ..Job::default() }, b"gone");
    let text = import_into(&binlog, &data, &[], 0);
    assert!(text.contains("no job is left"), "{text}");
    assert!(!data.path().exists());
}

/// Writes fail as on a full disk: a new data directory is there whole or not at all.
#[test]
fn import_that_ends_early_leaves_no_data_directory() {
    let (binlog, data) = (small(), TempDir::new());
    let mut command = plain_command("sh");
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$@\"";
    command.args(["-c", script, "sh", Program::PATH, "import-binlog", binlog.text()]);
    let output = command.args(["--data", data.text()]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(!data.path().exists(), "{text}");
    import_into(&binlog, &data, &[], 0);
    assert_eq!(of(&dump(&data), "id"), [3, 4, 7]);
    let staging = format!("{}.import", data.text());
    assert!(!std::path::Path::new(&staging).exists());
}

//! Every kind of stdin and stdout.

use super::driver::{Lines, Processor, add, assigned, by_shell, command, idle, lines, list, rest};
use crate::support::{Client, TIMEOUT, TempDir, until};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

/// Jobs and as many workers, so that each is assigned one.
fn pairs(count: usize) -> String {
    let mut text = String::new();
    for number in 0..count {
        writeln!(text, "{}", add("q", &format!("j{number}"))).unwrap();
        writeln!(text, "{}", idle("q", &format!("w{number}"))).unwrap();
    }
    text
}

/// Whether this is what [`pairs`] lead to, each line once and whole.
fn check_pairs(lines: &[String], count: usize) {
    assert_eq!(lines.len(), count);
    for (number, line) in lines.iter().enumerate() {
        let message: Value = serde_json::from_str(line).unwrap();
        assert_eq!(assigned(&message), (format!("w{number}"), format!("j{number}")));
    }
}

fn lines_of(path: &std::path::Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

fn messages(log: &[Value], level: &str) -> Vec<String> {
    let of_level = log.iter().filter(|line| line["log_level"] == level);
    of_level.map(|line| line["log_message"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn stdin_and_stdout_may_be_files() {
    let dir = TempDir::new();
    std::fs::create_dir_all(dir.path()).unwrap();
    let (from, to) = (dir.path().join("in"), dir.path().join("out"));
    std::fs::write(&from, pairs(5_000)).unwrap();
    let mut command = command(&[]);
    command.stdin(File::open(&from).unwrap()).stdout(File::create(&to).unwrap());
    let mut processor = Processor::spawn(command);
    let (status, log) = processor.wait();
    assert_eq!(status.code(), Some(0), "{log:?}");
    check_pairs(&lines_of(&to), 5_000);
}

#[test]
fn empty_stdin_is_a_successful_run() {
    for redirection in ["</dev/null", "<&-"] {
        let mut command = by_shell(redirection, &[]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut processor = Processor::spawn(command);
        let stdout = lines(processor.child.stdout.take().unwrap());
        assert_eq!(rest(&stdout), Vec::<String>::new());
        let (status, log) = processor.wait();
        assert_eq!(status.code(), Some(0), "{redirection}: {log:?}");
    }
}

#[test]
fn unreadable_stdin_is_an_error() {
    for redirection in ["</", "0>/dev/null"] {
        let mut command = by_shell(redirection, &[]);
        command.stdout(Stdio::piped());
        let (status, log) = Processor::spawn(command).wait();
        assert_eq!(status.code(), Some(1), "{redirection}: {log:?}");
        assert!(messages(&log, "ERROR")[0].contains("stdin cannot be read"), "{log:?}");
    }
}

#[test]
fn stdin_and_stdout_may_be_sockets() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = command(&[]);
    command.stdin(OwnedFd::from(theirs.try_clone().unwrap())).stdout(OwnedFd::from(theirs));
    let mut processor = Processor::spawn(command);
    let mut sending = ours.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        sending.write_all(pairs(5_000).as_bytes()).unwrap();
        sending.shutdown(std::net::Shutdown::Write).unwrap();
    });
    check_pairs(&rest(&lines(ours)), 5_000);
    sender.join().unwrap();
    assert_eq!(processor.wait().0.code(), Some(0));
}

#[test]
fn socket_closed_by_its_peer_is_a_closed_stdout() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = command(&[]);
    command.stdin(Stdio::piped()).stdout(OwnedFd::from(theirs));
    let mut processor = Processor::spawn(command);
    drop(ours);
    let (status, log) = processor.wait();
    assert_eq!(status.code(), Some(1));
    assert!(messages(&log, "ERROR")[0].contains("stdout cannot be written"), "{log:?}");
}

#[test]
fn named_pipe_works_as_a_pipe() {
    let dir = TempDir::new();
    std::fs::create_dir_all(dir.path()).unwrap();
    let path = dir.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    // Opened for both, so that neither side waits for the other.
    let open = || File::options().read(true).write(true).open(&path).unwrap();
    let (mut writer, stdin) = (open(), open());
    let mut command = command(&[]);
    command.stdin(Stdio::from(stdin)).stdout(Stdio::piped());
    let mut processor = Processor::spawn(command);
    let stdout = lines(processor.child.stdout.take().unwrap());
    writer.write_all(pairs(2).as_bytes()).unwrap();
    let got: Vec<String> = (0..2).map(|_| stdout.recv_timeout(TIMEOUT).unwrap()).collect();
    check_pairs(&got, 2);
    processor.signal("TERM");
    assert_eq!(processor.wait().0.code(), Some(0));
}

/// Jobs that are assigned behind a flood.
const ASSIGNED: usize = 5_000;

/// Asks for far more than any buffer takes, and reads nothing before `begin`.
fn flood(count: usize, begin: impl FnOnce(&Processor)) {
    let mut piped = Processor::start_unread(&[]);
    let jobs: String = (0..200).map(|number| add("jobs", &number.to_string()) + "\n").collect();
    let mut input = piped.stdin;
    let asking = std::thread::spawn(move || {
        input.write_all(jobs.as_bytes()).unwrap();
        let question = list("list_job_queue", "jobs") + "\n";
        for _ in 0..count {
            input.write_all(question.as_bytes()).unwrap();
        }
        input.write_all(pairs(ASSIGNED).as_bytes()).unwrap();
    });
    begin(&piped.processor);
    let stdout = BufReader::new(piped.stdout);
    let mut got: Vec<String> = Vec::new();
    for (number, line) in stdout.lines().map(Result::unwrap).enumerate() {
        if number >= count {
            got.push(line);
            continue;
        }
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["payload"].as_array().unwrap().len(), 200);
    }
    check_pairs(&got, ASSIGNED);
    asking.join().unwrap();
    assert_eq!(piped.processor.wait().0.code(), Some(0));
}

#[test]
fn slow_reader_gets_every_message_and_memory_is_bounded() {
    // Each answer has more than 5 KB.
    const ANSWERS: usize = 6_000;
    flood(ANSWERS, |processor| {
        processor.wait_for_log("serving");
        // The pipe of stdin gets full, and stays so.
        let mut before = 0;
        until("a processor at rest", || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            let used = cpu_ticks(processor);
            used == std::mem::replace(&mut before, used)
        });
        if let Some(peak) = processor.peak_memory() {
            assert!(peak < 40_000, "{peak} KiB for unread output");
        }
    });
}

/// Time of processors that it has used, in ticks of the system; 0 where that is not known.
fn cpu_ticks(processor: &Processor) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", processor.child.id()));
    let Ok(stat) = stat else { return 0 };
    let behind = stat.rsplit_once(')').unwrap().1;
    behind.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}

#[test]
fn closed_stdout_ends_the_run_and_keeps_the_jobs() {
    let dir = TempDir::new();
    let mut command = by_shell(">&-", &["--data", dir.text()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut processor = Processor::spawn(command);
    // The server may have gone before it is written to.
    let _ = processor.child.stdin.take().unwrap().write_all(add("q", "a").as_bytes());
    let (status, log) = processor.wait();
    assert_eq!(status.code(), Some(1), "{log:?}");
    assert!(messages(&log, "ERROR")[0].contains("stdout cannot be written"), "{log:?}");
    assert!(messages(&log, "INFO").iter().any(|line| line.contains("closed the data directory")));
}

#[test]
fn stdout_to_dev_null_is_no_error() {
    let mut command = by_shell(">/dev/null", &[]);
    command.stdin(Stdio::piped());
    let mut processor = Processor::spawn(command);
    processor.child.stdin.take().unwrap().write_all(pairs(100).as_bytes()).unwrap();
    let (status, log) = processor.wait();
    assert_eq!(status.code(), Some(0), "{log:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn stdout_on_a_full_disk_is_reported() {
    let mut command = by_shell(">/dev/full", &[]);
    command.stdin(Stdio::piped());
    let mut processor = Processor::spawn(command);
    processor.child.stdin.take().unwrap().write_all(pairs(1).as_bytes()).unwrap();
    let (status, log) = processor.wait();
    assert_eq!(status.code(), Some(1), "{log:?}");
    assert!(messages(&log, "ERROR")[0].contains("No space left"), "{log:?}");
}

#[test]
fn broken_pipe_ends_the_run_and_keeps_queued_jobs() {
    // While it is idle, and while it has something to say.
    for busy in [false, true] {
        let dir = TempDir::new();
        let mut piped = Processor::start_unread(&["--data", dir.text()]);
        piped.stdin.write_all(format!("{}\n", add("q", "kept")).as_bytes()).unwrap();
        piped.stdin.write_all(format!("{}\n", list("list_job_queue", "q")).as_bytes()).unwrap();
        let mut answer = String::new();
        let mut stdout = BufReader::new(piped.stdout);
        stdout.read_line(&mut answer).unwrap();
        assert!(answer.contains("kept"), "{answer}");
        if busy {
            piped.processor.signal("STOP");
            piped.stdin.write_all(pairs(1).as_bytes()).unwrap();
        }
        drop(stdout);
        if busy {
            piped.processor.signal("CONT");
        }
        let (status, log) = piped.processor.wait();
        assert_eq!(status.code(), Some(1), "{log:?}");
        let errors = messages(&log, "ERROR");
        assert!(errors[0].contains("stdout cannot be written"), "{errors:?}");
        assert!(messages(&log, "INFO").iter().any(|line| line.contains("closed the data")));
        drop(piped.stdin);

        let mut again = Processor::start(&["--data", dir.text()]);
        let jobs = again.list("list_job_queue", "q");
        let kept = jobs.as_array().unwrap().iter().any(|job| job["uuid"] == "kept");
        assert!(kept, "{jobs}");
    }
}

fn http(processor: &Processor) -> std::net::SocketAddr {
    let line = processor.wait_for_log("listening");
    let address = line.split_once("address=").unwrap().1;
    address.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn other_listeners_outlive_the_end_of_input() {
    let mut piped = Processor::start(&["--http", ":0"]);
    let address = http(&piped.processor);
    piped.send(&add("q", "a"));
    assert_eq!(piped.list("list_job_queue", "q")[0]["uuid"], "a");
    drop(piped.stdin);
    assert!(end_comes(&piped.stdout), "the reader of stdout gets its end");
    piped.processor.wait_for_log("the other protocols stay open");
    let mut client = Client::connect(address);
    client.send_bytes(b"GET /processor/q HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let answer = client.receive_all();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"a\""), "{answer}");
    piped.processor.signal("TERM");
    assert_eq!(piped.processor.wait().0.code(), Some(0));
}

fn end_comes(lines: &Lines) -> bool {
    lines.recv_timeout(TIMEOUT) == Err(std::sync::mpsc::RecvTimeoutError::Disconnected)
}

#[test]
fn no_other_listener_is_opened_by_default() {
    let mut piped = Processor::start(&[]);
    assert_eq!(piped.list("list_worker_queue", "q"), json!([]));
    let (_, _, log) = piped.finish();
    assert!(!messages(&log, "INFO").iter().any(|line| line.contains("listening")), "{log:?}");
}

#[test]
fn signal_ends_the_run_although_stdout_is_not_read() {
    let mut piped = Processor::start_unread(&[]);
    // More than the pipe takes, and less than stops it from being served.
    piped.stdin.write_all(pairs(400).as_bytes()).unwrap();
    piped.processor.wait_for_log("serving");
    piped.processor.signal("TERM");
    let (status, log) = piped.processor.wait();
    assert_eq!(status.code(), Some(0), "{log:?}");
    assert!(messages(&log, "WARN").iter().any(|line| line.contains("in time")), "{log:?}");
    let mut text = String::new();
    piped.stdout.read_to_string(&mut text).unwrap();
    assert!(text.lines().count() > 10);
}

//! Very many messages through one pipe, in bounded memory.

use super::driver::{Processor, add, assigned, idle, list, says};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};

/// Jobs with five messages each, this many at a time.
const ROUNDS: usize = 50;
const JOBS: usize = 500;
const WORKERS: usize = 50;

/// All messages of a round: workers take one job after the other, before they have finished any.
fn round(number: usize) -> String {
    let mut text = String::new();
    for job in 0..JOBS {
        writeln!(text, "{}", add("q", &format!("{number}/{job}"))).unwrap();
    }
    for job in 0..JOBS {
        let (uuid, worker) = (format!("{number}/{job}"), format!("w{}", job % WORKERS));
        writeln!(text, "{}", idle("q", &worker)).unwrap();
        let about = json!({"uuid": uuid});
        writeln!(text, "{}", says(&worker, "job_accepted", "q", &about)).unwrap();
        writeln!(
            text,
            "{}",
            says(
                &worker,
                "worker_progress",
                "q",
                &json!({
                    "uuid": uuid, "status": {"progress": 0.5}
                })
            )
        )
        .unwrap();
    }
    for job in 0..JOBS {
        let (uuid, worker) = (format!("{number}/{job}"), format!("w{}", job % WORKERS));
        writeln!(text, "{}", says(&worker, "job_finished", "q", &json!({"uuid": uuid}))).unwrap();
    }
    text
}

#[test]
fn memory_is_bounded_over_a_hundred_thousand_messages() {
    let mut piped = Processor::start_unread(&[]);
    let mut input = piped.stdin;
    let writer = std::thread::spawn(move || {
        for number in 0..ROUNDS {
            input.write_all(round(number).as_bytes()).unwrap();
        }
        for what in ["list_job_queue", "list_progress_queue", "list_dispatched_queue"] {
            input.write_all(format!("{}\n", list(what, "q")).as_bytes()).unwrap();
        }
        // Not before the last answer is known to have come.
        input
    });
    let (mut jobs, mut early, mut lists) = (Vec::new(), None, Vec::new());
    for line in BufReader::new(&mut piped.stdout).lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if message["topic"].as_str().unwrap().ends_with("/result") {
            lists.push(message["payload"].clone());
            if lists.len() == 3 {
                break;
            }
            continue;
        }
        jobs.push(assigned(&message).1);
        if jobs.len() == 5 * JOBS {
            early = piped.processor.peak_memory();
        }
    }
    let late = piped.processor.peak_memory();
    drop(writer.join().unwrap());
    assert_eq!(lists, [json!([]), json!([]), json!([])], "every job was finished");
    let expected = (0..ROUNDS).flat_map(|round| (0..JOBS).map(move |job| format!("{round}/{job}")));
    assert!(jobs.into_iter().eq(expected), "each job was assigned once, in order");
    let (status, log) = piped.processor.wait();
    assert_eq!(status.code(), Some(0));
    let errors = log.iter().filter(|line| line["log_level"] == "ERROR").count();
    assert_eq!(errors, 0, "{:?}", log.iter().find(|line| line["log_level"] == "ERROR"));
    if let (Some(early), Some(late)) = (early, late) {
        assert!(late < early + 8_000, "{early} KiB after a tenth, {late} KiB at the end");
    }
}
